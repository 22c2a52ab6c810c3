//! The machine's monotonic clock as the Profile's time.

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
    /// What the machine's clock read when the Profile's was at `base`.
    anchor_ns: u64,
    base: Time,
}

impl Clock {
    /// Profile time is `base` until `lead` from now, and then goes.
    #[must_use]
    pub fn starting_at(base: Time, lead: Nanos) -> Self {
        Self { anchor_ns: monotonic_ns() + lead.0, base }
    }

    /// The Profile's time at which it began.
    #[must_use]
    pub const fn base(&self) -> Time {
        self.base
    }

    /// The Profile's time.
    #[must_use]
    pub fn now(&self) -> Time {
        self.base + Nanos(monotonic_ns().saturating_sub(self.anchor_ns))
    }

    /// Sleeps until the Profile's time is `at`.
    pub fn sleep_until(&self, at: Time) {
        thread::sleep(Duration::from(self.machine(at)).saturating_sub(Duration::from_nanos(monotonic_ns())));
    }

    fn machine(&self, at: Time) -> TimeSpec {
        Duration::from_nanos(self.anchor_ns + at.0.saturating_sub(self.base.0)).into()
    }
}

/// Nanoseconds of `CLOCK_MONOTONIC`.
#[must_use]
pub fn monotonic_ns() -> u64 {
    nanoseconds(ClockId::CLOCK_MONOTONIC)
}

#[allow(clippy::cast_sign_loss)] // both clocks that are asked are past zero
fn nanoseconds(clock: ClockId) -> u64 {
    // They exist on every Linux; 0 would only make the Profile begin at the machine's boot.
    clock_gettime(clock).map_or(0, |t| t.tv_sec() as u64 * 1_000_000_000 + t.tv_nsec() as u64)
}

/// How far the machine's wall clock has gone off the one that the Profile's follows: who sets it moves it, and so does a machine that slept, since
/// `CLOCK_MONOTONIC` stands still meanwhile. (What NTP does little by little moves both alike.)
#[derive(Clone, Copy, Debug)]
pub struct WallClockDrift {
    initial: ClockOffset,
    largest: Nanos,
}

/// Of the wall clock to the other [ns]; two readings are never of one moment, so there is a least and a most.
#[derive(Clone, Copy, Debug)]
struct ClockOffset {
    min: i128,
    max: i128,
}

impl WallClockDrift {
    /// As it stands now.
    #[must_use]
    pub fn now() -> Self {
        Self { initial: ClockOffset::now(), largest: Nanos(0) }
    }

    /// Called now and then.
    pub fn update(&mut self) {
        self.largest = self.largest.max(self.initial.min_difference(ClockOffset::now()));
    }

    /// The largest that was surely seen.
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

    /// How far apart they are at least, whenever within its two readings each was.
    fn min_difference(self, other: Self) -> Nanos {
        Nanos(u64::try_from((other.min - self.max).max(self.min - other.max)).unwrap_or(0))
    }
}

/// A timer on absolute times: being late for one deadline never moves the next. Its precision is the kernel's high-resolution timer's; the 50 µs
/// slack of `epoll_wait` and `nanosleep` does not apply to it.
pub struct Timer {
    timer: TimerFd,
    set_for: Option<Time>,
}

impl Timer {
    /// One that is not set.
    ///
    /// # Errors
    /// No descriptor left.
    pub fn new() -> Result<Self, EmuError> {
        let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
        let timer = TimerFd::new(TimerClock::CLOCK_MONOTONIC, flags).map_err(system("timerfd_create"))?;
        Ok(Self { timer, set_for: None })
    }

    /// Rings at `at`; earlier settings are void.
    ///
    /// # Errors
    /// What the kernel says.
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

    /// It rang: ready to be set again.
    pub fn acknowledge(&mut self) {
        self.set_for = None;
        let _ = self.timer.wait(); // EAGAIN where it had not
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
    fn only_what_no_reading_explains_is_a_step() {
        let initial = ClockOffset { min: 100, max: 130 };
        let difference = |min, max| initial.min_difference(ClockOffset { min, max }).0;
        assert_eq!([difference(120, 500), difference(90, 100), difference(100, 130)], [0, 0, 0]);
        assert_eq!(difference(180, 200), 50, "set forward, or it slept");
        assert_eq!(difference(-30, 40), 60, "set back");
    }

    #[test]
    fn a_machine_that_is_left_alone_has_none() {
        let mut drift = WallClockDrift::now();
        drift.update();
        assert!(drift.largest() < Nanos::from_millis(1), "{drift:?}");
    }
}
