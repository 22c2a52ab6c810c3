//! The bottleneck's bandwidth: the greatest delivery rate of the last ten rounds (`bbr_update_bw`).

use super::super::RateSample;
use super::super::filter::Windowed;
use super::params::{BANDWIDTH_WINDOW_ROUNDS, GAIN_SHIFT, PACING_MARGIN_PERCENT};
use bentpipe_profile::{Bytes, Nanos, Rate};

/// Packets per µs are counted in 2^-24 (`BW_SCALE`): 0.7 kbit/s resolution, room for Tbit/s.
const BW_SHIFT: u32 = 24;
/// Bandwidth that no path has (2^40 packets/ns): keeps products inside 128 bits whatever the samples say.
const MAX_BW: u128 = 1 << 50;

/// A bandwidth [packets/µs · 2^24].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Bw(pub u64);

impl Bw {
    /// `delivered` in `span`. `None` below a microsecond, the clock's resolution in the kernel. Never zero: the kernel's would stop the flow for good.
    pub fn of(delivered: Bytes, span: Nanos, mss: u32) -> Option<Self> {
        let span_us = span.0 / 1000;
        let scaled = u128::from(delivered.0) << BW_SHIFT;
        let bw = scaled.checked_div(u128::from(span_us) * u128::from(mss))?;
        u64::try_from(bw.clamp(1, MAX_BW)).ok().map(Self)
    }

    /// Packets delivered in `span`, rounded down.
    pub fn packets_in(self, span: Nanos) -> u64 {
        u64::try_from((u128::from(self.0) * u128::from(span.0 / 1000)) >> BW_SHIFT).unwrap_or(u64::MAX)
    }

    /// Packets delivered in `span` at `gain` times this, rounded up (`bbr_bdp`).
    pub fn bdp(self, span: Nanos, gain: u64) -> u64 {
        let product = (u128::from(self.0) * u128::from(span.0 / 1000) * u128::from(gain)) >> GAIN_SHIFT;
        u64::try_from(product.div_ceil(1 << BW_SHIFT)).unwrap_or(u64::MAX)
    }

    /// In bit/s at `gain` times this, less the margin (`bbr_rate_bytes_per_sec`, in bytes per second there).
    pub fn pacing_rate(self, gain: u64, mss: u32) -> Rate {
        let scaled = (u128::from(self.0) * u128::from(mss) * u128::from(gain)) >> GAIN_SHIFT;
        let bytes_per_s = (scaled * u128::from(1_000_000 / 100 * (100 - PACING_MARGIN_PERCENT))) >> BW_SHIFT;
        Rate(u64::try_from(bytes_per_s * 8).unwrap_or(u64::MAX).max(8))
    }

    /// In bit/s, without gain.
    pub fn rate(self, mss: u32) -> Rate {
        Rate(u64::try_from((u128::from(self.0) * u128::from(mss) * 8_000_000) >> BW_SHIFT).unwrap_or(u64::MAX))
    }
}

/// Rounds of packets, and the filter that counts by them.
#[derive(Clone, Debug)]
pub struct Bandwidth {
    filter: Windowed<Bw>,
    rounds: u64,
    /// A round ends when a packet sent at this count of delivered bytes is acknowledged (`next_rtt_delivered`).
    round_end: Bytes,
    round_start: bool,
}

impl Bandwidth {
    pub fn new() -> Self {
        Self { filter: Windowed::new(BANDWIDTH_WINDOW_ROUNDS, 0, Bw(0)), rounds: 0, round_end: Bytes::ZERO, round_start: false }
    }

    /// Takes an ACK; true if it starts a round.
    pub fn advance_round(&mut self, sample: Option<&RateSample>, delivered_total: Bytes) -> bool {
        self.round_start = sample.is_some_and(|s| s.prior_delivered >= self.round_end);
        if self.round_start {
            self.round_end = delivered_total;
            self.rounds += 1;
        }
        self.round_start
    }

    /// Takes a bandwidth; one the application limited counts only if it is no less than the best.
    pub fn offer(&mut self, bw: Bw, app_limited: bool) {
        if !app_limited || bw >= self.max() {
            self.filter.update(self.rounds, bw);
        }
    }

    /// A round starts now.
    pub const fn restart_round(&mut self, delivered_total: Bytes) {
        self.round_end = delivered_total;
    }

    /// A time-out counts as the end of a round.
    pub const fn force_round_start(&mut self) {
        self.round_start = true;
    }

    pub fn max(&self) -> Bw {
        self.filter.get()
    }

    pub const fn rounds(&self) -> u64 {
        self.rounds
    }

    pub const fn round_start(&self) -> bool {
        self.round_start
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u32 = 1448;

    #[test]
    fn a_bandwidth_converts_to_packets_and_rates() {
        let bw = Bw::of(Bytes(1_448_000), Nanos::from_millis(100), MSS).expect("a span");
        assert_eq!(bw.packets_in(Nanos::from_millis(40)), 399); // 400 less the rounding of 2^-24
        assert_eq!(bw.bdp(Nanos::from_millis(40), 512), 800);
        let rate = bw.rate(MSS);
        assert!((115_839_000..=115_840_000).contains(&rate.0), "{rate:?}");
        let paced = bw.pacing_rate(256, MSS);
        assert!(paced.0 * 100 / 99 <= rate.0 + 100 && paced.0 * 100 / 99 >= rate.0 - 1000, "{paced:?}");
    }

    #[test]
    fn extremes_neither_overflow_nor_stop() {
        assert_eq!(Bw::of(Bytes(1), Nanos(999), MSS), None);
        assert_eq!(Bw::of(Bytes(0), Nanos::from_secs(100), MSS), Some(Bw(1)));
        let most = Bw::of(Bytes::MAX, Nanos(1000), 1).expect("a span");
        assert_eq!(most.bdp(Nanos::MAX, 739), u64::MAX);
        assert!(most.pacing_rate(739, 65_535).0 > 0);
    }

    #[test]
    fn rounds_are_counted_by_delivered_bytes() {
        let sample = |prior| RateSample { prior_delivered: Bytes(prior), delivered: Bytes(1), interval: Nanos(1), app_limited: false };
        let mut b = Bandwidth::new();
        assert!(b.advance_round(Some(&sample(0)), Bytes(100)));
        assert!(!b.advance_round(Some(&sample(99)), Bytes(150)));
        assert!(!b.advance_round(None, Bytes(160)));
        assert!(b.advance_round(Some(&sample(100)), Bytes(200)));
        assert_eq!(b.rounds(), 2);
    }

    #[test]
    fn the_best_of_ten_rounds_counts() {
        let mut b = Bandwidth::new();
        let mut rounds_kept = 0;
        b.offer(Bw(100), false);
        while b.max() == Bw(100) {
            rounds_kept += 1;
            let sample = RateSample { prior_delivered: b.round_end, delivered: Bytes(1), interval: Nanos(1), app_limited: false };
            assert!(b.advance_round(Some(&sample), Bytes(rounds_kept)));
            b.offer(Bw(50), false);
        }
        assert_eq!(rounds_kept, 11);
    }

    #[test]
    fn an_application_limited_sample_never_lowers_the_bandwidth() {
        let mut b = Bandwidth::new();
        b.offer(Bw(100), false);
        for round in 0..30 {
            b.advance_round(
                Some(&RateSample { prior_delivered: b.round_end, delivered: Bytes(1), interval: Nanos(1), app_limited: true }),
                Bytes(round),
            );
            b.offer(Bw(50), true);
        }
        assert_eq!(b.max(), Bw(100));
        b.offer(Bw(101), true);
        assert_eq!(b.max(), Bw(101));
    }
}
