//! Packets and frames as they cross the network. Numbers are 64-bit; sizes are those of RFC 9000 with connection IDs of 8 bytes and packet numbers of 2.

use bentpipe_profile::{Nanos, Time};

/// Largest UDP payload [bytes]: that which every path carries (RFC 9000 §14); there is no path MTU discovery.
pub const MAX_DATAGRAM: u32 = 1200;
/// IPv4 and UDP headers [bytes].
pub const UDP_HEADER_BYTES: u32 = 28;
/// Long header with the length of the packet, and the tag of the AEAD (RFC 9000 §17.2, RFC 9001 §5.3).
const LONG_HEADER_BYTES: u32 = 1 + 4 + 1 + 8 + 1 + 8 + 1 + 2 + 2 + 16;
/// Short header, and the tag.
const SHORT_HEADER_BYTES: u32 = 1 + 8 + 2 + 16;
/// The number under which the data of the handshake (CRYPTO frames) are a stream.
pub const CRYPTO: u64 = u64::MAX;
/// Most ranges in an ACK frame; older ones are forgotten (RFC 9000 §13.2.3).
pub const MAX_ACK_RANGES: usize = 32;

/// Packet-number space. Initial and Handshake packets share one here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// Initial and Handshake packets.
    Handshake,
    /// 1-RTT packets.
    Data,
}

impl Space {
    /// Both spaces.
    pub const BOTH: [Self; 2] = [Self::Handshake, Self::Data];

    /// Size of a packet without its frames [bytes].
    #[must_use]
    pub const fn header_bytes(self) -> u32 {
        match self {
            Self::Handshake => LONG_HEADER_BYTES,
            Self::Data => SHORT_HEADER_BYTES,
        }
    }
}

/// An ACK frame (RFC 9000 §19.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AckFrame {
    /// Ranges of packet numbers, first and last, from the highest down; never empty.
    pub ranges: Vec<(u64, u64)>,
    /// Time from the arrival of the largest number to this frame.
    pub delay: Nanos,
}

impl AckFrame {
    /// Largest number acknowledged.
    #[must_use]
    pub fn largest(&self) -> u64 {
        self.ranges.first().map_or(0, |range| range.1)
    }

    /// Size of a frame with this many ranges [bytes].
    #[must_use]
    #[allow(clippy::cast_possible_truncation)] // at most `MAX_ACK_RANGES`
    pub const fn bytes(ranges: usize) -> u32 {
        6 + 4 * ranges as u32
    }
}

/// Part of a stream: a STREAM or CRYPTO frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Stream; [`CRYPTO`]: the handshake.
    pub stream: u64,
    /// Position of its first byte.
    pub offset: u64,
    /// Bytes.
    pub len: u32,
    /// Whether it ends the stream.
    pub fin: bool,
    /// When its bytes were sent for the first time. Not on the wire.
    pub first_sent: Time,
}

impl Chunk {
    /// One past its last byte.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.offset + self.len as u64
    }

    /// Size of a frame without its data [bytes] (RFC 9000 §19.6, §19.8).
    #[must_use]
    pub const fn frame_bytes(stream: u64, offset: u64) -> u32 {
        let id = if stream == CRYPTO { 0 } else { varint_bytes(stream) };
        let at = if stream != CRYPTO && offset == 0 { 0 } else { varint_bytes(offset) };
        1 + id + at + 2
    }
}

/// Size of a variable-length integer (RFC 9000 §16) [bytes].
#[must_use]
pub const fn varint_bytes(value: u64) -> u32 {
    match value {
        0..64 => 1,
        64..16_384 => 2,
        16_384..1_073_741_824 => 4,
        _ => 8,
    }
}

/// Frames other than ACK and those with data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Control {
    /// `MAX_DATA`.
    pub max_data: Option<u64>,
    /// `MAX_STREAM_DATA`, with the stream.
    pub max_stream_data: Vec<(u64, u64)>,
    /// `HANDSHAKE_DONE`.
    pub handshake_done: bool,
    /// `PING`.
    pub ping: bool,
}

impl Control {
    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.max_data.is_none() && self.max_stream_data.is_empty() && !self.handshake_done && !self.ping
    }

    /// Their size [bytes].
    #[must_use]
    #[allow(clippy::cast_possible_truncation)] // few streams
    pub fn bytes(&self) -> u32 {
        let max_data = self.max_data.map_or(0, |value| 1 + varint_bytes(value));
        max_data + 9 * self.max_stream_data.len() as u32 + u32::from(self.handshake_done) + u32::from(self.ping)
    }
}

/// A packet, alone in its datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuicPacket {
    /// Its packet-number space.
    pub space: Space,
    /// Its number.
    pub number: u64,
    /// Its ACK frame.
    pub ack: Option<AckFrame>,
    /// Its data.
    pub chunks: Vec<Chunk>,
    /// Its other frames.
    pub control: Control,
    /// Whether it closes the connection (`CONNECTION_CLOSE`).
    pub close: bool,
    /// UDP payload [bytes].
    pub bytes: u32,
}

impl QuicPacket {
    /// Size of the IP packet [bytes].
    #[must_use]
    pub const fn wire_bytes(&self) -> u32 {
        self.bytes + UDP_HEADER_BYTES
    }

    /// Whether the other end must acknowledge it (RFC 9002 §2).
    #[must_use]
    pub fn is_ack_eliciting(&self) -> bool {
        !self.chunks.is_empty() || !self.control.is_empty()
    }
}
