//! ACK aggregation: packets acknowledged beyond the bandwidth. ACKs arrive in bunches over Wi-Fi, cable and satellite, and the window must cover the
//! silence between them (`bbr_update_ack_aggregation`; draft-ietf-ccwg-bbr-06 §5.5.9, `UpdateACKAggregation`).

use super::super::filter::Windowed;
use super::bw::Bw;
use super::params::{ACK_EPOCH_MAX_PACKETS, EXTRA_ACKED_MAX};
use bentpipe_profile::Time;

/// Windowed maximum of the excess [packets].
#[derive(Clone, Debug)]
enum ExcessFilter {
    /// Linux: the maximum of two windows, one after the other; with five rounds each it covers the last five to ten.
    TwoWindows { rounds: u32, current: usize, extra: [u64; 2] },
    /// The draft: a windowed maximum, and the rounds that it counts by.
    Maximum { round: u64, filter: Windowed<u64> },
}

impl ExcessFilter {
    fn update(&mut self, extra_acked: u64, round_start: bool, window_rounds: u32) {
        match self {
            Self::TwoWindows { rounds, current, extra } => {
                *rounds += u32::from(round_start);
                if round_start && *rounds >= window_rounds {
                    *rounds = 0;
                    *current = 1 - *current;
                    extra[*current] = 0;
                }
                extra[*current] = extra[*current].max(extra_acked);
            }
            Self::Maximum { round, filter } => {
                *round += u64::from(round_start);
                filter.set_window(u64::from(window_rounds));
                filter.update(*round, extra_acked);
            }
        }
    }
}

/// Current epoch of ACKs, and the filter of the excess.
#[derive(Clone, Debug)]
pub struct Aggregation {
    epoch_start: Time,
    epoch_acked: u64,
    filter: ExcessFilter,
}

impl Aggregation {
    /// Creates the estimator with Linux's filter.
    pub const fn with_two_windows(now: Time) -> Self {
        Self { epoch_start: now, epoch_acked: 0, filter: ExcessFilter::TwoWindows { rounds: 0, current: 0, extra: [0; 2] } }
    }

    /// Creates the estimator with the draft's filter.
    pub fn with_one_window(now: Time) -> Self {
        Self { epoch_start: now, epoch_acked: 0, filter: ExcessFilter::Maximum { round: 0, filter: Windowed::new(1, 0, 0) } }
    }

    /// Restarts the epoch: after an idle period no ACKs were expected.
    pub const fn restart_epoch(&mut self, now: Time) {
        self.epoch_start = now;
        self.epoch_acked = 0;
    }

    /// Processes an ACK with a valid delivery rate; the window, or each of the two, is `window_rounds` long.
    pub fn on_ack(&mut self, now: Time, acked: u64, round_start: bool, window_rounds: u32, bw: Bw, cwnd: u64) {
        if acked == 0 {
            return;
        }
        let mut expected = bw.packets_in(now.since(self.epoch_start));
        // The ACKs are behind the bandwidth, or the epoch is very old.
        if self.epoch_acked <= expected || self.epoch_acked.saturating_add(acked) >= ACK_EPOCH_MAX_PACKETS {
            self.restart_epoch(now);
            expected = 0;
        }
        self.epoch_acked = self.epoch_acked.saturating_add(acked).min(ACK_EPOCH_MAX_PACKETS - 1);
        let extra = self.epoch_acked.saturating_sub(expected).min(cwnd);
        self.filter.update(extra, round_start, window_rounds);
    }

    /// Returns the greatest excess in the window [packets].
    pub fn extra_acked(&self) -> u64 {
        match &self.filter {
            ExcessFilter::TwoWindows { extra, .. } => extra[0].max(extra[1]),
            ExcessFilter::Maximum { filter, .. } => filter.get(),
        }
    }

    /// Returns the packets added to the window (`bbr_ack_aggregation_cwnd`).
    pub fn window_packets(&self, bw: Bw) -> u64 {
        self.extra_acked().min(bw.packets_in(EXTRA_ACKED_MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bentpipe_profile::{Bytes, Nanos};

    const MSS: u32 = 1448;

    fn one_per_ms() -> Bw {
        Bw::of(Bytes(u64::from(MSS) * 1000), Nanos::from_secs(1), MSS).expect("a span")
    }

    #[test]
    fn a_bunch_counts_by_its_excess_over_the_bandwidth() {
        let mut a = Aggregation::with_two_windows(Time::ZERO);
        // 20 packets every 20 ms at one packet per ms: 20 at once, none of which was expected at the start of the epoch.
        for k in 1..=10 {
            a.on_ack(Time(k * 20_000_000), 20, false, 5, one_per_ms(), 1000);
        }
        assert_eq!(a.extra_acked(), 21); // 2^-24 rounds the bandwidth down, so one packet less was expected
        assert_eq!(a.window_packets(one_per_ms()), 21);
    }

    #[test]
    fn the_excess_is_limited_to_100_ms_and_to_the_window() {
        let mut a = Aggregation::with_two_windows(Time::ZERO);
        a.on_ack(Time(1), 500, false, 5, one_per_ms(), 300);
        assert_eq!(a.extra_acked(), 300);
        assert_eq!(a.window_packets(one_per_ms()), 99);
    }

    /// Feeds fifty packets at once in the first round, thirty in the fourth, one in every other; returns the excess after each.
    fn excess_by_round(mut a: Aggregation, window_rounds: u32) -> Vec<u64> {
        let after = |round: u64| {
            let acked = [(1, 50), (4, 30)].iter().find(|&&(at, _)| at == round).map_or(1, |&(_, acked)| acked);
            a.on_ack(Time(round * 1_000_000_000), acked, true, window_rounds, one_per_ms(), 1000);
            a.extra_acked()
        };
        (1..=16).map(after).collect()
    }

    #[test]
    fn two_windows_of_five_rounds_keep_both_until_the_second_is_over() {
        let expected = [vec![50; 9], vec![1; 7]].concat();
        assert_eq!(excess_by_round(Aggregation::with_two_windows(Time::ZERO), 5), expected);
    }

    #[test]
    fn one_window_keeps_each_excess_for_ten_rounds_after_its_own() {
        let expected = [vec![50; 11], vec![30; 3], vec![1; 2]].concat();
        assert_eq!(excess_by_round(Aggregation::with_one_window(Time::ZERO), 10), expected);
    }

    #[test]
    fn a_window_of_one_round_is_used_while_the_pipe_fills() {
        let expected = [vec![50; 2], vec![1], vec![30; 2], vec![1; 11]].concat();
        assert_eq!(excess_by_round(Aggregation::with_one_window(Time::ZERO), 1), expected);
    }
}
