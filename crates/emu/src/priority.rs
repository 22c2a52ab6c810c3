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
const LOOK: Nanos = Nanos::from_millis(100);

/// Share of that above which it does with less [%]: a step, or two where it is nearly all. Chosen here: the way to the end of them, the policy, takes
/// less of a second than the kernel's 95, from wherever it begins and however busy it is.
const BUSY: u64 = 80;
const FULL: u64 = 90;

/// Looks in a row at which it was no busier than that before it tries to do with a step less. Where that was a step too far, the next try waits twice as
/// long: a load that needs the step would otherwise have another one ten times a second.
const PATIENCE: u32 = 5;
const LONGEST_PATIENCE: u32 = 320;

/// Share below which it is another load, to which none of that applies [%].
const CALM: u64 = 30;

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
pub struct Urgency {
    /// Whether it may.
    allowed: bool,
    /// Whether it does.
    realtime: bool,
    next: Time,
    /// At the last look: when it was, and the thread's own time [ns].
    last: (Time, u64),
    /// Of [`STEPS`].
    step: usize,
    /// Looks in a row at which it was not busy; and how many there are to be before it tries a step less.
    calm: u32,
    patience: u32,
    /// Whether the last step was such a try.
    tried: bool,
}

impl Default for Urgency {
    fn default() -> Self {
        Self {
            allowed: false,
            realtime: false,
            next: Time::ZERO,
            last: (Time::ZERO, 0),
            step: 0,
            calm: 0,
            patience: PATIENCE,
            tried: false,
        }
    }
}

impl Urgency {
    /// How long before something is due it is to be awake.
    #[must_use]
    pub const fn early(&self) -> Nanos {
        STEPS[self.step].0
    }

    /// When to be awake for what is `due`.
    #[must_use]
    pub const fn alarm(&self, due: Time) -> Time {
        match STEPS[self.step] {
            (early, Nanos(0)) => Time(due.0.saturating_sub(early.0)),
            (_, Nanos(raster)) => Time(due.0.div_ceil(raster).saturating_mul(raster)),
        }
    }

    /// Puts the calling thread before all ordinary ones, where it may: that takes root, or `CAP_SYS_NICE`.
    ///
    /// # Errors
    /// [`EmuError::System`].
    pub fn claim(&mut self, now: Time) -> Result<(), EmuError> {
        self.allowed = realtime();
        self.realtime = self.allowed;
        self.last = (now, thread_time()?);
        self.next = now + LOOK;
        Ok(())
    }

    /// Whether the kernel allows it.
    #[must_use]
    pub const fn is_allowed(&self) -> bool {
        self.allowed
    }

    /// Called often.
    ///
    /// # Errors
    /// [`EmuError::System`].
    pub fn look(&mut self, now: Time) -> Result<(), EmuError> {
        if now >= self.next {
            self.weigh(now, thread_time()?);
        }
        Ok(())
    }

    /// By the thread's own time so far [ns].
    fn weigh(&mut self, now: Time, time: u64) {
        let (span, spent) = (now.since(self.last.0).0.max(1), time - self.last.1);
        let share = spent.saturating_mul(100) / span;
        if share > BUSY {
            let last = STEPS.len() - 1;
            if self.step < last {
                self.step = last.min(self.step + if share > FULL { 2 } else { 1 });
            } else if self.realtime {
                self.realtime = !favour();
            }
            if self.tried {
                self.patience = LONGEST_PATIENCE.min(self.patience * 2);
            }
            (self.calm, self.tried) = (0, false);
        } else {
            if self.allowed && !self.realtime {
                self.realtime = realtime(); // which makes it no busier
            }
            self.calm += 1;
            if share < CALM {
                self.patience = PATIENCE;
            }
            if self.calm >= self.patience && self.step > 0 {
                if self.tried {
                    self.patience = PATIENCE; // the try before went well
                }
                self.step -= 1;
                (self.calm, self.tried) = (0, true);
            }
        }
        self.last = (now, time);
        self.next = now + LOOK;
    }
}

/// Puts the calling thread before other ordinary ones (niceness -20); false: not allowed.
///
/// For the ends of a race's flows: a sender that gets no processor for longer than its buffer lasts (two windows) falls silent, and then sends a
/// window at once, which the path's queue does not hold.
pub fn favour() -> bool {
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
    fn works(urgency: &mut Urgency, percent: u64, looks: u32) {
        for _ in 0..looks {
            let (now, time) = urgency.last;
            urgency.weigh(now + LOOK, time + LOOK.0 * percent / 100);
        }
    }

    fn claimed() -> Urgency {
        let mut urgency = Urgency::default();
        urgency.claim(Time::ZERO).unwrap();
        assert_eq!(urgency.is_allowed(), urgency.realtime);
        urgency
    }

    #[test]
    fn a_busy_thread_gives_way_and_comes_back() {
        let mut urgency = claimed();
        let due = Time(1_000_001);
        works(&mut urgency, 70, 9);
        assert_eq!(urgency.alarm(due), Time(due.0 - 70_000), "not busy");
        works(&mut urgency, 85, 1);
        assert_eq!(urgency.early(), Nanos::from_micros(35), "it looks at the clock less, first");
        works(&mut urgency, 85, 3);
        assert_eq!(urgency.alarm(due), due, "then not at all");
        works(&mut urgency, 85, 1);
        assert_eq!(urgency.alarm(due), Time(1_025_000), "then it sleeps for longer");
        works(&mut urgency, 99, 2);
        assert_eq!(urgency.alarm(due), Time(1_200_000));
        assert!(urgency.realtime == urgency.is_allowed(), "all that before the policy");
        works(&mut urgency, 99, 1);
        assert!(!urgency.realtime);
        works(&mut urgency, 70, 1);
        assert_eq!(urgency.realtime, urgency.is_allowed());
        assert_eq!(urgency.alarm(due), Time(1_200_000));
        works(&mut urgency, 70, 8 * PATIENCE);
        assert_eq!(urgency.early(), Nanos::from_micros(70), "and the way back");
    }

    #[test]
    fn the_kernel_never_has_to_stop_it() {
        if !claimed().is_allowed() {
            return; // it has no such policy then
        }
        for first in [81, 85, 89, 90, 91, 95, 100] {
            for then in [81, 85, 89, 90, 91, 95, 100] {
                for after in 0..10 {
                    let mut urgency = claimed();
                    let mut loads = Vec::new();
                    for look in 0..12 {
                        let load = if look < after { first } else { then };
                        loads.push(if urgency.realtime { load } else { 0 });
                        works(&mut urgency, load, 1);
                    }
                    assert!(loads.windows(10).all(|second| second.iter().sum::<u64>() < 950), "{first} {then} {after}: {loads:?}");
                }
            }
        }
    }

    #[test]
    fn a_step_that_is_needed_is_tried_again_ever_more_rarely() {
        let mut urgency = claimed();
        // What waking costs halves with each raster: 89 % without, 82 with 25 µs, 57 with 50.
        let share = |step: usize| [99, 99, 99, 99, 89, 82, 57, 45, 39][step];
        let mut needed = Vec::new();
        for _ in 0..1200 {
            let load = share(urgency.step);
            works(&mut urgency, load, 1);
            needed.push(urgency.step == 6);
        }
        let count = |part: &[bool]| part.iter().filter(|there| **there).count();
        assert!(count(&needed[..200]) > 150);
        assert!(count(&needed[600..]) > 594, "{}", count(&needed[600..]));
        works(&mut urgency, 5, 6 * PATIENCE);
        assert_eq!((urgency.step, urgency.patience), (0, PATIENCE));
    }

    #[test]
    fn what_is_due_at_the_end_of_time_is_no_overflow() {
        for step in 0..STEPS.len() {
            let urgency = Urgency { step, ..Urgency::default() };
            assert!(urgency.alarm(Time(u64::MAX)) >= Time(u64::MAX - 200_000));
            assert_eq!(urgency.alarm(Time::ZERO), Time::ZERO);
        }
    }

    #[test]
    fn it_looks_at_its_time_in_time() {
        let mut urgency = Urgency::default();
        urgency.claim(Time::ZERO).unwrap();
        urgency.look(Time(LOOK.0 - 1)).unwrap();
        assert_eq!(urgency.last.0, Time::ZERO);
        urgency.look(Time::ZERO + LOOK).unwrap();
        assert_eq!(urgency.last.0, Time::ZERO + LOOK);
    }
}
