//! A step: everything beyond a threshold is marked, and what cannot be marked is dropped.
//!
//! Source: Alizadeh et al., "Data Center TCP (DCTCP)", SIGCOMM 2010, §3.1 and RFC 8257 §3.1: an arrival is marked if the queue holds more than K then. A
//! threshold in time is a wait, judged when the packet leaves the queue (`ce_threshold` of Linux `codel` and `fq_codel`; RFC 9332 §A.2, `step`).

use super::droptail::DropTail;
use super::{Lost, mark};
use crate::element::{DropCause, MarkCause};
use crate::packet::Packet;
use bentpipe_profile::{QueueLimit, Rate, Step, Time};

/// A queue with a threshold.
#[derive(Clone, Debug)]
pub struct StepQueue {
    spec: Step,
    fifo: DropTail,
}

impl StepQueue {
    /// An empty queue.
    #[must_use]
    pub const fn new(spec: Step, fifo: DropTail) -> Self {
        Self { spec, fifo }
    }

    /// Takes the packet, marked or not, or gives it up.
    pub fn enqueue(&mut self, mut packet: Packet, rate: Option<Rate>, lost: &mut Lost) {
        let beyond = match self.spec.threshold {
            QueueLimit::Packets(threshold) => self.fifo.len() as u64 > threshold,
            QueueLimit::Bytes(threshold) => self.fifo.bytes() > threshold.0,
            QueueLimit::TimeNs(_) => false,
        };
        if beyond && !mark(&mut packet, MarkCause::Threshold) {
            lost.push((packet, DropCause::Aqm));
        } else if let Err(packet) = self.fifo.enqueue(packet, rate) {
            lost.push((packet, DropCause::QueueFull));
        }
    }

    /// The packet to send at `now`.
    pub fn dequeue(&mut self, now: Time, lost: &mut Lost) -> Option<Packet> {
        loop {
            let mut packet = self.fifo.dequeue()?;
            let beyond = matches!(self.spec.threshold, QueueLimit::TimeNs(wait) if now.since(packet.at) > wait);
            if !beyond || mark(&mut packet, MarkCause::Threshold) {
                return Some(packet);
            }
            lost.push((packet, DropCause::Aqm));
        }
    }

    /// The next packet, whatever it has waited.
    pub fn take(&mut self) -> Option<Packet> {
        self.fifo.dequeue()
    }

    /// Gives a packet back its place at the head.
    pub fn put_back(&mut self, packet: Packet) {
        self.fifo.put_back(packet);
    }

    /// Packets in the order in which they leave.
    pub fn iter(&self) -> impl Iterator<Item = &Packet> {
        self.fifo.iter()
    }

    /// Bytes that wait.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.fifo.bytes()
    }

    /// Packets that wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.fifo.len()
    }

    /// Whether nothing waits.
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

    /// Ten arrivals at once, alternately markable; then one leaves each millisecond. (marked, dropped) by number.
    fn fate(threshold: QueueLimit) -> (Vec<u32>, Vec<u32>) {
        let mut queue = StepQueue::new(Step { threshold }, DropTail::new(QueueLimit::Packets(100)));
        let mut lost = Lost::new();
        for n in 0..10 {
            queue.enqueue(packet(Time::ZERO, n, if n % 2 == 0 { Ecn::Ect } else { Ecn::NotEct }), None, &mut lost);
        }
        let sent: Vec<_> = (0..10).filter_map(|ms| queue.dequeue(Time(ms * MS), &mut lost)).collect();
        let marked = sent.iter().filter(|p| p.marked == Some(MarkCause::Threshold)).map(|p| p.flow).collect();
        (marked, lost.iter().map(|(p, _)| p.flow).collect())
    }

    #[test]
    fn beyond_the_threshold_what_can_be_marked_is_and_the_rest_is_dropped() {
        // Arrival n finds n waiting, less what was dropped: number 5 is the first to find more than four.
        assert_eq!(fate(QueueLimit::Packets(4)), (vec![6, 8], vec![5, 7, 9]));
        assert_eq!(fate(QueueLimit::Bytes(Bytes(6000))), (vec![6, 8], vec![5, 7, 9]));
        // Who leaves after more than 3 ms: numbers 0 to 3 within them, 4 after 4 ms and so on.
        assert_eq!(fate(QueueLimit::TimeNs(Nanos::from_millis(3))), (vec![4, 6, 8], vec![5, 7, 9]));
    }
}
