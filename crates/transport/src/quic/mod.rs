//! A model of QUIC: one end of a connection with streams. Sans I/O, as the TCP end.
//!
//! | file | holds |
//! |---|---|
//! | `mod.rs` | the connection's state, and its interface |
//! | `receive.rs`, `transmit.rs`, `timers.rs` | what arrives, what leaves, what is due |
//! | `wire.rs` | packets and frames, with their sizes |
//! | `acks.rs` | packet numbers that arrived, and when to acknowledge them |
//! | `sent.rs`, `rtt.rs` | loss detection and the RTT (RFC 9002) |
//! | `window.rs` | congestion control, with the parts and the controllers of TCP |
//! | `outgoing.rs`, `incoming.rs` | streams and their flow control |
//!
//! `docs/design/019-http3.md` lists what is modelled on which section of the RFCs, and what is not.

mod acks;
mod incoming;
mod outgoing;
mod receive;
mod rtt;
mod sent;
#[cfg(test)]
mod tests;
mod timers;
mod transmit;
mod window;
pub mod wire;

use crate::config::SenderConfig;
use crate::stats::{FlowEvent, Limit, LimitClock, SenderStats};
use acks::Received;
use bentpipe_cc::Controller;
use bentpipe_profile::{Bytes, Nanos, Time};
use incoming::Incoming;
use outgoing::Outgoing;
use rtt::Rtt;
use sent::SentPackets;
use std::collections::VecDeque;
use window::{Outstanding, Window};
use wire::{CRYPTO, MAX_DATAGRAM, QuicPacket, Space};

/// Receive windows of a connection and of a stream [bytes]: Chromium's (`kQuicSessionMaxRecvWindowSize`, `kQuicStreamMaxRecvWindowSize` in its
/// `net/quic/quic_context.cc`), which it announces from the start.
const WINDOW: u64 = 15 << 20;
const STREAM_WINDOW: u64 = 6 << 20;
/// A TLS 1.3 `ClientHello` [bytes], as for TCP.
const CLIENT_HELLO: u64 = 517;
/// The server's answer to it: a certificate chain, compressed (RFC 8879), and the rest of its flight [bytes]. Chosen here, so that it fits the 3 × 1200 bytes
/// that a server may send to an address that is not validated (RFC 9000 §8.1).
const SERVER_FLIGHT: u64 = 3000;
/// The client's Finished message [bytes].
const CLIENT_FINISHED: u64 = 36;

/// Which end of the connection it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It opens the connection.
    Client,
    /// It accepts it.
    Server,
}

/// Progress of the handshake at an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Handshake {
    /// It runs.
    Open,
    /// 1-RTT packets may be sent and read.
    Complete,
    /// The other end has completed it, too (RFC 9001 §4.1.2). Handshake packets are no longer used.
    Confirmed,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    sent: u64,
    retransmits: u64,
    probes: u64,
    fresh_rtt: Option<Nanos>,
    /// Packets since the last ack-eliciting one.
    silent: u32,
}

/// One end of a connection; see the module's documentation.
#[allow(clippy::struct_excessive_bools)] // independent facts, not states
pub struct Quic {
    role: Role,
    handshake: Handshake,
    /// Whether the other end's address is validated, and the bytes received and sent until then.
    is_validated: bool,
    /// Whether the other end is known to have validated this end's address (`PeerCompletedAddressValidation` of RFC 9002).
    peer_has_validated: bool,
    bytes_received: u64,
    bytes_sent: u64,
    sent: [SentPackets; 2],
    received: [Received; 2],
    rtt: Rtt,
    first_rtt_at: Time,
    window: Window,
    crypto_out: Outgoing,
    crypto_in: Incoming,
    outgoing: Outgoing,
    incoming: Incoming,
    /// 1-RTT packets that arrived before the handshake was complete.
    undecryptable: Vec<QuicPacket>,
    pto_count: u32,
    /// Packets to send in each space regardless of the window.
    probes: [u32; 2],
    owes_handshake_done: bool,
    pacing_wake: Option<Time>,
    /// Time from which nothing is sent.
    stop: Time,
    /// Whether the application has closed it; whether the closing packet is due, or was sent; whether the other end's arrived.
    is_closing: bool,
    owes_close: bool,
    has_closed: bool,
    is_closed_by_peer: bool,
    counters: Counters,
    limits: LimitClock,
    is_observed: bool,
    events: VecDeque<(Time, FlowEvent)>,
    rtts: Vec<Nanos>,
    /// Delays of the bytes that arrived, from when they were sent for the first time.
    delays: Vec<Nanos>,
    state: &'static str,
}

impl Quic {
    /// Return the settings of a sender of QUIC in place of TCP's: size of packets and pacing (RFC 9002 §7.7 suggests 1.25 × cwnd / srtt).
    #[must_use]
    pub fn sender_config(host: SenderConfig) -> SenderConfig {
        SenderConfig { mss: MAX_DATAGRAM, fq: true, pacing_avoidance_percent: 125, ..host }
    }

    /// Create a closed end with the settings that [`Self::sender_config`] returns.
    #[must_use]
    pub fn new(role: Role, config: SenderConfig, controller: Box<dyn Controller>) -> Self {
        Self {
            role,
            handshake: Handshake::Open,
            is_validated: role == Role::Client,
            peer_has_validated: role == Role::Server,
            bytes_received: 0,
            bytes_sent: 0,
            sent: [SentPackets::default(), SentPackets::default()],
            received: Space::BOTH.map(Received::new),
            rtt: Rtt::default(),
            first_rtt_at: Time::MAX,
            window: Window::new(config, controller),
            crypto_out: Outgoing::new(u64::MAX, u64::MAX),
            crypto_in: Incoming::new(u64::MAX / 2, u64::MAX / 2),
            outgoing: Outgoing::new(WINDOW, STREAM_WINDOW),
            incoming: Incoming::new(WINDOW, STREAM_WINDOW),
            undecryptable: Vec::new(),
            pto_count: 0,
            probes: [0, 0],
            owes_handshake_done: false,
            pacing_wake: None,
            stop: Time::MAX,
            is_closing: false,
            owes_close: false,
            has_closed: false,
            is_closed_by_peer: false,
            counters: Counters::default(),
            limits: LimitClock::default(),
            is_observed: false,
            events: VecDeque::new(),
            rtts: Vec::new(),
            delays: Vec::new(),
            state: "",
        }
    }

    /// Send nothing from `stop` on.
    pub const fn stop_at(&mut self, stop: Time) {
        self.stop = stop;
    }

    /// Keep events and RTT samples for [`Self::next_event`] and [`Self::rtt_samples`].
    pub const fn observe(&mut self) {
        self.is_observed = true;
    }

    /// Open the connection: the client's first packet is due.
    pub fn open(&mut self) {
        self.crypto_out.write(CRYPTO, CLIENT_HELLO);
    }

    /// Write all `bytes` of a stream.
    pub fn write(&mut self, stream: u64, bytes: Bytes) {
        self.outgoing.write(stream, bytes.0);
    }

    /// Close the connection once everything written is acknowledged.
    pub const fn close(&mut self) {
        self.is_closing = true;
    }

    /// Whether its application may send and receive.
    #[must_use]
    pub fn is_established(&self) -> bool {
        self.handshake >= Handshake::Complete
    }

    /// Return the next stream of the other end that is complete, and when its first byte arrived.
    pub fn next_complete(&mut self) -> Option<(u64, Time)> {
        self.incoming.next_complete()
    }

    /// Whether the other end closed the connection, or a stream is complete.
    #[must_use]
    pub fn has_complete(&self) -> bool {
        self.incoming.has_complete()
    }

    /// Whether the other end closed the connection.
    #[must_use]
    pub const fn is_closed(&self) -> bool {
        self.is_closed_by_peer
    }

    /// Whether this end has nothing left to do: one of the ends has closed the connection.
    #[must_use]
    pub const fn is_done(&self) -> bool {
        self.has_closed || self.is_closed_by_peer
    }

    /// Bytes of streams delivered in order.
    #[must_use]
    pub const fn delivered(&self) -> Bytes {
        Bytes(self.incoming.delivered())
    }

    /// Bytes of one stream delivered in order.
    #[must_use]
    pub fn delivered_on(&self, stream: u64) -> u64 {
        self.incoming.delivered_on(stream)
    }

    /// Take the oldest event and its time.
    pub fn next_event(&mut self) -> Option<(Time, FlowEvent)> {
        self.events.pop_front()
    }

    /// Take the RTT samples since the last call.
    pub fn rtt_samples(&mut self) -> impl Iterator<Item = Nanos> {
        self.rtts.drain(..)
    }

    /// Take the delays of chunks since the last call.
    pub fn delays(&mut self) -> impl Iterator<Item = Nanos> {
        self.delays.drain(..)
    }

    fn record(&mut self, now: Time, event: FlowEvent) {
        if self.is_observed {
            self.events.push_back((now, event));
        }
    }

    /// Packets in flight that congestion control counts: those of the handshake are few.
    const fn in_flight(&self) -> u32 {
        self.sent[1].in_flight()
    }

    fn outstanding(&self) -> Outstanding {
        let data = &self.sent[Space::Data as usize];
        Outstanding { first: data.first(), next: data.next(), in_flight: self.in_flight() }
    }

    /// Discard the packets of the handshake (RFC 9001 §4.9).
    fn confirm(&mut self) {
        self.handshake = Handshake::Confirmed;
        self.is_validated = true;
        self.peer_has_validated = true;
        self.sent[0].discard();
        self.received[0].discard();
        self.crypto_out.clear();
        self.probes[0] = 0;
        self.pto_count = 0;
    }

    /// Return the current statistics. Counters are packets; a probe time-out is no time-out here, persistent congestion is one.
    #[must_use]
    pub fn stats(&self) -> SenderStats {
        let rate = |(packets, span): (u64, Nanos)| bentpipe_profile::Rate::of(self.window.bytes(packets), span);
        SenderStats {
            cwnd: self.window.controller().cwnd(),
            ssthresh: self.window.controller().ssthresh(),
            in_flight: self.window.bytes(u64::from(self.in_flight())),
            rtt_latest: self.rtt.latest(),
            srtt: self.rtt.smoothed(),
            rtt_var: self.rtt.variation(),
            min_rtt: Some(self.rtt.min()).filter(|&rtt| rtt != Nanos::MAX),
            pacing_rate: self.window.pacer.rate(),
            delivery_rate: self.window.rate.rate().map(rate),
            acked: Bytes(self.outgoing.acked()),
            delivered: self.window.bytes(self.window.rate.delivered()),
            segments_sent: self.counters.sent,
            retransmits: self.counters.retransmits,
            lost: self.window.lost,
            undos: 0,
            timeouts: self.window.persistent,
            tail_loss_probes: self.counters.probes,
            ce_marks: 0,
            state: self.window.state(),
            cwnd_limited: self.limits.total(Limit::Window),
            receiver_limited: self.limits.total(Limit::Receiver),
            sender_limited: self.limits.total(Limit::Sender),
        }
    }
}
