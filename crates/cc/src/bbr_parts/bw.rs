//! Bandwidth in the fixed point of BBR's kernel modules.

use super::params::GAIN_SHIFT;
use bentpipe_profile::{Bytes, Nanos, Rate};

/// Packets per µs are counted in 2^-24 (`BW_SCALE`): 0.7 kbit/s resolution, room for Tbit/s.
const BW_SHIFT: u32 = 24;
/// Largest bandwidth (2^40 packets/ns, above any path): keeps products inside 128 bits for any sample.
const MAX_BW: u128 = 1 << 50;

/// A bandwidth [packets/µs · 2^24].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Bw(pub u64);

impl Bw {
    /// Computes the bandwidth of `delivered` bytes in `span`. `None` below a microsecond, the kernel clock's resolution. Never zero: a zero would stop the flow for good.
    pub fn of(delivered: Bytes, span: Nanos, mss: u32) -> Option<Self> {
        let span_us = span.0 / 1000;
        let scaled = u128::from(delivered.0) << BW_SHIFT;
        let bw = scaled.checked_div(u128::from(span_us) * u128::from(mss))?;
        u64::try_from(bw.clamp(1, MAX_BW)).ok().map(Self)
    }

    /// Returns the packets delivered in `span`, rounded down.
    pub fn packets_in(self, span: Nanos) -> u64 {
        u64::try_from((u128::from(self.0) * u128::from(span.0 / 1000)) >> BW_SHIFT).unwrap_or(u64::MAX)
    }

    /// Returns the packets delivered in `span` at `gain` times this bandwidth, rounded up (`bbr_bdp`).
    pub fn bdp(self, span: Nanos, gain: u64) -> u64 {
        let product = (u128::from(self.0) * u128::from(span.0 / 1000) * u128::from(gain)) >> GAIN_SHIFT;
        u64::try_from(product.div_ceil(1 << BW_SHIFT)).unwrap_or(u64::MAX)
    }

    /// Returns the rate at `gain` times this bandwidth, less a margin [%] (`bbr_rate_bytes_per_sec`, in bytes per second there).
    pub fn pacing_rate(self, gain: u64, mss: u32, margin_percent: u64) -> Rate {
        let scaled = (u128::from(self.0) * u128::from(mss) * u128::from(gain)) >> GAIN_SHIFT;
        let bytes_per_s = (scaled * u128::from(1_000_000 / 100 * (100 - margin_percent))) >> BW_SHIFT;
        Rate(u64::try_from(bytes_per_s * 8).unwrap_or(u64::MAX).max(8))
    }

    /// Returns the rate, without gain.
    pub fn rate(self, mss: u32) -> Rate {
        Rate(u64::try_from((u128::from(self.0) * u128::from(mss) * 8_000_000) >> BW_SHIFT).unwrap_or(u64::MAX))
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
        let paced = bw.pacing_rate(256, MSS, 1);
        assert!(paced.0 * 100 / 99 <= rate.0 + 100 && paced.0 * 100 / 99 >= rate.0 - 1000, "{paced:?}");
    }

    #[test]
    fn extremes_neither_overflow_nor_give_zero() {
        assert_eq!(Bw::of(Bytes(1), Nanos(999), MSS), None);
        assert_eq!(Bw::of(Bytes(0), Nanos::from_secs(100), MSS), Some(Bw(1)));
        let max = Bw::of(Bytes::MAX, Nanos(1000), 1).expect("a span");
        assert_eq!(max.bdp(Nanos::MAX, 739), u64::MAX);
        assert!(max.pacing_rate(739, 65_535, 1).0 > 0);
    }
}
