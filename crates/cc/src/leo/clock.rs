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

use bentpipe_profile::{Nanos, Time};

/// Stored detections. Chosen here: four minutes of 15 s.
const CAPACITY: usize = 16;
/// Older detections are dropped: the clock may have changed. Chosen here.
const MAX_AGE: Nanos = Nanos::from_secs(240);
/// Largest difference between an expected and a detected reconfiguration. Chosen here: the silence is detected within an RTT, whose part from the satellite
/// to the sender varies little.
const TOLERANCE: Nanos = Nanos::from_millis(150);
/// Share of reconfigurations that are detected. Chosen here: some are too short, some fall into a pause.
const DETECTION_RATE: f64 = 0.9;
/// The published period.
const PUBLISHED_PERIOD: Nanos = Nanos::from_secs(15);
/// Shortest and longest period in the search [ns].
const MIN_PERIOD_NS: u64 = 4_000_000_000;
const MAX_PERIOD_NS: u64 = 60_000_000_000;
/// ln of the prior odds that the path has a clock of the published period, or of another one. Chosen here: one in three for 15 s is cautious, by the LEO paths
/// measured so far; another period would be new.
const PRIOR_PUBLISHED: f64 = -1.1;
const PRIOR_OTHER: f64 = -4.6;
/// ln of the odds from which on the clock is used: 9 to 1. Chosen here.
const MIN_LOG_ODDS: f64 = 2.2;

/// Period and phase of the reconfigurations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SlotTiming {
    /// Time between two reconfigurations.
    pub period: Nanos,
    /// Time of one of them, on the sender's clock.
    pub at: Time,
    /// ln of the odds that this timing is right.
    pub log_odds: f64,
}

impl SlotTiming {
    /// Returns the confidence, 0 to 1.
    #[must_use]
    pub fn confidence(&self) -> f64 {
        1.0 / (1.0 + libm::exp(-self.log_odds))
    }

    /// Returns the expected reconfiguration nearest to `now`.
    #[must_use]
    pub fn nearest(&self, now: Time) -> Time {
        let (period, at, now) = (i128::from(self.period.0), i128::from(self.at.0), i128::from(now.0));
        let slots = (now - at + period / 2).div_euclid(period);
        Time(u64::try_from(at + slots * period).unwrap_or(0))
    }
}

/// Detected reconfigurations, and the timing that fits them best.
#[derive(Clone, Debug)]
pub struct Clock {
    detected: [Time; CAPACITY],
    count: usize,
    /// The only period in the search; `None`: any.
    fixed_period: Option<Nanos>,
    best: Option<SlotTiming>,
    /// Time at which the next expected reconfiguration counts as missed if it was not detected.
    review_at: Time,
}

impl Clock {
    /// Creates a clock that considers only this period, or any.
    #[must_use]
    pub const fn new(fixed_period: Option<Nanos>) -> Self {
        Self { detected: [Time::ZERO; CAPACITY], count: 0, fixed_period, best: None, review_at: Time::MAX }
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
        self.best.filter(|timing| timing.log_odds >= MIN_LOG_ODDS)
    }

    /// Returns ln of the odds of the best timing, used or not.
    #[cfg(test)]
    pub fn log_odds(&self) -> Option<f64> {
        self.best.map(|timing| timing.log_odds)
    }

    fn update(&mut self, now: Time) {
        let expired = self.detected[..self.count].partition_point(|at| now.since(*at) > MAX_AGE);
        self.detected.copy_within(expired..self.count, 0);
        self.count -= expired;
        let mut best: Option<SlotTiming> = None;
        let mut consider = |candidate: Option<SlotTiming>| {
            if let Some(timing) = candidate
                && best.is_none_or(|b| timing.log_odds > b.log_odds)
            {
                best = Some(timing);
            }
        };
        for (index, &anchor) in self.detected[..self.count].iter().enumerate() {
            consider(self.score(self.fixed_period.unwrap_or(PUBLISHED_PERIOD), anchor, now));
            if self.fixed_period.is_some() {
                continue;
            }
            for before in &self.detected[..index] {
                let gap = anchor.since(*before).0;
                for slots in (gap / MAX_PERIOD_NS).max(1)..=gap / MIN_PERIOD_NS {
                    let period = gap / slots;
                    if (MIN_PERIOD_NS..=MAX_PERIOD_NS).contains(&period) {
                        consider(self.score(Nanos(period), anchor, now));
                    }
                }
            }
        }
        self.best = best;
        let next = |timing: SlotTiming| Time(timing.nearest(now + Nanos(timing.period.0 / 2)).0.saturating_add(4 * TOLERANCE.0));
        self.review_at = best.map_or(Time::MAX, |timing| next(timing).max(now + Nanos(timing.period.0 / 4)));
    }

    /// Returns how well reconfigurations of `period` through `anchor` explain the detections until `now`.
    fn score(&self, period: Nanos, anchor: Time, now: Time) -> Option<SlotTiming> {
        let detected = &self.detected[..self.count];
        let first = *detected.first()?;
        let mut hits = 0_u32;
        let mut error_sum = 0_i128;
        let (mut sum_k, mut sum_kk, mut sum_e, mut sum_ke) = (0.0, 0.0, 0.0, 0.0);
        let locate = |at: Time| {
            let (gap, period) = (i128::from(at.0) - i128::from(anchor.0), i128::from(period.0));
            let slot = (gap + period / 2).div_euclid(period);
            (slot, gap - slot * period)
        };
        let mut last_slot = None;
        for &at in detected {
            let (slot, error) = locate(at);
            if error.unsigned_abs() <= u128::from(TOLERANCE.0) && last_slot != Some(slot) {
                last_slot = Some(slot);
                hits += 1;
                error_sum += error;
                let (k, e) = (slot as f64, error as f64);
                sum_k += k;
                sum_kk += k * k;
                sum_e += e;
                sum_ke += k * e;
            }
        }
        // Reconfigurations that could have been detected by now, that of the first detection included.
        let (first_slot, first_error) = locate(first);
        let (last, last_error) = locate(Time(now.0.saturating_sub(2 * TOLERANCE.0)));
        let slots = (last - i128::from(last_error < 0)).max(last_slot.unwrap_or(0))
            - (first_slot + i128::from(first_error > i128::from(TOLERANCE.0)))
            + 1;
        let misses = u32::try_from(slots).unwrap_or(0).saturating_sub(hits);
        let span = now.since(first).0.max(period.0) as f64;
        let p = 1.0 - libm::exp(-(detected.len() as f64) * 2.0 * TOLERANCE.0 as f64 / span);
        let is_known_period = self.fixed_period.is_some() || period == PUBLISHED_PERIOD;
        let free_hits = hits.saturating_sub(if is_known_period { 1 } else { 2 });
        let log_odds = if is_known_period { PRIOR_PUBLISHED } else { PRIOR_OTHER }
            + f64::from(free_hits) * libm::log(DETECTION_RATE / p.min(DETECTION_RATE))
            + f64::from(misses) * libm::log((1.0 - DETECTION_RATE) / (1.0 - p.min(DETECTION_RATE)));
        // Least-squares line through the errors of the hits, over the slot number from the anchor.
        let n = f64::from(hits.max(1));
        let spread = sum_kk - sum_k * sum_k / n;
        let slope = if spread > 0.0 { (sum_ke - sum_k * sum_e / n) / spread } else { 0.0 };
        let intercept = error_sum as f64 / n - slope * sum_k / n;
        #[allow(clippy::cast_possible_truncation)] // within the tolerance
        let shifted = |by: f64, from: u64| u64::try_from(i128::from(from) + by as i128).unwrap_or(0);
        Some(SlotTiming { period: Nanos(shifted(slope, period.0)), at: Time(shifted(intercept, anchor.0)), log_odds })
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
