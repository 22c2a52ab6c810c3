//! Segments and acknowledgements as they cross the network. Sequence numbers are 64-bit and never wrap.

use bentpipe_profile::experiment::EcnMode;
use bentpipe_profile::{Bytes, Time};

/// Maximum segment size: 1500-byte IPv4 packets less 20 bytes of IP, 20 of TCP and 12 of timestamps (RFC 7323).
pub const MSS: u32 = 1448;

/// Bytes of IPv4 and TCP headers with timestamps.
pub const HEADER_BYTES: u32 = 52;

/// Largest receive window that a SYN announces: its field has no scaling (RFC 7323 §2.2).
pub const FIRST_WINDOW_MAX: u64 = 65_535;

/// Content of a TCP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpPacket {
    /// Data, a SYN or a FIN, with the acknowledgement that it carries if that is new.
    Segment(Segment, Option<Piggyback>),
    /// An acknowledgement alone, or a SYN-ACK.
    Ack(Ack),
}

impl TcpPacket {
    /// Size of the IP packet [bytes].
    #[must_use]
    #[inline]
    pub const fn wire_bytes(&self) -> u32 {
        match self {
            Self::Segment(segment, _) => segment.wire_bytes(),
            Self::Ack(ack) => ack.wire_bytes(),
        }
    }

    /// Whether the network may mark it (`ECT(0)`).
    #[must_use]
    pub const fn is_ecn_capable(&self) -> bool {
        match self {
            Self::Segment(segment, _) => segment.ecn.capable,
            Self::Ack(ack) => ack.capable,
        }
    }
}

/// An acknowledgement on a data segment. It has no SACK blocks: there is no room beside a full segment's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piggyback {
    /// Next byte expected.
    pub ack: u64,
    /// Receive window, from `ack` on [bytes].
    pub window: Bytes,
    /// The echoed `tsval`, as in [`Ack::ts_ecr`].
    pub ts_ecr: Time,
    /// As in [`Ack::ce_count`].
    pub ce_count: u64,
    /// As in [`Ack::ece`].
    pub ece: bool,
}

impl Piggyback {
    /// Return the acknowledgement that `segment` carries.
    #[must_use]
    pub fn ack(&self, segment: &Segment) -> Ack {
        Ack {
            ack: self.ack,
            window: self.window,
            tsval: segment.tsval,
            ts_ecr: self.ts_ecr,
            sacks: SackBlocks::default(),
            dsack: false,
            syn: false,
            ce_count: self.ce_count,
            ece: self.ece,
            ecn: EcnMode::Off,
            capable: segment.ecn.capable,
        }
    }
}

/// ECN fields of a segment, from its IP and TCP headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentEcn {
    /// The mode that a SYN requests.
    pub requested: EcnMode,
    /// Whether it is ECN-capable: the network may mark it (`ECT(0)`).
    pub capable: bool,
    /// `CWR`: the sender received ECE and reduced its window (RFC 3168 §6.1.2).
    pub cwr: bool,
}

/// A data segment, or the SYN (`len` 0).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)] // flags of a header, not states
pub struct Segment {
    /// First byte.
    pub seq: u64,
    /// Bytes of payload.
    pub len: u32,
    /// Whether it is the SYN.
    pub syn: bool,
    /// Whether it carries the FIN.
    pub fin: bool,
    /// PSH: it held the last byte written when it was sent, or it is the last of a burst.
    pub push: bool,
    /// Whether it is a retransmission.
    pub retransmission: bool,
    /// The sender's clock (RFC 7323).
    pub tsval: Time,
    /// The newest `tsval` of the receiver, echoed; the receiver derives the RTT from it for buffer autotuning.
    pub ts_ecr: Time,
    /// ECN fields.
    pub ecn: SegmentEcn,
}

impl Segment {
    /// One past the last byte; the FIN takes a sequence number of its own (RFC 9293 §3.4).
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.seq + self.len as u64 + self.fin as u64
    }

    /// Size of the IP packet [bytes].
    #[must_use]
    pub const fn wire_bytes(&self) -> u32 {
        self.len + HEADER_BYTES
    }

    /// Whether the receiving host may pass `next`, which arrived directly after this segment, to TCP as one with it (GRO, `tcp_gro_receive`).
    /// It must hold the next bytes, no more of them, and have the same timestamps in milliseconds from `since`.
    #[must_use]
    pub const fn merges_with(&self, next: &Self, since: Time) -> bool {
        let mergeable = !self.syn && !self.push && !self.fin && !next.syn && next.len > 0 && next.len <= self.len;
        let same_tsval = timestamp_ms(self.tsval, since) == timestamp_ms(next.tsval, since);
        let same_timestamps = same_tsval && timestamp_ms(self.ts_ecr, since) == timestamp_ms(next.ts_ecr, since);
        // A segment with CWR is not merged with the one before it.
        let same_ecn = self.ecn.capable == next.ecn.capable && !next.ecn.cwr;
        mergeable && same_timestamps && same_ecn && self.end() == next.seq
    }
}

/// Timestamp value in milliseconds (RFC 7323 §5.4).
const fn timestamp_ms(at: Time, since: Time) -> u64 {
    at.since(since).0 / 1_000_000
}

/// Up to three SACK blocks (as many as fit beside timestamps), newest first; `[start, end)`. A block at or below `ack`, or inside the second
/// one, reports a duplicate (DSACK, RFC 2883).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SackBlocks {
    blocks: [(u64, u64); 3],
    len: u8,
}

impl SackBlocks {
    /// Add a block; a fourth is ignored, as there is no room on the wire.
    pub fn push(&mut self, start: u64, end: u64) {
        if let Some(slot) = self.blocks.get_mut(self.len as usize) {
            *slot = (start, end);
            self.len += 1;
        }
    }

    /// The blocks.
    #[must_use]
    pub fn as_slice(&self) -> &[(u64, u64)] {
        &self.blocks[..self.len as usize]
    }
}

/// An acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)] // flags of a header, not states
pub struct Ack {
    /// Next byte expected.
    pub ack: u64,
    /// Receive window, from `ack` on [bytes].
    pub window: Bytes,
    /// The receiver's clock (RFC 7323).
    pub tsval: Time,
    /// The echoed `tsval` (RFC 7323 §4): that of the segment that last advanced the window.
    pub ts_ecr: Time,
    /// Selective acknowledgements.
    pub sacks: SackBlocks,
    /// Whether the first block is a DSACK.
    pub dsack: bool,
    /// Whether it is the SYN-ACK.
    pub syn: bool,
    /// Data packets that arrived CE-marked so far, with accurate feedback (RFC 9768); else 0.
    pub ce_count: u64,
    /// `ECE`: a mark is echoed until the sender answers with CWR (RFC 3168 §6.1.3).
    pub ece: bool,
    /// The mode that a SYN-ACK agrees on.
    pub ecn: EcnMode,
    /// Whether it is ECN-capable: the network may mark it.
    pub capable: bool,
}

impl Ack {
    /// Size of the IP packet [bytes]: headers, plus, with SACK blocks, two bytes of padding, two of option header and eight per block.
    #[must_use]
    pub const fn wire_bytes(&self) -> u32 {
        match self.sacks.len {
            0 => HEADER_BYTES,
            n => HEADER_BYTES + 4 + 8 * n as u32,
        }
    }

    /// An acknowledgement of `ack` at `now` without SACK blocks or ECN.
    #[cfg(test)]
    #[must_use]
    pub fn plain(now: Time, ack: u64) -> Self {
        Self {
            ack,
            window: Bytes(1 << 20),
            tsval: now,
            ts_ecr: now,
            sacks: SackBlocks::default(),
            dsack: false,
            syn: false,
            ce_count: 0,
            ece: false,
            ecn: EcnMode::Off,
            capable: false,
        }
    }

    /// Whether a host that queues this acknowledgement may coalesce it into `next`: same header and options except for the number and the
    /// window (`tcp_add_backlog`), timestamps in milliseconds.
    #[must_use]
    pub fn coalesces_with(&self, next: &Self) -> bool {
        let timestamps = |ack: &Self| (timestamp_ms(ack.tsval, Time::ZERO), timestamp_ms(ack.ts_ecr, Time::ZERO));
        let fields = |ack: &Self| (ack.syn, ack.sacks, ack.dsack, ack.ce_count, ack.ece, ack.ecn, ack.capable);
        !self.syn && self.ack <= next.ack && fields(self) == fields(next) && timestamps(self) == timestamps(next)
    }
}
