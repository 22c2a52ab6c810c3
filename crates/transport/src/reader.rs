//! Read times of the receiving application.
//!
//! If one burst arrives at an instant, the application reads it before the next arrives. If several arrive (after a grant), the kernel
//! processes them one after the other while the application wakes up on its processor. It then reads all that has arrived, and from then on
//! burst by burst. Each read may send an ACK (`tcp_cleanup_rbuf`), so the wake-up time decides the number of ACKs.
//!
//! Measured: ACKs sent at each of 2181 instants of several bursts, Reno at 80 Mbit/s behind grants of 4 ms, Linux 6.18 on two virtual
//! processors (`bentpipe race --on-kernel --capture`). A single ACK: 59 % of the instants with four bursts, 55 with five, 45 with six to
//! eight, 46 with nine and ten, 37 with eleven to thirteen, 17 with fifteen and more. A mean wake-up time of 70 µs gives 65, 56, 42, 30, 21
//! and 8, with 10 µs of kernel time per burst (8 to 12 in that capture). It fits the instants with few bursts, which are nine of ten; the slowest measured wake-ups were slower.

use crate::host_timing::{DrawnTimes, HostTimes};
use bentpipe_profile::rng::Stream;

/// The receiving application; see the module's documentation.
#[derive(Clone, Debug)]
pub struct Reader {
    /// The model's times and the stream of wake-up times; `None`: it reads each burst at once.
    host: Option<(HostTimes, Stream)>,
    /// Bursts so far at the current instant, and the number of bursts during which the application still sleeps.
    wakeup: Option<(u64, u64)>,
}

impl Reader {
    /// Create the reader of a host with these times; `None`: it takes no time.
    pub fn new(drawn: Option<DrawnTimes>) -> Self {
        Self { host: drawn.map(|drawn| (drawn.times, drawn.streams.stream("reader"))), wakeup: None }
    }

    /// Record a burst and return whether the application reads now. `has_data`: there is data in order to read, which alone wakes the
    /// application. `last`: no burst follows at the same instant.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)] // some hundreds of microseconds
    pub fn reads_now(&mut self, has_data: bool, last: bool) -> bool {
        if last {
            self.wakeup = None;
            return true;
        }
        if !has_data && self.wakeup.is_none() {
            return false;
        }
        let Some((times, wakeups)) = &mut self.host else { return true };
        let (bursts, asleep_for) =
            self.wakeup.get_or_insert_with(|| (0, (wakeups.exponential(times.reader_wakeup_mean.0 as f64) / times.burst.0 as f64) as u64));
        *bursts += 1;
        *bursts > *asleep_for
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host_timing::LINUX_VM;
    use bentpipe_profile::Streams;

    fn new_reader() -> Reader {
        Reader::new(Some(DrawnTimes { times: LINUX_VM, streams: Streams::new(1) }))
    }

    /// Count the reads at an instant with this many bursts.
    fn count_reads(reader: &mut Reader, bursts: u64) -> usize {
        (1..=bursts).filter(|&n| reader.reads_now(true, n == bursts)).count()
    }

    #[test]
    fn a_single_burst_is_read_at_once_without_a_draw() {
        let (mut reader, mut other) = (new_reader(), new_reader());
        assert!((0..100).all(|_| reader.reads_now(true, true)));
        assert!(!reader.reads_now(false, false) && reader.reads_now(false, true), "out-of-order data draws nothing either");
        assert_eq!(
            (0..20).map(|_| count_reads(&mut reader, 9)).collect::<Vec<_>>(),
            (0..20).map(|_| count_reads(&mut other, 9)).collect::<Vec<_>>()
        );
    }

    #[test]
    fn an_application_that_takes_no_time_reads_each_burst() {
        let mut reader = Reader::new(None);
        assert_eq!(count_reads(&mut reader, 20), 20);
        assert!(!reader.reads_now(false, false), "out-of-order data wakes no application");
    }

    #[test]
    fn a_sleeping_application_reads_many_bursts_at_once_then_each_burst() {
        let mut reader = new_reader();
        for (bursts, measured) in [(4, 0.59), (5, 0.55), (7, 0.45), (9, 0.46), (12, 0.37), (18, 0.17)] {
            let counts: Vec<usize> = (0..4000).map(|_| count_reads(&mut reader, bursts)).collect();
            #[allow(clippy::cast_precision_loss)] // thousands
            let single = counts.iter().filter(|&&n| n == 1).count() as f64 / 4000.0;
            assert!((single - measured).abs() < 0.18, "{single} of those with {bursts}, measured {measured}");
            assert!((2..=bursts).all(|n| counts.contains(&usize::try_from(n).unwrap())), "all larger counts occur");
        }
    }
}
