//! `SatPipe`: BBR v1 that measures the minimum RTT just before Starlink reassigns satellites.
//!
//! Source: Zhao et al., "`SatPipe`", INFOCOM 2025; its published module (github.com/dzhao99/SatPipe, `Code/SatPipe.c`). In every 15 s of the wall clock, the first ACK
//! from 11.95 s on starts `PROBE_RTT`, which lasts 300 ms, so that little is in flight when the path changes at 12 s. It does so only if an ACK came in the second
//! from 10 s on. The minimum RTT expires after 20 s.

use super::bbr::{self, Bbr};
use super::hints::{self, Needs, WallClock, reassigned_at};
use super::registry::{Config, Entry};
use super::{AckSample, Controller};
use bentpipe_profile::Nanos;
use bentpipe_profile::tunables::{OptionSet, millis, seconds};

/// `satpipe` in the registry.
pub const ENTRY: Entry = Entry {
    name: "satpipe",
    status: "as published",
    description: "BBR v1 that measures the minimum RTT just before satellites are reassigned, by the wall clock",
    citation: "Zhao et al., INFOCOM 2025; github.com/dzhao99/SatPipe",
    needs: Needs::Clock,
    options: Options::SPECS,
    build: |config, values| Box::new(SatPipe::new(config, Options::read(values))),
};

options! {
    /// Options of `satpipe`.
    pub struct Options {
        min_rtt_window: Nanos = seconds("min_rtt_win_s", "time after which the minimum RTT expires", 20.0, 0.1, 3600.0, "`bbr_min_rtt_win_sec`"),
        probe_rtt: Nanos = millis(
            "probe_rtt_mode_ms",
            "time for which PROBE_RTT keeps little in flight",
            300.0,
            1.0,
            10_000.0,
            "`bbr_probe_rtt_mode_ms`",
        ),
        reassigned_at: Nanos = reassigned_at(2.0, "`OFFSET`"),
        ..clock: hints::ClockOptions,
    }
}

/// Time before the reassignment at which it probes (`OFFSET - 1` s and 950 ms), and at which an ACK must come for that (`OFFSET - 2` s).
const PROBE_BEFORE: Nanos = Nanos::from_millis(50);
const ARM_BEFORE: Nanos = Nanos::from_secs(2);
/// End of the interval in which that ACK must come.
const ARM_UNTIL: Nanos = Nanos::from_secs(1);

/// `SatPipe` congestion control.
#[derive(Clone, Debug)]
pub struct SatPipe {
    bbr: Bbr,
    /// Without a hint it is BBR.
    clock: WallClock,
    armed: bool,
}

impl SatPipe {
    /// Creates the controller of a new connection.
    #[must_use]
    pub fn new(config: &Config, options: Options) -> Self {
        let bbr = bbr::Options { min_rtt_window: options.min_rtt_window, probe_rtt: options.probe_rtt };
        Self { bbr: Bbr::new(config, bbr), clock: WallClock::new(options.clock.period, options.reassigned_at), armed: false }
    }
}

impl Controller for SatPipe {
    delegate!(
        bbr: on_established, on_congestion, on_sent, cwnd, set_cwnd, ssthresh, pacing_rate, controls_recovery, sndbuf_factor, min_tso_segments, observe
    );
    delegate!(clock: on_path_hint);

    fn on_ack(&mut self, ack: &AckSample) {
        if let Some(span) = self.clock.time_to_next(ack.now) {
            self.armed |= ARM_UNTIL < span && span <= ARM_BEFORE;
            if self.armed && Nanos::ZERO < span && span <= PROBE_BEFORE {
                self.armed = false;
                self.bbr.start_probe_rtt(ack.delivered_total);
            }
        }
        self.bbr.on_ack(ack);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Driver, config, controller};
    use super::super::{PathHint, registry};
    use super::*;
    use bentpipe_profile::Time;
    use std::collections::BTreeMap;

    const RTT: Nanos = Nanos::from_millis(40);

    /// Returns the times at which it enters `PROBE_RTT` within 60 s [ms], with a wall clock that shows `start_s` at zero.
    fn probes(start_s: i64) -> Vec<u64> {
        let mut satpipe = registry::build("satpipe", &config(), &BTreeMap::new()).expect("known");
        satpipe.on_path_hint(&PathHint::WallClock(start_s * 1_000_000_000));
        let mut driver = Driver::new(satpipe, RTT, 100, 300);
        let mut probes = Vec::new();
        let mut before = "";
        for ms in 0..60_000 {
            driver.run(Time(ms * 1_000_000));
            let state = driver.state();
            if state == "probe_rtt" && before != state {
                probes.push(ms);
            }
            before = state;
        }
        probes
    }

    #[test]
    fn it_probes_50_ms_before_each_reassignment_by_the_wall_clock() {
        // 1,778,403,600 s is a multiple of 15. The first ACK after 11.95 s comes within the millisecond.
        assert_eq!(probes(1_778_403_600), [11_951, 26_951, 41_951, 56_951]);
        assert_eq!(probes(1_778_403_607), [4951, 19_951, 34_951, 49_951]);
    }

    #[test]
    fn without_a_clock_it_is_bbr_with_a_longer_min_rtt_window() {
        let trace = |mut driver: Driver| driver.trace(RTT, 200);
        let bbr = registry::build("bbr", &config(), &BTreeMap::from([("min_rtt_win_s".to_owned(), 20.0.into())])).expect("known");
        assert_eq!(trace(Driver::new(controller("satpipe"), RTT, 100, 300)), trace(Driver::new(bbr, RTT, 100, 300)));
    }
}
