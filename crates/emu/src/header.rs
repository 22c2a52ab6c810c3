//! Fields of IP headers, and the flow that they identify.

use bentpipe_profile::{Direction, keyed_u64};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// IP protocol number.
pub const TCP: u8 = 6;

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
pub(crate) const FRAGMENT_HEADER: u8 = 44;
const V6_OFFSET: u16 = 0xfff8;

fn ipv4(bytes: &[u8]) -> Option<Ipv4Addr> {
    <[u8; 4]>::try_from(bytes).ok().map(Into::into)
}

fn ipv6(bytes: &[u8]) -> Option<Ipv6Addr> {
    <[u8; 16]>::try_from(bytes).ok().map(Into::into)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An IPv4 packet of a UDP datagram without payload.
    pub(crate) fn udp4(from: u16, to: u16) -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        packet.extend(from.to_be_bytes());
        packet.extend(to.to_be_bytes());
        packet.extend([0, 8, 0, 0]);
        packet
    }

    fn key(protocol: u8, port: u16) -> FlowKey {
        FlowKey { client: ([10, 0, 0, 1], port).into(), server: ([10, 0, 0, 2], 53).into(), protocol }
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
    fn link_local_multicast_is_recognised() {
        let mut packet = udp4(5353, 5353);
        packet[16..20].copy_from_slice(&[224, 0, 0, 251]);
        assert!(Header::read(&packet).unwrap().is_link_local_multicast());
        packet[16..20].copy_from_slice(&[239, 0, 0, 251]);
        assert!(!Header::read(&packet).unwrap().is_link_local_multicast());
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_parse_or_are_rejected(packet in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Some(header) = Header::read(&packet) {
                prop_assert!(packet.len() >= 20);
                prop_assert!(matches!(packet[0] >> 4, 4 | 6), "{header:?}");
            }
        }
    }
}
