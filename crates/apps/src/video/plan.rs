//! The best qualities of the next chunks: exact model predictive control (Yin, Jindal, Sekar and Sinopoli, SIGCOMM 2015, section 5).
//!
//! A plan is a quality for each of the next chunks. Its value is the mean over scenarios of the sum over chunks of
//!
//! ```text
//! R(q) − 4.3 · stall − |R(q) − R(q before)|     [Mbit/s, s]
//! ```
//!
//! with the Pensieve weights (Mao, Netravali and Alizadeh, SIGCOMM 2017, section 5.1: `QoE_lin`). The search is depth first and leaves out what
//! cannot be better than the best plan so far; of equal plans the one with the highest first quality wins, as in Pensieve's `mpc.py`.

use super::rates::Rates;
use super::{Observation, Video};

/// Chunks of a plan: Yin et al., section 7.1.
pub const HORIZON: usize = 5;

/// Weight of a second of stall [Mbit/s].
pub const STALL: f64 = 4.3;

/// Rates to come, and from when on.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The rates.
    pub rates: Rates,
    /// Age of these rates now [s].
    pub age_s: f64,
}

/// What each request costs beside its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Costs {
    /// Bytes on the path for each byte of a chunk.
    pub expansion: f64,
    /// Time before the first byte [s].
    pub wait_s: f64,
}

impl Costs {
    /// None: the rates are throughputs of chunks, which include both.
    pub const NONE: Self = Self { expansion: 1.0, wait_s: 0.0 };
}

#[derive(Clone, Copy)]
struct State {
    at_s: f64,
    buffer_s: f64,
}

struct Search<'a> {
    video: &'a Video,
    first: usize,
    last: usize,
    scenarios: &'a [Scenario],
    costs: Costs,
    best: f64,
    choice: usize,
}

/// Return the first quality of the best plan, and the plan's value.
#[must_use]
pub fn best(seen: &Observation<'_>, scenarios: &[Scenario], costs: Costs, horizon: usize) -> (usize, f64) {
    let video = seen.video;
    let last = (seen.next + horizon).min(video.chunks());
    let mut search = Search { video, first: seen.next, last, scenarios, costs, best: f64::NEG_INFINITY, choice: 0 };
    let begin: Vec<_> = scenarios.iter().map(|each| State { at_s: each.age_s, buffer_s: seen.buffer_s }).collect();
    search.descend(seen.next, seen.last_quality, &begin, 0.0, 0);
    (search.choice, search.best)
}

impl Search<'_> {
    fn descend(&mut self, chunk: usize, before: usize, states: &[State], value: f64, choice: usize) {
        if chunk == self.last {
            if value > self.best {
                (self.best, self.choice) = (value, choice);
            }
            return;
        }
        let rates = &self.video.rates_mbps;
        // The chunks that follow have the highest rate at most.
        let most_after = (self.last - chunk - 1) as f64 * rates[rates.len() - 1];
        let mut after = states.to_vec();
        for quality in (0..rates.len()).rev() {
            let smooth = value + rates[quality] - (rates[quality] - rates[before]).abs();
            if smooth + most_after <= self.best {
                continue;
            }
            let mut stall_s = 0.0;
            for ((scenario, from), to) in self.scenarios.iter().zip(states).zip(&mut after) {
                stall_s += fetch(self.video, scenario, self.costs, *from, self.video.chunk_bytes[quality][chunk], to);
            }
            let reached = smooth - STALL * stall_s / self.scenarios.len() as f64;
            if reached + most_after > self.best {
                let own = after.clone();
                self.descend(chunk + 1, quality, &own, reached, if chunk == self.first { quality } else { choice });
            }
        }
    }
}

/// Fetch a chunk in a scenario. Returns the stall [s].
fn fetch(video: &Video, scenario: &Scenario, costs: Costs, from: State, bytes: f64, to: &mut State) -> f64 {
    let wait_s = (from.buffer_s - video.buffer_cap_s).max(0.0);
    let (at_s, buffer_s) = (from.at_s + wait_s, from.buffer_s - wait_s);
    let took_s = costs.wait_s + scenario.rates.download_s(at_s + costs.wait_s, bytes * costs.expansion);
    *to = State { at_s: at_s + took_s, buffer_s: (buffer_s - took_s).max(0.0) + video.chunk_s };
    (took_s - buffer_s).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::video::testing::video;
    use proptest::prelude::*;

    /// The value of the best plan by trying all.
    fn brute(seen: &Observation<'_>, scenarios: &[Scenario], costs: Costs, horizon: usize) -> f64 {
        let (video, last) = (seen.video, (seen.next + horizon).min(seen.video.chunks()));
        let count = (seen.next..last).map(|_| video.qualities()).product::<usize>();
        let value = |plan: usize| -> f64 {
            let sum: f64 = scenarios
                .iter()
                .map(|scenario| {
                    let (mut state, mut before, mut rest) =
                        (State { at_s: scenario.age_s, buffer_s: seen.buffer_s }, seen.last_quality, plan);
                    let mut total = 0.0;
                    for chunk in seen.next..last {
                        let quality = rest % video.qualities();
                        rest /= video.qualities();
                        let mut to = state;
                        let stall_s = fetch(video, scenario, costs, state, video.chunk_bytes[quality][chunk], &mut to);
                        total += video.rates_mbps[quality] - STALL * stall_s - (video.rates_mbps[quality] - video.rates_mbps[before]).abs();
                        (state, before) = (to, quality);
                    }
                    total
                })
                .sum();
            sum / scenarios.len() as f64
        };
        (0..count).map(value).fold(f64::NEG_INFINITY, f64::max)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn the_search_finds_the_best_of_all_plans(
            rates in prop::collection::vec(1e5..8e6f64, 1..4), buffer_s in 0.0..12.0f64, last_quality in 0usize..6, next in 1usize..12, wait_s in 0.0..0.2f64
        ) {
            let video = video(12, 12.0);
            let seen = Observation { video: &video, now_s: 0.0, next, last_quality, buffer_s, downloads: &[] };
            let scenarios: Vec<_> = rates.iter().map(|bps| Scenario { rates: Rates::constant(*bps), age_s: 0.5 }).collect();
            let costs = Costs { expansion: 1.03, wait_s };
            let (choice, value) = best(&seen, &scenarios, costs, 4);
            prop_assert!(choice < 6);
            prop_assert!((value - brute(&seen, &scenarios, costs, 4)).abs() < 1e-9);
        }
    }
}
