//! Counters and delay distributions of one direction of a hop, taken where packets leave it. They mean the same in every world.

use crate::cause::{DropCause, DropCounts, MarkCounts};
use crate::packet::Packet;
use bentpipe_profile::Nanos;

/// Binary logarithm of the sub-buckets per power of two. Quantiles have an error of at most 1/64.
const SUB_BITS: u32 = 6;
const SUB: usize = 1 << SUB_BITS;
/// Buckets up to 2^42 ns (73 minutes).
const BUCKETS: usize = SUB * (42 - SUB_BITS as usize + 1);

/// A log-linear histogram of delays: constant memory, quantiles within 1.6 %, exact mean and maximum.
#[derive(Clone, Debug)]
pub struct DelayHistogram {
    counts: Vec<u32>,
    n: u64,
    sum_ns: u128,
    max_ns: u64,
}

impl Default for DelayHistogram {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS], n: 0, sum_ns: 0, max_ns: 0 }
    }
}

impl DelayHistogram {
    /// Record one delay.
    pub fn record(&mut self, delay: Nanos) {
        self.counts[bucket(delay.0)] += 1;
        self.n += 1;
        self.sum_ns += u128::from(delay.0);
        self.max_ns = self.max_ns.max(delay.0);
    }

    /// Return the number of delays.
    #[must_use]
    pub const fn n(&self) -> u64 {
        self.n
    }

    /// Return the mean [ms]; NaN if there are no delays.
    #[must_use]
    pub fn mean_ms(&self) -> f64 {
        if self.n == 0 { f64::NAN } else { self.sum_ns as f64 / self.n as f64 / 1e6 }
    }

    /// Return the largest delay [ms]; NaN if there are no delays.
    #[must_use]
    pub fn max_ms(&self) -> f64 {
        if self.n == 0 { f64::NAN } else { self.max_ns as f64 / 1e6 }
    }

    /// Return the `num/den` quantile [ms], as the middle of its bucket; NaN if there are no delays.
    #[must_use]
    #[allow(clippy::cast_possible_truncation)] // a rank is below n
    pub fn quantile_ms(&self, num: u64, den: u64) -> f64 {
        if self.n == 0 {
            return f64::NAN;
        }
        let rank = (u128::from(self.n - 1) * u128::from(num) / u128::from(den)) as u64;
        let mut cumulative = 0;
        for (i, &count) in self.counts.iter().enumerate() {
            cumulative += u64::from(count);
            if cumulative > rank {
                return middle(i).min(self.max_ns as f64) / 1e6;
            }
        }
        self.max_ms()
    }

    /// Add the delays of another histogram.
    pub fn merge(&mut self, other: &Self) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(a, b)| *a += b);
        self.n += other.n;
        self.sum_ns += other.sum_ns;
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// Remove all delays.
    pub fn clear(&mut self) {
        if self.n > 0 {
            self.counts.fill(0);
            (self.n, self.sum_ns, self.max_ns) = (0, 0, 0);
        }
    }
}

#[allow(clippy::cast_possible_truncation)] // bucket numbers are small
fn bucket(ns: u64) -> usize {
    if ns < SUB as u64 {
        return ns as usize;
    }
    let exponent = ns.ilog2();
    let sub = (ns >> (exponent - SUB_BITS)) as usize - SUB;
    ((exponent - SUB_BITS + 1) as usize * SUB + sub).min(BUCKETS - 1)
}

fn middle(bucket: usize) -> f64 {
    if bucket < SUB {
        return bucket as f64;
    }
    let shift = bucket / SUB - 1;
    let low = ((SUB + bucket % SUB) as u64) << shift;
    low as f64 + ((1_u64 << shift) - 1) as f64 / 2.0
}

/// Statistics of one direction of a hop.
#[derive(Clone, Debug, Default)]
pub struct LinkStats {
    /// Packets delivered downstream.
    pub delivered_packets: u64,
    /// Bytes delivered downstream.
    pub delivered_bytes: u64,
    /// Packets dropped, by cause.
    pub drops: DropCounts,
    /// Packets marked, by flow and cause.
    pub marks: Vec<MarkCounts>,
    /// Time in the hop, by flow, since the last [`LinkStats::clear_delays`].
    pub delays: Vec<DelayHistogram>,
}

impl LinkStats {
    /// Count a packet that left downstream. `inside`: its time in the hop.
    pub fn delivered(&mut self, flow: u32, bytes: u32, inside: Nanos) {
        self.delivered_packets += 1;
        self.delivered_bytes += u64::from(bytes);
        let flow = flow as usize;
        if flow >= self.delays.len() {
            self.delays.resize_with(flow + 1, DelayHistogram::default);
        }
        self.delays[flow].record(inside);
    }

    /// Count a dropped packet.
    pub fn dropped(&mut self, cause: DropCause) {
        self.drops.count(cause);
    }

    /// Count the mark that a leaving packet received in this hop, if any.
    pub fn marked(&mut self, flow: u32, packet: &Packet) {
        let Some(cause) = packet.marked else { return };
        let flow = flow as usize;
        if flow >= self.marks.len() {
            self.marks.resize_with(flow + 1, MarkCounts::default);
        }
        self.marks[flow].count(cause);
    }

    /// Add the counters of another direction of a hop.
    pub fn merge(&mut self, other: &Self) {
        self.delivered_packets += other.delivered_packets;
        self.delivered_bytes += other.delivered_bytes;
        self.drops = self.drops.plus(&other.drops);
        if self.marks.len() < other.marks.len() {
            self.marks.resize_with(other.marks.len(), MarkCounts::default);
        }
        self.marks.iter_mut().zip(&other.marks).for_each(|(own, added)| *own = own.plus(added));
        if self.delays.len() < other.delays.len() {
            self.delays.resize_with(other.delays.len(), DelayHistogram::default);
        }
        self.delays.iter_mut().zip(&other.delays).for_each(|(own, added)| own.merge(added));
    }

    /// Start a new window of delays.
    pub fn clear_delays(&mut self) {
        self.delays.iter_mut().for_each(DelayHistogram::clear);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn buckets_are_contiguous() {
        let mut last = 0;
        for ns in 0..100_000 {
            let b = bucket(ns);
            assert!(b == last || b == last + 1, "{ns}");
            last = b;
        }
        assert!(bucket(u64::MAX) < BUCKETS);
    }

    proptest! {
        #[test]
        fn quantiles_are_within_a_bucket(mut delays in prop::collection::vec(0_u64..10_000_000_000, 1..300), q in 0_u64..=100) {
            let mut h = DelayHistogram::default();
            for &d in &delays {
                h.record(Nanos(d));
            }
            delays.sort_unstable();
            let exact = delays[usize::try_from((delays.len() as u64 - 1) * q / 100).unwrap()] as f64 / 1e6;
            let quantile = h.quantile_ms(q, 100);
            prop_assert!((quantile - exact).abs() <= exact / 64.0 + 1e-6, "{quantile} {exact}");
            prop_assert!((h.mean_ms() - delays.iter().sum::<u64>() as f64 / delays.len() as f64 / 1e6).abs() < 1e-6);
        }
    }
}
