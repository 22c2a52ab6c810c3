//! Loss recovery as a state machine with five states.
//!
//! ```text
//!            sacked, or retransmissions out         lost
//!   Open ───────────────────────────────► Disorder ──────► Recovery ──┐
//!    │  ◄─── all acknowledged ───────────────┘                │       │ high_seq acknowledged, or undone:
//!    ├── ECN echo ──► Cwr ── lost ────────────────────────────┤       ▼ Open
//!    └── time-out (from any) ─────────────────────────────► Loss ─────┘
//! ```
//!
//! Source: Linux 6.18 `tcp_fastretrans_alert`, `tcp_process_loss`, `tcp_enter_loss`, `tcp_enter_recovery`, `tcp_try_undo_*`
//! (`net/ipv4/tcp_input.c`); F-RTO is RFC 5682 with selective acknowledgements (§3).

use super::Sender;
use super::state::State;
use super::timers::Purpose;
use crate::prr::{Progress, Prr};
use crate::scoreboard::Scoreboard;
use crate::sent_packet::Packet;
use crate::stats::{FlowEvent, UndoCause};
use crate::tlp::TIMEOUT_MIN;
use bentpipe_cc::{Congestion, LostPacket};
use bentpipe_profile::{Bytes, Nanos, Time};

/// Signals of an acknowledgement for loss recovery.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::struct_excessive_bools)] // independent facts, not states
pub(super) struct AckSignals {
    pub prior_una: u64,
    pub una_advanced: bool,
    pub ts_ecr: Time,
    /// It acknowledges data selectively.
    pub sacked: bool,
    /// A duplicate ACK without other information.
    pub duplicate: bool,
    /// Data below `high_seq` arrived without a retransmission.
    pub original_arrived: bool,
    /// It echoes a new CE mark.
    pub ece: bool,
}

/// Whether lost packets may be retransmitted after an acknowledgement (Linux's `rexmit`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rexmit {
    /// Lost packets may be retransmitted.
    Retransmit,
    /// Retransmissions wait for the next acknowledgement.
    Hold,
}

impl Sender {
    /// Whether PRR controls the window (`tcp_in_cwnd_reduction`).
    pub(super) fn in_reduction(&self) -> bool {
        matches!(self.state, State::Cwr | State::Recovery)
    }

    pub(super) fn fastretrans_alert(&mut self, now: Time, signals: AckSignals) -> Rexmit {
        // Marks show congestion, whatever the reason of an earlier reduction (`tcp_fastretrans_alert`, A; RFC 3168 §6.1.2).
        if signals.ece {
            self.can_restore = false;
        }
        if self.state == State::Open {
            self.undo.forget_retransmissions();
        } else if self.una >= self.high_seq {
            match self.state {
                // Cwr ends only when data above high_seq is acknowledged.
                State::Cwr if self.una != self.high_seq => {
                    self.end_reduction();
                    self.set_state(now, State::Open);
                }
                State::Recovery => {
                    self.leave_recovery(now, signals.ts_ecr);
                    self.end_reduction();
                }
                _ => {}
            }
        }
        match self.state {
            State::Recovery => {
                if signals.una_advanced && self.try_undo_partial(now, signals) {
                    return Rexmit::Hold;
                }
                if self.try_undo_dsack(now) {
                    self.try_to_open(now, signals.ece);
                }
                self.identify_packet_loss(now);
                if self.state == State::Recovery || self.scoreboard.lost_out() == 0 {
                    return Rexmit::Retransmit;
                }
            }
            State::Loss => {
                let rexmit = self.process_loss(now, signals);
                let retransmissions = self.scoreboard.retrans_out();
                self.identify_packet_loss(now);
                // Start a new recovery only if the window was restored or a retransmission was lost.
                if self.state != State::Open && self.scoreboard.retrans_out() >= retransmissions {
                    return rexmit;
                }
                self.detect_losses_or_open(now, signals);
            }
            State::Open | State::Disorder | State::Cwr => self.detect_losses_or_open(now, signals),
        }
        if self.scoreboard.lost_out() > 0 {
            self.enter_recovery(now, signals.ece);
        }
        Rexmit::Retransmit
    }

    fn detect_losses_or_open(&mut self, now: Time, signals: AckSignals) {
        if self.state <= State::Disorder {
            self.try_undo_dsack(now);
        }
        self.identify_packet_loss(now);
        if self.scoreboard.lost_out() == 0 {
            self.try_to_open(now, signals.ece);
        }
    }

    fn process_loss(&mut self, now: Time, signals: AckSignals) -> Rexmit {
        let recovered = self.una >= self.high_seq;
        if signals.una_advanced
            && let Some(cause) = self.undo.cause(signals.ts_ecr)
        {
            self.undo_loss(now, cause);
            return Rexmit::Retransmit;
        }
        if self.frto {
            // Step 3.b: data never retransmitted arrived, so the time-out was spurious.
            if signals.original_arrived {
                self.undo_loss(now, UndoCause::Frto);
                return Rexmit::Retransmit;
            }
            if self.nxt > self.high_seq {
                // Step 3.a: new data was sent, and only that is SACKed: the loss was real.
                self.frto &= !(signals.sacked || signals.duplicate);
            } else if signals.una_advanced && !recovered {
                // Step 2.b: new data decides.
                self.high_seq = self.nxt;
                if self.has_new_data() && self.nxt < self.window_end {
                    return Rexmit::Hold;
                }
                self.frto = false;
            }
        }
        if recovered {
            self.leave_recovery(now, signals.ts_ecr);
        }
        Rexmit::Retransmit
    }

    /// Enter Loss after a time-out: mark old packets lost, and set cwnd to the packets in flight plus one.
    pub(super) fn enter_loss(&mut self, now: Time) {
        let due = self.loss_cutoff(now, Nanos::ZERO);
        self.mark(now, |scoreboard, lost| scoreboard.mark_timed_out(due, lost));
        let fresh = self.state <= State::Disorder || self.una >= self.high_seq || (self.state == State::Loss && self.timeouts_in_row == 0);
        let frto = self.config.frto && (self.state < State::Recovery || self.timeouts_in_row > 0);
        if fresh {
            self.can_restore = true;
            self.notify_controller(now, Congestion::Timeout);
            self.undo.begin(self.una, self.scoreboard.retrans_out());
        } else {
            self.notify_controller(now, Congestion::TimeoutAgain);
        }
        self.set_window(u64::from(self.scoreboard.in_flight()) + 1);
        self.state = State::Loss;
        self.ecn.on_reduction();
        self.high_seq = self.nxt;
        self.probe.cancel();
        self.frto = frto;
        self.hold_retransmissions = false;
        self.update_pacing();
    }

    pub(super) fn enter_recovery(&mut self, now: Time, ece: bool) {
        self.undo.begin(self.una, self.scoreboard.retrans_out());
        if self.in_reduction() {
            // PRR continues the current reduction; the window before it is not known here.
            self.can_restore = false;
        } else {
            self.can_restore = !ece;
            self.begin_reduction(now, Congestion::Loss);
        }
        self.state = State::Recovery;
        self.record_event(now, FlowEvent::RecoveryEntered);
    }

    pub(super) fn begin_reduction(&mut self, now: Time, event: Congestion) {
        self.high_seq = self.nxt;
        self.probe.cancel();
        self.prr = Prr::begin(self.cwnd);
        self.ecn.on_reduction();
        self.notify_controller(now, event);
    }

    /// Apply PRR for one acknowledgement.
    pub(super) fn reduce(&mut self, delivered: u64, lost: u64, una_advanced: bool) {
        if self.controls_recovery {
            return;
        }
        let progress = Progress { delivered, lost, una_advanced, in_flight: u64::from(self.scoreboard.in_flight()) };
        if let Some(window) = self.prr.window(progress, self.ssthresh) {
            self.set_window(window);
        }
    }

    /// Set cwnd to ssthresh at the end of a reduction.
    pub(super) fn end_reduction(&mut self) {
        if self.ssthresh != u64::MAX && (self.state == State::Cwr || self.undo.is_armed()) {
            self.set_window(self.ssthresh);
        }
    }

    /// Enter Cwr for an ECN echo, at most once per RTT.
    fn enter_cwr(&mut self, now: Time) {
        if self.state < State::Cwr {
            self.undo.end();
            self.can_restore = false;
            self.begin_reduction(now, Congestion::Ecn);
            self.state = State::Cwr;
            self.record_event(now, FlowEvent::EcnReduction);
        }
    }

    pub(super) fn set_state(&mut self, now: Time, state: State) {
        if self.state >= State::Recovery && state < State::Recovery {
            self.record_event(now, FlowEvent::RecoveryLeft);
        }
        if self.state >= State::Cwr && state < State::Cwr {
            self.notify_controller(now, Congestion::RecoveryEnd);
        }
        self.state = state;
    }

    /// Leave recovery: all data below `high_seq` is acknowledged.
    fn leave_recovery(&mut self, now: Time, ts_ecr: Time) {
        match self.undo.cause(ts_ecr) {
            Some(cause) => self.undo(now, cause),
            None => self.rack.on_recovery_ended(),
        }
        self.set_state(now, State::Open);
    }

    fn undo_loss(&mut self, now: Time, cause: UndoCause) {
        self.scoreboard.unmark_lost();
        self.undo(now, cause);
        self.timeouts_in_row = 0;
        self.set_state(now, State::Open);
    }

    /// Undo before `high_seq` is acknowledged, if the echo shows that the ACK answers an original. Returns whether this ends the processing of
    /// the ACK.
    fn try_undo_partial(&mut self, now: Time, signals: AckSignals) -> bool {
        if !self.undo.is_armed() || !self.undo.was_delayed(signals.ts_ecr) {
            return false;
        }
        self.rack.on_reordering(signals.prior_una, self.scoreboard.highest_sacked(self.una), self.config.mss);
        if self.scoreboard.retrans_out() > 0 {
            return true; // more evidence will come
        }
        if !self.scoreboard.any_retransmitted() {
            self.undo.forget_retransmissions();
        }
        self.scoreboard.unmark_lost();
        self.undo(now, UndoCause::Timestamp);
        self.try_keep_open(now);
        false
    }

    fn try_undo_dsack(&mut self, now: Time) -> bool {
        if !self.undo.all_duplicates() {
            return false;
        }
        self.rack.on_dsack_undo();
        self.undo(now, UndoCause::Dsack);
        true
    }

    fn undo(&mut self, now: Time, cause: UndoCause) {
        if self.can_restore {
            self.notify_controller(now, Congestion::Undo);
        }
        self.undo.end();
        self.rack.recheck();
        self.counters.undos += 1;
        self.record_event(now, FlowEvent::Undo(cause));
    }

    fn try_to_open(&mut self, now: Time, ece: bool) {
        if !self.scoreboard.any_retransmitted() {
            self.undo.forget_retransmissions();
        }
        if ece {
            self.enter_cwr(now);
        }
        if self.state != State::Cwr {
            self.try_keep_open(now);
        }
    }

    pub(super) fn try_keep_open(&mut self, now: Time) {
        let clean = self.scoreboard.sacked_out() + self.scoreboard.lost_out() == 0 && !self.scoreboard.any_retransmitted();
        let state = if clean { State::Open } else { State::Disorder };
        if state != self.state {
            self.set_state(now, state);
            self.high_seq = self.nxt;
        }
    }

    /// Detect losses if a packet was newly delivered, and arm the reordering timer for candidates that are not due yet; no other timer is set
    /// then. It is at most an RTO away, as Linux has it: the RTT of a packet that an outage held is the outage's.
    fn identify_packet_loss(&mut self, now: Time) {
        if !self.rack.take_advanced() {
            return;
        }
        if let Some(due) = self.detect_losses(now) {
            self.arm(Purpose::Reordering, (due + TIMEOUT_MIN).min(now + self.rtt.rto()));
            self.reordering_armed = true;
        }
    }

    /// Mark lost packets. Returns the time at which the last remaining candidate will be lost.
    pub(super) fn detect_losses(&mut self, now: Time) -> Option<Time> {
        let window = self.rack.reordering_window(
            self.state >= State::Recovery,
            self.scoreboard.sacked_out(),
            self.min_rtt.get(),
            self.rtt.srtt().unwrap_or(Nanos::ZERO),
        );
        let (newest, due) = (self.rack.newest(), self.loss_cutoff(now, window));
        let last = self.mark(now, |scoreboard, lost| scoreboard.mark_rack_losses(newest, due, lost));
        last.map(|sent_at| sent_at + self.rack.rtt() + window)
    }

    /// Return the cutoff: packets sent by then and not delivered are lost.
    fn loss_cutoff(&self, now: Time, window: Nanos) -> Option<Time> {
        now.0.checked_sub(self.rack.rtt().0)?.checked_sub(window.0).map(Time)
    }

    /// Let the scoreboard mark losses, and notify the controller of each.
    fn mark<T>(&mut self, now: Time, mark: impl FnOnce(&mut Scoreboard, &mut dyn FnMut(&Packet)) -> T) -> T {
        let mss = u64::from(self.config.mss);
        let delivered_total = self.bytes(self.rate.delivered());
        let (controller, counters) = (&mut self.controller, &mut self.counters);
        mark(&mut self.scoreboard, &mut |packet| {
            counters.lost += 1;
            controller.on_packet_lost(&LostPacket {
                now,
                seq: packet.seq,
                bytes: Bytes(u64::from(packet.len)),
                sent_at: packet.sent_at,
                tx_in_flight: Bytes(u64::from(packet.tx_in_flight) * mss),
                delivered_at_send: Bytes(packet.snapshot().delivered * mss),
                lost_at_send: Bytes(u64::from(packet.lost_before) * mss),
                lost_total: Bytes(counters.lost * mss),
                delivered_total,
                app_limited: packet.snapshot().app_limited,
            });
        })
    }
}
