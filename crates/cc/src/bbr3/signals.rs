//! Short-term model: delivery in the last round, and the bounds on rate and inflight from losses outside of a probe
//! (draft §5.5.10.3; Linux `bbr_update_latest_delivery_signals`, `bbr_adapt_lower_bounds`).

use super::super::bbr_parts::bw::Bw;
use super::params::{Params, Rules};
use super::sample::Sample;
use super::{Bbr3, State};
use bentpipe_profile::Bytes;

/// Signals of the latest round.
#[derive(Clone, Copy, Debug, Default)]
pub struct Latest {
    /// Greatest delivery rate, and most packets delivered, in one round.
    pub bw: Bw,
    pub in_flight: u64,
    /// A packet sent at this count of delivered bytes, or later, ends the round.
    round_end: Bytes,
    pub round_start: bool,
    pub loss_in_round: bool,
    pub loss_in_cycle: bool,
    /// Losses of the round in STARTUP: gaps (draft), ACKs that report losses (Linux).
    pub startup_losses: u64,
    /// End of the last lost packet: a loss that begins here is the same gap.
    lost_end: Option<u64>,
}

/// Short-term bounds; `None`: no bound.
#[derive(Clone, Copy, Debug, Default)]
pub struct ShortTerm {
    pub bw: Option<Bw>,
    pub in_flight: Option<u64>,
}

impl Latest {
    /// Records a loss. If it is the first of the round, a new round starts here, to measure the remaining delivery (`NoteLoss`). Returns whether it is the first.
    pub fn note_loss(&mut self, delivered_total: Bytes) -> bool {
        let first = !self.loss_in_round;
        if first {
            self.round_end = delivered_total;
        }
        self.loss_in_round = true;
        self.loss_in_cycle = true;
        first
    }

    /// Counts the gap of a lost packet from `seq` to `end`, unless it continues the last one.
    pub fn count_gap(&mut self, seq: u64, end: u64) {
        self.startup_losses += u64::from(self.lost_end != Some(seq));
        self.lost_end = Some(end);
    }
}

impl Bbr3 {
    /// Updates the latest round (`UpdateLatestDeliverySignals`).
    pub(super) fn update_latest(&mut self, s: &Sample) {
        let latest = &mut self.latest;
        latest.round_start = false;
        if !s.valid {
            return;
        }
        latest.bw = latest.bw.max(s.bw);
        latest.in_flight = latest.in_flight.max(s.delivered);
        if s.prior_delivered >= latest.round_end {
            latest.round_end = s.delivered_total;
            latest.round_start = true;
        }
    }

    /// Updates the bandwidth and, once a round, the short-term bounds (`UpdateCongestionSignals`).
    pub(super) fn update_congestion_signals(&mut self, s: &Sample) {
        if !s.valid {
            return;
        }
        if !s.app_limited || s.bw >= self.max_bw.get() {
            self.max_bw.update(s.bw);
        }
        self.latest.loss_in_round |= s.newly_lost > 0;
        if !self.latest.round_start {
            return;
        }
        self.adapt_lower_bounds();
        self.latest.loss_in_round = false;
        self.ecn.in_round = false;
        if self.p.rules == Rules::Linux2 {
            self.restart_latest(s);
        }
    }

    /// Ends the latest round (`AdvanceLatestDeliverySignals`): at the end of an ACK, so that STARTUP uses the whole round.
    pub(super) fn advance_latest(&mut self, s: &Sample) {
        if self.latest.round_start && self.p.rules != Rules::Linux2 {
            self.restart_latest(s);
        }
        self.latest.loss_in_cycle |= s.lost > 0;
        self.ecn.in_cycle |= s.marked > 0;
    }

    const fn restart_latest(&mut self, s: &Sample) {
        self.latest.bw = s.bw;
        self.latest.in_flight = s.delivered;
    }

    /// Resets the signals (`ResetCongestionSignals`).
    pub(super) const fn reset_congestion_signals(&mut self) {
        self.latest.loss_in_round = false;
        self.latest.loss_in_cycle = false;
        self.latest.bw = Bw(0);
        self.latest.in_flight = 0;
        self.ecn.in_round = false;
        self.ecn.in_cycle = false;
    }

    /// Adapts the short-term bounds once a round (`AdaptLowerBoundsFromCongestion`). While probing, losses show the effect of the probe, not the capacity.
    fn adapt_lower_bounds(&mut self) {
        if self.state.is_probing_bandwidth() {
            return;
        }
        let beta = u64::from(u8::MAX) + 1 - self.p.beta;
        let mut marked_in_flight = None;
        let mut marked_bw = None;
        if self.ecn.in_round && self.p.ecn_factor > 0 {
            let reduction = self.ecn.reduction(&self.p);
            let in_flight = *self.short_term.in_flight.get_or_insert(self.cwnd);
            marked_in_flight = Some(Params::part(in_flight, reduction));
            if self.p.rules == Rules::Linux2 {
                let bw = *self.short_term.bw.get_or_insert(self.max_bw.get());
                marked_bw = Some(Bw(Params::part(bw.0, reduction)));
            }
        }
        if self.latest.loss_in_round {
            let bw = self.short_term.bw.unwrap_or_else(|| self.max_bw.get());
            let in_flight = self.short_term.in_flight.unwrap_or(self.cwnd);
            self.short_term.bw = Some(self.latest.bw.max(Bw(Params::part(bw.0, beta))));
            self.short_term.in_flight = Some(self.latest.in_flight.max(Params::part(in_flight, beta)));
        }
        self.short_term.in_flight = self.short_term.in_flight.map(|bound| bound.min(marked_in_flight.unwrap_or(bound)));
        // Never zero: a rate of zero would stop the flow for good.
        self.short_term.bw = self.short_term.bw.map(|b| b.min(marked_bw.unwrap_or(b)).max(Bw(1)));
    }

    /// Returns the bandwidth within the short-term bound (`BBR.bw`).
    pub(super) fn bw(&self) -> Bw {
        let max = self.max_bw.get();
        self.short_term.bw.map_or(max, |bound| bound.min(max))
    }

    /// Ends STARTUP after too many losses (`CheckStartupHighLoss`, `bbr_check_loss_too_high_in_startup`).
    pub(super) fn check_startup_loss(&mut self, s: &Sample) {
        if self.full.reached() {
            return;
        }
        if self.p.rules != Rules::Draft && s.newly_lost > 0 {
            self.latest.startup_losses += 1;
        }
        if !self.latest.round_start {
            return;
        }
        let is_lossy = self.p.full_loss_count > 0 && self.latest.startup_losses >= self.p.full_loss_count;
        if is_lossy && s.in_recovery && self.is_inflight_too_high(s.lost, s.tx_in_flight, s.marked, s.delivered) {
            self.on_startup_too_high();
        }
        self.latest.startup_losses = 0;
    }

    /// Ends STARTUP after too many marks (`bbr_check_ecn_too_high_in_startup`): `share` of a round [1/256].
    pub(super) fn check_startup_marks(&mut self, share: Option<u64>) {
        let Some(share) = share.filter(|_| !self.full.reached() && self.p.full_ecn_rounds > 0 && self.p.ecn_threshold > 0) else { return };
        self.ecn.startup_rounds = if share >= self.p.ecn_threshold { self.ecn.startup_rounds + 1 } else { 0 };
        if self.ecn.startup_rounds >= self.p.full_ecn_rounds {
            self.on_startup_too_high();
        }
    }

    /// Marks the pipe as full and sets the long-term bound (`bbr_handle_queue_too_high_in_startup`).
    fn on_startup_too_high(&mut self) {
        self.full.set_full();
        self.save_undo_state(State::Startup);
        let bdp = self.inflight_at(self.max_bw.get());
        self.inflight_longterm = Some(if self.p.rules == Rules::Linux2 { bdp } else { bdp.max(self.latest.in_flight) });
    }
}
