//! Path hints: announcements of reconfigurations (handovers) to a controller ahead of time, and their errors.
//!
//! The registry entry of a controller declares what it needs ([`Needs`]). A controller that needs the schedule receives all of it when its connection is made:
//! one call of `Controller::on_path_hint` per reconfiguration, with the error that its tunables set. It receives nothing else about the path: neither the next
//! route nor its capacity.

use super::PathHint;
use super::registry::{Allowed, OptionSpec, Options};
use bentpipe_profile::rng::Stream;
use bentpipe_profile::{Nanos, Time};

/// Path information that a controller needs beyond ACKs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Nothing.
    Nothing,
    /// Times of the reconfigurations.
    Schedule,
    /// Wall-clock time, for schedules that follow it.
    Clock,
    /// Nothing: it learns the reconfiguration times from RTTs. It receives the schedule too if its tunable `hints` is `schedule`.
    Learned,
}

/// Path information that hints are made from.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Times of the reconfigurations.
    pub reconfigurations: Vec<Time>,
    /// Wall-clock time when the sender's clock is zero [ns since 1970-01-01 UTC].
    pub start_unix_ns: i64,
}

impl Needs {
    /// Returns the name for users.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nothing => "none",
            Self::Schedule => "schedule",
            Self::Clock => "clock",
            Self::Learned => "learned",
        }
    }
}

const PERFECT: &str = "chosen here: a perfect schedule";
/// Constant error of the announced reconfiguration times.
pub const OFFSET: OptionSpec = OptionSpec {
    name: "hint_offset_ms",
    unit: "ms",
    description: "constant error of the expected reconfiguration times; positive: later than they happen, negative: earlier",
    default: 0.0,
    allowed: Allowed::Range(-15_000.0, 15_000.0),
    source: PERFECT,
};
/// Random error of each announced time.
pub const JITTER: OptionSpec = OptionSpec {
    name: "hint_jitter_ms",
    unit: "ms",
    description: "random error added to each announced time, uniform within ± this value",
    default: 0.0,
    allowed: Allowed::Range(0.0, 15_000.0),
    source: PERFECT,
};
/// Share of the reconfigurations that are not announced.
pub const MISSING: OptionSpec = OptionSpec {
    name: "hint_missing",
    unit: "",
    description: "share of reconfigurations that are not announced",
    default: 0.0,
    allowed: Allowed::Range(0.0, 1.0),
    source: PERFECT,
};

/// Period of the satellite reassignments by the wall clock ([`WallClock`]).
pub const PERIOD: OptionSpec = OptionSpec {
    name: "period_s",
    unit: "s",
    description: "period of the satellite reassignments",
    default: 15.0,
    allowed: Allowed::Range(3.0, 3600.0),
    source: "`PERIOD`",
};

/// Phase of the reassignments in that period; `source` names it in a controller's published code.
#[must_use]
pub const fn reassigned_at(least_s: f64, source: &'static str) -> OptionSpec {
    OptionSpec {
        name: "reassigned_at_s",
        unit: "s",
        description: "time of the reassignment within each period, counted from a full period of the wall clock",
        default: 12.0,
        allowed: Allowed::Range(least_s, 3600.0),
        source,
    }
}

/// Returns the hints for reconfigurations at `times`. Each has its own random draws, so that changing one error does not change another.
#[must_use]
pub fn announce(times: &[Time], options: &Options, random: &mut Stream) -> Vec<PathHint> {
    let (offset_ms, jitter_ms) = (options.get(OFFSET.name), options.get(JITTER.name));
    let missing = options.get(MISSING.name);
    times
        .iter()
        .filter_map(|&at| {
            let (spread, is_announced) = (random.uniform_in(-1.0, 1.0), random.uniform() >= missing);
            let error_ms = offset_ms + spread * jitter_ms;
            is_announced.then(|| PathHint::Reconfiguration(shift(at, error_ms)))
        })
        .collect()
}

fn shift(at: Time, by_ms: f64) -> Time {
    let by = Nanos::from_secs_f64(libm::fabs(by_ms) / 1e3).unwrap_or(Nanos::MAX);
    if by_ms < 0.0 { Time(at.0.saturating_sub(by.0)) } else { Time(at.0.saturating_add(by.0)) }
}

/// Returns the wall-clock hint: `start_unix_ns` when the sender's clock is zero, late by `hint_offset_ms`.
#[must_use]
#[allow(clippy::cast_possible_truncation)] // 15 s at most
pub fn wall_clock(start_unix_ns: i64, options: &Options) -> PathHint {
    PathHint::WallClock(start_unix_ns.saturating_sub((options.get(OFFSET.name) * 1e6) as i64))
}

/// Announced reconfiguration times, in order.
#[derive(Clone, Debug, Default)]
pub struct Schedule {
    times: Vec<Time>,
}

impl Schedule {
    /// Stores an announcement.
    pub fn on_path_hint(&mut self, hint: &PathHint) {
        if let PathHint::Reconfiguration(at) = *hint {
            self.times.insert(self.times.partition_point(|&time| time <= at), at);
        }
    }

    /// Returns the last announced time up to `now`.
    #[must_use]
    pub fn last_before(&self, now: Time) -> Option<Time> {
        let begun = self.times.partition_point(|&at| at <= now);
        begun.checked_sub(1).map(|last| self.times[last])
    }

    /// Returns whether `now` is in the interval of length `hold` that begins `early` before an announced time.
    #[must_use]
    pub fn is_near(&self, now: Time, early: Nanos, hold: Nanos) -> bool {
        // The latest announcement whose interval has begun.
        let begun = self.times.partition_point(|&at| at.0.saturating_sub(early.0) <= now.0);
        begun > 0 && now.0 < self.times[begun - 1].0.saturating_sub(early.0).saturating_add(hold.0)
    }
}

/// Wall clock, and the satellite reassignments that follow it.
#[derive(Clone, Debug)]
pub struct WallClock {
    /// [ns]
    period: u64,
    reassigned_at: u64,
    /// Wall-clock time when the sender's clock is zero; `None`: unknown, so that no reassignment is expected.
    unix_ns: Option<i64>,
}

impl WallClock {
    /// Reads the tunables [`PERIOD`] and [`reassigned_at`].
    #[must_use]
    pub fn new(options: &Options) -> Self {
        let seconds = |name: &str| Nanos::from_secs_f64(options.get(name)).map_or(u64::MAX, |span| span.0);
        let period = seconds(PERIOD.name);
        Self { period, reassigned_at: seconds("reassigned_at_s") % period, unix_ns: None }
    }

    /// Stores the wall-clock time.
    pub const fn on_path_hint(&mut self, hint: &PathHint) {
        if let PathHint::WallClock(unix_ns) = *hint {
            self.unix_ns = Some(unix_ns);
        }
    }

    /// Returns the time until the next reassignment; zero: now.
    #[must_use]
    pub fn time_to_next(&self, now: Time) -> Option<Nanos> {
        let unix_ns = i128::from(self.unix_ns?) + i128::from(now.0);
        let ahead = (i128::from(self.reassigned_at) - unix_ns).rem_euclid(i128::from(self.period));
        u64::try_from(ahead).ok().map(Nanos)
    }
}

#[cfg(test)]
mod tests {
    use super::super::registry::find;
    use super::*;
    use bentpipe_profile::Streams;
    use std::collections::BTreeMap;

    const fn s(n: u64) -> Time {
        Time(n * 1_000_000_000)
    }

    fn announced_times(given: &[(&str, f64)], times: &[Time]) -> Vec<u64> {
        let given = given.iter().map(|&(n, v)| (n.to_owned(), v)).collect::<BTreeMap<_, _>>();
        let options = Options::check(find("satcp").expect("known"), &given).expect("in range");
        let hints = announce(times, &options, &mut Streams::new(1).stream("hints"));
        let time = |hint: &PathHint| if let PathHint::Reconfiguration(at) = hint { Some(at.0) } else { None };
        hints.iter().filter_map(time).collect()
    }

    #[test]
    fn a_perfect_schedule_announces_the_true_times_and_an_offset_shifts_them() {
        assert_eq!(announced_times(&[], &[s(15), s(30)]), [s(15).0, s(30).0]);
        assert_eq!(announced_times(&[("hint_offset_ms", -200.0)], &[s(15)]), [14_800_000_000]);
        assert_eq!(announced_times(&[("hint_offset_ms", -200.0)], &[Time(1)]), [0]);
    }

    #[test]
    fn jitter_is_uniform_and_the_given_share_is_not_announced() {
        let times: Vec<Time> = (1..=1000).map(|k| s(15 * k)).collect();
        let errors: Vec<i64> = announced_times(&[("hint_jitter_ms", 100.0)], &times)
            .iter()
            .zip(&times)
            .map(|(&announced, at)| announced.cast_signed() - at.0.cast_signed())
            .collect();
        assert!(errors.iter().all(|e| e.abs() <= 100_000_000));
        let mean = errors.iter().sum::<i64>() / 1000;
        // 58 ms of standard deviation, by the square root of 1000: 4 σ.
        assert!(mean.abs() < 7_300_000, "{mean}");
        let count = announced_times(&[("hint_missing", 0.25)], &times).len();
        assert!(count.abs_diff(750) < 55, "{count}"); // 4 σ of 13.7
        assert!(announced_times(&[("hint_missing", 1.0)], &times).is_empty());
    }

    #[test]
    fn a_time_is_near_an_announcement_from_early_before_it_for_the_hold_time() {
        let mut schedule = Schedule::default();
        for at in [s(30), s(15), s(16)] {
            schedule.on_path_hint(&PathHint::Reconfiguration(at));
        }
        let near = |ms: u64| schedule.is_near(Time(ms * 1_000_000), Nanos::from_millis(500), Nanos::from_millis(2300));
        assert!(!near(14_499) && near(14_500) && near(16_799));
        // The announcement at 16 s restarts the hold.
        assert!(near(17_799) && !near(17_800) && near(29_500) && !near(31_800));
        assert!(!Schedule::default().is_near(s(1), Nanos::ZERO, Nanos::MAX));
    }

    #[test]
    fn the_wall_clock_gives_the_time_to_the_next_reassignment() {
        let options = Options::check(find("satpipe").expect("known"), &BTreeMap::new()).expect("defaults");
        let mut clock = WallClock::new(&options);
        assert_eq!(clock.time_to_next(s(1)), None);
        // 1,778,403,600 s is a multiple of 15; satellites are reassigned 12 s after one.
        for (shown_s, ahead_s) in [(1_778_403_600, 12), (1_778_403_611, 1), (1_778_403_612, 0), (1_778_403_613, 14), (-3, 0), (-4, 1)] {
            clock.on_path_hint(&PathHint::WallClock(shown_s * 1_000_000_000));
            assert_eq!(clock.time_to_next(Time::ZERO), Some(Nanos::from_secs(ahead_s)), "{shown_s}");
        }
        assert_eq!(clock.time_to_next(Time(1)), Some(Nanos(999_999_999)));
    }
}
