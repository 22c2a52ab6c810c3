//! RED: arrivals are marked or dropped with a probability that rises linearly with the average length of the queue.
//!
//! Source: Floyd and Jacobson, "Random Early Detection Gateways for Congestion Avoidance", IEEE/ACM Transactions on Networking 1(4), 1993; Linux `net/sched/sch_red.c` and
//! `include/net/red.h`, 6.18 (not its adaptive variant). The average is of bytes; what is marked is spread evenly (§7, method 2): a number is drawn
//! uniformly when the last mark was made, and the mark comes when the probabilities since then add up to it. It is drawn by the time of a packet, so what
//! else passes does not change it.

use super::droptail::DropTail;
use super::{Lost, mark};
use crate::element::{DropCause, MarkCause};
use crate::packet::Packet;
use bentpipe_profile::queue::PROBABILITY_ONE;
use bentpipe_profile::{Bytes, QueueLimit, Rate, Red, Time, keyed_u64};

/// A typical packet, by whose time an idle line forgets [bytes] (`avpkt` in the examples of tc-red(8)).
const TYPICAL_BYTES: u64 = 1000;
/// Longest idle span that is computed, in packets: after it nothing is left of any average.
const MOST_IDLE: u64 = 1 << 32;

/// A queue under RED.
#[derive(Clone, Debug)]
pub struct RedQueue {
    spec: Red,
    fifo: DropTail,
    key: u64,
    memory: Memory,
}

#[derive(Clone, Copy, Debug)]
struct Memory {
    /// Average length [2^-weight_log bytes].
    average: u64,
    /// When the queue ran empty; `None`: it is not.
    idle_since: Option<Time>,
    /// Packets since the last mark, while the average is between the thresholds.
    since_mark: Option<u64>,
    /// What their probabilities must add up to [1e-9].
    wanted: u64,
}

impl RedQueue {
    /// An empty queue; `key`: of its draws.
    #[must_use]
    pub fn new(spec: Red, fifo: DropTail, key: u64) -> Self {
        Self { spec, fifo, key, memory: Memory { average: 0, idle_since: Some(Time::ZERO), since_mark: None, wanted: 0 } }
    }

    /// Takes the packet, marked or not, or gives it up.
    pub fn enqueue(&mut self, mut packet: Packet, rate: Option<Rate>, lost: &mut Lost) {
        self.average(packet.at, rate);
        if self.decide(packet.at, rate) && !(self.spec.ecn && mark(&mut packet, MarkCause::Law)) {
            lost.push((packet, DropCause::Aqm));
            return;
        }
        if let Err(packet) = self.fifo.enqueue(packet, rate) {
            lost.push((packet, DropCause::QueueFull));
        }
    }

    /// An arrival moves the average, as if small packets had met an empty queue while it was idle.
    fn average(&mut self, at: Time, rate: Option<Rate>) {
        let log = self.spec.weight_log;
        let memory = &mut self.memory;
        if let Some(since) = memory.idle_since.take() {
            let each = rate.map_or(0, |rate| rate.time_for(Bytes(TYPICAL_BYTES)).0);
            let packets = at.since(since).0.checked_div(each).unwrap_or(MOST_IDLE).min(MOST_IDLE);
            memory.average = decayed(memory.average, log, packets);
        } else {
            memory.average = memory.average + self.fifo.bytes() - (memory.average >> log);
        }
    }

    /// Whether this packet is marked, or dropped.
    fn decide(&mut self, at: Time, rate: Option<Rate>) -> bool {
        let (min, max) = (length(self.spec.min, rate), length(self.spec.max, rate));
        let average = self.memory.average >> self.spec.weight_log;
        let memory = &mut self.memory;
        if average == 0 || average < min {
            memory.since_mark = None;
            return false;
        }
        if average >= max {
            memory.since_mark = None;
            return true;
        }
        let Some(before) = memory.since_mark else {
            (memory.since_mark, memory.wanted) = (Some(0), draw(self.key, at));
            return false;
        };
        let count = before + 1;
        let probability = u128::from(self.spec.max_probability_ppb) * u128::from(average - min) / u128::from(max - min);
        let due = u128::from(count) * probability >= u128::from(memory.wanted);
        memory.since_mark = Some(if due { 0 } else { count });
        if due {
            memory.wanted = draw(self.key, at);
        }
        due
    }

    /// The packet to send at `now`.
    pub fn dequeue(&mut self, now: Time) -> Option<Packet> {
        let packet = self.fifo.dequeue();
        if packet.is_none() {
            self.memory.idle_since.get_or_insert(now);
        }
        packet
    }

    /// The next packet.
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

    /// Takes over another's average.
    pub const fn adopt_aqm_state(&mut self, other: &Self) {
        self.memory = other.memory;
    }
}

/// A threshold in bytes at the capacity of the moment.
fn length(threshold: QueueLimit, rate: Option<Rate>) -> u64 {
    match threshold {
        QueueLimit::Bytes(bytes) => bytes.0,
        QueueLimit::TimeNs(span) => rate.map_or(u64::MAX, |rate| rate.bytes_in(span).0),
        QueueLimit::Packets(_) => u64::MAX, // refused when the Profile is made
    }
}

/// Uniform in 0 … 1 [1e-9].
fn draw(key: u64, at: Time) -> u64 {
    #[allow(clippy::cast_possible_truncation)] // the high half of a 128-bit product
    {
        ((u128::from(keyed_u64(key, at.0)) * u128::from(PROBABILITY_ONE)) >> 64) as u64
    }
}

/// `average · (1 − 2^−log)^packets`, by squaring, in 2^-32.
fn decayed(average: u64, log: u32, packets: u64) -> u64 {
    const ONE: u128 = 1 << 32;
    let (mut factor, mut base, mut left) = (ONE, ONE - (ONE >> log), packets);
    while left > 0 && factor > 0 {
        if left & 1 == 1 {
            factor = factor * base / ONE;
        }
        base = base * base / ONE;
        left >>= 1;
    }
    #[allow(clippy::cast_possible_truncation)] // no more than it was
    {
        (u128::from(average) * factor / ONE) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::packet;
    use super::*;
    use crate::packet::Ecn;

    const RATE: Option<Rate> = Some(Rate::from_mbps(12));

    fn spec() -> Red {
        Red {
            min: QueueLimit::Bytes(Bytes(15_000)),
            max: QueueLimit::Bytes(Bytes(45_000)),
            max_probability_ppb: PROBABILITY_ONE / 10,
            weight_log: 9,
            ecn: true,
        }
    }

    /// Holds the queue at `packets` for 20,000 arrivals; how far apart its marks come.
    fn gaps(packets: usize, ecn: Ecn) -> Vec<usize> {
        let mut queue = RedQueue::new(spec(), DropTail::new(QueueLimit::Packets(1000)), 3);
        let (mut lost, mut gaps, mut gap) = (Lost::new(), Vec::new(), 0);
        for n in 0..25_000_u64 {
            let at = Time(n * 1_000_000);
            while queue.len() < packets {
                queue.fifo.put_back(packet(at, 0, Ecn::NotEct));
            }
            queue.memory.idle_since = None;
            queue.enqueue(packet(at, 0, ecn), RATE, &mut lost);
            let marked = queue.iter().last().is_some_and(|p| p.at == at && p.marked.is_some());
            gap += 1;
            if marked || !lost.is_empty() {
                if n > 5000 {
                    gaps.push(gap);
                }
                gap = 0;
            }
            lost.clear();
            while queue.len() > packets {
                queue.take();
            }
        }
        gaps
    }

    #[test]
    fn below_the_minimum_nothing_and_above_the_maximum_everything() {
        assert!(gaps(9, Ecn::Ect).is_empty());
        assert!(gaps(31, Ecn::Ect).len() == 19_999);
    }

    #[test]
    fn between_them_the_share_of_marks_rises_linearly_and_marks_are_spread_evenly() {
        for (packets, probability) in [(15, 0.025), (20, 0.05), (29, 0.095)] {
            for ecn in [Ecn::Ect, Ecn::NotEct] {
                let gaps = gaps(packets, ecn);
                let mean = gaps.iter().sum::<usize>() as f64 / gaps.len() as f64;
                // The next mark is uniform within 1/p packets.
                assert!((mean * probability * 2.0 - 1.0).abs() < 0.15, "{packets} packets, {ecn:?}: one in {mean}");
                assert!(gaps.iter().all(|&g| g as f64 <= 1.0 / probability + 2.0));
            }
        }
    }

    #[test]
    fn the_average_follows_the_queue_slowly_and_an_idle_line_forgets() {
        let mut queue = RedQueue::new(spec(), DropTail::new(QueueLimit::Packets(1000)), 3);
        let mut lost = Lost::new();
        (0..10).for_each(|i| queue.enqueue(packet(Time(i), 0, Ecn::Ect), RATE, &mut lost));
        let after = queue.memory.average;
        assert_eq!(after >> 9, (0..10_u64).map(|n| n * 1500).sum::<u64>() / 512, "1/512 of each length");
        while queue.dequeue(Time(100)).is_some() {}
        // 512 packets of 1000 bytes at 12 Mbit/s later a factor of e is gone.
        queue.average(Time(100 + 512 * 666_667), RATE);
        let left = queue.memory.average as f64 / after as f64;
        assert!((left - 1.0 / std::f64::consts::E).abs() < 0.01, "{left}");
    }
}
