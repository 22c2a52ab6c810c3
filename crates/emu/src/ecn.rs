//! Explicit congestion notification (RFC 3168 §5): reads a packet's codepoint and writes the path's CE mark.

use bentpipe_link::Ecn;

/// The codepoint CE, which is also the mask of the two bits.
const CE: u8 = 0b11;
/// Position of the bits in the second byte of IPv6: end of the traffic class, before the flow label (RFC 8200 §3).
const V6_SHIFT: u8 = 4;

/// A packet's ECN codepoint; `NotEct` if it is not IP.
#[must_use]
pub fn codepoint(packet: &[u8]) -> Ecn {
    let bits = match packet {
        [version, class, ..] if version >> 4 == 4 => class & CE,
        [version, class, ..] if version >> 4 == 6 => (class >> V6_SHIFT) & CE,
        _ => 0,
    };
    match bits {
        0 => Ecn::NotEct,
        CE => Ecn::Ce,
        _ => Ecn::Ect,
    }
}

/// Sets CE in an ECN-capable packet and updates the IPv4 header checksum (RFC 1624, equation 3). TCP's and UDP's checksums do not cover the field.
pub fn mark(packet: &mut [u8]) {
    if codepoint(packet) != Ecn::Ect {
        return;
    }
    match packet {
        [version, class, ..] if *version >> 4 == 6 => *class |= CE << V6_SHIFT,
        [version, class, _, _, _, _, _, _, _, _, sum_high, sum_low, ..] => {
            let before = u16::from_be_bytes([*version, *class]);
            *class |= CE;
            let after = u16::from_be_bytes([*version, *class]);
            let sum = u32::from(!u16::from_be_bytes([*sum_high, *sum_low])) + u32::from(!before) + u32::from(after);
            let folded = (sum & 0xffff) + (sum >> 16);
            #[allow(clippy::cast_possible_truncation)] // folded twice
            let folded = ((folded & 0xffff) + (folded >> 16)) as u16;
            [*sum_high, *sum_low] = (!folded).to_be_bytes();
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tun_rs::checksum;

    /// An IPv4 header with its checksum.
    fn v4(rest: &[u8], ecn: u8) -> Vec<u8> {
        let mut packet = vec![0x45, (rest[0] & !CE) | ecn];
        packet.extend(&rest[..18]);
        packet[10..12].fill(0);
        let sum = !checksum(&packet, 0);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        packet
    }

    proptest! {
        #[test]
        fn a_mark_changes_two_bits_and_keeps_the_checksum_valid(rest in prop::collection::vec(any::<u8>(), 18..40), ecn in 0_u8..4) {
            let before = v4(&rest, ecn);
            let mut after = before.clone();
            mark(&mut after);
            prop_assert_eq!(after[1], if ecn == 0 { before[1] } else { before[1] | CE });
            prop_assert_eq!(!checksum(&after, 0), 0, "the sum over a valid header is all ones");
            prop_assert_eq!((&after[2..10], &after[12..]), (&before[2..10], &before[12..]));
        }

        #[test]
        fn ipv6_carries_ecn_in_its_traffic_class(head in prop::collection::vec(any::<u8>(), 40..60), ecn in 0_u8..4) {
            let mut packet = head.clone();
            (packet[0], packet[1]) = (0x60 | (head[0] & 15), (head[1] & 0xcf) | (ecn << 4));
            let before = packet.clone();
            prop_assert_eq!(codepoint(&packet), [Ecn::NotEct, Ecn::Ect, Ecn::Ect, Ecn::Ce][usize::from(ecn)]);
            mark(&mut packet);
            prop_assert_eq!(packet[1] & 0x30, if ecn == 0 { 0 } else { 0x30 });
            prop_assert_eq!((packet[0], packet[1] & 0xcf, &packet[2..]), (before[0], before[1] & 0xcf, &before[2..]));
        }

        #[test]
        fn bytes_that_are_no_packet_are_unchanged(mut bytes in prop::collection::vec(any::<u8>(), 0..12)) {
            if bytes.first().is_none_or(|first| first >> 4 != 6) {
                let before = bytes.clone();
                mark(&mut bytes);
                prop_assert!(bytes.len() == 12 || bytes == before);
            }
        }
    }
}
