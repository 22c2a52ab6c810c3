//! FQ-CoDel: flows are hashed to queues, served in turn by deficit round robin, new ones first; each queue is under `CoDel`'s law.
//!
//! Source: RFC 8290 §4 and §5; Linux `net/sched/sch_fq_codel.c`, 6.18, where they differ: `CoDel` leaves a queue alone while what waits in *all* queues is no
//! more than a packet, and an overflow takes up to 64 packets, at most half of its bytes, from the head of the longest queue.

use super::codel::{Law, Source};
use super::{Lost, fits};
use crate::element::DropCause;
use crate::packet::Packet;
use bentpipe_profile::{FqCodel, QueueLimit, Rate, Time, keyed_u64};
use std::collections::VecDeque;

/// Most packets that an overflow drops at once (RFC 8290 §5.1; Linux `drop_batch_size`).
const DROP_BATCH: usize = 64;
/// No queue.
const NONE: u32 = u32::MAX;

/// One of the queues.
#[derive(Clone, Debug, Default)]
struct Flow {
    packets: VecDeque<Packet>,
    bytes: u64,
    /// Bytes that it may still send before it is another's turn.
    deficit: i64,
    law: Law,
    /// Whether it stands in one of the two lists.
    listed: bool,
}

/// All of them.
#[derive(Clone, Debug)]
pub struct FqCodelQueue {
    spec: FqCodel,
    limit: QueueLimit,
    key: u64,
    /// Bucket of the hash → place in `flows`; made when it is first used.
    places: Vec<u32>,
    flows: Vec<Flow>,
    new: VecDeque<u32>,
    old: VecDeque<u32>,
    packets: usize,
    bytes: u64,
    largest: u64,
}

/// A queue as its law sees it.
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
    /// Empty queues; `key`: of the hash.
    #[must_use]
    pub fn new(spec: FqCodel, limit: QueueLimit, key: u64) -> Self {
        Self {
            spec,
            limit,
            key,
            places: vec![NONE; spec.flows as usize],
            flows: Vec::new(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            packets: 0,
            bytes: 0,
            largest: 0,
        }
    }

    /// The queue of a packet's flow. The two directions are different hops' queues, so they need not be told apart.
    #[allow(clippy::cast_possible_truncation)] // below the number of queues
    fn place(&mut self, packet: &Packet) -> usize {
        let flow = (u64::from(packet.path) << 32) | u64::from(packet.flow_hash);
        let bucket = ((u128::from(keyed_u64(self.key, flow)) * u128::from(self.spec.flows)) >> 64) as usize;
        if self.places[bucket] == NONE {
            self.places[bucket] = self.flows.len() as u32;
            self.flows.push(Flow::default());
        }
        self.places[bucket] as usize
    }

    #[allow(clippy::cast_possible_truncation)] // there are at most 65536
    fn insert(&mut self, packet: Packet, at_head: bool) {
        let place = self.place(&packet);
        self.largest = self.largest.max(u64::from(packet.bytes));
        self.bytes += u64::from(packet.bytes);
        self.packets += 1;
        let flow = &mut self.flows[place];
        flow.bytes += u64::from(packet.bytes);
        if !flow.listed {
            flow.listed = true;
            flow.deficit = i64::from(self.spec.quantum_bytes);
            if at_head { self.new.push_front(place as u32) } else { self.new.push_back(place as u32) }
        }
        if at_head { flow.packets.push_front(packet) } else { flow.packets.push_back(packet) }
    }

    /// Takes the packet; if that is too much, the longest queue pays for it.
    pub fn enqueue(&mut self, packet: Packet, rate: Option<Rate>, lost: &mut Lost) {
        let at = packet.at;
        let fits = fits(self.limit, self.packets, self.bytes, packet.bytes, rate);
        self.insert(packet, false);
        if !fits {
            self.drop_from_longest(at, lost);
        }
    }

    fn drop_from_longest(&mut self, at: Time, lost: &mut Lost) {
        let Some(longest) = (0..self.flows.len()).max_by_key(|&i| (self.flows[i].bytes, std::cmp::Reverse(i))) else { return };
        let half = self.flows[longest].bytes / 2;
        let mut dropped = 0;
        for _ in 0..DROP_BATCH {
            let Some(packet) = self.head(longest).pop() else { break };
            dropped += u64::from(packet.bytes);
            lost.push((Packet { at, ..packet }, DropCause::QueueFull));
            self.flows[longest].law.strengthen();
            if dropped >= half {
                break;
            }
        }
    }

    fn head(&mut self, place: usize) -> Head<'_> {
        Head { flow: &mut self.flows[place], packets: &mut self.packets, bytes: &mut self.bytes }
    }

    /// The packet to send at `now` (RFC 8290 §4.2).
    pub fn dequeue(&mut self, now: Time, lost: &mut Lost) -> Option<Packet> {
        loop {
            let from_new = !self.new.is_empty();
            let place = *self.new.front().or(self.old.front())?;
            let (flow, largest, spec) = (&mut self.flows[place as usize], self.largest, self.spec);
            if flow.deficit <= 0 {
                flow.deficit += i64::from(spec.quantum_bytes);
                self.turn(from_new);
                self.old.push_back(place);
                continue;
            }
            let mut law = flow.law;
            let packet = law.dequeue(&spec.codel, largest, now, &mut self.head(place as usize), lost);
            let flow = &mut self.flows[place as usize];
            flow.law = law;
            if let Some(packet) = packet {
                flow.deficit -= i64::from(packet.bytes);
                return Some(packet);
            }
            self.turn(from_new);
            // A new queue that ran empty waits its turn once more, or a flow could come back as new again and again.
            if from_new && !self.old.is_empty() {
                self.old.push_back(place);
            } else {
                self.flows[place as usize].listed = false;
            }
        }
    }

    fn turn(&mut self, from_new: bool) {
        if from_new {
            self.new.pop_front()
        } else {
            self.old.pop_front()
        };
    }

    /// The next packet, whatever the law and the turns say: of all heads the one that has waited longest.
    pub fn take(&mut self) -> Option<Packet> {
        let waiting = (0..self.flows.len()).filter_map(|i| Some((self.flows[i].packets.front()?.at, i)));
        let (_, place) = waiting.min()?;
        self.head(place).pop()
    }

    /// Gives a packet back its place at the head of its queue.
    pub fn put_back(&mut self, packet: Packet) {
        let bytes = i64::from(packet.bytes);
        let place = self.place(&packet);
        if self.flows[place].listed {
            self.flows[place].deficit += bytes;
        }
        self.insert(packet, true);
    }

    /// Packets, queue by queue.
    pub fn iter(&self) -> impl Iterator<Item = &Packet> {
        self.flows.iter().flat_map(|flow| flow.packets.iter())
    }

    /// Bytes that wait.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Packets that wait.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.packets
    }

    /// Whether nothing waits.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.packets == 0
    }

    /// Takes over another's laws, queue by queue.
    pub fn adopt_aqm_state(&mut self, other: &Self) {
        if self.spec != other.spec {
            return;
        }
        // The same flows meet in the same queues as before.
        self.key = other.key;
        self.largest = other.largest;
        let waiting: Vec<Packet> = std::iter::from_fn(|| self.take()).collect();
        self.places.clone_from(&other.places);
        let flows = other.flows.iter().map(|flow| Flow { law: flow.law, ..Flow::default() });
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

    fn fill(queue: &mut FqCodelQueue, flow: u32, n: usize) -> Lost {
        let mut lost = Lost::new();
        (0..n).for_each(|_| queue.enqueue(packet(Time(MS), flow, Ecn::NotEct), None, &mut lost));
        lost
    }

    fn next(queue: &mut FqCodelQueue) -> Option<u32> {
        queue.dequeue(Time(2 * MS), &mut Lost::new()).map(|p| p.flow)
    }

    #[test]
    fn flows_take_turns_and_a_new_one_goes_first() {
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
    fn a_flow_that_comes_back_at_once_is_not_new_again() {
        let mut queue = queue(1000);
        fill(&mut queue, 1, 50);
        (0..4).for_each(|_| assert!(next(&mut queue).is_some()));
        let mut sparse = 0;
        for _ in 0..10 {
            fill(&mut queue, 2, 1);
            sparse += usize::from(next(&mut queue) == Some(2));
        }
        assert!(sparse <= 6, "{sparse} of 10: the other flow has had its turns");
    }

    #[test]
    fn an_overflow_is_paid_by_the_longest_queue_from_its_head() {
        let mut queue = queue(100);
        fill(&mut queue, 2, 10);
        let lost = fill(&mut queue, 1, 91);
        assert_eq!((lost.len(), queue.len()), (46, 55), "half of 91 packets");
        assert!(lost.iter().all(|(p, cause)| p.flow == 1 && *cause == DropCause::QueueFull));
        let place = queue.place(&packet(Time(0), 1, Ecn::NotEct));
        let mut counted = Law::default();
        (0..46).for_each(|_| counted.strengthen());
        assert_eq!(queue.flows[place].law, counted, "its law signals more");
        fill(&mut queue, 1, 45);
        assert_eq!(fill(&mut queue, 2, 1).iter().map(|(p, _)| p.flow).collect::<Vec<_>>(), [1; 45]);
    }

    #[test]
    fn what_is_taken_for_good_comes_in_order_of_arrival() {
        let mut queue = queue(1000);
        for at in 0..20 {
            queue.enqueue(packet(Time(at), u32::try_from(at % 3).unwrap(), Ecn::NotEct), None, &mut Lost::new());
        }
        let order: Vec<_> = std::iter::from_fn(|| queue.take()).map(|p| p.at.0).collect();
        assert_eq!(order, (0..20).collect::<Vec<_>>());
        assert_eq!((queue.len(), queue.bytes()), (0, 0));
    }

    proptest! {
        /// One flow alone is under one law: the same packets leave at the same times as from a `CoDel` queue.
        #[test]
        fn one_flow_is_codel(gaps in prop::collection::vec(0_u64..1500, 200..1500)) {
            let mut fq = queue(100_000);
            let mut codel = CodelQueue::new(RFC, DropTail::new(QueueLimit::Packets(100_000)));
            let (mut at, mut serve_at) = (0, MS);
            let (mut fq_lost, mut codel_lost) = (Lost::new(), Lost::new());
            for gap_us in gaps {
                at += gap_us * 1000;
                while serve_at <= at {
                    let now = Time(serve_at);
                    prop_assert_eq!(fq.dequeue(now, &mut fq_lost), codel.dequeue(now, &mut codel_lost));
                    serve_at += MS;
                }
                let packet = packet(Time(at), 1, if at % 5 == 0 { Ecn::Ect } else { Ecn::NotEct });
                fq.enqueue(packet, None, &mut fq_lost);
                codel.enqueue(packet, None, &mut codel_lost);
            }
            prop_assert_eq!(fq_lost, codel_lost);
        }
    }

    /// The emulator gives a flow its place in the statistics when it has grown, and short ones share one.
    #[test]
    fn a_flow_keeps_its_order_and_is_apart_from_others_whatever_its_place() {
        let mut queue = queue(100_000);
        let mut lost = Lost::new();
        let mut sent =
            |place, flow_hash, body| queue.enqueue(Packet { body, flow_hash, ..packet(Time(0), place, Ecn::NotEct) }, None, &mut lost);
        (0..20).for_each(|body| sent(if body < 10 { 255 } else { 3 }, 7, body));
        (100..103).for_each(|body| sent(255, 8, body));
        let out: Vec<_> = std::iter::from_fn(|| queue.dequeue(Time(0), &mut Lost::new())).map(|p| p.body).collect();
        assert_eq!(out.iter().copied().filter(|&body| body < 100).collect::<Vec<_>>(), (0..20).collect::<Vec<_>>());
        assert_eq!(out.iter().position(|&body| body == 102), Some(5), "turn by turn: {out:?}");
    }

    #[test]
    fn each_flow_is_under_its_own_law() {
        let mut queue = queue(100_000);
        let mut lost = Lost::new();
        // Flow 1 keeps 40 packets waiting, flow 2 one at a time.
        for ms in 1..2000 {
            while queue.flows.first().is_none_or(|f| f.packets.len() < 40) {
                queue.enqueue(packet(Time(ms * MS), 1, Ecn::NotEct), None, &mut lost);
            }
            if ms % 10 == 0 {
                queue.enqueue(packet(Time(ms * MS), 2, Ecn::NotEct), None, &mut lost);
            }
            queue.dequeue(Time(ms * MS), &mut lost);
        }
        assert!(lost.len() > 20 && lost.iter().all(|(p, _)| p.flow == 1), "{}", lost.len());
    }
}
