//! Wake-ups of units in order of time.

use bentpipe_profile::Time;

/// Bits of a unit's number in an entry.
const UNIT_BITS: u32 = 24;
/// Number of units that entries can name.
pub(super) const MAX_UNITS: usize = 1 << UNIT_BITS;
/// Index of the first entry. With it the children of an entry fill a group.
const ROOT: usize = 3;
/// A place without an entry.
const EMPTY: u128 = u128::MAX;

/// Units by the time at which they are due; those of one time in the order in which they were pushed.
///
/// A heap in which each entry has four children, which fill a cache line. Thousands of links have entries, so the depth counts: it is half that of a binary
/// heap, and a level costs a line at most. An entry is one integer: time, number of the push, unit.
#[derive(Default)]
pub(super) struct Wakes {
    groups: Vec<Group>,
    len: usize,
    pushes: u64,
}

/// Four entries that have the same parent: that of group `g` has index `g + 2`.
#[derive(Clone)]
#[repr(align(64))]
struct Group([u128; 4]);

impl Wakes {
    /// Return the first time and its unit.
    #[inline]
    pub(super) fn peek(&self) -> Option<(Time, u32)> {
        self.groups.first().map(|group| group.0[ROOT]).filter(|entry| *entry != EMPTY).map(split)
    }

    /// Add the wake-up of a unit.
    pub(super) fn push(&mut self, at: Time, unit: u32) {
        self.pushes += 1;
        let order = (self.pushes << UNIT_BITS) | u64::from(unit);
        let entry = (u128::from(at.0) << 64) | u128::from(order);
        let mut index = self.len + ROOT;
        self.len += 1;
        if index / 4 == self.groups.len() {
            self.groups.push(Group([EMPTY; 4]));
        }
        while index > ROOT {
            let parent = index / 4 + 2;
            let above = self.get(parent);
            if above <= entry {
                break;
            }
            self.set(index, above);
            index = parent;
        }
        self.set(index, entry);
    }

    /// Remove and return the first time and its unit.
    pub(super) fn pop(&mut self) -> Option<(Time, u32)> {
        let first = self.peek()?;
        self.len -= 1;
        let last = self.get(self.len + ROOT);
        self.set(self.len + ROOT, EMPTY);
        if self.len == 0 {
            return Some(first);
        }
        let mut index = ROOT;
        while let Some(group) = self.groups.get(index - 2) {
            let [a, b, c, d] = group.0;
            let (left, right) = (if b < a { (b, 1) } else { (a, 0) }, if d < c { (d, 3) } else { (c, 2) });
            let (least, place) = if right.0 < left.0 { right } else { left };
            if least >= last {
                break;
            }
            self.set(index, least);
            index = 4 * (index - 2) + place;
        }
        self.set(index, last);
        Some(first)
    }

    #[inline]
    fn get(&self, index: usize) -> u128 {
        self.groups[index / 4].0[index % 4]
    }

    #[inline]
    fn set(&mut self, index: usize, entry: u128) {
        self.groups[index / 4].0[index % 4] = entry;
    }
}

/// Return the time and the unit of an entry.
#[allow(clippy::cast_possible_truncation)] // the parts of an integer
const fn split(entry: u128) -> (Time, u32) {
    (Time((entry >> 64) as u64), entry as u32 & (MAX_UNITS as u32 - 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Wake-ups come in order of time, and those of one time in the order of their pushes, however pushes and pops alternate.
        #[test]
        fn wakes_come_in_order(steps in prop::collection::vec(prop::option::weighted(0.6, (0_u64..20, 0_u32..1_000_000)), 0..400)) {
            let (mut wakes, mut sorted, mut pushes) = (Wakes::default(), std::collections::BTreeSet::new(), 0);
            for step in steps.into_iter().chain(std::iter::repeat_n(None, 400)) {
                if let Some((at, unit)) = step {
                    pushes += 1;
                    sorted.insert((Time(at), pushes, unit));
                    wakes.push(Time(at), unit);
                } else {
                    prop_assert_eq!(wakes.pop(), sorted.pop_first().map(|(at, _, unit)| (at, unit)));
                }
                prop_assert_eq!(wakes.peek(), sorted.first().map(|(at, _, unit)| (*at, *unit)));
            }
            prop_assert!(sorted.is_empty());
        }
    }
}
