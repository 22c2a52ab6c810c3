//! `LeoCC`: BBR v1 that restarts at each reconfiguration, and uses a filtered bandwidth where there is a queue.
//!
//! Source: Lai et al., "`LeoCC`: Making Internet Congestion Control Robust to LEO Satellite Dynamics", SIGCOMM 2025; its published module (github.com/SpaceNetLab/LeoCC,
//! `leocc/simulation/leocc.c`), from which these rules and values are taken.
//! - In the 100 ms before a reconfiguration it enters `PROBE_RTT` (half a bandwidth-delay product, 200 ms and a round). After it the minimum RTT is the last sample, the bandwidth filter
//!   is empty, or holds the delivery rate at the moment the RTT fell by 45 ms, and STARTUP finds the new path's bandwidth.
//! - Two Kalman filters with noises Q = R = 4 follow each round's greatest delivery rate and each ACK's RTT. Where the filtered RTT is 10 ms above the minimum, the filtered rate replaces
//!   the greatest rate of ten rounds, and the probing phase's gain is 1.05 instead of 1.25.
//! - The minimum RTT expires after 20 s. Policers are not detected.
//!
//! The module counts the 15 s from when it is loaded; its offset of 12 s then has to be set by hand for the terminal (its issue 5). Here both follow the wall clock, which a hint provides.

use super::bbr::{self, Bbr, Variant};
use super::bbr_parts::bw::Bw;
use super::bbr_parts::params::UNIT;
use super::bbr_parts::rounds::Rounds;
use super::hints::{self, Needs, WallClock, reassigned_at};
use super::registry::{Config, Entry};
use super::{AckSample, Controller, Probe};
use bentpipe_profile::tunables::{OptionSet, millis, seconds};
use bentpipe_profile::{Nanos, Time};

/// `leocc` in the registry.
pub const ENTRY: Entry = Entry {
    name: "leocc",
    status: "as published (its module for replayed paths)",
    description: "BBR v1 that restarts at each handover by the wall clock, and filters the bandwidth where there is a queue",
    citation: "Lai et al., SIGCOMM 2025; github.com/SpaceNetLab/LeoCC",
    needs: Needs::Clock,
    options: Options::SPECS,
    build: |config, values| Box::new(LeoCc::new(config, Options::read(values))),
};

options! {
    /// Options of `leocc`.
    pub struct Options {
        min_rtt_window: Nanos = seconds("min_rtt_win_s", "time after which the minimum RTT expires", 20.0, 0.1, 3600.0, "`leocc_min_rtt_win_sec`"),
        probe_rtt: Nanos = millis(
            "probe_rtt_mode_ms",
            "time for which PROBE_RTT keeps little in flight",
            200.0,
            1.0,
            10_000.0,
            "`leocc_probe_rtt_mode_ms`",
        ),
        fluctuation: Nanos = millis(
            "min_rtt_fluctuation_ms",
            "excess of the RTT over its minimum that counts as a queue",
            10.0,
            0.0,
            1000.0,
            "`min_rtt_fluctuation`",
        ),
        rtt_fall: Nanos = millis(
            "delta_thresh_ms",
            "fall of the RTT in PROBE_RTT that shows that the new path is in use",
            45.0,
            0.0,
            1000.0,
            "`delta_thresh`",
        ),
        reassigned_at: Nanos = reassigned_at(0.0, "`offset`"),
        ..clock: hints::ClockOptions,
    }
}

/// Time before a reconfiguration at which it prepares for it (`magic_offet`).
const BEFORE: Nanos = Nanos::from_millis(100);
/// Noises of both filters (`var_R`, `var_Q`), and their initial uncertainty (`p_post_bw`).
const NOISE: u64 = 4;
const UNCERTAINTY: u64 = 25;
/// Window in `PROBE_RTT` (`leocc_probe_rtt_cwnd_gain`), and gain of the probing phase where there is a queue (`leocc_pacing_gain[0]`) [1/256].
const PROBE_RTT_GAIN: u64 = UNIT / 2;
const GENTLE_UP: u64 = UNIT * 21 / 20;

/// A scalar Kalman filter in the module's integers.
#[derive(Clone, Copy, Debug)]
struct Kalman {
    value: u64,
    uncertainty: u64,
}

impl Kalman {
    const fn new() -> Self {
        Self { value: 0, uncertainty: UNCERTAINTY }
    }

    #[allow(clippy::cast_possible_truncation)] // between two values of 64 bits
    const fn update(&mut self, sample: u64) {
        self.uncertainty += NOISE;
        let gain = self.uncertainty * UNIT / (self.uncertainty + NOISE);
        let mixed = (UNIT - gain) as u128 * self.value as u128 + gain as u128 * sample as u128;
        self.value = (mixed / UNIT as u128) as u64;
        self.uncertainty = (UNIT - gain) * self.uncertainty / UNIT;
    }
}

/// `LeoCC` congestion control.
#[derive(Clone, Debug)]
pub struct LeoCc {
    bbr: Bbr,
    mss: u32,
    /// Without a hint it expects no reconfiguration.
    clock: WallClock,
    options: Options,
    /// A reconfiguration is expected, or the bandwidth of the new path is not found yet.
    triggered: bool,
    rounds: Rounds,
    /// Greatest delivery rate of the round, and the last delivery rate.
    round_bw: Bw,
    latest_bw: Bw,
    /// Initial value of the bandwidth filter on the new path.
    first_bw: Bw,
    bw: Kalman,
    /// Filtered RTT [µs].
    rtt: Kalman,
}

impl LeoCc {
    /// Creates the controller of a new connection.
    #[must_use]
    pub fn new(config: &Config, options: Options) -> Self {
        let mut bbr = Bbr::new(config, bbr::Options { min_rtt_window: options.min_rtt_window, probe_rtt: options.probe_rtt });
        bbr.set_variant(Variant { ignores_policers: true, probe_rtt_gain: Some(PROBE_RTT_GAIN), ..Variant::default() });
        Self {
            bbr,
            mss: config.mss,
            clock: WallClock::new(options.clock.period, options.reassigned_at),
            options,
            triggered: false,
            rounds: Rounds::default(),
            round_bw: Bw::default(),
            latest_bw: Bw::default(),
            first_bw: Bw::default(),
            bw: Kalman::new(),
            rtt: Kalman::new(),
        }
    }

    /// Returns whether a reconfiguration is about to happen.
    fn is_near(&self, now: Time) -> bool {
        self.clock.time_to_next(now).is_some_and(|span| span <= BEFORE)
    }

    /// Updates the filters, and the initial bandwidth of the new path.
    fn update_filters(&mut self, ack: &AckSample) {
        let (in_probe_bw, in_probe_rtt) = (self.bbr.is_in_probe_bw(), self.bbr.is_in_probe_rtt());
        if self.rounds.advance(ack.delivery.as_ref(), ack.delivered_total) {
            if in_probe_bw {
                self.bw.update(self.round_bw.0);
            }
            self.round_bw = Bw::default();
        }
        if let Some(bw) = ack.delivery.as_ref().and_then(|d| Bw::of(d.delivered, d.interval, self.mss)) {
            self.round_bw = self.round_bw.max(bw);
            if let Some(rtt) = ack.rtt
                && in_probe_rtt
                && self.rtt.value > (rtt + self.options.rtt_fall).0 / 1000
            {
                self.first_bw = self.latest_bw;
            }
            self.latest_bw = bw;
        }
    }
}

impl Controller for LeoCc {
    delegate!(
        bbr: on_established, on_congestion, on_sent, cwnd, set_cwnd, ssthresh, pacing_rate, controls_recovery, sndbuf_factor, min_tso_segments
    );
    delegate!(clock: on_path_hint);

    fn on_ack(&mut self, ack: &AckSample) {
        self.triggered |= self.is_near(ack.now);
        self.update_filters(ack);
        if self.triggered && self.bbr.is_in_probe_bw() {
            self.bbr.start_probe_rtt(ack.delivered_total);
        }
        let was_in_probe_rtt = self.bbr.is_in_probe_rtt();
        self.bbr.on_ack(ack);
        if was_in_probe_rtt && !self.bbr.is_in_probe_rtt() {
            // The last RTT in PROBE_RTT is the base RTT.
            if let Some(rtt) = ack.rtt {
                self.bbr.set_min_rtt(ack.now, rtt);
            }
            if self.triggered {
                self.bbr.restart(self.first_bw);
            }
        }
        if self.bbr.is_pipe_full() && !self.bbr.is_in_probe_rtt() {
            self.triggered &= self.is_near(ack.now);
            self.first_bw = Bw::default();
        }
        if let Some(rtt) = ack.rtt {
            self.rtt.update(rtt.0 / 1000);
        }
        let has_queue = self.bbr.min_rtt().is_some_and(|min| self.rtt.value >= (min + self.options.fluctuation).0 / 1000);
        let filtered = has_queue && !self.triggered && self.bbr.is_in_probe_bw() && self.bw.value > 0;
        self.bbr.set_variant(Variant {
            ignores_policers: true,
            probe_rtt_gain: Some(PROBE_RTT_GAIN),
            up_gain: filtered.then_some(GENTLE_UP),
            bw: filtered.then_some(Bw(self.bw.value)),
        });
    }

    fn observe(&self, probe: &mut dyn Probe) {
        self.bbr.observe(probe);
        probe.value("filtered_bw_bps", Bw(self.bw.value).rate(self.mss).0 as f64);
        probe.value("filtered_rtt_ms", self.rtt.value as f64 / 1e3);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Driver, config};
    use super::super::{PathHint, registry};
    use super::*;
    use std::collections::BTreeMap;

    const RTT: Nanos = Nanos::from_millis(40);

    /// Returns the states it enters within 40 s and their times [ms]; the wall clock shows a full minute at zero.
    fn states() -> Vec<(u64, &'static str)> {
        let mut leocc = registry::build("leocc", &config(), &BTreeMap::new()).expect("known");
        leocc.on_path_hint(&PathHint::WallClock(1_778_403_600_000_000_000));
        let mut driver = Driver::new(leocc, RTT, 100, 300);
        let mut states = vec![(0, "startup")];
        for ms in 0..40_000 {
            driver.run(Time(ms * 1_000_000));
            let state = driver.state();
            if states.last().is_none_or(|&(_, last)| last != state) {
                states.push((ms, state));
            }
        }
        states
    }

    #[test]
    fn it_measures_the_rtt_100_ms_before_a_reconfiguration_and_restarts() {
        let states = states();
        let probes: Vec<u64> = states.iter().filter(|(_, s)| *s == "probe_rtt").map(|&(ms, _)| ms).collect();
        assert!(probes.len() == 2 && (11_900..11_910).contains(&probes[0]) && (26_900..26_910).contains(&probes[1]), "{states:?}");
        let after: Vec<_> = states.iter().skip_while(|(_, s)| *s != "probe_rtt").take(4).map(|&(_, s)| s).collect();
        assert_eq!(after, ["probe_rtt", "startup", "drain", "probe_bw"]);
    }

    #[test]
    fn the_filters_settle_at_a_gain_of_three_fifths() {
        let mut kalman = Kalman::new();
        (0..50).for_each(|_| kalman.update(1000));
        // Rounded down, it stops one short; the uncertainty settles at 2, the gain at 6 · 256 / 10 = 153 of 256.
        assert_eq!((kalman.value, kalman.uncertainty), (999, 2));
        kalman.update(2000);
        assert_eq!(kalman.value, (103 * 999 + 153 * 2000) / 256);
    }

    #[test]
    fn without_a_clock_no_reconfiguration_is_expected() {
        let mut driver = Driver::new(registry::build("leocc", &config(), &BTreeMap::new()).expect("known"), RTT, 100, 300);
        let mut states = std::collections::BTreeSet::new();
        for ms in 0..15_000 {
            driver.run(Time(ms * 1_000_000));
            states.insert(driver.state());
        }
        assert!(!states.contains("probe_rtt"), "{states:?}");
    }
}
