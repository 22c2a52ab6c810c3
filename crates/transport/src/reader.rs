//! When the receiving application reads.
//!
//! Where one burst arrives at an instant, it reads before the next comes. Where several do (a grant lets go what waited for it), the kernel takes them one
//! after the other while the application's processor wakes up: it then reads what is there, and from then on burst by burst. Each read may acknowledge
//! (`tcp_cleanup_rbuf`), so how late it wakes decides how many acknowledgements there are.
//!
//! Measured: how many acknowledgements followed each of 2181 instants of several bursts, Reno at 80 Mbit/s behind grants of 4 ms, Linux 6.18 on two virtual
//! processors (`bentpipe race --on-kernel --capture`). A single one: 59 % of those with four bursts, 55 with five, 45 with six to eight, 46 with nine and ten,
//! 37 with eleven to thirteen, 17 with fifteen and more. A wake-up of 70 µs in the mean has 65, 56, 42, 30, 21 and 8: it fits the instants of few bursts,
//! which are nine of ten, and wakes sooner than the slowest did.

use bentpipe_profile::rng::Stream;
use bentpipe_profile::{Nanos, Streams};

/// Mean time until it runs (exponential).
const WAKE_MEAN: Nanos = Nanos::from_micros(70);

/// What the kernel needs for a burst: 8 to 12 µs in that capture.
const BURST: Nanos = Nanos::from_micros(10);

/// See the module.
#[derive(Clone, Debug)]
pub struct Reader {
    wakes: Stream,
    /// Of the bursts of an instant: how many there were, and before which it does not run.
    instant: Option<(u64, u64)>,
}

impl Reader {
    /// One whose wake-ups come from `streams`.
    pub fn new(streams: Streams) -> Self {
        Self { wakes: streams.stream("reader"), instant: None }
    }

    /// A burst is there; `something`: there is something to read, which alone wakes it; `last`: no burst follows at the same instant. Whether all that is
    /// there is read now.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)] // some hundreds of µs
    pub fn reads(&mut self, something: bool, last: bool) -> bool {
        if last {
            self.instant = None;
            return true;
        }
        if !something && self.instant.is_none() {
            return false;
        }
        let wakes = &mut self.wakes;
        let (bursts, asleep) = self.instant.get_or_insert_with(|| (0, (wakes.exponential(WAKE_MEAN.0 as f64) / BURST.0 as f64) as u64));
        *bursts += 1;
        *bursts > *asleep
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads at an instant with so many bursts.
    fn reads(reader: &mut Reader, bursts: u64) -> usize {
        (1..=bursts).filter(|&n| reader.reads(true, n == bursts)).count()
    }

    #[test]
    fn what_comes_alone_is_read_at_once_and_draws_nothing() {
        let (mut reader, mut other) = (Reader::new(Streams::new(1)), Reader::new(Streams::new(1)));
        assert!((0..100).all(|_| reader.reads(true, true)));
        assert!(!reader.reads(false, false) && reader.reads(false, true), "nor does what is not in order");
        assert_eq!((0..20).map(|_| reads(&mut reader, 9)).collect::<Vec<_>>(), (0..20).map(|_| reads(&mut other, 9)).collect::<Vec<_>>());
    }

    #[test]
    fn a_sleeper_reads_many_bursts_at_once_and_keeps_up_afterwards() {
        let mut reader = Reader::new(Streams::new(1));
        for (bursts, measured) in [(4, 0.59), (5, 0.55), (7, 0.45), (9, 0.46), (12, 0.37), (18, 0.17)] {
            let found: Vec<usize> = (0..4000).map(|_| reads(&mut reader, bursts)).collect();
            #[allow(clippy::cast_precision_loss)] // thousands
            let alone = found.iter().filter(|&&n| n == 1).count() as f64 / 4000.0;
            assert!((alone - measured).abs() < 0.18, "{alone} of those with {bursts}, measured {measured}");
            assert!((2..=bursts).all(|n| found.contains(&usize::try_from(n).unwrap())), "any number of them, too");
        }
    }
}
