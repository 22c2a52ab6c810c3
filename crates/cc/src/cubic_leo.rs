//! `cubic-leo`: CUBIC for a path that is reconfigured every few seconds.
//!
//! On such a path losses determine CUBIC's window, and most losses come in bursts, at reconfigurations and in fades, beside an empty queue. While the path is reconfigured regularly
//! (see [`super::leo`]), a loss near a reconfiguration, or beside a queue that is shorter than a target, is repaired without lowering the window, unless losses last. A time-out near
//! a reconfiguration restarts from one packet, but keeps the previous window as its threshold. On other paths it is CUBIC, packet by packet.

use super::bbr_parts::params::UNIT;
use super::cubic::{self, Cubic};
use super::hints::Needs;
use super::leo::monitor::{self, Monitor};
use super::leo::path::{SlotPath, Target};
use super::registry::{Config, Entry};
use super::{AckSample, Congestion, Controller, Probe};
use bentpipe_profile::tunables::{OptionSet, millis};
use bentpipe_profile::{Bytes, Nanos, Time};

/// `cubic-leo` in the registry.
pub const ENTRY: Entry = Entry {
    name: "cubic-leo",
    status: "by bentpipe, experimental",
    description: "CUBIC that does not lower its window for losses in handovers and fades",
    citation: "bentpipe, docs/design/007-leo-controllers.md; RFC 9438",
    needs: Needs::Learned,
    options: Options::SPECS,
    build: |config, values| Box::new(CubicLeo::new(config, Options::read(values))),
};

options! {
    /// Options of `cubic-leo`.
    pub struct Options {
        queue: Nanos = millis(
            "queue_ms",
            "queue from which on a loss is treated as congestion",
            30.0,
            1.0,
            1000.0,
            "chosen here: docs/design/007-leo-controllers.md",
        ),
        ..monitor: monitor::Options,
        ..cubic: cubic::Options,
    }
}

/// Share of a round's packets from which on losses may be lasting: BBR's (draft-ietf-ccwg-bbr-06 §5.5.10.2, `LossThresh`) [1/256].
const LOSS_THRESHOLD: u64 = UNIT * 2 / 100;
/// Rounds of the bandwidth filter, which CUBIC does not use.
const BW_ROUNDS: u64 = 1;

/// CUBIC for paths that are reconfigured regularly.
#[derive(Clone, Debug)]
pub struct CubicLeo {
    cubic: Cubic,
    monitor: Monitor,
    path: SlotPath,
    /// The last reduction was skipped: there is nothing to undo.
    reduction_skipped: bool,
    last_rtt: Nanos,
}

impl CubicLeo {
    fn new(config: &Config, options: Options) -> Self {
        Self {
            cubic: Cubic::new(config, options.cubic),
            monitor: Monitor::new(options.monitor),
            path: SlotPath::new(config.mss, Target { min: options.queue, jitter_gain: 0, rtt_fraction: 0 }, BW_ROUNDS),
            reduction_skipped: false,
            last_rtt: Nanos::ZERO,
        }
    }
}

impl Controller for CubicLeo {
    delegate!(cubic: on_established, on_ack, cwnd, set_cwnd, ssthresh, set_ssthresh);
    delegate!(monitor: on_path_hint);

    fn on_acked(&mut self, ack: &AckSample) {
        if self.monitor.on_ack(ack) {
            self.path.on_reconfiguration(ack.now);
        }
        self.last_rtt = ack.rtt.unwrap_or(self.last_rtt);
        self.path.on_ack(ack, self.monitor.is_near(ack.now), LOSS_THRESHOLD);
        self.cubic.on_acked(ack);
    }

    fn on_congestion(&mut self, now: Time, event: Congestion, in_flight: Bytes) {
        let is_leo = self.monitor.is_leo(now);
        let is_near = is_leo && self.monitor.is_near(now);
        match event {
            // A whole window sent at once overflows a queue that is empty for its first packets.
            Congestion::Loss => {
                self.reduction_skipped =
                    is_near || (is_leo && self.path.ignores_losses(now) && !self.path.has_deep_queue(now, self.last_rtt));
            }
            Congestion::Timeout => self.reduction_skipped = is_near,
            Congestion::TimeoutAgain => {}
            _ => {
                if event != Congestion::Undo || !self.reduction_skipped {
                    self.cubic.on_congestion(now, event, in_flight);
                }
                return;
            }
        }
        if !self.reduction_skipped {
            self.cubic.on_congestion(now, event, in_flight);
        } else if event != Congestion::TimeoutAgain {
            // Recovery ends at this window.
            self.cubic.set_ssthresh(self.cubic.cwnd());
        }
    }

    fn observe(&self, probe: &mut dyn Probe) {
        self.cubic.observe(probe);
        if let Some(timing) = self.monitor.timing() {
            probe.value("clock_period_s", timing.period.as_secs_f64());
            probe.value("clock_confidence", timing.confidence());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Driver, ack_at, config, controller, in_bytes, options_of};
    use super::*;

    const RTT: Nanos = Nanos::from_millis(40);

    fn cubic_leo(rtts: &[(u64, u64)]) -> CubicLeo {
        let mut cubic = CubicLeo::new(&config(), options_of(&ENTRY, &[]));
        cubic.set_cwnd(in_bytes(1000));
        for &(at_ms, rtt_ms) in rtts {
            cubic.on_acked(&AckSample { rtt: Some(Nanos::from_millis(rtt_ms)), ..ack_at(Time(at_ms * 1_000_000)) });
        }
        cubic
    }

    const STEADY: &[(u64, u64)] = &[(990, 40), (1000, 40)];
    const RECONFIGURED: &[(u64, u64)] = &[(990, 40), (1000, 40), (1090, 120), (1091, 120)];

    #[test]
    fn only_a_loss_after_a_reconfiguration_does_not_lower_the_window() {
        let now = Time(1_100_000_000);
        for (rtts, ssthresh) in [(STEADY, 700), (RECONFIGURED, 1000)] {
            let mut cubic = cubic_leo(rtts);
            cubic.on_congestion(now, Congestion::Loss, in_bytes(900));
            assert_eq!(cubic.ssthresh(), in_bytes(ssthresh), "{rtts:?}");
        }
    }

    /// Long after the reconfiguration: the round's minimum is the base RTT, and the last packet before the loss met 50 or 150 ms of queue.
    #[test]
    fn a_burst_that_overflows_the_queue_is_congestion() {
        for (last_rtt_ms, ssthresh) in [(90, 1000), (190, 700)] {
            let mut cubic = cubic_leo(&[(990, 40), (1000, 40), (1090, 120), (1091, 120), (4000, 40), (4100, 40), (4200, last_rtt_ms)]);
            cubic.on_congestion(Time(4_210_000_000), Congestion::Loss, in_bytes(900));
            assert_eq!(cubic.ssthresh(), in_bytes(ssthresh), "{last_rtt_ms} ms");
        }
    }

    #[test]
    fn a_time_out_after_a_reconfiguration_keeps_the_window_as_threshold() {
        let mut cubic = cubic_leo(RECONFIGURED);
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
