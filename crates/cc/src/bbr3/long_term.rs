//! Long-term model: the bandwidth of two cycles, and the safe inflight (draft §5.3.3.9, §5.5.10.2).

use super::super::LostPacket;
use super::super::bbr_parts::bw::Bw;
use super::super::bbr_parts::params::{GAIN_SHIFT, UNIT};
use super::params::{Params, Rules};
use super::probe_bw::AckPhase;
use super::sample::Sample;
use super::{Bbr3, State};

/// Greatest delivery rate of this cycle and the previous one.
#[derive(Clone, Copy, Debug, Default)]
pub struct MaxBw {
    before: Bw,
    current: Bw,
}

impl MaxBw {
    pub fn get(self) -> Bw {
        self.before.max(self.current)
    }

    pub fn update(&mut self, bw: Bw) {
        self.current = self.current.max(bw);
    }

    /// Ends a cycle; one without a sample does not count.
    pub fn advance(&mut self) {
        if self.current > Bw(0) {
            self.before = self.current;
            self.current = Bw(0);
        }
    }
}

/// Rate at which `PROBE_UP` raises the bound: a packet per so many acknowledged, doubled each round.
#[derive(Clone, Copy, Debug, Default)]
pub struct Slope {
    pub rounds: u32,
    pub acked: u64,
    /// Packets acknowledged per packet of growth; `None`: the bound does not grow.
    per_packet: Option<u64>,
}

/// More rounds would give steps of more than 2^30 packets.
const MAX_UP_ROUNDS: u32 = 30;

impl Slope {
    /// Doubles the rate of growth (`RaiseInflightLongtermSlope`).
    pub fn raise(&mut self, cwnd: u64) {
        self.per_packet = Some((cwnd >> self.rounds).max(1));
        self.rounds = (self.rounds + 1).min(MAX_UP_ROUNDS);
    }

    pub const fn stop(&mut self) {
        self.per_packet = None;
    }

    /// Returns the packets that the bound grows by for `acked` packets acknowledged.
    pub const fn growth(&mut self, acked: u64) -> u64 {
        let Some(per) = self.per_packet else { return 0 };
        self.acked += acked;
        let growth = self.acked / per;
        self.acked %= per;
        growth
    }
}

impl Bbr3 {
    /// Returns whether the losses or marks of a flight of `in_flight` packets show that inflight was too high.
    pub(super) fn is_inflight_too_high(&self, lost: u64, in_flight: u64, marked: u64, delivered: u64) -> bool {
        let lossy = lost > 0 && in_flight > 0 && lost > Params::part(in_flight, self.p.loss_threshold);
        lossy || self.ecn.is_share_too_high(&self.p, marked, delivered)
    }

    /// Adapts the long-term bound (`AdaptLongTermModel`). Returns true if it changed the state.
    pub(super) fn adapt_long_term(&mut self, s: &Sample) -> bool {
        if s.round_start && self.cycle.ack_phase == AckPhase::ProbeStarting {
            self.cycle.ack_phase = AckPhase::ProbeFeedback;
        }
        if s.round_start && self.cycle.ack_phase == AckPhase::ProbeStopping {
            self.cycle.probe_samples = false;
            self.cycle.ack_phase = AckPhase::Init;
            if self.state.is_probe_bw() && !s.app_limited {
                self.max_bw.advance();
            }
            // The precautionary probe caused no loss: start a full one.
            if matches!(self.state, State::Down | State::Cruise) && self.cycle.precautionary && !self.cycle.too_high {
                self.start_refill(s.delivered_total, 0);
                return true;
            }
        }
        if self.is_inflight_too_high(s.lost, s.tx_in_flight, s.marked, s.delivered) {
            // The draft does this for each lost packet; Linux also for ACKs of a probe's packets.
            if self.cycle.probe_samples && self.p.rules != Rules::Draft {
                self.on_inflight_too_high(s.now, Some(s.tx_in_flight), s.app_limited, s.delivered_total);
            }
            return false;
        }
        let Some(bound) = self.inflight_longterm else { return false };
        self.inflight_longterm = Some(bound.max(s.tx_in_flight));
        if self.state == State::Up {
            self.probe_upward(s);
        }
        false
    }

    /// Raises the long-term bound while it is in use (`ProbeInflightLongtermUpward`).
    fn probe_upward(&mut self, s: &Sample) {
        let Some(bound) = self.inflight_longterm else { return };
        if !s.window_full || self.cwnd < bound {
            if self.p.rules == Rules::Linux2 {
                self.slope.acked = 0;
            }
            return;
        }
        self.inflight_longterm = Some(bound.saturating_add(self.slope.growth(s.acked)));
        if s.round_start {
            self.slope.raise(self.cwnd);
        }
    }

    /// Processes a lost packet that was sent while probing: do the losses of its flight show that inflight was too high (`HandleLostPacket`)?
    pub(super) fn on_lost_while_probing(&mut self, lost: &LostPacket) {
        let packets = |bytes| super::super::window::clamped_packets(bytes, self.mss);
        let in_flight = packets(lost.tx_in_flight);
        let lost_since = packets(lost.lost_total.saturating_sub(lost.lost_at_send));
        if self.is_inflight_too_high(lost_since, in_flight, 0, 0) {
            let app_limited = lost.app_limited || self.probe_rtt.slowed(lost.delivered_at_send);
            self.on_inflight_too_high(lost.now, self.inflight_at_loss(in_flight, lost_since), app_limited, lost.delivered_total);
        }
    }

    /// Returns where in a flight of `in_flight` packets, the last one lost, the losses crossed the threshold (`InflightAtLoss`). `None`: inconsistent counts.
    pub(super) fn inflight_at_loss(&self, in_flight: u64, lost: u64) -> Option<u64> {
        let (before, lost_before) = (in_flight.checked_sub(1)?, lost.checked_sub(1)?);
        let budget = (before * self.p.loss_threshold).div_ceil(UNIT);
        let prefix = (budget.saturating_sub(lost_before) << GAIN_SHIFT) / (UNIT - self.p.loss_threshold);
        Some(before + prefix)
    }

    /// Lowers the long-term bound, once per probe (`HandleInflightTooHigh`).
    pub(super) fn on_inflight_too_high(
        &mut self,
        now: bentpipe_profile::Time,
        in_flight: Option<u64>,
        app_limited: bool,
        delivered_total: bentpipe_profile::Bytes,
    ) {
        self.cycle.too_high = true;
        self.cycle.probe_samples = false;
        if !app_limited {
            let min = Params::part(self.target_inflight(), UNIT - self.p.beta);
            self.inflight_longterm = in_flight.map(|in_flight| in_flight.max(min));
        }
        if self.state == State::Up {
            self.save_undo_state(State::Up);
            self.start_down(now, delivered_total);
        }
    }

    /// Returns the long-term bound less the headroom for other flows (`InflightWithHeadroom`).
    pub(super) fn bound_with_headroom(&self) -> Option<u64> {
        self.inflight_longterm.map(|bound| {
            let headroom = Params::part(bound, self.p.headroom).max(1);
            bound.saturating_sub(headroom).max(crate::bbr_parts::params::MIN_CWND_PACKETS)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bandwidth_is_the_maximum_of_two_cycles() {
        let mut max = MaxBw::default();
        max.update(Bw(100));
        max.advance();
        max.update(Bw(50));
        assert_eq!(max.get(), Bw(100));
        max.advance();
        assert_eq!(max.get(), Bw(50));
        max.advance(); // without a sample
        assert_eq!(max.get(), Bw(50));
    }

    #[test]
    fn the_bound_grows_by_1_2_4_packets_a_round() {
        let mut slope = Slope::default();
        let grown: Vec<u64> = (0..5)
            .map(|_| {
                slope.raise(64);
                (0..64).map(|_| slope.growth(1)).sum()
            })
            .collect();
        assert_eq!(grown, [1, 2, 4, 8, 16]);
        slope.stop();
        assert_eq!(slope.growth(1000), 0);
    }
}
