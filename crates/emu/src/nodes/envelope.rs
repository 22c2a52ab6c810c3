//! The encapsulation of packets between nodes.
//!
//! ```text
//!   IPv6 (40) │ Hop-by-Hop Options with 0x3E (16) │ host's packet, or nothing            between terminal, satellite and ground station
//!   IPv6 (40) │ Hop-by-Hop Options with 0x3E (16) │ Destination Options with 0x1E (16) │ host's packet, or nothing       between satellites
//! ```
//! The outer source and destination are the two nodes of the hop, so no header is inserted en route (RFC 8200 §4). The outer traffic class copies the inner
//! one and carries the hops' marks (RFC 6040); the flow label is a hash of the inner flow (RFC 6438), which intermediate nodes use as its number. Option 0x1E is
//! experimental like 0x3E (RFC 4727): kind, two octets of zeros to align, and two numbers of 32 bits.

use super::plan::Role;
use crate::ecn;
use bentpipe_link::Ecn;
use bentpipe_recovery::satguard::handover::Message;
use bentpipe_recovery::wire::{self, Fields, HEADER_BYTES, WireError};
use std::net::Ipv6Addr;

/// Bytes of the outer IPv6 header.
pub const OUTER_BYTES: usize = 40;
/// Bytes in front of a host's packet between satellites, the most there are.
pub const LARGEST_HEADERS: usize = OUTER_BYTES + 2 * HEADER_BYTES as usize;
/// Largest packet on a hop [bytes]: room for a host's packet of 1500 with all headers.
pub const HOP_MTU: u16 = 1600;
/// Largest packet of a host [bytes].
#[allow(clippy::cast_possible_truncation)] // 1528
pub const LARGEST_INNER: u16 = HOP_MTU - LARGEST_HEADERS as u16;
/// Bits of a flow label.
pub const LABEL: u32 = 0xf_ffff;

const TUNNEL_OPTION: u8 = 0x1e;
const TUNNEL_DATA: u8 = 12;
const HOP_BY_HOP: u8 = 0;
const DESTINATION_OPTIONS: u8 = 60;
const IPV4: u8 = 4;
const IPV6: u8 = 41;
const NOTHING: u8 = 59;
const HOP_LIMIT: u8 = 64;

/// A message between satellites; a copy or a forwarded packet is the content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tunnelled {
    /// A packet of the queue, or one that came too late for its satellite.
    Forward,
    /// See [`Message`].
    Migration(Message<()>),
}

/// A packet between nodes, as parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope<'a> {
    /// Label of the flow.
    pub label: u32,
    /// Codepoint of the outer header.
    pub ecn: Ecn,
    /// Fields of our option.
    pub fields: Fields,
    /// Message between satellites; `None`: it is none.
    pub tunnelled: Option<Tunnelled>,
    /// The host's packet; `None`: a control packet.
    pub inner: Option<&'a [u8]>,
}

/// Why a packet between nodes cannot be parsed. A node counts and drops it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EnvelopeError {
    /// Another protocol, or another node's.
    #[error("not an encapsulated packet for this node")]
    Foreign,
    /// It ends before its headers or its content do.
    #[error("{length} bytes; expected at least {needed}")]
    Truncated {
        /// Its length.
        length: usize,
        /// The least length.
        needed: usize,
    },
    /// The Hop-by-Hop Options header.
    #[error(transparent)]
    Options(#[from] WireError),
    /// A Hop-by-Hop Options header without our option.
    #[error("hop-by-hop header without option 0x3E")]
    NoOption,
    /// The header of a message between satellites.
    #[error("destination options: expected one option 0x1E of length 12 with a known kind")]
    Tunnel,
    /// The content is not one whole IP packet.
    #[error("the content is not one whole IP packet")]
    Content,
}

/// Return the address of a node.
#[must_use]
#[allow(clippy::cast_possible_truncation)] // few hops
pub const fn address(role: Role) -> Ipv6Addr {
    let host = match role {
        Role::Terminal => 1,
        Role::Ground => 2,
        Role::Satellite(hop) => 0x100 + hop as u16,
    };
    Ipv6Addr::new(0xfd62, 0x656e, 0x7470, 0xff00, 0, 0, 0, host)
}

/// The headers in front of a host's packet.
#[derive(Clone, Copy, Debug)]
pub struct Headers {
    bytes: [u8; LARGEST_HEADERS],
    length: usize,
}

impl Headers {
    /// Return the octets.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// Return the headers of a packet from one node to another. `envelope.inner`: the host's packet that follows.
#[must_use]
#[allow(clippy::cast_possible_truncation)] // a hop's packet has at most HOP_MTU bytes; numbers are used modulo 2^32
pub fn encode(from: Role, to: Role, envelope: &Envelope<'_>) -> Headers {
    let inner = envelope.inner.unwrap_or_default();
    let (class, content) = match inner {
        [first, class, ..] if first >> 4 == 4 => (*class, IPV4),
        [first, second, ..] => (first << 4 | second >> 4, IPV6),
        _ => (0, NOTHING),
    };
    let class = class & !3 | codepoint(envelope.ecn, class);
    let length = LARGEST_HEADERS - if envelope.tunnelled.is_none() { usize::from(HEADER_BYTES) } else { 0 };
    let mut bytes = [0; LARGEST_HEADERS];
    bytes[..4].copy_from_slice(&(6 << 28 | u32::from(class) << 20 | envelope.label & LABEL).to_be_bytes());
    bytes[4..6].copy_from_slice(&((length - OUTER_BYTES + inner.len()) as u16).to_be_bytes());
    (bytes[6], bytes[7]) = (HOP_BY_HOP, HOP_LIMIT);
    bytes[8..24].copy_from_slice(&address(from).octets());
    bytes[24..40].copy_from_slice(&address(to).octets());
    let next = if envelope.tunnelled.is_some() { DESTINATION_OPTIONS } else { content };
    bytes[40..56].copy_from_slice(&wire::encode(&envelope.fields, next));
    if let Some(tunnelled) = envelope.tunnelled {
        let (kind, first, last) = match tunnelled {
            Tunnelled::Forward => (0, 0, 0),
            Tunnelled::Migration(Message::Copy(number, ())) => (1, number, 0),
            Tunnelled::Migration(Message::Acknowledged(first, last)) => (2, first, last),
            Tunnelled::Migration(Message::Withdrawn(number)) => (3, number, 0),
        };
        let [first, last] = [first, last].map(|number| (number as u32).to_be_bytes());
        bytes[56..64].copy_from_slice(&[content, 1, TUNNEL_OPTION, TUNNEL_DATA, kind, 0, 0, 0]);
        bytes[64..68].copy_from_slice(&first);
        bytes[68..72].copy_from_slice(&last);
    }
    Headers { bytes, length }
}

/// Return the ECN bits: the hop's mark, or the sender's own bits.
const fn codepoint(ecn: Ecn, class: u8) -> u8 {
    match ecn {
        Ecn::Ce => 3,
        Ecn::Ect if matches!(class & 3, 0 | 3) => 2,
        Ecn::Ect => class & 3,
        Ecn::NotEct => 0,
    }
}

/// Parse a packet from the node `from` to the node `to`, which may be followed by padding of its link.
///
/// # Errors
/// [`EnvelopeError`].
pub fn decode(from: Role, to: Role, packet: &[u8]) -> Result<Envelope<'_>, EnvelopeError> {
    let truncated = |needed| EnvelopeError::Truncated { length: packet.len(), needed };
    let outer = packet.first_chunk::<OUTER_BYTES>().ok_or(truncated(OUTER_BYTES))?;
    let first = u32::from_be_bytes([outer[0], outer[1], outer[2], outer[3]]);
    let is_ours = outer[6] == HOP_BY_HOP && outer[8..24] == address(from).octets() && outer[24..40] == address(to).octets();
    if first >> 28 != 6 || !is_ours {
        return Err(EnvelopeError::Foreign);
    }
    let end = OUTER_BYTES + usize::from(u16::from_be_bytes([outer[4], outer[5]]));
    let rest = packet.get(OUTER_BYTES..end).ok_or(truncated(end))?;
    let header = wire::decode(rest)?;
    let fields = header.fields.ok_or(EnvelopeError::NoOption)?;
    let (mut next, mut content, mut tunnelled) = (header.next_header, &rest[header.length..], None);
    if next == DESTINATION_OPTIONS {
        let (options, inner) = content.split_first_chunk::<16>().ok_or(EnvelopeError::Tunnel)?;
        let number = |at: usize| u64::from(u32::from_be_bytes([options[at], options[at + 1], options[at + 2], options[at + 3]]));
        let kind = match options[4] {
            0 => Tunnelled::Forward,
            1 => Tunnelled::Migration(Message::Copy(number(8), ())),
            2 => Tunnelled::Migration(Message::Acknowledged(number(8), number(12))),
            3 => Tunnelled::Migration(Message::Withdrawn(number(8))),
            _ => return Err(EnvelopeError::Tunnel),
        };
        if options[1..4] != [1, TUNNEL_OPTION, TUNNEL_DATA] {
            return Err(EnvelopeError::Tunnel);
        }
        (next, content, tunnelled) = (options[0], inner, Some(kind));
    }
    let inner = match next {
        NOTHING => None,
        IPV4 | IPV6 if total_length(content) == Some(content.len()) && (content[0] >> 4 == 4) == (next == IPV4) => Some(content),
        _ => return Err(EnvelopeError::Content),
    };
    Ok(Envelope { label: first & LABEL, ecn: ecn::codepoint(&packet[..2]), fields, tunnelled, inner })
}

/// Return the length of an IP packet by its own header.
#[must_use]
pub fn total_length(packet: &[u8]) -> Option<usize> {
    let number = |at: usize| Some(usize::from(u16::from_be_bytes(*packet.get(at..)?.first_chunk()?)));
    match packet.first()? >> 4 {
        4 => number(2).filter(|&length| length >= 20),
        6 => number(4).map(|length| OUTER_BYTES + length),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn inner() -> impl Strategy<Value = Vec<u8>> {
        (any::<bool>(), prop::collection::vec(any::<u8>(), 40..200)).prop_map(|(is_v6, mut packet)| {
            let length = u16::try_from(packet.len()).unwrap();
            packet[0] = if is_v6 { 0x60 | packet[0] & 15 } else { 0x45 };
            let (at, value) = if is_v6 { (4, length - 40) } else { (2, length) };
            packet[at..at + 2].copy_from_slice(&value.to_be_bytes());
            packet
        })
    }

    fn tunnelled() -> impl Strategy<Value = Option<Tunnelled>> {
        let number = 0_u64..1 << 32;
        prop_oneof![
            Just(None),
            Just(Some(Tunnelled::Forward)),
            number.clone().prop_map(|n| Some(Tunnelled::Migration(Message::Copy(n, ())))),
            (number.clone(), number.clone()).prop_map(|(a, b)| Some(Tunnelled::Migration(Message::Acknowledged(a, b)))),
            number.prop_map(|n| Some(Tunnelled::Migration(Message::Withdrawn(n)))),
        ]
    }

    const ENDS: (Role, Role) = (Role::Satellite(3), Role::Terminal);

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(
            packet in prop::option::of(inner()), label in 0..=LABEL, tunnelled in tunnelled(), mark in any::<bool>(), numbers in any::<(Option<u16>, Option<(u16, u16)>, Option<u16>, u8)>(),
            padding in 0_usize..20,
        ) {
            let (hseq, hack, fseq, beam) = numbers;
            let own = packet.as_deref().map_or(Ecn::NotEct, ecn::codepoint);
            let ecn = if mark && own == Ecn::Ect { Ecn::Ce } else { own };
            let envelope = Envelope { label, ecn, fields: Fields { hseq, hack, fseq, beam }, tunnelled, inner: packet.as_deref() };
            let headers = encode(ENDS.0, ENDS.1, &envelope);
            let whole = [headers.as_slice(), packet.as_deref().unwrap_or_default()].concat();
            let padded = [&whole[..], &vec![0; padding]].concat();
            prop_assert_eq!(decode(ENDS.0, ENDS.1, &padded), Ok(envelope));
            prop_assert_eq!(decode(ENDS.1, ENDS.0, &padded), Err(EnvelopeError::Foreign));
            for end in 0..whole.len() {
                prop_assert!(decode(ENDS.0, ENDS.1, &whole[..end]).is_err(), "{}", end);
            }
        }

        /// Any change of the octets is parsed or refused, and what is parsed lies within the data.
        #[test]
        fn hostile_packets_are_parsed_or_refused(packet in inner(), tunnelled in tunnelled(), changes in prop::collection::vec((0_usize..120, any::<u8>()), 0..6)) {
            let envelope = Envelope { label: 1, ecn: Ecn::NotEct, fields: Fields::default(), tunnelled, inner: Some(&packet) };
            let mut whole = [encode(ENDS.0, ENDS.1, &envelope).as_slice(), &packet].concat();
            for (at, value) in changes {
                if let Some(octet) = whole.get_mut(at) {
                    *octet = value;
                }
            }
            if let Ok(Envelope { inner: Some(inner), .. }) = decode(ENDS.0, ENDS.1, &whole) {
                prop_assert_eq!(total_length(inner), Some(inner.len()));
            }
        }

        #[test]
        fn any_octets_are_refused(packet in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(decode(ENDS.0, ENDS.1, &packet).is_err());
        }
    }
}
