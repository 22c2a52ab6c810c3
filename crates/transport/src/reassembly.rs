//! Putting segments back in order, and reporting what arrived beyond a hole.
//!
//! Source: RFC 2018 §4 (which blocks to report), RFC 2883 (duplicates); Linux `tcp_data_queue`, `tcp_sack_new_ofo_skb` (four blocks remembered, the newest
//! first).

use crate::wire::SackBlocks;
use std::collections::VecDeque;

/// Blocks remembered (`TCP_NUM_SACKS`).
const RECENT: usize = 4;

/// Blocks that an acknowledgement surely reports (`TCP_SACK_BLOCKS_EXPECTED`).
const EXPECTED: usize = 2;

/// What became of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placed {
    /// It was next. `filled`: with it the last hole is gone.
    InOrder { filled: bool },
    /// It lies beyond a hole.
    OutOfOrder,
    /// All of it was there.
    Duplicate,
}

/// Sequence space as it arrived.
#[derive(Debug, Default)]
pub struct Reassembly {
    /// Next byte expected.
    next: u64,
    /// What lies beyond, in order, disjoint.
    ranges: VecDeque<(u64, u64)>,
    /// Bytes in `ranges`.
    beyond: u64,
    recent: [(u64, u64); RECENT],
    recent_len: usize,
    /// A duplicate to report.
    duplicate: Option<(u64, u64)>,
}

impl Reassembly {
    /// Next byte expected.
    pub const fn next(&self) -> u64 {
        self.next
    }

    /// Bytes held beyond a hole.
    pub const fn beyond(&self) -> u64 {
        self.beyond
    }

    /// Where they end, from the next byte expected on.
    pub fn beyond_span(&self) -> u64 {
        self.ranges.back().map_or(0, |&(_, end)| end - self.next)
    }

    /// Whether there is a hole.
    pub fn has_hole(&self) -> bool {
        !self.ranges.is_empty()
    }

    /// Whether a segment `[start, end)` beyond a hole would push a block out of an acknowledgement's reach: it neither begins the list nor extends
    /// one of the first [`EXPECTED`] blocks of it.
    pub fn displaces(&self, start: u64, end: u64) -> bool {
        let known = &self.recent[..self.recent_len];
        start > self.next && known.iter().position(|b| start <= b.1 && b.0 <= end).unwrap_or(known.len()) >= EXPECTED
    }

    /// A segment `[start, end)` arrives.
    pub fn insert(&mut self, start: u64, end: u64) -> Placed {
        if end <= self.next {
            self.duplicate = Some((start, end));
            return Placed::Duplicate;
        }
        if start <= self.next {
            if start < self.next {
                self.duplicate = Some((start, self.next));
            }
            self.next = end;
            if self.ranges.is_empty() {
                return Placed::InOrder { filled: false };
            }
            self.absorb();
            return Placed::InOrder { filled: self.ranges.is_empty() };
        }
        self.insert_beyond(start, end)
    }

    /// What the last segment reached is in order now.
    fn absorb(&mut self) {
        while let Some(&(start, end)) = self.ranges.front().filter(|r| r.0 <= self.next) {
            if start < self.next {
                // The segment overlapped what was held.
                self.duplicate = Some((start, end.min(self.next)));
            }
            self.next = self.next.max(end);
            self.beyond -= end - start;
            self.ranges.pop_front();
        }
        let next = self.next;
        self.forget(|block| block.0 < next);
    }

    fn insert_beyond(&mut self, start: u64, end: u64) -> Placed {
        // Ranges [first, last) touch the segment; mostly it goes behind the last one.
        let first = match self.ranges.back() {
            Some(&(_, back)) if back < start => self.ranges.len(),
            _ => self.ranges.partition_point(|r| r.1 < start),
        };
        let mut last = first;
        let mut merged = (start, end);
        let mut known = 0;
        while let Some(&(s, e)) = self.ranges.get(last).filter(|r| r.0 <= end) {
            let (low, high) = (s.max(start), e.min(end));
            if low < high {
                known += high - low;
                self.duplicate = Some((low, high));
            }
            merged = (merged.0.min(s), merged.1.max(e));
            last += 1;
        }
        self.forget(|block| block.0 <= merged.1 && merged.0 <= block.1);
        self.remember(merged);
        self.beyond += end - start - known;
        match last - first {
            0 => self.ranges.insert(first, merged),
            n => {
                self.ranges[first] = merged;
                if n > 1 {
                    self.ranges.drain(first + 1..last);
                }
            }
        }
        if known == end - start { Placed::Duplicate } else { Placed::OutOfOrder }
    }

    fn remember(&mut self, block: (u64, u64)) {
        self.recent.copy_within(0..RECENT - 1, 1);
        self.recent[0] = block;
        self.recent_len = (self.recent_len + 1).min(RECENT);
    }

    fn forget(&mut self, obsolete: impl Fn(&(u64, u64)) -> bool) {
        let mut kept = 0;
        for i in 0..self.recent_len {
            if !obsolete(&self.recent[i]) {
                self.recent[kept] = self.recent[i];
                kept += 1;
            }
        }
        self.recent_len = kept;
    }

    /// What an acknowledgement reports now: a duplicate first, once, then the newest blocks. Whether the first is a duplicate.
    pub fn report(&mut self) -> (SackBlocks, bool) {
        let mut blocks = SackBlocks::default();
        let duplicate = self.duplicate.take();
        if let Some((start, end)) = duplicate {
            blocks.push(start, end);
        }
        for &(start, end) in &self.recent[..self.recent_len] {
            blocks.push(start, end);
        }
        (blocks, duplicate.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn blocks(r: &mut Reassembly) -> (Vec<(u64, u64)>, bool) {
        let (blocks, dsack) = r.report();
        (blocks.as_slice().to_vec(), dsack)
    }

    #[test]
    fn sack_blocks_report_the_newest_first_and_three_at_most() {
        let mut r = Reassembly::default();
        for start in [10, 30, 50, 70] {
            assert_eq!(r.insert(start, start + 10), Placed::OutOfOrder);
        }
        assert_eq!(blocks(&mut r), (vec![(70, 80), (50, 60), (30, 40)], false));
        r.insert(20, 30);
        assert_eq!(blocks(&mut r), (vec![(10, 40), (70, 80), (50, 60)], false), "what it joins is reported whole");
        assert_eq!(r.insert(0, 10), Placed::InOrder { filled: false });
        assert_eq!(r.next(), 40);
        assert_eq!(blocks(&mut r), (vec![(70, 80), (50, 60)], false));
    }

    #[test]
    fn a_third_block_displaces_and_the_first_two_do_not() {
        let mut r = Reassembly::default();
        assert!(!r.displaces(10, 20), "the first");
        r.insert(10, 20);
        assert!(!r.displaces(30, 40), "the second");
        r.insert(30, 40);
        assert!(r.displaces(50, 60), "the third");
        assert!(!r.displaces(20, 25) && !r.displaces(40, 45), "what extends one of the first two");
        r.insert(50, 60);
        assert!(r.displaces(20, 25), "the first block is the third of the list now");
        assert!(!r.displaces(0, 10), "what is in order has no block");
    }

    #[test]
    fn dsack_reports_a_duplicate_once_and_first() {
        let mut r = Reassembly::default();
        r.insert(0, 10);
        r.insert(20, 30);
        assert_eq!(r.insert(0, 10), Placed::Duplicate);
        assert_eq!(blocks(&mut r), (vec![(0, 10), (20, 30)], true));
        assert_eq!(blocks(&mut r), (vec![(20, 30)], false));
        assert_eq!(r.insert(20, 30), Placed::Duplicate);
        assert_eq!(blocks(&mut r), (vec![(20, 30), (20, 30)], true), "the second block holds the duplicate (RFC 2883 §4)");
    }

    proptest! {
        #[test]
        fn reassembly_holds_what_a_set_of_bytes_would(segments in proptest::collection::vec((0_u64..60, 1_u64..8), 1..80)) {
            let mut r = Reassembly::default();
            let mut bytes = BTreeSet::new();
            for (start, len) in segments {
                let all_there = (start..start + len).all(|b| bytes.contains(&b));
                bytes.extend(start..start + len);
                let next = (0..100).find(|b| !bytes.contains(b)).unwrap_or(0);
                let placed = r.insert(start, start + len);
                prop_assert_eq!(r.next(), next);
                prop_assert_eq!(r.beyond(), bytes.range(next..).count() as u64);
                prop_assert_eq!(placed == Placed::Duplicate, all_there);
                prop_assert!(r.ranges.iter().zip(r.ranges.iter().skip(1)).all(|(a, b)| a.1 < b.0));
                let (blocks, dsack) = r.report();
                for &(s, e) in blocks.as_slice().iter().skip(usize::from(dsack)) {
                    prop_assert!(s > next && (s..e).all(|b| bytes.contains(&b)) && !bytes.contains(&e) && !bytes.contains(&(s - 1)));
                }
            }
        }
    }
}
