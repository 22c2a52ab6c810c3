//! `PROBE_RTT`: four packets in flight for 200 ms and a round, so that the queue empties and the RTT falls to its minimum
//! (second half of `bbr_update_min_rtt`, `bbr_check_probe_rtt_done`).

use bentpipe_profile::{Bytes, Nanos, Time};

/// State of one `PROBE_RTT`, and the range of packets that it slowed.
#[derive(Clone, Debug)]
pub struct ProbeRtt {
    duration: Nanos,
    /// Set once little is in flight.
    done_at: Option<Time>,
    round_done: bool,
    /// Packets sent while the delivered bytes were in this range do not measure the bandwidth.
    slowed: Option<(Bytes, Bytes)>,
}

/// Result of an ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Wait,
    /// Little is in flight: a round starts now.
    Begin,
    Done,
}

impl ProbeRtt {
    pub const fn new(duration: Nanos) -> Self {
        Self { duration, done_at: None, round_done: false, slowed: None }
    }

    /// Enters `PROBE_RTT`.
    pub const fn enter(&mut self, delivered: Bytes) {
        self.done_at = None;
        self.slowed = Some((delivered, delivered));
    }

    /// Processes an ACK. `small`: inflight is down to the minimum.
    pub fn on_ack(&mut self, now: Time, small: bool, round_start: bool, delivered: Bytes, in_flight: Bytes) -> Step {
        if let Some((_, until)) = &mut self.slowed {
            *until = Bytes(delivered.0.saturating_add(in_flight.0));
        }
        if self.done_at.is_none() {
            if !small {
                return Step::Wait;
            }
            self.done_at = Some(now + self.duration);
            self.round_done = false;
            return Step::Begin;
        }
        self.round_done |= round_start;
        if self.round_done && self.time_is_up(now) { Step::Done } else { Step::Wait }
    }

    /// Returns whether it has lasted long enough.
    pub fn time_is_up(&self, now: Time) -> bool {
        self.done_at.is_some_and(|done| now > done)
    }

    /// Returns whether `PROBE_RTT` slowed a packet sent when `delivered` bytes had been delivered. The kernel marks such packets as application-limited
    /// (`tp->app_limited`); the count of delivered bytes when they were sent shows the same.
    pub fn slowed(&self, delivered: Bytes) -> bool {
        self.slowed.is_some_and(|(from, until)| from <= delivered && delivered <= until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_lasts_200_ms_and_a_round_from_when_little_is_in_flight() {
        let at = |ms: u64| Time(ms * 1_000_000);
        let mut p = ProbeRtt::new(Nanos::from_millis(200));
        p.enter(Bytes(1000));
        let mut ack = |ms, small, round| p.on_ack(at(ms), small, round, Bytes(2000), Bytes(400));
        assert_eq!(ack(0, false, true), Step::Wait);
        assert_eq!(ack(40, true, false), Step::Begin);
        assert_eq!(ack(241, true, false), Step::Wait);
        assert_eq!(ack(242, true, true), Step::Done);
        assert!(!p.slowed(Bytes(999)) && p.slowed(Bytes(1000)) && p.slowed(Bytes(2400)) && !p.slowed(Bytes(2401)));
    }

    #[test]
    fn a_round_that_ends_early_does_not_end_it() {
        let at = |ms: u64| Time(ms * 1_000_000);
        let mut p = ProbeRtt::new(Nanos::from_millis(200));
        p.enter(Bytes::ZERO);
        let mut ack = |ms, round| p.on_ack(at(ms), true, round, Bytes(1), Bytes(1));
        assert_eq!(ack(0, false), Step::Begin);
        assert_eq!(ack(40, true), Step::Wait);
        assert_eq!(ack(200, false), Step::Wait);
        assert_eq!(ack(201, false), Step::Done);
    }
}
