//! The receiving end of a connection.

use crate::ack_policy::{AckPolicy, ReceivedSegment};
use crate::config::ReceiverConfig;
use crate::ecn::ReceiverEcn;
use crate::rcvbuf::ReceiveBuffer;
use crate::reader::Reader;
use crate::reassembly::{Placement, Reassembly};
use crate::wire::{Ack, Piggyback, Segment};
use bentpipe_profile::experiment::EcnMode;
use bentpipe_profile::{Bytes, Time};

/// A receiver whose application reads all available data once it has woken up. The driver passes it segments, sends the acknowledgements it
/// returns, and calls [`Self::on_wake`] at [`Self::wake_at`].
pub struct Receiver {
    mss: u32,
    /// Most segments that GRO merges into one.
    gro_segments: u32,
    /// Segments merged so far, and their combined properties.
    merged: Option<(u32, ReceivedSegment)>,
    data: Reassembly,
    buffer: ReceiveBuffer,
    policy: AckPolicy,
    /// Timestamp to echo (RFC 7323 §4), and that of the SYN.
    ts_recent: Time,
    syn_tsval: Time,
    /// Last sequence number acknowledged, and the right edge of the window offered.
    acknowledged: u64,
    window_edge: u64,
    reader: Reader,
    /// Bytes in order that the application has not read.
    unread: u64,
    /// Whether the application chooses when and how much it reads.
    reads_by_hand: bool,
    /// Sequence number of the FIN, once seen.
    fin: Option<u64>,
    ecn: ReceiverEcn,
}

impl Receiver {
    /// Create a receiver that waits for the SYN.
    #[must_use]
    pub fn new(config: ReceiverConfig) -> Self {
        Self {
            mss: config.mss,
            gro_segments: config.gro_segments,
            merged: None,
            data: Reassembly::default(),
            buffer: ReceiveBuffer::new(&config),
            policy: AckPolicy::new(&config),
            ts_recent: Time::ZERO,
            syn_tsval: Time::ZERO,
            acknowledged: 0,
            window_edge: 0,
            reader: Reader::new(config.host_times),
            unread: 0,
            reads_by_hand: false,
            fin: None,
            ecn: ReceiverEcn::new(config.ecn),
        }
    }

    /// Process a SYN before the handshake is done, and return the SYN-ACK.
    pub fn on_syn(&mut self, now: Time, syn: &Segment) -> Ack {
        self.ts_recent = self.ts_recent.max(syn.tsval);
        self.syn_tsval = self.ts_recent;
        self.ecn.on_syn(syn.ecn.requested);
        self.syn_ack(now)
    }

    /// Return the SYN-ACK.
    pub fn syn_ack(&mut self, now: Time) -> Ack {
        Ack { syn: true, ecn: self.ecn.mode(), capable: false, ..self.acknowledge(now) }
    }

    /// Process a SYN or a SYN-ACK after the handshake, with the clock `tsval`, and return the ACK that answers it (RFC 9293 §3.10.7.4).
    pub fn on_late_syn(&mut self, now: Time, tsval: Time) -> Ack {
        self.ts_recent = self.ts_recent.max(tsval);
        self.acknowledge(now)
    }

    /// Process a data segment and return the acknowledgements to send at once: a compressed ACK that must leave before this segment displaces its
    /// SACK blocks, and the segment's own.
    ///
    /// `ce`: the network marked it. `next`: the segment that arrives at the same instant directly after it, which GRO may merge with it; the
    /// merged segment is marked if this one is. `last`: no other segment of this connection follows at this instant.
    pub fn on_segment(&mut self, now: Time, segment: &Segment, ce: bool, next: Option<&Segment>, last: bool) -> [Option<Ack>; 2] {
        let displaces_block = self.policy.is_compressing() && self.data.displaces_block(segment.seq, segment.end());
        let compressed_ack = displaces_block.then(|| self.acknowledge(now));
        // Echo the oldest segment not acknowledged, so that the ACK delay counts in the RTT.
        if segment.seq <= self.acknowledged {
            self.ts_recent = self.ts_recent.max(segment.tsval);
        }
        self.buffer.on_segment(now, segment.len, segment.ts_ecr);
        if segment.fin {
            self.fin = Some(segment.end() - 1);
        }
        let before = self.data.next();
        let placement = self.data.insert(segment.seq, segment.end());
        let ce_ack_due = self.ecn.on_data(segment.ecn, ce, placement == Placement::Duplicate);
        let in_order = matches!(placement, Placement::InOrder { .. });
        let mut opens_window = false;
        if in_order {
            self.unread += self.data.next() - before; // including data that a filled hole had blocked
            opens_window = self.buffer.grow_window(segment.len, self.data.out_of_order_bytes() + self.unread);
        } else if placement == Placement::OutOfOrder {
            self.buffer.on_out_of_order(self.data.out_of_order_span());
        }
        // Whether at least the last offered window can be offered (`__tcp_select_window(sk) >= tp->rcv_wnd`).
        let has_window_room = self.buffer.window(self.data.out_of_order_bytes() + self.unread) >= self.window_edge - self.acknowledged;
        let received = ReceivedSegment {
            has_window_room,
            all_read: false,
            in_order,
            fills_hole: placement == Placement::InOrder { filled: true },
            duplicate: placement == Placement::Duplicate,
            pushed: segment.len < self.mss || segment.fin || segment.push,
            opens_window,
            needs_ce_ack: ce_ack_due,
            cwr: segment.ecn.cwr,
            has_hole: self.data.has_hole(),
            next: self.data.next(),
            unacknowledged: self.data.next() - self.acknowledged,
        };
        let (count, received) = match self.merged.take() {
            Some((count, before)) => (count + 1, before.merge(received)),
            None => (1, received),
        };
        if count < self.gro_segments && next.is_some_and(|next| segment.merges_with(next, self.syn_tsval)) {
            self.merged = Some((count, received));
            return [compressed_ack, None];
        }
        let all_read = !self.reads_by_hand && self.reader.reads_now(self.unread > 0, last);
        if all_read && self.unread > 0 {
            self.unread = 0;
            self.buffer.on_read(now, self.data.next(), self.data.out_of_order_span());
        }
        let received = ReceivedSegment { all_read, ..received };
        [compressed_ack, self.policy.on_segment(now, received, self.buffer.rtt()).then(|| self.acknowledge(now))]
    }

    /// Let the application choose from now on when and how much it reads: what it leaves fills the receive window.
    pub const fn read_by_hand(&mut self) {
        self.reads_by_hand = true;
        self.policy.read_by_hand();
    }

    /// Let the application read `bytes` of those that have arrived in order. Returns the acknowledgement that waited for it, or one that at least doubles the
    /// window that the sender knows of (`__tcp_cleanup_rbuf`).
    pub fn read(&mut self, now: Time, bytes: Bytes) -> Option<Ack> {
        self.unread = self.unread.saturating_sub(bytes.0);
        self.buffer.on_read(now, self.data.next() - self.unread, self.data.out_of_order_span());
        let known = self.window_edge.saturating_sub(self.data.next());
        let window = self.buffer.window(self.data.out_of_order_bytes() + self.unread);
        (self.policy.waits_for_reading() || window >= 2 * known.max(1)).then(|| self.acknowledge(now))
    }

    /// Prepare for the other end's data at the end that opened the connection.
    pub fn on_syn_ack(&mut self, ack: &Ack) {
        (self.ts_recent, self.syn_tsval) = (ack.tsval, ack.tsval);
        self.ecn.on_syn(ack.ecn);
    }

    /// The other end's clock that acknowledgements echo.
    #[must_use]
    pub const fn ts_recent(&self) -> Time {
        self.ts_recent
    }

    /// The negotiated ECN mode.
    #[must_use]
    pub fn ecn_mode(&self) -> EcnMode {
        self.ecn.mode()
    }

    /// Record that this end sends a data segment. Returns the acknowledgement that it carries: one of data not acknowledged yet, without SACK
    /// blocks.
    #[inline]
    pub fn on_data_sent(&mut self, now: Time) -> Option<Piggyback> {
        // Most connections have data in one direction only.
        if self.data.next() == 0 { None } else { self.piggyback(now) }
    }

    fn piggyback(&mut self, now: Time) -> Option<Piggyback> {
        self.policy.on_data_sent(now);
        if self.data.next() == self.acknowledged || self.data.has_report() {
            return None;
        }
        let Ack { ack, window, ts_ecr, ce_count, ece, .. } = self.acknowledge(now);
        Some(Piggyback { ack, window, ts_ecr, ce_count, ece })
    }

    /// Time at which [`Self::on_wake`] has work.
    #[must_use]
    #[inline]
    pub fn wake_at(&self) -> Option<Time> {
        self.policy.due_at()
    }

    /// Return the delayed or compressed ACK, if it is due.
    pub fn on_wake(&mut self, now: Time) -> Option<Ack> {
        self.policy.on_wake(now, self.buffer.rtt()).then(|| self.acknowledge(now))
    }

    /// Payload delivered in order.
    #[must_use]
    #[inline]
    pub fn delivered(&self) -> Bytes {
        Bytes(self.data.next() - u64::from(self.is_closed()))
    }

    /// Whether everything up to the FIN arrived.
    #[must_use]
    #[inline]
    pub fn is_closed(&self) -> bool {
        self.fin.is_some_and(|fin| self.data.next() > fin)
    }

    /// Data packets that arrived CE-marked.
    #[must_use]
    pub const fn marks(&self) -> u64 {
        self.ecn.count()
    }

    /// Return an acknowledgement of everything received so far.
    pub fn acknowledge(&mut self, now: Time) -> Ack {
        self.policy.on_ack_sent();
        let next = self.data.next();
        self.acknowledged = next;
        self.window_edge = self.window_edge.max(next + self.buffer.window(self.data.out_of_order_bytes() + self.unread));
        let (sacks, dsack) = self.data.report();
        let (ece, ce_count, capable) = self.ecn.echo();
        Ack {
            ack: next,
            window: Bytes(self.window_edge - next),
            tsval: now,
            ts_ecr: self.ts_recent,
            sacks,
            dsack,
            syn: false,
            ce_count,
            ece,
            ecn: EcnMode::Off,
            capable,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::SegmentEcn;
    use bentpipe_profile::Nanos;
    use std::collections::BTreeSet;

    const MSS: u64 = 1448;

    /// After 1000 segments in order, two of every three arrive, fifteen of them per millisecond. Without the flush, one ACK per millisecond
    /// with three blocks could not report seven.
    #[test]
    fn every_sack_block_is_reported_while_acks_are_compressed() {
        let mut receiver = Receiver::new(ReceiverConfig::default());
        let mut reported = BTreeSet::new();
        let mut acks = 0;
        for n in 0..1200_u64 {
            let now = Time(1_000_000_000 + n * 45_000);
            let (tsval, ts_ecr) = (now, Time(now.0 - 50_000_000));
            let segment = Segment { tsval, ts_ecr, ..segment(n) };
            let woken = receiver.wake_at().is_some_and(|at| at <= now).then(|| receiver.on_wake(now)).flatten();
            let arrived = if n < 1000 || n % 3 != 1 { receiver.on_segment(now, &segment, false, None, true) } else { [None, None] };
            for ack in woken.into_iter().chain(arrived.into_iter().flatten()).filter(|a| a.ack >= 1000 * MSS) {
                acks += 1;
                reported.extend(ack.sacks.as_slice().iter().map(|&(start, _)| start / MSS));
            }
        }
        assert!(receiver.buffer.rtt().is_some_and(|rtt| rtt >= Nanos::from_millis(20)), "compression sets in from 20 ms on");
        assert!(acks < 100, "{acks} for 133 segments: they are compressed");
        let unreported: Vec<u64> = (1001..1190).step_by(3).filter(|n| !reported.contains(n)).collect();
        assert!(unreported.is_empty(), "{unreported:?}");
    }

    fn segment(n: u64) -> Segment {
        let (tsval, ts_ecr) = (Time(1_000_000_000), Time(950_000_000));
        Segment {
            seq: n * MSS,
            len: 1448,
            syn: false,
            fin: false,
            push: false,
            retransmission: false,
            tsval,
            ts_ecr,
            ecn: SegmentEcn::default(),
        }
    }

    /// Return the ACKs of segments that arrive at one instant.
    fn together(receiver: &mut Receiver, segments: &[Segment]) -> Vec<Ack> {
        let now = Time(1_000_000_000);
        let next = segments.iter().skip(1).map(Some).chain([None]);
        let one = |(segment, next): (&Segment, Option<&Segment>)| receiver.on_segment(now, segment, false, next, next.is_none());
        segments.iter().zip(next).flat_map(one).flatten().collect()
    }

    #[test]
    fn gro_acknowledges_segments_of_one_instant_once_per_64_kb() {
        let mut receiver = Receiver::new(ReceiverConfig::default());
        let segments: Vec<_> = (0..100).map(segment).collect();
        let acks: Vec<_> = together(&mut receiver, &segments).iter().map(|ack| ack.ack / MSS).collect();
        assert_eq!(acks, [45, 90, 100]);
        let mut without = Receiver::new(ReceiverConfig { gro_segments: 1, ..ReceiverConfig::default() });
        assert!(together(&mut without, &segments).len() >= 50);
    }

    #[test]
    fn gro_ends_at_a_segment_that_does_not_continue() {
        let mut receiver = Receiver::new(ReceiverConfig::default());
        let mut segments: Vec<_> = [0, 1, 2, 4, 5, 7].map(segment).to_vec();
        segments[1].tsval = Time(1_001_000_000); // another millisecond of the sender's clock
        segments[2].tsval = Time(1_001_000_000);
        let acks = together(&mut receiver, &segments);
        assert_eq!(acks.iter().map(|ack| ack.ack / MSS).collect::<Vec<_>>(), [1, 3, 3, 3]);
        assert_eq!(acks[2].sacks.as_slice(), [(4 * MSS, 6 * MSS)], "two segments in one block, reported at once");
    }
}
