//! Flow classification: by addresses, protocol and ports.

use crate::fragments::{Fragments, PacketId};
use crate::gateway::rewrite::TCP;
use bentpipe_profile::{Direction, Nanos, Time, keyed_u64};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

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

/// Endpoints and protocol of a flow, client first in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FlowKey {
    /// Endpoint in the client's namespace. Port 0 where the protocol has none.
    pub client: SocketAddr,
    /// Endpoint on the other side of the path.
    pub server: SocketAddr,
    /// IP protocol number.
    pub protocol: u8,
}

impl FlowKey {
    /// Hash by which queues separate flows. It does not depend on the flow's slot or number.
    #[must_use]
    #[allow(clippy::cast_possible_truncation)] // words of it
    pub fn hash(&self) -> u32 {
        let address = |ip: IpAddr| match ip {
            IpAddr::V4(ip) => ip.to_ipv6_mapped().to_bits(),
            IpAddr::V6(ip) => ip.to_bits(),
        };
        let ports = u64::from(self.client.port()) << 16 | u64::from(self.server.port());
        let ends = [self.client.ip(), self.server.ip()].map(address);
        let words = ends.into_iter().flat_map(|end| [(end >> 64) as u64, end as u64]);
        words.chain([ports << 8 | u64::from(self.protocol)]).fold(0, keyed_u64) as u32
    }
}

/// Fields of an IP packet's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Sender. Port 0 where the protocol has none, or in a later fragment.
    pub source: SocketAddr,
    /// Receiver.
    pub destination: SocketAddr,
    /// IP protocol number; in IPv6, of the first header, or of the header after the fragment header.
    pub protocol: u8,
    /// Of a fragment: its packet's identification, and whether it is the first.
    pub fragment: Option<(u32, bool)>,
}

impl Header {
    /// Parses the first bytes of a packet; `None`: not IP, or truncated.
    #[must_use]
    pub fn read(packet: &[u8]) -> Option<Self> {
        let (source, destination, protocol, transport, fragment): (IpAddr, IpAddr, u8, usize, _) = match packet.first()? >> 4 {
            4 => {
                let header = packet.get(..20)?;
                let length = usize::from(header[0] & 15) * 4;
                let slot = u16::from_be_bytes([header[6], header[7]]);
                let identification = u16::from_be_bytes([header[4], header[5]]);
                let is_fragment = slot & (V4_MORE | V4_OFFSET) != 0;
                let fragment = is_fragment.then_some((u32::from(identification), slot & V4_OFFSET == 0));
                (ipv4(&header[12..16])?.into(), ipv4(&header[16..20])?.into(), header[9], length, fragment)
            }
            6 => {
                let header = packet.get(..40)?;
                let (source, destination) = (ipv6(&header[8..24])?.into(), ipv6(&header[24..40])?.into());
                match packet.get(40..48).filter(|_| header[6] == FRAGMENT_HEADER) {
                    Some(own) => {
                        let first = u16::from_be_bytes([own[2], own[3]]) & V6_OFFSET == 0;
                        let identification = u32::from_be_bytes([own[4], own[5], own[6], own[7]]);
                        (source, destination, own[0], 48, Some((identification, first)))
                    }
                    None => (source, destination, header[6], 40, None),
                }
            }
            _ => return None,
        };
        let has_ports = matches!(protocol, 6 | 17) && fragment.is_none_or(|(_, first)| first);
        let ports = packet.get(transport..transport + 4).filter(|_| has_ports);
        let [from, to] = ports.map_or([0, 0], |p| [u16::from_be_bytes([p[0], p[1]]), u16::from_be_bytes([p[2], p[3]])]);
        Some(Self { source: (source, from).into(), destination: (destination, to).into(), protocol, fragment })
    }

    /// Whether the destination is link-local multicast (RFC 5771 §4, RFC 4291 §2.7), which no router forwards.
    #[must_use]
    pub fn is_link_local_multicast(&self) -> bool {
        match self.destination.ip() {
            IpAddr::V4(address) => address.octets()[..3] == [224, 0, 0],
            IpAddr::V6(address) => address.segments()[0] & 0xff0f == 0xff02,
        }
    }

    /// The flow of a packet in `direction`.
    #[must_use]
    pub const fn key(&self, direction: Direction) -> FlowKey {
        let (client, server) = match direction {
            Direction::Up => (self.source, self.destination),
            Direction::Down => (self.destination, self.source),
        };
        FlowKey { client, server, protocol: self.protocol }
    }
}

/// `MF` and the offset in the flags of IPv4 (RFC 791 §3.1); the fragment header of IPv6 and its offset (RFC 8200 §4.5).
const V4_MORE: u16 = 0x2000;
const V4_OFFSET: u16 = 0x1fff;
const FRAGMENT_HEADER: u8 = 44;
const V6_OFFSET: u16 = 0xfff8;

fn ipv4(bytes: &[u8]) -> Option<Ipv4Addr> {
    <[u8; 4]>::try_from(bytes).ok().map(Into::into)
}

fn ipv6(bytes: &[u8]) -> Option<Ipv6Addr> {
    <[u8; 16]>::try_from(bytes).ok().map(Into::into)
}

/// Flow numbers, and the assignment of flows to the elements' slots. Its memory is bounded.
///
/// A TCP flow gets a number at its first packet, any other at its [`MIN_PACKETS`]th, since DNS queries are many and short. A flow without a slot gets
/// one when another has been idle for [`IDLE_TIME`]; meanwhile it uses the shared slot.
#[derive(Debug, Default)]
pub struct FlowTable {
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
    /// The flow of a packet in `direction`; of a fragment, its whole packet's flow.
    pub fn key(&mut self, header: &Header, direction: Direction) -> FlowKey {
        let Some((identification, first)) = header.fragment else { return header.key(direction) };
        let Header { mut source, mut destination, protocol, .. } = *header;
        let id = PacketId { source: source.ip(), destination: destination.ip(), protocol, identification };
        let [from, to] = self.fragments.ports(direction, id, first.then_some([source.port(), destination.port()]));
        source.set_port(from);
        destination.set_port(to);
        Header { source, destination, ..*header }.key(direction)
    }

    /// Returns the slot of a flow with a packet at `now`, and the flow's number if it is new.
    #[allow(clippy::cast_possible_truncation)] // at most MOST_FLOWS and MOST_NUMBERED
    pub fn slot(&mut self, key: FlowKey, now: Time) -> (u32, Option<u32>) {
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
    use proptest::prelude::*;

    fn udp4(from: u16, to: u16) -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        packet.extend(from.to_be_bytes());
        packet.extend(to.to_be_bytes());
        packet.extend([0, 8, 0, 0]);
        packet
    }

    #[test]
    fn both_directions_belong_to_one_flow() {
        let up = Header::read(&udp4(1000, 53)).unwrap();
        let mut reply = udp4(53, 1000);
        reply[12..20].copy_from_slice(&[10, 0, 0, 2, 10, 0, 0, 1]);
        let down = Header::read(&reply).unwrap();
        assert_eq!(up.key(Direction::Up), down.key(Direction::Down));
        assert_eq!(up.key(Direction::Up).server, "10.0.0.2:53".parse().unwrap());
    }

    #[test]
    fn the_hash_depends_on_every_field_of_the_key() {
        let base = key(17, 1000);
        let [client, server] = [base.client, base.server];
        let others = [
            key(TCP, 1000),
            key(17, 1001),
            FlowKey { server: (server.ip(), 54).into(), ..base },
            FlowKey { client: server, server: client, ..base },
            FlowKey { client: ("10.0.0.3".parse::<IpAddr>().unwrap(), 1000).into(), ..base },
            FlowKey { client: ("fd00::1".parse::<IpAddr>().unwrap(), 1000).into(), ..base },
            FlowKey { client: ("fd00:0:0:1::1".parse::<IpAddr>().unwrap(), 1000).into(), ..base },
        ];
        let hashes: std::collections::BTreeSet<u32> = others.iter().chain([&base]).map(FlowKey::hash).collect();
        assert_eq!(hashes.len(), others.len() + 1);
    }

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

    #[test]
    fn link_local_multicast_is_recognised() {
        let mut packet = udp4(5353, 5353);
        packet[16..20].copy_from_slice(&[224, 0, 0, 251]);
        assert!(Header::read(&packet).unwrap().is_link_local_multicast());
        packet[16..20].copy_from_slice(&[239, 0, 0, 251]);
        assert!(!Header::read(&packet).unwrap().is_link_local_multicast());
    }

    fn key(protocol: u8, port: u16) -> FlowKey {
        FlowKey { client: ([10, 0, 0, 1], port).into(), server: ([10, 0, 0, 2], 53).into(), protocol }
    }

    #[test]
    fn dns_queries_get_no_numbers() {
        let mut table = FlowTable::default();
        for port in 0..300 {
            for _ in 0..2 {
                assert_eq!(table.slot(key(17, port), Time(u64::from(port))), (SHARED_SLOT, None));
            }
        }
        assert_eq!(table.number(SHARED_SLOT), UNNUMBERED_FLOWS);
        for port in 0..200 {
            let (slot, new) = table.slot(key(TCP, port), Time(1000));
            assert_eq!((slot, new), (u32::from(port), Some(u32::from(port))));
            assert_eq!(table.slot(key(TCP, port), Time(1001)), (slot, None));
        }
    }

    #[test]
    fn packets_of_connections_beyond_the_limit_are_counted() {
        let mut table = FlowTable::default();
        for port in 0..MAX_NUMBERED + 3 {
            table.slot(key(TCP, u16::try_from(port).unwrap()), Time(port as u64));
        }
        assert_eq!(table.unnumbered(), 3);
        table.slot(key(17, 53), Time(9000));
        assert_eq!(table.unnumbered(), 3, "DNS queries never get numbers");
    }

    #[test]
    fn a_long_udp_flow_gets_a_number() {
        let mut table = FlowTable::default();
        let count: Vec<_> = (0..MIN_PACKETS + 5).map(|t| table.slot(key(17, 443), Time(u64::from(t)))).collect();
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
            table.slot(key(TCP, port), Time(u64::from(port)));
        }
        let late = key(TCP, most);
        assert_eq!(table.slot(late, Time(1000)), (SHARED_SLOT, Some(SHARED_SLOT)), "numbered, but no slot is free");
        table.slot(key(TCP, 0), Time(2000));
        let after = Time(1) + IDLE_TIME;
        assert_eq!(table.slot(late, after), (1, None), "the slot of the flow that was idle longest");
        assert_eq!(table.number(1), SHARED_SLOT);
        let (slot, new) = table.slot(key(TCP, 1), Time(2) + IDLE_TIME);
        assert_eq!((slot, new), (2, None), "a flow that comes back keeps its number");
        assert_eq!(table.number(2), 1);
        assert_eq!(table.spans()[1], Span { first: Time(1), last: Time(2) + IDLE_TIME }, "and its span begins at its first packet");
        assert_eq!(table.spans()[SHARED_SLOT as usize], Span { first: Time(1000), last: after });
        assert_eq!(table.spans()[2], Span { first: Time(2), last: Time(2) });
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_parse_or_are_rejected(packet in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Some(header) = Header::read(&packet) {
                prop_assert!(packet.len() >= 20);
                prop_assert!(matches!(packet[0] >> 4, 4 | 6), "{header:?}");
            }
        }

        /// For any packets: bounded, one slot per flow, one flow per slot, and no flow has two numbers.
        #[test]
        fn the_table_is_bounded_and_consistent(packets in prop::collection::vec((0_u16..9000, any::<bool>(), 0_u64..100_000_000), 1..3000)) {
            let mut table = FlowTable::default();
            let mut now = Time::ZERO;
            let mut numbered = BTreeMap::new();
            for (port, tcp, gap) in packets {
                now = now + Nanos(gap);
                let key = key(if tcp { TCP } else { 17 }, port);
                let (slot, new) = table.slot(key, now);
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
