//! `PROBE_BW`: DOWN, CRUISE, REFILL, UP (draft §5.3.3; Linux `bbr_update_cycle_phase`).

use super::params::{Params, Rules};
use super::sample::Sample;
use super::{Bbr3, State};
use crate::bbr_parts::bw::Bw;
use crate::bbr_parts::params::UNIT;
use bentpipe_profile::rng::Stream;
use bentpipe_profile::{Bytes, Nanos, Time};

/// Phase that the arriving ACKs belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckPhase {
    Init,
    Refilling,
    /// A probe has begun; its ACKs are still to come.
    ProbeStarting,
    ProbeFeedback,
    /// The probe has ended; its last ACKs are still to come.
    ProbeStopping,
}

/// Position of a flow in its cycle.
#[derive(Clone, Debug)]
pub struct Cycle {
    random: Stream,
    pub stamp: Time,
    /// Time from `stamp` to the next probe, and rounds since the last one.
    pub wait: Nanos,
    pub rounds_since_probe: u64,
    pub ack_phase: AckPhase,
    /// Whether rate samples are those of a probe (`is_bw_probe_sample`).
    pub probe_samples: bool,
    /// Whether inflight was too high in the last probe, and whether a precaution ended it at the bound.
    pub too_high: bool,
    pub precautionary: bool,
}

/// The kernel counts the rounds since a probe in a byte.
const MAX_ROUNDS_SINCE_PROBE: u64 = 255;

impl Cycle {
    pub const fn new(random: Stream) -> Self {
        Self {
            random,
            stamp: Time::ZERO,
            wait: Nanos::ZERO,
            rounds_since_probe: 0,
            ack_phase: AckPhase::Init,
            probe_samples: false,
            too_high: false,
            precautionary: false,
        }
    }

    pub fn on_round(&mut self) {
        self.rounds_since_probe = (self.rounds_since_probe + 1).min(MAX_ROUNDS_SINCE_PROBE);
    }

    /// Draws the time to the next probe (`PickProbeWait`): random, so that flows do not probe together.
    fn pick_wait(&mut self, p: &Params) {
        self.rounds_since_probe = self.random.below(p.probe_random_rounds);
        let random = if p.probe_wait_random == Nanos::ZERO { 0 } else { self.random.below(p.probe_wait_random.0) };
        self.wait = Nanos(p.probe_wait_base.0 + random);
    }
}

impl Bbr3 {
    /// Moves through the cycle (`UpdateProbeBWCyclePhase`).
    pub(super) fn update_cycle(&mut self, s: &Sample, next_departure: Time) {
        if !self.full.reached() || self.adapt_long_term(s) {
            return;
        }
        let in_flight = match self.p.rules {
            Rules::Draft => s.in_flight,
            Rules::Linux3 | Rules::Linux2 => self.inflight_at_departure(s.prior_in_flight, s.now, next_departure),
        };
        match self.state {
            State::Down => {
                if !self.check_time_to_probe(s) && self.is_time_to_cruise(in_flight) {
                    self.start_cruise();
                }
            }
            State::Cruise => {
                self.check_time_to_probe(s);
            }
            State::Refill => {
                if s.round_start {
                    self.cycle.probe_samples = true;
                    self.start_up(s);
                }
            }
            State::Up => {
                if self.is_time_to_go_down(s, in_flight) {
                    self.cycle.too_high = false;
                    self.start_down(s.now, s.delivered_total);
                }
            }
            State::Startup | State::Drain | State::ProbeRtt => {}
        }
    }

    /// Starts a probe if it is time (`IsTimeToProbeBW`); returns whether it did.
    fn check_time_to_probe(&mut self, s: &Sample) -> bool {
        // The flow had marks without loss, and they have ceased: their cause may be gone.
        if self.p.ecn_reprobe_gain > 0 && self.ecn.is_eligible() && self.ecn.in_cycle && !self.latest.loss_in_cycle && s.open {
            let step = Params::part(self.inflight_longterm.unwrap_or(u64::from(u32::MAX)), self.p.ecn_reprobe_gain);
            self.start_refill(s.delivered_total, step.max(1).ilog2());
            return true;
        }
        let elapsed = s.now > self.cycle.stamp + self.cycle.wait;
        if elapsed || self.cycle.rounds_since_probe >= self.p.probe_max_rounds.min(self.target_inflight()) {
            self.start_refill(s.delivered_total, 0);
            return true;
        }
        false
    }

    /// Returns whether CRUISE should start (`IsTimeToCruise`).
    fn is_time_to_cruise(&self, in_flight: u64) -> bool {
        self.bound_with_headroom().is_none_or(|bound| in_flight <= bound) && in_flight <= self.inflight_at(self.max_bw.get())
    }

    /// Returns whether DOWN should start (`IsTimeToGoDown`).
    fn is_time_to_go_down(&mut self, s: &Sample, in_flight: u64) -> bool {
        let bound = self.inflight_longterm.unwrap_or(u64::MAX);
        if self.cycle.too_high && in_flight >= bound {
            self.cycle.precautionary = true;
            return true;
        }
        if self.p.rules == Rules::Linux2 {
            let long = self.min_rtt.get().is_some_and(|rtt| s.now.since(self.cycle.stamp) > rtt);
            return long && in_flight >= self.with_budget(self.bdp(self.max_bw.get(), self.p.probe_in_flight_gain));
        }
        if s.window_full && self.cwnd >= bound {
            self.full.restart(s.bw);
            return false;
        }
        self.full.now()
    }

    pub(super) fn start_down(&mut self, now: Time, delivered_total: Bytes) {
        self.reset_congestion_signals();
        self.slope.stop();
        self.cycle.pick_wait(&self.p);
        self.cycle.stamp = now;
        self.cycle.ack_phase = AckPhase::ProbeStopping;
        self.rounds.restart(delivered_total);
        self.transition_to(State::Down);
    }

    pub(super) fn start_cruise(&mut self) {
        if self.p.rules != Rules::Draft
            && let (Some(short), Some(long)) = (self.short_term.in_flight, self.inflight_longterm)
        {
            self.short_term.in_flight = Some(short.min(long));
        }
        self.transition_to(State::Cruise);
    }

    /// Starts REFILL. `up_rounds`: initial slope of `PROBE_UP`.
    pub(super) fn start_refill(&mut self, delivered_total: Bytes, up_rounds: u32) {
        self.short_term = super::signals::ShortTerm::default();
        self.slope.rounds = up_rounds.min(30);
        self.slope.acked = 0;
        self.cycle.precautionary = false;
        self.cycle.ack_phase = AckPhase::Refilling;
        self.rounds.restart(delivered_total);
        self.transition_to(State::Refill);
    }

    fn start_up(&mut self, s: &Sample) {
        self.cycle.ack_phase = AckPhase::ProbeStarting;
        self.rounds.restart(s.delivered_total);
        self.cycle.stamp = s.now;
        if self.p.rules != Rules::Linux2 {
            self.full.restart(s.bw);
        }
        self.transition_to(State::Up);
        self.slope.raise(self.cwnd);
    }

    /// Checks whether the pipe is full (`CheckFullBWReached`).
    pub(super) fn check_full_pipe(&mut self, s: &Sample) {
        let bw = match self.p.rules {
            Rules::Linux2 if self.full.reached() => return,
            Rules::Linux2 => self.max_bw.get(),
            Rules::Draft | Rules::Linux3 => s.bw,
        };
        if s.app_limited {
            return;
        }
        if s.round_start {
            self.full.on_round(bw);
        } else if self.p.rules == Rules::Linux3 {
            self.full.check_growth(bw);
        }
    }

    /// Moves from STARTUP to DRAIN, and from DRAIN to DOWN (`CheckStartupDone`, `CheckDrainDone`).
    pub(super) fn check_drain(&mut self, s: &Sample, next_departure: Time) {
        let full = self.inflight_at(self.max_bw.get());
        if self.state == State::Startup && self.full.reached() {
            self.transition_to(State::Drain);
            self.drain_start_round = self.rounds.count();
            self.ssthresh = Bytes(full.saturating_mul(u64::from(self.mss)));
            if self.p.rules != Rules::Draft {
                self.reset_congestion_signals();
            }
        }
        if self.state != State::Drain {
            return;
        }
        let drained = match self.p.rules {
            Rules::Draft => s.in_flight <= self.inflight_at(self.bw()) || self.rounds.count() > self.drain_start_round + MAX_DRAIN_ROUNDS,
            Rules::Linux3 | Rules::Linux2 => self.inflight_at_departure(s.in_flight, s.now, next_departure) <= full,
        };
        if drained {
            self.start_down(s.now, s.delivered_total);
        }
    }

    /// Returns the packets in flight when the pacer releases the next packet (`bbr_packets_in_net_at_edt`).
    fn inflight_at_departure(&self, in_flight: u64, now: Time, next_departure: Time) -> u64 {
        let delivered = self.bw().packets_in(next_departure.since(now));
        let burst = if self.state.pacing_gain(&self.p) > UNIT { self.burst_packets() } else { 0 };
        (in_flight + burst).saturating_sub(delivered)
    }

    /// Returns the inflight at gain 1 of a bandwidth (`Inflight(1.0)`).
    pub(super) fn inflight_at(&self, bw: Bw) -> u64 {
        self.with_budget(self.bdp(bw, UNIT))
    }
}

/// DRAIN ends after this many rounds: the bandwidth may have been overestimated (draft §5.3.2).
const MAX_DRAIN_ROUNDS: u64 = 3;
