//! What a LEO-aware controller asks: is this such a path, was it just changed, or is it about to be?
//!
//! Three sources, by the tunable `hints`: what is seen (always: an [`Edges`] a flow), the clock that is learned from it, and announcements, if asked for. Each is believed only as far
//! as it is borne out: the clock by its odds, announcements by whether something is seen when they say so. So a wrong clock, or a schedule that is late, leaves the controller with what
//! it sees.

use super::clock::{Beat, Clock};
use super::edges::Edges;
use crate::hints::{OFFSET, Schedule};
use crate::registry::{Allowed, OptionSpec, Options};
use crate::{AckSample, PathHint};
use bentpipe_profile::{Nanos, Time};

/// A path that was seen to be changed is taken for one that will be again for so long without a clock. Chosen here: two periods of 15 s and a little.
const SEEN_FOR: Nanos = Nanos::from_secs(32);
/// A change is near from so long before it is expected. Chosen here: the width of a beat.
const BEFORE: Nanos = Nanos::from_millis(100);
/// ... to so long after it, and a RTT: an interruption and a loss episode (as a rule below 150 ms each), and their news. Chosen here.
const AFTER: Nanos = Nanos::from_millis(350);
/// What is seen so close to an announcement, less a RTT, bears it out. Chosen here.
const BORNE_OUT: Nanos = Nanos::from_millis(300);
/// Nothing came back for so long: beats in between could not be seen. Chosen here.
const PAUSE: Nanos = Nanos::from_secs(2);
/// Announcements are held against what was seen over so many of them. Chosen here.
const JUDGED: u32 = 4;

/// What changes are expected by.
pub const HINTS: OptionSpec = OptionSpec {
    name: "hints",
    unit: "",
    description: "what changes of the path are expected by: the clock learned from RTTs, announcements, or nothing (they are only seen)",
    default: 0.0,
    allowed: Allowed::Choice(&["learned", "schedule", "none"]),
    source: "chosen here: needs nobody's help",
};
/// The only period considered.
pub const PERIOD: OptionSpec = OptionSpec {
    name: "hint_period_s",
    unit: "s",
    description: "the only period that the learned clock considers; 0: any",
    default: 0.0,
    allowed: Allowed::Range(0.0, 600.0),
    source: "chosen here: any, for none is promised",
};

/// Where expectations come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Learned,
    Schedule,
    Seen,
}

/// A controller's lookout.
#[derive(Clone, Debug)]
pub struct Watch {
    source: Source,
    edges: Edges,
    clock: Clock,
    /// What the clock is told to err by [ns], for studies.
    offset_ns: i64,
    schedule: Schedule,
    /// The last announcement that was judged, and how the last ones were borne out: a bit each, the newest lowest.
    judged: Time,
    outcomes: u32,
    outcome_count: u32,
    /// When the last change that was seen began.
    seen: Option<Time>,
    last_ack: Time,
    srtt: Nanos,
}

impl Watch {
    /// As the options say: [`HINTS`], [`PERIOD`] and those of announcements.
    #[must_use]
    #[allow(clippy::cast_possible_truncation)] // 15 s at most
    pub fn new(options: &Options) -> Self {
        let source = match options.get(HINTS.name) {
            0.0 => Source::Learned,
            1.0 => Source::Schedule,
            _ => Source::Seen,
        };
        let only = Nanos::from_secs_f64(options.get(PERIOD.name)).filter(|period| *period >= Nanos::from_secs(1));
        Self {
            source,
            edges: Edges::default(),
            clock: Clock::new(only),
            offset_ns: (options.get(OFFSET.name) * 1e6) as i64,
            schedule: Schedule::default(),
            judged: Time::ZERO,
            outcomes: 0,
            outcome_count: 0,
            seen: None,
            last_ack: Time::ZERO,
            srtt: Nanos::ZERO,
        }
    }

    /// An announcement.
    pub fn on_path_hint(&mut self, hint: &PathHint) {
        if self.source == Source::Schedule {
            self.schedule.on_path_hint(hint);
        }
    }

    /// Takes an ACK; true if it shows that the path was changed just now.
    pub fn on_ack(&mut self, ack: &AckSample) -> bool {
        if ack.now.since(self.last_ack) > PAUSE && self.last_ack > Time::ZERO {
            self.clock.forget();
        }
        self.last_ack = ack.now;
        self.srtt = ack.srtt;
        let edge = self.edges.on_ack(ack);
        if let Some(at) = edge {
            self.seen = Some(at);
            self.clock.on_edge(at);
        } else {
            self.clock.on_time(ack.now);
        }
        self.judge(ack.now);
        edge.is_some()
    }

    /// Whether this is a path that is changed again and again.
    #[must_use]
    pub fn is_leo(&self, now: Time) -> bool {
        let seen = self.seen.is_some_and(|at| now.since(at) < SEEN_FOR);
        match self.source {
            Source::Learned => seen || self.clock.beat().is_some(),
            Source::Schedule => seen || (self.trusts_schedule() && self.schedule.last_before(now + SEEN_FOR).is_some()),
            Source::Seen => seen,
        }
    }

    /// Whether it was changed just now, or is expected to be.
    #[must_use]
    pub fn is_near(&self, now: Time) -> bool {
        let span = AFTER + self.srtt;
        if self.seen.is_some_and(|at| now.since(at) < span) {
            return true;
        }
        match self.source {
            Source::Learned => self.expected(now).is_some_and(|at| at.0 <= now.0 + BEFORE.0 && now.since(at) < span),
            Source::Schedule => self.trusts_schedule() && self.schedule.is_near(now, BEFORE, BEFORE + span),
            Source::Seen => false,
        }
    }

    /// The learned clock, if it is believed.
    #[must_use]
    pub fn beat(&self) -> Option<Beat> {
        self.clock.beat()
    }

    fn expected(&self, now: Time) -> Option<Time> {
        let shifted = Time(now.0.saturating_add_signed(-self.offset_ns));
        self.clock.beat().map(|beat| Time(beat.nearest(shifted).0.saturating_add_signed(self.offset_ns)))
    }

    fn trusts_schedule(&self) -> bool {
        self.outcomes.count_ones() * 2 >= self.outcome_count
    }

    /// Holds the last announcement that is over against what was seen.
    fn judge(&mut self, now: Time) {
        let over = BORNE_OUT + self.srtt + self.srtt;
        let Some(at) = self.schedule.last_before(Time(now.0.saturating_sub(over.0))).filter(|at| *at > self.judged) else { return };
        self.judged = at;
        let early = Time(at.0.saturating_sub(BORNE_OUT.0));
        let hit = self.seen.is_some_and(|seen| seen >= early && seen.since(at) <= over);
        self.outcome_count = (self.outcome_count + 1).min(JUDGED);
        self.outcomes = ((self.outcomes << 1) | u32::from(hit)) & ((1 << JUDGED) - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::find;
    use crate::testing::ack_at;
    use std::collections::BTreeMap;

    fn watch(given: &[(&str, f64)]) -> Watch {
        let given = given.iter().map(|&(n, v)| (n.to_owned(), v)).collect::<BTreeMap<_, _>>();
        Watch::new(&Options::check(find("bbr3-leo").expect("known"), &given).expect("in range"))
    }

    const fn ms(n: u64) -> Time {
        Time(n * 1_000_000)
    }

    /// ACKs every 10 ms for so many seconds; each 15 s, from 7 s on, an 80 ms silence.
    fn live(watch: &mut Watch, seconds: std::ops::Range<u64>, changes: bool) {
        for at in (seconds.start * 1000..seconds.end * 1000).step_by(10) {
            let since = at % 15_000;
            if changes && (7_001..7_080).contains(&since) {
                continue;
            }
            let rtt = if changes && (7_080..7_150).contains(&since) { 120 } else { 40 };
            let rtt = Nanos::from_millis(rtt);
            watch.on_ack(&AckSample { rtt: Some(rtt), srtt: rtt, ..ack_at(ms(at)) });
        }
    }

    #[test]
    fn a_change_is_near_when_it_was_seen_and_when_the_clock_expects_it() {
        let mut w = watch(&[]);
        live(&mut w, 0..7, true);
        assert!(!w.is_leo(ms(7_000)) && !w.is_near(ms(7_000)));
        live(&mut w, 7..8, true);
        assert!(w.is_leo(ms(8_000)) && w.is_near(ms(7_200)));
        live(&mut w, 8..50, true);
        let beat = w.beat().expect("believed");
        assert!(beat.nearest(ms(52_000)).0.abs_diff(ms(52_000).0) < 20_000_000, "{beat:?}");
        assert!(w.is_near(ms(51_950)) && !w.is_near(ms(51_000)));
        live(&mut w, 50..200, false);
        assert!(!w.is_leo(ms(200_000)));
    }

    #[test]
    fn the_learned_clock_errs_as_it_is_told_to() {
        let mut w = watch(&[("hint_offset_ms", 2000.0)]);
        live(&mut w, 0..50, true);
        assert!(w.is_near(ms(54_000)) && !w.is_near(ms(51_990)));
    }

    #[test]
    fn announcements_that_are_not_borne_out_are_not_believed() {
        for (late_ms, believed) in [(0, true), (2000, false)] {
            let mut w = watch(&[("hints", 1.0)]);
            (0..8).for_each(|k| w.on_path_hint(&PathHint::Reconfiguration(ms(7_000 + 15_000 * k + late_ms))));
            assert!(w.is_leo(ms(0)));
            live(&mut w, 0..66, true);
            assert_eq!(w.is_near(ms(66_950 + late_ms)), believed, "{late_ms}");
        }
    }

    #[test]
    fn without_hints_it_goes_by_what_it_sees() {
        let mut w = watch(&[("hints", 2.0)]);
        live(&mut w, 0..50, true);
        assert!(w.is_leo(ms(50_000)) && !w.is_near(ms(51_990)));
        assert!(!w.is_leo(ms(80_000)));
    }
}
