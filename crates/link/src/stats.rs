//! Counters and delay distributions of one direction of a hop, taken where packets leave it. They mean the same in every world.

use crate::cause::{DropCause, DropCounts, MarkCounts};
use crate::packet::Packet;
use bentpipe_profile::Nanos;

/// Binary logarithm of the sub-buckets per power of two. Quantiles have an error of at most 1/64.
const SUB_BITS: u32 = 6;
const SUB: usize = 1 << SUB_BITS;
/// Buckets up to 2^42 ns (73 minutes).
const BUCKETS: usize = SUB * (42 - SUB_BITS as usize + 1);

/// A log-linear histogram of delays: quantiles within 1.6 %, exact mean and maximum. Its memory covers the powers of two between the smallest and the
/// largest delay, 256 bytes each; while all delays fall into one bucket it has none.
#[derive(Clone, Debug, Default)]
pub struct DelayHistogram {
    /// Bucket of the most recent delay, and the delays in it that `counts` does not contain yet. On most links delays hardly change, and `counts` is not loaded.
    recent: u32,
    pending: u32,
    /// Bucket of the first count, a multiple of [`SUB`].
    first: usize,
    counts: Vec<u32>,
    n: u64,
    sum_ns: u128,
    max_ns: u64,
}

impl DelayHistogram {
    /// Record one delay.
    pub fn record(&mut self, delay: Nanos) {
        let bucket = bucket(delay.0);
        if bucket != self.recent {
            self.count_pending();
            self.recent = bucket;
        }
        self.pending += 1;
        self.n += 1;
        self.sum_ns += u128::from(delay.0);
        self.max_ns = self.max_ns.max(delay.0);
    }

    /// Add the pending delays to the counts.
    fn count_pending(&mut self) {
        if self.pending > 0 {
            let bucket = self.recent as usize;
            if bucket.wrapping_sub(self.first) >= self.counts.len() {
                self.cover(bucket, bucket + 1);
            }
            self.counts[bucket - self.first] += std::mem::take(&mut self.pending);
        }
    }

    /// Extend the counts to the buckets from `from` to before `to`.
    #[cold]
    fn cover(&mut self, from: usize, to: usize) {
        let (from, to) = (from / SUB * SUB, to.next_multiple_of(SUB));
        if self.counts.is_empty() {
            (self.first, self.counts) = (from, vec![0; to - from]);
            return;
        }
        let below = self.first.saturating_sub(from);
        self.first -= below;
        self.counts.splice(0..0, std::iter::repeat_n(0, below));
        self.counts.resize(self.counts.len().max(to - self.first), 0);
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
        let mut rank = (u128::from(self.n - 1) * u128::from(num) / u128::from(den)) as u64;
        let recent = self.recent as usize;
        let counted = (self.first..).zip(self.counts.iter().copied());
        let below = counted.clone().take_while(|(bucket, _)| *bucket < recent);
        let above = counted.skip_while(|(bucket, _)| *bucket < recent);
        for (bucket, count) in below.chain([(recent, self.pending)]).chain(above) {
            if u64::from(count) > rank {
                return middle(bucket).min(self.max_ns as f64) / 1e6;
            }
            rank -= u64::from(count);
        }
        self.max_ms()
    }

    /// Add the delays of another histogram.
    pub fn merge(&mut self, other: &Self) {
        if other.n == 0 {
            return;
        }
        self.count_pending();
        if !other.counts.is_empty() {
            self.cover(other.first, other.first + other.counts.len());
            let offset = other.first - self.first;
            self.counts[offset..].iter_mut().zip(&other.counts).for_each(|(a, b)| *a += b);
        }
        (self.recent, self.pending) = (other.recent, other.pending);
        self.n += other.n;
        self.sum_ns += other.sum_ns;
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// Remove all delays.
    pub fn clear(&mut self) {
        if self.n > 0 {
            self.counts.fill(0);
            self.pending = 0;
            (self.n, self.sum_ns, self.max_ns) = (0, 0, 0);
        }
    }
}

#[allow(clippy::cast_possible_truncation)] // bucket numbers are small
fn bucket(ns: u64) -> u32 {
    if ns < SUB as u64 {
        return ns as u32;
    }
    let exponent = ns.ilog2();
    let sub = (ns >> (exponent - SUB_BITS)) as usize - SUB;
    ((exponent - SUB_BITS + 1) as usize * SUB + sub).min(BUCKETS - 1) as u32
}

fn middle(bucket: usize) -> f64 {
    if bucket < SUB {
        return bucket as f64;
    }
    let shift = bucket / SUB - 1;
    let low = ((SUB + bucket % SUB) as u64) << shift;
    low as f64 + ((1_u64 << shift) - 1) as f64 / 2.0
}

/// Statistics of one flow in one direction of a hop.
#[derive(Clone, Debug, Default)]
pub struct FlowStats {
    /// Packets marked, by cause.
    pub marks: MarkCounts,
    /// Time in the hop since the last [`LinkStats::clear_delays`].
    pub delays: DelayHistogram,
}

/// Statistics of one direction of a hop. Memory is allocated for the flows that it has carried.
#[derive(Clone, Debug, Default)]
#[repr(C)]
pub struct LinkStats {
    /// Packets delivered downstream.
    pub delivered_packets: u64,
    /// Bytes delivered downstream.
    pub delivered_bytes: u64,
    flows: Flows,
    /// Packets dropped, by cause.
    pub drops: DropCounts,
}

/// The flows that a hop has carried, in order of their numbers.
#[derive(Clone, Debug)]
enum Flows {
    /// One flow. It has no memory of its own: on most paths there is no other.
    One((u32, FlowStats)),
    /// None, or several.
    Many(Vec<(u32, FlowStats)>),
}

impl Default for Flows {
    fn default() -> Self {
        Self::Many(Vec::new())
    }
}

impl Flows {
    fn as_slice(&self) -> &[(u32, FlowStats)] {
        match self {
            Self::One(flow) => std::slice::from_ref(flow),
            Self::Many(flows) => flows,
        }
    }

    fn as_mut_slice(&mut self) -> &mut [(u32, FlowStats)] {
        match self {
            Self::One(flow) => std::slice::from_mut(flow),
            Self::Many(flows) => flows,
        }
    }

    /// Insert a flow at its position.
    #[cold]
    fn insert(&mut self, position: usize, flow: u32) {
        let added = (flow, FlowStats::default());
        *self = match std::mem::take(self) {
            Self::Many(flows) if flows.is_empty() => Self::One(added),
            Self::One(first) => Self::Many(if position == 0 { vec![added, first] } else { vec![first, added] }),
            Self::Many(mut flows) => {
                flows.insert(position, added);
                Self::Many(flows)
            }
        };
    }
}

impl LinkStats {
    /// Count a packet that left downstream. `inside`: its time in the hop.
    pub fn delivered(&mut self, flow: u32, packet: &Packet, inside: Nanos) {
        self.delivered_packets += 1;
        self.delivered_bytes += u64::from(packet.bytes);
        let stats = self.flow_mut(flow);
        stats.delays.record(inside);
        if let Some(cause) = packet.marked {
            stats.marks.count(cause);
        }
    }

    /// Count a dropped packet.
    pub fn dropped(&mut self, cause: DropCause) {
        self.drops.count(cause);
    }

    /// Count the mark that a leaving packet received in this hop, if any.
    pub fn marked(&mut self, flow: u32, packet: &Packet) {
        if let Some(cause) = packet.marked {
            self.flow_mut(flow).marks.count(cause);
        }
    }

    /// Iterate over the flows that the hop has carried or marked, in order of their numbers.
    pub fn flows(&self) -> impl Iterator<Item = (u32, &FlowStats)> {
        self.flows.as_slice().iter().map(|(flow, stats)| (*flow, stats))
    }

    /// Return the statistics of a flow, created at its first packet.
    fn flow_mut(&mut self, flow: u32) -> &mut FlowStats {
        // Where every flow uses the hop, a flow's number is its position; where one does, its position is 0.
        let flows = self.flows.as_slice();
        let guess = if flows.len() == 1 { 0 } else { flow as usize };
        let position = if flows.get(guess).is_some_and(|(number, _)| *number == flow) {
            guess
        } else {
            flows.binary_search_by_key(&flow, |(number, _)| *number).unwrap_or_else(|position| {
                self.flows.insert(position, flow);
                position
            })
        };
        &mut self.flows.as_mut_slice()[position].1
    }

    /// Add the counters of another direction of a hop.
    pub fn merge(&mut self, other: &Self) {
        self.delivered_packets += other.delivered_packets;
        self.delivered_bytes += other.delivered_bytes;
        self.drops = self.drops.plus(&other.drops);
        for (flow, added) in other.flows() {
            let own = self.flow_mut(flow);
            own.marks = own.marks.plus(&added.marks);
            own.delays.merge(&added.delays);
        }
    }

    /// Start a new window of delays.
    pub fn clear_delays(&mut self) {
        self.flows.as_mut_slice().iter_mut().for_each(|(_, stats)| stats.delays.clear());
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
        assert!((bucket(u64::MAX) as usize) < BUCKETS);
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
    /// Two windows merge to the histogram of all their delays, in whatever order they come.
    #[test]
    fn merged_histograms_equal_one_of_all_delays() {
        let (mut a, mut b, mut all) = (DelayHistogram::default(), DelayHistogram::default(), DelayHistogram::default());
        for (i, ns) in [5_000_000, 70, 3_600_000_000_000, 900, 41_000_000, 0].into_iter().enumerate() {
            if i % 2 == 0 { &mut a } else { &mut b }.record(Nanos(ns));
            all.record(Nanos(ns));
        }
        a.merge(&DelayHistogram::default());
        a.merge(&b);
        for q in 0..=10 {
            assert_eq!(a.quantile_ms(q, 10).to_bits(), all.quantile_ms(q, 10).to_bits());
        }
        assert_eq!((a.n(), a.mean_ms().to_bits()), (all.n(), all.mean_ms().to_bits()));
    }

    #[test]
    fn memory_is_allocated_for_the_flows_that_a_hop_carries() {
        let mut stats = LinkStats::default();
        let packet = Packet::new(bentpipe_profile::Time::ZERO, 0, bentpipe_profile::Direction::Up, 0, 100, 0);
        let counts =
            |stats: &LinkStats| stats.flows().map(|(flow, stats)| (flow, stats.delays.n(), stats.delays.counts.len())).collect::<Vec<_>>();
        for flow in [900_000, 3, 900_000, 0] {
            stats.delivered(flow, &packet, Nanos(20_000_000));
        }
        assert_eq!(counts(&stats), [(0, 1, 0), (3, 1, 0), (900_000, 2, 0)]);
        stats.delivered(3, &packet, Nanos(21_000_000));
        assert_eq!(counts(&stats), [(0, 1, 0), (3, 2, SUB), (900_000, 2, 0)]);
    }
}
