//! What comes back when losses prove spurious (draft §5.5.11; Linux `bbr_ssthresh`, `bbr_undo_cwnd`).

use super::params::Rules;
use super::signals::ShortTerm;
use super::{Bbr3, RecoveryState, State};
use bentpipe_profile::{Bytes, Time};

/// The model before the losses.
#[derive(Clone, Copy, Debug, Default)]
pub struct Undo {
    short: ShortTerm,
    long_term: Option<u64>,
    /// The state that the losses ended.
    state: Option<State>,
    /// Whether it is of the present episode.
    saved: bool,
}

#[cfg(test)]
impl Undo {
    pub const fn saved_state(&self) -> Option<State> {
        self.state
    }

    pub const fn saved_long_term(&self) -> Option<u64> {
        self.long_term
    }
}

/// The greater of two bounds; none is the greatest.
fn looser<T: Ord>(a: Option<T>, b: Option<T>) -> Option<T> {
    a.zip(b).map(|(a, b)| a.max(b))
}

impl Bbr3 {
    /// An episode of losses begins, by its first loss or by the sender's word (`SaveStateUponLoss`). Linux hears of it only by the latter.
    pub(super) const fn save_state(&mut self) {
        if !self.undo.saved || !matches!(self.p.rules, Rules::Draft) {
            self.undo = Undo { short: self.short, long_term: self.long_term, state: None, saved: true };
        }
    }

    /// The episode is over, and the next loss begins another. What this one ended is kept: a duplicate may yet show that nothing was lost.
    pub(super) const fn end_episode(&mut self) {
        self.undo.saved = false;
    }

    /// Losses ended this state. Linux does not come back to it.
    pub(super) fn note_undo(&mut self, state: State) {
        if self.p.rules == Rules::Draft {
            self.undo.state = Some(state);
        }
    }

    /// `HandleSpuriousLossDetection`.
    pub(super) fn on_undo(&mut self, delivered_total: Bytes) {
        self.cwnd = self.cwnd.max(self.prior_cwnd);
        self.latest.loss_in_round = false;
        self.full.restart(super::super::bbr_parts::bw::Bw::default());
        self.short.bw = looser(self.short.bw, self.undo.short.bw);
        self.short.in_flight = looser(self.short.in_flight, self.undo.short.in_flight);
        self.long_term = looser(self.long_term, self.undo.long_term);
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

    /// A time-out: the window is what remains, and one (`OnEnterRTO`, `bbr_set_state`).
    pub(super) fn on_timeout(&mut self, in_flight: u64) {
        self.previous = RecoveryState::Loss;
        if self.p.rules != Rules::Draft {
            self.full.restart(super::super::bbr_parts::bw::Bw::default());
        }
        // The round's end will bound the flight by what it was before, not by the one packet that is left.
        if !self.state.is_probing_bandwidth() && self.short.in_flight.is_none() {
            self.short.in_flight = Some(self.cwnd.max(self.prior_cwnd));
        }
        self.cwnd = in_flight.saturating_add(1).min(u64::from(u32::MAX));
    }

    /// `SaveCwnd`.
    pub(super) fn save_cwnd(&mut self) {
        let reduced = matches!(self.previous, RecoveryState::Recovery | RecoveryState::Loss) || self.state == State::ProbeRtt;
        self.prior_cwnd = if reduced { self.prior_cwnd.max(self.cwnd) } else { self.cwnd };
    }

    /// Recovery may be over: the window that was comes back, as far as the model lets it (`bbr_exit_loss_recovery`).
    pub(super) fn leave_recovery(&mut self, state: RecoveryState) {
        let restores = |state| match self.p.rules {
            Rules::Draft => matches!(state, RecoveryState::Recovery | RecoveryState::Loss),
            Rules::Linux3 | Rules::Linux2 => state == RecoveryState::Loss,
        };
        if restores(self.previous) && !restores(state) {
            self.cwnd = self.cwnd.max(self.prior_cwnd);
        }
    }

    /// A tail loss probe repaired a loss that no lost packet was told of (`bbr_run_loss_probe_recovery`).
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
