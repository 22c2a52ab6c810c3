//! `SatPipe`: BBR v1 that measures the minimum RTT just before Starlink reassigns satellites.
//!
//! Source: Zhao et al., "`SatPipe`", INFOCOM 2025; its published module (github.com/dzhao99/SatPipe, `Code/SatPipe.c`). By the wall clock: of every 15 s, from 11.95 s on, the
//! first ACK begins `PROBE_RTT`, which lasts 300 ms, so that the flight is small when the path changes at 12 s. It does so only if an ACK came in the second from
//! 10 s on. The minimum RTT is believed for 20 s.

use super::bbr::Bbr;
use super::hints::{Needs, OFFSET};
use super::registry::{Allowed, Config, Entry, OptionSpec, Options};
use super::{AckSample, Congestion, Controller, PathHint, Probe};
use bentpipe_profile::{Bytes, Nanos, Rate, Time};

/// `satpipe` in the registry.
pub const ENTRY: Entry = Entry {
    name: "satpipe",
    status: "as published",
    description: "BBR v1 that measures the minimum RTT just before satellites are reassigned, by the wall clock",
    citation: "Zhao et al., INFOCOM 2025; github.com/dzhao99/SatPipe",
    needs: Needs::Clock,
    options: &[
        OptionSpec {
            name: "min_rtt_win_s",
            unit: "s",
            description: "how long the minimum RTT is believed",
            default: 20.0,
            allowed: Allowed::Range(0.1, 3600.0),
            source: "`bbr_min_rtt_win_sec`",
        },
        OptionSpec {
            name: "probe_rtt_mode_ms",
            unit: "ms",
            description: "how long PROBE_RTT keeps the flight small",
            default: 300.0,
            allowed: Allowed::Range(1.0, 10_000.0),
            source: "`bbr_probe_rtt_mode_ms`",
        },
        OptionSpec {
            name: "period_s",
            unit: "s",
            description: "how often satellites are reassigned",
            default: 15.0,
            allowed: Allowed::Range(3.0, 3600.0),
            source: "`PERIOD`",
        },
        OptionSpec {
            name: "reassigned_at_s",
            unit: "s",
            description: "when, after the full period of the wall clock",
            default: 12.0,
            allowed: Allowed::Range(2.0, 3600.0),
            source: "`OFFSET`",
        },
        OFFSET,
    ],
    build: |config, options| Box::new(SatPipe::new(config, options)),
};

/// How long before the reassignment it probes (`OFFSET - 1` s and 950 ms), and how long before an ACK must come for that (`OFFSET - 2` s).
const PROBE_BEFORE: u64 = 50_000_000;
const ARM_BEFORE: u64 = 2_000_000_000;
const SECOND: u64 = 1_000_000_000;

/// `SatPipe`.
#[derive(Clone, Debug)]
pub struct SatPipe {
    bbr: Bbr,
    /// [ns]
    period: u64,
    reassigned_at: u64,
    /// What the wall clock shows when the sender's is zero; `None`: there is none, and it is BBR.
    wall_clock: Option<i64>,
    armed: bool,
}

impl SatPipe {
    /// At the start of a connection.
    #[must_use]
    pub fn new(config: &Config, options: &Options) -> Self {
        let seconds = |name: &str| Nanos::from_secs_f64(options.get(name)).map_or(u64::MAX, |span| span.0);
        let period = seconds("period_s");
        Self { bbr: Bbr::new(config, options), period, reassigned_at: seconds("reassigned_at_s") % period, wall_clock: None, armed: false }
    }

    /// Time until the next reassignment [ns].
    fn ahead(&self, now: Time) -> Option<u64> {
        let unix_ns = i128::from(self.wall_clock?) + i128::from(now.0);
        let ahead = (i128::from(self.reassigned_at) - unix_ns).rem_euclid(i128::from(self.period));
        u64::try_from(ahead).ok()
    }
}

impl Controller for SatPipe {
    fn on_established(&mut self, now: Time, rtt: Option<Nanos>) {
        self.bbr.on_established(now, rtt);
    }

    fn on_ack(&mut self, ack: &AckSample) {
        if let Some(ahead) = self.ahead(ack.now) {
            self.armed |= (ARM_BEFORE - SECOND + 1..=ARM_BEFORE).contains(&ahead);
            if self.armed && (1..=PROBE_BEFORE).contains(&ahead) {
                self.armed = false;
                self.bbr.probe_rtt_now(ack.delivered_total);
            }
        }
        self.bbr.on_ack(ack);
    }

    fn on_congestion(&mut self, now: Time, event: Congestion, in_flight: Bytes) {
        self.bbr.on_congestion(now, event, in_flight);
    }

    fn on_sent(&mut self, now: Time, in_flight: Bytes, app_limited: bool) {
        self.bbr.on_sent(now, in_flight, app_limited);
    }

    fn on_path_hint(&mut self, hint: &PathHint) {
        if let PathHint::WallClock(unix_ns) = *hint {
            self.wall_clock = Some(unix_ns);
        }
    }

    fn cwnd(&self) -> Bytes {
        self.bbr.cwnd()
    }

    fn set_cwnd(&mut self, cwnd: Bytes) {
        self.bbr.set_cwnd(cwnd);
    }

    fn ssthresh(&self) -> Bytes {
        self.bbr.ssthresh()
    }

    fn pacing_rate(&self) -> Option<Rate> {
        self.bbr.pacing_rate()
    }

    fn controls_recovery(&self) -> bool {
        self.bbr.controls_recovery()
    }

    fn sndbuf_factor(&self) -> u32 {
        self.bbr.sndbuf_factor()
    }

    fn min_tso_segments(&self) -> Option<u32> {
        self.bbr.min_tso_segments()
    }

    fn observe(&self, probe: &mut dyn Probe) {
        self.bbr.observe(probe);
    }
}

#[cfg(test)]
mod tests {
    use super::super::registry;
    use super::super::testing::{Driver, config, controller};
    use super::*;
    use std::collections::BTreeMap;

    const RTT: Nanos = Nanos::from_millis(40);

    /// When it enters `PROBE_RTT` within 60 s, to the millisecond, with a clock that shows `start_s` at zero.
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
    fn without_a_clock_it_is_bbr_with_a_longer_memory() {
        let trace = |mut driver: Driver| driver.trace(RTT, 200);
        let bbr = registry::build("bbr", &config(), &BTreeMap::from([("min_rtt_win_s".to_owned(), 20.0)])).expect("known");
        assert_eq!(trace(Driver::new(controller("satpipe"), RTT, 100, 300)), trace(Driver::new(bbr, RTT, 100, 300)));
    }
}
