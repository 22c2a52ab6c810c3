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

/// Share of that above which it does with less, step by step; and below which it goes the way back [%]. Chosen here: far enough below the kernel's 95
/// for ten looks to add up to less.
const BUSY: u64 = 80;
const CALM: u64 = 60;

/// Share above which there is no time for steps with the clock [%]: a second of it, and the kernel stops the thread.
const FULL: u64 = 95;

/// How long before something is due a thread that waits for it stops sleeping and looks at the clock instead, at most: a processor that sleeps, above all
/// a virtual one, takes some 50 µs to wake. Chosen here: asleep until the moment itself the median error beside 200 Mbit/s was some 60 µs, and so it
/// is 4 to 20, by machine (`bentpipe validate emulator`, whose kept result has 4); with 200 µs it never sleeps at 40 Mbit/s already, and three emulations on two processors keep each other waiting.
const EARLIEST: Nanos = Nanos::from_micros(70);

/// Below this it is as good as nothing.
const LEAST: Nanos = Nanos::from_micros(5);

/// The finest and the coarsest raster of moments to sleep until. To set a timer and to wake cost a virtual processor some 25 µs, more than the packet
/// that they are for. Chosen here: BBR at 275 Mbit/s, a packet each 44 µs, kept the relay at work 81 % of the time without one, 61 % with 50 µs; the
/// coarsest is a fifth of what makes a Run invalid.
const FINEST: Nanos = Nanos::from_micros(25);
const COARSEST: Nanos = Nanos::from_micros(200);

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
    early: Nanos,
    raster: Nanos,
}

impl Default for Urgency {
    fn default() -> Self {
        Self { allowed: false, realtime: false, next: Time::ZERO, last: (Time::ZERO, 0), early: EARLIEST, raster: Nanos(0) }
    }
}

impl Urgency {
    /// How long before something is due it is to be awake.
    #[must_use]
    pub const fn early(&self) -> Nanos {
        self.early
    }

    /// When to be awake for what is `due`.
    #[must_use]
    pub const fn alarm(&self, due: Time) -> Time {
        match self.raster.0 {
            0 => Time(due.0.saturating_sub(self.early.0)),
            raster => Time(due.0.div_ceil(raster).saturating_mul(raster)),
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
            if self.early > Nanos(0) {
                self.early = if self.early < LEAST || share > FULL { Nanos(0) } else { Nanos(self.early.0 / 2) };
            } else if self.raster < COARSEST {
                self.raster = FINEST.max(Nanos(self.raster.0 * 2));
            } else if self.realtime {
                self.realtime = !favour();
            }
        } else if share < CALM {
            if self.allowed && !self.realtime {
                self.realtime = realtime();
            } else if self.raster > Nanos(0) {
                self.raster = if self.raster > FINEST { Nanos(self.raster.0 / 2) } else { Nanos(0) };
            } else {
                self.early = EARLIEST.min(Nanos(self.early.0 + self.early.0 / 8 + 1000));
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

    #[test]
    fn a_busy_thread_gives_way_and_comes_back() {
        let mut urgency = Urgency::default();
        urgency.claim(Time::ZERO).unwrap();
        assert_eq!(urgency.is_allowed(), urgency.realtime);
        let (mut now, mut time) = urgency.last;
        let mut works = |urgency: &mut Urgency, percent: u64| {
            now = now + LOOK;
            time += LOOK.0 * percent / 100;
            urgency.weigh(now, time);
            urgency.early()
        };
        assert_eq!(works(&mut urgency, 70), EARLIEST, "neither busy nor calm");
        assert!((LEAST.0..EARLIEST.0).contains(&works(&mut urgency, 90).0), "it looks at the clock less, first");
        assert_eq!(works(&mut urgency, 99), Nanos(0), "then not at all");
        let due = Time(1_000_001);
        assert_eq!(urgency.alarm(due), due);
        works(&mut urgency, 99);
        assert_eq!(urgency.alarm(due), Time(1_025_000), "then it sleeps for longer");
        let looks = (0..10).take_while(|_| urgency.raster < COARSEST && works(&mut urgency, 99) == Nanos(0)).count();
        assert_eq!(urgency.alarm(due), Time(1_200_000));
        assert!(urgency.realtime == urgency.is_allowed(), "all that before the policy");
        works(&mut urgency, 99);
        assert!(looks < 6 && !urgency.realtime, "before a second is over, of which the kernel would take a twentieth");
        assert_eq!(works(&mut urgency, 70), Nanos(0));
        assert_eq!(urgency.alarm(due), Time(1_200_000));
        works(&mut urgency, 5);
        assert_eq!(urgency.realtime, urgency.is_allowed());
        assert_eq!((0..60).map(|_| works(&mut urgency, 5)).last(), Some(EARLIEST));
        assert_eq!(urgency.alarm(due), Time(due.0 - EARLIEST.0));
    }

    #[test]
    fn what_is_due_at_the_end_of_time_is_no_overflow() {
        for raster in [Nanos(0), FINEST] {
            let urgency = Urgency { raster, ..Urgency::default() };
            assert!(urgency.alarm(Time(u64::MAX)) >= Time(u64::MAX - EARLIEST.0));
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
