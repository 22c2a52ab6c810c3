use super::*;
use crate::segments::SplitBuffers;
use etherparse::{PacketBuilder, PacketHeaders};
use proptest::prelude::*;

const MTU: usize = 1500;
const SINGLE: u8 = 2;

fn segment(v6: bool, sequence: u32, window: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    if v6 {
        PacketBuilder::ipv6([1; 16], [2; 16], 64).tcp(1, 2, sequence, window).ack(9).write(&mut bytes, payload).unwrap();
    } else {
        PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64).tcp(1, 2, sequence, window).ack(9).write(&mut bytes, payload).unwrap();
    }
    bytes
}

fn split(bytes: &[u8]) -> Vec<Vec<u8>> {
    let (header, packet) = bytes.split_first_chunk().unwrap();
    let mut parts = SplitBuffers::new(0, MTU);
    let count = parts.split(header, 0, &mut packet.to_vec()).unwrap().count;
    (0..count)
        .map(|index| {
            let (mut bytes, length) = parts.take(index, None);
            bytes.truncate(length);
            bytes
        })
        .collect()
}

/// Clears the fields that a split rewrites: the IPv4 identification and its checksum.
fn but_the_identification(mut packet: Vec<u8>) -> Vec<u8> {
    if packet[0] >> 4 == 4 {
        packet[4..6].fill(0);
        packet[10..12].fill(0);
    }
    packet
}

proptest! {
    #[test]
    fn coalesced_segments_split_into_the_originals(
        v6: bool, from: u32, size in 1_usize..1440, count in 1_usize..60, last in 1_usize..1440, step_ns in 0_u64..300
    ) {
        let mut sequence = from;
        let mut buffer = GroBuffer::default();
        let mut packets = Vec::new();
        for index in 0..count {
            let payload = vec![u8::try_from(index).unwrap(); if index + 1 == count { last.min(size) } else { size }];
            let packet = segment(v6, sequence, 500, &payload);
            sequence = sequence.wrapping_add(u32::try_from(payload.len()).unwrap());
            if buffer.append(&packet, Time(1000 + step_ns * index as u64)) {
                packets.push(packet);
            } else {
                break;
            }
        }
        let count_joined = packets.len();
        prop_assert_eq!(count_joined, buffer.count() as usize);
        let in_span = usize::try_from(MAX_SPAN.0.checked_div(step_ns).unwrap_or(u64::MAX).min(1000)).unwrap() + 1;
        let room = (MAX_PACKET - packets[0].len()) / size + 1;
        // A short last segment may fit where a full one would not.
        prop_assert!(count_joined == count.min(in_span).min(room) || count_joined == count.min(in_span));
        let got: Vec<_> = split(buffer.finish(SINGLE).unwrap()).into_iter().map(but_the_identification).collect();
        let sent: Vec<_> = packets.into_iter().map(but_the_identification).collect();
        prop_assert_eq!(got, sent);
        prop_assert!(buffer.is_empty());
    }

    #[test]
    fn a_segment_with_other_headers_is_not_coalesced(v6: bool, at in 0_usize..60, bit in 0_u8..8) {
        let (one, two) = (segment(v6, 100, 500, &[1; 50]), segment(v6, 150, 500, &[2; 50]));
        let headers = one.len() - 50;
        let mut other = two.clone();
        let at = at % headers;
        other[at] ^= 1 << bit;
        let mut buffer = GroBuffer::default();
        prop_assert!(buffer.append(&one, Time(0)));
        let network = headers - 20;
        let written_anew = |at: usize| (!v6 && ((4..6).contains(&at) || (10..12).contains(&at)))
            || (network + 16..network + 18).contains(&at)
            || (at == network + 13 && bit == 3);
        prop_assert_eq!(buffer.append(&other, Time(0)), written_anew(at));
    }

    #[test]
    fn arbitrary_packets_do_not_panic(packets in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..5), (at, value) in any::<(usize, u8)>(), cut in 0_usize..120) {
        let mut buffer = GroBuffer::default();
        let mut nearly = segment(false, 1, 1, &[0; 60]);
        let at = at % nearly.len();
        nearly[at] = value;
        nearly.truncate(cut);
        for packet in packets.iter().chain([&nearly]) {
            let _ = buffer.append(packet, Time(0));
        }
        let _ = buffer.finish(SINGLE);
    }
}

#[test]
fn a_single_packet_is_unchanged() {
    let packet = segment(false, 1, 1, &[5; 1000]);
    let mut buffer = GroBuffer::default();
    assert!(buffer.append(&packet, Time(0)));
    let bytes = buffer.finish(SINGLE).unwrap();
    assert_eq!((bytes[0], &bytes[1..HEADER], &bytes[HEADER..]), (SINGLE, &[0; HEADER - 1][..], &packet[..]));
    assert_eq!(buffer.finish(SINGLE), None);
}

#[test]
fn out_of_order_empty_and_marked_segments_are_not_coalesced() {
    let mut buffer = GroBuffer::default();
    assert!(!buffer.append(&segment(false, 1, 1, &[]), Time(0)), "an acknowledgement without data");
    assert!(buffer.append(&segment(false, 1000, 1, &[0; 100]), Time(0)));
    assert!(!buffer.append(&segment(false, 900, 1, &[0; 100]), Time(0)), "an old segment");
    assert!(!buffer.append(&segment(false, 1200, 1, &[0; 100]), Time(0)), "a segment after a gap");
    assert!(!buffer.append(&segment(false, 1100, 1, &[0; 101]), Time(0)), "a longer segment");
    assert!(buffer.append(&segment(false, 1100, 1, &[0; 99]), Time(0)));
    assert!(!buffer.append(&segment(false, 1199, 1, &[0; 99]), Time(0)), "a segment after a short one");
    let mut marked = segment(false, 1199, 1, &[0; 99]);
    marked[1] |= 3; // CE
    let mut other = GroBuffer::default();
    assert!(other.append(&segment(false, 1100, 1, &[0; 99]), Time(0)));
    assert!(!other.append(&marked, Time(0)));
    assert_eq!(PacketHeaders::from_ip_slice(&marked).unwrap().payload.slice().len(), 99);
}
