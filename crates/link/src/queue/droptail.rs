//! Drop-tail: first in, first out. An arrival that does not fit is dropped.

use super::fits;
use crate::event::Scope;
use crate::packet::Packet;
use bentpipe_profile::{QueueLimit, Rate};
use std::collections::VecDeque;

/// A drop-tail queue with a limit in bytes, packets or time. It does not contain the packet in transmission.
#[derive(Clone, Debug)]
#[repr(C)] // the limit last: a packet that finds an empty queue does not need it
pub struct DropTail {
    bytes: u64,
    packets: VecDeque<Packet>,
    limit: QueueLimit,
}

impl DropTail {
    /// Create an empty queue.
    #[must_use]
    pub fn new(limit: QueueLimit) -> Self {
        Self { limit, packets: VecDeque::new(), bytes: 0 }
    }

    /// Enqueue the packet. `rate`: current capacity, for limits in time; `None`: unlimited.
    ///
    /// # Errors
    /// The packet itself, if the queue is full.
    pub fn enqueue(&mut self, packet: Packet, rate: Option<Rate>) -> Result<(), Packet> {
        if !fits(self.limit, self.packets.len(), self.bytes, packet.bytes, rate) {
            return Err(packet);
        }
        self.bytes += u64::from(packet.bytes);
        self.packets.push_back(packet);
        Ok(())
    }

    /// Put a packet back at the head: it was removed, but its transmission has not begun.
    pub fn put_back(&mut self, packet: Packet) {
        self.bytes += u64::from(packet.bytes);
        self.packets.push_front(packet);
    }

    /// Iterate over the packets in order of departure.
    pub fn iter(&self) -> impl Iterator<Item = &Packet> {
        self.packets.iter()
    }

    /// Remove and return the packet that has waited longest.
    pub fn dequeue(&mut self) -> Option<Packet> {
        let packet = self.packets.pop_front()?;
        self.bytes -= u64::from(packet.bytes);
        Some(packet)
    }

    /// Remove and return the head: the same as [`DropTail::dequeue`].
    pub fn take(&mut self) -> Option<Packet> {
        self.dequeue()
    }

    /// Remove and return the packets that an event concerns.
    pub fn extract(&mut self, scope: &Scope) -> Vec<Packet> {
        let (leaving, staying) = self.packets.drain(..).partition::<Vec<_>, _>(|packet| scope.concerns(packet));
        self.packets = staying.into();
        self.bytes = self.packets.iter().map(|packet| u64::from(packet.bytes)).sum();
        leaving
    }

    /// Return the limit.
    #[must_use]
    pub const fn limit(&self) -> QueueLimit {
        self.limit
    }

    /// Return the bytes that wait.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Return the number of packets that wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Return whether the queue is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bentpipe_profile::{Bytes, Direction, Nanos, Time};

    fn packet(bytes: u32) -> Packet {
        Packet::new(Time::ZERO, 0, Direction::Down, 0, bytes, 0)
    }

    fn room(limit: QueueLimit, rate: Option<Rate>) -> usize {
        let mut queue = DropTail::new(limit);
        while queue.enqueue(packet(1500), rate).is_ok() && queue.len() < 1000 {}
        queue.len()
    }

    #[test]
    fn limits_count_packets_bytes_or_time() {
        assert_eq!(room(QueueLimit::Packets(7), None), 7);
        assert_eq!(room(QueueLimit::Bytes(Bytes(4_499)), None), 2);
        assert_eq!(room(QueueLimit::Bytes(Bytes(4_500)), None), 3);
        // 10 ms at 12 Mbit/s are 15,000 bytes.
        assert_eq!(room(QueueLimit::TimeNs(Nanos::from_millis(10)), Some(Rate::from_mbps(12))), 10);
        assert_eq!(room(QueueLimit::TimeNs(Nanos::from_millis(10)), None), 1000);
    }
}
