//! Scheduling policy and timer precision of threads that must not wait for the machine's other work.
//!
//! `SCHED_FIFO` has a limit: all its threads on a processor together get 95 % of each second (`sched_rt_runtime_us`), and then *none* of them runs
//! for the rest of it. A relay that reaches the limit stalls for 50 ms. So only the relay uses that policy, and it saves processor time while it is busy:
//! first it spins less before a due time, then it wakes on ever coarser rasters and delivers packets in batches. If that does not suffice, it runs as
//! an ordinary thread until its load drops.

use crate::error::{EmuError, system};
use bentpipe_profile::{Nanos, Time};
use nix::time::{ClockId, clock_gettime};
use thread_priority::{
    NormalThreadSchedulePolicy, RealtimeThreadSchedulePolicy, ThreadPriority, ThreadPriorityValue, ThreadSchedulePolicy,
    set_thread_priority_and_policy, thread_native_id,
};

/// Time between two load measurements.
const CHECK_INTERVAL: Nanos = Nanos::from_millis(100);

/// Loads above which the thread moves one step, or two, towards lower precision [%]. Chosen here: from any step and at any load it reaches the last
/// step, the ordinary policy, before it has used the kernel's 95 % of a second.
const BUSY: u64 = 80;
const FULL: u64 = 90;

/// Consecutive measurements at or below [`BUSY`] before the thread probes one step of higher precision. A failed probe doubles the wait, up to
/// [`MAX_PROBE_AFTER`]: otherwise the step would change ten times a second.
const PROBE_AFTER: u32 = 5;
const MAX_PROBE_AFTER: u32 = 320;

/// Load below which the wait between probes is reset [%].
const LIGHT: u64 = 30;

/// Wait strategies, from the most precise to the cheapest: spin time before a due time, and raster of wake-up times.
///
/// An idle processor, above all a virtual one, takes about 50 µs to wake. Without spinning the median error at 200 Mbit/s was about 60 µs; with it,
/// 3 to 20 µs, by machine (`bentpipe validate emulator`). With 200 µs the relay never sleeps at 40 Mbit/s, and three emulations on two processors delay
/// each other. Setting a timer and waking cost a virtual processor about 25 µs, more than the packet itself: BBR at 275 Mbit/s, a packet each 44 µs,
/// loaded the relay 81 % without a raster, 67 % with 25 µs, 61 % with 50 µs. All chosen here; the coarsest is a fifth of the lateness that makes a Run
/// invalid.
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

/// Policy and precision of the relay's thread. It runs at real-time priority while that leaves time for other threads.
#[derive(Debug)]
pub struct Scheduling {
    /// Whether the kernel allows `SCHED_FIFO`.
    is_realtime_allowed: bool,
    /// Whether the thread has `SCHED_FIFO` now.
    realtime: bool,
    next: Time,
    /// Time of the last measurement, and the thread's processor time then [ns].
    last: (Time, u64),
    /// Index into [`STEPS`].
    step: usize,
    /// Consecutive measurements below [`BUSY`], and how many precede the next probe.
    quiet_checks: u32,
    probe_after: u32,
    /// Whether the last change was a probe.
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
    /// How long the thread spins before a due time.
    #[must_use]
    pub const fn spin(&self) -> Nanos {
        STEPS[self.step].0
    }

    /// The time to wake for a packet that is `due`.
    #[must_use]
    pub const fn wake_time(&self, due: Time) -> Time {
        match STEPS[self.step] {
            (spin, Nanos(0)) => Time(due.0.saturating_sub(spin.0)),
            (_, Nanos(raster)) => Time(due.0.div_ceil(raster).saturating_mul(raster)),
        }
    }

    /// Gives the calling thread `SCHED_FIFO` where the kernel allows it: with root or `CAP_SYS_NICE`.
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

    /// Whether the kernel allows `SCHED_FIFO`.
    #[must_use]
    pub const fn allows_realtime(&self) -> bool {
        self.is_realtime_allowed
    }

    /// Measures the load when it is due, and adapts. Call it often.
    ///
    /// # Errors
    /// [`EmuError::System`].
    pub fn update(&mut self, now: Time) -> Result<(), EmuError> {
        if now >= self.next {
            self.adapt(now, thread_time()?);
        }
        Ok(())
    }

    /// Adapts to the load; `time` is the thread's processor time so far [ns].
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
                self.realtime = realtime(); // the policy does not change the load
            }
            self.quiet_checks += 1;
            if share < LIGHT {
                self.probe_after = PROBE_AFTER;
            }
            if self.quiet_checks >= self.probe_after && self.step > 0 {
                if self.is_probe {
                    self.probe_after = PROBE_AFTER; // the previous probe succeeded
                }
                self.step -= 1;
                (self.quiet_checks, self.is_probe) = (0, true);
            }
        }
        self.last = (now, time);
        self.next = now + CHECK_INTERVAL;
    }
}

/// Gives the calling thread niceness -20; false: not allowed.
///
/// For the threads of a race's flows: a sender without a processor for longer than its buffer lasts (two windows) pauses, and then sends a window at
/// once, which overflows the path's queue.
pub fn raise_priority() -> bool {
    let policy = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Other);
    set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Max, policy).is_ok()
}

fn realtime() -> bool {
    let policy = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo);
    ThreadPriorityValue::try_from(1)
        .is_ok_and(|lowest| set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Crossplatform(lowest), policy).is_ok())
}

/// Processor time of the process [ns].
pub fn processor_time() -> Result<u64, EmuError> {
    time_of(ClockId::CLOCK_PROCESS_CPUTIME_ID)
}

/// Processor time of the calling thread [ns].
fn thread_time() -> Result<u64, EmuError> {
    time_of(ClockId::CLOCK_THREAD_CPUTIME_ID)
}

fn time_of(clock: ClockId) -> Result<u64, EmuError> {
    let time = clock_gettime(clock).map_err(system("time of the thread"))?;
    Ok(u64::try_from(time.tv_sec()).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulates `checks` measurement intervals at a load of `percent`.
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
    fn a_busy_thread_lowers_its_precision_and_recovers() {
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
    fn the_thread_stays_below_the_kernels_realtime_limit() {
        if !enabled().allows_realtime() {
            return; // the limit does not apply
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
    fn failed_probes_become_rarer() {
        let mut scheduling = enabled();
        // The cost of waking falls with each raster: 89 % load without, 82 % with 25 µs, 57 % with 50 µs.
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
    fn the_largest_due_time_does_not_overflow() {
        for step in 0..STEPS.len() {
            let scheduling = Scheduling { step, ..Scheduling::default() };
            assert!(scheduling.wake_time(Time(u64::MAX)) >= Time(u64::MAX - 200_000));
            assert_eq!(scheduling.wake_time(Time::ZERO), Time::ZERO);
        }
    }

    #[test]
    fn the_load_is_measured_at_its_interval() {
        let mut scheduling = Scheduling::default();
        scheduling.enable(Time::ZERO).unwrap();
        scheduling.update(Time(CHECK_INTERVAL.0 - 1)).unwrap();
        assert_eq!(scheduling.last.0, Time::ZERO);
        scheduling.update(Time::ZERO + CHECK_INTERVAL).unwrap();
        assert_eq!(scheduling.last.0, Time::ZERO + CHECK_INTERVAL);
    }
}
