//! Loss recovery: a round of packet conservation, then normal growth, then the saved window
//! (`bbr_set_cwnd_to_recover_or_restore`, `bbr_save_cwnd`). Losses do not change the model.

use super::super::RecoveryState;

/// State of loss recovery.
#[derive(Clone, Debug, Default)]
pub struct Recovery {
    previous: RecoveryState,
    conserving: bool,
    /// Window to restore after recovery or `PROBE_RTT` [packets].
    saved_cwnd: u64,
}

/// A window, and whether packet conservation fixes it for this ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Adjusted {
    pub cwnd: u64,
    pub conserving: bool,
    /// Recovery began with this ACK: a round starts now.
    pub began: bool,
}

const fn in_recovery(state: RecoveryState) -> bool {
    matches!(state, RecoveryState::Recovery | RecoveryState::Loss)
}

impl Recovery {
    /// Saves the window before it is reduced; if it is reduced already, keeps the greater one.
    pub fn save(&mut self, cwnd: u64, in_probe_rtt: bool) {
        self.saved_cwnd = if in_recovery(self.previous) || in_probe_rtt { self.saved_cwnd.max(cwnd) } else { cwnd };
    }

    pub const fn saved_cwnd(&self) -> u64 {
        self.saved_cwnd
    }

    /// Records a time-out (`bbr_set_state`).
    pub const fn on_timeout(&mut self) {
        self.previous = RecoveryState::Loss;
    }

    /// Ends packet conservation after a round.
    pub const fn end_conservation(&mut self) {
        self.conserving = false;
    }

    /// Returns the window after an ACK for `acked` packets that reported `lost` more, with `in_flight` remaining.
    pub fn adjust(&mut self, state: RecoveryState, cwnd: u64, acked: u64, lost: u64, in_flight: u64) -> Adjusted {
        let mut cwnd = cwnd.saturating_sub(lost).max(1);
        let began = state == RecoveryState::Recovery && self.previous != RecoveryState::Recovery;
        if began {
            self.conserving = true;
            // A window that the application did not use is not kept.
            cwnd = in_flight + acked;
        } else if in_recovery(self.previous) && !in_recovery(state) {
            self.conserving = false;
            cwnd = cwnd.max(self.saved_cwnd);
        }
        self.previous = state;
        if self.conserving {
            cwnd = cwnd.max(in_flight + acked);
        }
        Adjusted { cwnd, conserving: self.conserving, began }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use RecoveryState::{Open, Recovery as InRecovery};

    #[test]
    fn packets_are_conserved_for_a_round_and_then_the_window_is_restored() {
        let mut r = Recovery::default();
        r.save(100, false);
        // Three lost, one acknowledged, 96 left: one out for one in.
        assert_eq!(r.adjust(InRecovery, 100, 1, 3, 96), Adjusted { cwnd: 97, conserving: true, began: true });
        assert_eq!(r.adjust(InRecovery, 97, 1, 0, 96), Adjusted { cwnd: 97, conserving: true, began: false });
        r.end_conservation();
        assert_eq!(r.adjust(InRecovery, 97, 1, 0, 96), Adjusted { cwnd: 97, conserving: false, began: false });
        assert_eq!(r.adjust(Open, 97, 1, 0, 96), Adjusted { cwnd: 100, conserving: false, began: false });
    }

    #[test]
    fn a_second_reduction_saves_the_greater_window() {
        let mut r = Recovery::default();
        r.save(100, false);
        r.on_timeout();
        r.save(1, false);
        assert_eq!(r.saved_cwnd(), 100);
        assert_eq!(r.adjust(Open, 5, 1, 0, 4).cwnd, 100);
        r.save(40, false);
        assert_eq!(r.saved_cwnd(), 40);
    }

    #[test]
    fn losses_leave_at_least_one_packet() {
        let mut r = Recovery::default();
        r.on_timeout();
        assert_eq!(r.adjust(RecoveryState::Loss, 3, 1, 9, 0).cwnd, 1);
    }
}
