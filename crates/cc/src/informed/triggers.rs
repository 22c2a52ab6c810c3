//! A trigger of the awareness service as a controller may use it: each firing announces a reconfiguration that has just happened.
//!
//! The condition is that of T3P's figure 7 (Tanveer et al., 2023, section 6.2), `latency_ms > 2 * mean(latency_ms, '5s')`, over pings of the terminal beside the
//! flow's queue. A firing is known to the sender half an RTT after the reply. Unlike the schedule it says nothing ahead of time.

use bentpipe_profile::tunables::{number, switch};
use bentpipe_profile::{Nanos, Time};
use std::collections::VecDeque;

options! {
    /// Options of the trigger.
    pub struct Options {
        is_known: bool = switch("known_triggers", "firings of a trigger are announcements", false, "chosen here: nothing is known"),
        ratio: f64 = number("trigger_ratio", "a trigger fires when an RTT exceeds so many times the mean of the 5 s before", 2.0, 1.0, 100.0, "T3P, section 6.2"),
    }
}

/// Span of the mean.
const MEAN_OVER: Nanos = Nanos::from_secs(5);

/// When a firing is known, and the time of the ping that fired.
type Firing = (Time, Time);

/// Firings that the sender does not know yet.
#[derive(Clone, Debug)]
pub(super) struct Triggers {
    options: Options,
    firings: VecDeque<Firing>,
}

impl Triggers {
    pub const fn new(options: Options) -> Self {
        Self { options, firings: VecDeque::new() }
    }

    /// Stores the RTTs of pings, in order of their send times.
    pub fn on_rtts(&mut self, rtts: &[(Time, Nanos)]) {
        if self.options.is_known {
            self.firings = firings(rtts, self.options.ratio);
        }
    }

    /// Returns the send time of the ping of a firing that is known by now, each once.
    pub fn next(&mut self, now: Time) -> Option<Time> {
        let (known, sent) = *self.firings.front()?;
        if known > now {
            return None;
        }
        self.firings.pop_front();
        Some(sent)
    }
}

/// Returns the firings: pings for which the condition holds, and did not for the ping before.
fn firings(rtts: &[(Time, Nanos)], ratio: f64) -> VecDeque<Firing> {
    let (mut first, mut sum, mut held) = (0, 0, false);
    let mut firings = VecDeque::new();
    for (index, &(sent, rtt)) in rtts.iter().enumerate() {
        while rtts[first].0.0 + MEAN_OVER.0 < sent.0 {
            sum -= rtts[first].1.0;
            first += 1;
        }
        let count = (index - first) as f64;
        let holds = index > first && rtt.0 as f64 * count > ratio * sum as f64;
        if holds && !held {
            firings.push_back((sent + rtt + Nanos(rtt.0 / 2), sent));
        }
        held = holds;
        sum += rtt.0;
    }
    firings
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(n: u64) -> Time {
        Time(n * 1_000_000)
    }

    /// Pings every 100 ms of 40 ms, but for those given.
    fn pings(count: u64, others: &[(u64, u64)]) -> Vec<(Time, Nanos)> {
        let rtt = |n: u64| others.iter().find(|other| other.0 == n).map_or(40, |other| other.1);
        (0..count).map(|n| (ms(100 * n), Nanos::from_millis(rtt(n)))).collect()
    }

    #[test]
    fn a_trigger_fires_once_when_latency_is_above_twice_the_mean_of_five_seconds() {
        // Two in a row are one firing; 60 ms are no firing; the first ping has no mean before it.
        let mut triggers = Triggers::new(Options { is_known: true, ratio: 2.0 });
        triggers.on_rtts(&pings(200, &[(0, 400), (60, 120), (61, 120), (100, 60), (150, 100)]));
        // Known half an RTT after the reply.
        assert_eq!(triggers.next(ms(6179)), None);
        assert_eq!(triggers.next(ms(6180)), Some(ms(6000)));
        assert_eq!(triggers.next(ms(15_100)), None);
        assert_eq!(triggers.next(ms(20_000)), Some(ms(15_000)));
        assert_eq!(triggers.next(Time::MAX), None);
        // A level that stays is no firing after five seconds.
        assert!(firings(&pings(300, &[]), 1.0).is_empty());
    }

    #[test]
    fn without_the_option_nothing_is_known() {
        let mut triggers = Triggers::new(Options { is_known: false, ratio: 2.0 });
        triggers.on_rtts(&pings(200, &[(60, 120)]));
        assert_eq!(triggers.next(Time::MAX), None);
    }
}
