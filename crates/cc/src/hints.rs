//! Path hints: announcements of reconfigurations (handovers) to a controller ahead of time, and their errors.
//!
//! The registry entry of a controller declares what it needs ([`Needs`]). A controller that needs the schedule receives all of it when its connection is made:
//! one call of `Controller::on_path_hint` per reconfiguration, with the error that its tunables set. It receives nothing else about the path: neither the next
//! route nor its capacity.

use super::PathHint;
use bentpipe_profile::rng::Stream;
use bentpipe_profile::tunables::{Tunable, number, seconds};
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
    /// What only a simulator knows ([`Knowledge`](crate::knowledge::Knowledge)), and the schedule: not deployable.
    Future,
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
            Self::Future => "future",
        }
    }
}

const PERFECT: &str = "chosen here: a perfect schedule";
/// Constant error of the announced reconfiguration times.
pub const OFFSET: Tunable<f64> = number(
    "hint_offset_ms",
    "constant error of the expected reconfiguration times; positive: later than they happen, negative: earlier",
    0.0,
    -15_000.0,
    15_000.0,
    PERFECT,
)
.unit("ms");

options! {
    /// Errors of announced reconfigurations.
    pub struct Errors {
        offset_ms: f64 = OFFSET,
        jitter_ms: f64 = number(
            "hint_jitter_ms",
            "random error added to each announced time, uniform within ± this value",
            0.0,
            0.0,
            15_000.0,
            PERFECT,
        )
        .unit("ms"),
        missing: f64 = number("hint_missing", "share of reconfigurations that are not announced", 0.0, 0.0, 1.0, PERFECT),
    }
}

impl Errors {
    /// A perfect schedule.
    pub const NONE: Self = Self { offset_ms: 0.0, jitter_ms: 0.0, missing: 0.0 };
}

options! {
    /// Options of reassignments by the wall clock ([`WallClock`]), besides [`reassigned_at`].
    pub struct ClockOptions {
        period: Nanos = seconds("period_s", "period of the satellite reassignments", 15.0, 3.0, 3600.0, "`PERIOD`"),
        offset_ms: f64 = OFFSET,
    }
}

/// Phase of the reassignments in that period; `source` names it in a controller's published code.
#[must_use]
pub const fn reassigned_at(least_s: f64, source: &'static str) -> Tunable<Nanos> {
    seconds(
        "reassigned_at_s",
        "time of the reassignment within each period, counted from a full period of the wall clock",
        12.0,
        least_s,
        3600.0,
        source,
    )
}

/// Returns the hints for reconfigurations at `times`. Each has its own random draws, so that changing one error does not change another.
#[must_use]
pub fn announce(times: &[Time], errors: &Errors, random: &mut Stream) -> Vec<PathHint> {
    times
        .iter()
        .filter_map(|&at| {
            let (spread, is_announced) = (random.uniform_in(-1.0, 1.0), random.uniform() >= errors.missing);
            let error_ms = errors.offset_ms + spread * errors.jitter_ms;
            is_announced.then(|| PathHint::Reconfiguration(shift(at, error_ms)))
        })
        .collect()
}

fn shift(at: Time, by_ms: f64) -> Time {
    let by = Nanos::from_secs_f64(libm::fabs(by_ms) / 1e3).unwrap_or(Nanos::MAX);
    if by_ms < 0.0 { Time(at.0.saturating_sub(by.0)) } else { Time(at.0.saturating_add(by.0)) }
}

/// Returns the wall-clock hint: `start_unix_ns` when the sender's clock is zero, late by `offset_ms`.
#[must_use]
#[allow(clippy::cast_possible_truncation)] // 15 s at most
pub const fn wall_clock(start_unix_ns: i64, offset_ms: f64) -> PathHint {
    PathHint::WallClock(start_unix_ns.saturating_sub((offset_ms * 1e6) as i64))
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

    /// Returns the first announced time after `now`.
    #[must_use]
    pub fn first_after(&self, now: Time) -> Option<Time> {
        self.times.get(self.times.partition_point(|&at| at <= now)).copied()
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
    /// Creates a clock whose reassignments come `reassigned_at` after each full `period`.
    #[must_use]
    pub const fn new(period: Nanos, reassigned_at: Nanos) -> Self {
        Self { period: period.0, reassigned_at: reassigned_at.0 % period.0, unix_ns: None }
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
    use super::*;
    use bentpipe_profile::Streams;

    const fn s(n: u64) -> Time {
        Time(n * 1_000_000_000)
    }

    fn announced_times(errors: Errors, times: &[Time]) -> Vec<u64> {
        let hints = announce(times, &errors, &mut Streams::new(1).stream("hints"));
        let time = |hint: &PathHint| if let PathHint::Reconfiguration(at) = hint { Some(at.0) } else { None };
        hints.iter().filter_map(time).collect()
    }

    #[test]
    fn a_perfect_schedule_announces_the_true_times_and_an_offset_shifts_them() {
        assert_eq!(announced_times(Errors::NONE, &[s(15), s(30)]), [s(15).0, s(30).0]);
        assert_eq!(announced_times(Errors { offset_ms: -200.0, ..Errors::NONE }, &[s(15)]), [14_800_000_000]);
        assert_eq!(announced_times(Errors { offset_ms: -200.0, ..Errors::NONE }, &[Time(1)]), [0]);
    }

    #[test]
    fn jitter_is_uniform_and_the_given_share_is_not_announced() {
        let times: Vec<Time> = (1..=1000).map(|k| s(15 * k)).collect();
        let errors: Vec<i64> = announced_times(Errors { jitter_ms: 100.0, ..Errors::NONE }, &times)
            .iter()
            .zip(&times)
            .map(|(&announced, at)| announced.cast_signed() - at.0.cast_signed())
            .collect();
        assert!(errors.iter().all(|e| e.abs() <= 100_000_000));
        let mean = errors.iter().sum::<i64>() / 1000;
        // 58 ms of standard deviation, by the square root of 1000: 4 σ.
        assert!(mean.abs() < 7_300_000, "{mean}");
        let count = announced_times(Errors { missing: 0.25, ..Errors::NONE }, &times).len();
        assert!(count.abs_diff(750) < 55, "{count}"); // 4 σ of 13.7
        assert!(announced_times(Errors { missing: 1.0, ..Errors::NONE }, &times).is_empty());
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
        let mut clock = WallClock::new(Nanos::from_secs(15), Nanos::from_secs(12));
        assert_eq!(clock.time_to_next(s(1)), None);
        // 1,778,403,600 s is a multiple of 15; satellites are reassigned 12 s after one.
        for (shown_s, ahead_s) in [(1_778_403_600, 12), (1_778_403_611, 1), (1_778_403_612, 0), (1_778_403_613, 14), (-3, 0), (-4, 1)] {
            clock.on_path_hint(&PathHint::WallClock(shown_s * 1_000_000_000));
            assert_eq!(clock.time_to_next(Time::ZERO), Some(Nanos::from_secs(ahead_s)), "{shown_s}");
        }
        assert_eq!(clock.time_to_next(Time(1)), Some(Nanos(999_999_999)));
    }
}
