//! BBR version 3, and, with other rules and values, version 2 ([`super::bbr2`]).
//!
//! Source: draft-ietf-ccwg-bbr-06; Linux: github.com/google/bbr, branch v3, `net/ipv4/tcp_bbr.c`, and branch v2alpha, `net/ipv4/tcp_bbr2.c`. Names in backticks
//! are the draft's, or a kernel function's where they begin with `bbr_`.
//!
//! ```text
//!   STARTUP ──► DRAIN ──► DOWN ──► CRUISE ──► REFILL ──► UP ──┐         probe_bw.rs
//!                          ▲  └──────────────────▲            │
//!                          └──────────────────────────────────┘
//!   any ──► PROBE_RTT ──► CRUISE, or STARTUP                            bbr_parts/probe_rtt.rs, min_rtt.rs
//! ```
//! | file | content |
//! |---|---|
//! | `sample.rs` | an ACK in packets |
//! | `signals.rs` | the short-term model: delivery in the last round, bounds from losses outside of probes; losses in STARTUP |
//! | `long_term.rs` | the long-term model: the bandwidth of two cycles, the safe inflight |
//! | `probe_bw.rs` | the cycle of `PROBE_BW` |
//! | `window.rs` | pacing rate and window |
//! | `undo.rs` | spurious losses, time-outs, tail losses |
//! | `ecn.rs` | marks, with Linux's response |
//! | `options.rs` | options of versions 2 and 3 |
//! | `params.rs` | values in the kernel's integers, and the rules in which the versions differ |
//!
//! Differences from the draft and from Linux are listed in docs/reference/controllers.md.

mod ecn;
mod long_term;
mod min_rtt;
pub(super) mod options;
pub(super) mod params;
mod probe_bw;
mod sample;
mod signals;
mod state;
mod undo;
mod window;

use super::bbr_parts::aggregation::Aggregation;
use super::bbr_parts::full_pipe::FullPipe;
use super::bbr_parts::params::{SNDBUF_FACTOR, UNIT, min_burst_packets};
use super::bbr_parts::probe_rtt::{ProbeRtt, Step};
use super::bbr_parts::rounds::Rounds;
use super::hints::Needs;
use super::registry::{Config, Entry};
use super::window::packets;
use super::{AckSample, Congestion, Controller, LostPacket, Probe, RecoveryState};
use bentpipe_profile::tunables::OptionSet;
use bentpipe_profile::{Bytes, Nanos, Rate, Time};
use ecn::Ecn;
use long_term::{MaxBw, Slope};
use min_rtt::NestedMinRtt;
use options::Options3;
use params::{Params, Rules};
use probe_bw::{AckPhase, Cycle};
use sample::Sample;
use signals::{Latest, ShortTerm};
use state::State;
use undo::Undo;

/// `bbr3` in the registry.
pub const ENTRY: Entry = Entry {
    name: "bbr3",
    status: "draft-ietf-ccwg-bbr-06; `rules=linux`: as google/bbr v3",
    description: "BBR that limits rate and inflight by losses, in a long-term and a short-term model",
    citation: "draft-ietf-ccwg-bbr-06; github.com/google/bbr, branch v3",
    needs: Needs::Nothing,
    options: Options3::SPECS,
    build: |config, values| Box::new(Bbr3::new(config, &Params::version_3(&Options3::read(values)))),
};

/// BBR version 2 or 3.
#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools)] // independent flags, not states
pub struct Bbr3 {
    p: Params,
    mss: u32,
    /// [packets]
    cwnd: u64,
    initial_cwnd: u64,
    /// Window to restore after recovery or `PROBE_RTT`.
    prior_cwnd: u64,
    /// BDP when the pipe was full; its value shows the sender that slow start is over.
    ssthresh: Bytes,
    pacing_rate: Rate,
    has_rtt: bool,
    state: State,
    rounds: Rounds,
    drain_start_round: u64,
    max_bw: MaxBw,
    latest: Latest,
    short_term: ShortTerm,
    /// Safe inflight in the long run (`inflight_longterm`); `None`: no loss has set it.
    inflight_longterm: Option<u64>,
    slope: Slope,
    cycle: Cycle,
    min_rtt: NestedMinRtt,
    probe_rtt: ProbeRtt,
    full: FullPipe,
    aggregation: Aggregation,
    ecn: Ecn,
    undo: Undo,
    /// Undo resumed a probe: its round begins with the next ACK.
    resumes_probe: bool,
    /// State of the sender at the last ACK.
    previous: RecoveryState,
    delivered_total: Bytes,
    delivered_at: Time,
    /// The first ACK after an idle period is still to come: an old minimum RTT may be right.
    idle_restart: bool,
    app_limited: bool,
    /// Losses are not congestion at present (`Bbr3::ignore_losses`).
    ignores_losses: bool,
}

impl Bbr3 {
    /// Creates the controller of a new connection.
    pub(super) fn new(config: &Config, p: &Params) -> Self {
        let initial_cwnd = packets(config.initial_cwnd, config.mss).max(1);
        let mut bbr = Self {
            p: *p,
            mss: config.mss,
            cwnd: initial_cwnd,
            initial_cwnd,
            prior_cwnd: 0,
            ssthresh: Bytes::MAX,
            pacing_rate: Rate(0),
            has_rtt: false,
            state: State::Startup,
            rounds: Rounds::default(),
            drain_start_round: 0,
            max_bw: MaxBw::default(),
            latest: Latest::default(),
            short_term: ShortTerm::default(),
            inflight_longterm: None,
            slope: Slope::default(),
            cycle: Cycle::new(config.streams.stream("bbr/cycle")),
            min_rtt: NestedMinRtt::new(p, Time::ZERO),
            probe_rtt: ProbeRtt::new(p.probe_rtt_duration),
            full: FullPipe::new(p.full_bw_growth, p.full_bw_rounds),
            aggregation: match p.rules {
                Rules::Draft => Aggregation::with_one_window(Time::ZERO),
                Rules::Linux3 | Rules::Linux2 => Aggregation::with_two_windows(Time::ZERO),
            },
            ecn: Ecn::new(p),
            undo: Undo::default(),
            resumes_probe: false,
            previous: RecoveryState::Open,
            delivered_total: Bytes::ZERO,
            delivered_at: Time::ZERO,
            idle_restart: false,
            app_limited: false,
            ignores_losses: false,
        };
        bbr.init_pacing_rate(None);
        bbr
    }

    /// Sets whether losses are ignored from now on, for a controller that knows the path.
    pub(super) const fn ignore_losses(&mut self, ignores_losses: bool) {
        self.ignores_losses = ignores_losses;
    }

    /// Resets the bounds and the minimum RTT after a reconfiguration. The bandwidth stays, as a first guess.
    pub(super) fn reset_path(&mut self, ack: &AckSample) {
        self.short_term = ShortTerm::default();
        self.inflight_longterm = None;
        self.min_rtt = NestedMinRtt::new(&self.p, ack.now);
        // Without an RTT, the BDP would be the initial window until the end of this ACK, small enough to start a probe.
        self.min_rtt.on_ack(ack.now, ack.rtt.or(Some(ack.srtt)), false);
    }

    /// Postpones `PROBE_RTT`, for a controller that keeps the queue short.
    pub(super) const fn postpone_probe_rtt(&mut self, now: Time) {
        self.min_rtt.refresh(now);
    }

    /// Returns whether STARTUP is over.
    pub(super) const fn has_left_startup(&self) -> bool {
        self.full.reached() && !matches!(self.state, State::Startup)
    }

    /// Returns whether the window is at least the BDP.
    pub(super) fn is_cwnd_at_bdp(&self) -> bool {
        self.cwnd >= self.bdp(self.bw(), UNIT)
    }

    /// Returns the share of lost packets that shows that inflight was too high [1/256].
    pub(super) const fn loss_threshold(&self) -> u64 {
        self.p.loss_threshold
    }

    fn transition_to(&mut self, next: State) {
        debug_assert!(self.state.may_become(next), "{:?} never becomes {next:?}", self.state);
        self.state = next;
    }

    /// Updates the model and the state (`UpdateModelAndState`).
    fn update_model(&mut self, ack: &AckSample, s: &Sample) {
        self.update_latest(s);
        self.update_congestion_signals(s);
        if s.valid {
            // Until the pipe is full the window is one round (`ExtraAckedFilterLen`, `bbr_extra_acked_win_rtts` after it).
            let window = if self.full.reached() { self.p.extra_acked_rounds } else { 1 };
            self.aggregation.on_ack(self.delivered_at, s.acked, s.round_start, window, self.bw(), self.cwnd);
        }
        self.check_startup_loss(s);
        self.check_full_pipe(s);
        self.check_drain(s, ack.next_departure);
        self.update_cycle(s, ack.next_departure);
        self.update_min_rtt(ack, s);
    }

    /// Updates the minimum RTT and runs `PROBE_RTT` (`UpdateMinRTT`, `CheckProbeRTT`).
    fn update_min_rtt(&mut self, ack: &AckSample, s: &Sample) {
        let expired = self.min_rtt.on_ack(ack.now, ack.rtt, ack.ack_delayed);
        if expired && !self.idle_restart && self.state != State::ProbeRtt {
            self.save_cwnd();
            self.transition_to(State::ProbeRtt);
            self.probe_rtt.enter(ack.delivered_total);
            self.cycle.ack_phase = AckPhase::ProbeStopping;
            self.rounds.restart(ack.delivered_total);
        }
        if self.state == State::ProbeRtt {
            let small = s.in_flight <= self.probe_rtt_cwnd();
            match self.probe_rtt.on_ack(ack.now, small, s.round_start, ack.delivered_total, ack.in_flight) {
                Step::Wait => {}
                Step::Begin => self.rounds.restart(ack.delivered_total),
                Step::Done => self.leave_probe_rtt(ack.now),
            }
        }
        if s.delivered > 0 {
            self.idle_restart = false;
        }
    }

    /// Leaves `PROBE_RTT` (second part of `CheckProbeRTTDone`, and `ExitProbeRTT`).
    fn leave_probe_rtt(&mut self, now: Time) {
        self.min_rtt.refresh(now);
        self.cwnd = self.cwnd.max(self.prior_cwnd);
        self.short_term = ShortTerm::default();
        if self.full.reached() {
            // The next probe is a whole interval away; inflight is small already.
            self.start_down(now, self.delivered_total);
            self.start_cruise();
        } else {
            self.transition_to(State::Startup);
        }
    }

    /// Restarts after an idle period (`HandleRestartFromIdle`).
    fn on_restart(&mut self, now: Time) {
        if !self.app_limited && self.state != State::ProbeRtt {
            return;
        }
        self.idle_restart = true;
        self.aggregation.restart_epoch(now);
        if self.state.is_probe_bw() {
            self.set_pacing_rate(UNIT, Nanos::ZERO);
        } else if self.state == State::ProbeRtt && self.probe_rtt.time_is_up(now) {
            self.leave_probe_rtt(now);
        }
    }
}

impl Controller for Bbr3 {
    fn on_established(&mut self, now: Time, rtt: Option<Nanos>) {
        self.delivered_at = now;
        self.min_rtt = NestedMinRtt::new(&self.p, now);
        self.min_rtt.on_ack(now, rtt, false);
        self.aggregation.restart_epoch(now);
        self.init_pacing_rate(rtt);
    }

    fn on_ack(&mut self, ack: &AckSample) {
        self.app_limited = ack.app_limited;
        self.delivered_total = ack.delivered_total;
        if ack.acked > Bytes::ZERO {
            self.delivered_at = ack.now;
        }
        self.leave_recovery(ack.recovery);
        self.ecn.on_ack(ack.delivered_total, ack.ce_count);
        if std::mem::take(&mut self.resumes_probe) {
            self.rounds.restart(ack.delivered_total);
        }
        let s = self.sample(ack);
        if s.round_start {
            self.cycle.on_round();
            let share = self.ecn.on_round(&self.p, self.mss, self.min_rtt.get(), ack.delivered_total, ack.ce_count);
            self.check_startup_marks(share);
        }
        self.update_model(ack, &s);
        self.set_pacing_rate(self.state.pacing_gain(&self.p), ack.srtt);
        self.update_cwnd(&s);
        self.advance_latest(&s);
        self.previous = ack.recovery;
    }

    fn on_packet_lost(&mut self, lost: &LostPacket) {
        if self.ignores_losses {
            return;
        }
        if self.latest.note_loss(lost.delivered_total) && self.p.rules == Rules::Draft {
            self.save_cwnd();
            self.save_state();
        }
        if self.p.rules == Rules::Draft && !self.full.reached() {
            self.latest.count_gap(lost.seq, lost.seq + lost.bytes.0);
        }
        if self.cycle.probe_samples {
            self.on_lost_while_probing(lost);
        }
    }

    fn on_congestion(&mut self, now: Time, event: Congestion, in_flight: Bytes) {
        match event {
            Congestion::Loss | Congestion::Ecn => {
                self.save_cwnd();
                self.save_state();
            }
            Congestion::Timeout => {
                self.save_cwnd();
                self.save_state();
                self.on_timeout(packets(in_flight, self.mss));
            }
            Congestion::TimeoutAgain => self.on_timeout(packets(in_flight, self.mss)),
            Congestion::TailLoss => self.on_tail_loss(now, self.delivered_total),
            Congestion::Undo => self.on_undo(self.delivered_total),
            Congestion::RecoveryEnd => self.end_episode(),
            Congestion::Restart(_) => self.on_restart(now),
        }
    }

    fn on_sent(&mut self, _now: Time, _in_flight: Bytes, app_limited: bool) {
        self.app_limited = app_limited;
    }

    fn cwnd(&self) -> Bytes {
        Bytes(self.cwnd * u64::from(self.mss))
    }

    fn set_cwnd(&mut self, cwnd: Bytes) {
        self.cwnd = packets(cwnd, self.mss).clamp(1, u64::from(u32::MAX));
    }

    fn ssthresh(&self) -> Bytes {
        self.ssthresh
    }

    fn pacing_rate(&self) -> Option<Rate> {
        Some(self.pacing_rate)
    }

    fn controls_recovery(&self) -> bool {
        true
    }

    fn sndbuf_factor(&self) -> u32 {
        SNDBUF_FACTOR
    }

    fn min_tso_segments(&self) -> Option<u32> {
        (self.p.rules == Rules::Linux2).then(|| min_burst_packets(self.pacing_rate))
    }

    fn observe(&self, probe: &mut dyn Probe) {
        probe.state(self.state.name());
        probe.value("bw_bps", self.bw().rate(self.mss).0 as f64);
        probe.value("max_bw_bps", self.max_bw.get().rate(self.mss).0 as f64);
        if let Some(min_rtt) = self.min_rtt.get() {
            probe.value("min_rtt_ms", min_rtt.as_millis_f64());
        }
        probe.value("pacing_gain", self.state.pacing_gain(&self.p) as f64 / UNIT as f64);
        probe.value("cwnd_gain", self.state.cwnd_gain(&self.p) as f64 / UNIT as f64);
        probe.value("rounds", self.rounds.count() as f64);
        probe.value("full_bw_count", f64::from(self.full.rounds_without_growth()));
        probe.value("extra_acked_packets", self.aggregation.extra_acked() as f64);
        if let Some(bw) = self.short_term.bw {
            probe.value("bw_shortterm_bps", bw.rate(self.mss).0 as f64);
        }
        if let Some(in_flight) = self.short_term.in_flight {
            probe.value("inflight_shortterm_packets", in_flight as f64);
        }
        if let Some(in_flight) = self.inflight_longterm {
            probe.value("inflight_longterm_packets", in_flight as f64);
        }
        probe.value("bw_probe_up_rounds", f64::from(self.slope.rounds));
        probe.value("ecn_alpha", self.ecn.alpha() as f64 / UNIT as f64);
    }
}

#[cfg(test)]
mod tests;
