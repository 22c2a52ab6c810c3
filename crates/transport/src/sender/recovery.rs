//! Loss recovery as a machine of five states.
//!
//! ```text
//!            sacked, or retransmissions out         lost
//!   Open ───────────────────────────────► Disorder ──────► Recovery ──┐
//!    │  ◄─── all acknowledged ───────────────┘                │       │ high_seq acknowledged, or undone:
//!    ├── ECN echo ──► Cwr ── lost ────────────────────────────┤       ▼ Open
//!    └── time-out (from any) ─────────────────────────────► Loss ─────┘
//! ```
//!
//! Source: Linux `tcp_fastretrans_alert`, `tcp_process_loss`, `tcp_enter_loss`, `tcp_enter_recovery`, `tcp_try_undo_*` (`net/ipv4/tcp_input.c`, 6.18);
//! F-RTO is RFC 5682 with selective acknowledgements (§3).

use super::Sender;
use super::timers::Purpose;
use crate::prr::{Progress, Prr};
use crate::scoreboard::{Packet, Scoreboard};
use crate::stats::{FlowEvent, UndoCause};
use crate::tlp::TIMEOUT_MIN;
use bentpipe_cc::{Congestion, LostPacket, RecoveryState};
use bentpipe_profile::{Bytes, Nanos, Time};

/// The state; Linux's `tcp_ca_state`, in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum State {
    Open,
    Disorder,
    /// The window comes down without a loss: ECN.
    Cwr,
    Recovery,
    Loss,
}

impl State {
    pub const fn public(self) -> RecoveryState {
        match self {
            Self::Open => RecoveryState::Open,
            Self::Disorder => RecoveryState::Disorder,
            Self::Cwr => RecoveryState::Cwr,
            Self::Recovery => RecoveryState::Recovery,
            Self::Loss => RecoveryState::Loss,
        }
    }
}

/// What recovery has to know of an acknowledgement.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::struct_excessive_bools)] // independent facts, not states
pub(super) struct Seen {
    pub prior_una: u64,
    pub una_advanced: bool,
    pub ts_ecr: Time,
    /// Something was acknowledged selectively.
    pub sacked: bool,
    /// A duplicate that says nothing else.
    pub duplicate: bool,
    /// Never retransmitted data from before the trouble arrived.
    pub original_arrived: bool,
    /// A mark is echoed that was not before.
    pub ece: bool,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// What is lost may be retransmitted.
    Retransmit,
    /// Retransmissions wait for the next acknowledgement.
    Hold,
}

impl Sender {
    /// PRR is at work (`tcp_in_cwnd_reduction`).
    pub(super) fn in_reduction(&self) -> bool {
        matches!(self.state, State::Cwr | State::Recovery)
    }

    pub(super) fn on_dubious_ack(&mut self, now: Time, seen: Seen) -> Then {
        // Marks say that the path is congested, whatever else a reduction was for (`tcp_fastretrans_alert`, A; RFC 3168 §6.1.2).
        if seen.ece {
            self.restorable = false;
        }
        if self.state == State::Open {
            self.undo.forget_retransmissions();
        } else if self.una >= self.high_seq {
            match self.state {
                // A mark has to be answered by something above high_seq.
                State::Cwr if self.una != self.high_seq => {
                    self.end_reduction();
                    self.set_state(now, State::Open);
                }
                State::Recovery => {
                    self.leave_recovery(now, seen.ts_ecr);
                    self.end_reduction();
                }
                _ => {}
            }
        }
        match self.state {
            State::Recovery => {
                if seen.una_advanced && self.try_undo_partial(now, seen) {
                    return Then::Hold;
                }
                if self.try_undo_dsack(now) {
                    self.try_to_open(now, seen.ece);
                }
                self.identify_losses(now);
                if self.state == State::Recovery || self.board.lost_out() == 0 {
                    return Then::Retransmit;
                }
            }
            State::Loss => {
                let then = self.process_loss(now, seen);
                let retransmissions = self.board.retrans_out();
                self.identify_losses(now);
                // On to a new recovery only if the window was restored, or a retransmission was lost.
                if self.state != State::Open && self.board.retrans_out() >= retransmissions {
                    return then;
                }
                self.look_for_losses(now, seen);
            }
            State::Open | State::Disorder | State::Cwr => self.look_for_losses(now, seen),
        }
        if self.board.lost_out() > 0 {
            self.enter_recovery(now, seen.ece);
        }
        Then::Retransmit
    }

    fn look_for_losses(&mut self, now: Time, seen: Seen) {
        if self.state <= State::Disorder {
            self.try_undo_dsack(now);
        }
        self.identify_losses(now);
        if self.board.lost_out() == 0 {
            self.try_to_open(now, seen.ece);
        }
    }

    fn process_loss(&mut self, now: Time, seen: Seen) -> Then {
        let recovered = self.una >= self.high_seq;
        if seen.una_advanced
            && let Some(cause) = self.undo.cause(seen.ts_ecr)
        {
            self.undo_loss(now, cause);
            return Then::Retransmit;
        }
        if self.frto {
            // Step 3.b: not all was lost, for data never retransmitted arrived.
            if seen.original_arrived {
                self.undo_loss(now, UndoCause::Frto);
                return Then::Retransmit;
            }
            if self.nxt > self.high_seq {
                // Step 3.a: new data went out, and only it is reported: the loss was real.
                self.frto &= !(seen.sacked || seen.duplicate);
            } else if seen.una_advanced && !recovered {
                // Step 2.b: new data decides.
                self.high_seq = self.nxt;
                if self.has_new_data() && self.nxt < self.window_end {
                    return Then::Hold;
                }
                self.frto = false;
            }
        }
        if recovered {
            self.leave_recovery(now, seen.ts_ecr);
        }
        Then::Retransmit
    }

    /// A time-out: what was sent long enough ago is lost, and the window is what is still out, and one.
    pub(super) fn enter_loss(&mut self, now: Time) {
        let due = self.due(now, Nanos::ZERO);
        self.mark(now, |board, lost| board.mark_timed_out(due, lost));
        let fresh = self.state <= State::Disorder || self.una >= self.high_seq || (self.state == State::Loss && self.timeouts_in_row == 0);
        let frto = self.state < State::Recovery || self.timeouts_in_row > 0;
        if fresh {
            self.restorable = true;
            self.tell(now, Congestion::Timeout);
            self.undo.begin(self.una, self.board.retrans_out());
        } else {
            self.tell(now, Congestion::TimeoutAgain);
        }
        self.set_window(u64::from(self.board.in_flight()) + 1);
        self.state = State::Loss;
        self.ecn.on_reduction();
        self.high_seq = self.nxt;
        self.probe.cancel();
        self.frto = frto;
        self.hold_retransmissions = false;
        self.update_pacing();
    }

    pub(super) fn enter_recovery(&mut self, now: Time, ece: bool) {
        self.undo.begin(self.una, self.board.retrans_out());
        if self.in_reduction() {
            // PRR goes on with the reduction under way; what was before it is not known here.
            self.restorable = false;
        } else {
            self.restorable = !ece;
            self.begin_reduction(now, Congestion::Loss);
        }
        self.state = State::Recovery;
        self.note(now, FlowEvent::RecoveryEntered);
    }

    pub(super) fn begin_reduction(&mut self, now: Time, event: Congestion) {
        self.high_seq = self.nxt;
        self.probe.cancel();
        self.prr = Prr::begin(self.cwnd);
        self.ecn.on_reduction();
        self.tell(now, event);
    }

    /// One acknowledgement's worth of PRR.
    pub(super) fn reduce(&mut self, delivered: u64, lost: u64, una_advanced: bool) {
        if self.controls_recovery {
            return;
        }
        let progress = Progress { delivered, lost, una_advanced, in_flight: u64::from(self.board.in_flight()) };
        if let Some(window) = self.prr.window(progress, self.ssthresh) {
            self.set_window(window);
        }
    }

    /// The window is where the reduction was to bring it.
    pub(super) fn end_reduction(&mut self) {
        if self.ssthresh != u64::MAX && (self.state == State::Cwr || self.undo.is_armed()) {
            self.set_window(self.ssthresh);
        }
    }

    /// An ECN echo asks for a reduction, once an RTT.
    fn enter_cwr(&mut self, now: Time) {
        if self.state < State::Cwr {
            self.undo.end();
            self.restorable = false;
            self.begin_reduction(now, Congestion::Ecn);
            self.state = State::Cwr;
            self.note(now, FlowEvent::EcnReduction);
        }
    }

    pub(super) fn set_state(&mut self, now: Time, state: State) {
        if self.state >= State::Recovery && state < State::Recovery {
            self.note(now, FlowEvent::RecoveryLeft);
        }
        if self.state >= State::Cwr && state < State::Cwr {
            self.tell(now, Congestion::RecoveryEnd);
        }
        self.state = state;
    }

    /// All that was outstanding when recovery began is acknowledged.
    fn leave_recovery(&mut self, now: Time, ts_ecr: Time) {
        match self.undo.cause(ts_ecr) {
            Some(cause) => self.undo(now, cause),
            None => self.rack.on_recovery_ended(),
        }
        self.set_state(now, State::Open);
    }

    fn undo_loss(&mut self, now: Time, cause: UndoCause) {
        self.board.unmark_lost();
        self.undo(now, cause);
        self.timeouts_in_row = 0;
        self.set_state(now, State::Open);
    }

    /// Before all is acknowledged: the echo shows that the acknowledgement answers an original. Whether that settles this acknowledgement.
    fn try_undo_partial(&mut self, now: Time, seen: Seen) -> bool {
        if !self.undo.is_armed() || !self.undo.was_delayed(seen.ts_ecr) {
            return false;
        }
        self.rack.on_reordering(seen.prior_una, self.board.highest_sacked(self.una), self.config.mss);
        if self.board.retrans_out() > 0 {
            return true; // more evidence will come
        }
        if !self.board.any_retransmitted() {
            self.undo.forget_retransmissions();
        }
        self.board.unmark_lost();
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
        if self.restorable {
            self.tell(now, Congestion::Undo);
        }
        self.undo.end();
        self.rack.recheck();
        self.counters.undos += 1;
        self.note(now, FlowEvent::Undo(cause));
    }

    fn try_to_open(&mut self, now: Time, ece: bool) {
        if !self.board.any_retransmitted() {
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
        let clean = self.board.sacked_out() + self.board.lost_out() == 0 && !self.board.any_retransmitted();
        let state = if clean { State::Open } else { State::Disorder };
        if state != self.state {
            self.set_state(now, state);
            self.high_seq = self.nxt;
        }
    }

    /// Looks for losses if anything new was delivered, and arms the reordering timer for what is not due yet: no other timer is set then.
    fn identify_losses(&mut self, now: Time) {
        if !self.rack.take_advanced() {
            return;
        }
        if let Some(due) = self.detect_losses(now) {
            self.arm(Purpose::Reordering, due + TIMEOUT_MIN);
            self.reordering_armed = true;
        }
    }

    /// Marks what is lost; when the last of what was overtaken and is not yet lost will be.
    pub(super) fn detect_losses(&mut self, now: Time) -> Option<Time> {
        let window = self.rack.reordering_window(
            self.state >= State::Recovery,
            self.board.sacked_out(),
            self.min_rtt.get(),
            self.rtt.srtt().unwrap_or(Nanos::ZERO),
        );
        let (newest, due) = (self.rack.newest(), self.due(now, window));
        let last = self.mark(now, |board, lost| board.expire(newest, due, lost));
        last.map(|sent_at| sent_at + self.rack.rtt() + window)
    }

    /// What was sent by then and is not delivered is lost.
    fn due(&self, now: Time, window: Nanos) -> Option<Time> {
        now.0.checked_sub(self.rack.rtt().0)?.checked_sub(window.0).map(Time)
    }

    /// Lets the scoreboard mark losses, and tells the controller of each.
    fn mark<T>(&mut self, now: Time, mark: impl FnOnce(&mut Scoreboard, &mut dyn FnMut(&Packet)) -> T) -> T {
        let mss = u64::from(self.config.mss);
        let delivered_total = self.bytes(self.rate.delivered());
        let (controller, counters) = (&mut self.controller, &mut self.counters);
        mark(&mut self.board, &mut |packet| {
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
