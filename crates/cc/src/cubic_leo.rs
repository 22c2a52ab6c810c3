//! `cubic-leo`: CUBIC that knows its path is changed every few seconds.
//!
//! CUBIC's window on such a path is what losses leave of it, and most losses come in bursts, at reconfigurations and in fades, beside an empty queue. While a path shows that it is one
//! (see [`super::leo`]), a loss near a reconfiguration, or beside a queue that is shorter than a stated time, is repaired without lowering the window, unless losses go on. A time-out near
//! a reconfiguration begins anew from one packet, but aims at the window that was. Everywhere else it is CUBIC, packet by packet.

use super::bbr_parts::params::UNIT;
use super::cubic::{Cubic, OPTIONS as CUBIC_OPTIONS};
use super::hints::{JITTER, MISSING, Needs, OFFSET};
use super::leo::path::{SlotPath, Target};
use super::leo::watch::{HINTS, PERIOD, Watch};
use super::registry::{Allowed, Config, Entry, OptionSpec, Options};
use super::{AckSample, Congestion, Controller, Probe};
use bentpipe_profile::{Bytes, Nanos, Time};

/// `cubic-leo` in the registry.
pub const ENTRY: Entry = Entry {
    name: "cubic-leo",
    status: "ours, an experiment",
    description: "CUBIC that repairs the losses of handovers and fades without lowering its window",
    citation: "bentpipe, docs/design/007-ours.md; RFC 9438",
    needs: Needs::Learned,
    options: &[
        OptionSpec {
            name: "queue_ms",
            unit: "ms",
            description: "queue beside which a loss is congestion's",
            default: 30.0,
            allowed: Allowed::Range(1.0, 1000.0),
            source: "chosen here: docs/design/007-ours.md",
        },
        HINTS,
        PERIOD,
        CUBIC_OPTIONS[0],
        CUBIC_OPTIONS[1],
        CUBIC_OPTIONS[2],
        OFFSET,
        JITTER,
        MISSING,
    ],
    build: |config, options| Box::new(CubicLeo::new(config, options)),
};

/// Part lost of a round from which on losses may be lasting ones: BBR's (draft-ietf-ccwg-bbr-06 §5.5.10.2, `LossThresh`) [1/256].
const LOSS_THRESHOLD: u64 = UNIT * 2 / 100;
/// Rounds of the path's bandwidth, which CUBIC does not ask for.
const BW_ROUNDS: u64 = 1;

/// CUBIC for paths that are changed.
#[derive(Clone, Debug)]
pub struct CubicLeo {
    cubic: Cubic,
    watch: Watch,
    path: SlotPath,
    /// The last reduction was none: there is nothing to undo.
    sheltered: bool,
    last_rtt: Nanos,
}

impl CubicLeo {
    fn new(config: &Config, options: &Options) -> Self {
        let queue = Nanos::from_secs_f64(options.get("queue_ms") / 1e3).unwrap_or(Nanos::MAX);
        Self {
            cubic: Cubic::new(config, options),
            watch: Watch::new(options),
            path: SlotPath::new(config.mss, Target { least: queue, jitters: 0, part: 0 }, BW_ROUNDS),
            sheltered: false,
            last_rtt: Nanos::ZERO,
        }
    }
}

impl Controller for CubicLeo {
    delegate!(cubic: on_established, on_ack, cwnd, set_cwnd, ssthresh, set_ssthresh);
    delegate!(watch: on_path_hint);

    fn on_acked(&mut self, ack: &AckSample) {
        if self.watch.on_ack(ack) {
            self.path.on_edge(ack.now);
        }
        self.last_rtt = ack.rtt.unwrap_or(self.last_rtt);
        self.path.on_ack(ack, self.watch.is_near(ack.now), LOSS_THRESHOLD);
        self.cubic.on_acked(ack);
    }

    fn on_congestion(&mut self, now: Time, event: Congestion, in_flight: Bytes) {
        let leo = self.watch.is_leo(now);
        let near = leo && self.watch.is_near(now);
        match event {
            // A window that is sent at once overflows a queue that its first packets found empty.
            Congestion::Loss => self.sheltered = near || (leo && self.path.excuses(now) && !self.path.is_deep(now, self.last_rtt)),
            Congestion::Timeout => self.sheltered = near,
            Congestion::TimeoutAgain => {}
            _ => {
                if event != Congestion::Undo || !self.sheltered {
                    self.cubic.on_congestion(now, event, in_flight);
                }
                return;
            }
        }
        if !self.sheltered {
            self.cubic.on_congestion(now, event, in_flight);
        } else if event != Congestion::TimeoutAgain {
            // What recovery brings the window back to.
            self.cubic.set_ssthresh(self.cubic.cwnd());
        }
    }

    fn observe(&self, probe: &mut dyn Probe) {
        self.cubic.observe(probe);
        if let Some(beat) = self.watch.beat() {
            probe.value("clock_period_s", beat.period.as_secs_f64());
            probe.value("clock_confidence", beat.confidence());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Driver, ack_at, config, controller, in_bytes};
    use super::*;
    use crate::registry::find;
    use std::collections::BTreeMap;

    const RTT: Nanos = Nanos::from_millis(40);

    fn cubic_leo(rtts: &[(u64, u64)]) -> CubicLeo {
        let options = Options::check(find("cubic-leo").expect("known"), &BTreeMap::new()).expect("defaults");
        let mut cubic = CubicLeo::new(&config(), &options);
        cubic.set_cwnd(in_bytes(1000));
        for &(at_ms, rtt_ms) in rtts {
            cubic.on_acked(&AckSample { rtt: Some(Nanos::from_millis(rtt_ms)), ..ack_at(Time(at_ms * 1_000_000)) });
        }
        cubic
    }

    const QUIET: &[(u64, u64)] = &[(990, 40), (1000, 40)];
    const CHANGED: &[(u64, u64)] = &[(990, 40), (1000, 40), (1090, 120), (1091, 120)];

    #[test]
    fn a_loss_after_a_reconfiguration_lowers_nothing_and_any_other_does() {
        let now = Time(1_100_000_000);
        for (rtts, ssthresh) in [(QUIET, 700), (CHANGED, 1000)] {
            let mut cubic = cubic_leo(rtts);
            cubic.on_congestion(now, Congestion::Loss, in_bytes(900));
            assert_eq!(cubic.ssthresh(), in_bytes(ssthresh), "{rtts:?}");
        }
    }

    /// Long after the reconfiguration: the round's least is the path's, and the last packet before the loss met 50 or 150 ms of a queue.
    #[test]
    fn a_loss_of_a_burst_that_overflows_is_congestion() {
        for (last_rtt_ms, ssthresh) in [(90, 1000), (190, 700)] {
            let mut cubic = cubic_leo(&[(990, 40), (1000, 40), (1090, 120), (1091, 120), (4000, 40), (4100, 40), (4200, last_rtt_ms)]);
            cubic.on_congestion(Time(4_210_000_000), Congestion::Loss, in_bytes(900));
            assert_eq!(cubic.ssthresh(), in_bytes(ssthresh), "{last_rtt_ms} ms");
        }
    }

    #[test]
    fn a_time_out_after_a_reconfiguration_aims_at_the_window_that_was() {
        let mut cubic = cubic_leo(CHANGED);
        for event in [Congestion::Timeout, Congestion::TimeoutAgain] {
            cubic.on_congestion(Time(1_300_000_000), event, in_bytes(0));
            cubic.set_cwnd(in_bytes(1));
            assert_eq!(cubic.ssthresh(), in_bytes(1000), "{event:?}");
        }
        cubic.on_congestion(Time(1_310_000_000), Congestion::Undo, in_bytes(0));
        assert_eq!(cubic.cwnd(), in_bytes(1));
    }

    #[test]
    fn without_a_reconfiguration_it_is_cubic() {
        let trace = |name: &str| {
            let mut driver = Driver::new(controller(name), RTT, 100, 100);
            driver.drop.extend([1000, 5000, 5001]);
            driver.trace(RTT, 100)
        };
        assert_eq!(trace("cubic-leo"), trace("cubic"));
    }
}
