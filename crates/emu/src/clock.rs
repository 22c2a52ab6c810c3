//! The machine's monotonic clock as the Profile's time.

use crate::error::{EmuError, system};
use bentpipe_profile::{Nanos, Time};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId as TimerClock, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use nix::time::{ClockId, clock_gettime};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// Profile time, advancing with `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// What the machine's clock read when the Profile's was at `base`.
    anchor_ns: u64,
    base: Time,
}

impl Clock {
    /// Profile time is `base` now.
    #[must_use]
    pub fn starting_at(base: Time) -> Self {
        Self { anchor_ns: monotonic_ns(), base }
    }

    /// The Profile's time at which it began.
    #[must_use]
    pub const fn base(&self) -> Time {
        self.base
    }

    /// The Profile's time.
    #[must_use]
    pub fn now(&self) -> Time {
        self.base + Nanos(monotonic_ns() - self.anchor_ns)
    }

    fn machine(&self, at: Time) -> TimeSpec {
        Duration::from_nanos(self.anchor_ns + at.0.saturating_sub(self.base.0)).into()
    }
}

/// Nanoseconds of `CLOCK_MONOTONIC`.
#[must_use]
#[allow(clippy::cast_sign_loss)] // the clock starts at zero
pub fn monotonic_ns() -> u64 {
    // The clock exists on every Linux; 0 would only make the Profile begin at the machine's boot.
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |t| t.tv_sec() as u64 * 1_000_000_000 + t.tv_nsec() as u64)
}

/// A timer on absolute times: being late for one deadline never moves the next. Its precision is the kernel's high-resolution timer's; the 50 µs
/// slack of `epoll_wait` and `nanosleep` does not apply to it.
pub struct Alarm {
    timer: TimerFd,
    set_for: Option<Time>,
}

impl Alarm {
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
    pub fn rang(&mut self) {
        self.set_for = None;
        let _ = self.timer.wait(); // EAGAIN where it had not
    }
}

impl AsFd for Alarm {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }
}
