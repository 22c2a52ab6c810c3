//! The long-term model: the bandwidth of two cycles, and the flight that was found to be safe (draft §5.3.3.9, §5.5.10.2).

use super::super::LostPacket;
use super::super::bbr_parts::bw::Bw;
use super::super::bbr_parts::params::{GAIN_SHIFT, UNIT};
use super::params::{Params, Rules};
use super::probe_bw::AckPhase;
use super::sample::Sample;
use super::{Bbr3, State};

/// The greatest delivery rate of this cycle and the one before.
#[derive(Clone, Copy, Debug, Default)]
pub struct MaxBw {
    before: Bw,
    current: Bw,
}

impl MaxBw {
    pub fn get(self) -> Bw {
        self.before.max(self.current)
    }

    pub fn take(&mut self, bw: Bw) {
        self.current = self.current.max(bw);
    }

    /// A cycle is over; one without a sample does not count.
    pub fn advance(&mut self) {
        if self.current > Bw(0) {
            self.before = self.current;
            self.current = Bw(0);
        }
    }
}

/// How fast `PROBE_UP` raises the bound: a packet more per so many acknowledged, twice as fast each round.
#[derive(Clone, Copy, Debug, Default)]
pub struct Slope {
    pub rounds: u32,
    pub acked: u64,
    /// `None`: it does not grow.
    per_packet: Option<u64>,
}

/// More rounds would make steps of more than 2^30 packets.
const MAX_UP_ROUNDS: u32 = 30;

impl Slope {
    /// `RaiseInflightLongtermSlope`.
    pub fn raise(&mut self, cwnd: u64) {
        self.per_packet = Some((cwnd >> self.rounds).max(1));
        self.rounds = (self.rounds + 1).min(MAX_UP_ROUNDS);
    }

    pub const fn stop(&mut self) {
        self.per_packet = None;
    }

    /// Packets that the bound grows by for `acked` more.
    pub const fn growth(&mut self, acked: u64) -> u64 {
        let Some(per) = self.per_packet else { return 0 };
        self.acked += acked;
        let growth = self.acked / per;
        self.acked %= per;
        growth
    }
}

impl Bbr3 {
    /// Whether so much loss, or so many marks, of a flight of `in_flight` say that it was too large.
    pub(super) fn is_inflight_too_high(&self, lost: u64, in_flight: u64, marked: u64, delivered: u64) -> bool {
        let lossy = lost > 0 && in_flight > 0 && lost > Params::part(in_flight, self.p.loss_threshold);
        lossy || self.ecn.too_many(&self.p, marked, delivered)
    }

    /// `AdaptLongTermModel`. True: it decided on the state.
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
            // The cautious probe did no harm: now a whole one.
            if matches!(self.state, State::Down | State::Cruise) && self.cycle.precautionary && !self.cycle.too_high {
                self.start_refill(s.delivered_total, 0);
                return true;
            }
        }
        if self.is_inflight_too_high(s.lost, s.tx_in_flight, s.marked, s.delivered) {
            // The draft leaves this to each lost packet; Linux looks at ACKs too, of a probe's packets.
            if self.cycle.probe_samples && self.p.rules != Rules::Draft {
                self.on_inflight_too_high(s.now, Some(s.tx_in_flight), s.app_limited, s.delivered_total);
            }
            return false;
        }
        let Some(bound) = self.long_term else { return false };
        self.long_term = Some(bound.max(s.tx_in_flight));
        if self.state == State::Up {
            self.probe_upward(s);
        }
        false
    }

    /// `ProbeInflightLongtermUpward`: only a bound that is used is raised.
    fn probe_upward(&mut self, s: &Sample) {
        let Some(bound) = self.long_term else { return };
        if !s.window_full || self.cwnd < bound {
            if self.p.rules == Rules::Linux2 {
                self.slope.acked = 0;
            }
            return;
        }
        self.long_term = Some(bound.saturating_add(self.slope.growth(s.acked)));
        if s.round_start {
            self.slope.raise(self.cwnd);
        }
    }

    /// A packet is lost that was sent while probing: does the loss of its flight say that it was too large (`HandleLostPacket`)?
    pub(super) fn on_lost_while_probing(&mut self, lost: &LostPacket) {
        let packets = |bytes| super::super::window::clamped_packets(bytes, self.mss);
        let in_flight = packets(lost.tx_in_flight);
        let lost_since = packets(lost.lost_total.saturating_sub(lost.lost_at_send));
        if self.is_inflight_too_high(lost_since, in_flight, 0, 0) {
            let app_limited = lost.app_limited || self.probe_rtt.slowed(lost.delivered_at_send);
            self.on_inflight_too_high(lost.now, self.inflight_at_loss(in_flight, lost_since), app_limited, lost.delivered_total);
        }
    }

    /// Where in a flight of `in_flight` packets, the last one lost, the loss crossed the threshold (`InflightAtLoss`). `None`: the counts make no sense.
    pub(super) fn inflight_at_loss(&self, in_flight: u64, lost: u64) -> Option<u64> {
        let (before, lost_before) = (in_flight.checked_sub(1)?, lost.checked_sub(1)?);
        let budget = (before * self.p.loss_threshold).div_ceil(UNIT);
        let prefix = (budget.saturating_sub(lost_before) << GAIN_SHIFT) / (UNIT - self.p.loss_threshold);
        Some(before + prefix)
    }

    /// Once per probe (`HandleInflightTooHigh`).
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
            let least = Params::part(self.target_flight(), UNIT - self.p.beta);
            self.long_term = in_flight.map(|in_flight| in_flight.max(least));
        }
        if self.state == State::Up {
            self.note_undo(State::Up);
            self.start_down(now, delivered_total);
        }
    }

    /// The long-term bound less what is left to others (`InflightWithHeadroom`).
    pub(super) fn bound_with_headroom(&self) -> Option<u64> {
        self.long_term.map(|bound| {
            let headroom = Params::part(bound, self.p.headroom).max(1);
            bound.saturating_sub(headroom).max(crate::bbr_parts::params::MIN_CWND_PACKETS)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bandwidth_is_that_of_two_cycles() {
        let mut max = MaxBw::default();
        max.take(Bw(100));
        max.advance();
        max.take(Bw(50));
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
