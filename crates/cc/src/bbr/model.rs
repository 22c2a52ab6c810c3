//! The order in which an ACK changes the model (`bbr_update_model`).

use super::super::bbr_parts::bw::Bw;
use super::super::bbr_parts::probe_rtt::Step;
use super::super::window::clamped_packets;
use super::super::{AckSample, RateSample};
use super::params::{CWND_GAIN, DRAIN_GAIN, EXTRA_ACKED_WINDOW_ROUNDS, HIGH_GAIN, UNIT};
use super::policer::{Sample, Verdict};
use super::probe_bw::PhaseSample;
use super::{Bbr, Mode};
use bentpipe_profile::{Bytes, Nanos, Time};

/// An ACK in packets.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    pub acked: u64,
    pub lost: u64,
    pub in_flight: u64,
    pub prior_in_flight: u64,
}

impl Bbr {
    pub(super) fn update_model(&mut self, ack: &AckSample) -> Flow {
        let count = |bytes| clamped_packets(bytes, self.mss);
        let flow = Flow {
            acked: count(ack.acked),
            lost: count(ack.newly_lost),
            in_flight: count(ack.in_flight),
            prior_in_flight: count(ack.prior_in_flight),
        };
        if flow.acked > 0 {
            self.mark.delivered_at = ack.now;
        }
        self.mark.delivered = ack.delivered_total;
        self.mark.lost = ack.lost_total;
        // Below the kernel clock's microsecond there is no rate.
        let delivery = ack.delivery.as_ref().filter(|d| d.interval >= Nanos::from_micros(1));
        let app_limited = delivery.is_some_and(|d| d.app_limited || self.probe_rtt.slowed(d.prior_delivered));
        self.update_bandwidth(delivery, ack.delivered_total, flow.lost > 0, app_limited);
        if delivery.is_some() {
            let bw = self.bw();
            self.aggregation.on_ack(
                self.mark.delivered_at,
                flow.acked,
                self.bandwidth.rounds.start(),
                EXTRA_ACKED_WINDOW_ROUNDS,
                bw,
                self.cwnd,
            );
        }
        self.update_cycle(ack, &flow);
        if self.bandwidth.rounds.start() && !app_limited {
            self.full_pipe.on_round(self.bandwidth.max());
        }
        self.check_drain(ack, &flow);
        self.update_min_rtt(ack, &flow);
        self.update_gains();
        flow
    }

    /// `bbr_update_bw`.
    fn update_bandwidth(&mut self, delivery: Option<&RateSample>, delivered_total: Bytes, lossy: bool, app_limited: bool) {
        let round_start = self.bandwidth.rounds.advance(delivery, delivered_total);
        let Some(delivery) = delivery else { return };
        if round_start {
            self.recovery.end_conservation();
        }
        if !self.variant.ignores_policers {
            self.sample_policer(lossy, app_limited);
        }
        if let Some(bw) = Bw::of(delivery.delivered, delivery.interval, self.mss) {
            self.bandwidth.offer(bw, app_limited);
        }
    }

    /// `bbr_lt_bw_sampling`.
    pub(super) fn sample_policer(&mut self, lossy: bool, app_limited: bool) {
        let sample = Sample {
            mark: self.mark,
            round_start: self.bandwidth.rounds.start(),
            lossy,
            app_limited,
            in_probe_bw: self.mode == Mode::ProbeBw,
        };
        match self.policer.on_ack(&sample) {
            Verdict::Nothing => {}
            Verdict::Detected => self.pacing_gain = UNIT,
            Verdict::Expired => self.cycle.restart(self.mark.delivered_at),
        }
    }

    /// `bbr_update_cycle_phase`.
    fn update_cycle(&mut self, ack: &AckSample, flow: &Flow) {
        if self.mode != Mode::ProbeBw {
            return;
        }
        let bw = self.bandwidth.max();
        let sample = PhaseSample {
            gain: self.pacing_gain,
            min_rtt: self.min_rtt.get(),
            lossy: flow.lost > 0,
            flight: self.flight_at_departure(flow.prior_in_flight, ack.now, ack.next_departure),
            flight_at_gain: self.target_in_flight(bw, self.pacing_gain),
            flight_at_unit: self.target_in_flight(bw, UNIT),
        };
        if self.cycle.is_over(self.mark.delivered_at, &sample) {
            self.cycle.advance(self.mark.delivered_at);
        }
    }

    /// `bbr_check_drain`.
    fn check_drain(&mut self, ack: &AckSample, flow: &Flow) {
        let full = self.target_in_flight(self.bandwidth.max(), UNIT);
        if self.mode == Mode::Startup && self.full_pipe.reached() {
            self.transition_to(Mode::Drain);
            self.ssthresh = Bytes(full.saturating_mul(u64::from(self.mss)));
        }
        if self.mode == Mode::Drain && self.flight_at_departure(flow.in_flight, ack.now, ack.next_departure) <= full {
            self.enter_probe_bw();
        }
    }

    /// `bbr_packets_in_net_at_edt`: what will be in flight when the pacer lets the next packet out.
    fn flight_at_departure(&self, in_flight: u64, now: Time, next_departure: Time) -> u64 {
        let delivered = self.bw().packets_in(next_departure.since(now));
        let burst = if self.pacing_gain > UNIT { self.burst_packets() } else { 0 };
        (in_flight + burst).saturating_sub(delivered)
    }

    /// `bbr_update_min_rtt`.
    fn update_min_rtt(&mut self, ack: &AckSample, flow: &Flow) {
        let expired = self.min_rtt.on_ack(ack.now, ack.rtt, ack.ack_delayed);
        if expired && !self.idle_restart && self.mode != Mode::ProbeRtt {
            self.probe_rtt_now(ack.delivered_total);
        }
        if self.mode == Mode::ProbeRtt {
            let small = flow.in_flight <= self.probe_rtt_window();
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

    /// `bbr_update_gains`.
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
