//! `SaTCP`: CUBIC that receives the handover schedule and does not treat handover losses as congestion.
//!
//! Source: Cao and Zhang, "`SaTCP`: link-layer informed TCP adaptation for highly dynamic LEO satellite networks", INFOCOM 2023; its published code
//! (github.com/XuyangCaoUCSD/LeoEM, `emulation_stage/satcp`), which differs from the paper. A flag is set `early` before a handover and held; while it is set,
//! - by the paper (`rule=paper`) the congestion window is frozen: nothing raises it, no loss and no time-out lowers it;
//! - by the code (`rule=code`) a loss still lowers the window, but the curve returns to the plateau in a ninth of the time (`bictcp_update`), and a
//!   time-out does not reset CUBIC's state (`bictcp_state`).
//!
//! Without a schedule it is CUBIC.

use super::cubic::{self, Cubic};
use super::hints::{self, Needs, Schedule};
use super::registry::{Config, Entry};
use super::{AckSample, Congestion, Controller, Probe};
use bentpipe_profile::tunables::{OptionSet, millis};
use bentpipe_profile::{Bytes, Nanos, Time};

/// `satcp` in the registry.
pub const ENTRY: Entry = Entry {
    name: "satcp",
    status: "as published: rule of the paper, or of the code",
    description: "CUBIC that receives the handover schedule and does not treat handover losses as congestion",
    citation: "Cao and Zhang, INFOCOM 2023; github.com/XuyangCaoUCSD/LeoEM",
    needs: Needs::Schedule,
    options: Options::SPECS,
    build: |config, values| Box::new(SaTcp::new(config, Options::read(values))),
};

choices! {
    /// Whose rule applies at a handover.
    pub enum Rule {
        /// The paper's.
        Paper = "paper",
        /// The published code's.
        Code = "code",
    }
}

options! {
    /// Options of `satcp`.
    pub struct Options {
        rule: Rule = Rule::option(
            "rule",
            "paper: freeze the window at a handover; code: return faster to the plateau, and keep it after a time-out",
            Rule::Paper,
            "the paper; `tcp_cubic.c` of the code",
        ),
        early: Nanos = millis(
            "early_ms",
            "time before a handover at which the flag is set",
            500.0,
            0.0,
            15_000.0,
            "`emulator.py`, `status_report_delayed_shift`",
        ),
        hold: Nanos = millis("hold_ms", "time for which the flag stays set", 2300.0, 0.0, 15_000.0, "`report_relay.c`, `SATCP_DURATION`"),
        ..cubic: cubic::Options,
        ..hint_errors: hints::Errors,
    }
}

/// `SaTCP` congestion control.
#[derive(Clone, Debug)]
pub struct SaTcp {
    cubic: Cubic,
    options: Options,
    schedule: Schedule,
    /// Whether the flag is set, as of the last update.
    flag: bool,
    /// The last reduction was skipped because the window was frozen: there is nothing to undo.
    reduction_skipped: bool,
}

impl SaTcp {
    /// Creates the controller of a new connection.
    #[must_use]
    pub fn new(config: &Config, options: Options) -> Self {
        Self { cubic: Cubic::new(config, options.cubic), options, schedule: Schedule::default(), flag: false, reduction_skipped: false }
    }

    fn update_flag(&mut self, now: Time) {
        self.flag = self.schedule.is_near(now, self.options.early, self.options.hold);
        self.cubic.set_handover(self.flag && self.options.rule == Rule::Code);
    }

    fn is_frozen(&self) -> bool {
        self.flag && self.options.rule == Rule::Paper
    }
}

impl Controller for SaTcp {
    delegate!(cubic: on_established, cwnd, ssthresh, set_ssthresh);
    delegate!(schedule: on_path_hint);

    fn on_acked(&mut self, ack: &AckSample) {
        self.update_flag(ack.now);
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
        self.update_flag(now);
        if event == Congestion::Undo && self.reduction_skipped {
            return;
        }
        if matches!(event, Congestion::Loss | Congestion::Ecn | Congestion::Timeout) {
            self.reduction_skipped = self.is_frozen();
        }
        match event {
            Congestion::Loss | Congestion::Ecn | Congestion::Timeout | Congestion::TimeoutAgain if self.is_frozen() => {
                // Recovery ends at this window.
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
        if self.flag {
            probe.state("handover");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::PathHint;
    use super::super::registry;
    use super::super::testing::{Driver, ack_at, config, controller, in_bytes, options_of, state_of};
    use super::*;

    const RTT: Nanos = Nanos::from_millis(40);

    fn satcp(rule: &str) -> SaTcp {
        let mut satcp = SaTcp::new(&config(), options_of(&ENTRY, &[("rule", rule.into())]));
        satcp.on_path_hint(&PathHint::Reconfiguration(Time(10_000_000_000)));
        satcp.set_cwnd(in_bytes(1000));
        satcp
    }

    const DURING: Time = Time(10_000_000_000);
    const AFTER: Time = Time(11_800_000_000);

    #[test]
    fn by_the_paper_the_window_is_frozen_while_the_flag_is_set() {
        for event in [Congestion::Loss, Congestion::Timeout, Congestion::TimeoutAgain, Congestion::Ecn] {
            let mut s = satcp("paper");
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
    fn a_skipped_reduction_is_not_undone() {
        let mut s = satcp("paper");
        s.on_congestion(Time(1_000_000_000), Congestion::Loss, in_bytes(1000));
        s.set_cwnd(in_bytes(700));
        s.on_congestion(DURING, Congestion::Loss, in_bytes(700));
        s.on_congestion(DURING, Congestion::Undo, in_bytes(700));
        assert_eq!((s.cwnd(), s.ssthresh()), (in_bytes(700), in_bytes(700)), "the loss before the handover counts");
        s.on_congestion(AFTER, Congestion::Loss, in_bytes(700));
        s.set_cwnd(in_bytes(490));
        s.on_congestion(AFTER, Congestion::Undo, in_bytes(490));
        assert_eq!(s.cwnd(), in_bytes(700));
    }

    #[test]
    fn by_the_code_a_loss_lowers_the_window_but_the_plateau_returns_in_a_ninth_of_the_time() {
        let k = |at: Time| {
            let mut s = satcp("code");
            s.on_congestion(at, Congestion::Loss, in_bytes(10));
            assert_eq!(s.ssthresh(), in_bytes(700));
            s.set_cwnd(in_bytes(700));
            s.on_acked(&ack_at(at));
            s.on_ack(&ack_at(at));
            s.cubic.plateau_time().expect("an epoch")
        };
        let (in_handover, normal) = (k(DURING), k(AFTER));
        assert_eq!(in_handover, normal - normal * 8 / 9);
    }

    #[test]
    fn by_the_code_a_time_out_keeps_the_plateau() {
        for (at, remembered) in [(DURING, true), (AFTER, false)] {
            let mut s = satcp("code");
            s.on_congestion(at, Congestion::Timeout, Bytes::ZERO);
            s.set_cwnd(in_bytes(1));
            assert_eq!(s.cubic.has_plateau(), remembered);
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
