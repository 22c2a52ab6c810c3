//! Minimum RTT over a long window, the reference of RACK and of the rate sampler.
//!
//! Source: Linux `tcp_update_rtt_min` (`net/ipv4/tcp_input.c`), 300 s by default. After a handover to a longer path it is stale for up to that
//! time.

use bentpipe_cc::filter::Windowed;
use bentpipe_profile::{Nanos, Time};
use std::cmp::Reverse;

/// Windowed minimum filter; empty until the first sample.
#[derive(Clone, Debug)]
pub struct MinRtt {
    window: Nanos,
    filter: Option<Windowed<Reverse<Nanos>>>,
}

impl MinRtt {
    /// Create a filter over `window`.
    pub const fn new(window: Nanos) -> Self {
        Self { window, filter: None }
    }

    /// Add a sample. A sample that a delayed ACK may have inflated counts only if it lowers the minimum: when the filter expires, the ACK
    /// delay must not become the path's minimum.
    pub fn update(&mut self, now: Time, rtt: Nanos, ack_delayed: bool) {
        if ack_delayed && rtt > self.get() {
            return;
        }
        match &mut self.filter {
            Some(filter) => {
                filter.update(now.0, Reverse(rtt));
            }
            None => self.filter = Some(Windowed::new(self.window.0, now.0, Reverse(rtt))),
        }
    }

    /// The minimum; `Nanos::MAX` before the first sample.
    pub fn get(&self) -> Nanos {
        self.filter.as_ref().map_or(Nanos::MAX, |f| f.get().0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(n: u64) -> Nanos {
        Nanos::from_millis(n)
    }

    #[test]
    fn min_rtt_is_stale_for_300_s_after_a_handover() {
        let mut min = MinRtt::new(Nanos::from_secs(300));
        assert_eq!(min.get(), Nanos::MAX);
        min.update(Time::ZERO, ms(30), false);
        for s in 1..=300 {
            min.update(Time::ZERO + Nanos::from_secs(s), ms(50), false);
            assert_eq!(min.get(), ms(30), "after {s} s");
        }
        min.update(Time::ZERO + Nanos::from_secs(301), ms(50), false);
        assert_eq!(min.get(), ms(50));
    }

    #[test]
    fn delayed_acks_never_raise_the_minimum() {
        let mut min = MinRtt::new(Nanos::from_secs(1));
        min.update(Time::ZERO, ms(30), false);
        min.update(Time::ZERO + Nanos::from_secs(5), ms(70), true);
        assert_eq!(min.get(), ms(30));
        min.update(Time::ZERO + Nanos::from_secs(6), ms(20), true);
        assert_eq!(min.get(), ms(20));
    }
}
