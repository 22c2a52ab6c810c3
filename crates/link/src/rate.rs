//! Transmission times on a capacity that changes in steps.

use bentpipe_profile::series::Cursor;
use bentpipe_profile::units::NANOS_PER_SEC;
use bentpipe_profile::{Rate, Series, Time};

/// Computes when transmissions end, exactly. A transmission that spans a step sends the right number of bits on either side. The fraction of a
/// nanosecond that integer division loses is carried to the next back-to-back packet, so that small packets at high rate do not drift.
#[derive(Clone, Debug)]
pub struct RateClock {
    capacity: Option<Series>,
    cursor: Cursor,
    /// End of the last transmission.
    last_end: Time,
    /// Remainder of its division [bit·ns].
    remainder: u64,
}

impl RateClock {
    /// Create a clock for a stepped capacity [bit/s]. `None`: transmissions take no time.
    #[must_use]
    pub fn new(capacity: Option<Series>) -> Self {
        Self { capacity, cursor: Cursor::default(), last_end: Time::ZERO, remainder: 0 }
    }

    /// Return the capacity at `at`; `None`: unlimited.
    pub fn rate(&mut self, at: Time) -> Option<Rate> {
        self.capacity.as_ref().map(|c| Rate(c.at(&mut self.cursor, at)))
    }

    /// As [`RateClock::finish`], if the transmission ends before `before`. Otherwise `None`, and nothing changes.
    #[inline]
    pub fn finish_before(&mut self, start: Time, bytes: u16, before: Time) -> Option<Time> {
        let (last_end, remainder) = (self.last_end, self.remainder);
        let end = self.finish(start, bytes);
        if end >= before {
            (self.last_end, self.remainder) = (last_end, remainder);
            return None;
        }
        Some(end)
    }

    /// Return when a transmission of `bytes` that begins at `start` ends; `Time::MAX` if the capacity stays zero.
    pub fn finish(&mut self, start: Time, bytes: u16) -> Time {
        let Some(capacity) = &self.capacity else {
            return start;
        };
        let mut need = u64::from(bytes) * 8 * NANOS_PER_SEC;
        if start == self.last_end {
            need = need.saturating_sub(self.remainder);
        }
        let mut at = start;
        loop {
            let rate = capacity.at(&mut self.cursor, at);
            let change = capacity.next_change(&mut self.cursor, at);
            let sent = change.map_or(u64::MAX, |c| rate.saturating_mul(c.since(at).0));
            if rate > 0 && need <= sent {
                // Rounded up, so that no packet leaves early. The surplus is credited to the next packet.
                let duration = need.div_ceil(rate);
                self.remainder = duration * rate - need;
                self.last_end = Time(at.0 + duration);
                return self.last_end;
            }
            let Some(change) = change else {
                return Time::MAX;
            };
            need -= sent;
            at = change;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bentpipe_profile::Nanos;

    #[test]
    fn small_packets_do_not_drift() {
        // 100 bytes at 3 Mbit/s take 266666.67 ns; three million of them take 800 s to the nanosecond.
        let mut clock = RateClock::new(Some(Series::constant(3_000_000)));
        let mut at = Time::ZERO;
        for _ in 0..3_000_000 {
            at = clock.finish(at, 100);
        }
        assert_eq!(at, Time::ZERO + Nanos::from_secs(800));
    }

    #[test]
    fn a_transmission_that_spans_a_step_sends_every_bit_once() {
        let steps = [(Time::ZERO, 8_000), (Time(500_000_000), 0), (Time(2_000_000_000), 16_000)];
        let mut clock = RateClock::new(Some(Series::steps("c", &steps).unwrap()));
        // 1000 bytes: 500 in the first half second, none for 1.5 s, 500 in the next quarter.
        assert_eq!(clock.finish(Time::ZERO, 1000), Time(2_250_000_000));
    }

    #[test]
    fn a_capacity_that_stays_zero_never_ends() {
        assert_eq!(RateClock::new(Some(Series::constant(0))).finish(Time::ZERO, 1), Time::MAX);
        assert_eq!(RateClock::new(None).finish(Time(5), 1), Time(5));
    }
}
