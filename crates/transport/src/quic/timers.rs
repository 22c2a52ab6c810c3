//! What is due: losses by their age, probes (PTO), acknowledgements, paced departures.

use super::wire::{CRYPTO, Space};
use super::{Handshake, Quic};
use crate::stats::FlowEvent;
use bentpipe_profile::{Nanos, Time};

/// Probes at a time-out (RFC 9002 §6.2.4).
const PROBES: u32 = 2;
/// Doublings of the PTO.
const MOST_DOUBLINGS: u32 = 20;

impl Quic {
    /// Time at which [`Self::on_wake`] or [`Self::poll_transmit`] has work if nothing arrives before; `None`: never.
    #[must_use]
    pub fn wake_at(&self) -> Option<Time> {
        if self.is_done() {
            return None;
        }
        let acks = self.received.iter().map(super::acks::Received::due).min().unwrap_or(Time::MAX);
        let wake = acks.min(self.loss_detection_at()).min(self.pacing_wake.unwrap_or(Time::MAX));
        (wake < self.stop).then_some(wake)
    }

    /// When the loss detection timer expires (`SetLossDetectionTimer` of RFC 9002); `Time::MAX`: never.
    fn loss_detection_at(&self) -> Time {
        let by_age = self.sent.iter().filter_map(super::sent::SentPackets::loss_time).min();
        by_age.unwrap_or_else(|| self.pto().map_or(Time::MAX, |(at, _)| at))
    }

    /// Return the time of the next probe, and its space (`GetPtoTimeAndSpace`).
    fn pto(&self) -> Option<(Time, Space)> {
        // A server that may not send waits for the client (RFC 9002 §6.2.2.1).
        if !self.is_validated && !self.may_send_unvalidated(1) {
            return None;
        }
        let at = |space: Space| {
            let duration = self.rtt.pto(Self::max_ack_delay(space));
            let sent = &self.sent[space as usize];
            sent.last_ack_eliciting() + Nanos(duration.0.saturating_mul(1 << self.pto_count.min(MOST_DOUBLINGS)))
        };
        // A client probes until the server has validated its address, even with nothing in flight (RFC 9002 §6.2.2.1).
        let is_waiting = !self.peer_has_validated && self.sent[0].next() > 0;
        let spaces = Space::BOTH.into_iter().filter(|&space| match space {
            Space::Handshake => self.sent[0].in_flight() > 0 || is_waiting,
            Space::Data => self.handshake == Handshake::Confirmed && self.sent[1].in_flight() > 0,
        });
        spaces.map(|space| (at(space), space)).min_by_key(|(at, _)| *at)
    }

    /// Run the timers that are due.
    pub fn on_wake(&mut self, now: Time) {
        if self.is_done() || now >= self.stop {
            return;
        }
        if self.sent.iter().any(|sent| sent.loss_time().is_some()) {
            for space in Space::BOTH {
                if self.sent[space as usize].loss_time().is_some_and(|at| at <= now) {
                    self.detect_losses(now, space);
                }
            }
        } else if let Some((_, space)) = self.pto().filter(|(at, _)| *at <= now) {
            self.probe(now, space);
        }
    }

    /// Send probes: the oldest data that are not acknowledged, or new data.
    fn probe(&mut self, now: Time, space: Space) {
        self.pto_count += 1;
        self.counters.probes += 1;
        self.probes[space as usize] = if space == Space::Data { PROBES } else { 1 };
        self.record(now, FlowEvent::TailLossProbe);
        let Some(oldest) = self.sent[space as usize].oldest() else { return };
        for chunk in oldest.chunks.iter().rev() {
            if chunk.stream == CRYPTO { &mut self.crypto_out } else { &mut self.outgoing }.probe(chunk);
        }
        self.incoming.repeat(&oldest.control);
        self.owes_handshake_done |= oldest.control.handshake_done;
    }
}
