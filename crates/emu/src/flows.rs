//! Which flow a packet belongs to: its addresses, protocol and ports.

use bentpipe_profile::Direction;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Flows that have rows of their own in the `links` table; later ones share the last. A delay histogram costs 10 kB a hop and direction.
pub const MOST_FLOWS: usize = 256;

/// The ends and protocol of a flow, client first whichever way a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FlowKey {
    /// In the client's namespace. Port 0 where the protocol has none.
    pub client: SocketAddr,
    /// On the other side of the path.
    pub server: SocketAddr,
    /// IP protocol number.
    pub protocol: u8,
}

/// What an IP packet's header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Sender.
    pub source: SocketAddr,
    /// Receiver.
    pub destination: SocketAddr,
    /// IP protocol number; of IPv6, the first header's.
    pub protocol: u8,
}

impl Header {
    /// From the first bytes of a packet; `None`: not IP, or cut short.
    #[must_use]
    pub fn read(packet: &[u8]) -> Option<Self> {
        let (source, destination, protocol, transport, first_fragment): (IpAddr, IpAddr, u8, usize, bool) = match packet.first()? >> 4 {
            4 => {
                let header = packet.get(..20)?;
                let length = usize::from(header[0] & 15) * 4;
                let offset = u16::from_be_bytes([header[6] & 0x1f, header[7]]);
                (ipv4(&header[12..16])?.into(), ipv4(&header[16..20])?.into(), header[9], length, offset == 0)
            }
            6 => {
                let header = packet.get(..40)?;
                (ipv6(&header[8..24])?.into(), ipv6(&header[24..40])?.into(), header[6], 40, true)
            }
            _ => return None,
        };
        let ports = packet.get(transport..transport + 4).filter(|_| matches!(protocol, 6 | 17) && first_fragment);
        let [from, to] = ports.map_or([0, 0], |p| [u16::from_be_bytes([p[0], p[1]]), u16::from_be_bytes([p[2], p[3]])]);
        Some(Self { source: (source, from).into(), destination: (destination, to).into(), protocol })
    }

    /// Whether it stays on the link (RFC 5771 §4, RFC 4291 §2.7): no router forwards it, so neither does the path.
    #[must_use]
    pub fn is_link_local_multicast(&self) -> bool {
        match self.destination.ip() {
            IpAddr::V4(address) => address.octets()[..3] == [224, 0, 0],
            IpAddr::V6(address) => address.segments()[0] & 0xff0f == 0xff02,
        }
    }

    /// Its flow, if it goes `direction`.
    #[must_use]
    pub const fn key(&self, direction: Direction) -> FlowKey {
        let (client, server) = match direction {
            Direction::Up => (self.source, self.destination),
            Direction::Down => (self.destination, self.source),
        };
        FlowKey { client, server, protocol: self.protocol }
    }
}

fn ipv4(bytes: &[u8]) -> Option<Ipv4Addr> {
    <[u8; 4]>::try_from(bytes).ok().map(Into::into)
}

fn ipv6(bytes: &[u8]) -> Option<Ipv6Addr> {
    <[u8; 16]>::try_from(bytes).ok().map(Into::into)
}

/// Flows in the order in which they were first seen.
#[derive(Debug, Default)]
pub struct FlowTable {
    numbers: BTreeMap<FlowKey, u32>,
    last: Option<(FlowKey, u32)>,
}

impl FlowTable {
    /// Its number, and whether it is new.
    #[allow(clippy::cast_possible_truncation)] // at most MOST_FLOWS
    pub fn number(&mut self, key: FlowKey) -> (u32, bool) {
        if let Some((last, number)) = self.last
            && last == key
        {
            return (number, false);
        }
        let next = self.numbers.len().min(MOST_FLOWS - 1) as u32;
        let mut new = false;
        let number = *self.numbers.entry(key).or_insert_with(|| {
            new = true;
            next
        });
        self.last = Some((key, number));
        (number, new)
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
    fn both_directions_are_one_flow() {
        let up = Header::read(&udp4(1000, 53)).unwrap();
        let mut reply = udp4(53, 1000);
        reply[12..20].copy_from_slice(&[10, 0, 0, 2, 10, 0, 0, 1]);
        let down = Header::read(&reply).unwrap();
        assert_eq!(up.key(Direction::Up), down.key(Direction::Down));
        assert_eq!(up.key(Direction::Up).server, "10.0.0.2:53".parse().unwrap());
    }

    #[test]
    fn later_fragments_have_no_ports() {
        let mut packet = udp4(1000, 53);
        packet[7] = 1;
        assert_eq!(Header::read(&packet).unwrap().destination.port(), 0);
    }

    #[test]
    fn what_routers_do_not_forward() {
        let mut packet = udp4(5353, 5353);
        packet[16..20].copy_from_slice(&[224, 0, 0, 251]);
        assert!(Header::read(&packet).unwrap().is_link_local_multicast());
        packet[16..20].copy_from_slice(&[239, 0, 0, 251]);
        assert!(!Header::read(&packet).unwrap().is_link_local_multicast());
    }

    #[test]
    fn the_flows_after_the_last_share_its_number() {
        let mut table = FlowTable::default();
        for port in 0..1000_u16 {
            let (number, new) = table.number(Header::read(&udp4(port, 53)).unwrap().key(Direction::Up));
            assert!(new);
            assert_eq!(number as usize, usize::from(port).min(MOST_FLOWS - 1));
        }
        assert_eq!(table.number(Header::read(&udp4(7, 53)).unwrap().key(Direction::Up)), (7, false));
    }

    proptest! {
        #[test]
        fn no_packet_is_too_strange(packet in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Some(header) = Header::read(&packet) {
                prop_assert!(packet.len() >= 20);
                prop_assert!(matches!(packet[0] >> 4, 4 | 6), "{header:?}");
            }
        }
    }
}
