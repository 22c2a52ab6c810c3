//! Segmentation: splits one of the kernel's buffers into packets of the path's MTU.
//!
//! With segmentation offload (TSO, USO) a kernel hands over up to 64 KB of a flow in one buffer and leaves checksums to the device. A virtio header in
//! front lists the remaining work (virtio 1.2, 5.1.6), from a TUN device and from a packet socket alike.

use crate::header::TCP;
use tun_rs::{VIRTIO_NET_HDR_GSO_TCPV4, VIRTIO_NET_HDR_GSO_TCPV6, VIRTIO_NET_HDR_GSO_UDP_L4};
use tun_rs::{VIRTIO_NET_HDR_LEN, VirtioNetHdr, checksum, gso_split};

/// Bytes of the virtio header.
pub const HEADER: usize = VIRTIO_NET_HDR_LEN;

/// Largest aggregate that the kernel hands over [bytes].
pub const LARGEST: usize = 65_536;

/// Smallest payload of an aggregate's segments at any MTU [bytes] (`TCP_MIN_MSS`; UDP allows at most 128 segments).
const MIN_SEGMENT: usize = 48;

/// `VIRTIO_NET_HDR_F_NEEDS_CSUM`: the device computes the transport checksum.
pub const NEEDS_CHECKSUM: u8 = 1;

/// `VIRTIO_NET_HDR_GSO_ECN`: the first segment alone carries CWR.
const ECN: u8 = 0x80;

const UDP: u8 = 17;

/// Why a buffer cannot be split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SplitError {
    /// A packet, or an aggregate's segment, is larger than the path's MTU.
    TooLarge,
    /// It is malformed, or uses an unsupported offload.
    Malformed,
}

/// Result of a split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split {
    /// Number of packets.
    pub count: usize,
    /// Whether the transport checksums were computed here. If not, they are the sender's.
    pub is_checksum_computed: bool,
}

/// Preallocated buffers for the packets of one split.
pub struct SplitBuffers {
    packets: Vec<Vec<u8>>,
    sizes: Vec<usize>,
    headroom: usize,
    mtu: usize,
}

impl SplitBuffers {
    /// Allocates buffers for packets of up to `mtu` bytes, each with `headroom` unused bytes in front.
    #[must_use]
    pub fn new(headroom: usize, mtu: usize) -> Self {
        let capacity = LARGEST / MIN_SEGMENT + 1;
        Self { packets: (0..capacity).map(|_| vec![0; headroom + mtu]).collect(), sizes: vec![0; capacity], headroom, mtu }
    }

    /// Splits `packet` according to `header`, whose offsets count from `link` bytes before the packet.
    ///
    /// # Errors
    /// [`SplitError`]; the packet is unchanged.
    pub fn split(&mut self, header: &[u8; HEADER], link: u16, packet: &mut [u8]) -> Result<Split, SplitError> {
        let header = VirtioNetHdr::decode(header).or(Err(SplitError::Malformed))?;
        if header.gso_type == 0 && packet.len() > self.mtu {
            return Err(SplitError::TooLarge);
        }
        let split = if header.gso_type == 0 { self.copy(header, link, packet) } else { self.cut(header, link, packet)? };
        split.ok_or(SplitError::Malformed)
    }

    /// Copies a single packet.
    fn copy(&mut self, header: VirtioNetHdr, link: u16, packet: &mut [u8]) -> Option<Split> {
        let is_checksum_computed = header.flags & NEEDS_CHECKSUM != 0;
        if is_checksum_computed {
            complete_checksum(packet, header.csum_start.checked_sub(link)?, header.csum_offset)?;
        }
        self.packets[0].get_mut(self.headroom..self.headroom + packet.len())?.copy_from_slice(packet);
        self.sizes[0] = packet.len();
        Some(Split { count: 1, is_checksum_computed })
    }

    /// Splits an aggregate.
    fn cut(&mut self, mut header: VirtioNetHdr, link: u16, packet: &mut [u8]) -> Result<Option<Split>, SplitError> {
        let Some(start) = header.csum_start.checked_sub(link) else { return Ok(None) };
        header.csum_start = start;
        let Some(length) = headers(&header, packet) else { return Ok(None) };
        header.hdr_len = length; // the kernel's value is a hint and may be larger
        if usize::from(length) + usize::from(header.gso_size).min(packet.len().saturating_sub(length.into())) > self.mtu {
            return Err(SplitError::TooLarge);
        }
        let is_v6 = packet[0] >> 4 == 6;
        let count = gso_split(packet, header, &mut self.packets, &mut self.sizes, self.headroom, is_v6).ok();
        Ok(count.map(|count| Split { count, is_checksum_computed: true }))
    }

    /// Takes the `index`th packet with its headroom, and its length; `spare` or new memory replaces it.
    pub fn take(&mut self, index: usize, spare: Option<Vec<u8>>) -> (Vec<u8>, usize) {
        let fresh = spare.unwrap_or_else(|| vec![0; self.headroom + self.mtu]);
        (std::mem::replace(&mut self.packets[index], fresh), self.sizes[index])
    }
}

/// Computes the transport checksum. A UDP checksum of 0 means "none" (RFC 768), so 0 is written as its equal, 0xFFFF.
fn complete_checksum(packet: &mut [u8], start: u16, offset: u16) -> Option<()> {
    let covered = packet.get_mut(usize::from(start)..)?;
    let field = covered.get_mut(offset.into()..)?.first_chunk_mut()?;
    let pseudo_header = u16::from_be_bytes(std::mem::take(field));
    let sum = match !checksum(covered, pseudo_header.into()) {
        0 => u16::MAX,
        sum => sum,
    };
    *covered.get_mut(offset.into()..)?.first_chunk_mut()? = sum.to_be_bytes();
    Some(())
}

/// Length of all headers of an aggregate; `None`: its protocol is not the one in the virtio header, for instance a tunnel.
fn headers(header: &VirtioNetHdr, packet: &[u8]) -> Option<u16> {
    let transport = usize::from(header.csum_start);
    let (version, protocol) = match header.gso_type & !ECN {
        VIRTIO_NET_HDR_GSO_TCPV4 => (4, TCP),
        VIRTIO_NET_HDR_GSO_TCPV6 => (6, TCP),
        VIRTIO_NET_HDR_GSO_UDP_L4 => (packet.first()? >> 4, UDP),
        _ => return None,
    };
    let matches_header = match version {
        4 => packet.first()? >> 4 == 4 && usize::from(packet[0] & 15) * 4 == transport && *packet.get(9)? == protocol,
        // The protocol behind extension headers is not checked.
        6 => packet.first()? >> 4 == 6 && (transport > 40 || transport == 40 && *packet.get(6)? == protocol),
        _ => false,
    };
    let length = match protocol {
        TCP => u16::from(packet.get(transport + 12)? >> 4) * 4,
        _ => 8,
    };
    let least = if protocol == TCP { 20 } else { 8 };
    (matches_header && length >= least).then(|| header.csum_start.checked_add(length)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::{PacketBuilder, PacketHeaders, SlicedPacket};
    use proptest::prelude::*;

    const HEADROOM: usize = 10;

    fn virtio(flags: u8, kind: u8, size: u16, start: u16, offset: u16) -> [u8; HEADER] {
        let mut header = [flags, kind, 0, 0, 0, 0, 0, 0, 0, 0];
        for (at, value) in [(4, size), (6, start), (8, offset)] {
            header[at..at + 2].copy_from_slice(&value.to_ne_bytes());
        }
        header
    }

    fn tcp(v6: bool, payload: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        if v6 {
            PacketBuilder::ipv6([1; 16], [2; 16], 64).tcp(1, 2, 3, 4).fin().write(&mut bytes, payload).unwrap();
        } else {
            PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64).tcp(1, 2, 3, 4).fin().write(&mut bytes, payload).unwrap();
        }
        bytes
    }

    /// Returns the payload, after a check of the checksums.
    fn payload(packet: &[u8]) -> Vec<u8> {
        let headers = PacketHeaders::from_ip_slice(packet).unwrap();
        let transport = headers.transport.unwrap().tcp().unwrap();
        let payload = headers.payload.slice();
        let sum = match headers.net.unwrap() {
            etherparse::NetHeaders::Ipv4(ip, _) => {
                assert_eq!(ip.header_checksum, ip.calc_header_checksum());
                transport.calc_checksum_ipv4(&ip, payload).unwrap()
            }
            etherparse::NetHeaders::Ipv6(ip, _) => transport.calc_checksum_ipv6(&ip, payload).unwrap(),
            etherparse::NetHeaders::Arp(_) => unreachable!("only IP headers"),
        };
        assert_eq!(transport.checksum, sum);
        payload.to_vec()
    }

    proptest! {
        /// For any header and packet.
        #[test]
        fn malformed_input_does_not_panic(header: [u8; HEADER], link in 0_u16..32, mut packet in prop::collection::vec(any::<u8>(), 0..3000)) {
            let mut parts = SplitBuffers::new(HEADROOM, 1500);
            let _ = parts.split(&header, link, &mut packet);
        }

        /// Input close to valid, so that it passes the first checks.
        #[test]
        fn nearly_valid_input_is_rejected_or_split(
            v6: bool, kind in 0_u8..8, size in 0_u16..3000, start in 0_u16..90, offset in prop_oneof![Just(16_u16), Just(6), any::<u16>()],
            length in 0_usize..6000, (at, value) in any::<(usize, u8)>(), cut in 0_usize..6100,
        ) {
            let mut packet = tcp(v6, &vec![7; length]);
            let at = at % packet.len().min(64);
            packet[at] = value;
            packet.truncate(cut);
            let mut parts = SplitBuffers::new(HEADROOM, 1500);
            if let Ok(split) = parts.split(&virtio(1, kind, size, start, offset), 0, &mut packet) {
                for index in 0..split.count {
                    let (bytes, length) = parts.take(index, None);
                    prop_assert!(HEADROOM + length <= bytes.len());
                }
            }
        }

        #[test]
        fn an_aggregate_becomes_valid_packets(v6: bool, link in 0_u16..32, size in 48_u16..1400, length in 1_usize..60_000) {
            let body: Vec<u8> = (0..=250).cycle().take(length).collect();
            let mut packet = tcp(v6, &body);
            let (kind, start) = if v6 { (4, 40) } else { (1, 20) };
            let mut parts = SplitBuffers::new(HEADROOM, 1500);
            let Split { count, is_checksum_computed } = parts.split(&virtio(1, kind, size, start + link, 16), link, &mut packet).unwrap();
            prop_assert!(is_checksum_computed);
            prop_assert_eq!(count, length.div_ceil(usize::from(size)));
            let mut whole = Vec::new();
            for index in 0..count {
                let (bytes, length) = parts.take(index, None);
                whole.extend(payload(&bytes[HEADROOM..HEADROOM + length]));
            }
            prop_assert_eq!(whole, body);
        }

        #[test]
        fn a_partial_checksum_is_completed(length in 0_usize..1400, fill: u8) {
            let mut packet = tcp(false, &vec![fill; length]);
            let right = packet.clone();
            // The kernel leaves the sum of the pseudo-header.
            let pseudo: u32 = [0x0a00_u32, 1, 0x0a00, 2, 6].iter().sum::<u32>() + u32::try_from(20 + length).unwrap();
            packet[36..38].copy_from_slice(&u16::try_from(pseudo % 0xffff).unwrap().to_be_bytes());
            let mut parts = SplitBuffers::new(HEADROOM, 1500);
            prop_assert_eq!(parts.split(&virtio(1, 0, 0, 20 + 14, 16), 14, &mut packet), Ok(Split { count: 1, is_checksum_computed: true }));
            let (bytes, length) = parts.take(0, None);
            let made = &bytes[HEADROOM..HEADROOM + length];
            let equal = |sum: &[u8]| if sum == [0xff, 0xff] { vec![0, 0] } else { sum.to_vec() }; // the two zeros
            prop_assert_eq!(equal(&made[36..38]), equal(&right[36..38]));
            prop_assert_eq!(&made[38..], &right[38..]);
        }
    }

    #[test]
    fn a_tunnel_is_not_split_as_its_inner_protocol() {
        let inner = tcp(false, &[1; 4000]);
        let mut outer = Vec::new();
        PacketBuilder::ipv4([1; 4], [2; 4], 64).udp(1, 4789).write(&mut outer, &inner).unwrap();
        assert!(SlicedPacket::from_ip(&outer).is_ok());
        let mut parts = SplitBuffers::new(HEADROOM, 1500);
        assert_eq!(parts.split(&virtio(1, 1, 1000, 48, 16), 0, &mut outer), Err(SplitError::Malformed));
    }

    #[test]
    fn packets_above_the_mtu_are_distinguished_from_malformed_ones() {
        let mut parts = SplitBuffers::new(HEADROOM, 1500);
        for v6 in [false, true] {
            let (mut packet, kind, start) = (tcp(v6, &[1; 8000]), if v6 { 4 } else { 1 }, if v6 { 40 } else { 20 });
            let before = packet.clone();
            assert_eq!(parts.split(&virtio(1, 0, 0, start, 16), 0, &mut packet), Err(SplitError::TooLarge));
            assert_eq!(parts.split(&virtio(1, kind, 3000, start, 16), 0, &mut packet), Err(SplitError::TooLarge));
            assert_eq!(packet, before);
            assert_eq!(parts.split(&virtio(1, 9, 3000, start, 16), 0, &mut packet), Err(SplitError::Malformed));
            let mut whole = tcp(v6, &[1; 100]);
            assert_eq!(
                parts.split(&virtio(0, 0, 0, 0, 0), 0, &mut whole),
                Ok(Split { count: 1, is_checksum_computed: false }),
                "the sender's own checksum"
            );
        }
    }
}
