//! One end of a TCP connection: a sender for its own data and a receiver for the other end's.
//!
//! Data may flow in both directions. An acknowledgement travels on a data segment if one leaves before it is due and it reports no SACK block;
//! else it travels alone. The end that opens the connection has a sender from the start. The other end gets one when its application first writes
//! or closes ([`Tcp::set_sender`]), so that a one-way connection costs nothing for the unused direction.

use crate::endpoint::{Arrival, Endpoint};
use crate::handshake::HandshakeResult;
use crate::receiver::Receiver;
use crate::rto::{INITIAL_RTO, RTO_MAX};
use crate::sender::{Occupancy, Sender};
use crate::stats::{FlowEvent, SenderStats};
use crate::wire::{Ack, FIRST_WINDOW_MAX, Segment, TcpPacket};
use bentpipe_cc::knowledge::Knowledge;
use bentpipe_cc::{Controller, Probe};
use bentpipe_profile::{Bytes, Nanos, Time};
use std::collections::VecDeque;

#[cfg(test)]
mod tests;

/// SYN-ACKs of the end that accepts the connection.
#[derive(Clone, Copy, Debug)]
struct SynAcks {
    /// Number sent so far.
    sent: u32,
    /// When the next one is due; `Time::MAX`: never.
    due: Time,
    /// Time-out of the next one.
    timeout: Nanos,
}

/// One end of a connection; see the module's documentation.
pub struct Tcp {
    sender: Option<Box<Sender>>,
    receiver: Receiver,
    accepted: Option<HandshakeResult>,
    syn_acks: SynAcks,
    /// Time from which the sender transmits nothing.
    stop: Time,
    /// Whether the sender may have something to transmit.
    is_sender_ready: bool,
    /// Earliest time for which a timer was armed between two packets of the last batch. It wakes the endpoint even if it was armed anew for a
    /// later time, as between two batches.
    early_wake: Time,
    /// Whether the opening end has not answered the SYN-ACK yet.
    owes_handshake_ack: bool,
    /// Packets that leave before the sender's next.
    out: VecDeque<TcpPacket>,
    /// Whether events and RTT samples are kept for the driver.
    is_observed: bool,
    events: VecDeque<(Time, FlowEvent)>,
    rtts: Vec<Nanos>,
    /// The controller's state at its last observation.
    state: &'static str,
}

impl Tcp {
    /// Create the end that opens the connection, still closed.
    #[must_use]
    pub fn opening(sender: Sender, receiver: Receiver) -> Self {
        Self { sender: Some(Box::new(sender)), ..Self::accepting(receiver) }
    }

    /// Create the end that waits for the other's SYN.
    #[must_use]
    pub const fn accepting(receiver: Receiver) -> Self {
        Self {
            sender: None,
            receiver,
            accepted: None,
            syn_acks: SynAcks { sent: 0, due: Time::MAX, timeout: INITIAL_RTO },
            stop: Time::MAX,
            is_sender_ready: false,
            early_wake: Time::MAX,
            owes_handshake_ack: false,
            out: VecDeque::new(),
            is_observed: false,
            events: VecDeque::new(),
            rtts: Vec::new(),
            state: "",
        }
    }

    /// Let the sender transmit nothing from `stop` on.
    pub const fn stop_at(&mut self, stop: Time) {
        self.stop = stop;
    }

    /// Keep events and RTT samples for [`Self::next_event`] and [`Self::rtt_samples`].
    pub const fn observe(&mut self) {
        self.is_observed = true;
    }

    /// Open the connection: a SYN is due.
    pub fn open(&mut self, now: Time) {
        if let Some(sender) = &mut self.sender {
            sender.open(now);
            self.is_sender_ready = true;
        }
    }

    /// Whether the other end's SYN has arrived.
    #[must_use]
    pub const fn has_been_asked(&self) -> bool {
        self.syn_acks.sent > 0
    }

    /// Whether its application may write: it has a sender.
    #[must_use]
    pub const fn has_sender(&self) -> bool {
        self.sender.is_some()
    }

    /// Give the accepting end a sender, which begins at the end of the handshake. It may transmit at once; during the handshake, this has no
    /// effect.
    pub fn set_sender(&mut self, mut sender: Sender) {
        if let Some(accepted) = self.accepted {
            sender.establish(accepted, self.receiver.ecn_mode());
            self.sender = Some(Box::new(sender));
        }
    }

    /// Write `bytes` of the application; `u64::MAX`: it never runs out of data. Bytes beyond the send buffer's room wait in the application.
    pub fn write(&mut self, now: Time, bytes: Bytes) {
        if let Some(sender) = &mut self.sender {
            sender.app_write(now, bytes);
            self.is_sender_ready = true;
        }
    }

    /// Let its application choose when and how much it reads ([`Self::read`]): what it leaves fills the receive window.
    #[must_use]
    pub const fn reading_by_hand(mut self) -> Self {
        self.receiver.read_by_hand();
        self
    }

    /// Let its application read `bytes` of those delivered.
    pub fn read(&mut self, now: Time, bytes: Bytes) {
        self.out.extend(self.receiver.read(now, bytes).map(TcpPacket::Ack));
    }

    /// Begin congestion control anew with `controller`, as on a new connection; what was sent and acknowledged stays.
    pub fn restart(&mut self, now: Time, controller: Box<dyn Controller>) {
        if let Some(sender) = &mut self.sender {
            sender.restart(now, controller);
            self.is_sender_ready = true;
        }
    }

    /// Tell its controller what only a simulator knows.
    pub fn on_knowledge(&mut self, knowledge: &Knowledge<'_>) {
        if let Some(sender) = &mut self.sender {
            sender.on_knowledge(knowledge);
        }
    }

    /// Close this end's direction after the data written so far.
    pub fn close(&mut self) {
        if let Some(sender) = &mut self.sender {
            sender.app_close();
            self.is_sender_ready = true;
        }
    }

    /// Whether the handshake is done.
    #[must_use]
    #[inline]
    pub fn is_established(&self) -> bool {
        self.accepted.is_some() || self.sender.as_ref().is_some_and(|sender| sender.is_established())
    }

    /// The other end's data delivered in order so far.
    #[must_use]
    #[inline]
    pub fn delivered(&self) -> Bytes {
        self.receiver.delivered()
    }

    /// Whether the other end closed and all its data arrived.
    #[must_use]
    #[inline]
    pub fn is_closed(&self) -> bool {
        self.receiver.is_closed()
    }

    /// Data packets that arrived CE-marked.
    #[must_use]
    pub const fn marks(&self) -> u64 {
        self.receiver.marks()
    }

    /// This end's data that the other end has acknowledged.
    #[must_use]
    pub fn acked(&self) -> Bytes {
        self.sender.as_ref().map_or(Bytes::ZERO, |sender| sender.acked())
    }

    /// Whether written data waits for room in the send buffer.
    #[must_use]
    pub fn has_unbuffered_data(&self) -> bool {
        self.sender.as_ref().is_some_and(|sender| sender.has_unbuffered_data())
    }

    /// Whether this end has nothing left to send: it closed and everything is acknowledged, or it never wrote.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.sender.as_ref().is_none_or(|sender| sender.is_done())
    }

    /// How full its sender is; `None`: it never wrote.
    #[must_use]
    pub fn occupancy(&self) -> Option<Occupancy> {
        self.sender.as_ref().map(|sender| sender.occupancy())
    }

    /// Statistics of its sender; `None`: it never wrote.
    #[must_use]
    pub fn stats(&self) -> Option<SenderStats> {
        self.sender.as_ref().map(|sender| sender.stats())
    }

    /// Whether [`Endpoint::poll_transmit`] may return a packet.
    #[must_use]
    #[inline]
    pub fn may_transmit(&self) -> bool {
        self.is_sender_ready || !self.out.is_empty()
    }

    /// Whether events and RTT samples are kept.
    #[must_use]
    pub const fn is_observed(&self) -> bool {
        self.is_observed
    }

    /// Take the oldest event and its time.
    #[inline]
    pub fn next_event(&mut self) -> Option<(Time, FlowEvent)> {
        self.events.pop_front().or_else(|| self.sender.as_mut()?.next_event()).filter(|_| self.is_observed)
    }

    /// Take the RTT samples since the last call.
    #[inline]
    pub fn rtt_samples(&mut self) -> impl Iterator<Item = Nanos> {
        self.rtts.drain(..)
    }

    /// Process an acknowledgement, unless it is coalesced into the `next` one of this instant.
    fn on_ack(&mut self, now: Time, ack: &Ack, next: Option<&Ack>) {
        if ack.syn {
            if !self.sender.as_ref().is_some_and(|sender| sender.awaits_syn_ack()) {
                // The acknowledgement of an earlier SYN-ACK is lost or late.
                self.out.push_back(TcpPacket::Ack(self.receiver.on_late_syn(now, ack.tsval)));
                return;
            }
            self.receiver.on_syn_ack(ack);
            self.owes_handshake_ack = true;
        }
        self.accept(now, ack.ts_ecr, ack.window, ack.tsval);
        let Some(sender) = &mut self.sender else { return };
        if sender.defers_ack(now, ack, next) {
            return;
        }
        sender.on_ack(now, ack);
        self.is_sender_ready = true;
        if !self.is_observed {
            return;
        }
        self.rtts.extend(sender.take_rtt_sample());
        let mut probe = StateProbe("");
        sender.controller().observe(&mut probe);
        if probe.0 != self.state {
            self.state = probe.0;
            self.events.push_back((now, FlowEvent::ControllerState(probe.0)));
        }
    }

    /// Process a packet. `rest`, `later`: the packets of this instant that follow; `last`: no segment is among them.
    #[allow(clippy::inline_always)] // its caller's fast path for a lone packet: 1 % of a simulation's instructions
    #[inline(always)]
    fn on_packet(
        &mut self,
        now: Time,
        arrival: &Arrival<TcpPacket>,
        rest: &[Arrival<TcpPacket>],
        later: &[Arrival<TcpPacket>],
        last: bool,
    ) {
        let next_ack = || {
            rest.iter().chain(later).find_map(|arrival| match &arrival.packet {
                TcpPacket::Ack(ack) => Some(ack),
                TcpPacket::Segment(..) => None,
            })
        };
        match &arrival.packet {
            TcpPacket::Ack(ack) => self.on_ack(now, ack, next_ack()),
            TcpPacket::Segment(segment, piggyback) => {
                if let Some(piggyback) = piggyback {
                    self.on_ack(now, &piggyback.ack(segment), next_ack());
                }
                self.on_segment(now, segment, arrival.ce, rest.first(), last);
            }
        }
    }

    /// Process a segment. `next`: the packet directly after it in the batch; `last`: no other segment follows at this instant.
    #[inline]
    fn on_segment(&mut self, now: Time, segment: &Segment, ce: bool, next: Option<&Arrival<TcpPacket>>, last: bool) {
        if segment.syn {
            self.on_syn(now, segment);
            return;
        }
        self.accept(now, segment.ts_ecr, Bytes(FIRST_WINDOW_MAX), segment.tsval);
        // A segment whose acknowledgement differs is not merged, nor one with another ECN codepoint.
        let next = next.filter(|next| next.ce == ce).and_then(|next| match &next.packet {
            TcpPacket::Segment(next, None) => Some(next),
            _ => None,
        });
        for ack in self.receiver.on_segment(now, segment, ce, next, last).iter().flatten() {
            self.out.push_back(TcpPacket::Ack(*ack));
        }
    }

    /// Answer a SYN. One that arrives again restarts the SYN-ACK's timer.
    #[cold]
    fn on_syn(&mut self, now: Time, syn: &Segment) {
        let ack = if self.is_established() {
            self.receiver.on_late_syn(now, syn.tsval)
        } else {
            self.count_syn_ack(now);
            self.receiver.on_syn(now, syn)
        };
        self.out.push_back(TcpPacket::Ack(ack));
    }

    /// Count a SYN-ACK that is sent now, and set the time of the next one.
    fn count_syn_ack(&mut self, now: Time) {
        let at = now + self.syn_acks.timeout;
        self.syn_acks.sent += 1;
        self.syn_acks.due = if at < self.stop { at } else { Time::MAX };
    }

    /// Retransmit the SYN-ACK, and double its time-out (RFC 6298 §5.5).
    #[cold]
    fn on_syn_ack_timeout(&mut self, now: Time) {
        self.syn_acks.timeout = Nanos(self.syn_acks.timeout.0 * 2).min(RTO_MAX);
        self.count_syn_ack(now);
        self.out.push_back(TcpPacket::Ack(self.receiver.syn_ack(now)));
    }

    /// End the handshake at the accepting end with the first answer to the SYN-ACK.
    fn accept(&mut self, now: Time, ts_ecr: Time, window: Bytes, tsval: Time) {
        if self.accepted.is_none() && self.sender.is_none() {
            self.syn_acks.due = Time::MAX;
            self.accepted = Some(HandshakeResult { at: now, rtt: now.since(ts_ecr), window, tsval, attempts: self.syn_acks.sent });
        }
    }

    /// Transmit for an acknowledgement that another one of the batch follows.
    fn transmit_between(&mut self, now: Time) {
        while self.is_sender_ready
            && let Some(packet) = self.next_of_sender(now)
        {
            self.out.push_back(packet);
        }
        let sender = self.sender.iter_mut();
        self.events.extend(sender.flat_map(|sender| std::iter::from_fn(|| sender.next_event())));
    }

    fn next_of_sender(&mut self, now: Time) -> Option<TcpPacket> {
        if now >= self.stop {
            return None;
        }
        let Some(mut segment) = self.sender.as_mut().and_then(|sender| sender.poll_transmit(now)) else {
            self.is_sender_ready = false;
            if !self.is_observed {
                self.sender.iter_mut().for_each(|sender| sender.discard_events());
            }
            return std::mem::take(&mut self.owes_handshake_ack).then(|| TcpPacket::Ack(self.receiver.acknowledge(now)));
        };
        self.owes_handshake_ack = false;
        // The sender knows the clocks of acknowledgements only.
        segment.ts_ecr = segment.ts_ecr.max(self.receiver.ts_recent());
        Some(TcpPacket::Segment(segment, self.receiver.on_data_sent(now)))
    }
}

impl Endpoint for Tcp {
    type Packet = TcpPacket;

    fn on_packets(&mut self, now: Time, batch: &[Arrival<TcpPacket>], later: &[Arrival<TcpPacket>]) {
        if let ([arrival], []) = (batch, later) {
            self.on_packet(now, arrival, batch.get(1..).unwrap_or_default(), later, true);
            return;
        }
        let is_segment = |arrival: &Arrival<TcpPacket>| matches!(arrival.packet, TcpPacket::Segment(..));
        let last_segment = if later.iter().any(is_segment) { None } else { batch.iter().rposition(is_segment) };
        for (index, arrival) in batch.iter().enumerate() {
            let rest = &batch[index + 1..];
            self.on_packet(now, arrival, rest, later, last_segment == Some(index));
            if !rest.is_empty() {
                self.transmit_between(now);
                self.early_wake = Endpoint::wake_at(self).unwrap_or(Time::MAX); // it includes the earlier ones
            }
        }
    }

    fn on_wake(&mut self, now: Time) {
        self.early_wake = Time::MAX;
        if now < self.stop
            && let Some(sender) = &mut self.sender
        {
            if sender.wake_at().is_some_and(|at| at <= now) {
                sender.on_wake(now);
            }
            self.is_sender_ready = true;
        }
        if self.syn_acks.due <= now {
            self.on_syn_ack_timeout(now);
        }
        if self.receiver.wake_at().is_some_and(|at| at <= now) {
            self.out.extend(self.receiver.on_wake(now).map(TcpPacket::Ack));
        }
    }

    #[inline]
    fn poll_transmit(&mut self, now: Time) -> Option<TcpPacket> {
        if !self.out.is_empty() {
            return self.out.pop_front();
        }
        if self.is_sender_ready { self.next_of_sender(now) } else { None }
    }

    #[inline]
    fn wake_at(&self) -> Option<Time> {
        let mut wake = self.early_wake.min(self.syn_acks.due);
        if let Some(at) = self.receiver.wake_at() {
            wake = wake.min(at);
        }
        if let Some(sender) = &self.sender
            && let Some(at) = sender.wake_at()
            && at < self.stop
        {
            wake = wake.min(at);
        }
        (wake != Time::MAX).then_some(wake)
    }
}

/// Records a controller's state and ignores its values.
pub struct StateProbe(pub &'static str);

impl Probe for StateProbe {
    fn value(&mut self, _name: &'static str, _value: f64) {}

    fn state(&mut self, name: &'static str) {
        self.0 = name;
    }
}
