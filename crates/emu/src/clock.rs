//! Profile time from the machine's monotonic clock.

use crate::error::{EmuError, system};
use bentpipe_profile::{Nanos, Time};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId as TimerClock, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use nix::time::{ClockId, clock_gettime};
use std::os::fd::{AsFd, BorrowedFd};
use std::thread;
use std::time::Duration;

/// Profile time, advancing with `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// The machine's clock at Profile time `base`.
    anchor_ns: u64,
    base: Time,
}

impl Clock {
    /// Creates a clock that reads `base` until `lead` from now, and then advances.
    #[must_use]
    pub fn starting_at(base: Time, lead: Nanos) -> Self {
        Self { anchor_ns: monotonic_ns() + lead.0, base }
    }

    /// Creates a clock that reads `base` until the machine's clock reads `anchor_ns`, and then advances.
    #[must_use]
    pub const fn at(anchor_ns: u64, base: Time) -> Self {
        Self { anchor_ns, base }
    }

    /// The machine's clock at the start ([`monotonic_ns`]).
    #[must_use]
    pub const fn anchor_ns(&self) -> u64 {
        self.anchor_ns
    }

    /// The Profile time at the start.
    #[must_use]
    pub const fn base(&self) -> Time {
        self.base
    }

    /// The Profile time now.
    #[must_use]
    pub fn now(&self) -> Time {
        self.base + Nanos(monotonic_ns().saturating_sub(self.anchor_ns))
    }

    /// Sleeps until Profile time `at`.
    pub fn sleep_until(&self, at: Time) {
        thread::sleep(Duration::from(self.machine(at)).saturating_sub(Duration::from_nanos(monotonic_ns())));
    }

    fn machine(&self, at: Time) -> TimeSpec {
        Duration::from_nanos(self.anchor_ns + at.0.saturating_sub(self.base.0)).into()
    }
}

/// `CLOCK_MONOTONIC` [ns].
#[must_use]
pub fn monotonic_ns() -> u64 {
    nanoseconds(ClockId::CLOCK_MONOTONIC)
}

#[allow(clippy::cast_sign_loss)] // both clocks are positive
fn nanoseconds(clock: ClockId) -> u64 {
    // Both clocks exist on every Linux.
    clock_gettime(clock).map_or(0, |t| t.tv_sec() as u64 * 1_000_000_000 + t.tv_nsec() as u64)
}

/// Drift of the machine's wall clock from `CLOCK_MONOTONIC`, which the Profile's clock follows. Setting the clock causes it, and so does suspend, which
/// stops `CLOCK_MONOTONIC`. NTP's slewing changes both clocks alike.
#[derive(Clone, Copy, Debug)]
pub struct WallClockDrift {
    initial: ClockOffset,
    largest: Nanos,
}

/// Bounds of the wall clock's offset from the monotonic one [ns]: the two cannot be read at the same instant.
#[derive(Clone, Copy, Debug)]
struct ClockOffset {
    min: i128,
    max: i128,
}

impl WallClockDrift {
    /// Starts from the current offset.
    #[must_use]
    pub fn now() -> Self {
        Self { initial: ClockOffset::now(), largest: Nanos(0) }
    }

    /// Measures the drift. Call it regularly.
    pub fn update(&mut self) {
        self.largest = self.largest.max(self.initial.min_difference(ClockOffset::now()));
    }

    /// The largest drift measured, as a lower bound.
    #[must_use]
    pub const fn largest(&self) -> Nanos {
        self.largest
    }
}

impl ClockOffset {
    fn now() -> Self {
        let before = monotonic_ns();
        let wall = i128::from(nanoseconds(ClockId::CLOCK_REALTIME));
        Self { min: wall - i128::from(monotonic_ns()), max: wall - i128::from(before) }
    }

    /// Smallest difference that both pairs of bounds allow.
    fn min_difference(self, other: Self) -> Nanos {
        Nanos(u64::try_from((other.min - self.max).max(self.min - other.max)).unwrap_or(0))
    }
}

/// A timer for absolute times, so that lateness does not accumulate. It has the precision of the kernel's high-resolution timers, without the 50 µs
/// slack of `epoll_wait` and `nanosleep`.
pub struct Timer {
    timer: TimerFd,
    set_for: Option<Time>,
}

impl Timer {
    /// Creates a disarmed timer.
    ///
    /// # Errors
    /// No descriptor left.
    pub fn new() -> Result<Self, EmuError> {
        let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
        let timer = TimerFd::new(TimerClock::CLOCK_MONOTONIC, flags).map_err(system("timerfd_create"))?;
        Ok(Self { timer, set_for: None })
    }

    /// Arms the timer for `at`, or disarms it, in place of the earlier setting.
    ///
    /// # Errors
    /// [`EmuError::System`].
    pub fn set(&mut self, clock: &Clock, at: Option<Time>) -> Result<(), EmuError> {
        if at == self.set_for {
            return Ok(());
        }
        self.set_for = at;
        match at {
            Some(at) => self.timer.set(Expiration::OneShot(clock.machine(at)), TimerSetTimeFlags::TFD_TIMER_ABSTIME),
            None => self.timer.unset(),
        }
        .map_err(system("timerfd_settime"))
    }

    /// Clears an expiry, so that the timer can be armed again.
    pub fn acknowledge(&mut self) {
        self.set_for = None;
        let _ = self.timer.wait(); // EAGAIN: not expired
    }
}

impl AsFd for Timer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_difference_beyond_both_bounds_is_drift() {
        let initial = ClockOffset { min: 100, max: 130 };
        let difference = |min, max| initial.min_difference(ClockOffset { min, max }).0;
        assert_eq!([difference(120, 500), difference(90, 100), difference(100, 130)], [0, 0, 0]);
        assert_eq!(difference(180, 200), 50, "set forward, or it slept");
        assert_eq!(difference(-30, 40), 60, "set back");
    }

    #[test]
    fn an_undisturbed_machine_has_no_drift() {
        let mut drift = WallClockDrift::now();
        drift.update();
        assert!(drift.largest() < Nanos::from_millis(1), "{drift:?}");
    }
}
