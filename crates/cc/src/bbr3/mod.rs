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
//! | file | holds |
//! |---|---|
//! | `sample.rs` | an ACK in packets |
//! | `signals.rs` | the short-term model: what the last round delivered, bounds from losses outside of probes; STARTUP's loss |
//! | `long_term.rs` | the long-term model: the bandwidth of two cycles, the flight that is safe |
//! | `probe_bw.rs` | states and when they change |
//! | `window.rs` | rate and window |
//! | `undo.rs` | spurious losses, time-outs, tail losses |
//! | `ecn.rs` | marks, as Linux answers them |
//! | `params.rs` | values, and in whose rules they differ |
//!
//! Differences from the draft and from Linux are listed in docs/reference/controllers.md.

mod ecn;
mod long_term;
mod min_rtt;
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
use bentpipe_profile::{Bytes, Nanos, Rate, Time};
use ecn::Ecn;
use long_term::{MaxBw, Slope};
use min_rtt::NestedMinRtt;
use params::{OPTIONS_3, Params, Rules};
use probe_bw::{AckPhase, Cycle};
use sample::Sample;
use signals::{Latest, ShortTerm};
use state::State;
use undo::Undo;

/// `bbr3` in the registry.
pub const ENTRY: Entry = Entry {
    name: "bbr3",
    status: "draft-ietf-ccwg-bbr-06; `rules=linux`: as google/bbr v3",
    description: "BBR that bounds rate and flight by losses, on two time scales",
    citation: "draft-ietf-ccwg-bbr-06; github.com/google/bbr, branch v3",
    needs: Needs::Nothing,
    options: OPTIONS_3,
    build: |config, options| Box::new(Bbr3::new(config, &Params::version_3(options))),
};

/// BBR version 2 or 3.
#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools)] // independent facts, not states
pub struct Bbr3 {
    p: Params,
    mss: u32,
    /// [packets]
    cwnd: u64,
    initial_cwnd: u64,
    /// The window to come back to, from recovery or `PROBE_RTT`.
    prior_cwnd: u64,
    /// What the pipe held when it was found full; tells the sender that slow start is over.
    ssthresh: Bytes,
    pacing_rate: Rate,
    has_seen_rtt: bool,
    state: State,
    rounds: Rounds,
    drain_start_round: u64,
    max_bw: MaxBw,
    latest: Latest,
    short: ShortTerm,
    /// Flight that is safe in the long run (`inflight_longterm`); `None`: no loss has said.
    long_term: Option<u64>,
    slope: Slope,
    cycle: Cycle,
    min_rtt: NestedMinRtt,
    probe_rtt: ProbeRtt,
    full: FullPipe,
    aggregation: Aggregation,
    ecn: Ecn,
    undo: Undo,
    /// A probe was taken up again while the present ACK was looked at: its round begins with what that ACK delivers.
    resumes_probe: bool,
    /// The sender's state at the last ACK.
    previous: RecoveryState,
    delivered_total: Bytes,
    delivered_at: Time,
    /// The first ACK after a pause is yet to come: an old minimum RTT may still be the path's.
    idle_restart: bool,
    app_limited: bool,
    /// Losses are not the flight's making at present (`Bbr3::excuse_losses`).
    excused: bool,
}

impl Bbr3 {
    /// At the start of a connection.
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
            has_seen_rtt: false,
            state: State::Startup,
            rounds: Rounds::default(),
            drain_start_round: 0,
            max_bw: MaxBw::default(),
            latest: Latest::default(),
            short: ShortTerm::default(),
            long_term: None,
            slope: Slope::default(),
            cycle: Cycle::new(config.streams.stream("bbr/cycle")),
            min_rtt: NestedMinRtt::new(p, Time::ZERO),
            probe_rtt: ProbeRtt::new(p.probe_rtt_duration),
            full: FullPipe::new(p.full_bw_growth, p.full_bw_rounds),
            aggregation: match p.rules {
                Rules::Draft => Aggregation::of_one_window(Time::ZERO),
                Rules::Linux3 | Rules::Linux2 => Aggregation::of_two_windows(Time::ZERO),
            },
            ecn: Ecn::new(p),
            undo: Undo::default(),
            resumes_probe: false,
            previous: RecoveryState::Open,
            delivered_total: Bytes::ZERO,
            delivered_at: Time::ZERO,
            idle_restart: false,
            app_limited: false,
            excused: false,
        };
        bbr.init_pacing_rate(None);
        bbr
    }

    /// Whether losses, from here on, say nothing about the flight: somebody who knows the path says so.
    pub(super) const fn excuse_losses(&mut self, excused: bool) {
        self.excused = excused;
    }

    /// The path was changed: what bounded the flight, and the least RTT, were another's. The bandwidth stays, as a first guess.
    pub(super) fn forget_path(&mut self, ack: &AckSample) {
        self.short = ShortTerm::default();
        self.long_term = None;
        self.min_rtt = NestedMinRtt::new(&self.p, ack.now);
        // Without one its flight would be that of a new connection until the ACK is dealt with, and small enough to probe for more.
        self.min_rtt.on_ack(ack.now, ack.rtt.or(Some(ack.srtt)), false);
    }

    /// Somebody keeps the queue short: the least RTT need not be looked for.
    pub(super) const fn spare_probe_rtt(&mut self, now: Time) {
        self.min_rtt.refresh(now);
    }

    /// Whether STARTUP is over.
    pub(super) const fn has_started(&self) -> bool {
        self.full.reached() && !matches!(self.state, State::Startup)
    }

    /// Whether the window has come back to what the path holds by all that is known of it.
    pub(super) fn is_refilled(&self) -> bool {
        self.cwnd >= self.bdp(self.bw(), UNIT)
    }

    /// Part lost of a flight that says it was too large [1/256].
    pub(super) const fn loss_threshold(&self) -> u64 {
        self.p.loss_threshold
    }

    fn transition_to(&mut self, next: State) {
        debug_assert!(self.state.may_become(next), "{:?} never becomes {next:?}", self.state);
        self.state = next;
    }

    /// `UpdateModelAndState`.
    fn update_model(&mut self, ack: &AckSample, s: &Sample) {
        self.update_latest(s);
        self.update_congestion_signals(s);
        if s.valid {
            // One round's worth is remembered until the pipe is full (`ExtraAckedFilterLen`, `bbr_extra_acked_win_rtts` after it).
            let window = if self.full.reached() { self.p.extra_acked_rounds } else { 1 };
            self.aggregation.on_ack(self.delivered_at, s.acked, s.round_start, window, self.bw(), self.cwnd);
        }
        self.check_startup_loss(s);
        self.check_full_pipe(s);
        self.check_drain(s, ack.next_departure);
        self.update_cycle(s, ack.next_departure);
        self.update_min_rtt(ack, s);
    }

    /// `UpdateMinRTT`, `CheckProbeRTT`.
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

    /// `CheckProbeRTTDone`, once it is, and `ExitProbeRTT`.
    fn leave_probe_rtt(&mut self, now: Time) {
        self.min_rtt.refresh(now);
        self.cwnd = self.cwnd.max(self.prior_cwnd);
        self.short = ShortTerm::default();
        if self.full.reached() {
            // The next probe is a whole wait away; the flight is small already.
            self.start_down(now, self.delivered_total);
            self.start_cruise();
        } else {
            self.transition_to(State::Startup);
        }
    }

    /// `HandleRestartFromIdle`.
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
        if self.excused {
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
        if let Some(bw) = self.short.bw {
            probe.value("bw_shortterm_bps", bw.rate(self.mss).0 as f64);
        }
        if let Some(in_flight) = self.short.in_flight {
            probe.value("inflight_shortterm_packets", in_flight as f64);
        }
        if let Some(in_flight) = self.long_term {
            probe.value("inflight_longterm_packets", in_flight as f64);
        }
        probe.value("bw_probe_up_rounds", f64::from(self.slope.rounds));
        probe.value("ecn_alpha", self.ecn.alpha() as f64 / UNIT as f64);
    }
}

#[cfg(test)]
mod tests;
