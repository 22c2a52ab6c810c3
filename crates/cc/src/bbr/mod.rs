//! BBR v1 as in Linux.
//!
//! Source: Linux `net/ipv4/tcp_bbr.c`, 6.18; Cardwell et al., "BBR: congestion-based congestion control", ACM Queue 14(5), 2016;
//! draft-cardwell-iccrg-bbr-congestion-control-00.
//!
//! On every ACK:
//! ```text
//! bandwidth    = greatest delivery rate of 10 rounds          (bandwidth.rs)
//! min_rtt      = minimum RTT of 10 s                          (bbr_parts/min_rtt.rs)
//! pacing rate  = pacing_gain · bandwidth                      (window.rs)
//! window       = max(cwnd_gain · bandwidth · min_rtt + …, 4)  (window.rs)
//! ```
//! ```text
//!          ┌──► STARTUP ──► DRAIN ──► PROBE_BW ◄──┐     bbr_parts/full_pipe.rs, probe_bw.rs
//!          │       │          │          │        │
//!          │       ▼          ▼          ▼        │
//!          └──────────── PROBE_RTT ───────────────┘     bbr_parts/probe_rtt.rs: when min_rtt is older than its window
//! ```
//! STARTUP comes back after `PROBE_RTT` only while the pipe was never full. Besides the states: packet conservation in recovery (recovery.rs), ACK aggregation
//! (`bbr_parts/aggregation.rs`), policers (policer.rs). Losses have no other effect.
//!
//! Differences from the kernel: delivered data is counted in bytes and divided by the MSS, not in packets; a bandwidth never rounds to zero; clocks are
//! nanoseconds where the kernel compares jiffies.

mod bandwidth;
mod model;
mod params;
mod policer;
mod probe_bw;
mod recovery;
mod window;

use super::bbr_parts::aggregation::Aggregation;
use super::bbr_parts::bw::Bw;
use super::bbr_parts::full_pipe::FullPipe;
use super::bbr_parts::min_rtt::MinRtt;
use super::bbr_parts::probe_rtt::ProbeRtt;
use super::hints::Needs;
use super::registry::{Config, Entry};
use super::window::packets;
use super::{AckSample, Congestion, Controller, Probe};
use bandwidth::Bandwidth;
use bentpipe_profile::tunables::{OptionSet, millis, seconds};
use bentpipe_profile::{Bytes, Nanos, Rate, Time};
use params::{FULL_BW_GROWTH, FULL_BW_ROUNDS, HIGH_GAIN, MIN_RTT_WINDOW_S, PROBE_RTT_MS, SNDBUF_FACTOR, UNIT};
use policer::Policer;
use probe_bw::Cycle;
use recovery::Recovery;

/// `bbr` in the registry.
pub const ENTRY: Entry = Entry {
    name: "bbr",
    status: "as in Linux 6.18 (BBR v1)",
    description: "paces at the measured bandwidth and keeps two bandwidth-delay products in flight",
    citation: "Cardwell et al., ACM Queue 14(5), 2016; Linux net/ipv4/tcp_bbr.c",
    needs: Needs::Nothing,
    options: Options::SPECS,
    build: |config, values| Box::new(Bbr::new(config, Options::read(values))),
};

options! {
    /// Options of `bbr`.
    pub struct Options {
        min_rtt_window: Nanos = seconds(
            "min_rtt_win_s",
            "time after which the minimum RTT expires",
            MIN_RTT_WINDOW_S,
            0.1,
            3600.0,
            "`bbr_min_rtt_win_sec`",
        ),
        probe_rtt: Nanos = millis(
            "probe_rtt_mode_ms",
            "time for which PROBE_RTT keeps little in flight",
            PROBE_RTT_MS,
            1.0,
            10_000.0,
            "`bbr_probe_rtt_mode_ms`",
        ),
    }
}

/// States of BBR v1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Startup,
    Drain,
    ProbeBw,
    ProbeRtt,
}

impl Mode {
    const fn may_become(self, next: Self) -> bool {
        matches!(
            (self, next),
            (Self::Startup, Self::Drain)
                | (Self::Drain, Self::ProbeBw)
                | (Self::Startup | Self::Drain | Self::ProbeBw, Self::ProbeRtt)
                | (Self::ProbeRtt, Self::Startup | Self::ProbeBw)
        )
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Startup => "startup",
            Self::Drain => "drain",
            Self::ProbeBw => "probe_bw",
            Self::ProbeRtt => "probe_rtt",
        }
    }
}

/// BBR v1 congestion control.
#[derive(Clone, Debug)]
pub struct Bbr {
    mss: u32,
    /// [packets]
    cwnd: u64,
    /// BDP when the pipe was full; its value shows the sender that slow start is over.
    ssthresh: Bytes,
    pacing_rate: Rate,
    /// Whether the pacing rate comes from a measured RTT.
    has_rtt: bool,
    mode: Mode,
    pacing_gain: u64,
    cwnd_gain: u64,
    bandwidth: Bandwidth,
    min_rtt: MinRtt,
    full_pipe: FullPipe,
    cycle: Cycle,
    probe_rtt: ProbeRtt,
    recovery: Recovery,
    aggregation: Aggregation,
    policer: Policer,
    /// Delivered and lost bytes, as of the last delivery.
    totals: policer::Totals,
    /// The first ACK after an idle period is still to come: an old minimum RTT may be right.
    idle_restart: bool,
    app_limited: bool,
    variant: Variant,
}

/// Changes by a controller that is built on this one; default: none.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Variant {
    /// Policers are not detected.
    pub ignores_policers: bool,
    /// Window in `PROBE_RTT`, in bandwidth-delay products [1/256]; `None`: the smallest window.
    pub probe_rtt_gain: Option<u64>,
    /// Gain of the phase that probes for bandwidth [1/256].
    pub up_gain: Option<u64>,
    /// Bandwidth to use; `None`: the greatest of ten rounds.
    pub bw: Option<Bw>,
}

impl Bbr {
    /// Creates the controller of a new connection.
    #[must_use]
    pub fn new(config: &Config, options: Options) -> Self {
        let mut bbr = Self {
            mss: config.mss,
            cwnd: packets(config.initial_cwnd, config.mss).max(1),
            ssthresh: Bytes::MAX,
            pacing_rate: Rate(0),
            has_rtt: false,
            mode: Mode::Startup,
            pacing_gain: HIGH_GAIN,
            cwnd_gain: HIGH_GAIN,
            bandwidth: Bandwidth::new(),
            min_rtt: MinRtt::new(options.min_rtt_window, Time::ZERO),
            full_pipe: FullPipe::new(FULL_BW_GROWTH, FULL_BW_ROUNDS),
            cycle: Cycle::new(config.streams.stream("bbr/cycle")),
            probe_rtt: ProbeRtt::new(options.probe_rtt),
            recovery: Recovery::default(),
            aggregation: Aggregation::with_two_windows(Time::ZERO),
            policer: Policer::new(config.mss),
            totals: policer::Totals::default(),
            idle_restart: false,
            app_limited: false,
            variant: Variant::default(),
        };
        bbr.init_pacing_rate(None);
        bbr
    }

    fn transition_to(&mut self, next: Mode) {
        debug_assert!(self.mode.may_become(next), "{:?} never becomes {next:?}", self.mode);
        self.mode = next;
    }

    /// Returns the bandwidth: the policer's rate, if one was detected (`bbr_bw`).
    fn bw(&self) -> Bw {
        self.variant.bw.or_else(|| self.policer.bw()).unwrap_or_else(|| self.bandwidth.max())
    }

    fn enter_probe_bw(&mut self) {
        self.transition_to(Mode::ProbeBw);
        self.cycle.restart(self.totals.delivered_at);
    }

    /// Leaves `PROBE_RTT` (second part of `bbr_check_probe_rtt_done`).
    fn leave_probe_rtt(&mut self, now: Time) {
        self.min_rtt.refresh(now);
        self.cwnd = self.cwnd.max(self.recovery.saved_cwnd());
        if self.full_pipe.reached() {
            self.enter_probe_bw();
        } else {
            self.transition_to(Mode::Startup);
        }
    }

    /// Sets the changes that apply from now on.
    pub(super) const fn set_variant(&mut self, variant: Variant) {
        self.variant = variant;
    }

    /// Returns whether it is in `PROBE_BW`.
    pub(super) fn is_in_probe_bw(&self) -> bool {
        self.mode == Mode::ProbeBw
    }

    /// Returns whether it is in `PROBE_RTT`.
    pub(super) fn is_in_probe_rtt(&self) -> bool {
        self.mode == Mode::ProbeRtt
    }

    /// Returns whether the pipe was full, so that STARTUP is over.
    pub(super) const fn is_pipe_full(&self) -> bool {
        self.full_pipe.reached()
    }

    pub(super) const fn min_rtt(&self) -> Option<Nanos> {
        self.min_rtt.get()
    }

    /// Sets the minimum RTT.
    pub(super) const fn set_min_rtt(&mut self, now: Time, rtt: Nanos) {
        self.min_rtt.set(now, rtt);
    }

    /// Restarts in `STARTUP` on a new path, with this bandwidth ([`super::leocc`]).
    pub(super) fn restart(&mut self, bw: Bw) {
        self.mode = Mode::Startup;
        self.full_pipe = FullPipe::new(FULL_BW_GROWTH, FULL_BW_ROUNDS);
        self.bandwidth.reset(bw);
        self.update_gains();
    }

    /// Enters `PROBE_RTT` now, whatever the age of the minimum RTT ([`super::satpipe`]).
    pub(super) fn start_probe_rtt(&mut self, delivered_total: Bytes) {
        if self.mode != Mode::ProbeRtt {
            self.transition_to(Mode::ProbeRtt);
            // In this order, as in the kernel: the greater of this window and the one saved before is restored.
            self.save_cwnd();
            self.probe_rtt.enter(delivered_total);
        }
    }

    /// Restarts after an idle period (`bbr_cwnd_event`).
    fn on_restart(&mut self, now: Time) {
        if !self.app_limited && self.mode != Mode::ProbeRtt {
            return;
        }
        self.idle_restart = true;
        self.aggregation.restart_epoch(now);
        match self.mode {
            // Refill the pipe at its bandwidth, whatever the phase.
            Mode::ProbeBw => self.set_pacing_rate(UNIT, Nanos::ZERO),
            Mode::ProbeRtt if self.probe_rtt.time_is_up(now) => self.leave_probe_rtt(now),
            Mode::ProbeRtt | Mode::Startup | Mode::Drain => {}
        }
    }

    /// Restarts after a time-out (`bbr_set_state`), with the window of `tcp_enter_loss`.
    fn on_timeout(&mut self, in_flight: Bytes) {
        self.recovery.on_timeout();
        self.full_pipe.on_timeout();
        self.bandwidth.rounds.force_start();
        self.sample_policer(true, false);
        self.cwnd = packets(in_flight, self.mss).saturating_add(1);
        self.clamp_cwnd();
    }
}

impl Controller for Bbr {
    fn on_established(&mut self, now: Time, rtt: Option<Nanos>) {
        self.totals.delivered_at = now;
        self.min_rtt.refresh(now);
        self.min_rtt.on_ack(now, rtt, false);
        self.aggregation.restart_epoch(now);
        self.init_pacing_rate(rtt);
    }

    fn on_ack(&mut self, ack: &AckSample) {
        self.app_limited = ack.app_limited;
        let counts = self.update_model(ack);
        self.set_pacing_rate(self.pacing_gain, ack.srtt);
        self.update_cwnd(ack, &counts);
    }

    fn on_congestion(&mut self, now: Time, event: Congestion, in_flight: Bytes) {
        match event {
            // bbr_ssthresh: only the window is saved.
            Congestion::Loss | Congestion::Ecn => self.save_cwnd(),
            Congestion::Timeout => {
                self.save_cwnd();
                self.on_timeout(in_flight);
            }
            Congestion::TimeoutAgain => self.on_timeout(in_flight),
            Congestion::Undo => {
                self.full_pipe.on_undo();
                self.policer.reset();
            }
            Congestion::TailLoss | Congestion::RecoveryEnd => {}
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
        self.cwnd = packets(cwnd, self.mss).max(1);
        self.clamp_cwnd();
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
        Some(params::min_burst_packets(self.pacing_rate))
    }

    fn observe(&self, probe: &mut dyn Probe) {
        probe.state(self.mode.name());
        probe.value("bw_bps", self.bw().rate(self.mss).0 as f64);
        if let Some(min_rtt) = self.min_rtt.get() {
            probe.value("min_rtt_ms", min_rtt.as_millis_f64());
        }
        probe.value("pacing_gain", self.pacing_gain as f64 / UNIT as f64);
        probe.value("cwnd_gain", self.cwnd_gain as f64 / UNIT as f64);
        probe.value("rounds", self.bandwidth.rounds.count() as f64);
        probe.value("full_bw_count", f64::from(self.full_pipe.rounds_without_growth()));
        probe.value("cycle_phase", self.cycle.phase() as f64);
        probe.value("extra_acked_packets", self.aggregation.extra_acked() as f64);
        probe.value("policed", f64::from(u8::from(self.policer.bw().is_some())));
    }
}

#[cfg(test)]
mod tests;
