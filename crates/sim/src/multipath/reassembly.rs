//! The order of a connection's data: which of its bytes each subflow carries, and what has arrived of it in order.

use std::collections::{BTreeMap, VecDeque};

/// Bytes of the connection, from and until.
pub type Range = (u64, u64);

/// The connection's bytes that a subflow carries, in the order of the subflow's own bytes (the mappings of MPTCP, RFC 8684 §3.3).
#[derive(Debug, Default)]
pub struct Mappings {
    queue: VecDeque<Range>,
    /// Bytes of the subflow that have arrived in its order.
    arrived: u64,
}

impl Mappings {
    /// Append bytes of the connection.
    pub fn push(&mut self, range: Range) {
        match self.queue.back_mut() {
            Some(last) if last.1 == range.0 => last.1 = range.1,
            _ => self.queue.push_back(range),
        }
    }

    /// Return the connection's bytes that have arrived, now that `arrived` bytes of the subflow have.
    pub fn take_until(&mut self, arrived: u64) -> Vec<Range> {
        let mut left = arrived - self.arrived;
        self.arrived = arrived;
        let mut ranges = Vec::new();
        while left > 0
            && let Some(first) = self.queue.front_mut()
        {
            let end = first.1.min(first.0 + left);
            ranges.push((first.0, end));
            left -= end - first.0;
            first.0 = end;
            if first.0 == first.1 {
                self.queue.pop_front();
            }
        }
        ranges
    }
}

/// Reassembles the connection's data.
#[derive(Debug, Default)]
pub struct Reassembly {
    /// End of the data delivered in order.
    delivered: u64,
    /// Ranges beyond it that have arrived, by their start; they neither touch nor overlap.
    beyond: BTreeMap<u64, u64>,
    /// Bytes in `beyond`, and the most so far.
    waiting: u64,
    peak_waiting: u64,
}

impl Reassembly {
    /// Return the end of the data delivered in order.
    pub const fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Return the most bytes that have waited for earlier ones.
    pub const fn peak_waiting(&self) -> u64 {
        self.peak_waiting
    }

    /// Add bytes that have arrived, perhaps not for the first time.
    pub fn insert(&mut self, (from, until): Range) {
        let (mut from, mut until) = (from.max(self.delivered), until);
        if from >= until {
            return;
        }
        // Merge with the ranges that it touches.
        while let Some((&start, &end)) = self.beyond.range(..=until).next_back().filter(|(_, end)| **end >= from) {
            self.beyond.remove(&start);
            self.waiting -= end - start;
            (from, until) = (from.min(start), until.max(end));
        }
        if from <= self.delivered {
            self.delivered = until;
        } else {
            self.beyond.insert(from, until);
            self.waiting += until - from;
            self.peak_waiting = self.peak_waiting.max(self.waiting);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_subflow_delivers_the_bytes_that_it_carries_in_its_own_order() {
        let mut mappings = Mappings::default();
        for range in [(0, 10), (10, 20), (50, 60)] {
            mappings.push(range);
        }
        assert_eq!(mappings.take_until(5), [(0, 5)]);
        assert_eq!(mappings.take_until(25), [(5, 20), (50, 55)]);
        assert_eq!(mappings.take_until(30), [(55, 60)]);
    }

    proptest! {
        #[test]
        fn data_is_delivered_as_soon_as_nothing_before_it_is_missing(ranges in prop::collection::vec((0usize..60, 1usize..15), 0..40)) {
            let (mut reassembly, mut arrived) = (Reassembly::default(), [false; 80]);
            for (from, len) in ranges {
                reassembly.insert((from as u64, (from + len) as u64));
                arrived[from..from + len].fill(true);
                let expected = arrived.iter().take_while(|has| **has).count() as u64;
                prop_assert_eq!(reassembly.delivered(), expected);
                prop_assert_eq!(reassembly.waiting, arrived.iter().filter(|has| **has).count() as u64 - expected);
            }
        }
    }
}
