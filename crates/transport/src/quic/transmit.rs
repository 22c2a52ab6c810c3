//! What leaves: one packet in each datagram.

use super::sent::Sent;
use super::wire::{Chunk, Control, MAX_DATAGRAM, QuicPacket, Space};
use super::{Quic, Role};
use crate::stats::Limit;
use bentpipe_profile::Time;

/// Bytes that a server may send for each received from an address that is not validated (RFC 9000 §8.1).
const AMPLIFICATION: u64 = 3;
/// Packets that only acknowledge before one also has a PING, so that the other end acknowledges them (`kMaxConsecutiveNonRetransmittablePackets` in Chromium).
const MOST_SILENT: u32 = 19;

impl Quic {
    /// Whether a server may send a datagram of `bytes` before the client's address is validated.
    pub(super) const fn may_send_unvalidated(&self, bytes: u32) -> bool {
        self.bytes_sent + bytes as u64 <= AMPLIFICATION * self.bytes_received
    }

    /// Return the next packet to send now; call until `None`.
    pub fn poll_transmit(&mut self, now: Time) -> Option<QuicPacket> {
        if now >= self.stop || self.is_closed_by_peer {
            return None;
        }
        if self.has_closed {
            return std::mem::take(&mut self.owes_close).then(|| self.closing_packet());
        }
        if let Some(packet) = self.handshake_packet(now) {
            return Some(packet);
        }
        if !self.is_established() {
            return None;
        }
        if self.is_closing && self.outgoing.is_acknowledged() {
            self.has_closed = true;
            return Some(self.closing_packet());
        }
        self.data_packet(now)
    }

    fn handshake_packet(&mut self, now: Time) -> Option<QuicPacket> {
        let has_data = self.crypto_out.has_data();
        let is_probe = self.probes[0] > 0;
        let acknowledges = self.received[0].due() <= now;
        if !(has_data || is_probe || acknowledges) {
            return None;
        }
        if !self.is_validated && !self.may_send_unvalidated(if has_data { MAX_DATAGRAM } else { 100 }) {
            return None;
        }
        self.probes[0] = self.probes[0].saturating_sub(1);
        let control = Control { ping: is_probe && !has_data, ..Control::default() };
        Some(self.packet(now, Space::Handshake, control))
    }

    fn data_packet(&mut self, now: Time) -> Option<QuicPacket> {
        self.pacing_wake = None;
        let has_data = self.outgoing.has_data();
        let is_probe = self.probes[1] > 0;
        let is_open = self.window.is_open(self.in_flight());
        let departure = self.window.pacer.blocked_until(now);
        let may_send = is_probe || (is_open && departure.is_none());
        let owes = self.owes_handshake_done || self.incoming.owes_limits();
        if may_send && (has_data || owes || is_probe) {
            self.probes[1] = self.probes[1].saturating_sub(1);
            let mut control = Control { handshake_done: std::mem::take(&mut self.owes_handshake_done), ..Control::default() };
            self.incoming.announce(&mut control);
            control.ping = is_probe && !has_data && !owes;
            return Some(self.packet(now, Space::Data, control));
        }
        if self.received[1].due() <= now {
            let control = Control { ping: self.counters.silent >= MOST_SILENT, ..Control::default() };
            let packet = self.empty_packet(now, Space::Data, control);
            self.on_sent(now, &packet);
            return Some(packet);
        }
        self.pause(now, has_data || owes, is_open, departure);
        None
    }

    /// Record the limiting factor after the last packet that may leave.
    fn pause(&mut self, now: Time, has_data: bool, is_open: bool, departure: Option<Time>) {
        let limit = match (has_data, self.outgoing.is_blocked()) {
            (true, _) => Limit::Window,
            (false, true) => Limit::Receiver,
            (false, false) => Limit::Sender,
        };
        self.pacing_wake = departure.filter(|_| has_data && is_open);
        self.window.on_pause(now, has_data && !is_open, !has_data, self.outstanding());
        self.window.pacer.end_burst();
        self.limits.set(now, limit);
    }

    /// Make a packet with an ACK frame and, in the room that is left, data.
    fn packet(&mut self, now: Time, space: Space, control: Control) -> QuicPacket {
        let mut packet = self.empty_packet(now, space, control);
        let outgoing = match space {
            Space::Handshake => &mut self.crypto_out,
            Space::Data => &mut self.outgoing,
        };
        outgoing.begin_packet();
        let mut is_retransmission = false;
        while let Some((chunk, was_sent)) = outgoing.next_chunk(now, MAX_DATAGRAM.saturating_sub(packet.bytes)) {
            packet.bytes += chunk.len + Chunk::frame_bytes(chunk.stream, chunk.offset);
            packet.chunks.push(chunk);
            is_retransmission |= was_sent;
        }
        self.counters.retransmits += u64::from(is_retransmission);
        // A client's Initial packets fill a datagram (RFC 9000 §14.1).
        if space == Space::Handshake && self.role == Role::Client && !self.is_established() {
            packet.bytes = MAX_DATAGRAM;
        }
        self.on_sent(now, &packet);
        packet
    }

    fn closing_packet(&mut self) -> QuicPacket {
        let space = if self.is_established() { Space::Data } else { Space::Handshake };
        let number = self.sent[space as usize].next();
        let bytes = space.header_bytes() + 4;
        self.counters.sent += 1;
        QuicPacket { space, number, ack: None, chunks: Vec::new(), control: Control::default(), close: true, bytes }
    }

    /// Make a packet without data; it has an ACK frame if there is something new to acknowledge.
    fn empty_packet(&mut self, now: Time, space: Space, control: Control) -> QuicPacket {
        let received = &mut self.received[space as usize];
        let size = received.frame_bytes();
        let ack = if received.has_news() { received.take_frame(now) } else { None };
        let bytes = space.header_bytes() + control.bytes() + ack.as_ref().map_or(0, |_| size);
        QuicPacket { space, number: self.sent[space as usize].next(), ack, chunks: Vec::new(), control, close: false, bytes }
    }

    fn on_sent(&mut self, now: Time, packet: &QuicPacket) {
        let is_in_flight = packet.is_ack_eliciting();
        let is_counted = is_in_flight && packet.space == Space::Data;
        let in_flight = self.in_flight();
        self.bytes_sent += u64::from(packet.bytes);
        self.counters.sent += 1;
        self.counters.silent = if is_in_flight { 0 } else { self.counters.silent + 1 };
        let tx_in_flight = in_flight + u32::from(is_counted);
        let record = Sent {
            at: now,
            is_in_flight,
            chunks: packet.chunks.clone(),
            control: packet.control.clone(),
            ack_largest: packet.ack.as_ref().map(super::wire::AckFrame::largest),
            snapshot: self.window.rate.on_sent(now, in_flight == 0),
            lost_before: self.window.lost,
            tx_in_flight,
        };
        self.sent[packet.space as usize].push(record);
        if is_counted {
            self.window.on_sent(now, packet.bytes, tx_in_flight);
        }
    }
}
