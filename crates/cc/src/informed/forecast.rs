//! The bandwidth that is known of the path to come: in place of the flow's own measurement, or combined with it.

use crate::AckSample;
use crate::bbr_parts::bw::Bw;
use crate::bbr_parts::measured::MeasuredBw;
use crate::bbr_parts::rounds::Rounds;
use crate::knowledge::Capacity;
use bentpipe_profile::tunables::number;
use bentpipe_profile::{Bytes, Nanos, Rate, Streams, Time};

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

choices! {
    /// Use of the known bandwidth beside the measured one.
    pub enum Combination {
        /// The known one.
        Replaces = "replaces",
        /// The lower of both.
        Lower = "lower",
        /// Their geometric mean, weighted.
        Weighted = "weighted",
    }
}

options! {
    /// Options of the known bandwidth.
    pub struct Options {
        capacity: KnownCapacity = KnownCapacity::option(
            "known_capacity",
            "bandwidth of the slot model: measured, forecast for each second, or the capacity to come",
            KnownCapacity::Nothing,
            "chosen here: nothing is known",
        ),
        error: f64 = number(
            "forecast_error",
            "standard deviation of the natural logarithm of a forecast's error",
            0.4,
            0.0,
            3.0,
            "a mean absolute error of 33 %, as measured 1 s ahead on UDP (docs/guides/predict.md)",
        ),
        combination: Combination = Combination::option(
            "known_with_measured",
            "the known bandwidth replaces the measured one, is used where it is lower, or is averaged with it (logarithms, by `known_weight`)",
            Combination::Replaces,
            "chosen here: the value of the knowledge alone",
        ),
        weight: f64 = number(
            "known_weight",
            "weight of the known bandwidth in that average",
            0.12,
            0.0,
            1.0,
            "inverse squares of the errors: 0.4 of a forecast, 0.14 of the last two rounds for the next one on the design paths (mean of eleven standard deviations)",
        ),
    }
}

/// Time that a forecast is for. Chosen here: the service's shortest horizon.
const FORECAST_STEP: Nanos = Nanos::from_secs(1);
/// Least bandwidth that it expects. Chosen here: at the rate of an interruption, zero, the next packet would leave long after it.
const LEAST: Rate = Rate(1_000_000);
/// Rounds of the measured bandwidth: as in the slot model (`bw_rounds` of `bbr3-leo`).
const BW_ROUNDS: u64 = 2;

/// The known bandwidth, with the measured one beside it.
#[derive(Clone, Debug)]
pub(super) struct Expectation {
    options: Options,
    mss: u32,
    streams: Streams,
    capacity: Capacity,
    rounds: Rounds,
    measured: MeasuredBw,
}

impl Expectation {
    pub fn new(options: Options, mss: u32, streams: Streams) -> Self {
        Self { options, mss, streams, capacity: Capacity::default(), rounds: Rounds::new(), measured: MeasuredBw::new(BW_ROUNDS) }
    }

    /// Stores the known part of the capacity to come.
    pub fn on_capacity(&mut self, steps: &[(Time, Rate)]) {
        self.capacity = Capacity::new(match self.options.capacity {
            KnownCapacity::Nothing => Vec::new(),
            KnownCapacity::Forecast => self.forecast(steps),
            KnownCapacity::Exact => steps.to_vec(),
        });
    }

    /// Processes an ACK; returns the bandwidth that the slot model has to use. `None`: its own.
    pub fn on_ack(&mut self, ack: &AckSample) -> Option<Bw> {
        if self.capacity.is_empty() {
            return None;
        }
        self.rounds.advance(ack.delivery.as_ref(), ack.delivered_total);
        self.measured.update(ack.delivery, self.rounds.count(), self.mss);
        let rate = match self.options.capacity {
            KnownCapacity::Exact => self.capacity.mean(ack.now, ack.now + ack.srtt),
            KnownCapacity::Nothing | KnownCapacity::Forecast => self.capacity.at(ack.now),
        };
        let known = Bw::of(Bytes(rate.max(LEAST).0 / 8), Nanos::from_secs(1), self.mss)?;
        let Some(measured) = self.measured.get() else { return Some(known) };
        Some(match self.options.combination {
            Combination::Replaces => known,
            Combination::Lower => known.min(measured),
            Combination::Weighted => between(measured, known, self.options.weight),
        })
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
                let error = errors.log_normal(0.0, self.options.error);
                (at(second), with_error(exact.mean(at(second), at(second + 1)), error))
            })
            .collect()
    }
}

/// Returns the geometric mean of two bandwidths, of which the second has this weight.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // below 2^53, as both are
fn between(one: Bw, other: Bw, weight: f64) -> Bw {
    Bw((libm::pow(one.0 as f64, 1.0 - weight) * libm::pow(other.0 as f64, weight)) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RateSample;
    use crate::testing::{MSS, ack_at, config};

    const fn second(n: u64) -> Time {
        Time(n * 1_000_000_000)
    }

    fn expectation(capacity: KnownCapacity, error: f64, combination: Combination) -> Expectation {
        let options = Options { capacity, error, combination, weight: 0.25 };
        Expectation::new(options, MSS, config().streams)
    }

    #[test]
    fn a_forecast_is_the_mean_of_each_second_with_an_error() {
        let steps = [(Time::ZERO, Rate(10)), (Time(500_000_000), Rate(20)), (second(1), Rate(40)), (second(2), Rate(40))];
        let forecast = |error, steps: &[_]| expectation(KnownCapacity::Forecast, error, Combination::Replaces).forecast(steps);
        assert_eq!(forecast(0.0, &steps), [(second(0), Rate(15)), (second(1), Rate(40)), (second(2), Rate(40))]);
        let many: Vec<_> = (0..2000).map(|n| (second(n), Rate(1_000_000))).collect();
        let mean = forecast(0.4, &many).iter().map(|(_, rate)| (rate.0 as f64 / 1e6 - 1.0).abs()).sum::<f64>() / 2000.0;
        assert!((0.30..0.37).contains(&mean), "{mean}");
    }

    /// The path will have 16 Mbit/s, the flow delivers 1 Mbit/s.
    #[test]
    fn the_known_bandwidth_replaces_the_measured_one_or_is_combined_with_it() {
        let delivery =
            RateSample { prior_delivered: Bytes::ZERO, delivered: Bytes(12_500), interval: Nanos::from_millis(100), app_limited: false };
        let ack = AckSample { delivery: Some(delivery), srtt: Nanos::from_millis(40), ..ack_at(second(1)) };
        let mbit = |combination| {
            let mut expected = expectation(KnownCapacity::Exact, 0.0, combination);
            assert_eq!(expected.on_ack(&ack), None, "nothing is known yet");
            expected.on_capacity(&[(Time::ZERO, Rate(16_000_000))]);
            expected.on_ack(&ack).map(|bw| (bw.rate(MSS).0 as f64 / 1e5).round() / 10.0)
        };
        assert_eq!(mbit(Combination::Replaces), Some(16.0));
        assert_eq!(mbit(Combination::Lower), Some(1.0));
        assert_eq!(mbit(Combination::Weighted), Some(2.0));
    }
}
