//! The path's RTT without a queue: the least of a window (first half of `bbr_update_min_rtt`).

use bentpipe_profile::{Nanos, Time};

/// The least RTT and when it was seen.
#[derive(Clone, Debug)]
pub struct MinRtt {
    window: Nanos,
    value: Option<Nanos>,
    seen: Time,
}

impl MinRtt {
    pub const fn new(window: Nanos, now: Time) -> Self {
        Self { window, value: None, seen: now }
    }

    /// Takes an ACK; true if the value was too old before it.
    pub fn on_ack(&mut self, now: Time, rtt: Option<Nanos>, ack_delayed: bool) -> bool {
        let expired = now > self.seen + self.window;
        if let Some(rtt) = rtt
            && (self.value.is_none_or(|least| rtt < least) || (expired && !ack_delayed))
        {
            // The kernel's clock counts microseconds; a zero would be no model of anything.
            self.value = Some(rtt.max(Nanos::from_micros(1)));
            self.seen = now;
        }
        expired
    }

    /// It was just probed: believe it for another window.
    pub const fn refresh(&mut self, now: Time) {
        self.seen = now;
    }

    /// It is this, as of now.
    pub const fn set(&mut self, now: Time, rtt: Nanos) {
        self.value = Some(rtt);
        self.seen = now;
    }

    pub const fn get(&self) -> Option<Nanos> {
        self.value
    }

    /// When it was seen, or refreshed.
    pub const fn seen(&self) -> Time {
        self.seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_minimum_gives_way_unless_the_ack_was_delayed() {
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
