//! Reconfiguration monitor of LEO-aware controllers: is the path reconfigured regularly, was it just reconfigured, or is a reconfiguration expected?
//!
//! The tunable `hints` selects the sources: detections (always: a [`Detector`] per flow), the clock learned from them, and announcements if requested. Each source
//! is used only while detections confirm it: the clock by its odds, announcements by whether a reconfiguration is detected at the announced time. With a wrong
//! clock or a late schedule, the controller falls back to detections.

use super::clock::{Clock, SlotTiming};
use super::detector::Detector;
use crate::hints::{self, Schedule};
use crate::{AckSample, PathHint};
use bentpipe_profile::tunables::{Tunable, seconds};
use bentpipe_profile::{Nanos, Time};

/// A path counts as reconfigured regularly for this long after a detection without a clock. Chosen here: two periods of 15 s and a little.
const REGULAR_FOR: Nanos = Nanos::from_secs(32);
/// Time before an expected reconfiguration that counts as near it. Chosen here: about the tolerance of the clock.
const NEAR_BEFORE: Nanos = Nanos::from_millis(100);
/// Time after a reconfiguration that counts as near it, besides an RTT: an interruption and a loss episode (as a rule below 150 ms each), and their feedback. Chosen here.
const NEAR_AFTER: Nanos = Nanos::from_millis(350);
/// A detection at most this long before or after an announcement confirms it; after it, two RTTs are added. Chosen here.
const CONFIRMATION_WINDOW: Nanos = Nanos::from_millis(300);
/// After a silence of this length the clock restarts: reconfigurations in between could not be detected. Chosen here.
const PAUSE: Nanos = Nanos::from_secs(2);
/// Silences count as no time for the age of a detection up to this sum: an outage is no evidence against a LEO path, but a sparse flow shows nothing for ever. Chosen here: the
/// longest outage after which a window is resumed.
pub const MAX_PAUSED: Nanos = Nanos::from_secs(90);
/// Number of the last announcements that are compared with detections. Chosen here.
const MAX_OUTCOMES: u32 = 4;

choices! {
    /// Source of the expected reconfiguration times.
    pub enum Hints {
        /// A clock learned from RTTs.
        Learned = "learned",
        /// Announcements.
        Schedule = "schedule",
        /// None: reconfigurations are only detected.
        Detected = "none",
    }
}

/// The option that selects the source.
pub const HINTS: Tunable<Hints> = Hints::option(
    "hints",
    "source of expected reconfiguration times: a clock learned from RTTs, announcements, or none (reconfigurations are only detected)",
    Hints::Learned,
    "chosen here: needs no external information",
);

options! {
    /// Options of the monitor.
    pub struct Options {
        hints: Hints = HINTS,
        period: Nanos = seconds(
            "hint_period_s",
            "fixed period of the learned clock; 0: the clock learns it",
            0.0,
            0.0,
            600.0,
            "chosen here: no period is guaranteed",
        ),
        ..errors: hints::Errors,
    }
}

/// Detector, learned clock and schedule of one flow.
#[derive(Clone, Debug)]
pub struct Monitor {
    source: Hints,
    detector: Detector,
    clock: Clock,
    /// Error added to the clock's times, for studies [ns].
    offset_ns: i64,
    schedule: Schedule,
    /// Last announcement that was compared with detections, and the outcomes of the last ones: a bit each, the newest lowest; 1: confirmed.
    last_compared: Time,
    outcomes: u32,
    outcome_count: u32,
    /// Start of the last detected reconfiguration.
    last_detected: Option<Time>,
    /// Last time at which detections or the learned clock showed a LEO path, and the silences since then, longer than [`PAUSE`] and at most [`MAX_PAUSED`].
    shown: Option<Time>,
    paused: Nanos,
    last_ack: Time,
    srtt: Nanos,
}

impl Monitor {
    /// Creates the monitor of a new connection.
    #[must_use]
    #[allow(clippy::cast_possible_truncation)] // 15 s at most
    pub fn new(options: Options) -> Self {
        let fixed_period = Some(options.period).filter(|period| *period >= Nanos::from_secs(1));
        Self {
            source: options.hints,
            detector: Detector::default(),
            clock: Clock::new(fixed_period),
            offset_ns: libm::round(options.errors.offset_ms * 1e6) as i64,
            schedule: Schedule::default(),
            last_compared: Time::ZERO,
            outcomes: 0,
            outcome_count: 0,
            last_detected: None,
            shown: None,
            paused: Nanos::ZERO,
            last_ack: Time::ZERO,
            srtt: Nanos::ZERO,
        }
    }

    /// Stores an announcement, if the controller uses them.
    pub fn on_path_hint(&mut self, hint: &PathHint) {
        if self.source == Hints::Schedule {
            self.schedule.on_path_hint(hint);
        }
    }

    /// Processes an ACK; returns whether it shows a reconfiguration.
    pub fn on_ack(&mut self, ack: &AckSample) -> bool {
        let silence = ack.now.since(self.last_ack);
        if silence > PAUSE && self.last_ack > Time::ZERO {
            if self.source == Hints::Learned && self.clock.timing().is_some() {
                (self.shown, self.paused) = (Some(self.last_ack), Nanos::ZERO);
            }
            self.clock.reset();
            // What could not be seen in the meantime is no evidence against a LEO path.
            self.paused = (self.paused + silence).min(MAX_PAUSED);
        }
        self.last_ack = ack.now;
        self.srtt = ack.srtt;
        let detected = self.detector.on_ack(ack);
        if let Some(at) = detected {
            self.last_detected = Some(at);
            (self.shown, self.paused) = (Some(at), Nanos::ZERO);
            self.clock.on_reconfiguration(at);
        } else {
            self.clock.advance(ack.now);
        }
        self.compare_announcement(ack.now);
        detected.is_some()
    }

    /// Returns whether the path is reconfigured regularly.
    #[must_use]
    pub fn is_leo(&self, now: Time) -> bool {
        let is_recent = self.shown.is_some_and(|at| now.since(at + self.paused) < REGULAR_FOR);
        match self.source {
            Hints::Learned => is_recent || self.clock.timing().is_some(),
            Hints::Schedule => is_recent || (self.is_schedule_confirmed() && self.schedule.last_before(now + REGULAR_FOR).is_some()),
            Hints::Detected => is_recent,
        }
    }

    /// Returns whether a reconfiguration was just detected or is expected now.
    #[must_use]
    pub fn is_near(&self, now: Time) -> bool {
        let span = NEAR_AFTER + self.srtt;
        if self.last_detected.is_some_and(|at| now.since(at) < span) {
            return true;
        }
        match self.source {
            Hints::Learned => self.expected(now).is_some_and(|at| at.0 <= now.0 + NEAR_BEFORE.0 && now.since(at) < span),
            Hints::Schedule => self.is_schedule_confirmed() && self.schedule.is_near(now, NEAR_BEFORE, NEAR_BEFORE + span),
            Hints::Detected => false,
        }
    }

    /// Returns the timing of the learned clock, if its odds are high enough.
    #[must_use]
    pub fn timing(&self) -> Option<SlotTiming> {
        self.clock.timing()
    }

    /// Returns the time of the last ACK; zero: none yet.
    #[must_use]
    pub const fn last_ack(&self) -> Time {
        self.last_ack
    }

    /// Returns the first reconfiguration that is expected after `now`, by the clock or by confirmed announcements.
    #[must_use]
    pub fn next_expected(&self, now: Time) -> Option<Time> {
        match self.source {
            Hints::Learned => {
                let timing = self.clock.timing()?;
                let nearest = self.expected(now)?;
                Some(if nearest > now { nearest } else { nearest + timing.period })
            }
            Hints::Schedule if self.is_schedule_confirmed() => self.schedule.first_after(now),
            Hints::Schedule | Hints::Detected => None,
        }
    }

    fn expected(&self, now: Time) -> Option<Time> {
        let shifted = Time(now.0.saturating_add_signed(-self.offset_ns));
        self.clock.timing().map(|timing| Time(timing.nearest(shifted).0.saturating_add_signed(self.offset_ns)))
    }

    fn is_schedule_confirmed(&self) -> bool {
        self.outcomes.count_ones() * 2 >= self.outcome_count
    }

    /// Compares the last announcement that is over with the detections.
    fn compare_announcement(&mut self, now: Time) {
        let over = CONFIRMATION_WINDOW + self.srtt + self.srtt;
        let Some(at) = self.schedule.last_before(Time(now.0.saturating_sub(over.0))).filter(|at| *at > self.last_compared) else { return };
        self.last_compared = at;
        let early = Time(at.0.saturating_sub(CONFIRMATION_WINDOW.0));
        let hit = self.last_detected.is_some_and(|detected_at| detected_at >= early && detected_at.since(at) <= over);
        self.outcome_count = (self.outcome_count + 1).min(MAX_OUTCOMES);
        self.outcomes = ((self.outcomes << 1) | u32::from(hit)) & ((1 << MAX_OUTCOMES) - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{ack_at, options_of};
    use bentpipe_profile::options::OptionValue;

    fn monitor(given: &[(&str, OptionValue)]) -> Monitor {
        Monitor::new(options_of(&crate::bbr3_leo::ENTRY, given))
    }

    const fn ms(n: u64) -> Time {
        Time(n * 1_000_000)
    }

    /// ACKs every 10 ms for so many seconds; every 15 s, from 7 s on, a silence of 80 ms.
    fn feed(monitor: &mut Monitor, seconds: std::ops::Range<u64>, is_reconfigured: bool) {
        for at in (seconds.start * 1000..seconds.end * 1000).step_by(10) {
            let since = at % 15_000;
            if is_reconfigured && (7_001..7_080).contains(&since) {
                continue;
            }
            let rtt = if is_reconfigured && (7_080..7_150).contains(&since) { 120 } else { 40 };
            let rtt = Nanos::from_millis(rtt);
            monitor.on_ack(&AckSample { rtt: Some(rtt), srtt: rtt, ..ack_at(ms(at)) });
        }
    }

    #[test]
    fn a_reconfiguration_is_near_when_detected_and_when_the_clock_expects_it() {
        let mut w = monitor(&[]);
        feed(&mut w, 0..7, true);
        assert!(!w.is_leo(ms(7_000)) && !w.is_near(ms(7_000)));
        feed(&mut w, 7..8, true);
        assert!(w.is_leo(ms(8_000)) && w.is_near(ms(7_200)));
        feed(&mut w, 8..50, true);
        let timing = w.timing().expect("odds above the minimum");
        assert!(timing.nearest(ms(52_000)).0.abs_diff(ms(52_000).0) < 20_000_000, "{timing:?}");
        assert!(w.is_near(ms(51_950)) && !w.is_near(ms(51_000)));
        feed(&mut w, 50..200, false);
        assert!(!w.is_leo(ms(200_000)));
    }

    /// A detection counts for 32 s of ACKs and 90 s of silences, not for ever.
    #[test]
    fn an_outage_is_no_evidence_against_a_leo_path_and_a_sparse_flow_none_for_it() {
        let mut w = monitor(&[("hints", "none".into())]);
        feed(&mut w, 0..50, true);
        let mut ack = |second: u64| {
            w.on_ack(&AckSample { rtt: Some(Nanos::from_millis(40)), srtt: Nanos::from_millis(40), ..ack_at(ms(second * 1000)) });
            w.is_leo(ms(second * 1000))
        };
        assert!(ack(110));
        assert!(!(112..300).step_by(3).map(ack).last().expect("some"));
    }

    #[test]
    fn hint_offset_shifts_the_learned_clock() {
        let mut w = monitor(&[("hint_offset_ms", 2000.0.into())]);
        feed(&mut w, 0..50, true);
        assert!(w.is_near(ms(54_000)) && !w.is_near(ms(51_990)));
    }

    #[test]
    fn announcements_that_detections_do_not_confirm_are_ignored() {
        for (late_ms, is_near) in [(0, true), (2000, false)] {
            let mut w = monitor(&[("hints", "schedule".into())]);
            (0..8).for_each(|k| w.on_path_hint(&PathHint::Reconfiguration(ms(7_000 + 15_000 * k + late_ms))));
            assert!(w.is_leo(ms(0)));
            feed(&mut w, 0..66, true);
            assert_eq!(w.is_near(ms(66_950 + late_ms)), is_near, "{late_ms}");
        }
    }

    #[test]
    fn without_hints_only_detections_count() {
        let mut w = monitor(&[("hints", "none".into())]);
        feed(&mut w, 0..50, true);
        assert!(w.is_leo(ms(50_000)) && !w.is_near(ms(51_990)));
        assert!(!w.is_leo(ms(80_000)));
    }
}
