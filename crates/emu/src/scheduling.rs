//! Threads that must not wait for the machine's other work, where the kernel allows it.
//!
//! `SCHED_FIFO` has a limit of its own: all such threads of a processor together get 95 % of a second (`sched_rt_runtime_us`), and then *none* of them
//! runs for the rest of it. A relay that meets that limit stands still for 50 ms. So it alone has that policy. While it is busy it first does with less:
//! it sleeps until the very moment, then until the next of coarser ones, and what is due between two of them goes together. Only if that does not help
//! is it an ordinary thread until it has less to do.

use crate::error::{EmuError, system};
use bentpipe_profile::{Nanos, Time};
use nix::time::{ClockId, clock_gettime};
use thread_priority::{
    NormalThreadSchedulePolicy, RealtimeThreadSchedulePolicy, ThreadPriority, ThreadPriorityValue, ThreadSchedulePolicy,
    set_thread_priority_and_policy, thread_native_id,
};

/// Between looks at how busy the thread was.
const CHECK_INTERVAL: Nanos = Nanos::from_millis(100);

/// Share of that above which it does with less [%]: a step, or two where it is nearly all. Chosen here: the way to the end of them, the policy, takes
/// less of a second than the kernel's 95, from wherever it begins and however busy it is.
const BUSY: u64 = 80;
const FULL: u64 = 90;

/// Looks in a row at which it was no busier than that before it tries to do with a step less. Where that was a step too far, the next try waits twice as
/// long: a load that needs the step would otherwise have another one ten times a second.
const PROBE_AFTER: u32 = 5;
const MAX_PROBE_AFTER: u32 = 320;

/// Share below which it is another load, to which none of that applies [%].
const LIGHT: u64 = 30;

/// How it waits, from what is most exact to what costs least: how long before something is due it stops sleeping and looks at the clock instead, at
/// most, or the raster of moments until which it sleeps.
///
/// A processor that sleeps, above all a virtual one, takes some 50 µs to wake. Asleep until the moment itself the median error beside 200 Mbit/s was some
/// 60 µs, and so it is 3 to 20, by machine (`bentpipe validate emulator`); with 200 µs it never sleeps at 40 Mbit/s already, and three emulations on two
/// processors keep each other waiting. To set a timer and to wake cost a virtual processor some 25 µs, more than the packet that they are for: BBR at
/// 275 Mbit/s, a packet each 44 µs, kept the relay at work 81 % of the time without a raster, 67 % with 25 µs, 61 % with 50. All chosen here; the coarsest
/// is a fifth of what makes a Run invalid.
const STEPS: [(Nanos, Nanos); 9] = [
    (Nanos::from_micros(70), Nanos(0)),
    (Nanos::from_micros(35), Nanos(0)),
    (Nanos::from_micros(17), Nanos(0)),
    (Nanos::from_micros(8), Nanos(0)),
    (Nanos(0), Nanos(0)),
    (Nanos(0), Nanos::from_micros(25)),
    (Nanos(0), Nanos::from_micros(50)),
    (Nanos(0), Nanos::from_micros(100)),
    (Nanos(0), Nanos::from_micros(200)),
];

/// The relay's thread: before everything else, as long as that leaves the others something.
#[derive(Debug)]
pub struct Scheduling {
    /// Whether it may.
    is_realtime_allowed: bool,
    /// Whether it does.
    realtime: bool,
    next: Time,
    /// At the last look: when it was, and the thread's own time [ns].
    last: (Time, u64),
    /// Of [`STEPS`].
    step: usize,
    /// Looks in a row at which it was not busy; and how many there are to be before it tries a step less.
    quiet_checks: u32,
    probe_after: u32,
    /// Whether the last step was such a try.
    is_probe: bool,
}

impl Default for Scheduling {
    fn default() -> Self {
        Self {
            is_realtime_allowed: false,
            realtime: false,
            next: Time::ZERO,
            last: (Time::ZERO, 0),
            step: 0,
            quiet_checks: 0,
            probe_after: PROBE_AFTER,
            is_probe: false,
        }
    }
}

impl Scheduling {
    /// How long before something is due it is to be awake.
    #[must_use]
    pub const fn spin(&self) -> Nanos {
        STEPS[self.step].0
    }

    /// When to be awake for what is `due`.
    #[must_use]
    pub const fn wake_time(&self, due: Time) -> Time {
        match STEPS[self.step] {
            (spin, Nanos(0)) => Time(due.0.saturating_sub(spin.0)),
            (_, Nanos(raster)) => Time(due.0.div_ceil(raster).saturating_mul(raster)),
        }
    }

    /// Puts the calling thread before all ordinary ones, where it may: that takes root, or `CAP_SYS_NICE`.
    ///
    /// # Errors
    /// [`EmuError::System`].
    pub fn enable(&mut self, now: Time) -> Result<(), EmuError> {
        self.is_realtime_allowed = realtime();
        self.realtime = self.is_realtime_allowed;
        self.last = (now, thread_time()?);
        self.next = now + CHECK_INTERVAL;
        Ok(())
    }

    /// Whether the kernel allows it.
    #[must_use]
    pub const fn allows_realtime(&self) -> bool {
        self.is_realtime_allowed
    }

    /// Called often.
    ///
    /// # Errors
    /// [`EmuError::System`].
    pub fn update(&mut self, now: Time) -> Result<(), EmuError> {
        if now >= self.next {
            self.adapt(now, thread_time()?);
        }
        Ok(())
    }

    /// By the thread's own time so far [ns].
    fn adapt(&mut self, now: Time, time: u64) {
        let (span, spent) = (now.since(self.last.0).0.max(1), time - self.last.1);
        let share = spent.saturating_mul(100) / span;
        if share > BUSY {
            let last = STEPS.len() - 1;
            if self.step < last {
                self.step = last.min(self.step + if share > FULL { 2 } else { 1 });
            } else if self.realtime {
                self.realtime = !raise_priority();
            }
            if self.is_probe {
                self.probe_after = MAX_PROBE_AFTER.min(self.probe_after * 2);
            }
            (self.quiet_checks, self.is_probe) = (0, false);
        } else {
            if self.is_realtime_allowed && !self.realtime {
                self.realtime = realtime(); // which makes it no busier
            }
            self.quiet_checks += 1;
            if share < LIGHT {
                self.probe_after = PROBE_AFTER;
            }
            if self.quiet_checks >= self.probe_after && self.step > 0 {
                if self.is_probe {
                    self.probe_after = PROBE_AFTER; // the try before went well
                }
                self.step -= 1;
                (self.quiet_checks, self.is_probe) = (0, true);
            }
        }
        self.last = (now, time);
        self.next = now + CHECK_INTERVAL;
    }
}

/// Puts the calling thread before other ordinary ones (niceness -20); false: not allowed.
///
/// For the ends of a race's flows: a sender that gets no processor for longer than its buffer lasts (two windows) falls silent, and then sends a
/// window at once, which the path's queue does not hold.
pub fn raise_priority() -> bool {
    let policy = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Other);
    set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Max, policy).is_ok()
}

fn realtime() -> bool {
    let policy = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo);
    ThreadPriorityValue::try_from(1)
        .is_ok_and(|lowest| set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Crossplatform(lowest), policy).is_ok())
}

/// Processor time that the calling thread has had [ns].
fn thread_time() -> Result<u64, EmuError> {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_err(system("time of the thread"))?;
    Ok(u64::try_from(time.tv_sec()).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread whose load is `percent` of a look in each of a few: how it looks at the end.
    fn run_at_load(scheduling: &mut Scheduling, percent: u64, checks: u32) {
        for _ in 0..checks {
            let (now, time) = scheduling.last;
            scheduling.adapt(now + CHECK_INTERVAL, time + CHECK_INTERVAL.0 * percent / 100);
        }
    }

    fn enabled() -> Scheduling {
        let mut scheduling = Scheduling::default();
        scheduling.enable(Time::ZERO).unwrap();
        assert_eq!(scheduling.allows_realtime(), scheduling.realtime);
        scheduling
    }

    #[test]
    fn a_busy_thread_gives_way_and_comes_back() {
        let mut scheduling = enabled();
        let due = Time(1_000_001);
        run_at_load(&mut scheduling, 70, 9);
        assert_eq!(scheduling.wake_time(due), Time(due.0 - 70_000), "not busy");
        run_at_load(&mut scheduling, 85, 1);
        assert_eq!(scheduling.spin(), Nanos::from_micros(35), "first it spins for less time");
        run_at_load(&mut scheduling, 85, 3);
        assert_eq!(scheduling.wake_time(due), due, "then it does not spin");
        run_at_load(&mut scheduling, 85, 1);
        assert_eq!(scheduling.wake_time(due), Time(1_025_000), "then it wakes on a raster");
        run_at_load(&mut scheduling, 99, 2);
        assert_eq!(scheduling.wake_time(due), Time(1_200_000));
        assert!(scheduling.realtime == scheduling.allows_realtime(), "before it gives up the real-time policy");
        run_at_load(&mut scheduling, 99, 1);
        assert!(!scheduling.realtime);
        run_at_load(&mut scheduling, 70, 1);
        assert_eq!(scheduling.realtime, scheduling.allows_realtime());
        assert_eq!(scheduling.wake_time(due), Time(1_200_000));
        run_at_load(&mut scheduling, 70, 8 * PROBE_AFTER);
        assert_eq!(scheduling.spin(), Nanos::from_micros(70), "and back");
    }

    #[test]
    fn the_kernel_never_has_to_stop_it() {
        if !enabled().allows_realtime() {
            return; // it has no such policy then
        }
        for first in [81, 85, 89, 90, 91, 95, 100] {
            for then in [81, 85, 89, 90, 91, 95, 100] {
                for after in 0..10 {
                    let mut scheduling = enabled();
                    let mut loads = Vec::new();
                    for look in 0..12 {
                        let load = if look < after { first } else { then };
                        loads.push(if scheduling.realtime { load } else { 0 });
                        run_at_load(&mut scheduling, load, 1);
                    }
                    assert!(loads.windows(10).all(|second| second.iter().sum::<u64>() < 950), "{first} {then} {after}: {loads:?}");
                }
            }
        }
    }

    #[test]
    fn a_step_that_is_needed_is_tried_again_ever_more_rarely() {
        let mut scheduling = enabled();
        // What waking costs halves with each raster: 89 % without, 82 with 25 µs, 57 with 50.
        let share = |step: usize| [99, 99, 99, 99, 89, 82, 57, 45, 39][step];
        let mut needed = Vec::new();
        for _ in 0..1200 {
            let load = share(scheduling.step);
            run_at_load(&mut scheduling, load, 1);
            needed.push(scheduling.step == 6);
        }
        let count = |part: &[bool]| part.iter().filter(|there| **there).count();
        assert!(count(&needed[..200]) > 150);
        assert!(count(&needed[600..]) > 594, "{}", count(&needed[600..]));
        run_at_load(&mut scheduling, 5, 6 * PROBE_AFTER);
        assert_eq!((scheduling.step, scheduling.probe_after), (0, PROBE_AFTER));
    }

    #[test]
    fn what_is_due_at_the_end_of_time_is_no_overflow() {
        for step in 0..STEPS.len() {
            let scheduling = Scheduling { step, ..Scheduling::default() };
            assert!(scheduling.wake_time(Time(u64::MAX)) >= Time(u64::MAX - 200_000));
            assert_eq!(scheduling.wake_time(Time::ZERO), Time::ZERO);
        }
    }

    #[test]
    fn it_looks_at_its_time_in_time() {
        let mut scheduling = Scheduling::default();
        scheduling.enable(Time::ZERO).unwrap();
        scheduling.update(Time(CHECK_INTERVAL.0 - 1)).unwrap();
        assert_eq!(scheduling.last.0, Time::ZERO);
        scheduling.update(Time::ZERO + CHECK_INTERVAL).unwrap();
        assert_eq!(scheduling.last.0, Time::ZERO + CHECK_INTERVAL);
    }
}
