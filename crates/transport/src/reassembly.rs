//! Reassembly of segments in order, and the SACK blocks for data beyond a hole.
//!
//! Source: RFC 2018 §4 (choice of blocks), RFC 2883 (duplicates); Linux `tcp_data_queue`, `tcp_sack_new_ofo_skb` (four blocks are remembered,
//! the newest first).

use crate::wire::SackBlocks;
use std::collections::VecDeque;

/// Blocks remembered (`TCP_NUM_SACKS`).
const RECENT: usize = 4;

/// Blocks that every acknowledgement can report (`TCP_SACK_BLOCKS_EXPECTED`).
const EXPECTED: usize = 2;

/// Place of a received segment in the sequence space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Next in order. `filled`: it fills the last hole.
    InOrder { filled: bool },
    /// Beyond a hole.
    OutOfOrder,
    /// All its bytes had arrived before.
    Duplicate,
}

/// Received part of the sequence space.
#[derive(Debug, Default)]
pub struct Reassembly {
    /// Next byte expected.
    next: u64,
    /// Out-of-order ranges beyond `next`: sorted and disjoint.
    ranges: VecDeque<(u64, u64)>,
    /// Bytes in `ranges`.
    out_of_order_bytes: u64,
    recent: [(u64, u64); RECENT],
    recent_len: usize,
    /// Duplicate range to report by DSACK.
    duplicate: Option<(u64, u64)>,
}

impl Reassembly {
    /// Next byte expected.
    pub const fn next(&self) -> u64 {
        self.next
    }

    /// Bytes held beyond a hole.
    pub const fn out_of_order_bytes(&self) -> u64 {
        self.out_of_order_bytes
    }

    /// Distance from the next byte expected to the end of the out-of-order data [bytes].
    pub fn out_of_order_span(&self) -> u64 {
        self.ranges.back().map_or(0, |&(_, end)| end - self.next)
    }

    /// Whether there is a hole.
    pub fn has_hole(&self) -> bool {
        !self.ranges.is_empty()
    }

    /// Whether an acknowledgement has SACK blocks to report.
    pub fn has_report(&self) -> bool {
        self.has_hole() || self.duplicate.is_some()
    }

    /// Whether a segment `[start, end)` beyond a hole would push a block out of an acknowledgement's reach: it is not the first block, and
    /// does not extend one of the first [`EXPECTED`] blocks.
    pub fn displaces_block(&self, start: u64, end: u64) -> bool {
        let known = &self.recent[..self.recent_len];
        start > self.next && known.iter().position(|b| start <= b.1 && b.0 <= end).unwrap_or(known.len()) >= EXPECTED
    }

    /// Insert a segment `[start, end)`.
    pub fn insert(&mut self, start: u64, end: u64) -> Placement {
        if end <= self.next {
            self.duplicate = Some((start, end));
            return Placement::Duplicate;
        }
        if start <= self.next {
            if start < self.next {
                self.duplicate = Some((start, self.next));
            }
            self.next = end;
            if self.ranges.is_empty() {
                return Placement::InOrder { filled: false };
            }
            self.merge_in_order();
            return Placement::InOrder { filled: self.ranges.is_empty() };
        }
        self.insert_out_of_order(start, end)
    }

    /// Merge the ranges that `next` has reached.
    fn merge_in_order(&mut self) {
        while let Some(&(start, end)) = self.ranges.front().filter(|r| r.0 <= self.next) {
            if start < self.next {
                // The segment overlapped a range already held.
                self.duplicate = Some((start, end.min(self.next)));
            }
            self.next = self.next.max(end);
            self.out_of_order_bytes -= end - start;
            self.ranges.pop_front();
        }
        let next = self.next;
        self.remove_blocks(|block| block.0 < next);
    }

    fn insert_out_of_order(&mut self, start: u64, end: u64) -> Placement {
        // Ranges [first, last) touch the segment; usually it goes behind the last one.
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
        self.remove_blocks(|block| block.0 <= merged.1 && merged.0 <= block.1);
        self.push_block(merged);
        self.out_of_order_bytes += end - start - known;
        match last - first {
            0 => self.ranges.insert(first, merged),
            n => {
                self.ranges[first] = merged;
                if n > 1 {
                    self.ranges.drain(first + 1..last);
                }
            }
        }
        if known == end - start { Placement::Duplicate } else { Placement::OutOfOrder }
    }

    fn push_block(&mut self, block: (u64, u64)) {
        self.recent.copy_within(0..RECENT - 1, 1);
        self.recent[0] = block;
        self.recent_len = (self.recent_len + 1).min(RECENT);
    }

    fn remove_blocks(&mut self, obsolete: impl Fn(&(u64, u64)) -> bool) {
        let mut len = 0;
        for i in 0..self.recent_len {
            if !obsolete(&self.recent[i]) {
                self.recent[len] = self.recent[i];
                len += 1;
            }
        }
        self.recent_len = len;
    }

    /// Return the SACK blocks to report: a duplicate first, once, then the newest blocks; and whether the first block is a DSACK.
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
            assert_eq!(r.insert(start, start + 10), Placement::OutOfOrder);
        }
        assert_eq!(blocks(&mut r), (vec![(70, 80), (50, 60), (30, 40)], false));
        r.insert(20, 30);
        assert_eq!(blocks(&mut r), (vec![(10, 40), (70, 80), (50, 60)], false), "a merged block is reported whole");
        assert_eq!(r.insert(0, 10), Placement::InOrder { filled: false });
        assert_eq!(r.next(), 40);
        assert_eq!(blocks(&mut r), (vec![(70, 80), (50, 60)], false));
    }

    #[test]
    fn only_a_third_block_displaces_a_block() {
        let mut r = Reassembly::default();
        assert!(!r.displaces_block(10, 20), "the first");
        r.insert(10, 20);
        assert!(!r.displaces_block(30, 40), "the second");
        r.insert(30, 40);
        assert!(r.displaces_block(50, 60), "the third");
        assert!(!r.displaces_block(20, 25) && !r.displaces_block(40, 45), "an extension of one of the first two");
        r.insert(50, 60);
        assert!(r.displaces_block(20, 25), "the first block is the third of the list now");
        assert!(!r.displaces_block(0, 10), "in-order data has no block");
    }

    #[test]
    fn dsack_reports_a_duplicate_once_and_first() {
        let mut r = Reassembly::default();
        r.insert(0, 10);
        r.insert(20, 30);
        assert_eq!(r.insert(0, 10), Placement::Duplicate);
        assert_eq!(blocks(&mut r), (vec![(0, 10), (20, 30)], true));
        assert_eq!(blocks(&mut r), (vec![(20, 30)], false));
        assert_eq!(r.insert(20, 30), Placement::Duplicate);
        assert_eq!(blocks(&mut r), (vec![(20, 30), (20, 30)], true), "the second block holds the duplicate (RFC 2883 §4)");
    }

    proptest! {
        #[test]
        fn reassembly_agrees_with_a_set_of_bytes(segments in proptest::collection::vec((0_u64..60, 1_u64..8), 1..80)) {
            let mut r = Reassembly::default();
            let mut bytes = BTreeSet::new();
            for (start, len) in segments {
                let all_there = (start..start + len).all(|b| bytes.contains(&b));
                bytes.extend(start..start + len);
                let next = (0..100).find(|b| !bytes.contains(b)).unwrap_or(0);
                let placement = r.insert(start, start + len);
                prop_assert_eq!(r.next(), next);
                prop_assert_eq!(r.out_of_order_bytes(), bytes.range(next..).count() as u64);
                prop_assert_eq!(placement == Placement::Duplicate, all_there);
                prop_assert!(r.ranges.iter().zip(r.ranges.iter().skip(1)).all(|(a, b)| a.1 < b.0));
                let (blocks, dsack) = r.report();
                for &(s, e) in blocks.as_slice().iter().skip(usize::from(dsack)) {
                    prop_assert!(s > next && (s..e).all(|b| bytes.contains(&b)) && !bytes.contains(&e) && !bytes.contains(&(s - 1)));
                }
            }
        }
    }
}
