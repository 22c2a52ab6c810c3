//! Loss episodes: their starts, durations and loss probability. A process in continuous time, separate for each direction.
//!
//! Episodes start as a Poisson process of rate `λ L^k`, with a least gap after each if there is one, and have log-normal durations. Some reconfigurations add an episode at any load: it drops the last
//! packets before the interruption, or the first ones after it. At most reconfigurations, packets that arrive during the interruption wait and arrive late
//! (pings of `Victoria`). Within an episode each packet is lost with the same probability, high enough that most losses come in runs. `L` is the load
//! without the slot's own factor, as for capacity. Named sets of parameters, the loss environments, are data
//! (`python/bentpipe/scenarios/loss.toml`). Sources of the constants of a loaded path: [`super::params`].

use super::params::{LossParams, LossSide};
use bentpipe_profile::LOSS_ONE;
use bentpipe_profile::rng::Stream;

/// Draw the episodes of one direction over a slot: stepped probability `(ns, 1e-9)` from the slot's start, zero between episodes. The last point is zero,
/// at the slot's end at the latest. `open_ns`: end of the interruption at the slot's start; `None`: there is none. `closes`: whether a reconfiguration ends
/// the slot. Each may add an episode.
#[must_use]
pub fn steps(
    stream: &mut Stream,
    params: &LossParams,
    side: &LossSide,
    load: f64,
    span_ns: (u64, u64),
    (open_ns, closes): (Option<u64>, bool),
) -> Vec<(u64, u64)> {
    let (from_ns, until_ns) = span_ns;
    let mut intervals = episodes(stream, params, side.episodes_per_s * libm::pow(load, params.load_power), span_ns);
    // Both are always drawn, so that the slots of a Profile that begins later are the same.
    let median_ms = params.reconfiguration_length_median_ms.unwrap_or(params.length_median_ms);
    let [first, last] =
        [(); 2].map(|()| (stream.uniform() < params.reconfiguration_probability, length_ns(stream, median_ms, params.length_log_sigma)));
    if let (Some(open_ns), (true, length)) = (open_ns, first) {
        intervals.push((open_ns, open_ns.saturating_add(length)));
    }
    if let (true, (true, length)) = (closes, last) {
        intervals.push((until_ns.saturating_sub(length).max(from_ns), until_ns));
    }
    intervals.sort_unstable();
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a probability
    let inside = (params.probability_inside * LOSS_ONE as f64) as u64;
    let mut out = vec![(from_ns, 0)];
    let mut free_from = from_ns;
    for (start, end) in intervals {
        // Cut at the slot's end: the next slot has its own episodes.
        let (start, end) = (start.max(free_from), end.min(until_ns));
        if end <= start {
            continue;
        }
        // Adjacent episodes are merged.
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

/// Draw the duration of an episode [ns].
fn length_ns(stream: &mut Stream, median_ms: f64, log_sigma: f64) -> u64 {
    let length_ms = stream.log_normal(libm::log(median_ms), log_sigma);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // positive; `as` saturates
    let length = (length_ms * 1e6) as u64;
    length.max(1)
}

/// Draw the episodes that start within a span: start and end, in order of start. [`super::AccessParams::check`] bounds the rate.
fn episodes(stream: &mut Stream, params: &LossParams, rate_per_s: f64, (from_ns, until_ns): (u64, u64)) -> Vec<(u64, u64)> {
    let mut out = Vec::new();
    if rate_per_s <= 0.0 {
        return out;
    }
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // checked: at most half a slot
    let last_ns = until_ns.saturating_sub((params.least_gap_s * 1e9) as u64);
    let mut at_s = 0.0;
    loop {
        at_s += params.least_gap_s + stream.exponential(1.0 / rate_per_s);
        let length = length_ns(stream, params.length_median_ms, params.length_log_sigma);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // positive; `as` saturates
        let start = from_ns.saturating_add((at_s * 1e9) as u64);
        if start >= last_ns {
            return out;
        }
        out.push((start, start.saturating_add(length)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::params::MAX_EPISODES_PER_S;
    use bentpipe_profile::Streams;
    use proptest::prelude::*;

    #[test]
    fn the_share_of_time_in_episodes_is_rate_times_duration() {
        let params = LossParams::default();
        let side = LossSide { episodes_per_s: 0.05 };
        let span = 40_000_000_000_000;
        let points = steps(&mut Streams::new(4).stream("l"), &params, &side, 1.0, (0, span), (None, false));
        let episodes: u64 = points.windows(2).filter(|w| w[0].1 > 0).map(|w| w[1].0 - w[0].0).sum();
        let mean_s = params.length_median_ms / 1e3 * libm::exp(params.length_log_sigma * params.length_log_sigma / 2.0);
        let share = episodes as f64 / span as f64;
        let expected = 1.0 - libm::exp(-0.05 * mean_s);
        assert!((share / expected - 1.0).abs() < 0.15, "{share} {expected}");
    }

    const SLOT_NS: u64 = 15_000_000_000;
    /// An interruption of 80 ms at the start, and a reconfiguration at the end.
    const EDGES: (Option<u64>, bool) = (Some(80_000_000), true);

    /// Loss rate of a direction, and the fraction of seconds with any loss.
    #[derive(Clone, Copy, Default)]
    struct Level {
        lost: f64,
        seconds: f64,
    }

    /// Compute the level over `slots` slots at one load.
    fn level(params: &LossParams, side: &LossSide, load: f64, streams: Streams, slots: u64) -> Level {
        let mut total = Level::default();
        for slot in 0..slots {
            let points = steps(&mut streams.stream(&format!("{slot}")), params, side, load, (0, SLOT_NS), EDGES);
            let mut hit = [false; 15];
            for pair in points.windows(2).filter(|pair| pair[0].1 > 0) {
                total.lost += params.probability_inside * (pair[1].0 - pair[0].0) as f64;
                for second in pair[0].0 / 1_000_000_000..=(pair[1].0 - 1) / 1_000_000_000 {
                    hit[usize::try_from(second).unwrap()] = true;
                }
            }
            total.seconds += hit.iter().filter(|hit| **hit).count() as f64;
        }
        Level { lost: total.lost / (slots * SLOT_NS) as f64, seconds: total.seconds / (slots * 15) as f64 }
    }

    /// Compute the level over the spread between Profiles: three nodes of Gauss and Hermite, exact for the first five moments of `Z`.
    fn hour_level(params: &LossParams, side: &LossSide, hour: u32, slots: u64) -> Level {
        use crate::access::params::LoadParams;
        let load = LoadParams::default();
        let daily = load.daily_log_amplitude * libm::cos(std::f64::consts::TAU * (f64::from(hour) - load.peak_solar_hour) / 24.0);
        let mut mean = Level::default();
        for (node, weight) in [(-libm::sqrt(3.0), 1.0 / 6.0), (0.0, 2.0 / 3.0), (libm::sqrt(3.0), 1.0 / 6.0)] {
            let busy = libm::exp(daily + load.profile_log_sigma * node);
            let at = level(params, side, busy, Streams::new(11 + u64::from(hour)), slots);
            mean.lost += weight * at.lost;
            mean.seconds += weight * at.seconds;
        }
        mean
    }

    /// The loss rates of a loaded path, over hours and Profiles, are those of their sources. Prints the figures of the documentation:
    /// `cargo test -p bentpipe-orbit the_level_over_hours -- --nocapture`.
    #[test]
    fn the_level_over_hours_and_profiles_is_that_of_the_sources() {
        let params = LossParams::default();
        let (mut pings, mut hourly) = (0.0, vec![0.0; 24]);
        for (name, side) in [("up", &params.up), ("down", &params.down)] {
            let hours: Vec<Level> = (0..24).map(|hour| hour_level(&params, side, hour, 400)).collect();
            let day = |part: fn(&Level) -> f64| 100.0 * hours.iter().map(part).sum::<f64>() / 24.0;
            let (lost, seconds) = (day(|l| l.lost), day(|l| l.seconds));
            println!(
                "{name}: {lost:.2} % lost over the day ({:.2} % at 8 h, {:.2} % at 20 h); {seconds:.1} % of seconds have a loss",
                100.0 * hours[8].lost,
                100.0 * hours[20].lost
            );
            // Both directions of a ping, which are lost independently.
            pings += lost;
            hourly.iter_mut().zip(&hours).for_each(|(sum, hour)| *sum += 100.0 * hour.lost);
            // Under load 0.9 % (`SatGuard`) to 1.96 % (Michel et al.).
            assert!((0.9..=1.96).contains(&lost), "{name}: {lost}");
        }
        println!("pings: {pings:.2} % lost over the day, {:.2} at 8 h, {:.2} at 20 h", hourly[8], hourly[20]);
    }

    /// A loaded uplink has an episode in about two seconds; one in two reconfigurations brings one on either side of it.
    #[test]
    fn a_loaded_uplink_has_an_episode_in_about_two_seconds() {
        let params = LossParams::default();
        let streams = Streams::new(5);
        let slots = 400;
        let count = |slot: u64| {
            let points = steps(&mut streams.stream(&format!("{slot}")), &params, &params.up, 1.0, (0, SLOT_NS), EDGES);
            points.iter().filter(|step| step.1 > 0).count()
        };
        let every_s = (15 * slots) as f64 / (0..slots).map(count).sum::<usize>() as f64;
        assert!((1.6..=2.2).contains(&every_s), "an episode each {every_s:.2} s");
    }

    /// With a least gap, episodes keep it from each other and from the slot's edges; those at reconfigurations have their own length.
    #[test]
    fn episodes_keep_the_least_gap_and_those_at_reconfigurations_their_own_length() {
        let params = LossParams {
            reconfiguration_probability: 1.0,
            least_gap_s: 3.5,
            length_median_ms: 60.0,
            reconfiguration_length_median_ms: Some(30.0),
            load_power: 0.0,
            ..LossParams::default()
        };
        let side = LossSide { episodes_per_s: 0.4 };
        let (streams, gap_ns) = (Streams::new(3), 3_500_000_000);
        let (mut own, mut edges) = (Vec::new(), Vec::new());
        for slot in 0..2000 {
            let points = steps(&mut streams.stream(&format!("{slot}")), &params, &side, 1.0, (0, SLOT_NS), EDGES);
            let episodes: Vec<(u64, u64)> = points.windows(2).filter(|pair| pair[0].1 > 0).map(|pair| (pair[0].0, pair[1].0)).collect();
            assert!(Some(episodes[0].0) == EDGES.0 && episodes[episodes.len() - 1].1 == SLOT_NS, "{episodes:?}");
            let inner = &episodes[1..episodes.len() - 1];
            assert!(inner.windows(2).all(|pair| pair[1].0 - pair[0].0 >= gap_ns), "{episodes:?}");
            assert!(inner.iter().all(|one| one.0 >= gap_ns && one.0 < SLOT_NS - gap_ns), "{episodes:?}");
            own.extend(inner.iter().map(|one| one.1 - one.0));
            edges.extend([episodes[0], episodes[episodes.len() - 1]].map(|one| one.1 - one.0));
        }
        for (lengths, expected_ms) in [(&mut own, 60.0), (&mut edges, 30.0)] {
            lengths.sort_unstable();
            let median_ms = lengths[lengths.len() / 2] as f64 / 1e6;
            assert!((median_ms / expected_ms - 1.0).abs() < 0.08, "{median_ms} of {expected_ms}");
        }
    }

    /// At least three quarters of the loss events of a download are of several packets (Michel et al., IMC 2022).
    #[test]
    fn most_loss_events_are_runs_of_several_packets() {
        let params = LossParams::default();
        // Full-size packets of a download of 120 Mbit/s, and of an upload of 15.
        for (side, spacing_ns) in [(&params.down, 100_000), (&params.up, 800_000)] {
            let streams = Streams::new(3);
            let (mut events, mut several, mut burst_shares) = (0_u32, 0_u32, Vec::new());
            for slot in 0..200 {
                let points = steps(&mut streams.stream(&format!("{slot}")), &params, side, 1.0, (0, SLOT_NS), EDGES);
                let mut draws = streams.stream(&format!("packets/{slot}"));
                for pair in points.windows(2).filter(|pair| pair[0].1 > 0) {
                    let packets = (pair[1].0 - pair[0].0) / spacing_ns;
                    let (mut run, mut lost) = (0, 0);
                    for packet in 0..=packets {
                        if packet < packets && draws.uniform() < pair[0].1 as f64 / LOSS_ONE as f64 {
                            run += 1;
                            lost += 1;
                        } else {
                            events += u32::from(run > 0);
                            several += u32::from(run > 1);
                            run = 0;
                        }
                    }
                    burst_shares.push(100.0 * f64::from(lost) * spacing_ns as f64 / 1e9);
                }
            }
            burst_shares.sort_by(f64::total_cmp);
            let share = f64::from(several) / f64::from(events);
            let at = |part: usize| burst_shares[burst_shares.len() * part / 100];
            println!(
                "every {} µs: {share:.2} of {events} events; a burst costs its second {:.1}/{:.1}/{:.1} %",
                spacing_ns / 1000,
                at(25),
                at(50),
                at(75)
            );
            assert!(share >= 0.75, "{share}");
        }
    }

    /// Without other episodes, the given fraction of reconfigurations drops the last packets before them, and the same fraction the first ones after, for the
    /// usual duration. Without a reconfiguration no packet is lost.
    #[test]
    fn some_reconfigurations_drop_packets_before_or_after_them() {
        let (params, quiet) = (LossParams::default(), LossSide { episodes_per_s: 0.0 });
        let streams = Streams::new(7);
        let slots = 20_000;
        let (mut before, mut after) = (Vec::new(), Vec::new());
        for k in 0..slots {
            let stream = || streams.stream(&format!("l{k}"));
            let points = steps(&mut stream(), &params, &quiet, 0.1, (0, SLOT_NS), EDGES);
            for pair in points.windows(2).filter(|pair| pair[0].1 > 0) {
                let length = pair[1].0 - pair[0].0;
                if pair[1].0 == SLOT_NS {
                    before.push(length);
                } else {
                    assert_eq!(Some(pair[0].0), EDGES.0);
                    after.push(length);
                }
            }
            assert_eq!(steps(&mut stream(), &params, &quiet, 0.1, (0, SLOT_NS), (None, false)), [(0, 0)]);
        }
        for lengths in [&mut before, &mut after] {
            let (count, expected) = (lengths.len() as f64, params.reconfiguration_probability * f64::from(slots));
            assert!((count - expected).abs() < 4.0 * expected.sqrt(), "{count} {expected}");
            lengths.sort_unstable();
            let median_ms = lengths[lengths.len() / 2] as f64 / 1e6;
            // The median of n log-normal lengths is off by σ·√(π/2)/√n.
            assert!((median_ms / params.length_median_ms - 1.0).abs() < 4.0 * params.length_log_sigma * 1.25 / count.sqrt(), "{median_ms}");
        }
    }

    proptest! {
        #[test]
        fn steps_are_in_order_and_alternate(seed in 0_u64..500, log_busy in -20.0_f64..1.0, open in prop::option::of(0_u64..300_000_000), closes: bool) {
            let params = LossParams { reconfiguration_probability: 1.0, ..LossParams::default() };
            // Up to the rate that the check of parameters allows.
            let load = libm::exp(log_busy * libm::log(MAX_EPISODES_PER_S / params.up.episodes_per_s));
            let (from, until) = (5_000_000_000, 20_000_000_000);
            let points = steps(&mut Streams::new(seed).stream("l"), &params, &params.up, load, (from, until), (open.map(|open| from + open), closes));
            prop_assert_eq!(points[0].0, from);
            for pair in points.windows(2) {
                prop_assert!(pair[1].0 > pair[0].0);
                prop_assert!((pair[0].1 == 0) != (pair[1].1 == 0));
            }
            let last = points.last().unwrap();
            prop_assert!(last.0 <= until && last.1 == 0);
            if closes {
                prop_assert!(last.0 == until && points[points.len() - 2].1 > 0, "no episode before the interruption");
            }
            if let Some(open) = open {
                let at = points[points.partition_point(|p| p.0 <= from + open) - 1];
                prop_assert!(at.1 > 0, "no episode after the interruption");
            }
        }
    }
}
