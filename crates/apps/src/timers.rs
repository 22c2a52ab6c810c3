//! The timers of an application.

use bentpipe_profile::Time;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Most timers of an application that may be due at one instant. One that sets its timers to now would stop the simulator's clock.
pub const MAX_AT_ONCE: u32 = 10_000;

/// Timers, by the time at which they are due; at the same time, in the order in which they were set.
#[derive(Debug, Default)]
pub struct Timers {
    /// (time, order, number).
    heap: BinaryHeap<Reverse<(Time, u64, u64)>>,
    count: u64,
}

impl Timers {
    /// Set a timer.
    pub fn set(&mut self, at: Time, timer: u64) {
        self.count += 1;
        self.heap.push(Reverse((at, self.count, timer)));
    }

    /// Take a timer that is due.
    pub fn take_due(&mut self, now: Time) -> Option<u64> {
        let Reverse((_, _, timer)) = self.heap.peek().copied().filter(|Reverse((at, ..))| *at <= now)?;
        self.heap.pop();
        Some(timer)
    }

    /// Return the time of the next timer.
    #[must_use]
    pub fn next(&self) -> Option<Time> {
        self.heap.peek().map(|Reverse((at, ..))| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_of_one_time_are_due_in_the_order_in_which_they_were_set() {
        let mut timers = Timers::default();
        for (at, timer) in [(7, 1), (5, 2), (5, 3)] {
            timers.set(Time(at), timer);
        }
        assert_eq!((timers.next(), timers.take_due(Time(4))), (Some(Time(5)), None));
        assert_eq!([timers.take_due(Time(5)), timers.take_due(Time(5)), timers.take_due(Time(5))], [Some(2), Some(3), None]);
        assert_eq!((timers.take_due(Time(9)), timers.next()), (Some(1), None));
    }
}
