//! Bottleneck bandwidth: the greatest delivery rate of the last ten rounds (`bbr_update_bw`).

use super::super::bbr_parts::bw::Bw;
use super::super::bbr_parts::rounds::Rounds;
use super::super::filter::Windowed;
use super::params::BANDWIDTH_WINDOW_ROUNDS;

/// Filter of the bandwidth, and the rounds that it counts by.
#[derive(Clone, Debug)]
pub struct Bandwidth {
    filter: Windowed<Bw>,
    pub rounds: Rounds,
}

impl Bandwidth {
    pub fn new() -> Self {
        Self { filter: Windowed::new(BANDWIDTH_WINDOW_ROUNDS, 0, Bw(0)), rounds: Rounds::default() }
    }

    /// Adds a sample; an application-limited one counts only if it is not below the maximum.
    pub fn update(&mut self, bw: Bw, app_limited: bool) {
        if !app_limited || bw >= self.max() {
            self.filter.update(self.rounds.count(), bw);
        }
    }

    /// Replaces all samples by this one.
    pub fn reset(&mut self, bw: Bw) {
        self.filter.reset(self.rounds.count(), bw);
    }

    pub fn max(&self) -> Bw {
        self.filter.get()
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::RateSample;
    use super::*;
    use bentpipe_profile::{Bytes, Nanos};

    #[test]
    fn the_maximum_of_ten_rounds_counts() {
        let mut b = Bandwidth::new();
        let mut rounds = 0;
        b.update(Bw(100), false);
        while b.max() == Bw(100) {
            rounds += 1;
            let sample = RateSample { prior_delivered: Bytes(u64::MAX), delivered: Bytes(1), interval: Nanos(1), app_limited: false };
            assert!(b.rounds.advance(Some(&sample), Bytes(rounds)));
            b.update(Bw(50), false);
        }
        assert_eq!(rounds, 11);
    }

    #[test]
    fn an_application_limited_sample_never_lowers_the_bandwidth() {
        let mut b = Bandwidth::new();
        b.update(Bw(100), false);
        for round in 0..30 {
            b.rounds.advance(
                Some(&RateSample { prior_delivered: Bytes(u64::MAX), delivered: Bytes(1), interval: Nanos(1), app_limited: true }),
                Bytes(round),
            );
            b.update(Bw(50), true);
        }
        assert_eq!(b.max(), Bw(100));
        b.update(Bw(101), true);
        assert_eq!(b.max(), Bw(101));
    }
}
