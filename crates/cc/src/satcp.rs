//! `SaTCP`: CUBIC that knows of handovers and does not take their losses for congestion.
//!
//! Source: Cao and Zhang, "`SaTCP`: link-layer informed TCP adaptation for highly dynamic LEO satellite networks", INFOCOM 2023; its published code
//! (github.com/XuyangCaoUCSD/LeoEM, `emulation_stage/satcp`), which does something else. A flag goes up `early` before a handover and is held; while it is up,
//! - by the paper (`rule=paper`) the congestion window is frozen: nothing raises it, no loss and no time-out lowers it;
//! - by the code (`rule=code`) a loss still lowers the window, but the curve returns to the plateau in a ninth of the time (`bictcp_update`), and a
//!   time-out does not make CUBIC forget what it learnt (`bictcp_state`).
//!
//! Without a schedule it is CUBIC.

use super::cubic::{Cubic, OPTIONS as CUBIC_OPTIONS};
use super::hints::{JITTER, MISSING, Needs, OFFSET, Schedule};
use super::registry::{Allowed, Config, Entry, OptionSpec, Options};
use super::{AckSample, Congestion, Controller, Probe};
use bentpipe_profile::{Bytes, Nanos, Time};

/// `satcp` in the registry.
pub const ENTRY: Entry = Entry {
    name: "satcp",
    status: "as published: the paper's rule or the code's",
    description: "CUBIC that is told of handovers and does not take their losses for congestion",
    citation: "Cao and Zhang, INFOCOM 2023; github.com/XuyangCaoUCSD/LeoEM",
    needs: Needs::Schedule,
    options: &[
        OptionSpec {
            name: "rule",
            unit: "",
            description: "the window frozen at a handover, or the curve made steep and kept",
            default: 0.0,
            allowed: Allowed::Choice(&["paper", "code"]),
            source: "the paper; `tcp_cubic.c` of the code",
        },
        OptionSpec {
            name: "early_ms",
            unit: "ms",
            description: "how long before a handover the flag goes up",
            default: 500.0,
            allowed: Allowed::Range(0.0, 15_000.0),
            source: "`emulator.py`, `status_report_delayed_shift`",
        },
        OptionSpec {
            name: "hold_ms",
            unit: "ms",
            description: "how long it stays up",
            default: 2300.0,
            allowed: Allowed::Range(0.0, 15_000.0),
            source: "`report_relay.c`, `SATCP_DURATION`",
        },
        CUBIC_OPTIONS[0],
        CUBIC_OPTIONS[1],
        CUBIC_OPTIONS[2],
        OFFSET,
        JITTER,
        MISSING,
    ],
    build: |config, options| Box::new(SaTcp::new(config, options)),
};

/// `SaTCP`.
#[derive(Clone, Debug)]
pub struct SaTcp {
    cubic: Cubic,
    /// The code's rule, not the paper's.
    by_code: bool,
    early: Nanos,
    hold: Nanos,
    schedule: Schedule,
    /// Whether the flag is up, as of the last look at the clock.
    up: bool,
    /// The last reduction was none, the window being frozen: there is nothing to undo.
    spared: bool,
}

impl SaTcp {
    /// At the start of a connection.
    #[must_use]
    pub fn new(config: &Config, options: &Options) -> Self {
        let millis = |name: &str| Nanos::from_secs_f64(options.get(name) / 1e3).unwrap_or(Nanos::MAX);
        Self {
            cubic: Cubic::new(config, options),
            by_code: options.is_on("rule"),
            early: millis("early_ms"),
            hold: millis("hold_ms"),
            schedule: Schedule::default(),
            up: false,
            spared: false,
        }
    }

    fn look(&mut self, now: Time) {
        self.up = self.schedule.is_near(now, self.early, self.hold);
        self.cubic.shelter(self.up && self.by_code);
    }

    const fn is_frozen(&self) -> bool {
        self.up && !self.by_code
    }
}

impl Controller for SaTcp {
    delegate!(cubic: on_established, cwnd, ssthresh, set_ssthresh);
    delegate!(schedule: on_path_hint);

    fn on_acked(&mut self, ack: &AckSample) {
        self.look(ack.now);
        if !self.is_frozen() {
            self.cubic.on_acked(ack);
        }
    }

    fn on_ack(&mut self, ack: &AckSample) {
        if !self.is_frozen() {
            self.cubic.on_ack(ack);
        }
    }

    fn on_congestion(&mut self, now: Time, event: Congestion, in_flight: Bytes) {
        self.look(now);
        if event == Congestion::Undo && self.spared {
            return;
        }
        if matches!(event, Congestion::Loss | Congestion::Ecn | Congestion::Timeout) {
            self.spared = self.is_frozen();
        }
        match event {
            Congestion::Loss | Congestion::Ecn | Congestion::Timeout | Congestion::TimeoutAgain if self.is_frozen() => {
                // What recovery brings the window back to.
                self.cubic.set_ssthresh(self.cubic.cwnd());
            }
            _ => self.cubic.on_congestion(now, event, in_flight),
        }
    }

    fn set_cwnd(&mut self, cwnd: Bytes) {
        if !self.is_frozen() {
            self.cubic.set_cwnd(cwnd);
        }
    }

    fn observe(&self, probe: &mut dyn Probe) {
        self.cubic.observe(probe);
        if self.up {
            probe.state("handover");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::PathHint;
    use super::super::registry::{self, find};
    use super::super::testing::{Driver, ack_at, config, controller, in_bytes, state_of};
    use super::*;
    use std::collections::BTreeMap;

    const RTT: Nanos = Nanos::from_millis(40);

    fn satcp(rule: f64) -> SaTcp {
        let given = BTreeMap::from([("rule".to_owned(), rule)]);
        let mut satcp = SaTcp::new(&config(), &Options::check(find("satcp").expect("known"), &given).expect("in range"));
        satcp.on_path_hint(&PathHint::Reconfiguration(Time(10_000_000_000)));
        satcp.set_cwnd(in_bytes(1000));
        satcp
    }

    const DURING: Time = Time(10_000_000_000);
    const AFTER: Time = Time(11_800_000_000);

    #[test]
    fn by_the_paper_the_window_stands_while_the_flag_is_up() {
        for event in [Congestion::Loss, Congestion::Timeout, Congestion::TimeoutAgain, Congestion::Ecn] {
            let mut s = satcp(0.0);
            s.on_congestion(DURING, event, in_bytes(10));
            s.set_cwnd(in_bytes(1));
            assert_eq!((s.cwnd(), s.ssthresh(), state_of(&s)), (in_bytes(1000), in_bytes(1000), "handover"), "{event:?}");
            s.on_acked(&ack_at(DURING));
            s.on_ack(&ack_at(DURING));
            assert_eq!(s.cwnd(), in_bytes(1000));
            s.on_congestion(AFTER, Congestion::Loss, in_bytes(10));
            assert_eq!(s.ssthresh(), in_bytes(700));
        }
    }

    #[test]
    fn what_was_spared_is_not_undone() {
        let mut s = satcp(0.0);
        s.on_congestion(Time(1_000_000_000), Congestion::Loss, in_bytes(1000));
        s.set_cwnd(in_bytes(700));
        s.on_congestion(DURING, Congestion::Loss, in_bytes(700));
        s.on_congestion(DURING, Congestion::Undo, in_bytes(700));
        assert_eq!((s.cwnd(), s.ssthresh()), (in_bytes(700), in_bytes(700)), "the loss before the handover was one");
        s.on_congestion(AFTER, Congestion::Loss, in_bytes(700));
        s.set_cwnd(in_bytes(490));
        s.on_congestion(AFTER, Congestion::Undo, in_bytes(490));
        assert_eq!(s.cwnd(), in_bytes(700));
    }

    #[test]
    fn by_the_code_a_loss_lowers_the_window_and_the_plateau_is_back_in_a_ninth_of_the_time() {
        let k = |at: Time| {
            let mut s = satcp(1.0);
            s.on_congestion(at, Congestion::Loss, in_bytes(10));
            assert_eq!(s.ssthresh(), in_bytes(700));
            s.set_cwnd(in_bytes(700));
            s.on_acked(&ack_at(at));
            s.on_ack(&ack_at(at));
            s.cubic.plateau_time().expect("an epoch")
        };
        let (sheltered, plain) = (k(DURING), k(AFTER));
        assert_eq!(sheltered, plain - plain * 8 / 9);
    }

    #[test]
    fn by_the_code_a_time_out_forgets_nothing() {
        for (at, remembered) in [(DURING, true), (AFTER, false)] {
            let mut s = satcp(1.0);
            s.on_congestion(at, Congestion::Timeout, Bytes::ZERO);
            s.set_cwnd(in_bytes(1));
            assert_eq!(s.cubic.knows_plateau(), remembered);
        }
    }

    #[test]
    fn without_a_schedule_it_is_cubic() {
        let trace = |name: &str| {
            let mut driver = Driver::new(controller(name), RTT, 100, 100);
            driver.drop.insert(1000);
            driver.trace(RTT, 60)
        };
        assert_eq!(trace("satcp"), trace("cubic"));
        assert!(registry::find("satcp").is_ok_and(|entry| entry.needs == Needs::Schedule));
    }
}
