//! Sorts packets by time that become known in another order.

use bentpipe_profile::Time;
use std::collections::BTreeMap;

/// Holds items until no earlier one can arrive. Its memory is bounded: beyond `max_bytes` it releases the earliest, and an item that arrives later with an
/// earlier time is out of order.
pub struct ReorderBuffer<T> {
    held: BTreeMap<(Time, u64), (usize, T)>,
    bytes: usize,
    max_bytes: usize,
    count: u64,
}

impl<T> ReorderBuffer<T> {
    /// Creates an empty buffer.
    #[must_use]
    pub const fn new(max_bytes: usize) -> Self {
        Self { held: BTreeMap::new(), bytes: 0, max_bytes, count: 0 }
    }

    /// Inserts an item of time `at`; items of one time keep their order of insertion.
    pub fn insert(&mut self, at: Time, bytes: usize, item: T) {
        self.held.insert((at, self.count), (bytes, item));
        self.count += 1;
        self.bytes += bytes;
    }

    /// Returns the earliest item if its time is at most `upto`, before which nothing more can arrive, or if the buffer is over its bound.
    pub fn pop(&mut self, upto: Time) -> Option<(Time, T)> {
        let first = self.held.first_entry()?;
        let at = first.key().0;
        if at > upto && self.bytes <= self.max_bytes {
            return None;
        }
        let (bytes, item) = first.remove();
        self.bytes -= bytes;
        Some((at, item))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Packets enter in order and become known in any order; `upto` is the entry time of the oldest unknown packet.
        #[test]
        fn items_leave_in_order_of_time_within_the_bound(gaps in prop::collection::vec(0_u64..3, 1..200), picks in prop::collection::vec(any::<prop::sample::Index>(), 200)) {
            let times: Vec<Time> = gaps.iter().scan(0, |t, gap| { *t += gap; Some(Time(*t)) }).collect();
            let mut unknown: Vec<(usize, Time)> = times.iter().copied().enumerate().collect();
            let mut buffer = ReorderBuffer::new(usize::MAX);
            let mut out = Vec::new();
            for pick in &picks[..times.len()] {
                let (number, at) = unknown.remove(pick.index(unknown.len()));
                buffer.insert(at, 1, number);
                let upto = unknown.first().map_or(Time::MAX, |(_, at)| *at);
                while let Some((at, number)) = buffer.pop(upto) {
                    prop_assert!(at <= upto);
                    out.push((at, number));
                }
            }
            prop_assert!(out.is_sorted_by_key(|(at, _)| *at));
            let mut numbers: Vec<usize> = out.into_iter().map(|(_, number)| number).collect();
            numbers.sort_unstable();
            prop_assert_eq!(numbers, (0..times.len()).collect::<Vec<_>>());
        }

        /// For any items, none is lost and the held bytes stay within the bound.
        #[test]
        fn the_held_bytes_are_bounded(items in prop::collection::vec((0_u64..100, 0_usize..40), 1..200), max_bytes in 0_usize..200) {
            let mut buffer = ReorderBuffer::new(max_bytes);
            let mut held = BTreeMap::new();
            for (number, &(at, bytes)) in items.iter().enumerate() {
                buffer.insert(Time(at), bytes, number);
                held.insert(number, bytes);
                while let Some((_, number)) = buffer.pop(Time::ZERO) {
                    held.remove(&number);
                }
                prop_assert!(held.values().sum::<usize>() <= max_bytes);
            }
            while let Some((_, number)) = buffer.pop(Time::MAX) {
                prop_assert!(held.remove(&number).is_some());
            }
            prop_assert!(held.is_empty());
        }
    }
}
