//! Loss episodes: when bad intervals begin, how long they last, what is lost inside. A process in continuous time, separate for each direction.
//!
//! Episodes begin as a Poisson process of rate `λ ℓ²` and last a log-normal time; every reconfiguration brings one for as long as it interrupts.
//! Inside, each packet is lost with the same probability. Not fitted yet: the constants come from published measurements (see [`super::params`]).

use super::params::{LossParams, LossSide};
use bentpipe_profile::path::LOSS_ONE;
use bentpipe_profile::rng::Stream;

/// The episodes of one direction over a slot: stepped probability `(ns, 1e-9)` from `from_ns`, zero between episodes. The first `handover_ns`
/// nanoseconds are an episode.
#[must_use]
pub fn steps(
    stream: &mut Stream,
    params: &LossParams,
    side: &LossSide,
    load: f64,
    span_ns: (u64, u64),
    handover_ns: u64,
) -> Vec<(u64, u64)> {
    let (from_ns, until_ns) = span_ns;
    let mut bad = if handover_ns > 0 { vec![(from_ns, from_ns + handover_ns)] } else { Vec::new() };
    bad.extend(episodes(stream, params, side.episodes_per_s * load.powf(params.load_power), span_ns));
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a probability
    let inside = (params.probability_inside * LOSS_ONE as f64) as u64;
    let mut out = vec![(from_ns, 0)];
    let mut free_from = from_ns;
    for (start, end) in bad {
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
    if out.len() > 1 && out[out.len() - 1].0 >= until_ns {
        out.pop();
    }
    out
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
        let length_ms = stream.log_normal(params.length_median_ms.ln(), params.length_log_sigma);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // positive; `as` saturates
        let (start, length) = (from_ns.saturating_add((at_s * 1e9) as u64), (length_ms * 1e6) as u64);
        if start >= until_ns {
            return out;
        }
        out.push((start, start.saturating_add(length.max(1))));
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
        let mean_s = params.length_median_ms / 1e3 * (params.length_log_sigma.powi(2) / 2.0).exp();
        let share = bad as f64 / span as f64;
        let wanted = 1.0 - (-0.05 * mean_s).exp();
        assert!((share / wanted - 1.0).abs() < 0.15, "{share} {wanted}");
    }

    proptest! {
        #[test]
        fn steps_are_in_order_and_alternate(seed in 0_u64..500, load in 0.1_f64..30.0, handover in 0_u64..300_000_000) {
            let params = LossParams::default();
            let (from, until) = (5_000_000_000, 20_000_000_000);
            let found = steps(&mut Streams::new(seed).stream("l"), &params, &params.up, load, (from, until), handover);
            prop_assert_eq!(found[0].0, from);
            for pair in found.windows(2) {
                prop_assert!(pair[1].0 > pair[0].0);
                prop_assert!((pair[0].1 == 0) != (pair[1].1 == 0));
            }
            prop_assert!(found.last().unwrap().0 < until);
        }
    }
}
