//! The learned clock: period and phase of a path's reconfigurations, from when they were seen, with how sure that is.
//!
//! Sixteen of them are kept. Each period that two of them suggest is held against all: how many of its beats were seen, how many were not, and how likely accidents would do
//! as well. The logarithm of those odds is the clock's confidence,
//! ```text
//! ln odds = ln prior + hits · ln(q / p) + misses · ln((1 − q) / (1 − p)),   p = 1 − e^(−n · 2w / span)
//! ```
//! with q the share of reconfigurations that are seen, w the width of a beat, and n sightings in `span`. A phase takes one hit for itself, a period that is not the published one a
//! second. Starlink's 15 s (Huston, *A Transport Protocol's View of Starlink*, 2024; Tanveer et al., "Making Sense of Constellations", 2023) only has the better prior: its phase,
//! and whether it holds at all, are learned. A few hundred bytes a flow; the search runs when something is seen, never per ACK.

use bentpipe_profile::{Nanos, Time};

/// How many sightings are kept. Chosen here: four minutes of 15 s.
const KEPT: usize = 16;
/// Older ones are forgotten: the clock may have changed. Chosen here.
const MEMORY: Nanos = Nanos::from_secs(240);
/// Half the width of a beat. Chosen here: the silence is seen within a RTT, whose part from the satellite to the sender varies little.
const HALF_BEAT: Nanos = Nanos::from_millis(150);
/// Share of reconfigurations that are seen. Chosen here: some are too short, some fall into a pause.
const SEEN: f64 = 0.9;
/// The published period.
const PUBLISHED: Nanos = Nanos::from_secs(15);
/// Periods that are looked for.
const SHORTEST: u64 = 4_000_000_000;
const LONGEST: u64 = 60_000_000_000;
/// ln of the prior odds that there is a clock of the published period, or of another. Chosen here: one in three of LEO paths seen so far beats at 15 s is cautious; another
/// period would be news.
const PRIOR_PUBLISHED: f64 = -1.1;
const PRIOR_OTHER: f64 = -4.6;
/// From these odds on the clock is believed: 9 to 1. Chosen here.
const BELIEVED: f64 = 2.2;

/// A period and a phase.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Beat {
    /// Between two beats.
    pub period: Nanos,
    /// One of them, on the sender's clock.
    pub at: Time,
    /// ln of the odds that it is one.
    pub log_odds: f64,
}

impl Beat {
    /// Confidence, 0 to 1.
    #[must_use]
    pub fn confidence(&self) -> f64 {
        1.0 / (1.0 + libm::exp(-self.log_odds))
    }

    /// The beat nearest to `now`.
    #[must_use]
    pub fn nearest(&self, now: Time) -> Time {
        let (period, at, now) = (i128::from(self.period.0), i128::from(self.at.0), i128::from(now.0));
        let beats = (now - at + period / 2).div_euclid(period);
        Time(u64::try_from(at + beats * period).unwrap_or(0))
    }
}

/// What is seen, and what is made of it.
#[derive(Clone, Debug)]
pub struct Clock {
    seen: [Time; KEPT],
    count: usize,
    /// The only period that is considered; `None`: any.
    only: Option<Nanos>,
    best: Option<Beat>,
    /// When the next beat, if it was not seen, is to be counted as missed.
    review_at: Time,
}

impl Clock {
    /// A clock that considers this period alone, or any.
    #[must_use]
    pub const fn new(only: Option<Nanos>) -> Self {
        Self { seen: [Time::ZERO; KEPT], count: 0, only, best: None, review_at: Time::MAX }
    }

    /// A reconfiguration was seen at `at`.
    pub fn on_edge(&mut self, at: Time) {
        if self.count == KEPT {
            self.seen.copy_within(1.., 0);
            self.count -= 1;
        }
        self.seen[self.count] = at;
        self.count += 1;
        self.learn(at);
    }

    /// The time is `now`, and ACKs are coming in: a beat that went by unseen counts against the clock.
    pub fn on_time(&mut self, now: Time) {
        if now >= self.review_at {
            self.learn(now);
        }
    }

    /// Nothing came back for so long that beats could not be seen.
    pub const fn forget(&mut self) {
        self.count = 0;
        self.best = None;
        self.review_at = Time::MAX;
    }

    /// Period and phase, if they are believed.
    #[must_use]
    pub fn beat(&self) -> Option<Beat> {
        self.best.filter(|beat| beat.log_odds >= BELIEVED)
    }

    /// ln of the odds of the best candidate, believed or not.
    #[cfg(test)]
    pub fn log_odds(&self) -> Option<f64> {
        self.best.map(|beat| beat.log_odds)
    }

    fn learn(&mut self, now: Time) {
        let old = self.seen[..self.count].partition_point(|at| now.since(*at) > MEMORY);
        self.seen.copy_within(old..self.count, 0);
        self.count -= old;
        let mut best: Option<Beat> = None;
        let mut consider = |candidate: Option<Beat>| {
            if let Some(found) = candidate
                && best.is_none_or(|b| found.log_odds > b.log_odds)
            {
                best = Some(found);
            }
        };
        for (place, &anchor) in self.seen[..self.count].iter().enumerate() {
            consider(self.judge(self.only.unwrap_or(PUBLISHED), anchor, now));
            if self.only.is_some() {
                continue;
            }
            for before in &self.seen[..place] {
                let apart = anchor.since(*before).0;
                for beats in (apart / LONGEST).max(1)..=apart / SHORTEST {
                    let period = apart / beats;
                    if (SHORTEST..=LONGEST).contains(&period) {
                        consider(self.judge(Nanos(period), anchor, now));
                    }
                }
            }
        }
        self.best = best;
        let next = |beat: Beat| Time(beat.nearest(now + Nanos(beat.period.0 / 2)).0.saturating_add(4 * HALF_BEAT.0));
        self.review_at = best.map_or(Time::MAX, |beat| next(beat).max(now + Nanos(beat.period.0 / 4)));
    }

    /// How likely beats of `period` through `anchor` explain what was seen until `now`.
    fn judge(&self, period: Nanos, anchor: Time, now: Time) -> Option<Beat> {
        let seen = &self.seen[..self.count];
        let first = *seen.first()?;
        let mut hits = 0_u32;
        let mut off = 0_i128;
        let (mut sum_k, mut sum_kk, mut sum_off, mut sum_k_off) = (0.0, 0.0, 0.0, 0.0);
        let place = |at: Time| {
            let (apart, period) = (i128::from(at.0) - i128::from(anchor.0), i128::from(period.0));
            let beat = (apart + period / 2).div_euclid(period);
            (beat, apart - beat * period)
        };
        let mut last_beat = None;
        for &at in seen {
            let (beat, error) = place(at);
            if error.unsigned_abs() <= u128::from(HALF_BEAT.0) && last_beat != Some(beat) {
                last_beat = Some(beat);
                hits += 1;
                off += error;
                let (k, e) = (beat as f64, error as f64);
                sum_k += k;
                sum_kk += k * k;
                sum_off += e;
                sum_k_off += k * e;
            }
        }
        // Beats of which one could have heard by now, the first sighting's included.
        let (first_beat, first_error) = place(first);
        let (last, last_error) = place(Time(now.0.saturating_sub(2 * HALF_BEAT.0)));
        let beats = (last - i128::from(last_error < 0)).max(last_beat.unwrap_or(0))
            - (first_beat + i128::from(first_error > i128::from(HALF_BEAT.0)))
            + 1;
        let misses = u32::try_from(beats).unwrap_or(0).saturating_sub(hits);
        let span = now.since(first).0.max(period.0) as f64;
        let p = 1.0 - libm::exp(-(seen.len() as f64) * 2.0 * HALF_BEAT.0 as f64 / span);
        let known = self.only.is_some() || period == PUBLISHED;
        let free = hits.saturating_sub(if known { 1 } else { 2 });
        let log_odds = if known { PRIOR_PUBLISHED } else { PRIOR_OTHER }
            + f64::from(free) * libm::log(SEEN / p.min(SEEN))
            + f64::from(misses) * libm::log((1.0 - SEEN) / (1.0 - p.min(SEEN)));
        // The line through the hits, as they were numbered from the anchor.
        let n = f64::from(hits.max(1));
        let spread = sum_kk - sum_k * sum_k / n;
        let slope = if spread > 0.0 { (sum_k_off - sum_k * sum_off / n) / spread } else { 0.0 };
        let middle = off as f64 / n - slope * sum_k / n;
        #[allow(clippy::cast_possible_truncation)] // within a beat's width
        let moved = |by: f64, from: u64| u64::try_from(i128::from(from) + by as i128).unwrap_or(0);
        Some(Beat { period: Nanos(moved(slope, period.0)), at: Time(moved(middle, anchor.0)), log_odds })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bentpipe_profile::Streams;

    fn at(seconds: f64) -> Time {
        Time::from_secs_f64(seconds).expect("positive")
    }

    fn told(edges: &[f64]) -> Clock {
        let mut clock = Clock::new(None);
        for &s in edges {
            clock.on_edge(at(s));
        }
        clock
    }

    #[test]
    fn three_sightings_at_15_s_are_a_clock() {
        assert_eq!(told(&[7.0]).beat(), None);
        let beat = told(&[7.0, 22.01, 37.0]).beat().expect("believed");
        assert!(beat.confidence() > 0.99, "{beat:?}");
        assert!(beat.nearest(at(51.0)).0.abs_diff(at(52.0).0) < 20_000_000, "{beat:?}");
        assert!(beat.period.0.abs_diff(15_000_000_000) < 20_000_000);
    }

    #[test]
    fn another_period_takes_longer_to_be_believed() {
        let edges: Vec<f64> = (0..8).map(|k| 3.0 + 11.3 * f64::from(k)).collect();
        assert_eq!(told(&edges[..3]).beat(), None);
        let beat = told(&edges).beat().expect("believed");
        assert!(beat.period.0.abs_diff(11_300_000_000) < 5_000_000, "{beat:?}");
    }

    #[test]
    fn accidents_in_between_and_beats_that_are_missed_do_not_undo_it() {
        let beat = told(&[7.0, 13.3, 22.0, 37.0, 41.9, 67.02, 82.0]).beat().expect("believed");
        assert!(beat.nearest(at(96.0)).0.abs_diff(at(97.0).0) < 30_000_000, "{beat:?}");
    }

    #[test]
    fn a_clock_that_stops_is_given_up() {
        let mut clock = told(&[7.0, 22.0, 37.0, 52.0]);
        assert!(clock.beat().is_some());
        for second in 53..=150 {
            clock.on_time(at(f64::from(second)));
        }
        assert_eq!(clock.beat(), None);
        clock.forget();
        assert_eq!(clock.log_odds(), None);
    }

    #[test]
    fn accidents_are_hardly_ever_taken_for_a_clock() {
        // As many sightings as a real clock would give, anywhere: 400 paths, eight each in two minutes.
        let mut random = Streams::new(7).stream("accidents");
        let taken = (0..400)
            .filter(|_| {
                let mut edges: Vec<f64> = (0..8).map(|_| random.uniform_in(0.0, 120.0)).collect();
                edges.sort_by(f64::total_cmp);
                told(&edges).beat().is_some()
            })
            .count();
        assert!(taken <= 8, "{taken} of 400");
    }

    #[test]
    fn a_period_that_is_given_is_the_only_one() {
        let mut wrong = Clock::new(Some(Nanos::from_secs(13)));
        for s in [7.0, 22.0, 37.0, 52.0] {
            wrong.on_edge(at(s));
        }
        assert_eq!(wrong.beat(), None);
    }
}
