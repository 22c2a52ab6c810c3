//! Window and pacing rate from the model (draft §5.6).

use super::super::bbr_parts::bw::Bw;
use super::super::bbr_parts::params::{BURSTS_IN_WINDOW, MAX_BURST_BYTES, MIN_CWND_PACKETS, PACING_SHIFT, UNIT, min_burst_packets};
use super::params::{Params, Rules};
use super::sample::Sample;
use super::{Bbr3, State};
use bentpipe_profile::{Bytes, Nanos};

/// Most packets in a window (`snd_cwnd_clamp` is a `u32`).
const CLAMP_PACKETS: u64 = u32::MAX as u64;
/// Burst that is added on the shortest path (`GSO_LEGACY_MAX_SIZE`).
const SHORT_PATH_BURST_BYTES: u64 = 65_536;
/// Fewest packets in a burst (`tcp_min_tso_segs`).
const MIN_BURST_PACKETS: u64 = 2;

impl Bbr3 {
    /// Sets the initial rate: the initial window per RTT, or per millisecond (`InitPacingRate`).
    pub(super) fn init_pacing_rate(&mut self, rtt: Option<Nanos>) {
        self.has_rtt |= rtt.is_some();
        let span = rtt.unwrap_or(Nanos::from_millis(1)).max(Nanos::from_micros(1));
        if let Some(bw) = Bw::of(Bytes(self.cwnd * u64::from(self.mss)), span, self.mss) {
            self.pacing_rate = bw.pacing_rate(self.p.startup_pacing_gain, self.mss, self.p.pacing_margin_percent);
        }
    }

    /// Sets the pacing rate; until the pipe is full it only rises (`SetPacingRateWithGain`).
    pub(super) fn set_pacing_rate(&mut self, gain: u64, srtt: Nanos) {
        if !self.has_rtt && srtt > Nanos::ZERO {
            self.init_pacing_rate(Some(srtt));
        }
        let rate = self.bw().pacing_rate(gain, self.mss, self.p.pacing_margin_percent);
        if self.full.reached() || rate > self.pacing_rate {
            self.pacing_rate = rate;
        }
    }

    /// Returns the packets that the sender puts in one burst (`bbr_tso_segs_goal`, `SetSendQuantum`).
    pub(super) fn burst_packets(&self) -> u64 {
        let mut bytes = (self.pacing_rate.0 / 8) >> PACING_SHIFT;
        if self.p.tso_rtt_shift > 0
            && let Some(rtt) = self.min_rtt.get()
            && let Ok(halvings) = u32::try_from((rtt.0 / 1000) >> self.p.tso_rtt_shift)
        {
            bytes += SHORT_PATH_BURST_BYTES.checked_shr(halvings).unwrap_or(0);
        }
        let min = if self.p.rules == Rules::Linux2 { u64::from(min_burst_packets(self.pacing_rate)) } else { MIN_BURST_PACKETS };
        (bytes.min(MAX_BURST_BYTES) / u64::from(self.mss)).max(min)
    }

    /// Returns the bandwidth-delay product at `gain` [packets] (`BDPMultiple`).
    pub(super) fn bdp(&self, bw: Bw, gain: u64) -> u64 {
        self.min_rtt.get().map_or(self.initial_cwnd, |min_rtt| bw.bdp(min_rtt, gain)).min(CLAMP_PACKETS)
    }

    /// Adds room for bursts, and for `PROBE_UP` to show in a tiny window (`QuantizationBudget`).
    pub(super) fn with_budget(&self, window: u64) -> u64 {
        let window = window.max(BURSTS_IN_WINDOW * self.burst_packets()).max(MIN_CWND_PACKETS);
        if self.state == State::Up { window + 2 } else { window }
    }

    /// Returns the target inflight (`TargetInflight`).
    pub(super) fn target_inflight(&self) -> u64 {
        let bw = self.bw();
        let bdp = if self.p.rules == Rules::Draft { self.bdp(bw, UNIT) } else { self.inflight_at(bw) };
        bdp.min(self.cwnd)
    }

    /// Returns the window in `PROBE_RTT` (`ProbeRTTCwnd`).
    pub(super) fn probe_rtt_cwnd(&self) -> u64 {
        self.bdp(self.bw(), self.p.probe_rtt_cwnd_gain).max(MIN_CWND_PACKETS)
    }

    /// Updates the window (`SetCwnd`).
    pub(super) fn update_cwnd(&mut self, s: &Sample) {
        if s.acked > 0 {
            let bw = self.bw();
            let extra = match self.p.rules {
                Rules::Draft => self.aggregation.extra_acked(),
                Rules::Linux3 | Rules::Linux2 => self.aggregation.window_packets(bw),
            };
            let extra = Params::part(extra, self.p.extra_acked_gain);
            let target = self.with_budget(self.bdp(bw, self.state.cwnd_gain(&self.p)) + extra);
            let is_early = match self.p.rules {
                Rules::Draft => s.delivered_total.0 < self.initial_cwnd * u64::from(self.mss),
                Rules::Linux3 | Rules::Linux2 => self.cwnd < 2 * self.initial_cwnd,
            };
            if self.full.reached() {
                self.cwnd = (self.cwnd + s.acked).min(target);
            } else if self.cwnd < target || is_early {
                self.cwnd += s.acked;
            }
            self.cwnd = self.cwnd.max(MIN_CWND_PACKETS);
        }
        self.cwnd = self.cwnd.min(CLAMP_PACKETS);
        if self.state == State::ProbeRtt {
            self.cwnd = self.cwnd.min(self.probe_rtt_cwnd());
        }
        self.bound_cwnd();
    }

    /// Limits the window to the bounds (`BoundCwndForModel`).
    fn bound_cwnd(&mut self) {
        let long = match self.state {
            State::Down | State::Refill | State::Up => self.inflight_longterm,
            State::Cruise | State::ProbeRtt => self.bound_with_headroom(),
            State::Startup | State::Drain => None,
        };
        let cap = long.unwrap_or(u64::MAX).min(self.short_term.in_flight.unwrap_or(u64::MAX));
        self.cwnd = self.cwnd.min(cap.max(MIN_CWND_PACKETS));
    }
}
