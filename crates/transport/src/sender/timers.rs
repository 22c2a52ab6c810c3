//! Timers, one at a time as in the kernel (`icsk_pending`), and the handshake.
//!
//! Source: Linux `net/ipv4/tcp_timer.c`, `tcp_rearm_rto`, `tcp_schedule_loss_probe`, `tcp_rack_reo_timeout`.

use super::state::State;
use super::{Counters, Sender};
use crate::handshake::HandshakeResult;
use crate::rto::{INITIAL_RTO, LEAST_RTO_MAX};
use crate::stats::FlowEvent;
use crate::tlp;
use crate::wire::{Ack, Segment, SegmentEcn};
use bentpipe_profile::experiment::EcnMode;
use bentpipe_profile::{Nanos, Time};

/// SYN retransmissions one second apart; the intervals of later ones double (`tcp_syn_linear_timeouts`).
const LINEAR_SYN_TIMEOUTS: u32 = 4;

/// Delay of a retransmission timer that is already overdue when it is rearmed (`tcp_rearm_rto`).
const TIMER_MIN: Nanos = Nanos::from_micros(1);

/// State of the handshake.
#[derive(Clone, Copy, Debug)]
pub(super) enum Handshake {
    /// The connection is not open.
    Closed,
    /// A SYN is due; this many were sent before.
    Due(u32),
    /// The SYN was sent.
    Sent { at: Time, retransmit_at: Time, count: u32 },
    /// The SYN-ACK arrived.
    Done,
}

/// Purpose of the timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Retransmission,
    TailProbe,
    Reordering,
    /// A probe of a closed receive window (`ICSK_TIME_PROBE0`).
    WindowProbe,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Timer {
    pub purpose: Purpose,
    pub at: Time,
}

/// Segment to send next regardless of window and pacing.
#[derive(Clone, Copy, Debug)]
pub(super) enum Forced {
    /// The first packet outstanding, after a time-out.
    Head,
    /// A tail loss probe.
    Probe,
    /// A probe of a closed receive window.
    WindowProbe,
}

impl Sender {
    /// Open the connection: a SYN is due.
    pub fn open(&mut self, now: Time) {
        if matches!(self.handshake, Handshake::Closed) {
            self.handshake = Handshake::Due(0);
            self.last_sent_at = now;
        }
    }

    /// Time at which to call [`Self::on_wake`] and [`Self::poll_transmit`], unless an acknowledgement comes first.
    #[must_use]
    #[inline]
    pub fn wake_at(&self) -> Option<Time> {
        match self.handshake {
            Handshake::Sent { retransmit_at, .. } => Some(retransmit_at),
            _ => match (self.timer, self.pacing_wake) {
                (Some(timer), Some(pacing)) => Some(timer.at.min(pacing)),
                (timer, pacing) => timer.map(|t| t.at).or(pacing),
            },
        }
    }

    /// Run the timer that is due, if any.
    pub fn on_wake(&mut self, now: Time) {
        if let Handshake::Sent { retransmit_at, count, .. } = self.handshake
            && retransmit_at <= now
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
            Purpose::WindowProbe => {
                self.timer = None;
                if self.scoreboard.head().is_none() {
                    self.forced = Some(Forced::WindowProbe);
                }
            }
        }
    }

    /// Arm the probe of the receive window if data waits for it and no acknowledgement is to come (`tcp_check_probe_timer`).
    pub(super) fn arm_window_probe(&mut self, now: Time) {
        if self.timer.is_none() && self.scoreboard.head().is_none() {
            let doublings = self.window_probes.min(16);
            let wait = Nanos(self.rtt.rto().0 << doublings).min(self.config.rto_max);
            self.arm(Purpose::WindowProbe, now + wait);
        }
    }

    pub(super) fn poll_handshake(&mut self, now: Time) -> Option<Segment> {
        let Handshake::Due(before) = self.handshake else { return None };
        let doublings = before.saturating_sub(LINEAR_SYN_TIMEOUTS).min(16);
        let wait = Nanos(INITIAL_RTO.0 << doublings).min(self.config.rto_max);
        self.handshake = Handshake::Sent { at: now, retransmit_at: now + wait, count: before + 1 };
        // A retransmitted SYN requests no ECN: the request may be the reason for the drop (RFC 3168 §6.1.1.1, `tcp_ecn_fallback`).
        let requested = if before == 0 { self.config.ecn } else { EcnMode::Off };
        let ecn = SegmentEcn { requested, ..SegmentEcn::default() };
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
        // After a SYN retransmission, the echo shows which SYN was answered.
        let rtt = now.since(if count == 1 { at } else { ack.ts_ecr });
        self.establish(HandshakeResult { at: now, rtt, window: ack.window, tsval: ack.tsval, attempts: count }, ack.ecn);
    }

    /// Whether the handshake is done.
    #[must_use]
    pub const fn is_established(&self) -> bool {
        matches!(self.handshake, Handshake::Done)
    }

    /// Whether a SYN was sent and not answered yet.
    #[must_use]
    pub const fn awaits_syn_ack(&self) -> bool {
        matches!(self.handshake, Handshake::Sent { .. })
    }

    /// Begin with the result of the handshake, at its end.
    pub fn establish(&mut self, result: HandshakeResult, ecn: EcnMode) {
        let HandshakeResult { at: now, rtt, window, tsval, attempts } = result;
        self.handshake = Handshake::Done;
        self.ts_recent = tsval;
        self.ecn.agree(ecn);
        self.window_end = window.0;
        self.on_peer_window(window);
        self.min_rtt.update(now, rtt, false);
        let hosts = self.turnaround.draw();
        let rtt = self.turnaround.clock(rtt + hosts);
        self.rtt.sample(rtt, self.una, self.nxt);
        self.counters = Counters { latest_rtt: Some(rtt), fresh_rtt: Some(rtt), ..self.counters };
        self.last_sent_at = now;
        if attempts > 2 {
            self.set_window(1); // start from one packet if more than one SYN or SYN-ACK was lost (`tcp_init_transfer`)
        }
        self.controller.on_established(now, Some(rtt));
        self.sync_window();
        self.update_pacing();
        self.record_event(now, FlowEvent::Established);
        self.fill_buffer(now);
    }

    pub(super) fn arm(&mut self, purpose: Purpose, at: Time) {
        self.timer = Some(Timer { purpose, at });
    }

    fn has_timer(&self, purpose: Purpose) -> bool {
        self.timer.is_some_and(|t| t.purpose == purpose)
    }

    /// Restart the retransmission timer. If another timer had replaced it, it counts from the send time of the first packet.
    pub(super) fn rearm(&mut self, now: Time) {
        let Some(head) = self.scoreboard.head() else {
            self.timer = None;
            return;
        };
        let displaced = self.has_timer(Purpose::TailProbe) || self.has_timer(Purpose::Reordering);
        let from = if displaced { head.sent_at } else { now };
        self.arm(Purpose::Retransmission, (from + self.rtt.rto()).max(now + TIMER_MIN));
    }

    /// Rearm after new data was sent, if it is the `first` outstanding or replaces a probe timer.
    pub(super) fn rearm_after_new_data(&mut self, now: Time, first: bool) {
        if first || self.has_timer(Purpose::TailProbe) {
            self.rearm(now);
        }
    }

    /// Rearm after the first packet was retransmitted.
    pub(super) fn rearm_after_head(&mut self, now: Time) {
        if !self.has_timer(Purpose::Reordering) {
            self.arm(Purpose::Retransmission, now + self.rtt.rto());
        }
    }

    /// Arm the probe or retransmission timer after an acknowledgement made progress.
    pub(super) fn set_timer(&mut self, now: Time) {
        if !self.schedule_probe(now, true) {
            self.rearm(now);
        }
    }

    /// Arm the probe timer, unless the state forbids it. `advancing`: the retransmission timer would restart.
    pub(super) fn schedule_probe(&mut self, now: Time, advancing: bool) -> bool {
        let Some(head) = self.scoreboard.head() else { return false };
        if !matches!(self.state, State::Open | State::Cwr) {
            return false;
        }
        let timeout = now + tlp::timeout(self.rtt.srtt(), self.scoreboard.packets_out(), self.config.rto_min);
        let rto = if advancing { now } else { head.sent_at } + self.rtt.rto();
        let at = if rto > now { timeout.min(rto) } else { timeout };
        self.arm(Purpose::TailProbe, at);
        true
    }

    fn on_timeout(&mut self, now: Time) {
        self.timer = None;
        if self.scoreboard.head().is_none() {
            return;
        }
        self.enter_loss(now);
        self.timeouts_in_row += 1;
        self.counters.timeouts += 1;
        self.record_event(now, FlowEvent::Timeout(self.timeouts_in_row));
        self.bound_rto(now);
        self.rtt.back_off();
        self.arm(Purpose::Retransmission, now + self.rtt.rto());
        self.forced = Some(Forced::Head);
    }

    /// Set the largest RTO to the controller's, within what a socket may have and the host's.
    pub(super) fn bound_rto(&mut self, now: Time) {
        let wanted = self.controller.max_rto(now).map_or(self.config.rto_max, |rto| rto.max(LEAST_RTO_MAX));
        self.rtt.set_max(wanted.min(self.config.rto_max));
    }

    fn on_reordering_timer(&mut self, now: Time) {
        let lost_before = self.counters.lost;
        let in_flight = self.scoreboard.in_flight();
        self.detect_losses(now);
        if self.scoreboard.in_flight() != in_flight {
            if self.state != State::Recovery {
                self.enter_recovery(now, false);
                self.reduce(1, self.counters.lost - lost_before, false);
            }
            self.hold_retransmissions = false;
        }
        self.rearm(now);
    }
}
