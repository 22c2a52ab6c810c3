//! Numbers of flows, and their slots in the link elements.

use crate::fragments::{Fragments, PacketId};
use crate::grouping::Grouping;
use crate::header::{FlowKey, Header, TCP};
use bentpipe_profile::{Direction, Nanos, Time};
use std::collections::BTreeMap;

/// Flow slots in the link elements, the shared one included. A delay histogram costs 10 kB per hop and direction.
pub const MAX_SLOTS: usize = 256;

/// The slot of all flows without a slot of their own.
#[allow(clippy::cast_possible_truncation)] // 255
const SHARED_SLOT: u32 = MAX_SLOTS as u32 - 1;

/// Most flows with a number, and so with samples, rows in `links` and a summary, in one run; later flows share one number. Chosen here: a few
/// hundred bytes each.
pub const MAX_NUMBERED: usize = 4096;

/// The number of all flows without a number of their own.
#[allow(clippy::cast_possible_truncation)] // 4096
pub const UNNUMBERED_FLOWS: u32 = MAX_NUMBERED as u32;

/// Packets, in both directions, after which a non-TCP flow gets a number. A DNS query is two, with a retry four. Chosen here.
const MIN_PACKETS: u32 = 16;

/// Most flows counted towards [`MIN_PACKETS`]; beyond it all counts restart. Chosen here.
const MAX_CANDIDATES: usize = 4096;

/// Idle time after which a flow's slot may be reused: longer than a window of `links`, and than packets stay on all but the slowest paths. Chosen here.
const IDLE_TIME: Nanos = Nanos::from_secs(10);

/// Times at which a flow's packets entered the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first.
    pub first: Time,
    /// The last so far.
    pub last: Time,
}

/// Flow numbers, and the assignment of flows to the elements' slots. Its memory is bounded.
///
/// A TCP flow gets a number at its first packet, any other at its [`MIN_PACKETS`]th, since DNS queries are many and short. A flow without a slot gets
/// one when another has been idle for [`IDLE_TIME`]; meanwhile it uses the shared slot.
#[derive(Debug, Default)]
pub struct FlowTable {
    grouping: Grouping,
    numbers: BTreeMap<FlowKey, u32>,
    slots: BTreeMap<FlowKey, u32>,
    owners: Vec<Owner>,
    /// Packet counts of flows without a number.
    candidates: BTreeMap<FlowKey, u32>,
    last: Option<(FlowKey, u32)>,
    /// By flow number.
    spans: Vec<Span>,
    unnumbered: u64,
    fragments: Fragments,
}

#[derive(Debug)]
struct Owner {
    key: FlowKey,
    number: u32,
    last_seen: Time,
}

impl FlowTable {
    /// Creates a table of flows that are grouped like this.
    #[must_use]
    pub fn new(grouping: Grouping) -> Self {
        Self { grouping, ..Self::default() }
    }

    /// The connection of a packet in `direction`; of a fragment, its whole packet's.
    pub fn key(&mut self, header: &Header, direction: Direction) -> FlowKey {
        let Some((identification, first)) = header.fragment else { return header.key(direction) };
        let Header { mut source, mut destination, protocol, .. } = *header;
        let id = PacketId { source: source.ip(), destination: destination.ip(), protocol, identification };
        let [from, to] = self.fragments.ports(direction, id, first.then_some([source.port(), destination.port()]));
        source.set_port(from);
        destination.set_port(to);
        Header { source, destination, ..*header }.key(direction)
    }

    /// Returns the slot of the flow of a connection with a packet at `now`; and the flow's key and number, if it is new.
    pub fn slot(&mut self, connection: FlowKey, now: Time) -> (u32, Option<(FlowKey, u32)>) {
        let key = self.grouping.flow(connection);
        let (slot, new) = self.slot_of_flow(key, now);
        (slot, new.map(|number| (key, number)))
    }

    #[allow(clippy::cast_possible_truncation)] // at most MAX_SLOTS and MAX_NUMBERED
    fn slot_of_flow(&mut self, key: FlowKey, now: Time) -> (u32, Option<u32>) {
        let known = self.last.filter(|(last, _)| *last == key).map(|(_, slot)| slot).or_else(|| self.slots.get(&key).copied());
        if let Some(slot) = known {
            self.last = Some((key, slot));
            let owner = &mut self.owners[slot as usize];
            owner.last_seen = now;
            self.spans[owner.number as usize].last = now;
            return (slot, None);
        }
        let (number, new) = match self.numbers.get(&key).copied() {
            Some(number) => {
                self.spans[number as usize].last = now;
                (number, None)
            }
            None if self.numbers.len() < MAX_NUMBERED && (key.protocol == TCP || self.has_enough_packets(key)) => {
                let number = self.numbers.len() as u32;
                self.numbers.insert(key, number);
                self.spans.push(Span { first: now, last: now });
                (number, Some(number))
            }
            None => {
                self.unnumbered += u64::from(key.protocol == TCP);
                return (SHARED_SLOT, None);
            }
        };
        let Some(slot) = self.free_slot(now) else { return (SHARED_SLOT, new) };
        let owner = Owner { key, number, last_seen: now };
        match self.owners.get_mut(slot as usize) {
            Some(before) => drop(self.slots.remove(&std::mem::replace(before, owner).key)),
            None => self.owners.push(owner),
        }
        self.slots.insert(key, slot);
        self.last = Some((key, slot));
        (slot, new)
    }

    /// The number of the flow in a slot; [`UNNUMBERED_FLOWS`] for the shared slot.
    #[must_use]
    pub fn number(&self, slot: u32) -> u32 {
        self.owners.get(slot as usize).map_or(UNNUMBERED_FLOWS, |owner| owner.number)
    }

    /// First and last packet of each flow, by number; a non-TCP flow's first packet is the one that gave it a number.
    #[must_use]
    pub fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// Packets of TCP flows that began after [`MAX_NUMBERED`] flows.
    #[must_use]
    pub const fn unnumbered(&self) -> u64 {
        self.unnumbered
    }

    fn has_enough_packets(&mut self, key: FlowKey) -> bool {
        if self.candidates.len() >= MAX_CANDIDATES {
            self.candidates.clear(); // flows that continue are counted from zero
        }
        let count = self.candidates.entry(key).or_default();
        *count += 1;
        let is_enough = *count >= MIN_PACKETS;
        if is_enough {
            self.candidates.remove(&key);
        }
        is_enough
    }

    #[allow(clippy::cast_possible_truncation)] // at most MOST_FLOWS
    fn free_slot(&self, now: Time) -> Option<u32> {
        if self.owners.len() < SHARED_SLOT as usize {
            return Some(self.owners.len() as u32);
        }
        let (slot, owner) = (0..).zip(&self.owners).min_by_key(|(_, owner)| owner.last_seen)?;
        (now.since(owner.last_seen) >= IDLE_TIME).then_some(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::FRAGMENT_HEADER;
    use crate::header::tests::udp4;
    use proptest::prelude::*;

    #[test]
    fn fragments_belong_to_the_flow_of_their_packet() {
        let whole = Header::read(&udp4(1000, 53)).unwrap();
        let (mut first, mut later) = (udp4(1000, 53), udp4(0xdead, 0xbeef));
        for part in [&mut first, &mut later] {
            part[4..6].copy_from_slice(&[0x12, 0x34]);
        }
        first[6] = 0x20;
        later[7] = 185;
        let mut table = FlowTable::default();
        let [first, later] = [first, later].map(|part| Header::read(&part).unwrap());
        assert_eq!((later.source.port(), later.destination.port()), (0, 0), "the bytes at that place are no port");
        assert_eq!(table.key(&first, Direction::Up), whole.key(Direction::Up));
        assert_eq!(table.key(&later, Direction::Up), whole.key(Direction::Up));
    }

    #[test]
    fn ipv6_fragments_belong_to_the_flow_of_their_packet() {
        let packet = |next: u8, rest: &[u8]| {
            let mut packet = vec![0x60, 0, 0, 0, 0, 16, next, 64];
            packet.extend([1; 16]);
            packet.extend([2; 16]);
            packet.extend(rest);
            packet
        };
        let ports = [0x03, 0xe8, 0, 53, 0, 8, 0, 0];
        let whole = Header::read(&packet(17, &ports)).unwrap();
        let part = |offset: u8| [&[17, 0, 0, offset, 0, 1, 2, 3][..], &ports].concat();
        let [first, later] = [part(1), part(0xb8)].map(|rest| Header::read(&packet(FRAGMENT_HEADER, &rest)).unwrap());
        assert_eq!(first.protocol, 17);
        let mut table = FlowTable::default();
        assert_eq!(table.key(&first, Direction::Down), whole.key(Direction::Down));
        assert_eq!(table.key(&later, Direction::Down), whole.key(Direction::Down));
        assert_eq!((whole.key(Direction::Up).client.port(), later.source.port()), (1000, 0));
    }

    fn key(protocol: u8, port: u16) -> FlowKey {
        FlowKey { client: ([10, 0, 0, 1], port).into(), server: ([10, 0, 0, 2], 53).into(), protocol }
    }

    #[test]
    fn dns_queries_get_no_numbers() {
        let mut table = FlowTable::default();
        for port in 0..300 {
            for _ in 0..2 {
                assert_eq!(table.slot_of_flow(key(17, port), Time(u64::from(port))), (SHARED_SLOT, None));
            }
        }
        assert_eq!(table.number(SHARED_SLOT), UNNUMBERED_FLOWS);
        for port in 0..200 {
            let (slot, new) = table.slot_of_flow(key(TCP, port), Time(1000));
            assert_eq!((slot, new), (u32::from(port), Some(u32::from(port))));
            assert_eq!(table.slot_of_flow(key(TCP, port), Time(1001)), (slot, None));
        }
    }

    #[test]
    fn packets_of_connections_beyond_the_limit_are_counted() {
        let mut table = FlowTable::default();
        for port in 0..MAX_NUMBERED + 3 {
            table.slot_of_flow(key(TCP, u16::try_from(port).unwrap()), Time(port as u64));
        }
        assert_eq!(table.unnumbered(), 3);
        table.slot_of_flow(key(17, 53), Time(9000));
        assert_eq!(table.unnumbered(), 3, "DNS queries never get numbers");
    }

    #[test]
    fn a_long_udp_flow_gets_a_number() {
        let mut table = FlowTable::default();
        let count: Vec<_> = (0..MIN_PACKETS + 5).map(|t| table.slot_of_flow(key(17, 443), Time(u64::from(t)))).collect();
        let is_enough = MIN_PACKETS as usize - 1;
        assert!(count[..is_enough].iter().all(|&s| s == (SHARED_SLOT, None)));
        assert_eq!(count[is_enough], (0, Some(0)));
        assert!(count[is_enough + 1..].iter().all(|&s| s == (0, None)));
    }

    #[test]
    fn an_idle_flow_loses_its_slot_but_keeps_its_number() {
        let mut table = FlowTable::default();
        let most = u16::try_from(SHARED_SLOT).unwrap();
        for port in 0..most {
            table.slot_of_flow(key(TCP, port), Time(u64::from(port)));
        }
        let late = key(TCP, most);
        assert_eq!(table.slot_of_flow(late, Time(1000)), (SHARED_SLOT, Some(SHARED_SLOT)), "numbered, but no slot is free");
        table.slot_of_flow(key(TCP, 0), Time(2000));
        let after = Time(1) + IDLE_TIME;
        assert_eq!(table.slot_of_flow(late, after), (1, None), "the slot of the flow that was idle longest");
        assert_eq!(table.number(1), SHARED_SLOT);
        let (slot, new) = table.slot_of_flow(key(TCP, 1), Time(2) + IDLE_TIME);
        assert_eq!((slot, new), (2, None), "a flow that comes back keeps its number");
        assert_eq!(table.number(2), 1);
        assert_eq!(table.spans()[1], Span { first: Time(1), last: Time(2) + IDLE_TIME }, "and its span begins at its first packet");
        assert_eq!(table.spans()[SHARED_SLOT as usize], Span { first: Time(1000), last: after });
        assert_eq!(table.spans()[2], Span { first: Time(2), last: Time(2) });
    }

    proptest! {
        /// For any packets: bounded, one slot per flow, one flow per slot, and no flow has two numbers.
        #[test]
        fn the_table_is_bounded_and_consistent(packets in prop::collection::vec((0_u16..9000, any::<bool>(), 0_u64..100_000_000), 1..3000)) {
            let mut table = FlowTable::default();
            let mut now = Time::ZERO;
            let mut numbered = BTreeMap::new();
            for (port, tcp, gap) in packets {
                now = now + Nanos(gap);
                let key = key(if tcp { TCP } else { 17 }, port);
                let (slot, new) = table.slot_of_flow(key, now);
                prop_assert!(slot <= SHARED_SLOT);
                if let Some(number) = new {
                    prop_assert!(number < UNNUMBERED_FLOWS);
                    prop_assert!(numbered.insert(key, number).is_none());
                }
                if slot != SHARED_SLOT {
                    prop_assert_eq!(Some(&table.number(slot)), numbered.get(&key));
                }
                prop_assert!(table.owners.len() < MAX_SLOTS && table.slots.len() == table.owners.len());
                prop_assert!(table.numbers.len() <= MAX_NUMBERED && table.spans.len() == table.numbers.len() && table.candidates.len() <= MAX_CANDIDATES);
            }
        }
    }
}
