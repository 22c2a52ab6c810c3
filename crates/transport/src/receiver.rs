//! The receiving end of a connection.

use crate::ack_policy::{AckPolicy, Arrived};
use crate::config::ReceiverConfig;
use crate::ecn::ReceiverEcn;
use crate::rcvbuf::ReceiveBuffer;
use crate::reader::Reader;
use crate::reassembly::{Placed, Reassembly};
use crate::wire::{Ack, Segment};
use bentpipe_profile::experiment::EcnMode;
use bentpipe_profile::{Bytes, Time};

/// A receiver whose application reads what is there when it has woken up. A driver gives it segments, sends the acknowledgements it returns, and comes back at
/// [`Self::wake_at`].
pub struct Receiver {
    mss: u32,
    /// Most segments that TCP sees as one.
    gro_segments: u32,
    /// How many of them came before the one that comes next, and what they were.
    merged: Option<(u32, Arrived)>,
    data: Reassembly,
    buffer: ReceiveBuffer,
    policy: AckPolicy,
    /// The timestamp to echo (RFC 7323 §4), and that of the SYN.
    ts_recent: Time,
    opened: Time,
    /// What was last acknowledged, and the right edge offered.
    acknowledged: u64,
    edge: u64,
    reader: Reader,
    /// Bytes in order that the application has not read.
    unread: u64,
    /// Sequence number of the FIN, once seen.
    fin: Option<u64>,
    ecn: ReceiverEcn,
}

impl Receiver {
    /// Before the connection.
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
            opened: Time::ZERO,
            acknowledged: 0,
            edge: 0,
            reader: Reader::new(config.streams),
            unread: 0,
            fin: None,
            ecn: ReceiverEcn::new(config.ecn),
        }
    }

    /// A segment arrives; `ce`: marked by the network. `behind`: the next one, where both arrive at the same instant; the host may then see them as
    /// one, and it is marked if this one is. `last`: of those of this connection that arrive at this instant. The acknowledgements that are sent at once: one that waited and must leave before this segment puts its blocks out of reach, and the
    /// segment's own.
    pub fn on_segment(&mut self, now: Time, segment: &Segment, ce: bool, behind: Option<&Segment>, last: bool) -> [Option<Ack>; 2] {
        if segment.syn {
            (self.ts_recent, self.opened) = (segment.tsval, segment.tsval);
            let ecn = self.ecn.on_syn(segment.ecn.ask);
            return [None, Some(Ack { syn: true, ecn, capable: false, ..self.acknowledge(now) })];
        }
        let displaces = self.policy.is_compressing() && self.data.displaces(segment.seq, segment.end());
        let waited = displaces.then(|| self.acknowledge(now));
        // The echo is that of the oldest segment not acknowledged: its delay counts for the RTT.
        if segment.seq <= self.acknowledged {
            self.ts_recent = self.ts_recent.max(segment.tsval);
        }
        self.buffer.on_segment(now, segment.len, segment.ts_ecr);
        if segment.fin {
            self.fin = Some(segment.end() - 1);
        }
        let before = self.data.next();
        let placed = self.data.insert(segment.seq, segment.end());
        let tell_soon = self.ecn.on_data(segment.ecn, ce, placed == Placed::Duplicate);
        let in_order = matches!(placed, Placed::InOrder { .. });
        let mut opened = false;
        if in_order {
            self.unread += self.data.next() - before; // with what a filled hole had held back
            opened = self.buffer.open(segment.len, self.data.beyond() + self.unread);
        } else if placed == Placed::OutOfOrder {
            self.buffer.on_out_of_order(self.data.beyond_span());
        }
        // As much window again as was offered last (`__tcp_select_window(sk) >= tp->rcv_wnd`).
        let roomy = self.buffer.window(self.data.beyond() + self.unread) >= self.edge - self.acknowledged;
        let arrived = Arrived {
            roomy,
            read: false,
            in_order,
            filled: placed == Placed::InOrder { filled: true },
            duplicate: placed == Placed::Duplicate,
            pushed: segment.len < self.mss || segment.fin || segment.push,
            opened,
            ce: tell_soon,
            cwr: segment.ecn.cwr,
            hole: self.data.has_hole(),
            next: self.data.next(),
            unacknowledged: self.data.next() - self.acknowledged,
        };
        let (count, arrived) = match self.merged.take() {
            Some((count, before)) => (count + 1, before.with(arrived)),
            None => (1, arrived),
        };
        if count < self.gro_segments && behind.is_some_and(|behind| segment.merges_with(behind, self.opened)) {
            self.merged = Some((count, arrived));
            return [waited, None];
        }
        let read = self.reader.reads(self.unread > 0, last);
        if read && self.unread > 0 {
            self.unread = 0;
            self.buffer.on_read(now, self.data.next(), self.data.beyond_span());
        }
        let arrived = Arrived { read, ..arrived };
        [waited, self.policy.on_segment(now, arrived, self.buffer.rtt()).then(|| self.acknowledge(now))]
    }

    /// When [`Self::on_wake`] has something to do.
    #[must_use]
    pub fn wake_at(&self) -> Option<Time> {
        self.policy.due_at()
    }

    /// The acknowledgement that waited, if it is due.
    pub fn on_wake(&mut self, now: Time) -> Option<Ack> {
        self.policy.on_wake(now, self.buffer.rtt()).then(|| self.acknowledge(now))
    }

    /// Payload given to the application, in order.
    #[must_use]
    pub fn delivered(&self) -> Bytes {
        Bytes(self.data.next() - u64::from(self.is_closed()))
    }

    /// Whether everything up to the FIN arrived.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.fin.is_some_and(|fin| self.data.next() > fin)
    }

    /// Data packets that arrived marked.
    #[must_use]
    pub const fn marks(&self) -> u64 {
        self.ecn.count()
    }

    fn acknowledge(&mut self, now: Time) -> Ack {
        self.policy.on_ack_sent();
        let next = self.data.next();
        self.acknowledged = next;
        self.edge = self.edge.max(next + self.buffer.window(self.data.beyond() + self.unread));
        let (sacks, dsack) = self.data.report();
        let (ece, ce_count, capable) = self.ecn.echo();
        Ack {
            ack: next,
            window: Bytes(self.edge - next),
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

    /// Behind 1000 segments in order, two of three arrive, fifteen of them in a millisecond: without the flush an acknowledgement a millisecond, of
    /// three blocks, could not tell of seven.
    #[test]
    fn every_block_is_reported_however_many_arrive_while_acknowledgements_are_compressed() {
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

    /// The acknowledgements of segments that arrive together.
    fn together(receiver: &mut Receiver, segments: &[Segment]) -> Vec<Ack> {
        let now = Time(1_000_000_000);
        let behind = segments.iter().skip(1).map(Some).chain([None]);
        let one = |(segment, behind): (&Segment, Option<&Segment>)| receiver.on_segment(now, segment, false, behind, behind.is_none());
        segments.iter().zip(behind).flat_map(one).flatten().collect()
    }

    #[test]
    fn what_arrives_together_is_acknowledged_once_up_to_64_kb() {
        let mut receiver = Receiver::new(ReceiverConfig::default());
        let segments: Vec<_> = (0..100).map(segment).collect();
        let acks: Vec<_> = together(&mut receiver, &segments).iter().map(|ack| ack.ack / MSS).collect();
        assert_eq!(acks, [45, 90, 100]);
        let mut without = Receiver::new(ReceiverConfig { gro_segments: 1, ..ReceiverConfig::default() });
        assert!(together(&mut without, &segments).len() >= 50);
    }

    #[test]
    fn what_is_no_continuation_ends_it() {
        let mut receiver = Receiver::new(ReceiverConfig::default());
        let mut segments: Vec<_> = [0, 1, 2, 4, 5, 7].map(segment).to_vec();
        segments[1].tsval = Time(1_001_000_000); // another millisecond of the sender's clock
        segments[2].tsval = Time(1_001_000_000);
        let acks = together(&mut receiver, &segments);
        assert_eq!(acks.iter().map(|ack| ack.ack / MSS).collect::<Vec<_>>(), [1, 3, 3, 3]);
        assert_eq!(acks[2].sacks.as_slice(), [(4 * MSS, 6 * MSS)], "two of them, told at once");
    }
}
