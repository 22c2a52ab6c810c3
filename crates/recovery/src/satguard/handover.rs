//! Migration of kept copies at a handover.
//!
//! ```text
//!            T − buffer/capacity            T            attach
//!   old  ──────────┬────────────────────────┼──────────────┬──────▶
//!     copies of what is unacknowledged,     │ late HAcks   │
//!     then of each packet that it sends     │              │
//!   next ──────────▼────── migration link ──▼──────────────┴──────▶ retransmits what no HAck has reached
//! ```
//! The operator's scheduler knows each handover ahead of time: satellites hold its plan in a connectivity cache.

use bentpipe_profile::{Bytes, Nanos, Rate, Time};
use std::collections::{BTreeMap, VecDeque};

/// A handover of one path from this link, as the connectivity cache has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Handover {
    /// When copying begins.
    pub copy_from: Time,
    /// When the path leaves this link.
    pub at: Time,
    /// When the next link is up.
    pub attach: Time,
    /// The path.
    pub path: u32,
    /// Delay to the next upstream end; zero: it is the same node, which keeps its buffer.
    pub delay: Nanos,
    /// Rate of the migration link; `None`: it is the same node.
    pub rate: Option<Rate>,
}

/// What the old upstream end tells the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<P> {
    /// A copy, with its number.
    Copy(u64, P),
    /// Numbers that were acknowledged, first and last.
    Acknowledged(u64, u64),
    /// The copy was lost: it follows under another number, or was given up.
    Withdrawn(u64),
}

/// The copies that the next upstream end has.
#[derive(Debug)]
pub struct Arrivals<P> {
    copies: BTreeMap<u64, P>,
    is_attached: bool,
}

impl<P> Default for Arrivals<P> {
    fn default() -> Self {
        Self { copies: BTreeMap::new(), is_attached: false }
    }
}

impl<P> Arrivals<P> {
    /// Process a message. Returns the packet to retransmit at once: a copy that arrives after the link is up.
    pub fn receive(&mut self, message: Message<P>) -> Option<P> {
        match message {
            Message::Copy(_, packet) if self.is_attached => return Some(packet),
            Message::Copy(number, packet) => drop(self.copies.insert(number, packet)),
            Message::Acknowledged(first, last) => {
                let mut later = self.copies.split_off(&first);
                let mut beyond = last.checked_add(1).map(|end| later.split_off(&end)).unwrap_or_default();
                self.copies.append(&mut beyond);
            }
            Message::Withdrawn(number) => drop(self.copies.remove(&number)),
        }
        None
    }

    /// The link is up. Returns the packets to retransmit, in the order of their numbers.
    pub fn attach(&mut self) -> impl Iterator<Item = P> + use<P> {
        self.is_attached = true;
        std::mem::take(&mut self.copies).into_values()
    }

    /// Return whether the link is up.
    #[must_use]
    pub const fn is_attached(&self) -> bool {
        self.is_attached
    }

    /// Return how many copies wait for the link.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.copies.len()
    }
}

/// The migration of one path's copies: the messages on their way, and the copies that the next upstream end has.
#[derive(Debug)]
pub struct Transfer<P> {
    /// The handover.
    pub handover: Handover,
    link_free: Time,
    in_flight: VecDeque<(Time, Message<P>)>,
    arrivals: Arrivals<P>,
}

impl<P> Transfer<P> {
    /// Begin a migration.
    #[must_use]
    pub fn new(handover: Handover) -> Self {
        Self { handover, link_free: Time::ZERO, in_flight: VecDeque::new(), arrivals: Arrivals::default() }
    }

    /// Send a copy at `now`.
    pub fn copy(&mut self, now: Time, number: u64, packet: P, bytes: u32) {
        let transmission = self.handover.rate.map_or(Nanos::ZERO, |rate| rate.time_for(Bytes(u64::from(bytes))));
        self.send(now, transmission, Message::Copy(number, packet));
    }

    /// Tell the next end which numbers are acknowledged.
    pub fn acknowledged(&mut self, now: Time, (first, last): (u64, u64)) {
        self.send(now, Nanos::ZERO, Message::Acknowledged(first, last));
    }

    /// Withdraw a copy.
    pub fn withdraw(&mut self, now: Time, number: u64) {
        self.send(now, Nanos::ZERO, Message::Withdrawn(number));
    }

    fn send(&mut self, now: Time, transmission: Nanos, message: Message<P>) {
        self.link_free = self.link_free.max(now) + transmission;
        self.in_flight.push_back((self.link_free + self.handover.delay, message));
    }

    /// Return whether a copy is on its way.
    #[must_use]
    pub fn is_in_flight(&self, number: u64) -> bool {
        self.in_flight.iter().any(|(_, message)| matches!(message, Message::Copy(copied, _) if *copied == number))
    }

    /// Process what happens at the next upstream end until `now`. Returns the packets that it retransmits, with their time.
    pub fn advance(&mut self, now: Time) -> Vec<(Time, P)> {
        let mut out = Vec::new();
        while let Some(at) = self.wake_at().filter(|at| *at <= now) {
            if self.in_flight.front().is_some_and(|(arrival, _)| *arrival <= at)
                && let Some((_, message)) = self.in_flight.pop_front()
            {
                out.extend(self.arrivals.receive(message).map(|packet| (at, packet)));
            } else {
                out.extend(self.arrivals.attach().map(|packet| (at, packet)));
            }
        }
        out
    }

    /// Remove the messages that are due at another node by `now`: that node processes them ([`Arrivals`]).
    pub fn deliver(&mut self, now: Time) -> Vec<Message<P>> {
        let due = self.in_flight.iter().take_while(|(at, _)| *at <= now).count();
        if self.handover.attach <= now {
            self.arrivals.is_attached = true;
        }
        self.in_flight.drain(..due).map(|(_, message)| message).collect()
    }

    /// Return when to call [`Transfer::advance`]. A message that arrives when the link comes up counts before it.
    #[must_use]
    pub fn wake_at(&self) -> Option<Time> {
        let message = self.in_flight.front().map(|(at, _)| *at);
        let attach = (!self.arrivals.is_attached).then_some(self.handover.attach);
        [message, attach].into_iter().flatten().min()
    }

    /// Cut the migration short: the next end is gone. Returns every packet that it had or would have had.
    pub fn cut(&mut self) -> Vec<P> {
        let copies = self.arrivals.attach();
        let in_flight = std::mem::take(&mut self.in_flight).into_iter();
        copies.chain(in_flight.filter_map(|(_, message)| if let Message::Copy(_, packet) = message { Some(packet) } else { None })).collect()
    }

    /// Return whether nothing is left to do once the path has left the link.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.arrivals.is_attached && self.in_flight.is_empty()
    }

    /// Return the number of packets that wait for the next link or are on their way.
    #[must_use]
    pub fn packets(&self) -> usize {
        self.arrivals.waiting() + self.in_flight.iter().filter(|(_, message)| matches!(message, Message::Copy(..))).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transfer() -> Transfer<u32> {
        let rate = Some(Rate(8_000_000_000)); // a byte per nanosecond
        Transfer::new(Handover { copy_from: Time(100), at: Time(1000), attach: Time(1500), path: 0, delay: Nanos(200), rate })
    }

    #[test]
    fn the_next_end_retransmits_what_no_acknowledgement_has_reached() {
        let mut transfer = transfer();
        for number in 0..5 {
            transfer.copy(Time(900), number, u32::try_from(number).unwrap(), 10);
        }
        transfer.acknowledged(Time(1000), (1, 2));
        transfer.withdraw(Time(1000), 4);
        transfer.acknowledged(Time(1400), (3, 3)); // arrives after the link is up
        assert_eq!(transfer.advance(Time(1499)), []);
        assert_eq!(transfer.advance(Time(1500)), [(Time(1500), 0), (Time(1500), 3)]);
        assert_eq!(transfer.advance(Time(2000)), []);
        assert!(transfer.is_over());
    }

    #[test]
    fn copies_that_arrive_after_the_link_is_up_are_retransmitted_at_once() {
        let mut transfer = transfer();
        transfer.copy(Time(1000), 0, 0, 100);
        transfer.copy(Time(1000), 1, 1, 500);
        assert_eq!(transfer.advance(Time(5000)), [(Time(1500), 0), (Time(1800), 1)]);
    }

    #[test]
    fn a_migration_that_is_cut_short_returns_all_its_packets() {
        let mut transfer = transfer();
        (0..3).for_each(|number| transfer.copy(Time(900), u64::from(number), number, 150));
        transfer.advance(Time(1300));
        assert_eq!((transfer.packets(), transfer.cut()), (3, vec![0, 1, 2]));
        assert!(transfer.is_over() && transfer.packets() == 0);
    }
}
