//! Timers: one at a time, as in the kernel (`icsk_pending`), and the handshake.
//!
//! Source: Linux `net/ipv4/tcp_timer.c`, `tcp_rearm_rto`, `tcp_schedule_loss_probe`, `tcp_rack_reo_timeout`.

use super::recovery::State;
use super::{Counters, Sender};
use crate::rto::INITIAL_RTO;
use crate::stats::FlowEvent;
use crate::tlp;
use crate::wire::{Ack, Segment, SegmentEcn};
use bentpipe_profile::experiment::EcnMode;
use bentpipe_profile::{Nanos, Time};

/// SYN retransmissions a second apart; later ones double (`tcp_syn_linear_timeouts`).
const LINEAR_SYN_TIMEOUTS: u32 = 4;

/// A retransmission timer that is overdue when it is rearmed fires this much later (`tcp_rearm_rto`).
const TIMER_MIN: Nanos = Nanos::from_micros(1);

/// Before data flows.
#[derive(Clone, Copy, Debug)]
pub(super) enum Handshake {
    /// Nobody opened it.
    Closed,
    /// A SYN leaves next; this many left before.
    Due(u32),
    /// It left.
    Sent { at: Time, resend_at: Time, count: u32 },
    /// It was answered.
    Done,
}

/// What the timer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Retransmission,
    TailProbe,
    Reordering,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Timer {
    pub purpose: Purpose,
    pub at: Time,
}

/// What leaves next whatever window and pacing say.
#[derive(Clone, Copy, Debug)]
pub(super) enum Forced {
    /// The first packet outstanding, after a time-out.
    Head,
    /// A tail loss probe.
    Probe,
}

impl Sender {
    /// Opens the connection: the SYN is due.
    pub fn open(&mut self, now: Time) {
        if matches!(self.handshake, Handshake::Closed) {
            self.handshake = Handshake::Due(0);
            self.last_sent_at = now;
        }
    }

    /// When to call [`Self::on_wake`] and [`Self::poll_transmit`], unless an acknowledgement comes first.
    #[must_use]
    pub fn wake_at(&self) -> Option<Time> {
        match self.handshake {
            Handshake::Sent { resend_at, .. } => Some(resend_at),
            _ => self.timer.map(|t| t.at).into_iter().chain(self.pacing_wake).min(),
        }
    }

    /// A timer may be due.
    pub fn on_wake(&mut self, now: Time) {
        if let Handshake::Sent { resend_at, count, .. } = self.handshake
            && resend_at <= now
        {
            self.handshake = Handshake::Due(count);
        }
        let Some(timer) = self.timer.filter(|t| t.at <= now) else { return };
        match timer.purpose {
            Purpose::Retransmission => self.on_timeout(now),
            Purpose::TailProbe => {
                if self.probe.is_out() {
                    self.rearm(now);
                } else {
                    self.timer = None;
                    self.forced = Some(Forced::Probe);
                }
            }
            Purpose::Reordering => self.on_reordering_timer(now),
        }
    }

    pub(super) fn poll_handshake(&mut self, now: Time) -> Option<Segment> {
        let Handshake::Due(before) = self.handshake else { return None };
        let doublings = before.saturating_sub(LINEAR_SYN_TIMEOUTS).min(16);
        let wait = Nanos(INITIAL_RTO.0 << doublings).min(self.config.rto_max);
        self.handshake = Handshake::Sent { at: now, resend_at: now + wait, count: before + 1 };
        // A SYN that is retransmitted asks for nothing: what asks may be what was dropped (RFC 3168 §6.1.1.1, `tcp_ecn_fallback`).
        let ask = if before == 0 { self.config.ecn } else { EcnMode::Off };
        let ecn = SegmentEcn { ask, ..SegmentEcn::default() };
        Some(Segment {
            seq: 0,
            len: 0,
            syn: true,
            fin: false,
            push: false,
            retransmission: before > 0,
            tsval: now,
            ts_ecr: Time::ZERO,
            ecn,
        })
    }

    pub(super) fn on_syn_ack(&mut self, now: Time, ack: &Ack) {
        let Handshake::Sent { at, count, .. } = self.handshake else { return };
        self.handshake = Handshake::Done;
        self.ts_recent = ack.tsval;
        self.ecn.agree(ack.ecn);
        self.window_end = ack.window.0;
        self.sees_window(ack.window);
        // Of a SYN sent twice, the echo tells which one was answered.
        let rtt = now.since(if count == 1 { at } else { ack.ts_ecr });
        self.min_rtt.update(now, rtt, false);
        let hosts = self.turnaround.draw();
        let rtt = self.turnaround.clock(rtt + hosts);
        self.rtt.sample(rtt, self.una, self.nxt);
        self.counters = Counters { latest_rtt: Some(rtt), fresh_rtt: Some(rtt), ..self.counters };
        self.last_sent_at = now;
        if count > 2 {
            self.set_window(1); // lost more than once: one packet (`tcp_init_transfer`)
        }
        self.controller.on_established(now, Some(rtt));
        self.read_window();
        self.update_pacing();
        self.note(now, FlowEvent::Established);
        self.fill_buffer(now);
    }

    pub(super) fn arm(&mut self, purpose: Purpose, at: Time) {
        self.timer = Some(Timer { purpose, at });
    }

    fn has_timer(&self, purpose: Purpose) -> bool {
        self.timer.is_some_and(|t| t.purpose == purpose)
    }

    /// Restarts the retransmission timer; one that another timer displaced goes on from when the first packet was sent.
    pub(super) fn rearm(&mut self, now: Time) {
        let Some(head) = self.board.head() else {
            self.timer = None;
            return;
        };
        let displaced = self.has_timer(Purpose::TailProbe) || self.has_timer(Purpose::Reordering);
        let from = if displaced { head.sent_at } else { now };
        self.arm(Purpose::Retransmission, (from + self.rtt.rto()).max(now + TIMER_MIN));
    }

    /// New data left: `first` outstanding, or behind a probe timer.
    pub(super) fn rearm_after_new_data(&mut self, now: Time, first: bool) {
        if first || self.has_timer(Purpose::TailProbe) {
            self.rearm(now);
        }
    }

    /// The first packet was retransmitted.
    pub(super) fn rearm_after_head(&mut self, now: Time) {
        if !self.has_timer(Purpose::Reordering) {
            self.arm(Purpose::Retransmission, now + self.rtt.rto());
        }
    }

    /// An acknowledgement made progress.
    pub(super) fn set_timer(&mut self, now: Time) {
        if !self.schedule_probe(now, true) {
            self.rearm(now);
        }
    }

    /// Arms the probe timer, unless the state forbids it. `advancing`: the retransmission timer would start anew.
    pub(super) fn schedule_probe(&mut self, now: Time, advancing: bool) -> bool {
        let Some(head) = self.board.head() else { return false };
        if !matches!(self.state, State::Open | State::Cwr) {
            return false;
        }
        let timeout = now + tlp::timeout(self.rtt.srtt(), self.board.packets_out(), self.config.rto_min);
        let rto = if advancing { now } else { head.sent_at } + self.rtt.rto();
        let at = if rto > now { timeout.min(rto) } else { timeout };
        self.arm(Purpose::TailProbe, at);
        true
    }

    fn on_timeout(&mut self, now: Time) {
        self.timer = None;
        if self.board.head().is_none() {
            return;
        }
        self.enter_loss(now);
        self.timeouts_in_row += 1;
        self.counters.timeouts += 1;
        self.note(now, FlowEvent::Timeout(self.timeouts_in_row));
        self.rtt.back_off();
        self.arm(Purpose::Retransmission, now + self.rtt.rto());
        self.forced = Some(Forced::Head);
    }

    fn on_reordering_timer(&mut self, now: Time) {
        let lost_before = self.counters.lost;
        let in_flight = self.board.in_flight();
        self.detect_losses(now);
        if self.board.in_flight() != in_flight {
            if self.state != State::Recovery {
                self.enter_recovery(now, false);
                self.reduce(1, self.counters.lost - lost_before, false);
            }
            self.hold_retransmissions = false;
        }
        self.rearm(now);
    }
}
