//! Packets that the emulator builds: datagrams, fragments, echo replies, TCP resets and ICMP errors.

use crate::address::Addresses;
use crate::header::Header;
use etherparse::{
    IcmpEchoHeader, Icmpv4Type, Icmpv6Type, IpFragOffset, IpHeaders, IpNumber, Ipv4Extensions, Ipv4Header, Ipv6Extensions,
    Ipv6FragmentHeader, Ipv6Header, PacketBuilder, PacketBuilderStep, SlicedPacket, TransportSlice, icmpv4, icmpv6,
};
use std::net::{IpAddr, SocketAddr};

/// `DF` in the byte of IPv4's flags (RFC 791 §3.1).
const DONT_FRAGMENT: u8 = 0x40;

/// RFC 1700, "IP time to live parameter".
const TTL: u8 = 64;

/// Bytes of the original packet in an ICMP error: headers and at least 8 bytes more (RFC 792). Here a whole SYN fits, with the longest TCP options.
pub const QUOTE_BYTES: usize = 128;

/// Why a destination is unreachable, by ICMP's codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreachable {
    /// No route.
    Network,
    /// The host does not answer.
    Host,
    /// The port is closed.
    Port,
    /// Administratively prohibited.
    Prohibited,
}

/// Fields of an echo request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Echo {
    /// Identifier.
    pub id: u16,
    /// Sequence number.
    pub sequence: u16,
}

fn ip(source: IpAddr, destination: IpAddr, identification: u16) -> Option<PacketBuilderStep<IpHeaders>> {
    let headers = match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let (source, destination) = (source.octets(), destination.octets());
            let header = Ipv4Header { identification, time_to_live: TTL, source, destination, ..Default::default() };
            IpHeaders::Ipv4(header, Ipv4Extensions::default())
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let (source, destination) = (source.octets(), destination.octets());
            let header = Ipv6Header { hop_limit: TTL, source, destination, ..Default::default() };
            IpHeaders::Ipv6(header, Ipv6Extensions::default())
        }
        _ => return None,
    };
    Some(PacketBuilder::ip(headers))
}

/// Builds a UDP datagram as one IP packet of any size. `None`: the IP versions differ, or it exceeds IP's length field.
#[must_use]
pub fn datagram(source: SocketAddr, destination: SocketAddr, identification: u16, payload: &[u8]) -> Option<Vec<u8>> {
    let mut packet = Vec::with_capacity(payload.len() + 48);
    ip(source.ip(), destination.ip(), identification)?.udp(source.port(), destination.port()).write(&mut packet, payload).ok()?;
    Some(packet)
}

/// Builds an echo reply.
#[must_use]
pub fn echo_reply(source: IpAddr, destination: IpAddr, identification: u16, echo: Echo, data: &[u8]) -> Option<Vec<u8>> {
    let mut packet = Vec::with_capacity(data.len() + 48);
    let step = ip(source, destination, identification)?;
    let header = IcmpEchoHeader { id: echo.id, seq: echo.sequence };
    match source {
        IpAddr::V4(_) => step.icmpv4(Icmpv4Type::EchoReply(header)).write(&mut packet, data).ok()?,
        IpAddr::V6(_) => step.icmpv6(Icmpv6Type::EchoReply(header)).write(&mut packet, data).ok()?,
    }
    Some(packet)
}

/// Builds the ICMP "destination unreachable" message of `router` to `sender`; `quote` is the start of the sender's packet.
#[must_use]
pub fn unreachable(router: IpAddr, sender: IpAddr, cause: Unreachable, quote: &[u8]) -> Option<Vec<u8>> {
    let mut packet = Vec::with_capacity(QUOTE_BYTES + 48);
    let step = ip(router, sender, 0)?;
    let quote = &quote[..quote.len().min(QUOTE_BYTES)];
    match router {
        IpAddr::V4(_) => {
            use icmpv4::DestUnreachableHeader as Code;
            let code = match cause {
                Unreachable::Network => Code::Network,
                Unreachable::Host => Code::Host,
                Unreachable::Port => Code::Port,
                Unreachable::Prohibited => Code::FilterProhibited,
            };
            step.icmpv4(Icmpv4Type::DestinationUnreachable(code)).write(&mut packet, quote).ok()?;
        }
        IpAddr::V6(_) => {
            use icmpv6::DestUnreachableCode as Code;
            let code = match cause {
                Unreachable::Network => Code::NoRoute,
                Unreachable::Host => Code::Address,
                Unreachable::Port => Code::Port,
                Unreachable::Prohibited => Code::Prohibited,
            };
            step.icmpv6(Icmpv6Type::DestinationUnreachable(code)).write(&mut packet, quote).ok()?;
        }
    }
    Some(packet)
}

/// Builds the ICMP "packet too big" message of `routers` for a packet larger than `mtu` bytes (RFC 1191, RFC 8201). `None`: no message is sent for a
/// packet that a router would fragment (IPv4 without DF), an ICMP error, a later fragment, or multicast (RFC 1122 §3.2.2).
#[must_use]
pub fn too_big(routers: Addresses, mtu: u16, packet: &[u8]) -> Option<Vec<u8>> {
    let header = Header::read(packet)?;
    let is_later = header.fragment.is_some_and(|(_, first)| !first);
    if is_later || header.destination.ip().is_multicast() {
        return None;
    }
    let mut answer = Vec::with_capacity(QUOTE_BYTES + 48);
    let quote = &packet[..packet.len().min(QUOTE_BYTES)];
    match header.source.ip() {
        sender @ IpAddr::V4(_) => {
            let transport = usize::from(packet[0] & 15) * 4;
            let may_be_fragmented = packet[6] & DONT_FRAGMENT == 0;
            if may_be_fragmented || header.protocol == IpNumber::ICMP.0 && !matches!(packet.get(transport), Some(0 | 8)) {
                return None;
            }
            let kind = Icmpv4Type::DestinationUnreachable(icmpv4::DestUnreachableHeader::FragmentationNeeded { next_hop_mtu: mtu });
            ip(routers.v4.into(), sender, 0)?.icmpv4(kind).write(&mut answer, quote).ok()?;
        }
        sender @ IpAddr::V6(_) => {
            // Types below 128 are errors (RFC 4443 §2.1).
            if header.protocol == IpNumber::IPV6_ICMP.0 && packet.get(40).is_none_or(|&kind| kind < 128) {
                return None;
            }
            let kind = Icmpv6Type::PacketTooBig { mtu: mtu.into() };
            ip(routers.v6.into(), sender, 0)?.icmpv6(kind).write(&mut answer, quote).ok()?;
        }
    }
    Some(answer)
}

/// Builds the reset for a TCP segment without a connection (RFC 9293 §3.10.7.1); `None` for a reset.
#[must_use]
pub fn reset(segment: &[u8]) -> Option<Vec<u8>> {
    let sliced = SlicedPacket::from_ip(segment).ok()?;
    let addresses = sliced.net?;
    let (source, destination): (IpAddr, IpAddr) = match &addresses {
        etherparse::NetSlice::Ipv4(ip) => (ip.header().source().into(), ip.header().destination().into()),
        etherparse::NetSlice::Ipv6(ip) => (ip.header().source().into(), ip.header().destination().into()),
        etherparse::NetSlice::Arp(_) => return None,
    };
    let Some(TransportSlice::Tcp(tcp)) = sliced.transport else { return None };
    if tcp.rst() {
        return None;
    }
    let step = ip(destination, source, 0)?;
    let step = if tcp.ack() {
        step.tcp(tcp.destination_port(), tcp.source_port(), tcp.acknowledgment_number(), 0).rst()
    } else {
        let length = u32::try_from(tcp.payload().len()).ok()? + u32::from(tcp.syn()) + u32::from(tcp.fin());
        let next = tcp.sequence_number().wrapping_add(length);
        step.tcp(tcp.destination_port(), tcp.source_port(), 0, 0).rst().ack(next)
    };
    let mut packet = Vec::with_capacity(60);
    step.write(&mut packet, &[]).ok()?;
    Some(packet)
}

/// Fragments one of the gateway's packets (no IPv4 options, no IPv6 extension headers) to at most `mtu` bytes. Empty if that is impossible.
#[must_use]
pub fn fragments(packet: Vec<u8>, mtu: usize, identification: u32) -> Vec<Vec<u8>> {
    if packet.len() <= mtu {
        return vec![packet];
    }
    fragment(&packet, mtu, identification).unwrap_or_default()
}

fn fragment(packet: &[u8], mtu: usize, identification: u32) -> Option<Vec<Vec<u8>>> {
    let (headers, payload) = IpHeaders::from_slice(packet).ok()?;
    let payload = payload.payload;
    let room = (mtu - if headers.ipv4().is_some() { 20 } else { 48 }) / 8 * 8;
    let count = payload.len().div_ceil(room);
    let parts = payload.chunks(room).enumerate().map(|(index, part)| {
        let offset = IpFragOffset::try_new(u16::try_from(index * room / 8).ok()?).ok()?;
        let more = index + 1 < count;
        let mut headers = headers.clone();
        match &mut headers {
            IpHeaders::Ipv4(header, _) => (header.more_fragments, header.fragment_offset) = (more, offset),
            IpHeaders::Ipv6(header, extensions) => {
                extensions.fragment = Some(Ipv6FragmentHeader::new(header.next_header, offset, more, identification));
                header.next_header = IpNumber::IPV6_FRAGMENTATION_HEADER;
            }
        }
        headers.set_payload_len(part.len()).ok()?;
        let mut bytes = Vec::with_capacity(mtu);
        headers.write(&mut bytes).ok()?;
        bytes.extend(part);
        Some(bytes)
    });
    parts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pair(v6: bool) -> [SocketAddr; 2] {
        let ends = if v6 { ["[2001:db8::1]:53", "[fd00::2]:4000"] } else { ["192.0.2.1:53", "100.64.0.2:4000"] };
        ends.map(|end| end.parse().unwrap())
    }

    proptest! {
        #[test]
        fn arbitrary_segments_do_not_panic_reset(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = reset(&bytes);
        }
    }

    #[test]
    fn a_reset_acknowledges_the_syn() {
        for v6 in [false, true] {
            let [client, server] = pair(v6);
            let mut syn = Vec::new();
            ip(client.ip(), server.ip(), 0).unwrap().tcp(client.port(), server.port(), u32::MAX, 1000).syn().write(&mut syn, &[]).unwrap();
            let answer = reset(&syn).unwrap();
            let sliced = SlicedPacket::from_ip(&answer).unwrap();
            let Some(TransportSlice::Tcp(tcp)) = sliced.transport else { panic!("TCP") };
            assert!(tcp.rst() && tcp.ack());
            assert_eq!((tcp.sequence_number(), tcp.acknowledgment_number()), (0, 0));
            assert_eq!((tcp.source_port(), tcp.destination_port()), (server.port(), client.port()));
            assert_eq!(reset(&answer), None);
        }
    }

    #[test]
    fn packet_too_big_carries_the_mtu() {
        let routers = crate::address::router(0);
        for v6 in [false, true] {
            let [_, client] = pair(v6);
            let to = if v6 { "[2001:db8::1]:53" } else { "192.0.2.1:53" }.parse().unwrap();
            let mut packet = datagram(client, to, 1, &[7; 4000]).unwrap();
            if !v6 {
                packet[6] = 0; // a router would fragment it
                assert_eq!(too_big(routers, 1500, &packet), None);
                packet[6] = DONT_FRAGMENT;
            }
            let answer = too_big(routers, 1400, &packet).unwrap();
            let sliced = SlicedPacket::from_ip(&answer).unwrap();
            let mtu = match &sliced.transport {
                Some(TransportSlice::Icmpv4(icmp)) => match icmp.icmp_type() {
                    Icmpv4Type::DestinationUnreachable(icmpv4::DestUnreachableHeader::FragmentationNeeded { next_hop_mtu }) => {
                        next_hop_mtu.into()
                    }
                    other => panic!("{other:?}"),
                },
                Some(TransportSlice::Icmpv6(icmp)) => match icmp.icmp_type() {
                    Icmpv6Type::PacketTooBig { mtu } => mtu,
                    other => panic!("{other:?}"),
                },
                _ => panic!("ICMP"),
            };
            assert_eq!(mtu, 1400);
            assert_eq!(too_big(routers, 100, &answer), None, "an error about an error");
            assert!(too_big(routers, 100, &echo_reply(client.ip(), to.ip(), 1, Echo { id: 1, sequence: 1 }, &[0; 200]).unwrap()).is_some());
        }
    }

    proptest! {
        #[test]
        fn arbitrary_packets_do_not_panic_too_big(first in prop::sample::select(vec![0x45_u8, 0x4f, 0x60, 0]), rest in prop::collection::vec(any::<u8>(), 0..100)) {
            let packet: Vec<u8> = std::iter::once(first).chain(rest).collect();
            let _ = too_big(crate::address::router(0), 576, &packet);
        }
    }

    #[test]
    fn unreachable_quotes_the_packet() {
        for v6 in [false, true] {
            let [from, to] = pair(v6);
            let packet = datagram(from, to, 0, &[7; 1000]).unwrap();
            for cause in [Unreachable::Network, Unreachable::Host, Unreachable::Port, Unreachable::Prohibited] {
                let error = unreachable(to.ip(), from.ip(), cause, &packet).unwrap();
                let sliced = SlicedPacket::from_ip(&error).unwrap();
                let quote = match &sliced.transport {
                    Some(TransportSlice::Icmpv4(icmp)) => icmp.payload(),
                    Some(TransportSlice::Icmpv6(icmp)) => icmp.payload(),
                    _ => panic!("ICMP"),
                };
                assert_eq!(quote, &packet[..QUOTE_BYTES]);
            }
        }
    }
}
