//! FQ-CoDel: flows are hashed to queues, which deficit round robin serves in turn, new ones first. `CoDel` controls each queue.
//!
//! Source: RFC 8290 §4 and §5; Linux `net/sched/sch_fq_codel.c`, 6.18, where they differ: `CoDel` does not act while the backlog of *all* queues is at
//! most one packet, and an overflow drops up to 64 packets, at most half of its bytes, from the head of the longest queue.

use super::codel::{CodelState, Source};
use super::{Dropped, fits};
use crate::cause::DropCause;
use crate::event::Scope;
use crate::packet::Packet;
use bentpipe_profile::{FqCodel, QueueLimit, Rate, Time, keyed_u64};
use std::collections::VecDeque;

/// Most packets that an overflow drops at once (RFC 8290 §5.1; Linux `drop_batch_size`).
const DROP_BATCH: usize = 64;
/// Hash bucket without a queue.
const NONE: u32 = u32::MAX;

/// The queue of one hash bucket.
#[derive(Clone, Debug, Default)]
struct Flow {
    packets: VecDeque<Packet>,
    bytes: u64,
    /// Bytes that it may still send in this turn.
    deficit: i64,
    state: CodelState,
    /// Whether it is in the list of new or of old queues.
    listed: bool,
}

/// The FQ-CoDel queue: all hash buckets.
#[derive(Clone, Debug)]
pub struct FqCodelQueue {
    spec: FqCodel,
    limit: QueueLimit,
    key: u64,
    /// Hash bucket → index in `flows`. A queue is created when its bucket is first used.
    buckets: Vec<u32>,
    flows: Vec<Flow>,
    new: VecDeque<u32>,
    old: VecDeque<u32>,
    packets: usize,
    bytes: u64,
    largest: u64,
}

/// A queue as `CoDel` accesses it.
struct Head<'a> {
    flow: &'a mut Flow,
    packets: &'a mut usize,
    bytes: &'a mut u64,
}

impl Source for Head<'_> {
    fn pop(&mut self) -> Option<Packet> {
        let packet = self.flow.packets.pop_front()?;
        self.flow.bytes -= u64::from(packet.bytes);
        *self.bytes -= u64::from(packet.bytes);
        *self.packets -= 1;
        Some(packet)
    }

    fn backlog(&self) -> u64 {
        *self.bytes
    }
}

impl FqCodelQueue {
    /// Create empty queues. `key`: key of the hash.
    #[must_use]
    pub fn new(spec: FqCodel, limit: QueueLimit, key: u64) -> Self {
        Self {
            spec,
            limit,
            key,
            buckets: vec![NONE; spec.flows as usize],
            flows: Vec::new(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            packets: 0,
            bytes: 0,
            largest: 0,
        }
    }

    /// Return the index of the queue of a packet's flow. The two directions have separate `FqCodelQueue`s, so the hash ignores the direction.
    #[allow(clippy::cast_possible_truncation)] // below the number of queues
    fn index(&mut self, packet: &Packet) -> usize {
        let flow = (u64::from(packet.path) << 32) | u64::from(packet.flow_hash);
        let bucket = ((u128::from(keyed_u64(self.key, flow)) * u128::from(self.spec.flows)) >> 64) as usize;
        if self.buckets[bucket] == NONE {
            self.buckets[bucket] = self.flows.len() as u32;
            self.flows.push(Flow::default());
        }
        self.buckets[bucket] as usize
    }

    #[allow(clippy::cast_possible_truncation)] // there are at most 65536
    fn insert(&mut self, packet: Packet, at_head: bool) {
        let index = self.index(&packet);
        self.largest = self.largest.max(u64::from(packet.bytes));
        self.bytes += u64::from(packet.bytes);
        self.packets += 1;
        let flow = &mut self.flows[index];
        flow.bytes += u64::from(packet.bytes);
        if !flow.listed {
            flow.listed = true;
            flow.deficit = i64::from(self.spec.quantum_bytes);
            if at_head { self.new.push_front(index as u32) } else { self.new.push_back(index as u32) }
        }
        if at_head { flow.packets.push_front(packet) } else { flow.packets.push_back(packet) }
    }

    /// Enqueue the packet. On overflow, drop packets from the longest queue.
    pub fn enqueue(&mut self, packet: Packet, rate: Option<Rate>, dropped: &mut Dropped) {
        let at = packet.at;
        let fits = fits(self.limit, self.packets, self.bytes, packet.bytes, rate);
        self.insert(packet, false);
        if !fits {
            self.drop_from_longest(at, dropped);
        }
    }

    fn drop_from_longest(&mut self, at: Time, dropped: &mut Dropped) {
        let Some(longest) = (0..self.flows.len()).max_by_key(|&i| (self.flows[i].bytes, std::cmp::Reverse(i))) else { return };
        let half = self.flows[longest].bytes / 2;
        let mut dropped_bytes = 0;
        for _ in 0..DROP_BATCH {
            let Some(packet) = self.head(longest).pop() else { break };
            dropped_bytes += u64::from(packet.bytes);
            dropped.push((Packet { at, ..packet }, DropCause::QueueFull));
            self.flows[longest].state.count_tail_drop();
            if dropped_bytes >= half {
                break;
            }
        }
    }

    fn head(&mut self, index: usize) -> Head<'_> {
        Head { flow: &mut self.flows[index], packets: &mut self.packets, bytes: &mut self.bytes }
    }

    /// Return the packet to send at `now` (RFC 8290 §4.2).
    pub fn dequeue(&mut self, now: Time, dropped: &mut Dropped) -> Option<Packet> {
        loop {
            let from_new = !self.new.is_empty();
            let index = *self.new.front().or(self.old.front())?;
            let (flow, largest, spec) = (&mut self.flows[index as usize], self.largest, self.spec);
            if flow.deficit <= 0 {
                flow.deficit += i64::from(spec.quantum_bytes);
                self.remove_front(from_new);
                self.old.push_back(index);
                continue;
            }
            let mut state = flow.state;
            let packet = state.dequeue(&spec.codel, largest, now, &mut self.head(index as usize), dropped);
            let flow = &mut self.flows[index as usize];
            flow.state = state;
            if let Some(packet) = packet {
                flow.deficit -= i64::from(packet.bytes);
                return Some(packet);
            }
            self.remove_front(from_new);
            // A new queue that became empty moves to the old ones, or its flow could return as new with every packet.
            if from_new && !self.old.is_empty() {
                self.old.push_back(index);
            } else {
                self.flows[index as usize].listed = false;
            }
        }
    }

    fn remove_front(&mut self, from_new: bool) {
        if from_new {
            self.new.pop_front()
        } else {
            self.old.pop_front()
        };
    }

    /// Remove and return the packet that has waited longest, without `CoDel` and round robin.
    pub fn take(&mut self) -> Option<Packet> {
        let waiting = (0..self.flows.len()).filter_map(|i| Some((self.flows[i].packets.front()?.at, i)));
        let (_, index) = waiting.min()?;
        self.head(index).pop()
    }

    /// Remove and return the packets that an event concerns in order of arrival, without `CoDel` and round robin.
    pub fn extract(&mut self, scope: &Scope) -> Vec<Packet> {
        let mut leaving = Vec::new();
        for flow in &mut self.flows {
            let (out, staying) = flow.packets.drain(..).partition::<Vec<_>, _>(|packet| scope.concerns(packet));
            flow.packets = staying.into();
            let bytes = out.iter().map(|packet| u64::from(packet.bytes)).sum::<u64>();
            flow.bytes -= bytes;
            self.bytes -= bytes;
            self.packets -= out.len();
            leaving.extend(out);
        }
        leaving.sort_by_key(|packet| packet.at);
        leaving
    }

    /// Put a packet back at the head of its queue.
    pub fn put_back(&mut self, packet: Packet) {
        let bytes = i64::from(packet.bytes);
        let index = self.index(&packet);
        if self.flows[index].listed {
            self.flows[index].deficit += bytes;
        }
        self.insert(packet, true);
    }

    /// Iterate over the packets, queue by queue.
    pub fn iter(&self) -> impl Iterator<Item = &Packet> {
        self.flows.iter().flat_map(|flow| flow.packets.iter())
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
    pub const fn len(&self) -> usize {
        self.packets
    }

    /// Return whether the queue is empty.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.packets == 0
    }

    /// Adopt the `CoDel` states of another queue, bucket by bucket.
    pub fn adopt_aqm_state(&mut self, other: &Self) {
        if self.spec != other.spec {
            return;
        }
        // The same key hashes the same flows to the same buckets.
        self.key = other.key;
        self.largest = other.largest;
        let waiting: Vec<Packet> = std::iter::from_fn(|| self.take()).collect();
        self.buckets.clone_from(&other.buckets);
        let flows = other.flows.iter().map(|flow| Flow { state: flow.state, ..Flow::default() });
        self.flows = flows.collect();
        (self.new, self.old) = (VecDeque::new(), VecDeque::new());
        for packet in waiting {
            self.insert(packet, false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::codel::CodelQueue;
    use super::super::droptail::DropTail;
    use super::super::testing::{RFC, packet};
    use super::*;
    use crate::packet::Ecn;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    fn queue(limit: u64) -> FqCodelQueue {
        let spec = FqCodel { codel: RFC, flows: 1024, quantum_bytes: 1514 };
        FqCodelQueue::new(spec, QueueLimit::Packets(limit), 7)
    }

    fn fill(queue: &mut FqCodelQueue, flow: u32, n: usize) -> Dropped {
        let mut dropped = Dropped::new();
        (0..n).for_each(|_| queue.enqueue(packet(Time(MS), flow, Ecn::NotEct), None, &mut dropped));
        dropped
    }

    fn next(queue: &mut FqCodelQueue) -> Option<u32> {
        queue.dequeue(Time(2 * MS), &mut Dropped::new()).map(|p| p.flow)
    }

    #[test]
    fn flows_are_served_in_turn_and_a_new_one_first() {
        let mut queue = queue(1000);
        fill(&mut queue, 1, 50);
        fill(&mut queue, 2, 50);
        // Two packets of 1500 bytes overdraw a quantum of 1514.
        let first: Vec<_> = (0..8).map(|_| next(&mut queue).unwrap()).collect();
        assert_eq!(first.iter().filter(|&&f| f == 1).count(), 4, "{first:?}");
        fill(&mut queue, 3, 1);
        assert_eq!(next(&mut queue), Some(3));
    }

    #[test]
    fn a_flow_that_returns_at_once_is_not_new() {
        let mut queue = queue(1000);
        fill(&mut queue, 1, 50);
        (0..4).for_each(|_| assert!(next(&mut queue).is_some()));
        let mut sparse = 0;
        for _ in 0..10 {
            fill(&mut queue, 2, 1);
            sparse += usize::from(next(&mut queue) == Some(2));
        }
        assert!(sparse <= 6, "{sparse} of 10: the other flow gets its turns");
    }

    #[test]
    fn an_overflow_drops_from_the_head_of_the_longest_queue() {
        let mut queue = queue(100);
        fill(&mut queue, 2, 10);
        let dropped = fill(&mut queue, 1, 91);
        assert_eq!((dropped.len(), queue.len()), (46, 55), "half of 91 packets");
        assert!(dropped.iter().all(|(p, cause)| p.flow == 1 && *cause == DropCause::QueueFull));
        let index = queue.index(&packet(Time(0), 1, Ecn::NotEct));
        let mut counted = CodelState::default();
        (0..46).for_each(|_| counted.count_tail_drop());
        assert_eq!(queue.flows[index].state, counted, "the tail drops count");
        fill(&mut queue, 1, 45);
        assert_eq!(fill(&mut queue, 2, 1).iter().map(|(p, _)| p.flow).collect::<Vec<_>>(), [1; 45]);
    }

    #[test]
    fn take_returns_packets_in_order_of_arrival() {
        let mut queue = queue(1000);
        for at in 0..20 {
            queue.enqueue(packet(Time(at), u32::try_from(at % 3).unwrap(), Ecn::NotEct), None, &mut Dropped::new());
        }
        let order: Vec<_> = std::iter::from_fn(|| queue.take()).map(|p| p.at.0).collect();
        assert_eq!(order, (0..20).collect::<Vec<_>>());
        assert_eq!((queue.len(), queue.bytes()), (0, 0));
    }

    proptest! {
        /// With one flow, the same packets leave at the same times as from a `CoDel` queue.
        #[test]
        fn a_single_flow_behaves_as_codel(gaps in prop::collection::vec(0_u64..1500, 200..1500)) {
            let mut fq = queue(100_000);
            let mut codel = CodelQueue::new(RFC, DropTail::new(QueueLimit::Packets(100_000)));
            let (mut at, mut serve_at) = (0, MS);
            let (mut fq_dropped, mut codel_dropped) = (Dropped::new(), Dropped::new());
            for gap_us in gaps {
                at += gap_us * 1000;
                while serve_at <= at {
                    let now = Time(serve_at);
                    prop_assert_eq!(fq.dequeue(now, &mut fq_dropped), codel.dequeue(now, &mut codel_dropped));
                    serve_at += MS;
                }
                let packet = packet(Time(at), 1, if at % 5 == 0 { Ecn::Ect } else { Ecn::NotEct });
                fq.enqueue(packet, None, &mut fq_dropped);
                codel.enqueue(packet, None, &mut codel_dropped);
            }
            prop_assert_eq!(fq_dropped, codel_dropped);
        }
    }

    /// The emulator gives a flow its own index in the statistics once it is large; short flows share one. The hash does not use that index.
    #[test]
    fn flows_are_separated_by_hash_not_by_statistics_index() {
        let mut queue = queue(100_000);
        let mut dropped = Dropped::new();
        let mut sent =
            |index, flow_hash, body| queue.enqueue(Packet { body, flow_hash, ..packet(Time(0), index, Ecn::NotEct) }, None, &mut dropped);
        (0..20).for_each(|body| sent(if body < 10 { 255 } else { 3 }, 7, body));
        (100..103).for_each(|body| sent(255, 8, body));
        let out: Vec<_> = std::iter::from_fn(|| queue.dequeue(Time(0), &mut Dropped::new())).map(|p| p.body).collect();
        assert_eq!(out.iter().copied().filter(|&body| body < 100).collect::<Vec<_>>(), (0..20).collect::<Vec<_>>());
        assert_eq!(out.iter().position(|&body| body == 102), Some(5), "turn by turn: {out:?}");
    }

    #[test]
    fn codel_acts_on_each_flow_separately() {
        let mut queue = queue(100_000);
        let mut dropped = Dropped::new();
        // Flow 1 keeps 40 packets waiting, flow 2 one at a time.
        for ms in 1..2000 {
            while queue.flows.first().is_none_or(|f| f.packets.len() < 40) {
                queue.enqueue(packet(Time(ms * MS), 1, Ecn::NotEct), None, &mut dropped);
            }
            if ms % 10 == 0 {
                queue.enqueue(packet(Time(ms * MS), 2, Ecn::NotEct), None, &mut dropped);
            }
            queue.dequeue(Time(ms * MS), &mut dropped);
        }
        assert!(dropped.len() > 20 && dropped.iter().all(|(p, _)| p.flow == 1), "{}", dropped.len());
    }
}
