//! Queueing delay behind cross traffic, uplink: a wander within tens of milliseconds, an offset for the slot, and humps of about a second.
//!
//! ```text
//! wander(t) = m ℓ u(t) max(0, 1 + c x(t)),   x a first-order autoregression of unit variance and correlation time τ
//! ```
//!
//! Only the uplink has it, because the one-way delays of `LeoCC`'s downloads show none: they differ as much after 0.1 s as after 7 s (1.5 to 2.5 ms on
//! average), which the grant schedule alone explains.
//!
//! The sum may not fall faster than 1 ms per ms, or packets of a dense flow would overtake one another, which a ping would not show. [`limit_fall`]
//! enforces that.

use super::legs::interpolate;
use super::params::{QueueParams, WanderParams};
use super::wait_factor::WaitFactor;
use bentpipe_profile::rng::Stream;

/// Steepest fall of an offset or a hump [ns per ns].
const COMPONENT_FALL: f64 = 0.5;
/// Steepest fall of the sum: below 1 by more than the steepest fall of propagation (a satellite at 7.6 km/s on two legs: 5e-5).
const TOTAL_FALL: f64 = 0.95;
/// Duration of a rise [ns]: a step, for any packet.
const RISE_NS: u64 = 1_000;

/// Time between points of the wander, linear between them [ns]. Chosen here: few enough to store.
const WANDER_STEP_NS: u64 = 20_000_000;

/// Draw the wander over a slot: `(ns, ns)`, a point every 20 ms from the slot's start to before its end.
#[must_use]
pub fn wander(
    stream: &mut Stream,
    params: &WanderParams,
    load: f64,
    wait_factor: &WaitFactor,
    (from_ns, until_ns): (u64, u64),
) -> Vec<(u64, f64)> {
    let rho = libm::exp(-(WANDER_STEP_NS as f64 / 1e6) / params.time_ms);
    let innovation = (1.0 - rho * rho).sqrt();
    let mut x = stream.normal();
    let mut out = Vec::new();
    let mut at = from_ns;
    while at < until_ns {
        out.push((at, 1e6 * params.mean_ms * load * wait_factor.at(at) * (1.0 + params.relative_sigma * x).max(0.0)));
        x = rho * x + innovation * stream.normal();
        at += WANDER_STEP_NS;
    }
    out
}

/// A transient queue: its delay rises and falls linearly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hump {
    /// Start [ns].
    pub start_ns: u64,
    /// Duration [ns].
    pub length_ns: u64,
    /// Delay at its middle [ns].
    pub height_ns: f64,
}

impl Hump {
    fn peak_ns(&self) -> u64 {
        self.start_ns + self.length_ns / 2
    }

    fn end_ns(&self) -> u64 {
        self.start_ns + self.length_ns
    }

    fn at(&self, t: u64) -> f64 {
        interpolate(&[(self.start_ns, 0.0), (self.peak_ns(), self.height_ns), (self.end_ns(), 0.0)], t)
    }
}

/// Draw the humps that start in a slot from `from_ns` to `until_ns`: a Poisson process of `rate_per_s × load`.
#[must_use]
pub fn humps(stream: &mut Stream, params: &QueueParams, load: f64, from_ns: u64, until_ns: u64) -> Vec<Hump> {
    let mut out = Vec::new();
    let rate_per_s = params.hump_rate_per_s * load;
    if rate_per_s <= 0.0 {
        return out;
    }
    let mut at_s = 0.0;
    loop {
        at_s += stream.exponential(1.0 / rate_per_s);
        let height_ms = stream.exponential(params.hump_mean_ms).min(params.largest_ms);
        let length_s = stream.exponential(params.hump_length_s).max(2.0 * height_ms / 1e3 / COMPONENT_FALL);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // positive, and below the slot's length
        let start_ns = from_ns.saturating_add((at_s * 1e9) as u64);
        if start_ns >= until_ns {
            return out;
        }
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // positive seconds
        out.push(Hump { start_ns, length_ns: (length_s * 1e9) as u64, height_ns: height_ms * 1e6 });
    }
}

/// Return the queueing delay over consecutive slots of one hop, as a polyline `(ns, ns)` from the first slot's start to `until_ns`.
/// `offsets`: start and offset of each slot [ns], not empty; `humps` and `wander` are in order of time.
#[must_use]
pub fn polyline(offsets: &[(u64, f64)], humps: &[Hump], wander: &[(u64, f64)], until_ns: u64) -> Vec<(u64, f64)> {
    let steps = step_line(offsets);
    let begin_ns = offsets[0].0;
    let mut times: Vec<u64> = steps.iter().chain(wander).map(|p| p.0).chain([until_ns]).collect();
    for hump in humps {
        times.extend([hump.start_ns, hump.peak_ns(), hump.end_ns()]);
    }
    times.retain(|t| (begin_ns..=until_ns).contains(t));
    times.sort_unstable();
    times.dedup();
    // Humps last a few seconds, so only those around `t` are evaluated.
    let longest_ns = humps.iter().map(|h| h.length_ns).max().unwrap_or(0);
    let mut points: Vec<(u64, f64)> = times
        .into_iter()
        .map(|t| {
            let first = humps.partition_point(|h| h.start_ns + longest_ns < t);
            let hump_delay: f64 = humps[first..].iter().take_while(|h| h.start_ns <= t).map(|h| h.at(t)).sum();
            let wander_delay = if wander.is_empty() { 0.0 } else { interpolate(wander, t) };
            (t, interpolate(&steps, t) + hump_delay + wander_delay)
        })
        .collect();
    limit_fall(&mut points);
    points
}

/// Return the offsets as a polyline. A rise is a step; a fall has the slope [`COMPONENT_FALL`].
fn step_line(offsets: &[(u64, f64)]) -> Vec<(u64, f64)> {
    let mut line: Vec<(u64, f64)> = Vec::with_capacity(2 * offsets.len());
    for &(at, offset) in offsets {
        let Some(&(last_at, last)) = line.last() else {
            line.push((at, offset));
            continue;
        };
        // If the previous fall is not complete, the next step begins at its end.
        let from = at.max(last_at + 1);
        line.push((from, last));
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a positive span
        let span = if offset >= last { RISE_NS } else { RISE_NS.max(((last - offset) / COMPONENT_FALL) as u64) };
        line.push((from + span, offset));
    }
    line
}

/// Raise points so that no segment falls faster than [`TOTAL_FALL`].
fn limit_fall(points: &mut [(u64, f64)]) {
    for i in 1..points.len() {
        let least = points[i - 1].1 - TOTAL_FALL * (points[i].0 - points[i - 1].0) as f64;
        points[i].1 = points[i].1.max(least);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::params::WaitFactorParams;
    use bentpipe_profile::Streams;
    use proptest::prelude::*;

    #[test]
    fn offsets_rise_at_once_and_fall_at_a_limited_rate() {
        let s = 1_000_000_000;
        let line = polyline(&[(0, 5e6), (15 * s, 60e6), (30 * s, 10e6)], &[], &[], 45 * s);
        assert!((interpolate(&line, 15 * s) - 5e6).abs() < 1.0);
        assert!((interpolate(&line, 15 * s + 2_000) - 60e6).abs() < 1.0);
        assert!((interpolate(&line, 30 * s + 50_000_000) - 35e6).abs() < 1.0);
        assert!((interpolate(&line, 30 * s + 100_000_000) - 10e6).abs() < 1.0);
        assert_eq!((line[0].0, line[line.len() - 1].0), (0, 45 * s));
    }

    #[test]
    fn humps_start_at_their_rate() {
        let params = QueueParams { hump_rate_per_s: 0.5, ..QueueParams::default() };
        let n = humps(&mut Streams::new(2).stream("h"), &params, 2.0, 0, 2_000_000_000_000).len() as f64;
        assert!((n - 2000.0).abs() < 4.0 * 2000_f64.sqrt(), "{n}");
    }

    #[test]
    fn the_wander_has_its_mean_and_adds_to_the_offset() {
        let params = WanderParams { mean_ms: 8.0, relative_sigma: 0.3, time_ms: 60.0 };
        let points = wander(&mut Streams::new(2).stream("w"), &params, 2.0, &WaitFactor::constant_one(), (0, 2_000_000_000_000));
        let mean = points.iter().map(|p| p.1).sum::<f64>() / points.len() as f64;
        assert!((mean / 16e6 - 1.0).abs() < 0.02, "{mean}");
        let rises = points.windows(2).position(|w| w[1].1 > w[0].1).unwrap();
        let line = polyline(&[(points[rises].0, 3e6)], &[], &points, points[rises + 1].0);
        assert_eq!(line.iter().map(|p| p.0).collect::<Vec<_>>(), [points[rises].0, points[rises + 1].0]);
        assert!((line[1].1 - 3e6 - points[rises + 1].1).abs() < 1.0);
    }

    proptest! {
        #[test]
        fn the_delay_never_falls_faster_than_1_ms_per_ms(
            offsets in prop::collection::vec(0.0_f64..150e6, 1..20),
            seed in 0_u64..1000,
            load in 0.1_f64..20.0,
        ) {
            let slot = 15_000_000_000;
            let begins: Vec<_> = offsets.iter().enumerate().map(|(i, &o)| (i as u64 * slot, o)).collect();
            let until = offsets.len() as u64 * slot;
            let drawn = humps(&mut Streams::new(seed).stream("h"), &QueueParams::default(), load, 0, until);
            let wandering: Vec<_> = (0..offsets.len() as u64)
                .flat_map(|k| {
                    let span = (k * slot, (k + 1) * slot);
                    let wait_factor = WaitFactor::draw(&mut Streams::new(seed).stream("u"), &WaitFactorParams { log_sigma: 0.8, ..WaitFactorParams::default() }, span, Some(span.0));
                    wander(&mut Streams::new(seed).stream("w"), &WanderParams::default(), load, &wait_factor, span)
                })
                .collect();
            let line = polyline(&begins, &drawn, &wandering, until);
            for pair in line.windows(2) {
                prop_assert!(pair[1].0 > pair[0].0);
                let slope = (pair[1].1 - pair[0].1) / (pair[1].0 - pair[0].0) as f64;
                prop_assert!(slope > -0.951, "{slope}");
                prop_assert!(pair[1].1 >= 0.0);
            }
        }
    }
}
