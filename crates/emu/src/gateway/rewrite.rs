//! Rewrites addresses and ports of a TCP packet and updates its checksums (RFC 1624, equation 3): a wrong checksum stays wrong.

use crate::header::TCP;
use std::net::{IpAddr, SocketAddr};

/// New endpoints of a packet.
#[derive(Clone, Copy, Debug)]
pub struct Ends {
    /// Sender.
    pub source: SocketAddr,
    /// Receiver.
    pub destination: SocketAddr,
}

/// Offsets of the rewritten fields in a TCP packet.
struct Layout {
    /// The IP header's checksum; IPv6 has none.
    header_checksum: Option<usize>,
    /// The source address; the destination's follows it.
    addresses: usize,
    address_bytes: usize,
    transport: usize,
}

/// Offset of the TCP header in the packet. `None`: not TCP, a fragment, truncated, or IPv6 with extension headers (TCP packets have none).
#[must_use]
pub fn tcp_offset(packet: &[u8]) -> Option<usize> {
    layout(packet).map(|l| l.transport)
}

fn layout(packet: &[u8]) -> Option<Layout> {
    let layout = match packet.first()? >> 4 {
        4 => {
            let header = packet.get(..20)?;
            let length = usize::from(header[0] & 15) * 4;
            let fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0; // more to come, or an offset
            let whole = header[9] == TCP && length >= 20 && !fragment;
            Layout { header_checksum: whole.then_some(10), addresses: 12, address_bytes: 4, transport: whole.then_some(length)? }
        }
        6 => {
            let header = packet.get(..40)?;
            (header[6] == TCP).then_some(Layout { header_checksum: None, addresses: 8, address_bytes: 16, transport: 40 })?
        }
        _ => return None,
    };
    (packet.len() >= layout.transport + 20).then_some(layout)
}

/// Puts `ends` into a TCP packet. False, and the packet as it was, where it is no whole TCP packet of the ends' IP version.
pub fn redirect(packet: &mut [u8], ends: Ends) -> bool {
    let Some(layout) = layout(packet) else { return false };
    if [ends.source, ends.destination].iter().any(|end| octets(end.ip()).1 != layout.address_bytes) {
        return false;
    }
    let tcp_checksum = layout.transport + 16;
    for (index, end) in [ends.source, ends.destination].into_iter().enumerate() {
        let (address, length) = octets(end.ip());
        let at = layout.addresses + index * length;
        // Both checksums cover the addresses: TCP's in its pseudo-header.
        put(packet, at, &address[..length], [layout.header_checksum, Some(tcp_checksum)]);
        put(packet, layout.transport + 2 * index, &end.port().to_be_bytes(), [Some(tcp_checksum), None]);
    }
    true
}

fn octets(address: IpAddr) -> ([u8; 16], usize) {
    let mut bytes = [0; 16];
    match address {
        IpAddr::V4(v4) => {
            bytes[..4].copy_from_slice(&v4.octets());
            (bytes, 4)
        }
        IpAddr::V6(v6) => (v6.octets(), 16),
    }
}

/// Replaces bytes at an even offset and updates the checksums at the offsets `checksums`.
fn put(packet: &mut [u8], at: usize, new: &[u8], checksums: [Option<usize>; 2]) {
    let old = &packet[at..at + new.len()];
    if old == new {
        return;
    }
    let word = |pair: &[u8]| u32::from(u16::from_be_bytes([pair[0], pair[1]]));
    let change: u32 = old.chunks_exact(2).zip(new.chunks_exact(2)).map(|(old, new)| (0xffff - word(old)) + word(new)).sum();
    packet[at..at + new.len()].copy_from_slice(new);
    for place in checksums.into_iter().flatten() {
        let sum = change + (0xffff - word(&packet[place..place + 2]));
        packet[place..place + 2].copy_from_slice(&(!fold(sum)).to_be_bytes());
    }
}

#[allow(clippy::cast_possible_truncation)] // folded
fn fold(mut sum: u32) -> u16 {
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::{PacketBuilder, SlicedPacket, TransportSlice};
    use proptest::prelude::*;

    fn tcp(from: SocketAddr, to: SocketAddr, sequence: u32, payload: &[u8]) -> Vec<u8> {
        let builder = match (from.ip(), to.ip()) {
            (IpAddr::V4(a), IpAddr::V4(b)) => PacketBuilder::ipv4(a.octets(), b.octets(), 64),
            (IpAddr::V6(a), IpAddr::V6(b)) => PacketBuilder::ipv6(a.octets(), b.octets(), 64),
            _ => panic!("one family"),
        };
        let mut packet = Vec::new();
        builder.tcp(from.port(), to.port(), sequence, 1000).ack(7).write(&mut packet, payload).unwrap();
        packet
    }

    fn is_valid(packet: &[u8]) -> bool {
        let sliced = SlicedPacket::from_ip(packet).unwrap();
        let Some(TransportSlice::Tcp(tcp)) = sliced.transport else { return false };
        match sliced.net.unwrap() {
            etherparse::NetSlice::Ipv4(ip) => {
                let header = ip.header();
                header.header_checksum() == header.to_header().calc_header_checksum()
                    && tcp.checksum() == tcp.calc_checksum_ipv4(header.source(), header.destination()).unwrap()
            }
            etherparse::NetSlice::Ipv6(ip) => {
                tcp.checksum() == tcp.calc_checksum_ipv6(ip.header().source(), ip.header().destination()).unwrap()
            }
            etherparse::NetSlice::Arp(_) => false,
        }
    }

    fn end(v6: bool) -> impl Strategy<Value = SocketAddr> {
        (any::<[u8; 16]>(), any::<u16>()).prop_map(move |(bytes, port)| {
            let v4: [u8; 4] = bytes[..4].try_into().unwrap();
            SocketAddr::new(if v6 { IpAddr::from(bytes) } else { IpAddr::from(v4) }, port)
        })
    }

    fn ends() -> impl Strategy<Value = [SocketAddr; 4]> {
        any::<bool>().prop_flat_map(|v6| [end(v6), end(v6), end(v6), end(v6)])
    }

    proptest! {
        #[test]
        fn rewriting_back_restores_the_packet(ends in ends(), sequence in any::<u32>(), payload in prop::collection::vec(any::<u8>(), 0..100)) {
            let [from, to, other_from, other_to] = ends;
            let (own, other) = (Ends { source: from, destination: to }, Ends { source: other_from, destination: other_to });
            let original = tcp(from, to, sequence, &payload);
            prop_assert!(is_valid(&original));
            let mut packet = original.clone();
            prop_assert!(redirect(&mut packet, other));
            prop_assert!(is_valid(&packet));
            prop_assert_eq!(&packet, &tcp(other_from, other_to, sequence, &payload));
            prop_assert!(redirect(&mut packet, own));
            prop_assert_eq!(packet, original);
        }

        #[test]
        fn a_wrong_checksum_stays_wrong(ends in ends(), payload in prop::collection::vec(any::<u8>(), 1..100), flip in 1..=255_u8) {
            let [from, to, other_from, other_to] = ends;
            let other = Ends { source: other_from, destination: other_to };
            let mut packet = tcp(from, to, 1, &payload);
            *packet.last_mut().unwrap() ^= flip;
            prop_assert!(!is_valid(&packet));
            prop_assert!(redirect(&mut packet, other));
            prop_assert!(!is_valid(&packet));
        }

        #[test]
        fn arbitrary_packets_do_not_panic(first in prop::sample::select(vec![0x45_u8, 0x4f, 0x40, 0x60, 0x6f, 0]), rest in prop::collection::vec(any::<u8>(), 0..90), protocol in any::<bool>(), ends in ends()) {
            let mut packet = vec![first];
            packet.extend(rest);
            let place = if first >> 4 == 6 { 6 } else { 9 };
            if protocol && let Some(byte) = packet.get_mut(place) {
                *byte = TCP;
            }
            let before = packet.clone();
            if !redirect(&mut packet, Ends { source: ends[0], destination: ends[1] }) {
                prop_assert_eq!(packet, before);
            }
        }
    }

    #[test]
    fn fragments_are_not_rewritten() {
        let ends: [SocketAddr; 2] = ["10.0.0.1:1".parse().unwrap(), "10.0.0.2:2".parse().unwrap()];
        let mut packet = tcp(ends[0], ends[1], 0, &[]);
        packet[6] = 0x20; // more fragments
        assert!(!redirect(&mut packet, Ends { source: ends[1], destination: ends[0] }));
    }
}
