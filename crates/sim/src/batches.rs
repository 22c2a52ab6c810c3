//! The packets that arrive at one instant, in batches for the endpoints that receive them.

use crate::payloads::Payloads;
use bentpipe_link::{Ecn, Outcome, Packet};
use bentpipe_profile::Direction;
use bentpipe_transport::{Arrival, TcpPacket};
use std::ops::Range;

/// The endpoint that receives a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Receiving {
    /// Index of its connection.
    pub connection: u32,
    /// Whether its packets travel up.
    pub is_up: bool,
}

impl Receiving {
    /// The endpoint that receives this packet.
    #[must_use]
    pub fn of(packet: &Packet) -> Self {
        Self { connection: packet.flow_hash, is_up: packet.direction == Direction::Up }
    }
}

/// Packets that arrive directly after each other at one endpoint.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Where they arrive.
    pub at: Receiving,
    /// Their places among the arrivals.
    places: Range<usize>,
    /// End of the endpoint's packets of this instant.
    end: usize,
}

/// The arrivals of one instant, sorted by endpoint, and their batches in order of arrival.
#[derive(Default)]
pub struct Batches {
    arrivals: Vec<Arrival<TcpPacket>>,
    in_order: Vec<Batch>,
    order: Vec<usize>,
}

impl Batches {
    /// Take over the delivered packets among `outcomes`. Drops and packets for other endpoints end a batch.
    pub fn fill(&mut self, outcomes: &[(Outcome, Packet)], payloads: &mut Payloads<TcpPacket>) {
        self.arrivals.clear();
        self.in_order.clear();
        let mut open = false;
        for (outcome, packet) in outcomes {
            let content = payloads.take(packet.body);
            let (Outcome::Delivered, Some(content)) = (outcome, content) else {
                open = false;
                continue;
            };
            let at = Receiving::of(packet);
            let place = self.arrivals.len();
            self.arrivals.push(Arrival { packet: content, ce: packet.ecn == Ecn::Ce });
            match self.in_order.last_mut().filter(|batch| open && batch.at == at) {
                Some(batch) => batch.places.end = place + 1,
                None => self.in_order.push(Batch { at, places: place..place + 1, end: 0 }),
            }
            open = true;
        }
        let first = self.in_order.first().map(|batch| batch.at);
        if self.in_order.iter().all(|batch| Some(batch.at) == first) {
            let end = self.arrivals.len();
            self.in_order.iter_mut().for_each(|batch| batch.end = end);
        } else {
            self.sort();
        }
    }

    /// Sort the arrivals by endpoint, and keep the batches in order of arrival.
    fn sort(&mut self) {
        let Self { arrivals, in_order: batches, order } = self;
        order.clear();
        order.extend(0..batches.len());
        order.sort_by_key(|&index| batches[index].at); // stable: in order of arrival at each endpoint
        let mut sorted = Vec::with_capacity(arrivals.len());
        for &index in &*order {
            let begin = sorted.len();
            sorted.extend_from_slice(&arrivals[batches[index].places.clone()]);
            batches[index].places = begin..sorted.len();
        }
        let mut end = sorted.len();
        for pair in (0..order.len()).rev() {
            let batch = &mut batches[order[pair]];
            batch.end = end;
            if pair > 0 && batches[order[pair - 1]].at != batches[order[pair]].at {
                end = batches[order[pair]].places.start;
            }
        }
        *arrivals = sorted;
    }

    /// Number of packets delivered.
    #[must_use]
    pub fn packets(&self) -> usize {
        self.arrivals.len()
    }

    /// The batches in order of arrival, each with its packets and the endpoint's later ones of this instant.
    pub fn iter(&self) -> impl Iterator<Item = (Receiving, &[Arrival<TcpPacket>], &[Arrival<TcpPacket>])> {
        self.in_order.iter().map(|batch| {
            let later = batch.places.end..batch.end;
            (batch.at, &self.arrivals[batch.places.clone()], &self.arrivals[later])
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::segment;
    use bentpipe_link::DropCause;
    use bentpipe_profile::Time;

    /// Return the sequence numbers of each batch and of the later packets, with the connection.
    fn batches(arriving: &[(u32, u64, bool)]) -> Vec<(u32, Vec<u64>, Vec<u64>)> {
        let mut payloads = Payloads::default();
        let outcomes: Vec<_> = arriving
            .iter()
            .map(|&(flow, seq, delivered)| {
                let body = payloads.put(TcpPacket::Segment(segment(seq), None));
                let outcome = if delivered { Outcome::Delivered } else { Outcome::Dropped(DropCause::QueueFull) };
                (outcome, Packet::new(Time::ZERO, 0, Direction::Down, flow, 1500, body))
            })
            .collect();
        let mut batches = Batches::default();
        batches.fill(&outcomes, &mut payloads);
        let numbers = |arrivals: &[Arrival<TcpPacket>]| {
            arrivals
                .iter()
                .map(|arrival| match arrival.packet {
                    TcpPacket::Segment(segment, _) => segment.seq,
                    TcpPacket::Ack(_) => panic!("only segments arrive"),
                })
                .collect()
        };
        batches.iter().map(|(at, now, later)| (at.connection, numbers(now), numbers(later))).collect()
    }

    #[test]
    fn packets_of_one_connection_are_one_batch() {
        assert_eq!(batches(&[(3, 1, true), (3, 2, true)]), [(3, vec![1, 2], vec![])]);
    }

    #[test]
    fn batches_keep_the_order_of_arrival_and_know_the_later_packets() {
        let arriving = [(7, 1, true), (7, 2, true), (2, 3, true), (7, 4, true), (2, 5, true), (7, 6, true)];
        let expected =
            [(7, vec![1, 2], vec![4, 6]), (2, vec![3], vec![5]), (7, vec![4], vec![6]), (2, vec![5], vec![]), (7, vec![6], vec![])];
        assert_eq!(batches(&arriving), expected);
    }

    #[test]
    fn a_dropped_packet_ends_a_batch() {
        assert_eq!(batches(&[(0, 1, true), (0, 2, false), (0, 3, true)]), [(0, vec![1], vec![3]), (0, vec![3], vec![])]);
    }
}
