//! What crosses the network: segments one way, acknowledgements the other. Sequence numbers are 64-bit and never wrap.

use bentpipe_profile::experiment::EcnMode;
use bentpipe_profile::{Bytes, Time};

/// Maximum segment size: 1500-byte IPv4 packets less 20 bytes of IP, 20 of TCP and 12 of timestamps (RFC 7323).
pub const MSS: u32 = 1448;

/// IPv4, TCP and timestamps.
pub const HEADER_BYTES: u32 = 52;

/// What a segment says of explicit congestion notification, in its IP and TCP headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentEcn {
    /// Of a SYN: what is asked for.
    pub ask: EcnMode,
    /// Whether the network may mark it (`ECT(0)`).
    pub capable: bool,
    /// `CWR`: the sender heard of a mark and reduced its window (RFC 3168 §6.1.2).
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
    /// Whether it opens the connection.
    pub syn: bool,
    /// Whether the application closed behind it.
    pub fin: bool,
    /// PSH: nothing was written behind it when it left, or it is the last of a burst.
    pub push: bool,
    /// Whether these bytes were sent before.
    pub retransmission: bool,
    /// The sender's clock (RFC 7323).
    pub tsval: Time,
    /// The newest `tsval` of the receiver, echoed: from it the receiver knows the RTT that its buffer follows.
    pub ts_ecr: Time,
    /// Congestion notification.
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

    /// Whether a host that gets `behind` directly behind this one may hand both to TCP as one (GRO, `tcp_gro_receive`): the next bytes, no more of them,
    /// with the same timestamps, which count milliseconds from `since`.
    #[must_use]
    pub const fn merges_with(&self, behind: &Self, since: Time) -> bool {
        let data = !self.syn && !self.push && !self.fin && !behind.syn && behind.len > 0 && behind.len <= self.len;
        let sent_alike = ticks(self.tsval, since) == ticks(behind.tsval, since);
        let alike = sent_alike && ticks(self.ts_ecr, since) == ticks(behind.ts_ecr, since);
        // What says that the window came down is not joined to what is before it.
        let marked_alike = self.ecn.capable == behind.ecn.capable && !behind.ecn.cwr;
        data && alike && marked_alike && self.end() == behind.seq
    }
}

/// What a timestamp says: milliseconds (RFC 7323 §5.4).
const fn ticks(at: Time, since: Time) -> u64 {
    at.since(since).0 / 1_000_000
}

/// Up to three SACK blocks (what fits beside timestamps), newest first; `[start, end)`. A block at or below `ack`, or inside the second one, is a
/// duplicate's report (DSACK, RFC 2883).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SackBlocks {
    blocks: [(u64, u64); 3],
    len: u8,
}

impl SackBlocks {
    /// One more block; a fourth is left out, as on the wire.
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
    /// The `tsval` echoed (RFC 7323 §4: of the segment that last advanced the window).
    pub ts_ecr: Time,
    /// Selective acknowledgements.
    pub sacks: SackBlocks,
    /// Whether the first block reports a duplicate.
    pub dsack: bool,
    /// Whether it answers the SYN.
    pub syn: bool,
    /// Data packets that arrived marked so far, where accurate feedback was agreed on (RFC 9768); else 0.
    pub ce_count: u64,
    /// `ECE`: a mark is echoed until the sender says that it heard (RFC 3168 §6.1.3).
    pub ece: bool,
    /// Of the answer to a SYN: what was agreed on.
    pub ecn: EcnMode,
    /// Whether the network may mark it.
    pub capable: bool,
}

impl Ack {
    /// Size of the IP packet [bytes]: headers, and two bytes of padding, two of option head and eight for each SACK block.
    #[must_use]
    pub const fn wire_bytes(&self) -> u32 {
        match self.sacks.len {
            0 => HEADER_BYTES,
            n => HEADER_BYTES + 4 + 8 * n as u32,
        }
    }

    /// One that says nothing but its number, at `now`.
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

    /// Whether a host that holds this one back may let `behind` stand for both: header and options alike but for the number and the window
    /// (`tcp_add_backlog`), timestamps in milliseconds.
    #[must_use]
    pub fn joins(&self, behind: &Self) -> bool {
        let dated = |ack: &Self| (ticks(ack.tsval, Time::ZERO), ticks(ack.ts_ecr, Time::ZERO));
        let said = |ack: &Self| (ack.syn, ack.sacks, ack.dsack, ack.ce_count, ack.ece, ack.ecn, ack.capable);
        !self.syn && self.ack <= behind.ack && said(self) == said(behind) && dated(self) == dated(behind)
    }
}
