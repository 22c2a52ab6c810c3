//! What one acknowledgement shows: RTTs, reordering, and which kind of packets arrived.
//!
//! Source: Linux `tcp_sacktag_one`, `tcp_clean_rtx_queue`, `tcp_ack_update_rtt` (`net/ipv4/tcp_input.c`).

use crate::min_rtt::MinRtt;
use crate::rack::Rack;
use crate::rate_sampler::RateSampler;
use crate::scoreboard::Packet;
use bentpipe_profile::{Nanos, Time};

/// When the oldest and the newest of a group of packets were sent.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// The first in sequence.
    pub first: Time,
    /// The last in sequence.
    pub last: Time,
}

/// Fills up while the scoreboard works through an acknowledgement.
#[derive(Debug)]
pub struct Arrivals<'a> {
    now: Time,
    ts_ecr: Time,
    /// Up to here lies what was outstanding when trouble began.
    high_seq: u64,
    /// Up to here selective acknowledgements had reached before this one (`prior_fack`): what it acknowledges below was overtaken.
    reached: u64,
    min_rtt: Nanos,
    rack: &'a mut Rack,
    rate: &'a mut RateSampler,
    /// Packets newly delivered, duplicates reported included.
    pub delivered: u32,
    /// Packets newly acknowledged cumulatively.
    pub acked: u32,
    /// Packets newly acknowledged selectively.
    pub sacked: u32,
    /// Never retransmitted, now acknowledged cumulatively.
    pub acked_span: Option<Span>,
    /// Never retransmitted, now acknowledged selectively.
    pub sacked_span: Option<Span>,
    /// Whether a retransmitted packet is among those cumulatively acknowledged.
    pub retransmission_acked: bool,
    /// Whether data outstanding when trouble began arrived without a retransmission (`FLAG_ORIG_SACK_ACKED`).
    pub original_arrived: bool,
    /// Lowest packet never retransmitted that arrived after a later one.
    pub overtaken: Option<u64>,
}

impl<'a> Arrivals<'a> {
    /// An acknowledgement that echoes `ts_ecr`.
    pub fn begin(
        now: Time,
        ts_ecr: Time,
        high_seq: u64,
        reached: u64,
        min_rtt: &MinRtt,
        rack: &'a mut Rack,
        rate: &'a mut RateSampler,
    ) -> Self {
        rate.begin();
        Self {
            now,
            ts_ecr,
            high_seq,
            reached,
            min_rtt: min_rtt.get(),
            rack,
            rate,
            delivered: 0,
            acked: 0,
            sacked: 0,
            acked_span: None,
            sacked_span: None,
            retransmission_acked: false,
            original_arrived: false,
            overtaken: None,
        }
    }

    /// A packet is acknowledged cumulatively.
    pub fn on_acked(&mut self, packet: &Packet) {
        self.acked += 1;
        if packet.was_retransmitted() {
            self.retransmission_acked = true;
        } else if !packet.is_sacked() {
            let span = self.acked_span.get_or_insert(Span { first: packet.sent_at, last: packet.sent_at });
            span.last = packet.sent_at;
            self.original(packet, self.reached);
        }
        if !packet.is_sacked() {
            // An echo older than the retransmission: the original arrived, and says nothing about what was sent since (`tcp_skb_spurious_retrans`).
            let original = packet.was_retransmitted() && self.ts_ecr < packet.sent_at;
            self.on_delivered(packet, !original);
        }
    }

    /// A packet is acknowledged selectively; `highest_sacked` is where selective acknowledgements reach by now.
    pub fn on_sacked(&mut self, packet: &Packet, highest_sacked: u64) {
        self.sacked += 1;
        if !packet.was_retransmitted() {
            let span = self.sacked_span.get_or_insert(Span { first: packet.sent_at, last: packet.sent_at });
            span.last = packet.sent_at;
            self.original(packet, highest_sacked);
        }
        // Beyond a hole the echo is an old one, whichever copy arrived (RFC 7323 §4): it cannot tell.
        self.on_delivered(packet, true);
    }

    /// Duplicates were reported: they were delivered too. A tail loss probe's says nothing about reordering.
    pub fn on_duplicates(&mut self, packets: u32, of_probe: bool) {
        self.delivered += packets;
        self.rate.on_duplicates(packets);
        if !of_probe {
            self.rack.on_dsack();
        }
    }

    /// Whether the path reorders; told after the whole acknowledgement.
    pub fn tell_reordering(&mut self, highest_sacked: u64, mss: u32) {
        if let Some(low) = self.overtaken {
            self.rack.on_reordering(low, highest_sacked, mss);
        }
    }

    fn original(&mut self, packet: &Packet, highest_sacked: u64) {
        if packet.seq < highest_sacked {
            self.overtaken = Some(self.overtaken.map_or(packet.seq, |low| low.min(packet.seq)));
        }
        self.original_arrived |= packet.end() <= self.high_seq;
    }

    fn on_delivered(&mut self, packet: &Packet, dated: bool) {
        self.delivered += 1;
        if dated {
            self.rack.on_delivered(self.now, packet.sent_at, packet.end(), packet.was_retransmitted(), self.min_rtt);
        }
        self.rate.on_delivered(packet.sent_at, packet.end(), packet.tx_in_flight, packet.lost_before, packet.snapshot());
    }
}
