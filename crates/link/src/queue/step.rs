//! Step marking: packets beyond a threshold are marked, or dropped if they cannot be marked.
//!
//! Source: Alizadeh et al., "Data Center TCP (DCTCP)", SIGCOMM 2010, §3.1 and RFC 8257 §3.1: an arrival is marked if the queue then holds more than K. A
//! threshold in time is a waiting time, checked when the packet leaves the queue (`ce_threshold` of Linux `codel` and `fq_codel`; RFC 9332 §A.2, `step`).

use super::droptail::DropTail;
use super::{Dropped, mark};
use crate::cause::{DropCause, MarkCause};
use crate::event::Scope;
use crate::packet::Packet;
use bentpipe_profile::{QueueLimit, Rate, Step, Time};

/// A queue with step marking.
#[derive(Clone, Debug)]
pub struct StepQueue {
    spec: Step,
    fifo: DropTail,
}

impl StepQueue {
    /// Create an empty queue.
    #[must_use]
    pub const fn new(spec: Step, fifo: DropTail) -> Self {
        Self { spec, fifo }
    }

    /// Enqueue the packet, marked if it is beyond the threshold, or drop it.
    pub fn enqueue(&mut self, mut packet: Packet, rate: Option<Rate>, dropped: &mut Dropped) {
        let beyond = match self.spec.threshold {
            QueueLimit::Packets(threshold) => self.fifo.len() as u64 > threshold,
            QueueLimit::Bytes(threshold) => self.fifo.bytes() > threshold.0,
            QueueLimit::TimeNs(_) => false,
        };
        if beyond && !mark(&mut packet, MarkCause::Threshold) {
            dropped.push((packet, DropCause::Aqm));
        } else if let Err(packet) = self.fifo.enqueue(packet, rate) {
            dropped.push((packet, DropCause::QueueFull));
        }
    }

    /// Return the packet to send at `now`.
    pub fn dequeue(&mut self, now: Time, dropped: &mut Dropped) -> Option<Packet> {
        loop {
            let mut packet = self.fifo.dequeue()?;
            let beyond = matches!(self.spec.threshold, QueueLimit::TimeNs(wait) if now.since(packet.at) > wait);
            if !beyond || mark(&mut packet, MarkCause::Threshold) {
                return Some(packet);
            }
            dropped.push((packet, DropCause::Aqm));
        }
    }

    /// Remove and return the head, without the threshold.
    pub fn take(&mut self) -> Option<Packet> {
        self.fifo.dequeue()
    }

    /// Remove and return the packets that an event concerns, without the discipline.
    pub fn extract(&mut self, scope: &Scope) -> Vec<Packet> {
        self.fifo.extract(scope)
    }

    /// Put a packet back at the head.
    pub fn put_back(&mut self, packet: Packet) {
        self.fifo.put_back(packet);
    }

    /// Iterate over the packets in order of departure.
    pub fn iter(&self) -> impl Iterator<Item = &Packet> {
        self.fifo.iter()
    }

    /// Return the limit.
    #[must_use]
    pub const fn limit(&self) -> QueueLimit {
        self.fifo.limit()
    }

    /// Return the bytes that wait.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.fifo.bytes()
    }

    /// Return the number of packets that wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.fifo.len()
    }

    /// Return whether the queue is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.fifo.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::packet;
    use super::*;
    use crate::packet::Ecn;
    use bentpipe_profile::{Bytes, Nanos};

    const MS: u64 = 1_000_000;

    /// Ten packets arrive at once, alternately ECT and not ECT; then one leaves each millisecond. Returns the numbers of (marked, dropped) packets.
    fn marked_and_dropped(threshold: QueueLimit) -> (Vec<u32>, Vec<u32>) {
        let mut queue = StepQueue::new(Step { threshold }, DropTail::new(QueueLimit::Packets(100)));
        let mut dropped = Dropped::new();
        for n in 0..10 {
            queue.enqueue(packet(Time::ZERO, n, if n % 2 == 0 { Ecn::Ect } else { Ecn::NotEct }), None, &mut dropped);
        }
        let sent: Vec<_> = (0..10).filter_map(|ms| queue.dequeue(Time(ms * MS), &mut dropped)).collect();
        let marked = sent.iter().filter(|p| p.marked == Some(MarkCause::Threshold)).map(|p| p.flow).collect();
        (marked, dropped.iter().map(|(p, _)| p.flow).collect())
    }

    #[test]
    fn beyond_the_threshold_ect_packets_are_marked_and_others_dropped() {
        // Arrival n finds n packets waiting, minus the dropped ones: number 5 is the first to find more than four.
        assert_eq!(marked_and_dropped(QueueLimit::Packets(4)), (vec![6, 8], vec![5, 7, 9]));
        assert_eq!(marked_and_dropped(QueueLimit::Bytes(Bytes(6000))), (vec![6, 8], vec![5, 7, 9]));
        // Numbers 0 to 3 leave within 3 ms, number 4 after 4 ms and so on.
        assert_eq!(marked_and_dropped(QueueLimit::TimeNs(Nanos::from_millis(3))), (vec![4, 6, 8], vec![5, 7, 9]));
    }
}
