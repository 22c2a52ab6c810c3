//! The wire format: one option of the IPv6 Hop-by-Hop Options header (RFC 8200 §4.3) in a header of 16 octets.
//!
//! ```text
//!    0               1               2               3
//!   +---------------+---------------+---------------+---------------+
//!   | next header   | length = 1    | 0x3E          | 10            |
//!   +---------------+---------------+---------------+---------------+
//!   | HSeq                          | HAck, first                   |
//!   +-------------------------------+-------------------------------+
//!   | HAck, last                    | FSeq                          |
//!   +---------------+---------------+---------------+---------------+
//!   | flags         | beam          | PadN          | 0             |
//!   +---------------+---------------+---------------+---------------+
//! ```
//! 0x3E is experimental (RFC 4727 §4): nodes that do not know it skip it, and it may change en route. `SatGuard` (WWW 2024, §3.6) has three options of 16 bits each,
//! which take 16 octets too; some kernels are about to allow one option only.

/// Length of the header [bytes].
pub const HEADER_BYTES: u16 = 16;
/// Length of a control packet: an IPv6 header and this one [bytes].
pub const CONTROL_BYTES: u16 = 40 + HEADER_BYTES;
/// Type of the option.
pub const OPTION: u8 = 0x3e;

const OPTION_DATA: u8 = 10;
const PAD1: u8 = 0;
const PADN: u8 = 1;
/// Most octets of padding in a row that a receiver accepts (Linux `net/ipv6/exthdrs.c`; RFC 4942 §2.1.9.5).
const MAX_PADDING: usize = 7;

const HAS_HSEQ: u8 = 1;
const HAS_HACK: u8 = 2;
const HAS_FSEQ: u8 = 4;

/// The fields of the option.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    /// Sequence number of the packet on this hop.
    pub hseq: Option<u16>,
    /// First and last of the run of numbers that it acknowledges on the other direction of this hop.
    pub hack: Option<(u16, u16)>,
    /// Sequence number of the packet in its flow.
    pub fseq: Option<u16>,
    /// Beam to which an acknowledgement belongs.
    pub beam: u8,
}

/// A Hop-by-Hop Options header, as parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Protocol number of what follows it.
    pub next_header: u8,
    /// Its length [bytes].
    pub length: usize,
    /// The fields of our option; `None`: the header does not have it.
    pub fields: Option<Fields>,
}

/// Why a Hop-by-Hop Options header cannot be parsed. A node drops such a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// The header or an option ends beyond the end of the data.
    #[error("hop-by-hop header: it ends at octet {end}; expected {needed} octets")]
    Truncated {
        /// Where the data ends.
        end: usize,
        /// How many octets there should be.
        needed: usize,
    },
    /// Our option has another length than 10, or stands there twice.
    #[error("hop-by-hop header: option 0x3E at octet {at} has length {length} or stands there twice; expected one of length 10")]
    Option {
        /// Where it stands.
        at: usize,
        /// Its length.
        length: usize,
    },
    /// More than 7 octets of padding in a row, or padding that is not zero.
    #[error("hop-by-hop header: padding at octet {at} is longer than 7 octets or not zero")]
    Padding {
        /// Where it stands.
        at: usize,
    },
    /// An unknown option whose type says that a node that does not know it drops the packet.
    #[error("hop-by-hop header: option {option:#04x} at octet {at} is unknown and may not be skipped")]
    Unknown {
        /// Its type.
        option: u8,
        /// Where it stands.
        at: usize,
    },
}

/// Return a header that holds the option alone.
#[must_use]
pub fn encode(fields: &Fields, next_header: u8) -> [u8; HEADER_BYTES as usize] {
    let (first, last) = fields.hack.unwrap_or_default();
    let [hseq, first, last, fseq] = [fields.hseq.unwrap_or_default(), first, last, fields.fseq.unwrap_or_default()].map(u16::to_be_bytes);
    let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
    let flags = flag(fields.hseq.is_some(), HAS_HSEQ) | flag(fields.hack.is_some(), HAS_HACK) | flag(fields.fseq.is_some(), HAS_FSEQ);
    [
        next_header,
        1,
        OPTION,
        OPTION_DATA,
        hseq[0],
        hseq[1],
        first[0],
        first[1],
        last[0],
        last[1],
        fseq[0],
        fseq[1],
        flags,
        fields.beam,
        PADN,
        0,
    ]
}

/// Parse the Hop-by-Hop Options header at the start of `data`. Options that nodes may skip are skipped.
///
/// # Errors
/// [`WireError`].
pub fn decode(data: &[u8]) -> Result<Header, WireError> {
    let truncated = |needed| WireError::Truncated { end: data.len(), needed };
    let (&next_header, &length) = (data.first().ok_or(truncated(8))?, data.get(1).ok_or(truncated(8))?);
    let length = 8 * (usize::from(length) + 1);
    let header = data.get(..length).ok_or(truncated(length))?;
    let (mut at, mut padding, mut fields) = (2, 0, None);
    while let Some(&option) = header.get(at) {
        if option == PAD1 {
            (at, padding) = (at + 1, padding + 1);
        } else {
            let body = usize::from(*header.get(at + 1).ok_or(truncated(length + 1))?);
            let end = at + 2 + body;
            let value = header.get(at + 2..end).ok_or(truncated(end))?;
            match option {
                PADN if value.iter().any(|&octet| octet != 0) => return Err(WireError::Padding { at }),
                PADN => padding += 2 + body,
                OPTION => match (parse(value), fields) {
                    (Some(parsed), None) => fields = Some(parsed),
                    _ => return Err(WireError::Option { at, length: body }),
                },
                _ if option >> 6 != 0 => return Err(WireError::Unknown { option, at }),
                _ => {}
            }
            if option != PADN {
                padding = 0;
            }
            at = end;
        }
        if padding > MAX_PADDING {
            return Err(WireError::Padding { at: at - padding });
        }
    }
    Ok(Header { next_header, length, fields })
}

/// Parse the data of our option; `None`: it has another length.
fn parse(value: &[u8]) -> Option<Fields> {
    let value: &[u8; OPTION_DATA as usize] = value.try_into().ok()?;
    let [.., flags, beam] = *value;
    let number = |flag: u8, at: usize| (flags & flag != 0).then(|| u16::from_be_bytes([value[at], value[at + 1]]));
    Some(Fields { hseq: number(HAS_HSEQ, 0), hack: number(HAS_HACK, 2).zip(number(HAS_HACK, 4)), fseq: number(HAS_FSEQ, 6), beam })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_fields() -> impl Strategy<Value = Fields> {
        let parts = (any::<Option<u16>>(), any::<Option<(u16, u16)>>(), any::<Option<u16>>(), any::<u8>());
        parts.prop_map(|(hseq, hack, fseq, beam)| Fields { hseq, hack, fseq, beam })
    }

    /// Return a header of these options, padded to 8 octets as senders do.
    fn header(options: &[u8]) -> Vec<u8> {
        let mut header = [&[59, 0], options].concat();
        match (8 - header.len() % 8) % 8 {
            0 => {}
            1 => header.push(PAD1),
            n => header.extend([PADN, u8::try_from(n - 2).unwrap()].into_iter().chain(std::iter::repeat_n(0, n - 2))),
        }
        header[1] = u8::try_from(header.len() / 8 - 1).unwrap();
        header
    }

    #[test]
    fn the_header_has_the_octets_of_the_diagram() {
        let fields = Fields { hseq: Some(0x0102), hack: Some((0x0304, 0x0506)), fseq: Some(0x0708), beam: 9 };
        assert_eq!(encode(&fields, 6), [6, 1, 0x3e, 10, 1, 2, 3, 4, 5, 6, 7, 8, 7, 9, 1, 0]);
        assert_eq!(encode(&Fields::default(), 59)[2..], [0x3e, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0]);
    }

    #[test]
    fn malformed_headers_are_refused_with_their_place() {
        let own = &encode(&Fields::default(), 59)[2..14];
        for (options, error) in [
            ([own, own].concat(), WireError::Option { at: 14, length: 10 }),
            (vec![OPTION, 4, 0, 0, 0, 0], WireError::Option { at: 2, length: 4 }),
            (vec![PADN, 4, 0, 0, 1, 0], WireError::Padding { at: 2 }),
            ([vec![PADN, 4, 0, 0, 0, 0], vec![PADN, 0]].concat(), WireError::Padding { at: 2 }),
            (vec![0xc2, 4, 0, 0, 0, 0], WireError::Unknown { option: 0xc2, at: 2 }),
            (vec![0x1e, 200, 0, 0, 0, 0], WireError::Truncated { end: 8, needed: 204 }),
        ] {
            let header = header(&options);
            let refused = decode(&header).unwrap_err();
            match (refused, error) {
                (WireError::Truncated { needed: a, .. }, WireError::Truncated { needed: b, .. }) => assert_eq!(a, b),
                _ => assert_eq!(refused, error, "{header:?}"),
            }
        }
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(fields in any_fields(), next_header in any::<u8>(), payload in prop::collection::vec(any::<u8>(), 0..40)) {
            let packet = [&encode(&fields, next_header)[..], &payload].concat();
            prop_assert_eq!(decode(&packet), Ok(Header { next_header, length: usize::from(HEADER_BYTES), fields: Some(fields) }));
            for end in 0..usize::from(HEADER_BYTES) {
                prop_assert!(matches!(decode(&packet[..end]), Err(WireError::Truncated { .. })), "{}", end);
            }
        }

        /// Options of others that may be skipped change nothing, wherever they stand.
        #[test]
        fn foreign_options_are_skipped(
            fields in any_fields(), options in prop::collection::vec((2_u8..0x3e, prop::collection::vec(any::<u8>(), 0..20)), 0..4), place in 0_usize..5,
        ) {
            let mut all: Vec<Vec<u8>> = options.iter().map(|(option, value)| [&[*option, u8::try_from(value.len()).unwrap()], &value[..]].concat()).collect();
            all.insert(place.min(all.len()), encode(&fields, 59)[2..14].to_vec());
            prop_assert_eq!(decode(&header(&all.concat())).map(|header| header.fields), Ok(Some(fields)));
        }

        /// No octets crash the parser, and a header that it accepts lies within the data.
        #[test]
        fn any_octets_are_parsed_or_refused(data in prop::collection::vec(prop_oneof![3 => any::<u8>(), 1 => Just(OPTION), 1 => Just(PADN), 1 => Just(10_u8)], 0..80)) {
            if let Ok(header) = decode(&data) {
                prop_assert!(header.length <= data.len() && header.length % 8 == 0);
            }
        }
    }
}
