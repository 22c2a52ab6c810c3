//! `bbr3-leo` with knowledge that no sender has: the value of each piece of it. Not deployable.
//!
//! - `known_losses`: a packet that was dropped, but by no queue, is not lost for the controller. It sees neither the loss nor a recovery for it alone.
//! - `known_capacity`: the bandwidth of the slot model is that of the path to come, as the mean of the next RTT or as a forecast: the mean of each second, with a random
//!   error.

use super::bbr_parts::bw::Bw;
use super::bbr3_leo::Bbr3Leo;
use super::hints::Needs;
use super::knowledge::{Capacity, Knowledge};
use super::leo::monitor::{HINTS, Hints};
use super::registry::{Config, Entry};
use super::{AckSample, Congestion, Controller, LostPacket, RecoveryState};
use bentpipe_profile::tunables::{OptionSet, number, switch};
use bentpipe_profile::{Bytes, Nanos, Rate, Streams, Time};
use std::collections::BTreeSet;

/// `informed` in the registry.
pub const ENTRY: Entry = Entry {
    name: "informed",
    status: "not deployable: for studies",
    description: "bbr3-leo that is told the capacity to come, or which losses are no congestion",
    citation: "bentpipe, docs/design/023-ceiling.md",
    needs: Needs::Future,
    options: Options::SPECS,
    build: |config, values| Box::new(Informed::new(config, &Options::read(values))),
};

choices! {
    /// Known part of the capacity to come.
    pub enum KnownCapacity {
        /// Nothing.
        Nothing = "none",
        /// A forecast.
        Forecast = "forecast",
        /// All of it.
        Exact = "exact",
    }
}

options! {
    /// Options of `informed`.
    pub struct Options {
        losses: bool = switch("known_losses", "drops by no queue are no losses", false, "chosen here: nothing is known"),
        capacity: KnownCapacity = KnownCapacity::option(
            "known_capacity",
            "bandwidth of the slot model: measured, forecast for each second, or the capacity to come",
            KnownCapacity::Nothing,
            "chosen here: nothing is known",
        ),
        forecast_error: f64 = number(
            "forecast_error",
            "standard deviation of the natural logarithm of a forecast's error",
            0.4,
            0.0,
            3.0,
            "a mean absolute error of 33 %, as measured 1 s ahead on UDP (docs/guides/predict.md)",
        ),
        hints: Hints = HINTS,
    }
}

/// Time that a forecast is for. Chosen here: the service's shortest horizon.
const FORECAST_STEP: Nanos = Nanos::from_secs(1);

/// Least bandwidth that it expects. Chosen here: at the rate of an interruption, zero, the next packet would leave long after it.
const LEAST: Rate = Rate(1_000_000);

/// `bbr3-leo` with knowledge of the path.
#[derive(Clone, Debug)]
pub struct Informed {
    leo: Bbr3Leo,
    mss: u32,
    streams: Streams,
    known: KnownCapacity,
    forecast_error: f64,
    capacity: Capacity,
    losses: Option<HiddenLosses>,
}

/// Losses that the controller does not see.
#[derive(Clone, Debug, Default)]
struct HiddenLosses {
    /// First bytes of packets that were dropped, but by no queue, and that the sender has not marked lost yet.
    dropped: BTreeSet<u64>,
    /// All bytes lost, and the hidden ones among them, after each hidden loss.
    totals: Vec<(Bytes, Bytes)>,
    /// Bytes hidden since the last ACK.
    fresh: Bytes,
    /// Whether a loss that is not hidden came since the last recovery ended.
    is_congested: bool,
}

impl HiddenLosses {
    /// Returns the bytes that were hidden when `lost` bytes were lost.
    fn hidden_at(&self, lost: Bytes) -> Bytes {
        let count = self.totals.partition_point(|total| total.0 <= lost);
        count.checked_sub(1).map_or(Bytes::ZERO, |last| self.totals[last].1)
    }

    /// Hides the loss of a packet, if it was dropped by no queue; otherwise returns it without the hidden ones.
    fn seen(&mut self, lost: &LostPacket, mss: u32) -> Option<LostPacket> {
        let hidden = self.totals.last().map_or(Bytes::ZERO, |total| total.1);
        if self.dropped.remove(&lost.seq) {
            let packet = Bytes(u64::from(mss));
            self.totals.push((lost.lost_total, hidden + packet));
            self.fresh += packet;
            return None;
        }
        self.is_congested = true;
        let before = self.hidden_at(lost.lost_at_send);
        Some(LostPacket {
            lost_at_send: lost.lost_at_send.saturating_sub(before),
            lost_total: lost.lost_total.saturating_sub(hidden),
            ..*lost
        })
    }

    /// Returns an ACK without the hidden losses.
    fn seen_ack(&mut self, ack: &AckSample) -> AckSample {
        let fresh = std::mem::take(&mut self.fresh);
        let lost_total = ack.lost_total.saturating_sub(self.hidden_at(ack.lost_total));
        let at_send = ack.lost_total.saturating_sub(ack.lost_since_sent);
        let is_hidden = ack.recovery == RecoveryState::Recovery && !self.is_congested;
        AckSample {
            newly_lost: ack.newly_lost.saturating_sub(fresh),
            lost_total,
            lost_since_sent: lost_total.saturating_sub(at_send.saturating_sub(self.hidden_at(at_send))),
            recovery: if is_hidden { RecoveryState::Open } else { ack.recovery },
            ..*ack
        }
    }

    /// Returns whether the controller sees an event.
    fn sees(&mut self, event: Congestion) -> bool {
        match event {
            Congestion::Loss | Congestion::TailLoss | Congestion::Undo => self.is_congested,
            Congestion::RecoveryEnd => std::mem::take(&mut self.is_congested),
            Congestion::Timeout | Congestion::TimeoutAgain => {
                self.is_congested = true;
                true
            }
            Congestion::Ecn | Congestion::Restart(_) => true,
        }
    }
}

impl Informed {
    fn new(config: &Config, options: &Options) -> Self {
        Self {
            leo: Bbr3Leo::hinted(config, options.hints),
            mss: config.mss,
            streams: config.streams,
            known: options.capacity,
            forecast_error: options.forecast_error,
            capacity: Capacity::default(),
            losses: options.losses.then(HiddenLosses::default),
        }
    }

    /// Returns a forecast for each second: the mean of the capacity, with an error.
    fn forecast(&self, steps: &[(Time, Rate)]) -> Vec<(Time, Rate)> {
        let mut errors = self.streams.stream("forecast");
        let exact = Capacity::new(steps.to_vec());
        let seconds = steps.last().map_or(0, |step| step.0.0 / FORECAST_STEP.0 + 1);
        let at = |second: u64| Time(second * FORECAST_STEP.0);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a rate below 2^53
        let with_error = |rate: Rate, error: f64| Rate((rate.0 as f64 * error) as u64);
        (0..seconds)
            .map(|second| {
                let error = errors.log_normal(0.0, self.forecast_error);
                (at(second), with_error(exact.mean(at(second), at(second + 1)), error))
            })
            .collect()
    }
}

impl Controller for Informed {
    delegate!(
        leo: on_established, on_sent, on_path_hint, cwnd, set_cwnd, ssthresh, pacing_rate, controls_recovery, sndbuf_factor, min_tso_segments, max_rto, observe
    );

    fn on_knowledge(&mut self, knowledge: &Knowledge<'_>) {
        match knowledge {
            Knowledge::Capacity(steps) => {
                self.capacity = Capacity::new(match self.known {
                    KnownCapacity::Nothing => Vec::new(),
                    KnownCapacity::Forecast => self.forecast(steps),
                    KnownCapacity::Exact => steps.to_vec(),
                });
            }
            Knowledge::RandomLoss(seq) => {
                if let Some(losses) = &mut self.losses {
                    losses.dropped.insert(*seq);
                }
            }
        }
    }

    fn on_ack(&mut self, ack: &AckSample) {
        let seen = self.losses.as_mut().map_or(*ack, |losses| losses.seen_ack(ack));
        if !self.capacity.is_empty() {
            let rate = match self.known {
                KnownCapacity::Exact => self.capacity.mean(ack.now, ack.now + ack.srtt),
                KnownCapacity::Nothing | KnownCapacity::Forecast => self.capacity.at(ack.now),
            };
            self.leo.expect_bandwidth(Bw::of(Bytes(rate.max(LEAST).0 / 8), Nanos::from_secs(1), self.mss));
        }
        self.leo.on_ack(&seen);
    }

    fn on_packet_lost(&mut self, lost: &LostPacket) {
        let seen = self.losses.as_mut().map_or(Some(*lost), |losses| losses.seen(lost, self.mss));
        if let Some(seen) = seen {
            self.leo.on_packet_lost(&seen);
        }
    }

    fn on_congestion(&mut self, now: Time, event: Congestion, in_flight: Bytes) {
        if self.losses.as_mut().is_none_or(|losses| losses.sees(event)) {
            self.leo.on_congestion(now, event, in_flight);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{ack_at, in_bytes};
    use super::*;

    fn lost(seq: u64, lost_at_send: u64, lost_total: u64) -> LostPacket {
        LostPacket {
            now: Time::ZERO,
            seq,
            bytes: Bytes(1448),
            sent_at: Time::ZERO,
            tx_in_flight: in_bytes(10),
            delivered_at_send: Bytes::ZERO,
            lost_at_send: in_bytes(lost_at_send),
            lost_total: in_bytes(lost_total),
            delivered_total: Bytes::ZERO,
            app_limited: false,
        }
    }

    #[test]
    fn a_loss_that_is_no_congestion_is_hidden_with_its_recovery() {
        let mut losses = HiddenLosses::default();
        losses.dropped.extend([1000, 3000]);
        assert!(losses.seen(&lost(1000, 0, 1), 1448).is_none() && !losses.sees(Congestion::Loss));
        let ack = |newly, total, since_sent, recovery| AckSample {
            newly_lost: in_bytes(newly),
            lost_total: in_bytes(total),
            lost_since_sent: in_bytes(since_sent),
            recovery,
            ..ack_at(Time::ZERO)
        };
        let seen = losses.seen_ack(&ack(1, 1, 1, RecoveryState::Recovery));
        assert_eq!((seen.newly_lost, seen.lost_total, seen.lost_since_sent), (Bytes::ZERO, Bytes::ZERO, Bytes::ZERO));
        assert_eq!(seen.recovery, RecoveryState::Open);
        // The next one is congestion, and was sent after the first was lost.
        let seen = losses.seen(&lost(2000, 1, 2), 1448).expect("not hidden");
        assert_eq!((seen.lost_at_send, seen.lost_total), (Bytes::ZERO, in_bytes(1)));
        assert!(losses.seen(&lost(3000, 1, 3), 1448).is_none());
        let seen = losses.seen_ack(&ack(2, 3, 2, RecoveryState::Recovery));
        assert_eq!((seen.newly_lost, seen.lost_total, seen.lost_since_sent), (in_bytes(1), in_bytes(1), in_bytes(1)));
        assert_eq!(seen.recovery, RecoveryState::Recovery);
        assert!(losses.sees(Congestion::RecoveryEnd) && !losses.sees(Congestion::RecoveryEnd));
        // A packet that was dropped twice by no queue was told twice.
        assert!(losses.seen(&lost(1000, 3, 4), 1448).is_some());
    }

    #[test]
    fn a_forecast_is_the_mean_of_each_second_with_an_error() {
        let second = |n: u64| Time(n * 1_000_000_000);
        let steps = [(Time::ZERO, Rate(10)), (Time(500_000_000), Rate(20)), (second(1), Rate(40)), (second(2), Rate(40))];
        let informed = |forecast_error| {
            let options = Options { losses: false, capacity: KnownCapacity::Forecast, forecast_error, hints: Hints::Detected };
            Informed::new(&super::super::testing::config(), &options)
        };
        assert_eq!(informed(0.0).forecast(&steps), [(second(0), Rate(15)), (second(1), Rate(40)), (second(2), Rate(40))]);
        let many: Vec<_> = (0..2000).map(|n| (second(n), Rate(1_000_000))).collect();
        let errors = informed(0.4).forecast(&many);
        let mean = errors.iter().map(|(_, rate)| (rate.0 as f64 / 1e6 - 1.0).abs()).sum::<f64>() / 2000.0;
        assert!((0.30..0.37).contains(&mean), "{mean}");
    }
}
