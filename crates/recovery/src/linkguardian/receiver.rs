//! The receiving port: it finds holes, asks for them once, and, where it keeps order, holds what is behind them.

use super::label::{BITS, FIRST, MOST_HOLES};
use crate::serial::expand_bits;
use bentpipe_profile::{Nanos, Time};
use std::collections::{BTreeMap, VecDeque};

/// Holes to ask for: the first number and how many.
pub type Holes = (u64, u64);

/// One receiving port.
#[derive(Debug)]
pub struct Receiver<P> {
    is_ordered: bool,
    /// The number after the highest one that has arrived.
    next: u64,
    /// Whether anything has arrived: a port may join a link whose numbers have advanced.
    has_begun: bool,
    /// The number that leaves next, where order is kept.
    leaves: u64,
    held: BTreeMap<u64, (P, u32)>,
    held_bytes: u64,
    /// Holes and when they are given up: the number after the last, in order.
    timeouts: VecDeque<(u64, Time)>,
    /// Holes that were given up.
    skipped: u64,
}

impl<P> Receiver<P> {
    /// Create a port that has received nothing.
    #[must_use]
    pub const fn new(is_ordered: bool) -> Self {
        Self {
            is_ordered,
            next: FIRST,
            has_begun: false,
            leaves: FIRST,
            held: BTreeMap::new(),
            held_bytes: 0,
            timeouts: VecDeque::new(),
            skipped: 0,
        }
    }

    /// Process a packet, or a dummy packet (`packet` is `None`) that names the next number. `timeout`: when its holes are given up. Appends what leaves to
    /// `out`; returns the holes that it shows.
    pub fn arrive(&mut self, now: Time, number: u32, packet: Option<(P, u32)>, timeout: Nanos, out: &mut Vec<P>) -> Option<Holes> {
        let number = expand_bits(number, self.next, BITS);
        if !self.has_begun {
            self.has_begun = true;
            self.next = number;
            self.leaves = number;
        }
        let holes = (number > self.next).then(|| (self.next, (number - self.next).min(MOST_HOLES)));
        if number > self.next && self.is_ordered {
            self.timeouts.push_back((number, now + timeout));
        }
        self.next = self.next.max(number);
        let Some((packet, bytes)) = packet else { return holes };
        self.next = self.next.max(number + 1);
        if !self.is_ordered {
            out.push(packet);
        } else if number >= self.leaves && !self.held.contains_key(&number) {
            self.held.insert(number, (packet, bytes));
            self.held_bytes += u64::from(bytes);
            self.release(out);
        } // otherwise a duplicate, or too late
        holes
    }

    /// Give up the holes whose time is over; appends what leaves to `out`.
    pub fn expire(&mut self, now: Time, out: &mut Vec<P>) {
        while let Some(&(end, _)) = self.timeouts.front().filter(|(_, at)| *at <= now) {
            self.timeouts.pop_front();
            while self.leaves < end {
                match self.take(self.leaves) {
                    Some(packet) => out.push(packet),
                    None => self.skipped += 1,
                }
                self.leaves += 1;
            }
            self.release(out);
        }
    }

    /// Return when to call [`Receiver::expire`].
    #[must_use]
    pub fn wake_at(&self) -> Option<Time> {
        self.timeouts.front().map(|(_, at)| *at)
    }

    /// Return the leading acknowledgement: the highest number that has arrived or that a dummy packet has passed; `None`: nothing has arrived.
    #[must_use]
    pub fn acknowledgement(&self) -> Option<u64> {
        self.has_begun.then(|| self.next - 1)
    }

    /// Return the bytes that it holds.
    #[must_use]
    pub const fn held_bytes(&self) -> u64 {
        self.held_bytes
    }

    /// Return how many holes it has given up.
    #[must_use]
    pub const fn skipped(&self) -> u64 {
        self.skipped
    }

    fn take(&mut self, number: u64) -> Option<P> {
        let (packet, bytes) = self.held.remove(&number)?;
        self.held_bytes -= u64::from(bytes);
        Some(packet)
    }

    /// Release what is next, and forget the timeouts of holes that are filled.
    fn release(&mut self, out: &mut Vec<P>) {
        while let Some(packet) = self.take(self.leaves) {
            out.push(packet);
            self.leaves += 1;
        }
        while self.timeouts.front().is_some_and(|(end, _)| *end <= self.leaves) {
            self.timeouts.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Nanos = Nanos(100);

    fn arrivals(is_ordered: bool, numbers: &[(u64, u32)]) -> (Vec<u32>, Vec<Holes>, Receiver<u32>) {
        let mut receiver = Receiver::new(is_ordered);
        let (mut out, mut holes) = (Vec::new(), Vec::new());
        for &(at, number) in numbers {
            receiver.expire(Time(at), &mut out);
            holes.extend(receiver.arrive(Time(at), number, Some((number, 1)), TIMEOUT, &mut out));
        }
        (out, holes.into_iter().map(|(first, count)| (first - FIRST, count)).collect(), receiver)
    }

    #[test]
    fn order_is_kept_until_a_hole_is_filled_or_times_out() {
        let (out, holes, receiver) = arrivals(true, &[(0, 0), (1, 2), (2, 3), (3, 1), (4, 4)]);
        assert_eq!((out, holes, receiver.wake_at()), (vec![0, 1, 2, 3, 4], vec![(1, 1)], None));
        let (out, _, receiver) = arrivals(true, &[(0, 0), (1, 2), (2, 3), (101, 4), (102, 1)]);
        assert_eq!((out, receiver.skipped(), receiver.held_bytes()), (vec![0, 2, 3, 4], 1, 0));
    }

    #[test]
    fn without_order_packets_leave_as_they_come_twice_if_they_come_twice() {
        let (out, holes, _) = arrivals(false, &[(0, 0), (1, 2), (2, 1), (3, 1)]);
        assert_eq!((out, holes), (vec![0, 2, 1, 1], vec![(1, 1)]));
        assert_eq!(arrivals(true, &[(0, 0), (1, 2), (2, 1), (3, 1)]).0, [0, 1, 2]);
    }

    #[test]
    fn a_dummy_packet_shows_that_the_last_packets_are_lost() {
        let (mut out, mut receiver) = (Vec::new(), Receiver::new(true));
        assert_eq!(receiver.arrive(Time(0), 0, Some((0, 1)), TIMEOUT, &mut out), None);
        assert_eq!(receiver.arrive(Time(1), 3, None, TIMEOUT, &mut out), Some((FIRST + 1, 2)));
        assert_eq!(receiver.acknowledgement(), Some(FIRST + 2));
        assert_eq!(receiver.arrive(Time(2), 3, None, TIMEOUT, &mut out), None);
    }

    #[test]
    fn a_receiver_of_a_shared_port_takes_the_packets_of_others_for_holes() {
        assert_eq!(arrivals(false, &[(0, 10), (1, 14), (2, 19)]).1, [(11, 3), (15, 4)]);
    }
}
