//! Transmission: the next segment that may leave now.
//!
//! Source: Linux `tcp_write_xmit`, `tcp_xmit_retransmit_queue`, `tcp_send_loss_probe`, `tcp_event_new_data_sent` (`net/ipv4/tcp_output.c`).

use super::Sender;
use super::state::State;
use super::timers::{Forced, Handshake};
use crate::cwnd_usage::WindowFill;
use crate::sent_packet::Departure;
use crate::stats::{FlowEvent, Limit};
use crate::wire::{Segment, SegmentEcn};
use bentpipe_cc::Congestion;
use bentpipe_profile::{Nanos, Time};

impl Sender {
    /// Return the next segment to send now; call until `None`.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Segment> {
        if !matches!(self.handshake, Handshake::Done) {
            return self.poll_handshake(now);
        }
        if let Some(forced) = self.forced.take()
            && let Some(segment) = self.send_forced(now, forced)
        {
            return Some(segment);
        }
        loop {
            match self.next_segment(now) {
                Ok(segment) => return Some(segment),
                Err(limit) => {
                    if self.falls_back_from_frto() {
                        continue;
                    }
                    let mut wrote = self.make_room(now);
                    if !wrote || limit != Limit::Sender {
                        while wrote {
                            wrote = self.fill_buffer(now); // the application writes on even if nothing can be sent
                        }
                        self.pause(now, limit);
                        return None;
                    }
                    self.bursts.end(); // the previous write has been sent
                }
            }
        }
    }

    /// End F-RTO if it waits for new data that cannot be sent now, for window, pacing or deferral: lost packets are retransmitted instead
    /// (`tcp_xmit_recovery`). Returns whether it did.
    fn falls_back_from_frto(&mut self) -> bool {
        let falls_back = self.hold_retransmissions && self.frto && self.state == State::Loss && self.nxt == self.high_seq;
        if falls_back {
            self.frto = false;
            self.hold_retransmissions = false;
        }
        falls_back
    }

    /// Whether new data, or the FIN, waits to be sent.
    pub(super) fn has_new_data(&self) -> bool {
        self.buffer.written() > self.nxt || self.fin_is_due()
    }

    /// Whether the application closed and all its data was sent, but not the FIN.
    fn fin_is_due(&self) -> bool {
        self.buffer.is_closed() && !self.buffer.has_more() && !self.fin_sent
    }

    fn next_segment(&mut self, now: Time) -> Result<Segment, Limit> {
        self.pacing_wake = None;
        let window_open = u64::from(self.scoreboard.in_flight()) < self.cwnd;
        if !self.hold_retransmissions
            && let Some(index) = self.scoreboard.next_lost()
        {
            if !window_open {
                return Err(Limit::Window);
            }
            self.pace(now)?;
            return Ok(self.retransmit(now, index, false));
        }
        if !self.has_new_data() {
            return Err(Limit::Sender);
        }
        if !window_open {
            return Err(Limit::Window);
        }
        let (len, fin) = self.next_new();
        if self.nxt + u64::from(len) > self.window_end {
            return Err(Limit::Receiver);
        }
        if len < self.config.mss && !fin && self.config.nagle && self.short_end > self.una {
            return Err(Limit::Sender);
        }
        self.pace(now)?;
        self.open_burst(now)?;
        let mut segment = self.send_new(now, len, fin);
        segment.push |= self.ends_burst();
        if self.bursts.is_over() {
            self.expand_buffer(); // as `tcp_event_new_data_sent` does after each skb, before the next fills the window
        }
        Ok(segment)
    }

    fn pace(&mut self, now: Time) -> Result<(), Limit> {
        match self.pacer.blocked_until(now) {
            Some(at) => {
                self.pacing_wake = Some(at);
                Err(Limit::Window)
            }
            None => Ok(()),
        }
    }

    /// Return the length of the next new segment, and whether it carries the FIN.
    fn next_new(&self) -> (u32, bool) {
        let unsent = self.buffer.written() - self.nxt;
        #[allow(clippy::cast_possible_truncation)] // at most the MSS
        let len = unsent.min(u64::from(self.config.mss)) as u32;
        (len, u64::from(len) == unsent && self.fin_is_due())
    }

    fn send_new(&mut self, now: Time, len: u32, fin: bool) -> Segment {
        let first = self.scoreboard.packets_out() == 0;
        self.window_probes = 0;
        let departure = self.begin_departure(now, true);
        let seq = self.nxt;
        self.scoreboard.push(seq, len, fin, &departure);
        self.nxt += u64::from(len) + u64::from(fin);
        self.fin_sent |= fin;
        if len < self.config.mss {
            self.short_end = self.nxt;
        }
        self.rearm_after_new_data(now, first);
        self.sent_new = true;
        self.on_segment_sent(now, len);
        // `tcp_push` sets PSH on the last segment of the queue after every write; data appended later clears it.
        let push = seq + u64::from(len) == self.buffer.written();
        let ecn = if len > 0 { self.ecn.on_new_data() } else { SegmentEcn::default() };
        Segment { seq, len, syn: false, fin, push, retransmission: false, tsval: departure.at, ts_ecr: self.ts_recent, ecn }
    }

    fn retransmit(&mut self, now: Time, index: usize, probe: bool) -> Segment {
        let departure = self.begin_departure(now, !probe);
        let packet = self.scoreboard.retransmit(index, &departure, probe);
        if !probe {
            self.undo.on_retransmission(now);
            if index == 0 {
                self.rearm_after_head(now);
            }
        }
        self.counters.retransmits += 1;
        self.on_segment_sent(now, packet.len);
        Segment {
            seq: packet.seq,
            len: packet.len,
            syn: false,
            fin: packet.is_fin(),
            push: false,
            retransmission: true,
            tsval: departure.at,
            ts_ecr: self.ts_recent,
            ecn: self.ecn.on_retransmission(),
        }
    }

    /// Return the connection state to record with a packet sent now. `counted`: the packet counts as in flight.
    fn begin_departure(&mut self, now: Time, counted: bool) -> Departure {
        if self.scoreboard.in_flight() == 0 && self.counters.segments_sent > 0 {
            self.notify_controller(now, Congestion::Restart(now.since(self.last_sent_at)));
        }
        // The kernel processes acknowledgements of one instant one after the other, each at its own microsecond (`tcp_mstamp_refresh`). A
        // segment sent for a later one must have a later timestamp; else RACK would think a retransmission overtaken by a segment sent just
        // before it.
        self.last_stamp = now.max(self.last_stamp + Nanos(1));
        Departure {
            at: self.last_stamp,
            snapshot: self.rate.on_sent(now, self.scoreboard.packets_out() == 0),
            #[allow(clippy::cast_possible_truncation)] // 2^32 packets are 6 TB
            lost_before: self.counters.lost as u32,
            tx_in_flight: self.scoreboard.in_flight() + u32::from(counted),
        }
    }

    /// Update counters, pacer and controller after a segment was sent.
    fn on_segment_sent(&mut self, now: Time, len: u32) {
        self.counters.segments_sent += 1;
        self.last_sent_at = now;
        self.sent_any = true;
        if self.in_reduction() {
            self.prr.on_sent(1);
        }
        self.pacer.on_sent(now, len, self.burst);
        self.controller.on_sent(now, self.in_flight_bytes(), self.rate.is_app_limited());
        if let Some(at) = self.controller.next_departure() {
            self.pacer.depart_at(at);
        }
    }

    fn send_forced(&mut self, now: Time, forced: Forced) -> Option<Segment> {
        match forced {
            Forced::Head => self.scoreboard.head().is_some().then(|| self.retransmit(now, 0, false)),
            Forced::Probe => {
                let segment = self.probe_segment(now);
                if segment.is_some() {
                    self.counters.probes += 1;
                    self.record_event(now, FlowEvent::TailLossProbe);
                }
                self.timer = None;
                self.rearm(now);
                segment
            }
            Forced::WindowProbe => Some(self.window_probe(now)),
        }
    }

    /// Send an empty segment before the window, which the receiver answers with its window (`tcp_xmit_probe_skb`).
    fn window_probe(&mut self, now: Time) -> Segment {
        self.window_probes += 1;
        self.last_stamp = now.max(self.last_stamp + Nanos(1));
        let (tsval, ts_ecr, ecn) = (self.last_stamp, self.ts_recent, SegmentEcn::default());
        Segment { seq: self.una.saturating_sub(1), len: 0, syn: false, fin: false, push: false, retransmission: true, tsval, ts_ecr, ecn }
    }

    /// Send a tail loss probe: new data if there is any, else the last segment once more.
    fn probe_segment(&mut self, now: Time) -> Option<Segment> {
        if self.has_new_data() {
            let (len, fin) = self.next_new();
            if self.nxt + u64::from(len) <= self.window_end {
                let segment = self.send_new(now, len, fin);
                self.sent_new = false; // the retransmission timer follows, not another probe timer
                self.probe.sent(self.nxt, false);
                return Some(segment);
            }
        }
        let segment = self.scoreboard.last_index().map(|last| self.retransmit(now, last, true))?;
        self.probe.sent(self.nxt, true);
        Some(segment)
    }

    /// Record the limiting factor after the last segment that may leave, and its consequences.
    fn pause(&mut self, now: Time, limit: Limit) {
        let in_flight = u64::from(self.scoreboard.in_flight());
        let limited = (limit == Limit::Window && self.pacing_wake.is_none()) || in_flight >= self.cwnd;
        if self.sent_any || limited {
            self.usage.record(WindowFill {
                now,
                limited,
                packets_out: u64::from(self.scoreboard.packets_out()),
                cwnd: self.cwnd,
                slow_start: self.in_slow_start(),
                una: self.una,
                nxt: self.nxt,
            });
            if !self.usage.is_limited(self.cwnd, self.in_slow_start()) {
                self.decay_window(now);
            }
        }
        if self.sent_new {
            self.schedule_probe(now, false);
        }
        if limit == Limit::Receiver {
            self.arm_window_probe(now);
        }
        self.sent_new = false;
        self.sent_any = false;
        self.bursts.end(); // the next burst is decided anew, even at the same instant
        self.limits.set(now, limit);
    }

    /// Decay a window that the application does not use (`tcp_cwnd_application_limited`).
    fn decay_window(&mut self, now: Time) {
        let exempt = self.controls_recovery || !self.config.slow_start_after_idle || self.state != State::Open || self.buffer.is_full();
        if exempt {
            return;
        }
        if let Some(window) = self.usage.decay(now, self.rtt.rto(), self.cwnd, u64::from(self.config.initial_window)) {
            self.raise_ssthresh();
            self.set_window(window);
        }
    }

    /// Grow the buffer and let an application that waits for room write. Returns whether it wrote.
    fn make_room(&mut self, now: Time) -> bool {
        self.expand_buffer();
        if self.may_write() && self.backlog.needs_wakeup(now) {
            self.buffer.wake();
            return false;
        }
        self.fill_buffer(now)
    }

    fn may_write(&mut self) -> bool {
        let queue = self.queue();
        matches!(self.handshake, Handshake::Done) && self.buffer.may_write(queue)
    }

    /// Grow the buffer with cwnd while the flow is not cwnd-limited (`tcp_check_space`, `tcp_should_expand_sndbuf`).
    fn expand_buffer(&mut self) {
        if self.buffer.is_full() && u64::from(self.scoreboard.in_flight()) < self.cwnd {
            self.buffer.expand(self.cwnd, self.controller.sndbuf_factor());
        }
    }

    /// Let the application make one write, if there is room. Returns whether it did.
    pub(super) fn fill_buffer(&mut self, now: Time) -> bool {
        if !self.may_write() {
            return false;
        }
        let queue = self.queue();
        let unsent = self.buffer.written().saturating_sub(self.nxt);
        let in_flight = self.scoreboard.in_flight();
        // Segments of an earlier write are still in the host's device queue (`sk_wmem_alloc` in `tcp_rate_check_app_limited`).
        if !self.buffer.is_writing()
            && unsent < u64::from(self.config.mss)
            && u64::from(in_flight) < self.cwnd
            && self.scoreboard.lost_out() <= self.scoreboard.retrans_out()
        {
            self.rate.on_app_limited(in_flight);
        }
        self.restart_after_idle(now);
        let before = self.buffer.written();
        let window = self.cwnd.saturating_sub(u64::from(in_flight)).saturating_mul(u64::from(self.config.mss));
        self.buffer.write(queue, window);
        self.backlog.on_write(self.buffer.written() - before);
        true
    }

    fn restart_after_idle(&mut self, now: Time) {
        if self.controls_recovery || !self.config.slow_start_after_idle || self.scoreboard.packets_out() > 0 {
            return;
        }
        let (idle, rto) = (now.since(self.last_sent_at), self.rtt.rto());
        if idle > rto {
            self.raise_ssthresh();
            let window = self.usage.restart(now, idle, rto, self.cwnd, u64::from(self.config.initial_window));
            self.set_window(window);
        }
    }
}
