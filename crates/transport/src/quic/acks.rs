//! Packet numbers that arrived, and when to acknowledge them (RFC 9000 §13.2).

use super::rtt::MAX_ACK_DELAY;
use super::wire::{AckFrame, MAX_ACK_RANGES, Space};
use bentpipe_profile::Time;
use std::collections::VecDeque;

/// Ack-eliciting packets that are acknowledged at once (RFC 9000 §13.2.2).
const ACK_EVERY: u32 = 2;

/// Packets received in one space.
#[derive(Clone, Debug)]
pub struct Received {
    space: Space,
    /// Ranges of numbers, first and last, from the highest down.
    ranges: VecDeque<(u64, u64)>,
    /// Lower numbers are not accepted: their ranges are forgotten, so that they may have arrived (RFC 9000 §13.2.3).
    floor: u64,
    /// When the largest number arrived.
    largest_at: Time,
    /// Ack-eliciting packets since the last ACK frame.
    unacknowledged: u32,
    /// When an ACK frame is due; `Time::MAX`: none is.
    due: Time,
}

impl Received {
    /// Create an empty record.
    #[must_use]
    pub const fn new(space: Space) -> Self {
        Self { space, ranges: VecDeque::new(), floor: 0, largest_at: Time::ZERO, unacknowledged: 0, due: Time::MAX }
    }

    /// Record a packet. Returns whether to process it; one that may have been processed changes nothing (RFC 9000 §12.3).
    #[must_use]
    pub fn on_packet(&mut self, now: Time, number: u64, is_ack_eliciting: bool) -> bool {
        let largest = self.ranges.front().map(|range| range.1);
        if number < self.floor || !self.insert(number) {
            return false;
        }
        if largest.is_none_or(|largest| number > largest) {
            self.largest_at = now;
        }
        if is_ack_eliciting {
            self.unacknowledged += 1;
            // A packet out of order is acknowledged at once, so that losses are detected soon (RFC 9000 §13.2.1).
            let is_in_order = largest.map_or(number == 0, |largest| number == largest + 1);
            let at_once = self.space == Space::Handshake || self.unacknowledged >= ACK_EVERY || !is_in_order;
            self.due = self.due.min(if at_once { now } else { now + MAX_ACK_DELAY });
        }
        true
    }

    fn insert(&mut self, number: u64) -> bool {
        let at = self.ranges.partition_point(|range| range.0 > number);
        // `at` is the first range that begins at or below the number; the one before it begins above.
        if self.ranges.get(at).is_some_and(|range| range.1 >= number) {
            return false;
        }
        let joins_lower = self.ranges.get(at).is_some_and(|range| range.1 + 1 == number);
        let joins_upper = at > 0 && self.ranges[at - 1].0 == number + 1;
        match (joins_lower, joins_upper) {
            (true, true) => {
                self.ranges[at - 1].0 = self.ranges[at].0;
                self.ranges.remove(at);
            }
            (true, false) => self.ranges[at].1 = number,
            (false, true) => self.ranges[at - 1].0 = number,
            (false, false) => self.ranges.insert(at, (number, number)),
        }
        self.keep(MAX_ACK_RANGES);
        true
    }

    /// Keep this many of the highest ranges.
    fn keep(&mut self, count: usize) {
        if let Some(&(_, last)) = self.ranges.get(count) {
            self.floor = last + 1;
        }
        self.ranges.truncate(count);
    }

    /// When an ACK frame is due; `Time::MAX`: never.
    #[must_use]
    pub const fn due(&self) -> Time {
        self.due
    }

    /// Whether a packet that is sent anyhow should carry an ACK frame.
    #[must_use]
    pub const fn has_news(&self) -> bool {
        self.unacknowledged > 0
    }

    /// Size of the next ACK frame [bytes].
    #[must_use]
    pub fn frame_bytes(&self) -> u32 {
        AckFrame::bytes(self.ranges.len())
    }

    /// Return an ACK frame that is sent now.
    pub fn take_frame(&mut self, now: Time) -> Option<AckFrame> {
        if self.ranges.is_empty() {
            return None;
        }
        self.unacknowledged = 0;
        self.due = Time::MAX;
        Some(AckFrame { ranges: self.ranges.iter().copied().collect(), delay: now.since(self.largest_at) })
    }

    /// The other end has received an ACK frame up to `largest`: lower ranges need not be reported any more (RFC 9000 §13.2.4).
    pub fn forget_below(&mut self, largest: u64) {
        let kept = self.ranges.iter().take_while(|range| range.1 > largest).count().max(1);
        self.keep(kept);
    }

    /// Forget what is due: the space is discarded.
    pub const fn discard(&mut self) {
        self.unacknowledged = 0;
        self.due = Time::MAX;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bentpipe_profile::Nanos;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const fn ms(n: u64) -> Time {
        Time(n * 1_000_000)
    }

    #[test]
    fn every_second_packet_is_acknowledged_at_once_and_a_lone_one_after_25_ms() {
        let mut received = Received::new(Space::Data);
        _ = received.on_packet(ms(5), 0, true);
        assert_eq!(received.due(), ms(30));
        _ = received.on_packet(ms(7), 1, true);
        assert_eq!(received.due(), ms(7));
        let frame = received.take_frame(ms(9)).unwrap();
        assert_eq!((frame.ranges, frame.delay), (vec![(0, 1)], Nanos::from_millis(2)));
        assert_eq!(received.due(), Time::MAX);
    }

    #[test]
    fn a_gap_and_a_late_packet_are_acknowledged_at_once() {
        let mut received = Received::new(Space::Data);
        _ = received.on_packet(ms(0), 0, true);
        received.take_frame(ms(0));
        _ = received.on_packet(ms(1), 2, true);
        assert_eq!(received.due(), ms(1));
        received.take_frame(ms(1));
        _ = received.on_packet(ms(3), 1, true);
        assert_eq!(received.due(), ms(3));
        assert_eq!(received.take_frame(ms(3)).unwrap().ranges, [(0, 2)]);
    }

    #[test]
    fn packets_that_only_acknowledge_are_not_acknowledged() {
        let mut received = Received::new(Space::Data);
        _ = received.on_packet(ms(0), 0, false);
        assert_eq!(received.due(), Time::MAX);
    }

    #[test]
    fn a_duplicate_is_not_acknowledged_once_more() {
        let mut received = Received::new(Space::Data);
        assert!((0..3).all(|number| received.on_packet(ms(0), number, true)));
        received.take_frame(ms(0));
        assert!(!received.on_packet(ms(1), 1, true));
        assert_eq!((received.due(), received.has_news()), (Time::MAX, false));
    }

    #[test]
    fn a_late_duplicate_of_a_forgotten_range_is_not_new() {
        let mut received = Received::new(Space::Data);
        assert!([0, 1, 5, 9].into_iter().all(|number| received.on_packet(ms(0), number, true)));
        received.forget_below(5);
        assert_eq!(received.take_frame(ms(0)).unwrap().ranges, [(9, 9)]);
        assert!([0, 1, 5, 9].into_iter().all(|number| !received.on_packet(ms(1), number, true)));
        assert!(received.on_packet(ms(1), 7, true), "it is above what was forgotten");
        // More ranges than a frame holds: the lowest are forgotten, too.
        let numbers = |from: u64| (from..).step_by(2).take(MAX_ACK_RANGES + 1);
        assert!(numbers(11).all(|number| received.on_packet(ms(2), number, true)));
        assert!(numbers(11).all(|number| !received.on_packet(ms(3), number, true)));
    }

    proptest! {
        #[test]
        fn no_number_is_accepted_twice(steps in prop::collection::vec((0_u64..200, any::<bool>()), 1..300)) {
            let mut received = Received::new(Space::Data);
            let mut all = BTreeSet::new();
            for (number, forgets) in steps {
                if forgets {
                    received.forget_below(number);
                } else if received.on_packet(ms(0), number, true) {
                    prop_assert!(all.insert(number));
                }
            }
        }

        #[test]
        fn ranges_are_what_arrived(numbers in prop::collection::vec(0_u64..40, 1..60)) {
            let mut received = Received::new(Space::Data);
            let mut all = BTreeSet::new();
            for number in numbers {
                prop_assert_eq!(received.on_packet(ms(0), number, true), all.insert(number));
            }
            let frame = received.take_frame(ms(0)).unwrap();
            prop_assert!(frame.ranges.windows(2).all(|pair| pair[1].1 + 1 < pair[0].0));
            let reported: BTreeSet<u64> = frame.ranges.iter().flat_map(|&(first, last)| first..=last).collect();
            prop_assert_eq!(reported, all);
        }
    }
}
