//! Two nested minima of the RTT. That of `probe_rtt_win_ms` says when to probe for a lower RTT; that of `min_rtt_win_s` is the model's minimum RTT
//! (draft §5.3.4.3; Linux `bbr_update_min_rtt`). So `PROBE_RTT` still knows the base RTT while it drains the queue.

use super::params::{Params, Rules};
use crate::bbr_parts::min_rtt::MinRtt;
use bentpipe_profile::{Nanos, Time};

/// Both minima.
#[derive(Clone, Debug)]
pub struct NestedMinRtt {
    rules: Rules,
    probe: MinRtt,
    window: Nanos,
    value: Option<Nanos>,
    stamp: Time,
}

impl NestedMinRtt {
    pub const fn new(p: &Params, now: Time) -> Self {
        Self { rules: p.rules, probe: MinRtt::new(p.probe_rtt_window, now), window: p.min_rtt_window, value: None, stamp: now }
    }

    /// Processes an ACK; returns true if it is time to probe for a lower RTT.
    pub fn on_ack(&mut self, now: Time, rtt: Option<Nanos>, ack_delayed: bool) -> bool {
        let micros = |rtt: Nanos| rtt.0 / 1000;
        // The draft does not mention delayed ACKs; version 2 counts an RTT equal to the minimum, to the microsecond, as a new minimum.
        let expired = self.probe.on_ack(now, rtt, ack_delayed && self.rules != Rules::Draft);
        if self.rules == Rules::Linux2 && rtt.is_some() && rtt.map(micros) == self.probe.get().map(micros) {
            self.probe.refresh(now);
        }
        let min_rtt_expired = now > self.stamp + self.window;
        if let Some(probe) = self.probe.get()
            && (self.value.is_none_or(|value| probe < value || (self.rules != Rules::Draft && probe == value)) || min_rtt_expired)
        {
            self.value = Some(probe);
            self.stamp = self.probe.stamp();
        }
        expired
    }

    /// Postpones the next probe by a whole window.
    pub const fn refresh(&mut self, now: Time) {
        self.probe.refresh(now);
    }

    pub const fn get(&self) -> Option<Nanos> {
        self.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::options_of;

    const fn ms(n: u64) -> Nanos {
        Nanos::from_millis(n)
    }

    fn nested() -> NestedMinRtt {
        NestedMinRtt::new(&Params::version_3(&options_of(&crate::bbr3::ENTRY, &[])), Time::ZERO)
    }

    #[test]
    fn the_next_probe_is_due_after_5_s_but_the_minimum_expires_after_10_s() {
        let at = |ms: u64| Time(ms * 1_000_000);
        let mut m = nested();
        assert!(!m.on_ack(at(0), Some(ms(40)), false));
        assert!(!m.on_ack(at(5000), Some(ms(60)), false));
        assert!(m.on_ack(at(5001), Some(ms(60)), false));
        assert_eq!(m.get(), Some(ms(40)));
        m.on_ack(at(10_000), Some(ms(60)), false);
        assert_eq!(m.get(), Some(ms(40)));
        m.on_ack(at(10_001), Some(ms(60)), false);
        assert_eq!(m.get(), Some(ms(60)));
    }
}
