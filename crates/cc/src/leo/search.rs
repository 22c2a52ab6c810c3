//! Search of the period and phase that explain the detections of a [`super::clock`] best.

use crate::fixed;
use bentpipe_profile::Nanos;

/// Stored detections. Chosen here: four minutes of 15 s.
pub(super) const CAPACITY: usize = 16;
/// Largest difference between an expected and a detected reconfiguration [ns]. Chosen here: the silence is detected within an RTT, whose part from the satellite
/// to the sender varies little.
pub(super) const TOLERANCE: u64 = 150_000_000;
/// Share of reconfigurations that a flow detects [2^-32]: 0.9. Chosen here: some are too short, some fall into a pause.
pub(super) const DETECTION_RATE: u64 = fixed::ONE * 9 / 10;
/// The published period [ns].
const PUBLISHED_PERIOD: u64 = 15_000_000_000;
/// Shortest and longest period in the search [ns].
const MIN_PERIOD: u64 = 4_000_000_000;
const MAX_PERIOD: u64 = 60_000_000_000;
/// ln of the prior odds that the path has a clock of the published period, or of another one [2^-32]: −1.1 and −4.6. Chosen here: one in three for 15 s is cautious, by
/// the LEO paths measured so far; another period would be new.
const PRIOR_PUBLISHED: i64 = fixed::ONE.cast_signed() * -11 / 10;
const PRIOR_OTHER: i64 = fixed::ONE.cast_signed() * -46 / 10;
/// Slots are numbered from the anchor's: this number, so that none is negative. A fixed period is a second at least.
const ANCHOR_SLOT: u64 = 256;

/// Logarithms of the odds [2^-32], by whether the period is published or fixed.
#[derive(Clone, Copy, Debug)]
struct Odds {
    prior: i64,
    /// Hits that the fit uses up.
    fitted: u64,
    /// Gain per hit and loss per miss, both positive.
    hit: u64,
    miss: u64,
}

impl Odds {
    /// Returns the odds if `count` detections in `span` were random.
    fn new(is_known: bool, count: u64, span: u64, rate: u64) -> Self {
        let expected =
            u64::try_from(u128::from(count * 2 * TOLERANCE) * u128::from(fixed::ONE) / u128::from(span.max(1))).unwrap_or(u64::MAX);
        let p = (fixed::ONE - fixed::exp_of_minus(expected)).min(rate);
        let positive = |difference: i64| u64::try_from(difference).unwrap_or(0);
        Self {
            prior: if is_known { PRIOR_PUBLISHED } else { PRIOR_OTHER },
            fitted: if is_known { 1 } else { 2 },
            hit: positive(fixed::ln(rate) - fixed::ln(p)),
            miss: positive(fixed::ln(fixed::ONE - p) - fixed::ln(fixed::ONE - rate)),
        }
    }

    const fn log_odds(&self, hits: u64, slots: u64) -> i64 {
        let (gain, loss) = (hits.saturating_sub(self.fitted) * self.hit, slots.saturating_sub(hits) * self.miss);
        self.prior + gain.cast_signed() - loss.cast_signed()
    }
}

/// The best period, and the least-squares line through its errors over the slot number from the anchor.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Line {
    /// [ns]
    pub period: u64,
    /// Age of the detection in slot 0 [ns].
    pub anchor: u64,
    pub log_odds: i64,
    pub slope: i64,
    pub intercept: i64,
}

/// Slot in which an event is by some period, and the time since its beginning: half a period before the expected reconfiguration [ns].
#[derive(Clone, Copy)]
struct Place {
    slot: u64,
    since: u64,
}

/// A search in the detections of one update.
pub(super) struct Search<'a> {
    /// Ages of the detections, the oldest first: at most `MAX_AGE` each.
    ages: &'a [u64],
    fixed_period: Option<Nanos>,
    known: Odds,
    other: Odds,
    best: Option<Line>,
}

impl<'a> Search<'a> {
    pub fn new(ages: &'a [u64], fixed_period: Option<Nanos>, rate: u64) -> Self {
        debug_assert!(ages.len() <= CAPACITY);
        let (count, span) = (ages.len() as u64, ages.first().copied().unwrap_or(0));
        let known_period = fixed_period.map_or(PUBLISHED_PERIOD, |period| period.0);
        let (known, other) = (Odds::new(true, count, span.max(known_period), rate), Odds::new(false, count, span, rate));
        Self { ages, fixed_period, known, other, best: None }
    }

    /// Returns the best line; `None` without detections.
    pub fn run(mut self) -> Option<Line> {
        for (index, &anchor) in self.ages.iter().enumerate() {
            self.consider(self.fixed_period.map_or(PUBLISHED_PERIOD, |period| period.0), anchor);
            if self.fixed_period.is_some() {
                continue;
            }
            for before in &self.ages[..index] {
                let gap = before.saturating_sub(anchor);
                for slots in (gap / MAX_PERIOD).max(1)..=gap / MIN_PERIOD {
                    let period = gap / slots;
                    if (MIN_PERIOD..=MAX_PERIOD).contains(&period) {
                        self.consider(period, anchor);
                    }
                }
            }
        }
        self.best.map(|best| self.fit(best))
    }

    /// Compares how well reconfigurations of `period` through a detection of age `anchor` explain all detections with the best ones so far.
    fn consider(&mut self, period: u64, anchor: u64) {
        let is_known = self.fixed_period.is_some() || period == PUBLISHED_PERIOD;
        let odds = if is_known { self.known } else { self.other };
        let is_better = |log_odds: i64| self.best.is_none_or(|best| log_odds > best.log_odds);
        // Reconfigurations that could have been detected by now, that of the first detection included.
        let (first, last) = (Place::of(self.ages[0], period, anchor), Place::of(2 * TOLERANCE, period, anchor));
        let begin = first.slot + u64::from(first.since > period / 2 + TOLERANCE);
        let end = (last.slot + 1 - u64::from(last.since < period / 2)).max(ANCHOR_SLOT + 1);
        let count = self.ages.len() as u64;
        if !is_better(odds.log_odds(count, end.saturating_sub(begin))) {
            return; // not even if all detections are hits
        }
        let (mut hits, mut last_slot) = (0, 0);
        for &age in self.ages {
            let place = Place::of(age, period, anchor);
            if place.is_hit(period) && place.slot != last_slot {
                last_slot = place.slot;
                hits += 1;
            }
        }
        let log_odds = odds.log_odds(hits, end.max(last_slot + 1).saturating_sub(begin));
        if is_better(log_odds) {
            self.best = Some(Line { period, anchor, log_odds, ..Line::default() });
        }
    }

    /// Fits the line to the errors of the hits.
    fn fit(&self, best: Line) -> Line {
        let (mut n, mut sum_k, mut sum_kk, mut sum_e, mut sum_ke) = (0, 0, 0, 0, 0);
        let mut last_slot = 0;
        for &age in self.ages {
            let place = Place::of(age, best.period, best.anchor);
            if place.is_hit(best.period) && place.slot != last_slot {
                last_slot = place.slot;
                let k = place.slot.cast_signed() - ANCHOR_SLOT.cast_signed();
                let e = place.since.cast_signed() - (best.period / 2).cast_signed();
                n += 1;
                sum_k += k;
                sum_kk += k * k;
                sum_e += e;
                sum_ke += k * e;
            }
        }
        // 16 slots of at most ± 240, 16 errors of at most ± TOLERANCE: the products stay below 2^52.
        let spread = n * sum_kk - sum_k * sum_k;
        let (slope, intercept) = if spread > 0 {
            ((n * sum_ke - sum_k * sum_e) / spread, (sum_e * sum_kk - sum_k * sum_ke) / spread)
        } else {
            (0, sum_e / n.max(1))
        };
        Line { slope, intercept, ..best }
    }
}

impl Place {
    const fn of(age: u64, period: u64, anchor: u64) -> Self {
        let since_first = anchor + period / 2 + ANCHOR_SLOT * period - age;
        Self { slot: since_first / period, since: since_first % period }
    }

    const fn is_hit(self, period: u64) -> bool {
        self.since + TOLERANCE >= period / 2 && self.since <= period / 2 + TOLERANCE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_odds_are_those_of_real_numbers() {
        let unit = fixed::ONE as f64;
        for count in 1..=16 {
            for span in [1, 4, 15, 60, 100, 240, 600].map(|s| s * 1_000_000_000) {
                let p = (1.0 - libm::exp(-(count as f64) * 2.0 * TOLERANCE as f64 / span as f64)).min(0.9);
                let odds = Odds::new(true, count, span, DETECTION_RATE);
                for (hits, slots) in [(1, 1), (count, count), (count, 240), (1, 240)] {
                    let misses = slots.max(hits) - hits;
                    let expected = -1.1 + (hits - 1) as f64 * libm::log(0.9 / p) + misses as f64 * libm::log(0.1 / (1.0 - p));
                    let error = odds.log_odds(hits, slots) as f64 / unit - expected;
                    assert!(error.abs() < 1e-4, "{count} in {span} ns, {hits} of {slots}: {error}");
                }
            }
        }
    }
}
