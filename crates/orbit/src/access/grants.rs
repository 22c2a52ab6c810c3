//! The grant schedule of a slot: the times at which waiting packets are sent.
//!
//! Opportunities come every so many frames of 1/750 s (Humphreys et al., IEEE TAES 2023: 302 symbols of 4.4 µs and a guard make a frame). Each is
//! used with probability
//!
//! ```text
//! p = 1 / (1 + w ℓ / P)
//! ```
//!
//! `P` [ms] is the time between opportunities, `w` [ms] the mean wait beyond the first one at load 1, and `ℓ` the load of the slot (uplink: times the
//! current [`super::wait_factor`]). A packet that arrives between two used opportunities leaves at the second. Its wait falls by 1 ms per ms of arrival
//! time: the sawtooth that pings show.

use bentpipe_profile::rng::Stream;

/// Frames in a second.
pub const FRAMES_PER_S: i64 = 750;

/// Return when frame `number` since 1970 begins [ns since 1970], rounded down to the nanosecond.
#[must_use]
pub const fn frame_begin(number: i64) -> i64 {
    (number * 4_000_000).div_euclid(3)
}

/// Return the first frame that begins at or after an instant [ns since 1970].
#[must_use]
pub const fn frame_from(unix_ns: i64) -> i64 {
    let guess = (unix_ns * 3).div_euclid(4_000_000);
    if frame_begin(guess) < unix_ns { guess + 1 } else { guess }
}

/// Draw the used opportunities from `from_ns` until before `until_ns` [ns since 1970], in order. Opportunities come every `period_frames` frames, with a
/// random phase. `wait_ms`: mean wait beyond the first opportunity at a time.
#[must_use]
pub fn used(stream: &mut Stream, from_ns: i64, until_ns: i64, period_frames: i64, wait_ms: impl Fn(i64) -> f64) -> Vec<i64> {
    let period_ms = period_frames as f64 * 1e3 / FRAMES_PER_S as f64;
    #[allow(clippy::cast_possible_wrap, clippy::cast_sign_loss)] // a few frames
    let phase = stream.below(period_frames as u64) as i64;
    let mut frame = frame_from(from_ns) + phase;
    let mut out = Vec::new();
    while frame_begin(frame) < until_ns {
        let at = frame_begin(frame);
        if stream.uniform() * (1.0 + wait_ms(at) / period_ms) < 1.0 {
            out.push(at);
        }
        frame += period_frames;
    }
    out
}

/// Return the closures of one direction in a slot [ns since 1970]: `(start, release)`. The direction sends nothing during the interruption. Then each
/// opportunity releases the packets that arrived since the previous one. Packets after the last opportunity wait until `next_open_ns`, the end of the
/// next slot's interruption.
#[must_use]
pub fn closures(begin_ns: i64, interruption_ns: i64, used: &[i64], next_open_ns: i64) -> Vec<(i64, i64)> {
    let open_ns = begin_ns + interruption_ns;
    let first = used.partition_point(|&at| at < open_ns);
    let mut out = Vec::with_capacity(used.len() - first + 2);
    let mut from = begin_ns;
    for release in std::iter::once(open_ns).filter(|_| interruption_ns > 0).chain(used[first..].iter().copied()).chain([next_open_ns]) {
        if release > from {
            out.push((from, release));
            // A packet that arrives exactly at an opportunity still uses it.
            from = release + 1;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use bentpipe_profile::Streams;
    use proptest::prelude::*;

    #[test]
    fn there_are_750_frames_in_a_second() {
        assert_eq!(frame_from(1_000_000_000) - frame_from(0), 750);
        assert_eq!(frame_begin(frame_from(1_734_544_812_000_000_000)), 1_734_544_812_000_000_000);
    }

    #[test]
    fn the_mean_wait_equals_the_parameter() {
        let end = 400_000_000_000;
        let used = used(&mut Streams::new(3).stream("grants"), 0, end, 4, |_| 6.0);
        let mut wait_ms = 0.0;
        let mut i = 0;
        let arrivals: Vec<i64> = (0..39_000).map(|k| k * 10_007_013).filter(|&t| t < used[used.len() - 1]).collect();
        for &t in &arrivals {
            while used[i] < t {
                i += 1;
            }
            wait_ms += (used[i] - t) as f64 / 1e6;
        }
        // Half a period until the first opportunity, then w.
        let mean = wait_ms / arrivals.len() as f64;
        assert!((mean - (4.0 / 1.5 + 6.0)).abs() < 0.25, "{mean}");
    }

    proptest! {
        #[test]
        fn frame_from_returns_the_first_frame_at_or_after_a_time(ns in -2_000_000_000_000_000_000_i64..2_000_000_000_000_000_000) {
            let frame = frame_from(ns);
            prop_assert!(frame_begin(frame) >= ns);
            prop_assert!(frame_begin(frame - 1) < ns);
        }

        #[test]
        fn closures_are_in_order(
            gaps in prop::collection::vec(1_i64..9_000_000, 0..50),
            interruption in 0_i64..200_000_000,
            next in 0_i64..200_000_000,
        ) {
            let mut at = 0;
            let used: Vec<i64> = gaps.iter().map(|g| { at += g; at }).filter(|&t| t < 300_000_000).collect();
            let closures = closures(0, interruption, &used, 300_000_000 + next);
            for pair in closures.windows(2) {
                prop_assert!(pair[1].0 > pair[0].0 && pair[1].1 >= pair[0].1);
            }
            prop_assert!(closures.iter().all(|c| c.1 > c.0));
            prop_assert_eq!(closures.last().unwrap().1, 300_000_000 + next);
        }
    }
}
