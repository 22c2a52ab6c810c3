//! Undo of spurious losses (draft §5.5.11; Linux `bbr_ssthresh`, `bbr_undo_cwnd`), and time-outs.

use super::params::Rules;
use super::signals::ShortTerm;
use super::{Bbr3, RecoveryState, State};
use bentpipe_profile::{Bytes, Time};

/// Model before the losses.
#[derive(Clone, Copy, Debug, Default)]
pub struct Undo {
    short_term: ShortTerm,
    inflight_longterm: Option<u64>,
    /// State that the losses ended.
    state: Option<State>,
    /// Whether it was saved in the current loss episode.
    saved: bool,
}

#[cfg(test)]
impl Undo {
    pub const fn saved_state(&self) -> Option<State> {
        self.state
    }

    pub const fn saved_inflight_longterm(&self) -> Option<u64> {
        self.inflight_longterm
    }
}

/// Returns the greater of two bounds; no bound is the greatest.
fn looser_bound<T: Ord>(a: Option<T>, b: Option<T>) -> Option<T> {
    a.zip(b).map(|(a, b)| a.max(b))
}

impl Bbr3 {
    /// Saves the model at the start of a loss episode: at its first loss or at the sender's event (`SaveStateUponLoss`). Linux uses only the event.
    pub(super) const fn save_state(&mut self) {
        if !self.undo.saved || !matches!(self.p.rules, Rules::Draft) {
            self.undo = Undo { short_term: self.short_term, inflight_longterm: self.inflight_longterm, state: None, saved: true };
        }
    }

    /// Ends the loss episode; the next loss starts another. The saved state is kept: a duplicate may still show that nothing was lost.
    pub(super) const fn end_episode(&mut self) {
        self.undo.saved = false;
    }

    /// Saves the state that losses ended. Linux does not return to it.
    pub(super) fn save_undo_state(&mut self, state: State) {
        if self.p.rules == Rules::Draft {
            self.undo.state = Some(state);
        }
    }

    /// Restores the model after spurious losses (`HandleSpuriousLossDetection`).
    pub(super) fn on_undo(&mut self, delivered_total: Bytes) {
        self.cwnd = self.cwnd.max(self.prior_cwnd);
        self.latest.loss_in_round = false;
        self.full.restart(super::super::bbr_parts::bw::Bw::default());
        self.short_term.bw = looser_bound(self.short_term.bw, self.undo.short_term.bw);
        self.short_term.in_flight = looser_bound(self.short_term.in_flight, self.undo.short_term.in_flight);
        self.inflight_longterm = looser_bound(self.inflight_longterm, self.undo.inflight_longterm);
        match self.undo.state {
            Some(State::Startup) if self.state != State::Startup => {
                self.full.set_never_full();
                if self.state != State::ProbeRtt {
                    self.transition_to(State::Startup);
                }
            }
            Some(State::Up) if matches!(self.state, State::Down | State::Cruise) => {
                self.start_refill(delivered_total, 0);
                self.resumes_probe = true;
            }
            _ => {}
        }
        self.end_episode();
        self.undo.state = None;
    }

    /// Reduces the window after a time-out to the remaining packets and one (`OnEnterRTO`, `bbr_set_state`).
    pub(super) fn on_timeout(&mut self, in_flight: u64) {
        self.previous = RecoveryState::Loss;
        if self.p.rules != Rules::Draft {
            self.full.restart(super::super::bbr_parts::bw::Bw::default());
        }
        // The end of the round will bound inflight by its value before the time-out, not by the one packet that is left.
        if !self.state.is_probing_bandwidth() && self.short_term.in_flight.is_none() {
            self.short_term.in_flight = Some(self.cwnd.max(self.prior_cwnd));
        }
        self.cwnd = in_flight.saturating_add(1).min(u64::from(u32::MAX));
    }

    /// Saves the window, to restore it later (`SaveCwnd`).
    pub(super) fn save_cwnd(&mut self) {
        let reduced = matches!(self.previous, RecoveryState::Recovery | RecoveryState::Loss) || self.state == State::ProbeRtt;
        self.prior_cwnd = if reduced { self.prior_cwnd.max(self.cwnd) } else { self.cwnd };
    }

    /// Restores the window at the end of recovery, within the bounds of the model (`bbr_exit_loss_recovery`).
    pub(super) fn leave_recovery(&mut self, state: RecoveryState) {
        let restores = |state| match self.p.rules {
            Rules::Draft => matches!(state, RecoveryState::Recovery | RecoveryState::Loss),
            Rules::Linux3 | Rules::Linux2 => state == RecoveryState::Loss,
        };
        if restores(self.previous) && !restores(state) {
            self.cwnd = self.cwnd.max(self.prior_cwnd);
        }
    }

    /// Processes a loss that a tail loss probe repaired and that was not reported as a lost packet (`bbr_run_loss_probe_recovery`).
    pub(super) fn on_tail_loss(&mut self, now: Time, delivered_total: Bytes) {
        if !self.p.tail_loss_counts {
            return;
        }
        self.latest.note_loss(delivered_total);
        let in_flight = self.latest.in_flight + 1;
        if self.cycle.probe_samples && self.is_inflight_too_high(1, in_flight, 0, 0) {
            self.on_inflight_too_high(now, Some(in_flight), self.app_limited, delivered_total);
        }
    }
}
