//! Window and pacing rate from the model (`bbr_set_cwnd`, `bbr_set_pacing_rate` and the functions they call).

use super::super::AckSample;
use super::super::bbr_parts::bw::Bw;
use super::model::AckCounts;
use super::params::{
    BURSTS_IN_WINDOW, HIGH_GAIN, INITIAL_CWND_PACKETS, MAX_BURST_BYTES, MAX_BURST_PACKETS, MIN_CWND_PACKETS, PACING_MARGIN_PERCENT,
    PACING_SHIFT,
};
use super::{Bbr, Mode, params};
use bentpipe_profile::{Bytes, Nanos};

/// Most packets in a window (`snd_cwnd_clamp` is a `u32`).
const CLAMP_PACKETS: u64 = u32::MAX as u64;

impl Bbr {
    /// Sets the initial rate, before the bandwidth is known: the initial window per RTT, or per millisecond (`bbr_init_pacing_rate_from_rtt`).
    pub(super) fn init_pacing_rate(&mut self, rtt: Option<Nanos>) {
        self.has_rtt |= rtt.is_some();
        let span = rtt.unwrap_or(Nanos::from_millis(1)).max(Nanos::from_micros(1));
        if let Some(bw) = Bw::of(self.window_bytes(), span, self.mss) {
            self.pacing_rate = bw.pacing_rate(HIGH_GAIN, self.mss, PACING_MARGIN_PERCENT);
        }
    }

    /// Sets the pacing rate; until the pipe is full it only rises.
    pub(super) fn set_pacing_rate(&mut self, gain: u64, srtt: Nanos) {
        if !self.has_rtt && srtt > Nanos::ZERO {
            self.init_pacing_rate(Some(srtt));
        }
        let rate = self.bw().pacing_rate(gain, self.mss, PACING_MARGIN_PERCENT);
        if self.full_pipe.reached() || rate > self.pacing_rate {
            self.pacing_rate = rate;
        }
    }

    /// Returns the packets that the sender puts in one burst (`bbr_tso_segs_goal`).
    pub(super) fn burst_packets(&self) -> u64 {
        let bytes = ((self.pacing_rate.0 / 8) >> PACING_SHIFT).min(MAX_BURST_BYTES);
        (bytes / u64::from(self.mss)).max(u64::from(params::min_burst_packets(self.pacing_rate))).min(MAX_BURST_PACKETS)
    }

    /// Returns the bandwidth-delay product at `gain` [packets] (`bbr_bdp`).
    fn bdp(&self, bw: Bw, gain: u64) -> u64 {
        self.min_rtt.get().map_or(INITIAL_CWND_PACKETS, |min_rtt| bw.bdp(min_rtt, gain)).min(CLAMP_PACKETS)
    }

    /// Adds room for bursts, and rounds up to even since ACKs come for two packets (`bbr_quantization_budget`).
    fn with_budget(&self, window: u64) -> u64 {
        let even = (window + BURSTS_IN_WINDOW * self.burst_packets()).next_multiple_of(2);
        // A gain of 5/4 of a tiny window rounds to zero: probe with at least two packets.
        if self.mode == Mode::ProbeBw && self.cycle.is_probing_up() { even + 2 } else { even }
    }

    /// Returns the target inflight [packets] (`bbr_inflight`).
    pub(super) fn target_inflight(&self, bw: Bw, gain: u64) -> u64 {
        self.with_budget(self.bdp(bw, gain))
    }

    /// Returns the window in `PROBE_RTT`.
    pub(super) fn probe_rtt_window(&self) -> u64 {
        self.variant.probe_rtt_gain.map_or(0, |gain| self.bdp(self.bw(), gain)).max(MIN_CWND_PACKETS)
    }

    /// Saves the window, to restore it later (`bbr_save_cwnd`).
    pub(super) fn save_cwnd(&mut self) {
        self.recovery.save(self.cwnd, self.mode == Mode::ProbeRtt);
    }

    pub(super) fn clamp_cwnd(&mut self) {
        self.cwnd = self.cwnd.min(CLAMP_PACKETS);
    }

    fn window_bytes(&self) -> Bytes {
        Bytes(self.cwnd * u64::from(self.mss))
    }

    /// Updates the window (`bbr_set_cwnd`).
    pub(super) fn update_cwnd(&mut self, ack: &AckSample, counts: &AckCounts) {
        if counts.acked > 0 {
            let adjusted = self.recovery.adjust(ack.recovery, self.cwnd, counts.acked, counts.lost, counts.in_flight);
            if adjusted.began {
                self.bandwidth.rounds.restart(ack.delivered_total);
            }
            self.cwnd = if adjusted.conserving { adjusted.cwnd } else { self.grown(adjusted.cwnd, counts.acked, ack.delivered_total) };
        }
        self.clamp_cwnd();
        if self.mode == Mode::ProbeRtt {
            self.cwnd = self.cwnd.min(self.probe_rtt_window());
        }
    }

    /// Returns the window grown by a packet per packet acknowledged, towards the target; it falls to the target only once the pipe was full.
    fn grown(&self, cwnd: u64, acked: u64, delivered_total: Bytes) -> u64 {
        let bw = self.bw();
        let aggregated = if self.full_pipe.reached() { self.aggregation.window_packets(bw) } else { 0 };
        let target = self.with_budget(self.bdp(bw, self.cwnd_gain) + aggregated);
        let grown = if self.full_pipe.reached() {
            (cwnd + acked).min(target)
        } else if cwnd < target || delivered_total.0 < INITIAL_CWND_PACKETS * u64::from(self.mss) {
            cwnd + acked
        } else {
            cwnd
        };
        grown.max(MIN_CWND_PACKETS)
    }
}
