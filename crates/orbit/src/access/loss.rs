//! Loss episodes: when bad intervals begin, how long they last, what is lost inside. A process in continuous time, separate for each direction.
//!
//! Episodes begin as a Poisson process of rate `λ ℓ⁴` and last a log-normal time; a reconfiguration brings one more with probability
//! `min(1, ℓ⁴)`: always from a median hour on (one burst a handover: the `SatGuard` measurements under load), seldom in quiet ones (`FjordLink`'s
//! idle dishes lose anything in 2 % of seconds, and 6.7 % of seconds hold a reconfiguration). It begins when the path opens again, since nothing
//! passes while it is closed, and lasts as long as any other. Inside, each packet is lost with the same probability. `ℓ` is the load without the
//! slot's own factor, as for capacity. Not fitted yet: the constants come from published measurements (see [`super::params`]).

use super::params::{LossParams, LossSide};
use bentpipe_profile::path::LOSS_ONE;
use bentpipe_profile::rng::Stream;

/// The episodes of one direction over a slot: stepped probability `(ns, 1e-9)` from the slot's begin, zero between episodes; the last point is
/// a zero, at the slot's end at the latest. The reconfiguration's episode, if it brings one, begins `interruption_ns` after the slot; without an
/// interruption there is none.
#[must_use]
pub fn steps(
    stream: &mut Stream,
    params: &LossParams,
    side: &LossSide,
    load: f64,
    span_ns: (u64, u64),
    interruption_ns: u64,
) -> Vec<(u64, u64)> {
    let (from_ns, until_ns) = span_ns;
    let busy = libm::pow(load, params.load_power);
    let mut bad = episodes(stream, params, side.episodes_per_s * busy, span_ns);
    if interruption_ns > 0 && stream.uniform() < busy {
        let open_ns = from_ns.saturating_add(interruption_ns);
        bad.push((open_ns, open_ns.saturating_add(length_ns(stream, params))));
        bad.sort_unstable();
    }
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a probability
    let inside = (params.probability_inside * LOSS_ONE as f64) as u64;
    let mut out = vec![(from_ns, 0)];
    let mut free_from = from_ns;
    for (start, end) in bad {
        // Cut at the slot's end: the next slot has its own.
        let (start, end) = (start.max(free_from), end.min(until_ns));
        if end <= start {
            continue;
        }
        // Episodes that touch are one.
        if out.last().is_some_and(|last| last.0 == start) {
            out.pop();
        }
        if out.last().is_none_or(|last| last.1 == 0) {
            out.push((start, inside));
        }
        out.push((end, 0));
        free_from = end;
    }
    out
}

/// How long an episode lasts [ns].
fn length_ns(stream: &mut Stream, params: &LossParams) -> u64 {
    let length_ms = stream.log_normal(libm::log(params.length_median_ms), params.length_log_sigma);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // positive; `as` saturates
    let length = (length_ms * 1e6) as u64;
    length.max(1)
}

/// Begins and ends of the episodes that begin within a span, in order of begin.
fn episodes(stream: &mut Stream, params: &LossParams, rate_per_s: f64, (from_ns, until_ns): (u64, u64)) -> Vec<(u64, u64)> {
    let mut out = Vec::new();
    if rate_per_s <= 0.0 {
        return out;
    }
    let mut at_s = 0.0;
    loop {
        at_s += stream.exponential(1.0 / rate_per_s);
        let length = length_ns(stream, params);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // positive; `as` saturates
        let start = from_ns.saturating_add((at_s * 1e9) as u64);
        if start >= until_ns {
            return out;
        }
        out.push((start, start.saturating_add(length)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bentpipe_profile::Streams;
    use proptest::prelude::*;

    #[test]
    fn the_share_of_bad_time_is_rate_times_length() {
        let params = LossParams::default();
        let side = LossSide { episodes_per_s: 0.05 };
        let span = 40_000_000_000_000;
        let found = steps(&mut Streams::new(4).stream("l"), &params, &side, 1.0, (0, span), 0);
        let bad: u64 = found.windows(2).filter(|w| w[0].1 > 0).map(|w| w[1].0 - w[0].0).sum();
        let mean_s = params.length_median_ms / 1e3 * libm::exp(params.length_log_sigma * params.length_log_sigma / 2.0);
        let share = bad as f64 / span as f64;
        let wanted = 1.0 - libm::exp(-0.05 * mean_s);
        assert!((share / wanted - 1.0).abs() < 0.15, "{share} {wanted}");
    }

    /// The level over the day, at a load without spread: published figures beside [`LossParams::default`].
    #[test]
    fn quiet_hours_lose_as_idle_dishes_do_and_the_day_as_pings_do() {
        use crate::access::params::LoadParams;
        let (params, load) = (LossParams::default(), LoadParams::default());
        let streams = Streams::new(11);
        let (slot, open, slots) = (15_000_000_000, 80_000_000, 1_500);
        // Percent lost, and seconds that lose anything.
        let mean = |hour: u32, side: &LossSide| {
            let ahead = f64::from(hour) - load.peak_solar_hour;
            let busy = libm::exp(load.daily_log_amplitude * libm::cos(std::f64::consts::TAU * ahead / 24.0));
            let bad_ns: u64 = (0..slots)
                .flat_map(|k| {
                    let found = steps(&mut streams.stream(&format!("{hour}/{k}")), &params, side, busy, (0, slot), open);
                    found.windows(2).filter(|w| w[0].1 > 0).map(|w| w[1].0 - w[0].0).collect::<Vec<_>>()
                })
                .sum();
            100.0 * params.probability_inside * bad_ns as f64 / (slot * slots) as f64
        };
        for side in [&params.up, &params.down] {
            let hours: Vec<f64> = (0..24).map(|hour| mean(hour, side)).collect();
            let (quietest, busiest) = (hours[8], hours[20]);
            assert!((0.1..=0.2).contains(&quietest), "{quietest}");
            assert!((1.56..=2.5).contains(&busiest), "{busiest}");
            let day = hours.iter().sum::<f64>() / 24.0;
            assert!((0.8..=1.2).contains(&day), "{day}");
        }
    }

    /// Every slot brings one episode and nothing else does: they last as long as others do, from the opening on.
    #[test]
    fn a_reconfiguration_loses_from_the_opening_on_for_a_usual_length() {
        let (params, quiet) = (LossParams::default(), LossSide { episodes_per_s: 0.0 });
        let streams = Streams::new(7);
        let (slot, open) = (15_000_000_000, 80_000_000);
        let mut lengths: Vec<u64> = (0..2001)
            .map(|k| {
                let found = steps(&mut streams.stream(&format!("l{k}")), &params, &quiet, 1.0, (0, slot), open);
                assert_eq!((found.len(), found[0], found[1].0, found[2].1), (3, (0, 0), open, 0));
                found[2].0 - open
            })
            .collect();
        lengths.sort_unstable();
        let median_ms = lengths[1000] as f64 / 1e6;
        // The median of 2001 log-normal lengths is off by σ·√(π/2)/√2001 = 2 %.
        assert!((median_ms / params.length_median_ms - 1.0).abs() < 0.08, "{median_ms}");
    }

    proptest! {
        #[test]
        fn steps_are_in_order_and_alternate(seed in 0_u64..500, load in 0.1_f64..5.0, handover in 0_u64..300_000_000) {
            let params = LossParams::default();
            let (from, until) = (5_000_000_000, 20_000_000_000);
            let found = steps(&mut Streams::new(seed).stream("l"), &params, &params.up, load, (from, until), handover);
            prop_assert_eq!(found[0].0, from);
            for pair in found.windows(2) {
                prop_assert!(pair[1].0 > pair[0].0);
                prop_assert!((pair[0].1 == 0) != (pair[1].1 == 0));
            }
            let last = found.last().unwrap();
            prop_assert!(last.0 <= until && last.1 == 0);
            if handover > 0 && load >= 1.0 {
                let open = found[found.partition_point(|p| p.0 <= from + handover) - 1];
                prop_assert!(open.1 > 0, "nothing is lost when the path opens");
            }
        }
    }
}
