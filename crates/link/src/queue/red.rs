//! RED: arrivals are marked or dropped with a probability that rises linearly with the average length of the queue.
//!
//! Source: Floyd and Jacobson, "Random Early Detection Gateways for Congestion Avoidance", IEEE/ACM Transactions on Networking 1(4), 1993; Linux `net/sched/sch_red.c` and
//! `include/net/red.h`, 6.18 (not its adaptive variant). The average is of bytes. Marks are spread evenly (§7, method 2): at each mark a threshold is
//! drawn uniformly, and the next mark comes when the probabilities since then add up to it. The draw is keyed by a packet's time, so that other packets do
//! not change it.

use super::droptail::DropTail;
use super::{Dropped, mark};
use crate::cause::{DropCause, MarkCause};
use crate::event::Scope;
use crate::packet::Packet;
use bentpipe_profile::queue::PROBABILITY_ONE;
use bentpipe_profile::{Bytes, QueueLimit, Rate, Red, Time, keyed_u64};

/// Typical packet size, by which the average decays on an idle link [bytes] (`avpkt` in the examples of tc-red(8)).
const TYPICAL_BYTES: u64 = 1000;
/// Longest idle time that is computed, in typical packets: after it every average is zero.
const MAX_IDLE_PACKETS: u64 = 1 << 32;

/// A queue under RED.
#[derive(Clone, Debug)]
pub struct RedQueue {
    spec: Red,
    fifo: DropTail,
    key: u64,
    state: State,
}

/// State of the RED control law.
#[derive(Clone, Copy, Debug)]
struct State {
    /// Average queue length [2^-weight_log bytes].
    average: u64,
    /// When the queue became empty; `None`: it is not empty.
    idle_since: Option<Time>,
    /// Packets since the last mark, while the average is between the thresholds.
    since_mark: Option<u64>,
    /// Sum of their probabilities at which the next mark comes [1e-9].
    threshold: u64,
}

impl RedQueue {
    /// Create an empty queue. `key`: key of its draws.
    #[must_use]
    pub fn new(spec: Red, fifo: DropTail, key: u64) -> Self {
        Self { spec, fifo, key, state: State { average: 0, idle_since: Some(Time::ZERO), since_mark: None, threshold: 0 } }
    }

    /// Enqueue the packet, marked or not, or drop it.
    pub fn enqueue(&mut self, mut packet: Packet, rate: Option<Rate>, dropped: &mut Dropped) {
        self.update_average(packet.at, rate);
        if self.should_mark(packet.at, rate) && !(self.spec.ecn && mark(&mut packet, MarkCause::Law)) {
            dropped.push((packet, DropCause::Aqm));
            return;
        }
        if let Err(packet) = self.fifo.enqueue(packet, rate) {
            dropped.push((packet, DropCause::QueueFull));
        }
    }

    /// Update the average at an arrival. An idle time counts as if typical packets had found an empty queue.
    fn update_average(&mut self, at: Time, rate: Option<Rate>) {
        let log = self.spec.weight_log;
        let state = &mut self.state;
        if let Some(since) = state.idle_since.take() {
            let packet_time = rate.map_or(0, |rate| rate.time_for(Bytes(TYPICAL_BYTES)).0);
            let packets = at.since(since).0.checked_div(packet_time).unwrap_or(MAX_IDLE_PACKETS).min(MAX_IDLE_PACKETS);
            state.average = decayed(state.average, log, packets);
        } else {
            state.average = state.average + self.fifo.bytes() - (state.average >> log);
        }
    }

    /// Return whether this packet is marked or dropped.
    fn should_mark(&mut self, at: Time, rate: Option<Rate>) -> bool {
        let (min, max) = (threshold_bytes(self.spec.min, rate), threshold_bytes(self.spec.max, rate));
        let average = self.state.average >> self.spec.weight_log;
        let state = &mut self.state;
        if average == 0 || average < min {
            state.since_mark = None;
            return false;
        }
        if average >= max {
            state.since_mark = None;
            return true;
        }
        let Some(before) = state.since_mark else {
            (state.since_mark, state.threshold) = (Some(0), draw(self.key, at));
            return false;
        };
        let count = before + 1;
        let probability = u128::from(self.spec.max_probability_ppb) * u128::from(average - min) / u128::from(max - min);
        let due = u128::from(count) * probability >= u128::from(state.threshold);
        state.since_mark = Some(if due { 0 } else { count });
        if due {
            state.threshold = draw(self.key, at);
        }
        due
    }

    /// Return the packet to send at `now`.
    pub fn dequeue(&mut self, now: Time) -> Option<Packet> {
        let packet = self.fifo.dequeue();
        if packet.is_none() {
            self.state.idle_since.get_or_insert(now);
        }
        packet
    }

    /// Remove and return the head.
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

    /// Adopt the average of another queue.
    pub const fn adopt_aqm_state(&mut self, other: &Self) {
        self.state = other.state;
    }
}

/// Convert a threshold to bytes at the current capacity.
fn threshold_bytes(threshold: QueueLimit, rate: Option<Rate>) -> u64 {
    match threshold {
        QueueLimit::Bytes(bytes) => bytes.0,
        QueueLimit::TimeNs(span) => rate.map_or(u64::MAX, |rate| rate.bytes_in(span).0),
        QueueLimit::Packets(_) => u64::MAX, // refused when the Profile is made
    }
}

/// Draw uniformly from 0 … 1 [1e-9].
fn draw(key: u64, at: Time) -> u64 {
    #[allow(clippy::cast_possible_truncation)] // the high half of a 128-bit product
    {
        ((u128::from(keyed_u64(key, at.0)) * u128::from(PROBABILITY_ONE)) >> 64) as u64
    }
}

/// Return `average · (1 − 2^−log)^packets`, by squaring, in units of 2^-32.
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
    #[allow(clippy::cast_possible_truncation)] // at most the average before
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

    /// Hold the queue at `packets` for 20,000 arrivals. Returns the numbers of packets between marks.
    fn gaps(packets: usize, ecn: Ecn) -> Vec<usize> {
        let mut queue = RedQueue::new(spec(), DropTail::new(QueueLimit::Packets(1000)), 3);
        let (mut dropped, mut gaps, mut gap) = (Dropped::new(), Vec::new(), 0);
        for n in 0..25_000_u64 {
            let at = Time(n * 1_000_000);
            while queue.len() < packets {
                queue.fifo.put_back(packet(at, 0, Ecn::NotEct));
            }
            queue.state.idle_since = None;
            queue.enqueue(packet(at, 0, ecn), RATE, &mut dropped);
            let marked = queue.iter().last().is_some_and(|p| p.at == at && p.marked.is_some());
            gap += 1;
            if marked || !dropped.is_empty() {
                if n > 5000 {
                    gaps.push(gap);
                }
                gap = 0;
            }
            dropped.clear();
            while queue.len() > packets {
                queue.take();
            }
        }
        gaps
    }

    #[test]
    fn nothing_is_marked_below_the_minimum_and_everything_above_the_maximum() {
        assert!(gaps(9, Ecn::Ect).is_empty());
        assert!(gaps(31, Ecn::Ect).len() == 19_999);
    }

    #[test]
    fn between_the_thresholds_the_mark_rate_rises_linearly_and_marks_are_spread_evenly() {
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
    fn the_average_follows_the_queue_slowly_and_decays_on_an_idle_link() {
        let mut queue = RedQueue::new(spec(), DropTail::new(QueueLimit::Packets(1000)), 3);
        let mut dropped = Dropped::new();
        (0..10).for_each(|i| queue.enqueue(packet(Time(i), 0, Ecn::Ect), RATE, &mut dropped));
        let after = queue.state.average;
        assert_eq!(after >> 9, (0..10_u64).map(|n| n * 1500).sum::<u64>() / 512, "1/512 of each length");
        while queue.dequeue(Time(100)).is_some() {}
        // After 512 packets of 1000 bytes at 12 Mbit/s the average has decayed by a factor of e.
        queue.update_average(Time(100 + 512 * 666_667), RATE);
        let left = queue.state.average as f64 / after as f64;
        assert!((left - 1.0 / std::f64::consts::E).abs() < 0.01, "{left}");
    }
}
