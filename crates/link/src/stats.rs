//! Counters and delay distributions of one direction of a hop, taken where packets leave it: the same quantity in every world.

use crate::element::{DropCause, DropCounts, MarkCounts};
use crate::packet::Packet;
use bentpipe_profile::Nanos;

/// Sub-buckets per power of two: a quantile is right to 1/64.
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
    /// One more delay.
    pub fn record(&mut self, delay: Nanos) {
        self.counts[bucket(delay.0)] += 1;
        self.n += 1;
        self.sum_ns += u128::from(delay.0);
        self.max_ns = self.max_ns.max(delay.0);
    }

    /// How many.
    #[must_use]
    pub const fn n(&self) -> u64 {
        self.n
    }

    /// Mean [ms]; NaN if there are none.
    #[must_use]
    pub fn mean_ms(&self) -> f64 {
        if self.n == 0 { f64::NAN } else { self.sum_ns as f64 / self.n as f64 / 1e6 }
    }

    /// Largest [ms]; NaN if there are none.
    #[must_use]
    pub fn max_ms(&self) -> f64 {
        if self.n == 0 { f64::NAN } else { self.max_ns as f64 / 1e6 }
    }

    /// The `num/den` quantile [ms], as the middle of its bucket; NaN if there are none.
    #[must_use]
    #[allow(clippy::cast_possible_truncation)] // a rank is below n
    pub fn quantile_ms(&self, num: u64, den: u64) -> f64 {
        if self.n == 0 {
            return f64::NAN;
        }
        let rank = (u128::from(self.n - 1) * u128::from(num) / u128::from(den)) as u64;
        let mut seen = 0;
        for (i, &count) in self.counts.iter().enumerate() {
            seen += u64::from(count);
            if seen > rank {
                return middle(i).min(self.max_ns as f64) / 1e6;
            }
        }
        self.max_ms()
    }

    /// Adds another's delays.
    pub fn merge(&mut self, other: &Self) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(a, b)| *a += b);
        self.n += other.n;
        self.sum_ns += other.sum_ns;
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// Empties it.
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

/// What passed one direction of a hop.
#[derive(Clone, Debug, Default)]
pub struct LinkStats {
    /// Packets that left it downstream.
    pub delivered_packets: u64,
    /// Bytes that left it downstream.
    pub delivered_bytes: u64,
    /// Packets lost in it, by cause.
    pub drops: DropCounts,
    /// Packets marked in it, by flow and cause.
    pub marks: Vec<MarkCounts>,
    /// Time in the hop by flow, since the last [`LinkStats::clear_delays`].
    pub delays: Vec<DelayHistogram>,
}

impl LinkStats {
    /// A packet left downstream.
    pub fn delivered(&mut self, flow: u32, bytes: u32, inside: Nanos) {
        self.delivered_packets += 1;
        self.delivered_bytes += u64::from(bytes);
        let flow = flow as usize;
        if flow >= self.delays.len() {
            self.delays.resize_with(flow + 1, DelayHistogram::default);
        }
        self.delays[flow].record(inside);
    }

    /// A packet was lost.
    pub fn dropped(&mut self, cause: DropCause) {
        self.drops.count(cause);
    }

    /// A packet left, whichever way: counts the mark that it got here, if it got one.
    pub fn marked(&mut self, flow: u32, packet: &Packet) {
        let Some(cause) = packet.marked else { return };
        let flow = flow as usize;
        if flow >= self.marks.len() {
            self.marks.resize_with(flow + 1, MarkCounts::default);
        }
        self.marks[flow].count(cause);
    }

    /// Adds what another direction of a hop counted.
    pub fn merge(&mut self, other: &Self) {
        self.delivered_packets += other.delivered_packets;
        self.delivered_bytes += other.delivered_bytes;
        self.drops = self.drops.plus(&other.drops);
        if self.marks.len() < other.marks.len() {
            self.marks.resize_with(other.marks.len(), MarkCounts::default);
        }
        self.marks.iter_mut().zip(&other.marks).for_each(|(mine, theirs)| *mine = mine.plus(theirs));
        if self.delays.len() < other.delays.len() {
            self.delays.resize_with(other.delays.len(), DelayHistogram::default);
        }
        self.delays.iter_mut().zip(&other.delays).for_each(|(mine, theirs)| mine.merge(theirs));
    }

    /// Begins a new window of delays.
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
            let found = h.quantile_ms(q, 100);
            prop_assert!((found - exact).abs() <= exact / 64.0 + 1e-6, "{found} {exact}");
            prop_assert!((h.mean_ms() - delays.iter().sum::<u64>() as f64 / delays.len() as f64 / 1e6).abs() < 1e-6);
        }
    }
}
