//! The sending port: it numbers packets, keeps copies until the leading acknowledgement has passed them, and retransmits the holes of a notification once.

use crate::serial::{expand, expand_bits};
use bentpipe_profile::{Bytes, Nanos, Time};
use std::collections::BTreeMap;

use super::label::{BITS, FIRST};

/// A kept copy.
#[derive(Clone, Debug)]
struct Kept<P> {
    packet: P,
    bytes: u64,
    deadline: Time,
}

/// What becomes of copies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settled<P> {
    /// Retransmit it, with this number.
    Retransmit(u64, P),
    /// Nothing more is done for it: it has arrived, or it is lost.
    Forget(P),
}

/// One sending port.
#[derive(Debug)]
pub struct Sender<P> {
    next: u64,
    kept: BTreeMap<u64, Kept<P>>,
    /// Retransmitted, by number, until it is too late for them to arrive.
    retransmitted: BTreeMap<u64, Kept<P>>,
    bytes: u64,
    buffer: Bytes,
    holes: u64,
    last_deadline: Time,
}

impl<P: Clone> Sender<P> {
    /// Create a port that has sent nothing. `buffer`: most bytes of copies. `holes`: most holes of a notification that it retransmits.
    #[must_use]
    pub const fn new(buffer: Bytes, holes: u64) -> Self {
        Self { next: FIRST, kept: BTreeMap::new(), retransmitted: BTreeMap::new(), bytes: 0, buffer, holes, last_deadline: Time::ZERO }
    }

    /// Return the next number.
    #[must_use]
    pub const fn next(&self) -> u64 {
        self.next
    }

    /// Send a packet with a number from `next` on, and keep a copy for at most `timeout`; `None`: there is no room for it, and it passes without protection.
    pub fn send(&mut self, now: Time, number: u64, packet: P, bytes: u32, timeout: Nanos) -> Option<u64> {
        if self.bytes + u64::from(bytes) > self.buffer.0 {
            return None;
        }
        self.next = number + 1;
        self.bytes += u64::from(bytes);
        self.last_deadline = self.last_deadline.max(now + timeout);
        self.kept.insert(number, Kept { packet, bytes: u64::from(bytes), deadline: self.last_deadline });
        Some(number)
    }

    /// Process the leading acknowledgement: all numbers up to it have arrived, or are holes that a notification has named or that nobody will.
    pub fn acknowledge(&mut self, ack: u32) -> Vec<Settled<P>> {
        let last = expand_bits(ack, self.next - 1, BITS);
        if last >= self.next {
            return Vec::new();
        }
        let later = self.kept.split_off(&(last + 1));
        let passed = std::mem::replace(&mut self.kept, later);
        passed.into_values().map(|kept| self.forget(kept)).collect()
    }

    /// Process a notification of `count` holes from `first` (its low 16 bits) on. Holes beyond the limit are given up when the acknowledgement passes them.
    pub fn notified(&mut self, now: Time, first: u16, count: u64, timeout: Nanos) -> Vec<Settled<P>> {
        let first = expand(first, self.next - 1);
        let mut settled = Vec::new();
        for number in first..first + count.min(self.holes) {
            if let Some(kept) = self.kept.remove(&number) {
                settled.push(Settled::Retransmit(number, kept.packet.clone()));
                self.retransmitted.insert(number, Kept { deadline: now + timeout, ..kept });
            }
        }
        settled
    }

    /// Whether a number on the wire is that of a retransmission that `is_own` knows.
    pub fn has_retransmitted(&self, number: u32, is_own: impl Fn(&P) -> bool) -> bool {
        let number = expand_bits(number, self.next - 1, BITS);
        self.retransmitted.get(&number).is_some_and(|kept| is_own(&kept.packet))
    }

    /// Return the copies whose time is over.
    pub fn expire(&mut self, now: Time) -> Vec<Settled<P>> {
        let mut settled = Vec::new();
        for map in [&mut self.kept, &mut self.retransmitted] {
            while let Some(entry) = map.first_entry().filter(|entry| entry.get().deadline <= now) {
                let kept = entry.remove();
                self.bytes -= kept.bytes;
                settled.push(Settled::Forget(kept.packet));
            }
        }
        settled
    }

    /// Return when to call [`Sender::expire`].
    #[must_use]
    pub fn wake_at(&self) -> Option<Time> {
        let first = |map: &BTreeMap<u64, Kept<P>>| map.first_key_value().map(|(_, kept)| kept.deadline);
        [first(&self.kept), first(&self.retransmitted)].into_iter().flatten().min()
    }

    /// Return the bytes of the copies.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Return the number of copies.
    #[must_use]
    pub fn copies(&self) -> usize {
        self.kept.len() + self.retransmitted.len()
    }

    fn forget(&mut self, kept: Kept<P>) -> Settled<P> {
        self.bytes -= kept.bytes;
        Settled::Forget(kept.packet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Nanos = Nanos(100);

    fn sent(count: u64) -> Sender<u64> {
        let mut sender = Sender::new(Bytes(1_000_000), 5);
        for n in 0..count {
            assert_eq!(sender.send(Time(n), sender.next(), n, 100, TIMEOUT), Some(FIRST + n));
        }
        sender
    }

    #[test]
    fn a_notification_retransmits_the_first_five_holes_once() {
        let mut sender = sent(20);
        let retransmitted: Vec<_> = sender.notified(Time(30), 3, 8, TIMEOUT);
        assert_eq!(retransmitted, (3..8).map(|n| Settled::Retransmit(FIRST + n, n)).collect::<Vec<_>>());
        assert_eq!(sender.notified(Time(30), 3, 8, TIMEOUT), []);
        // The acknowledgement passes the other three holes: they are lost.
        let forgotten = sender.acknowledge(11);
        assert_eq!(forgotten, [0, 1, 2, 8, 9, 10, 11].map(Settled::Forget));
        // What was retransmitted is forgotten when it can no longer arrive.
        assert_eq!(sender.expire(Time(129)).len(), 8);
        assert_eq!(sender.expire(Time(130)), (3..8).map(Settled::Forget).collect::<Vec<_>>());
        assert_eq!((sender.bytes(), sender.wake_at()), (0, None));
    }

    #[test]
    fn numbers_have_an_era_and_wrap() {
        let mut sender = Sender::new(Bytes(1 << 40), 5);
        for n in 0..300_000_u64 {
            let number = sender.send(Time(n), sender.next(), n, 1, Nanos(1 << 40)).unwrap();
            #[allow(clippy::cast_possible_truncation)]
            let wire = (number & 0x1_ffff) as u32;
            assert_eq!(sender.acknowledge(wire), [Settled::Forget(n)]);
        }
        assert_eq!(sender.copies(), 0);
    }

    #[test]
    fn acknowledgements_of_the_future_and_a_full_buffer_are_harmless() {
        let mut sender = sent(3);
        assert_eq!(sender.acknowledge(9), []);
        let mut full: Sender<u64> = Sender::new(Bytes(150), 5);
        assert!(full.send(Time(0), full.next(), 0, 100, TIMEOUT).is_some());
        assert_eq!(full.send(Time(0), full.next(), 1, 100, TIMEOUT), None);
    }
}
