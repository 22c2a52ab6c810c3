//! The packets of a call: media and their redundancy, feedback on when media packets arrived, requests for lost packets, and requests for a key frame.
//!
//! The fields are those of RTP (RFC 3550), of the transport-wide feedback (draft-holmer-rmcat-transport-wide-cc-extensions-01) and of RTCP feedback
//! (RFC 4585 NACK and PLI). The layout is our own, with longer numbers, since both ends are ours; the sizes on the wire are those of the standards.

use crate::message::Datagram;
use bentpipe_profile::{Nanos, Time};

/// Largest media packet: payload of UDP [bytes]. libwebrtc's limit for RTP.
pub const MOST_BYTES: u32 = 1200;

/// What a media packet has before its media: RTP header (12), header extensions (16), authentication tag (10) [bytes].
pub const MEDIA_HEADER_BYTES: u32 = 38;

/// What a repair packet has beyond the longest packet that it repairs: headers of RED and ULPFEC [bytes].
pub const REPAIR_BYTES: u32 = 15;

/// Fixed part of an RTCP packet with its authentication tag and index: 12 + 14 [bytes].
const CONTROL_BYTES: u32 = 26;

/// Unit of the times in feedback.
const TICK: Nanos = Nanos(250_000);

/// Most media packets that one feedback reports.
pub const MOST_REPORTED: usize = 500;

/// A media packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Media {
    /// Number of the media packet; a retransmission has that of the original.
    pub number: u32,
    /// Number of the transmission: each has its own.
    pub sent_as: u32,
    /// Frame that it belongs to.
    pub frame: u32,
    /// Number of the frame's first media packet, and how many it has.
    pub first: u32,
    /// Number of the frame's packets.
    pub count: u16,
    /// Whether its frame needs no other frame.
    pub is_key: bool,
    /// When the frame was captured, since the start of the run.
    pub captured: Time,
    /// RTT as its sender knows it.
    pub rtt: Nanos,
    /// Size: payload of UDP [bytes].
    pub bytes: u32,
}

/// A repair packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repair {
    /// A media packet of its frame as the frame has them all; its number is the frame's first one.
    pub of: Media,
    /// Its place among the repair packets of the frame, and their number.
    pub index: u16,
    /// Number of the frame's repair packets.
    pub count: u16,
}

impl Repair {
    /// Return the numbers of the media packets that it repairs.
    pub fn covers(&self) -> impl Iterator<Item = u32> {
        let (first, end) = (self.of.first, self.of.first.saturating_add(u32::from(self.of.count)));
        (first.saturating_add(u32::from(self.index))..end).step_by(usize::from(self.count.max(1)))
    }
}

/// When media packets arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Feedback {
    /// First transmission that it reports.
    pub first: u32,
    /// Time from the arrival of the newest reported transmission to the feedback.
    pub held: Nanos,
    /// Arrival of each transmission from `first` on, with a resolution of 250 µs; `None`: it has not arrived.
    pub arrivals: Vec<Option<Time>>,
}

/// A packet of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallPacket {
    /// Media.
    Media(Media),
    /// Redundancy of a frame.
    Repair(Repair),
    /// Padding of a probe: nothing but a number of transmission, and its size as payload of UDP [bytes].
    Padding(u32, u32),
    /// Arrival times.
    Feedback(Feedback),
    /// Numbers of media packets that are missing.
    Nack(Vec<u32>),
    /// The receiver cannot go on without a key frame.
    KeyFrameRequest,
}

impl CallPacket {
    /// Return the datagram of this packet.
    #[must_use]
    pub fn datagram(&self) -> Datagram {
        let mut content = Vec::new();
        let bytes = match self {
            Self::Media(media) => {
                content.push(u8::from(media.is_key));
                write_media(media, &mut content);
                media.bytes
            }
            Self::Repair(repair) => {
                content.push(6 + u8::from(repair.of.is_key));
                write_media(&repair.of, &mut content);
                content.extend_from_slice(&repair.index.to_be_bytes());
                content.extend_from_slice(&repair.count.to_be_bytes());
                repair.of.bytes + REPAIR_BYTES
            }
            Self::Feedback(feedback) => {
                content.push(2);
                content.extend_from_slice(&feedback.first.to_be_bytes());
                content.extend_from_slice(&micros(feedback.held).to_be_bytes());
                for arrival in &feedback.arrivals {
                    content.extend_from_slice(&arrival.map_or(u64::MAX, |at| at.0 / TICK.0).to_be_bytes());
                }
                // Two bits and one byte for each, the reference time and the counts.
                let reported = feedback.arrivals.len() as u64;
                CONTROL_BYTES + 8 + size_u32(reported.div_ceil(7) * 2 + reported)
            }
            Self::Nack(numbers) => {
                content.push(3);
                for number in numbers {
                    content.extend_from_slice(&number.to_be_bytes());
                }
                // One entry reports up to 17 numbers in a row; the worst is one each.
                CONTROL_BYTES + 4 * size_u32(numbers.len() as u64)
            }
            Self::KeyFrameRequest => {
                content.push(4);
                CONTROL_BYTES
            }
            Self::Padding(sent_as, bytes) => {
                content.push(5);
                content.extend_from_slice(&sent_as.to_be_bytes());
                *bytes
            }
        };
        Datagram { content: content.into_boxed_slice(), bytes }
    }

    /// Read a packet; `None`: it is not one of a call.
    #[must_use]
    pub fn read(datagram: &Datagram) -> Option<Self> {
        let (kind, mut rest) = datagram.content.split_first()?;
        let packet = match kind {
            0 | 1 => Self::Media(read_media(&mut rest, *kind == 1, datagram.bytes)?),
            6 | 7 => {
                let of = read_media(&mut rest, *kind == 7, datagram.bytes.checked_sub(REPAIR_BYTES)?)?;
                let (index, count) = (u16::from_be_bytes(take(&mut rest)?), u16::from_be_bytes(take(&mut rest)?));
                (index < count).then_some(Self::Repair(Repair { of, index, count }))?
            }
            2 => {
                let (first, held) = (u32_of(&mut rest)?, Nanos::from_micros(u64::from(u32_of(&mut rest)?)));
                let mut arrivals = Vec::new();
                while !rest.is_empty() {
                    let ticks = u64::from_be_bytes(take(&mut rest)?);
                    arrivals.push(if ticks == u64::MAX { None } else { Some(Time(ticks.checked_mul(TICK.0)?)) });
                }
                Self::Feedback(Feedback { first, held, arrivals })
            }
            3 => {
                let mut numbers = Vec::new();
                while !rest.is_empty() {
                    numbers.push(u32_of(&mut rest)?);
                }
                Self::Nack(numbers)
            }
            4 => Self::KeyFrameRequest,
            5 => Self::Padding(u32_of(&mut rest)?, datagram.bytes),
            _ => return None,
        };
        rest.is_empty().then_some(packet)
    }
}

fn write_media(media: &Media, content: &mut Vec<u8>) {
    for number in [media.number, media.sent_as, media.frame, media.first] {
        content.extend_from_slice(&number.to_be_bytes());
    }
    content.extend_from_slice(&media.count.to_be_bytes());
    content.extend_from_slice(&media.captured.0.to_be_bytes());
    content.extend_from_slice(&micros(media.rtt).to_be_bytes());
}

/// Read a media packet; `None`: it is none, or its number is not one of its frame's.
fn read_media(rest: &mut &[u8], is_key: bool, bytes: u32) -> Option<Media> {
    let media = Media {
        number: u32_of(rest)?,
        sent_as: u32_of(rest)?,
        frame: u32_of(rest)?,
        first: u32_of(rest)?,
        count: u16::from_be_bytes(take(rest)?),
        is_key,
        captured: Time(u64::from_be_bytes(take(rest)?)),
        rtt: Nanos::from_micros(u64::from(u32_of(rest)?)),
        bytes,
    };
    (media.number.checked_sub(media.first)? < u32::from(media.count)).then_some(media)
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (field, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(*field)
}

fn u32_of(rest: &mut &[u8]) -> Option<u32> {
    take(rest).map(u32::from_be_bytes)
}

fn micros(span: Nanos) -> u32 {
    u32::try_from(span.0 / 1000).unwrap_or(u32::MAX)
}

fn size_u32(bytes: u64) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn packets() -> impl Strategy<Value = CallPacket> {
        let media = || {
            (any::<[u32; 4]>(), 1_u16.., any::<bool>(), any::<u64>(), any::<u32>(), 38_u32..1200).prop_map(
                |([offset, sent_as, frame, first], count, is_key, captured, rtt, bytes)| {
                    let number = first.saturating_add(offset % u32::from(count));
                    let rtt = Nanos::from_micros(u64::from(rtt));
                    Media { number, sent_as, frame, first, count, is_key, captured: Time(captured), rtt, bytes }
                },
            )
        };
        let repair =
            (media(), any::<u16>(), 1_u16..).prop_map(|(of, index, count)| CallPacket::Repair(Repair { of, index: index % count, count }));
        let media = media().prop_map(CallPacket::Media);
        let arrival = proptest::option::of((0..u64::MAX / TICK.0).prop_map(|ticks| Time(ticks * TICK.0)));
        let feedback = (any::<u32>(), any::<u32>(), proptest::collection::vec(arrival, 0..20)).prop_map(|(first, held, arrivals)| {
            CallPacket::Feedback(Feedback { first, held: Nanos::from_micros(u64::from(held)), arrivals })
        });
        let nack = proptest::collection::vec(any::<u32>(), 0..20).prop_map(CallPacket::Nack);
        let padding = any::<(u32, u32)>().prop_map(|(sent_as, bytes)| CallPacket::Padding(sent_as, bytes));
        prop_oneof![media, repair, feedback, nack, padding, Just(CallPacket::KeyFrameRequest)]
    }

    proptest! {
        #[test]
        fn a_packet_is_read_as_it_was_written(packet in packets()) {
            prop_assert_eq!(CallPacket::read(&packet.datagram()), Some(packet));
        }

        #[test]
        fn a_part_of_a_packet_and_what_is_longer_are_never_misread(packet in packets(), cut in 0_usize..40, extra in any::<u8>()) {
            let whole = packet.datagram();
            let part = whole.content.len().saturating_sub(cut + 1);
            let read = CallPacket::read(&Datagram { content: whole.content[..part].into(), ..whole.clone() });
            prop_assert_ne!(read, Some(packet.clone()));
            let longer = [&whole.content[..], &[extra]].concat().into_boxed_slice();
            prop_assert_ne!(CallPacket::read(&Datagram { content: longer, ..whole }), Some(packet));
        }

        #[test]
        fn foreign_bytes_are_read_without_a_panic(content in proptest::collection::vec(any::<u8>(), 0..80), bytes in any::<u32>()) {
            let _ = CallPacket::read(&Datagram { content: content.into_boxed_slice(), bytes });
        }
    }
}
