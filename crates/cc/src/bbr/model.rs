//! Order in which an ACK updates the model (`bbr_update_model`).

use super::super::bbr_parts::bw::Bw;
use super::super::bbr_parts::probe_rtt::Step;
use super::super::window::clamped_packets;
use super::super::{AckSample, RateSample};
use super::params::{CWND_GAIN, DRAIN_GAIN, EXTRA_ACKED_WINDOW_ROUNDS, HIGH_GAIN, UNIT};
use super::policer::{Sample, Verdict};
use super::probe_bw::PhaseSample;
use super::{Bbr, Mode};
use bentpipe_profile::{Bytes, Nanos, Time};

/// Packet counts of an ACK.
#[derive(Clone, Copy, Debug)]
pub struct AckCounts {
    pub acked: u64,
    pub lost: u64,
    pub in_flight: u64,
    pub prior_in_flight: u64,
}

impl Bbr {
    pub(super) fn update_model(&mut self, ack: &AckSample) -> AckCounts {
        let count = |bytes| clamped_packets(bytes, self.mss);
        let counts = AckCounts {
            acked: count(ack.acked),
            lost: count(ack.newly_lost),
            in_flight: count(ack.in_flight),
            prior_in_flight: count(ack.prior_in_flight),
        };
        if counts.acked > 0 {
            self.totals.delivered_at = ack.now;
        }
        self.totals.delivered = ack.delivered_total;
        self.totals.lost = ack.lost_total;
        // Below a microsecond, the kernel clock's resolution, there is no rate.
        let delivery = ack.delivery.as_ref().filter(|d| d.interval >= Nanos::from_micros(1));
        let app_limited = delivery.is_some_and(|d| d.app_limited || self.probe_rtt.slowed(d.prior_delivered));
        self.update_bandwidth(delivery, ack.delivered_total, counts.lost > 0, app_limited);
        if delivery.is_some() {
            let bw = self.bw();
            self.aggregation.on_ack(
                self.totals.delivered_at,
                counts.acked,
                self.bandwidth.rounds.start(),
                EXTRA_ACKED_WINDOW_ROUNDS,
                bw,
                self.cwnd,
            );
        }
        self.update_cycle(ack, &counts);
        if self.bandwidth.rounds.start() && !app_limited {
            self.full_pipe.on_round(self.bandwidth.max());
        }
        self.check_drain(ack, &counts);
        self.update_min_rtt(ack, &counts);
        self.update_gains();
        counts
    }

    /// Updates the round, the policer detector and the bandwidth (`bbr_update_bw`).
    fn update_bandwidth(&mut self, delivery: Option<&RateSample>, delivered_total: Bytes, lossy: bool, app_limited: bool) {
        let round_start = self.bandwidth.rounds.advance(delivery, delivered_total);
        let Some(delivery) = delivery else { return };
        if round_start {
            self.recovery.end_conservation();
        }
        self.sample_policer(lossy, app_limited);
        if let Some(bw) = Bw::of(delivery.delivered, delivery.interval, self.mss) {
            self.bandwidth.update(bw, app_limited);
        }
    }

    /// Feeds the policer detector (`bbr_lt_bw_sampling`).
    pub(super) fn sample_policer(&mut self, lossy: bool, app_limited: bool) {
        if self.variant.ignores_policers {
            return;
        }
        let sample = Sample {
            totals: self.totals,
            round_start: self.bandwidth.rounds.start(),
            lossy,
            app_limited,
            in_probe_bw: self.mode == Mode::ProbeBw,
        };
        match self.policer.on_ack(&sample) {
            Verdict::Nothing => {}
            Verdict::Detected => self.pacing_gain = UNIT,
            Verdict::Expired => self.cycle.restart(self.totals.delivered_at),
        }
    }

    /// Moves to the next phase of `PROBE_BW` if the current one is over (`bbr_update_cycle_phase`).
    fn update_cycle(&mut self, ack: &AckSample, counts: &AckCounts) {
        if self.mode != Mode::ProbeBw {
            return;
        }
        let bw = self.bandwidth.max();
        let sample = PhaseSample {
            gain: self.pacing_gain,
            min_rtt: self.min_rtt.get(),
            lossy: counts.lost > 0,
            inflight: self.inflight_at_departure(counts.prior_in_flight, ack.now, ack.next_departure),
            inflight_at_gain: self.target_inflight(bw, self.pacing_gain),
            inflight_at_unit: self.target_inflight(bw, UNIT),
        };
        if self.cycle.is_over(self.totals.delivered_at, &sample) {
            self.cycle.advance(self.totals.delivered_at);
        }
    }

    /// Enters DRAIN when the pipe is full, and `PROBE_BW` when the queue is drained (`bbr_check_drain`).
    fn check_drain(&mut self, ack: &AckSample, counts: &AckCounts) {
        let full = self.target_inflight(self.bandwidth.max(), UNIT);
        if self.mode == Mode::Startup && self.full_pipe.reached() {
            self.transition_to(Mode::Drain);
            self.ssthresh = Bytes(full.saturating_mul(u64::from(self.mss)));
        }
        if self.mode == Mode::Drain && self.inflight_at_departure(counts.in_flight, ack.now, ack.next_departure) <= full {
            self.enter_probe_bw();
        }
    }

    /// Returns the packets in flight when the pacer releases the next packet (`bbr_packets_in_net_at_edt`).
    fn inflight_at_departure(&self, in_flight: u64, now: Time, next_departure: Time) -> u64 {
        let delivered = self.bw().packets_in(next_departure.since(now));
        let burst = if self.pacing_gain > UNIT { self.burst_packets() } else { 0 };
        (in_flight + burst).saturating_sub(delivered)
    }

    /// Updates the minimum RTT and runs `PROBE_RTT` (`bbr_update_min_rtt`).
    fn update_min_rtt(&mut self, ack: &AckSample, counts: &AckCounts) {
        let expired = self.min_rtt.on_ack(ack.now, ack.rtt, ack.ack_delayed);
        if expired && !self.idle_restart && self.mode != Mode::ProbeRtt {
            self.start_probe_rtt(ack.delivered_total);
        }
        if self.mode == Mode::ProbeRtt {
            let small = counts.in_flight <= self.probe_rtt_window();
            let round_start = self.bandwidth.rounds.start();
            match self.probe_rtt.on_ack(ack.now, small, round_start, ack.delivered_total, ack.in_flight) {
                Step::Wait => {}
                Step::Begin => self.bandwidth.rounds.restart(ack.delivered_total),
                Step::Done => self.leave_probe_rtt(ack.now),
            }
        }
        if ack.delivery.is_some_and(|d| d.delivered.0 > 0) {
            self.idle_restart = false;
        }
    }

    /// Sets the gains of the current state (`bbr_update_gains`).
    pub(super) fn update_gains(&mut self) {
        (self.pacing_gain, self.cwnd_gain) = match self.mode {
            Mode::Startup => (HIGH_GAIN, HIGH_GAIN),
            Mode::Drain => (DRAIN_GAIN, HIGH_GAIN),
            Mode::ProbeBw => (if self.policer.bw().is_some() { UNIT } else { self.cycle.gain() }, CWND_GAIN),
            Mode::ProbeRtt => (UNIT, UNIT),
        };
        if let Some(up) = self.variant.up_gain.filter(|_| self.mode == Mode::ProbeBw && self.pacing_gain > UNIT) {
            self.pacing_gain = up;
        }
    }
}
