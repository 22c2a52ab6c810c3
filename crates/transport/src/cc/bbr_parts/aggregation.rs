//! How much more than the bandwidth explains is acknowledged at once: ACKs come in bunches over Wi-Fi, cable and satellite, and the window must bridge the
//! silence between them (`bbr_update_ack_aggregation`). Two windows of five rounds, so that the greatest of the last five to ten is remembered.

use super::bw::Bw;
use super::params::{ACK_EPOCH_MAX_PACKETS, EXTRA_ACKED_MAX};
use bentpipe_profile::Time;

/// The current epoch of ACKs, and the greatest excess of either window.
#[derive(Clone, Debug)]
pub struct Aggregation {
    epoch_start: Time,
    epoch_acked: u64,
    window_rounds: u32,
    current: usize,
    /// [packets]
    extra: [u64; 2],
}

impl Aggregation {
    pub const fn new(now: Time) -> Self {
        Self { epoch_start: now, epoch_acked: 0, window_rounds: 0, current: 0, extra: [0; 2] }
    }

    /// The line was idle: no ACKs were to be expected.
    pub const fn restart_epoch(&mut self, now: Time) {
        self.epoch_start = now;
        self.epoch_acked = 0;
    }

    /// Takes an ACK with a valid delivery rate; each of the two windows is `window_rounds` long.
    pub fn on_ack(&mut self, now: Time, acked: u64, round_start: bool, window_rounds: u32, bw: Bw, cwnd: u64) {
        if acked == 0 {
            return;
        }
        if round_start {
            self.window_rounds += 1;
            if self.window_rounds >= window_rounds {
                self.window_rounds = 0;
                self.current = 1 - self.current;
                self.extra[self.current] = 0;
            }
        }
        let mut expected = bw.packets_in(now.since(self.epoch_start));
        // The ACKs have fallen behind the bandwidth, or the epoch is very old.
        if self.epoch_acked <= expected || self.epoch_acked.saturating_add(acked) >= ACK_EPOCH_MAX_PACKETS {
            self.restart_epoch(now);
            expected = 0;
        }
        self.epoch_acked = self.epoch_acked.saturating_add(acked).min(ACK_EPOCH_MAX_PACKETS - 1);
        let extra = self.epoch_acked.saturating_sub(expected).min(cwnd);
        self.extra[self.current] = self.extra[self.current].max(extra);
    }

    /// The greatest excess of both windows [packets].
    pub fn extra_acked(&self) -> u64 {
        self.extra[0].max(self.extra[1])
    }

    /// What it adds to the window [packets] (`bbr_ack_aggregation_cwnd`).
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
    fn a_bunch_counts_as_what_exceeds_the_bandwidth() {
        let mut a = Aggregation::new(Time::ZERO);
        // 20 packets every 20 ms at one packet per ms: 20 at once, of which none was due at the start of the epoch.
        for k in 1..=10 {
            a.on_ack(Time(k * 20_000_000), 20, false, 5, one_per_ms(), 1000);
        }
        assert_eq!(a.extra_acked(), 21); // 2^-24 rounds the bandwidth down, so one packet less was expected
        assert_eq!(a.window_packets(one_per_ms()), 21);
    }

    #[test]
    fn it_is_worth_100_ms_at_most_and_never_more_than_the_window() {
        let mut a = Aggregation::new(Time::ZERO);
        a.on_ack(Time(1), 500, false, 5, one_per_ms(), 300);
        assert_eq!(a.extra_acked(), 300);
        assert_eq!(a.window_packets(one_per_ms()), 99);
    }

    #[test]
    fn it_is_forgotten_after_ten_rounds() {
        let mut a = Aggregation::new(Time::ZERO);
        a.on_ack(Time(1), 50, true, 5, one_per_ms(), 1000);
        let mut rounds = 1;
        while a.extra_acked() == 50 {
            rounds += 1;
            a.on_ack(Time(rounds * 1_000_000_000), 1, true, 5, one_per_ms(), 1000);
        }
        assert_eq!(rounds, 10);
    }
}
