//! What arrives: frames, in the order of the packets.

use super::rtt::MAX_ACK_DELAY;
use super::sent::is_persistent_congestion;
use super::window::Acked;
use super::wire::{AckFrame, CRYPTO, Chunk, QuicPacket, Space};
use super::{CLIENT_FINISHED, CLIENT_HELLO, Handshake, Quic, Role, SERVER_FLIGHT};
use crate::stats::FlowEvent;
use crate::tcp::StateProbe;
use bentpipe_profile::{Nanos, Time};

/// 1-RTT packets that are kept until the handshake is complete (`kMaxUndecryptablePackets` in Chromium).
const MOST_UNDECRYPTABLE: usize = 100;

impl Quic {
    /// Process a packet that arrives.
    pub fn on_packet(&mut self, now: Time, packet: QuicPacket) {
        self.bytes_received += u64::from(packet.bytes);
        if self.has_closed {
            self.owes_close |= !packet.close; // RFC 9000 §10.2.1
            self.is_closed_by_peer |= packet.close;
            return;
        }
        if self.is_closed_by_peer || (packet.space == Space::Handshake && self.handshake == Handshake::Confirmed) {
            return;
        }
        if packet.space == Space::Data && !self.is_established() {
            if self.undecryptable.len() < MOST_UNDECRYPTABLE {
                self.undecryptable.push(packet);
            }
            return;
        }
        self.process(now, &packet);
        if self.is_established() {
            for packet in std::mem::take(&mut self.undecryptable) {
                self.process(now, &packet);
            }
        }
    }

    fn process(&mut self, now: Time, packet: &QuicPacket) {
        let space = packet.space as usize;
        if !self.received[space].on_packet(now, packet.number, packet.is_ack_eliciting()) {
            return;
        }
        if packet.close {
            self.is_closed_by_peer = true;
            self.outgoing.clear();
            return;
        }
        if let Some(ack) = &packet.ack {
            self.is_validated = true; // the client has read packets that only it received
            self.on_ack(now, packet.space, ack);
        }
        for chunk in &packet.chunks {
            if chunk.stream == CRYPTO {
                self.on_crypto(now, chunk);
            } else if self.incoming.on_chunk(now, chunk) {
                self.delays.push(now.since(chunk.first_sent));
            }
        }
        if let Some(limit) = packet.control.max_data {
            self.outgoing.on_max_data(limit);
        }
        for &(stream, limit) in &packet.control.max_stream_data {
            self.outgoing.on_max_stream_data(stream, limit);
        }
        if packet.control.handshake_done && self.handshake == Handshake::Complete {
            self.confirm();
        }
        if packet.space == Space::Handshake {
            self.advance_handshake(now);
        }
    }

    fn on_crypto(&mut self, now: Time, chunk: &Chunk) {
        let had_begun = self.crypto_in.delivered_on(CRYPTO) > 0;
        self.crypto_in.on_chunk(now, chunk);
        if self.role == Role::Client && !had_begun && self.crypto_in.delivered_on(CRYPTO) > 0 {
            self.pto_count = 0; // it answers in Handshake packets, and discards its Initial keys (RFC 9001 §4.9.1, RFC 9002 §6.2.2)
        }
    }

    /// Answer what has arrived of the other end's handshake.
    fn advance_handshake(&mut self, now: Time) {
        let arrived = self.crypto_in.delivered_on(CRYPTO);
        if self.handshake != Handshake::Open {
            return;
        }
        match self.role {
            Role::Client if arrived >= SERVER_FLIGHT => {
                self.crypto_out.write(CRYPTO, CLIENT_FINISHED);
                self.establish(now);
            }
            Role::Server if arrived >= CLIENT_HELLO + CLIENT_FINISHED => {
                self.establish(now);
                self.confirm();
                self.owes_handshake_done = true;
            }
            Role::Server if arrived >= CLIENT_HELLO && !self.has_answered() => self.crypto_out.write(CRYPTO, SERVER_FLIGHT),
            _ => {}
        }
    }

    fn has_answered(&self) -> bool {
        self.sent[0].next() > 0 || self.crypto_out.has_written()
    }

    fn establish(&mut self, now: Time) {
        self.handshake = Handshake::Complete;
        self.window.on_established(now, &self.rtt);
        self.record(now, FlowEvent::Established);
    }

    /// Process an ACK frame (`OnAckReceived` of RFC 9002).
    fn on_ack(&mut self, now: Time, space: Space, frame: &AckFrame) {
        let prior_in_flight = self.in_flight();
        let acked = self.sent[space as usize].on_ack(&frame.ranges);
        let Some((_, newest)) = acked.last() else { return };
        let newest_sent = newest.at;
        let mut rtt = None;
        if acked.last().is_some_and(|(number, _)| *number == frame.largest()) && acked.iter().any(|(_, packet)| packet.is_in_flight) {
            let sample = now.since(newest_sent);
            self.rtt.sample(sample, frame.delay, self.handshake == Handshake::Confirmed);
            self.first_rtt_at = self.first_rtt_at.min(now);
            self.counters.fresh_rtt = Some(sample);
            if self.is_observed {
                self.rtts.push(sample);
            }
            rtt = Some(sample);
        }
        self.window.rate.begin();
        let mut packets = 0;
        for (number, packet) in &acked {
            // The server has read what only the receiver of its packets could send: a Handshake or 1-RTT packet.
            let has_finished = packet.chunks.iter().any(|chunk| chunk.stream == CRYPTO && chunk.offset >= CLIENT_HELLO);
            self.peer_has_validated |= space == Space::Data || packet.ack_largest.is_some() || has_finished;
            if packet.is_in_flight && space == Space::Data {
                packets += 1;
                #[allow(clippy::cast_possible_truncation)] // 2^32 packets are 5 TB
                self.window.rate.on_delivered(packet.at, *number, packet.tx_in_flight, packet.lost_before as u32, packet.snapshot);
            }
            for chunk in &packet.chunks {
                if chunk.stream == CRYPTO { &mut self.crypto_out } else { &mut self.outgoing }.on_acked(chunk);
            }
            if let Some(largest) = packet.ack_largest {
                self.received[space as usize].forget_below(largest);
            }
        }
        // A server may take long to answer in the handshake; the backoff saves it from repeated probes (RFC 9002 §6.2.1).
        if self.peer_has_validated {
            self.pto_count = 0;
        }
        let lost = self.detect_losses(now, space);
        if space == Space::Handshake {
            return;
        }
        let effect = Acked { packets, lost, rtt, newest_sent, prior_in_flight };
        let ends = self.window.on_acked(now, &effect, &self.rtt, self.outstanding());
        if ends {
            self.record(now, FlowEvent::RecoveryLeft);
        }
        self.note_state(now);
    }

    /// Detect losses, and see to it that what was lost is sent. Returns the number of packets.
    pub(super) fn detect_losses(&mut self, now: Time, space: Space) -> u64 {
        let lost = self.sent[space as usize].detect_losses(now, self.rtt.loss_delay());
        if lost.is_empty() {
            return 0;
        }
        for (_, packet) in &lost {
            for chunk in &packet.chunks {
                if chunk.stream == CRYPTO { &mut self.crypto_out } else { &mut self.outgoing }.repeat(chunk);
            }
            self.incoming.repeat(&packet.control);
            self.owes_handshake_done |= packet.control.handshake_done;
        }
        if space == Space::Handshake {
            return 0;
        }
        let before = self.window.lost;
        let is_persistent = is_persistent_congestion(&lost, self.first_rtt_at, self.rtt.persistent_congestion());
        let begins = self.window.on_lost(now, &lost, is_persistent, self.in_flight());
        if is_persistent {
            self.rtt.restart_min();
            self.record(now, FlowEvent::Timeout(self.pto_count.max(1)));
        } else if begins {
            self.record(now, FlowEvent::RecoveryEntered);
        }
        self.window.lost - before
    }

    fn note_state(&mut self, now: Time) {
        if self.is_observed {
            let mut probe = StateProbe("");
            self.window.controller().observe(&mut probe);
            if probe.0 != self.state {
                self.state = probe.0;
                self.events.push_back((now, FlowEvent::ControllerState(probe.0)));
            }
        }
    }

    /// Longest delay of an acknowledgement in a space.
    pub(super) const fn max_ack_delay(space: Space) -> Nanos {
        match space {
            Space::Handshake => Nanos::ZERO,
            Space::Data => MAX_ACK_DELAY,
        }
    }
}
