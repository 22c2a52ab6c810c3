//! First in, first out; what does not fit is dropped.

use super::fits;
use crate::packet::Packet;
use bentpipe_profile::{QueueLimit, Rate};
use std::collections::VecDeque;

/// A drop-tail queue with a limit in bytes, packets or time. The packet in transmission is not in it.
#[derive(Clone, Debug)]
pub struct DropTail {
    limit: QueueLimit,
    packets: VecDeque<Packet>,
    bytes: u64,
}

impl DropTail {
    /// An empty queue.
    #[must_use]
    pub fn new(limit: QueueLimit) -> Self {
        Self { limit, packets: VecDeque::new(), bytes: 0 }
    }

    /// Takes the packet, or gives it back if there is no room. `rate` is the capacity of the moment, for limits in time; `None`: unlimited.
    ///
    /// # Errors
    /// The packet, when the queue is full.
    pub fn enqueue(&mut self, packet: Packet, rate: Option<Rate>) -> Result<(), Packet> {
        if !fits(self.limit, self.packets.len(), self.bytes, packet.bytes, rate) {
            return Err(packet);
        }
        self.bytes += u64::from(packet.bytes);
        self.packets.push_back(packet);
        Ok(())
    }

    /// Gives a packet back its place at the head: it was taken out, but its transmission has not begun.
    pub fn put_back(&mut self, packet: Packet) {
        self.bytes += u64::from(packet.bytes);
        self.packets.push_front(packet);
    }

    /// Packets in the order in which they leave.
    pub fn iter(&self) -> impl Iterator<Item = &Packet> {
        self.packets.iter()
    }

    /// The packet that has waited longest.
    pub fn dequeue(&mut self) -> Option<Packet> {
        let packet = self.packets.pop_front()?;
        self.bytes -= u64::from(packet.bytes);
        Some(packet)
    }

    /// The same as [`DropTail::dequeue`].
    pub fn take(&mut self) -> Option<Packet> {
        self.dequeue()
    }

    /// Bytes that wait.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Packets that wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Whether nothing waits.
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
