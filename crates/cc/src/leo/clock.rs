//! Learned clock: period and phase of the reconfigurations of a path, estimated from detected ones, with a confidence.
//!
//! The clock stores up to sixteen detections. It compares each period that two of them suggest with all of them: how many expected reconfigurations were
//! detected (hits), how many were not (misses), and how likely random detections fit as well. The logarithm of these odds is the clock's confidence,
//! ```text
//! ln odds = ln prior + hits · ln(q / p) + misses · ln((1 − q) / (1 − p)),   p = 1 − e^(−n · 2w / span)
//! ```
//! with q the share of reconfigurations that are detected, w the tolerance, and n detections in `span`. The fit of the phase uses up one hit, the fit of a
//! period other than the published one a second. Starlink's 15 s (Huston, *A Transport Protocol's View of Starlink*, 2024; Tanveer et al., "Making Sense of
//! Constellations", 2023) only has the better prior: the clock learns its phase, and whether it holds at all. A few hundred bytes per flow; the search runs
//! at a detection or a missed reconfiguration, not per ACK.
//!
//! Numbers are fixed point, with the same formulas as in a kernel (`bpf/core/clock.h`). All times of a search are ages of at most [`MAX_AGE`]: no sum exceeds 64 bits. The odds differ by less
//! than 10^-4 from those computed with floats, period and phase by a nanosecond.

use super::search::{CAPACITY, DETECTION_RATE, Search, TOLERANCE};
use crate::fixed;
use bentpipe_profile::{Nanos, Time};

/// Older detections are dropped: the clock may have changed. Chosen here.
const MAX_AGE: Nanos = Nanos::from_secs(240);
/// ln of the odds from which on the clock is used [2^-32]: 9 to 1. Chosen here.
const MIN_LOG_ODDS: i64 = fixed::ONE.cast_signed() * 22 / 10;

/// Period and phase of the reconfigurations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotTiming {
    /// Time between two reconfigurations.
    pub period: Nanos,
    /// Time of one of them, on the sender's clock.
    pub at: Time,
    /// ln of the odds that this timing is right [2^-32].
    pub log_odds: i64,
}

impl SlotTiming {
    /// Whether the odds are high enough to use it.
    #[must_use]
    pub const fn is_sure(&self) -> bool {
        self.log_odds >= MIN_LOG_ODDS
    }

    /// Returns the confidence, 0 to 1.
    #[must_use]
    pub fn confidence(&self) -> f64 {
        1.0 / (1.0 + libm::exp(-(self.log_odds as f64 / fixed::ONE as f64)))
    }

    /// Returns the expected reconfiguration nearest to `now`.
    #[must_use]
    pub const fn nearest(&self, now: Time) -> Time {
        let (period, half) = (self.period.0, self.period.0 / 2);
        if now.0 >= self.at.0 {
            let slots = (now.0 - self.at.0).saturating_add(half) / period;
            Time(self.at.0.saturating_add(slots.saturating_mul(period)))
        } else {
            let slots = (self.at.0 - now.0).saturating_sub(half).div_ceil(period);
            Time(self.at.0.saturating_sub(slots.saturating_mul(period)))
        }
    }
}

/// Detected reconfigurations, and the timing that fits them best.
#[derive(Clone, Debug)]
pub struct Clock {
    detected: [Time; CAPACITY],
    count: usize,
    /// The only period in the search; `None`: any.
    fixed_period: Option<Nanos>,
    /// Share of reconfigurations that are detected [2^-32].
    detection_rate: u64,
    best: Option<SlotTiming>,
    /// Time at which the next expected reconfiguration counts as missed if it was not detected.
    review_at: Time,
}

impl Clock {
    /// Creates a clock that considers only this period, or any.
    #[must_use]
    pub const fn new(fixed_period: Option<Nanos>) -> Self {
        Self { detected: [Time::ZERO; CAPACITY], count: 0, fixed_period, detection_rate: DETECTION_RATE, best: None, review_at: Time::MAX }
    }

    /// Sets the share of reconfigurations that are detected [2^-32].
    #[must_use]
    pub const fn with_detection_rate(self, detection_rate: u64) -> Self {
        Self { detection_rate, ..self }
    }

    /// Records a reconfiguration detected at `at`.
    pub fn on_reconfiguration(&mut self, at: Time) {
        if self.count == CAPACITY {
            self.detected.copy_within(1.., 0);
            self.count -= 1;
        }
        self.detected[self.count] = at;
        self.count += 1;
        self.update(at);
    }

    /// Advances the time to `now` while ACKs arrive: an expected reconfiguration that was not detected counts against the clock.
    pub fn advance(&mut self, now: Time) {
        if now >= self.review_at {
            self.update(now);
        }
    }

    /// Drops all detections: no ACK arrived for so long that reconfigurations could not be detected.
    pub const fn reset(&mut self) {
        self.count = 0;
        self.best = None;
        self.review_at = Time::MAX;
    }

    /// Returns period and phase if the odds are high enough.
    #[must_use]
    pub fn timing(&self) -> Option<SlotTiming> {
        self.best.filter(SlotTiming::is_sure)
    }

    /// Returns ln of the odds of the best timing, used or not [2^-32].
    #[cfg(test)]
    pub fn log_odds(&self) -> Option<i64> {
        self.best.map(|timing| timing.log_odds)
    }

    fn update(&mut self, now: Time) {
        self.expire(now);
        let mut ages = [0; CAPACITY];
        for (age, at) in ages.iter_mut().zip(&self.detected[..self.count]) {
            *age = now.since(*at).0;
        }
        self.best = Search::new(&ages[..self.count], self.fixed_period, self.detection_rate).run().map(|line| SlotTiming {
            period: Nanos(line.period.saturating_add_signed(line.slope)),
            at: Time(now.0.saturating_sub(line.anchor).saturating_add_signed(line.intercept)),
            log_odds: line.log_odds,
        });
        self.review_at = self.best.map_or(Time::MAX, |timing| {
            let next = timing.nearest(now + Nanos(timing.period.0 / 2)) + Nanos(4 * TOLERANCE);
            next.max(now + Nanos(timing.period.0 / 4))
        });
    }

    /// Drops old detections.
    fn expire(&mut self, now: Time) {
        let mut kept = 0;
        for index in 0..self.count {
            if now.since(self.detected[index]) <= MAX_AGE {
                self.detected[kept] = self.detected[index];
                kept += 1;
            }
        }
        self.count = kept;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bentpipe_profile::Streams;

    fn at(seconds: f64) -> Time {
        Time::from_secs_f64(seconds).expect("positive")
    }

    fn clock_with(detections: &[f64]) -> Clock {
        let mut clock = Clock::new(None);
        for &s in detections {
            clock.on_reconfiguration(at(s));
        }
        clock
    }

    #[test]
    fn three_detections_at_15_s_set_the_clock() {
        assert_eq!(clock_with(&[7.0]).timing(), None);
        let timing = clock_with(&[7.0, 22.01, 37.0]).timing().expect("odds above the minimum");
        assert!(timing.confidence() > 0.99, "{timing:?}");
        assert!(timing.nearest(at(51.0)).0.abs_diff(at(52.0).0) < 20_000_000, "{timing:?}");
        assert!(timing.period.0.abs_diff(15_000_000_000) < 20_000_000);
    }

    #[test]
    fn another_period_needs_more_detections() {
        let detections: Vec<f64> = (0..8).map(|k| 3.0 + 11.3 * f64::from(k)).collect();
        assert_eq!(clock_with(&detections[..3]).timing(), None);
        let timing = clock_with(&detections).timing().expect("odds above the minimum");
        assert!(timing.period.0.abs_diff(11_300_000_000) < 5_000_000, "{timing:?}");
    }

    #[test]
    fn the_clock_survives_false_and_missed_detections() {
        let timing = clock_with(&[7.0, 13.3, 22.0, 37.0, 41.9, 67.02, 82.0]).timing().expect("odds above the minimum");
        assert!(timing.nearest(at(96.0)).0.abs_diff(at(97.0).0) < 30_000_000, "{timing:?}");
    }

    #[test]
    fn a_clock_without_further_detections_is_dropped() {
        let mut clock = clock_with(&[7.0, 22.0, 37.0, 52.0]);
        assert!(clock.timing().is_some());
        for second in 53..=150 {
            clock.advance(at(f64::from(second)));
        }
        assert_eq!(clock.timing(), None);
        clock.reset();
        assert_eq!(clock.log_odds(), None);
    }

    #[test]
    fn random_detections_rarely_set_the_clock() {
        // As many detections as a real clock would give, at random times: 400 paths, eight each in two minutes.
        let mut random = Streams::new(7).stream("accidents");
        let count = (0..400)
            .filter(|_| {
                let mut detections: Vec<f64> = (0..8).map(|_| random.uniform_in(0.0, 120.0)).collect();
                detections.sort_by(f64::total_cmp);
                clock_with(&detections).timing().is_some()
            })
            .count();
        assert!(count <= 8, "{count} of 400");
    }

    #[test]
    fn a_fixed_period_is_the_only_one_considered() {
        let mut wrong = Clock::new(Some(Nanos::from_secs(13)));
        for s in [7.0, 22.0, 37.0, 52.0] {
            wrong.on_reconfiguration(at(s));
        }
        assert_eq!(wrong.timing(), None);
    }
}
