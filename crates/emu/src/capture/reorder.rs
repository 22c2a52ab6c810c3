//! Puts into order of time what becomes known in another order.

use bentpipe_profile::Time;
use std::collections::BTreeMap;

/// Holds what may still be overtaken by something earlier. What it holds is bounded: beyond `most_bytes` the earliest goes, and what comes later
/// with a time before it is out of order.
pub struct ReorderBuffer<T> {
    held: BTreeMap<(Time, u64), (usize, T)>,
    bytes: usize,
    max_bytes: usize,
    count: u64,
}

impl<T> ReorderBuffer<T> {
    /// Empty.
    #[must_use]
    pub const fn new(max_bytes: usize) -> Self {
        Self { held: BTreeMap::new(), bytes: 0, max_bytes, count: 0 }
    }

    /// Takes what happened `at`; of one time, first come is first.
    pub fn insert(&mut self, at: Time, bytes: usize, item: T) {
        self.held.insert((at, self.count), (bytes, item));
        self.count += 1;
        self.bytes += bytes;
    }

    /// The earliest, if nothing earlier than `upto` can still come, or if there is too much to wait for it.
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
        /// Packets come in order of entering and become known in any order; the horizon is the oldest that is not known yet.
        #[test]
        fn with_room_the_order_is_that_of_time(gaps in prop::collection::vec(0_u64..3, 1..200), picks in prop::collection::vec(any::<prop::sample::Index>(), 200)) {
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

        /// Whatever comes, nothing is lost and no more is held than there is room for.
        #[test]
        fn it_never_holds_more_than_it_may(items in prop::collection::vec((0_u64..100, 0_usize..40), 1..200), max_bytes in 0_usize..200) {
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
