//! Information about the path to come that no real sender has: for the ceiling of the controllers ([`oracle`](crate::oracle), [`informed`](crate::informed)).
//!
//! It is no path hint: nothing outside of a simulator can give it, traces of hooks do not contain it, and the kernel's controllers do not know it. A controller
//! whose needs are [`Needs::Future`](crate::hints::Needs::Future) receives it.

use bentpipe_profile::{Nanos, Rate, Time};

/// Something that a simulator knows and a sender does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Knowledge<'a> {
    /// Capacity that a packet sent from each time on meets, in order of time, for the whole path to come; zero: nothing passes.
    Capacity(&'a [(Time, Rate)]),
    /// RTT of a ping of the terminal sent at each of these times, which waits in no queue of the flow, for the whole path to come. A time without a path has none.
    PingRtts(&'a [(Time, Nanos)]),
    /// The packet that begins with this byte was dropped, and not by a queue: the loss is no sign of congestion.
    RandomLoss(u64),
}

/// Capacity to come, by send time.
#[derive(Clone, Debug, Default)]
pub struct Capacity {
    steps: Vec<(Time, Rate)>,
}

impl Capacity {
    /// Creates it from its steps, whose times do not decrease.
    #[must_use]
    pub const fn new(steps: Vec<(Time, Rate)>) -> Self {
        Self { steps }
    }

    /// Returns whether nothing is known.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Returns the steps.
    #[must_use]
    pub fn steps(&self) -> &[(Time, Rate)] {
        &self.steps
    }

    /// Returns the index of the step in force at a time: the first one before all.
    fn index(&self, at: Time) -> usize {
        self.steps.partition_point(|step| step.0 <= at).saturating_sub(1)
    }

    /// Returns the capacity at a time; zero if nothing is known.
    #[must_use]
    pub fn at(&self, at: Time) -> Rate {
        self.steps.get(self.index(at)).map_or(Rate(0), |step| step.1)
    }

    /// Returns the mean capacity from one time to another; the capacity at `from` if that is no span.
    #[must_use]
    pub fn mean(&self, from: Time, to: Time) -> Rate {
        let span = u128::from(to.since(from).0);
        let (mut bits, mut at) = (0_u128, from); // [bit/s · ns]
        for index in self.index(from)..self.steps.len() {
            let until = self.steps.get(index + 1).map_or(Time::MAX, |step| step.0).min(to);
            bits += u128::from(self.steps[index].1.0) * u128::from(until.since(at).0);
            at = at.max(until);
        }
        bits.checked_div(span).map_or_else(|| self.at(from), |mean| Rate(u64::try_from(mean).unwrap_or(u64::MAX)))
    }

    /// Returns when a transmission of `bytes` that begins at `start` ends; `Time::MAX`: never, as far as is known.
    #[must_use]
    pub fn finish(&self, start: Time, bytes: u64) -> Time {
        let mut need = u128::from(bytes) * 8 * 1_000_000_000; // [bit·ns/s]
        let mut at = start;
        for index in self.index(start)..self.steps.len() {
            let rate = u128::from(self.steps[index].1.0);
            let until = self.steps.get(index + 1).map_or(Time::MAX, |step| step.0);
            let sent = rate * u128::from(until.since(at).0);
            if rate > 0 && need <= sent {
                return Time(at.0.saturating_add(u64::try_from(need.div_ceil(rate)).unwrap_or(u64::MAX)));
            }
            need = need.saturating_sub(sent);
            at = at.max(until);
        }
        Time::MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(n: u64) -> Time {
        Time(n * 1_000_000)
    }

    #[test]
    fn a_transmission_spans_the_steps_that_it_meets() {
        let path = Capacity::new(vec![(ms(0), Rate(8_000_000)), (ms(10), Rate(0)), (ms(30), Rate(4_000_000))]);
        assert_eq!(path.at(ms(9)), Rate(8_000_000));
        assert_eq!(path.mean(ms(5), ms(40)), Rate((5 * 8_000_000 + 10 * 4_000_000) / 35));
        assert_eq!(path.mean(ms(9), ms(9)), Rate(8_000_000));
        // 1000 bytes are 8,000 bits: 1 ms at 8 Mbit/s.
        assert_eq!(path.finish(ms(4), 1000), ms(5));
        // Half before the hole, half after it at half the rate.
        assert_eq!(path.finish(Time(9_500_000), 1000), ms(31));
        assert_eq!(path.finish(ms(15), 1000), ms(32));
        let ends = Capacity::new(vec![(ms(0), Rate(8_000_000)), (ms(10), Rate(0))]);
        assert_eq!(ends.finish(ms(10), 1), Time::MAX);
        assert_eq!((Capacity::default().finish(ms(1), 1), Capacity::default().at(ms(1))), (Time::MAX, Rate(0)));
    }
}
