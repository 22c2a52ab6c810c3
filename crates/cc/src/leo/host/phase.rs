//! Phase of slots with the published period, from how unusual the traffic is at each phase.
//!
//! A detection says yes or no, and of four reconfigurations in a minute one is not detected. This search uses all traffic instead. Each bin of the history has a
//! score: how much the most conspicuous silence near it looks like a reconfiguration. At a phase, the score of each slot's edge has a rank p: the share of all
//! times with a score as high. Without slots, p is uniform; at true edges it is small. The likelihood ratio of a phase is
//! ```text
//! ln L = Σ ln a + (a − 1) · ln p
//! ```
//! over the edges that were watched, of the density a · p^(a − 1) to a uniform one. Ranks need no threshold, and adapt to each path and controller. The prior is
//! uniform over the phases, or near the published phase for half of the paths; a clock of the host that is wrong loses only this advantage.

use super::super::clock::SlotTiming;
use crate::fixed;
use bentpipe_profile::{Nanos, Time};
use std::collections::VecDeque;

/// Resolution of the history. Chosen here: two polls.
pub(super) const BIN: Nanos = Nanos::from_millis(20);
/// Period of the slots: Starlink's (Tanveer et al., "Making Sense of Constellations", 2023).
const PERIOD: Nanos = Nanos::from_secs(15);
const PERIOD_BINS: usize = (PERIOD.0 / BIN.0) as usize;
/// Largest difference between an edge and a silence that is due to it [bins]: 60 ms. Chosen here: nearly all on simulated paths differ by less from their mean.
pub(super) const REACH: usize = 3;
/// Bins with a score that one silence sets.
const WIDTH: usize = 2 * REACH + 1;
/// Length of the history [bins]: 120 s. Chosen here: eight slots.
pub(super) const CAPACITY: usize = 8 * PERIOD_BINS;
/// Edges that must have been watched. Chosen here: two at random intervals agree too often.
const FEWEST_EDGES: usize = 3;
/// Exponent a of the density of ranks at true edges. Chosen here: of 0.1 to 0.4, little depends on it.
const SHAPE: f64 = 0.2;
/// Largest difference of the phase to the published one, 12 s after a minute. Chosen here: measured edges were at 11.5 to 12.0 s.
const NEAR: Nanos = Nanos::from_millis(600);
/// Phases that differ, of all and near the published one, each with half of the prior.
const PHASES: f64 = 2.0 * PERIOD.0 as f64 / (2 * REACH as u64 * BIN.0) as f64;
const PHASES_NEAR: f64 = 2.0 * (2 * NEAR.0) as f64 / (2 * REACH as u64 * BIN.0) as f64;
/// Period divided by the largest of these is still longer than the silences of a controller's probes.
const PARTS: std::ops::RangeInclusive<usize> = 2..=5;

/// Scores of the last two minutes.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    /// Number of the first bin.
    first: u64,
    /// NaN: not watched.
    scores: VecDeque<f32>,
}

impl History {
    /// Appends the score of the next bin; `None`: it was not watched.
    pub fn push(&mut self, bin: u64, score: Option<f32>) {
        if self.scores.is_empty() || bin != self.first + self.scores.len() as u64 {
            self.scores.clear();
            self.first = bin;
        }
        if self.scores.len() == CAPACITY {
            self.scores.pop_front();
            self.first += 1;
        }
        self.scores.push_back(score.unwrap_or(f32::NAN));
    }

    /// Returns the share of watched times whose score is as high as at `at`; `None`: it was not watched.
    pub fn rarity(&self, at: Time) -> Option<f64> {
        let index = usize::try_from((at.0 / BIN.0).checked_sub(self.first)?).ok()?;
        let score = self.scores.get(index).copied().filter(|score| !score.is_nan())?;
        let watched = self.scores.iter().filter(|each| !each.is_nan()).count();
        let as_high = self.scores.iter().filter(|each| **each >= score).count();
        Some(as_high as f64 / watched as f64)
    }

    /// Returns the best phase, with its odds. `published`: time of a published edge, on the clock of the history.
    pub fn best(&self, published: Option<Time>) -> Option<SlotTiming> {
        let logs = self.log_likelihoods()?;
        let odds = |phase: usize| {
            let is_near = published.is_some_and(|at| distance(self.time(phase), at) <= NEAR.0);
            logs[phase] - libm::log(if is_near { PHASES_NEAR } else { PHASES })
        };
        let best = (0..PERIOD_BINS).max_by(|a, b| odds(*a).total_cmp(&odds(*b)))?;
        if !logs[best].is_finite() || is_part(&logs, best) {
            return None;
        }
        let is_same = |phase: usize| (odds(phase) - odds(best)).abs() < 1e-9;
        let before = (1..WIDTH).take_while(|by| is_same((best + PERIOD_BINS - by) % PERIOD_BINS)).count() as u64;
        let after = (1..WIDTH).take_while(|by| is_same((best + by) % PERIOD_BINS)).count() as u64;
        let at = self.time(best).0.saturating_add(after * BIN.0 / 2);
        Some(SlotTiming { period: PERIOD, at: Time(at.saturating_sub(before * BIN.0 / 2)), log_odds: fixed_point(odds(best)) })
    }

    /// Time of a phase: the middle of a bin.
    const fn time(&self, phase: usize) -> Time {
        Time((self.first + phase as u64).saturating_mul(BIN.0).saturating_add(BIN.0 / 2))
    }

    /// Returns ln L of each phase from the first bin on; −∞ where too few edges were watched.
    fn log_likelihoods(&self) -> Option<Vec<f64>> {
        if self.scores.len() < (FEWEST_EDGES - 1) * PERIOD_BINS {
            return None;
        }
        let mut sorted: Vec<f32> = self.scores.iter().copied().filter(|score| !score.is_nan()).collect();
        sorted.sort_unstable_by(f32::total_cmp);
        let as_high = |score: f32| sorted.len() - sorted.partition_point(|each| *each < score);
        let log_likelihood = |phase: usize| {
            let edges: Vec<f32> =
                (phase..self.scores.len()).step_by(PERIOD_BINS).map(|at| self.scores[at]).filter(|each| !each.is_nan()).collect();
            if edges.len() < FEWEST_EDGES {
                return f64::NEG_INFINITY;
            }
            let log = |score: f32| {
                if score <= 0.0 {
                    return libm::log(SHAPE);
                }
                // The other edges are no evidence against this one.
                let others = edges.iter().filter(|each| **each >= score).count() - 1;
                let count = as_high(score).saturating_sub(WIDTH * others).max(WIDTH);
                let p = (count as f64 / sorted.len() as f64).min(1.0);
                libm::log(SHAPE) + (SHAPE - 1.0) * libm::log(p)
            };
            edges.iter().map(|score| log(*score)).sum()
        };
        Some((0..PERIOD_BINS).map(log_likelihood).collect())
    }
}

/// Whether the same happens two to five times in a period: it is shorter, so these are no slots.
fn is_part(logs: &[f64], best: usize) -> bool {
    PARTS.into_iter().any(|parts| (1..parts).all(|part| logs[(best + PERIOD_BINS * part / parts) % PERIOD_BINS] > logs[best] / 2.0))
}

/// Distance of two times by the phase of the slots [ns].
const fn distance(a: Time, b: Time) -> u64 {
    let rest = a.0.abs_diff(b.0) % PERIOD.0;
    if rest < PERIOD.0 - rest { rest } else { PERIOD.0 - rest }
}

#[allow(clippy::cast_possible_truncation)] // of some hundreds at most
fn fixed_point(value: f64) -> i64 {
    (value * fixed::ONE as f64) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    /// A history of `span_s` with silences of these scores.
    fn history(span_s: u64, silences: &[(f64, f32)]) -> History {
        let mut scores = vec![0.0_f32; usize::try_from(span_s * S / BIN.0).expect("small")];
        for (at_s, score) in silences {
            let bin = usize::try_from(Time::from_secs_f64(*at_s).expect("positive").0 / BIN.0).expect("small");
            for each in &mut scores[bin.saturating_sub(REACH)..=bin + REACH] {
                *each = each.max(*score);
            }
        }
        let mut made = History::default();
        for (bin, score) in scores.into_iter().enumerate() {
            made.push(bin as u64, Some(score));
        }
        made
    }

    fn is_sure(timing: Option<SlotTiming>) -> bool {
        timing.is_some_and(|timing| timing.is_sure())
    }

    const EDGES: [(f64, f32); 4] = [(7.0, 60.0), (22.0, 30.0), (37.0, 80.0), (52.0, 50.0)];

    #[test]
    fn silences_at_a_phase_set_it_among_others() {
        let others: Vec<(f64, f32)> = (0_u8..40).map(|k| (1.3 + 1.41 * f64::from(k), 25.0 + 0.1 * f32::from(k))).collect();
        let timing = history(58, &[&EDGES[..], &others].concat()).best(None);
        assert!(is_sure(timing), "{timing:?}");
        assert!(distance(timing.expect("sure").at, Time(7 * S)) < 50_000_000, "{timing:?}");
        assert!(!is_sure(history(58, &others).best(None)));
    }

    #[test]
    fn three_of_four_set_a_phase_and_weaker_ones_near_the_published_one() {
        let two = [EDGES[0], EDGES[3], (15.2, 40.0), (41.1, 40.0)];
        assert!(is_sure(history(58, &EDGES[1..]).best(None)));
        assert!(!is_sure(history(58, &two).best(None)));
        assert!(!is_sure(history(58, &two).best(Some(Time(11 * S)))));
        let others: Vec<(f64, f32)> = [3.3, 13.9, 15.2, 30.3, 41.1, 44.5, 48.0].map(|at_s| (at_s, 90.0)).into();
        let among = history(58, &[&EDGES[..], &others].concat());
        assert!(!is_sure(among.best(None)));
        assert!(!is_sure(among.best(Some(Time(29 * S)))), "0.7 s from their phase, 7 s");
        assert!(is_sure(among.best(Some(Time(67 * S + S / 2)))));
    }

    #[test]
    fn a_shorter_period_is_no_slot() {
        for period_s in [3.0, 5.0, 7.5] {
            let every: Vec<(f64, f32)> = (0_u8..40).map(|k| (1.0 + period_s * f64::from(k), 50.0)).filter(|each| each.0 < 117.0).collect();
            assert!(!is_sure(history(118, &every).best(Some(Time(S)))), "{period_s} s");
        }
    }

    #[test]
    fn what_was_not_watched_is_no_evidence() {
        assert!(History::default().best(None).is_none());
        let mut made = history(40, &EDGES[..3]);
        assert!(made.rarity(Time(22 * S)).expect("watched") < 0.02);
        for bin in 2000..2900 {
            made.push(bin, None);
        }
        assert_eq!(made.rarity(Time(52 * S)), None);
        assert!(is_sure(made.best(None)));
        made.push(9000, Some(0.0));
        assert!(made.best(None).is_none());
    }
}
