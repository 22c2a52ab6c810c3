//! Processing of an acknowledgement, in the order of `tcp_ack` (Linux `net/ipv4/tcp_input.c`).

use super::Sender;
use super::recovery::{AckSignals, Rexmit};
use super::state::State;
use super::timers::Handshake;
use crate::arrivals::Arrivals;
use crate::rate_sampler::Sample;
use crate::stats::FlowEvent;
use crate::tlp::ProbeAck;
use crate::wire::Ack;
use bentpipe_cc::{AckSample, Congestion, RateSample};
use bentpipe_profile::{Bytes, Nanos, Time};

/// Effects of an acknowledgement on the scoreboard and the estimators.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::struct_excessive_bools)] // independent facts, not states
struct AckDigest {
    prior_una: u64,
    prior_in_flight: u32,
    acked: u32,
    sacked: u32,
    /// Packets newly delivered, including reported duplicates.
    delivered: u32,
    original_arrived: bool,
    window_grew: bool,
    duplicate_reported: bool,
    duplicate_of_probe: bool,
    /// RTT of the newest packet acknowledged.
    rtt: Option<Nanos>,
    delayed: bool,
    restart_timer: bool,
}

impl Sender {
    /// Process the arrival of an acknowledgement, with the `next` one of this connection at the same instant. Returns whether it is coalesced
    /// into `next`; then do not pass it to [`Self::on_ack`].
    pub fn defers_ack(&mut self, now: Time, ack: &Ack, next: Option<&Ack>) -> bool {
        if self.backlog.on_ack(now, next.is_some()) {
            while self.fill_buffer(now) {}
        }
        self.backlog.coalesces(ack, next)
    }

    /// Process an acknowledgement.
    pub fn on_ack(&mut self, now: Time, ack: &Ack) {
        if ack.syn {
            self.on_syn_ack(now, ack);
            return;
        }
        if !matches!(self.handshake, Handshake::Done) || ack.ack > self.nxt {
            return; // it acknowledges data that was never sent
        }
        let lost_before = self.counters.lost;
        let ece = self.ecn.echoes_mark(ack, self.counters.ce_marks);
        self.hold_retransmissions = false;
        self.reordering_armed = false;

        let digest = self.digest(now, ack);
        if ece {
            self.counters.ce_marks = self.ecn.marks(ack, self.counters.ce_marks, digest.delivered);
        }
        let una_advanced = self.una > digest.prior_una;
        self.rack.update_steps(self.rate.prior_delivered(), self.rate.delivered());
        let not_dup = una_advanced || digest.window_grew;
        let pure_duplicate = !not_dup && digest.sacked == 0;
        if self.probe.on_ack(ProbeAck { ack: ack.ack, dsack_of_probe: digest.duplicate_of_probe, pure_duplicate }) {
            self.begin_reduction(now, Congestion::Loss);
            self.notify_controller(now, Congestion::TailLoss);
            self.state = State::Cwr;
            self.end_reduction();
            self.try_keep_open(now);
            self.record_event(now, FlowEvent::TailLoss);
        }
        if !not_dup || digest.sacked > 0 || digest.duplicate_reported || ece || self.state != State::Open {
            let rexmit = self.fastretrans_alert(
                now,
                AckSignals {
                    prior_una: digest.prior_una,
                    una_advanced,
                    ts_ecr: ack.ts_ecr,
                    sacked: digest.sacked > 0,
                    duplicate: !not_dup && !digest.duplicate_reported,
                    original_arrived: digest.original_arrived,
                    ece,
                },
            );
            self.hold_retransmissions = rexmit == Rexmit::Hold;
        }
        if digest.restart_timer && !self.reordering_armed {
            self.set_timer(now);
        }
        let sample = self.rate.finish(now, digest.delivered > 0, self.min_rtt.get());
        self.control(now, &digest, self.counters.lost - lost_before, sample);
    }

    /// Update windows, scoreboard and RTT estimators from an acknowledgement.
    fn digest(&mut self, now: Time, ack: &Ack) -> AckDigest {
        let (prior_una, prior_in_flight, prior_sacked) = (self.una, self.scoreboard.in_flight(), self.scoreboard.sacked_out());
        let mut window_grew = false;
        if ack.ack > self.una {
            self.una = ack.ack;
            self.timeouts_in_row = 0;
        }
        if ack.ack >= prior_una {
            // The right edge never moves back (RFC 9293 §3.8.6).
            let edge = ack.ack.saturating_add(ack.window.0);
            window_grew = ack.ack == prior_una && edge > self.window_end;
            self.window_end = self.window_end.max(edge);
            self.on_peer_window(ack.window);
        }
        self.ts_recent = self.ts_recent.max(ack.tsval);

        let highest_sacked = self.scoreboard.highest_sacked(prior_una);
        let mut arrivals = Arrivals::begin(now, ack.ts_ecr, self.high_seq, highest_sacked, &self.min_rtt, &mut self.rack, &mut self.rate);
        let mut blocks = ack.sacks.as_slice();
        let (mut duplicate_reported, mut duplicate_of_probe) = (false, false);
        if ack.dsack
            && let Some((&(start, end), rest)) = blocks.split_first()
        {
            blocks = rest;
            let segments = u32::try_from(end.saturating_sub(start).div_ceil(u64::from(self.config.mss)).max(1)).unwrap_or(u32::MAX);
            duplicate_of_probe = segments == 1 && self.probe.high_seq() == Some(end);
            self.counters.duplicates += u64::from(segments);
            // More duplicates than retransmissions: the network duplicates packets, which is no evidence.
            if self.counters.duplicates <= self.counters.retransmits {
                duplicate_reported = true;
                arrivals.on_duplicates(segments, duplicate_of_probe);
                if end <= prior_una {
                    self.undo.on_duplicate(end, segments);
                } else {
                    self.scoreboard.on_duplicate(start, end, |end| self.undo.on_duplicate(end, 1));
                }
            }
        }
        self.scoreboard.sack(prior_una, blocks, &mut arrivals);
        let acked_bytes = if self.una > prior_una { self.scoreboard.acknowledge(self.una, &mut arrivals) } else { 0 };
        self.counters.acked_bytes += acked_bytes;
        // The reordering degree is measured from the highest SACK, before or after this acknowledgement.
        arrivals.report_reordering(highest_sacked.max(self.scoreboard.highest_sacked(self.una)), self.config.mss);

        let (acked, sacked, delivered) = (arrivals.acked, arrivals.sacked, arrivals.delivered);
        let acked_span = arrivals.acked_span.filter(|_| !arrivals.retransmission_acked);
        let sacked_span = arrivals.sacked_span;
        let original_arrived = arrivals.original_arrived;
        // A single short segment, acknowledged alone: the receiver delayed the ACK.
        let delayed = acked == 1 && delivered == 1 && prior_sacked == 0 && acked_bytes < u64::from(self.config.mss);
        let delayed = delayed && acked_span.is_some();
        // The oldest packet gives the RTT for the RTO, the newest the RTT of the path.
        let echo = (acked > 0).then(|| now.since(ack.ts_ecr));
        let oldest = acked_span.or(sacked_span).map(|s| now.since(s.first)).or(echo);
        let newest = sacked_span.or(acked_span).map(|s| now.since(s.last)).or(echo);
        let rtt = oldest.zip(newest).map(|(oldest, newest)| {
            // The minimum excludes host time, as do the times that RACK and the rate sampler compare with it.
            self.min_rtt.update(now, newest, delayed);
            let hosts = self.turnaround.draw();
            let [oldest, newest] = [oldest, newest].map(|path| self.turnaround.clock(path + hosts));
            self.rtt.sample(oldest, self.una, self.nxt);
            self.counters.latest_rtt = Some(newest);
            self.counters.fresh_rtt = Some(newest);
            newest
        });
        // SACKs of data sent after the first packet must not postpone its time-out for ever.
        let head_sent = self.scoreboard.head().map(|p| p.sent_at);
        let restart_timer = acked > 0 || sacked_span.is_some_and(|s| head_sent.is_some_and(|head| s.first < head));
        AckDigest {
            prior_una,
            prior_in_flight,
            acked,
            sacked,
            delivered,
            original_arrived,
            window_grew,
            duplicate_reported,
            duplicate_of_probe,
            rtt,
            delayed,
            restart_timer,
        }
    }

    /// Packets lost since the wrapped count `before`.
    fn lost_since(&self, before: u32) -> u64 {
        #[allow(clippy::cast_possible_truncation)] // the counts in packet records wrap
        let lost = self.counters.lost as u32;
        u64::from(lost.wrapping_sub(before))
    }

    /// Let the controller or PRR set the window (`tcp_cong_control`).
    fn control(&mut self, now: Time, digest: &AckDigest, newly_lost: u64, sample: Option<Sample>) {
        let delivered = u64::from(digest.delivered);
        let delivery = sample.map(|s| RateSample {
            prior_delivered: self.bytes(s.prior_delivered),
            delivered: self.bytes(s.delivered),
            interval: s.interval,
            app_limited: s.app_limited,
        });
        let ack = AckSample {
            now,
            mss: self.config.mss,
            acked: self.bytes(delivered),
            cumulative: self.bytes(u64::from(digest.acked)),
            newly_lost: self.bytes(newly_lost),
            rtt: digest.rtt,
            srtt: self.rtt.srtt().unwrap_or(Nanos::ZERO),
            min_rtt: self.min_rtt.get(),
            delivery,
            delivered_total: self.bytes(self.rate.delivered()),
            lost_total: self.bytes(self.counters.lost),
            tx_in_flight: self.bytes(u64::from(self.rate.tx_in_flight())),
            prior_in_flight: self.bytes(u64::from(digest.prior_in_flight)),
            in_flight: self.in_flight_bytes(),
            ce_count: self.counters.ce_marks,
            ack_delayed: digest.delayed,
            lost_since_sent: self.bytes(self.rate.lost_before().map_or(0, |before| self.lost_since(before))),
            window_full: self.usage.is_full(),
            cwnd_limited: self.usage.is_limited(self.cwnd, self.in_slow_start()),
            recovery: self.state.public(),
            app_limited: self.rate.is_app_limited(),
            snd_una: self.una,
            snd_nxt: self.nxt,
            pacing_rate: self.nominal_rate,
            next_departure: self.pacer.next_departure(),
        };
        self.controller.on_acked(&ack);
        // The window grows only after cumulative progress, or any delivery on a path that reorders widely.
        let progress = digest.acked > 0 || (digest.sacked > 0 && self.rack.reorders_widely());
        if self.controls_recovery {
            self.controller.on_ack(&ack);
        } else if self.in_reduction() {
            self.reduce(delivered, newly_lost, self.una > digest.prior_una);
        } else if progress && ack.acked > Bytes::ZERO {
            self.controller.on_ack(&ack);
        }
        self.sync_window();
        self.update_pacing();
        self.bound_rto(now);
    }
}
