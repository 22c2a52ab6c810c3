//! Minimum RTT of a window (first half of `bbr_update_min_rtt`).

use bentpipe_profile::{Nanos, Time};

/// The minimum RTT and its time.
#[derive(Clone, Debug)]
pub struct MinRtt {
    window: Nanos,
    value: Option<Nanos>,
    stamp: Time,
}

impl MinRtt {
    pub const fn new(window: Nanos, now: Time) -> Self {
        Self { window, value: None, stamp: now }
    }

    /// Processes an ACK; returns true if the value had expired before it.
    pub fn on_ack(&mut self, now: Time, rtt: Option<Nanos>, ack_delayed: bool) -> bool {
        let expired = now > self.stamp + self.window;
        if let Some(rtt) = rtt
            && (self.value.is_none_or(|least| rtt < least) || (expired && !ack_delayed))
        {
            // The kernel's clock counts microseconds; an RTT of zero would break the model.
            self.value = Some(rtt.max(Nanos::from_micros(1)));
            self.stamp = now;
        }
        expired
    }

    /// Keeps the value for another window: it was just probed.
    pub const fn refresh(&mut self, now: Time) {
        self.stamp = now;
    }

    /// Sets the value as of now.
    pub const fn set(&mut self, now: Time, rtt: Nanos) {
        self.value = Some(rtt);
        self.stamp = now;
    }

    pub const fn get(&self) -> Option<Nanos> {
        self.value
    }

    /// Returns the time at which the value was measured, or refreshed.
    pub const fn stamp(&self) -> Time {
        self.stamp
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expired_minimum_is_replaced_unless_the_ack_was_delayed() {
        let ms = Nanos::from_millis;
        let mut m = MinRtt::new(Nanos::from_secs(10), Time::ZERO);
        assert!(!m.on_ack(Time(0), Some(ms(40)), false));
        assert!(!m.on_ack(Time(10_000_000_000), Some(ms(60)), false));
        assert!(m.on_ack(Time(10_000_000_001), Some(ms(60)), true));
        assert_eq!(m.get(), Some(ms(40)));
        assert!(m.on_ack(Time(10_000_000_002), Some(ms(60)), false));
        assert_eq!(m.get(), Some(ms(60)));
        assert!(!m.on_ack(Time(10_000_000_003), None, false));
    }
}
