//! Packets delivered by one acknowledgement: RTT spans, reordering, and evidence for undo (Linux's `tcp_sacktag_state`).
//!
//! Source: Linux `tcp_sacktag_one`, `tcp_clean_rtx_queue`, `tcp_ack_update_rtt` (`net/ipv4/tcp_input.c`).

use crate::min_rtt::MinRtt;
use crate::rack::Rack;
use crate::rate_sampler::RateSampler;
use crate::sent_packet::Packet;
use bentpipe_profile::{Nanos, Time};

/// Send times of the first and the last of a group of packets.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// The first in sequence.
    pub first: Time,
    /// The last in sequence.
    pub last: Time,
}

/// Collects what the scoreboard finds delivered while it processes one acknowledgement.
#[derive(Debug)]
pub struct Arrivals<'a> {
    now: Time,
    ts_ecr: Time,
    /// End of the data that was outstanding when the current state of recovery began.
    high_seq: u64,
    /// Highest sequence number selectively acknowledged before this acknowledgement (`prior_fack`): original data acknowledged below it was
    /// reordered.
    prior_highest_sacked: u64,
    min_rtt: Nanos,
    rack: &'a mut Rack,
    rate: &'a mut RateSampler,
    /// Packets newly delivered, including reported duplicates.
    pub delivered: u32,
    /// Packets newly acknowledged cumulatively.
    pub acked: u32,
    /// Packets newly acknowledged selectively.
    pub sacked: u32,
    /// Packets never retransmitted and now acknowledged cumulatively.
    pub acked_span: Option<Span>,
    /// Packets never retransmitted and now acknowledged selectively.
    pub sacked_span: Option<Span>,
    /// Whether a retransmitted packet was cumulatively acknowledged.
    pub retransmission_acked: bool,
    /// Whether data below `high_seq` arrived without a retransmission (`FLAG_ORIG_SACK_ACKED`).
    pub original_arrived: bool,
    /// Lowest packet, never retransmitted, that arrived after a later one.
    pub reordered_from: Option<u64>,
}

impl<'a> Arrivals<'a> {
    /// Start the processing of an acknowledgement that echoes `ts_ecr`.
    pub fn begin(
        now: Time,
        ts_ecr: Time,
        high_seq: u64,
        prior_highest_sacked: u64,
        min_rtt: &MinRtt,
        rack: &'a mut Rack,
        rate: &'a mut RateSampler,
    ) -> Self {
        rate.begin();
        Self {
            now,
            ts_ecr,
            high_seq,
            prior_highest_sacked,
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
            reordered_from: None,
        }
    }

    /// Record a packet acknowledged cumulatively.
    pub fn on_acked(&mut self, packet: &Packet) {
        self.acked += 1;
        if packet.was_retransmitted() {
            self.retransmission_acked = true;
        } else if !packet.is_sacked() {
            let span = self.acked_span.get_or_insert(Span { first: packet.sent_at, last: packet.sent_at });
            span.last = packet.sent_at;
            self.on_original(packet, self.prior_highest_sacked);
        }
        if !packet.is_sacked() {
            // An echo older than the retransmission: the original arrived, so the retransmission's send time means nothing
            // (`tcp_skb_spurious_retrans`).
            let is_original = packet.was_retransmitted() && self.ts_ecr < packet.sent_at;
            self.on_delivered(packet, !is_original);
        }
    }

    /// Record a packet acknowledged selectively; `highest_sacked` is the highest sequence number selectively acknowledged so far.
    pub fn on_sacked(&mut self, packet: &Packet, highest_sacked: u64) {
        self.sacked += 1;
        if !packet.was_retransmitted() {
            let span = self.sacked_span.get_or_insert(Span { first: packet.sent_at, last: packet.sent_at });
            span.last = packet.sent_at;
            self.on_original(packet, highest_sacked);
        }
        // Beyond a hole the echo is old, whichever copy arrived (RFC 7323 §4), so it cannot decide.
        self.on_delivered(packet, true);
    }

    /// Record duplicates reported by DSACK: they were delivered too. The duplicate of a tail loss probe is no evidence of reordering.
    pub fn on_duplicates(&mut self, packets: u32, of_probe: bool) {
        self.delivered += packets;
        self.rate.on_duplicates(packets);
        if !of_probe {
            self.rack.on_dsack();
        }
    }

    /// Report reordering to RACK, once the whole acknowledgement is processed.
    pub fn report_reordering(&mut self, highest_sacked: u64, mss: u32) {
        if let Some(low) = self.reordered_from {
            self.rack.on_reordering(low, highest_sacked, mss);
        }
    }

    fn on_original(&mut self, packet: &Packet, highest_sacked: u64) {
        if packet.seq < highest_sacked {
            self.reordered_from = Some(self.reordered_from.map_or(packet.seq, |low| low.min(packet.seq)));
        }
        self.original_arrived |= packet.end() <= self.high_seq;
    }

    fn on_delivered(&mut self, packet: &Packet, has_valid_send_time: bool) {
        self.delivered += 1;
        if has_valid_send_time {
            self.rack.on_delivered(self.now, packet.sent_at, packet.end(), packet.was_retransmitted(), self.min_rtt);
        }
        self.rate.on_delivered(packet.sent_at, packet.end(), packet.tx_in_flight, packet.lost_before, packet.snapshot());
    }
}
