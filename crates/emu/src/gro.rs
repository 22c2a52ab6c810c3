//! Receive offload (GRO): coalesces segments of one TCP connection that leave the path together into one buffer for the receiver's kernel.
//!
//! A network card delivers the packets of one interrupt-moderation interval in one buffer (GRO, LRO). A kernel that gets packets one at a time cannot
//! keep up at gigabit rates. So segments due within [`MAX_SPAN`] are written as one buffer with a virtio header that gives the segment size (virtio 1.2,
//! 5.1.6); the kernel's receive counters count one packet. On a path below 1.2 Gbit/s no two full packets are due so close, unless the path releases them
//! together (a grant).
//!
//! As in the kernel's `tcp_gro_receive`, only segments that can be split again exactly are coalesced: the next bytes of the same connection, in order,
//! with the same acknowledgement, window, options and marks.

use crate::header::TCP;
use crate::segments::{HEADER, NEEDS_CHECKSUM};
use bentpipe_profile::{Nanos, Time};
use tun_rs::{VIRTIO_NET_HDR_GSO_TCPV4, VIRTIO_NET_HDR_GSO_TCPV6, VirtioNetHdr, checksum};

/// Longest time between the first and the last packet of a buffer. Chosen here: network cards moderate their interrupts to 3 to 50 µs (`ethtool -c`), and
/// this is less than what 1500 bytes take at 1.2 Gbit/s, above any single Starlink path.
pub const MAX_SPAN: Nanos = Nanos::from_micros(10);

/// Largest value of IP's length field [bytes].
const MAX_PACKET: usize = 65_535;

/// `MF` and the fragment offset (RFC 791).
const FRAGMENT: u16 = 0x3fff;

/// Reserved bits beside the data offset (RFC 9293).
const RESERVED: u8 = 15;

const ACK: u8 = 0x10;
const PSH: u8 = 0x08;

/// Byte offsets in the TCP header.
const SEQUENCE: usize = 4;
const FLAGS: usize = 13;
const CHECKSUM: usize = 16;

/// Header fields of a TCP segment that may be coalesced.
#[derive(Clone, Copy)]
struct Segment {
    v6: bool,
    /// Bytes of the IP header.
    network: usize,
    /// Bytes of both headers.
    headers: usize,
    sequence: u32,
    payload: usize,
    has_push: bool,
}

impl Segment {
    fn of(packet: &[u8]) -> Option<Self> {
        let first = *packet.first()?;
        let (v6, network, length) = match first >> 4 {
            4 => (false, usize::from(first & 15) * 4, usize::from(be16(packet, 2)?)),
            6 => (true, 40, 40 + usize::from(be16(packet, 4)?)),
            _ => return None,
        };
        let protocol = *packet.get(if v6 { 6 } else { 9 })?;
        let in_one_piece = v6 || be16(packet, 6)? & FRAGMENT == 0;
        if protocol != TCP || network < 20 || length != packet.len() || !in_one_piece {
            return None;
        }
        let tcp = packet.get(network..)?;
        let headers = network + usize::from(*tcp.get(12)? >> 4) * 4;
        let flags = *tcp.get(FLAGS)?;
        // Segments with ECE, CWR or other flags are never coalesced.
        let is_plain = flags & !PSH == ACK && tcp[12] & RESERVED == 0;
        let sequence = u32::from_be_bytes(*tcp.get(SEQUENCE..)?.first_chunk()?);
        (is_plain && headers >= network + 20 && packet.len() > headers).then(|| Self {
            v6,
            network,
            headers,
            sequence,
            payload: packet.len() - headers,
            has_push: flags & PSH != 0,
        })
    }
}

/// A growing buffer: empty, one unchanged packet, or several payloads behind one packet's headers.
pub struct GroBuffer {
    bytes: Vec<u8>,
    first: Option<(Segment, Time)>,
    /// Number of packets.
    count: u32,
    /// The next expected sequence number.
    next: u32,
    /// Set after a short or a pushed segment, which must be the last.
    is_full: bool,
}

impl Default for GroBuffer {
    fn default() -> Self {
        Self { bytes: Vec::with_capacity(HEADER + MAX_PACKET), first: None, count: 0, next: 0, is_full: false }
    }
}

impl GroBuffer {
    /// Appends `packet`, due at `due`, if it can follow the buffer's packets. An empty buffer accepts any segment that may be coalesced. False: not
    /// appended.
    pub fn append(&mut self, packet: &[u8], due: Time) -> bool {
        let Some(segment) = Segment::of(packet) else { return false };
        let Some((first, since)) = self.first else {
            self.bytes.clear();
            self.bytes.resize(HEADER, 0);
            self.bytes.extend_from_slice(packet);
            self.first = Some((segment, due));
            self.count = 1;
            self.expect_next(segment, segment.payload);
            return true;
        };
        let fits = self.bytes.len() - HEADER + segment.payload <= MAX_PACKET;
        let follows = !self.is_full && segment.sequence == self.next && segment.payload <= first.payload;
        if !fits || !follows || due.since(since) > MAX_SPAN || !same_headers(&self.bytes[HEADER..], packet, first, segment) {
            return false;
        }
        self.bytes.extend_from_slice(&packet[segment.headers..]);
        self.bytes[HEADER + first.network + FLAGS] |= packet[segment.network + FLAGS];
        self.count += 1;
        self.expect_next(segment, first.payload);
        true
    }

    fn expect_next(&mut self, segment: Segment, full: usize) {
        #[allow(clippy::cast_possible_truncation)] // a packet's
        let payload = segment.payload as u32;
        self.next = segment.sequence.wrapping_add(payload);
        self.is_full = segment.has_push || segment.payload < full;
    }

    /// Whether it has no packets.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// Number of packets.
    #[must_use]
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// Returns the virtio header and the packet for the kernel, and empties the buffer. `single_flags` are the virtio flags of a single packet.
    pub fn finish(&mut self, single_flags: u8) -> Option<&[u8]> {
        let (first, _) = self.first.take()?;
        if self.count == 1 {
            self.bytes[0] = single_flags;
        } else {
            self.write_headers(first)?;
        }
        Some(&self.bytes)
    }

    /// Writes the headers of one packet with all payloads.
    #[allow(clippy::cast_possible_truncation)] // all below LONGEST
    fn write_headers(&mut self, first: Segment) -> Option<()> {
        let (virtio, packet) = self.bytes.split_first_chunk_mut::<HEADER>()?;
        let length = packet.len();
        if first.v6 {
            packet[4..6].copy_from_slice(&((length - 40) as u16).to_be_bytes());
        } else {
            packet[2..4].copy_from_slice(&(length as u16).to_be_bytes());
            packet[10..12].fill(0);
            let sum = !checksum(&packet[..first.network], 0);
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        // A partial checksum starts with the sum of the pseudo-header (RFC 9293, 3.1).
        let addresses = if first.v6 { &packet[8..40] } else { &packet[12..20] };
        let pseudo = checksum(addresses, u64::from(TCP) + (length - first.network) as u64);
        let at = first.network + CHECKSUM;
        packet[at..at + 2].copy_from_slice(&pseudo.to_be_bytes());
        let header = VirtioNetHdr {
            flags: NEEDS_CHECKSUM,
            gso_type: if first.v6 { VIRTIO_NET_HDR_GSO_TCPV6 } else { VIRTIO_NET_HDR_GSO_TCPV4 },
            hdr_len: first.headers as u16,
            gso_size: first.payload as u16,
            csum_start: first.network as u16,
            csum_offset: CHECKSUM as u16,
        };
        header.encode(virtio).ok()
    }
}

/// Whether two packets' headers differ only in fields that a kernel rewrites when it splits a buffer: lengths, the IPv4 identification, sequence
/// number, PSH, checksums.
fn same_headers(ours: &[u8], theirs: &[u8], first: Segment, second: Segment) -> bool {
    if (first.v6, first.network, first.headers) != (second.v6, second.network, second.headers) {
        return false;
    }
    let network = if first.v6 {
        ours[..4] == theirs[..4] && ours[6..40] == theirs[6..40]
    } else {
        ours[..2] == theirs[..2] && ours[6..10] == theirs[6..10] && ours[12..first.network] == theirs[12..first.network]
    };
    let (ours, theirs) = (&ours[first.network..first.headers], &theirs[first.network..first.headers]);
    network && ours[..4] == theirs[..4] && ours[8..13] == theirs[8..13] && ours[14..16] == theirs[14..16] && ours[18..] == theirs[18..]
}

fn be16(packet: &[u8], at: usize) -> Option<u16> {
    packet.get(at..)?.first_chunk().map(|bytes| u16::from_be_bytes(*bytes))
}

#[cfg(test)]
mod tests;
