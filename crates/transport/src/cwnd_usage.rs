//! Congestion window validation: cwnd grows only as far as it is used.
//!
//! Source: RFC 7661 as implemented in Linux (`tcp_cwnd_validate`, `tcp_is_cwnd_limited`, `tcp_cwnd_application_limited`, `tcp_cwnd_restart`).
//! Counts are packets.

use bentpipe_profile::{Nanos, Time};

/// Recent use of the congestion window.
#[derive(Clone, Debug, Default)]
pub struct CwndUsage {
    /// Whether the flow was cwnd-limited in this RTT.
    limited: bool,
    /// Most packets outstanding in this RTT, if it was not cwnd-limited.
    max_packets_out: u64,
    /// Sequence number at which the current RTT ends.
    round_end: u64,
    /// Most packets outstanding since the window was last full or reduced.
    used: u64,
    /// Time at which the window was last full or reduced.
    since: Time,
}

/// State of the sender after it has sent all it can.
#[derive(Clone, Copy, Debug)]
pub struct WindowFill {
    /// Current time.
    pub now: Time,
    /// Whether the flow is cwnd-limited now.
    pub limited: bool,
    /// Packets outstanding.
    pub packets_out: u64,
    /// Congestion window.
    pub cwnd: u64,
    /// Whether the controller is in slow start.
    pub slow_start: bool,
    /// First byte not acknowledged.
    pub una: u64,
    /// Next byte to send.
    pub nxt: u64,
}

impl CwndUsage {
    /// Record how full the window is.
    pub fn record(&mut self, fill: WindowFill) {
        if fill.una >= self.round_end || fill.limited || (!self.limited && fill.packets_out > self.max_packets_out) {
            self.limited = fill.limited;
            self.max_packets_out = fill.packets_out;
            self.round_end = fill.nxt;
        }
        if self.is_limited(fill.cwnd, fill.slow_start) {
            self.used = 0;
            self.since = fill.now;
        } else {
            self.used = self.used.max(fill.packets_out);
        }
    }

    /// Whether the flow was cwnd-limited in this RTT.
    pub const fn is_full(&self) -> bool {
        self.limited
    }

    /// Whether the window may grow: it was full, or in slow start more than half full.
    pub const fn is_limited(&self, cwnd: u64, slow_start: bool) -> bool {
        self.limited || (slow_start && cwnd < 2 * self.max_packets_out)
    }

    /// Halve the unused part of the window, once per RTO without a full window. `None`: the window stays.
    pub fn decay(&mut self, now: Time, rto: Nanos, cwnd: u64, initial_window: u64) -> Option<u64> {
        if now.since(self.since) < rto {
            return None;
        }
        let used = self.used.max(initial_window);
        self.used = 0;
        self.since = now;
        (used < cwnd).then_some(u64::midpoint(cwnd, used))
    }

    /// Return the window after `idle` time without packets outstanding: halved once per RTO, down to the initial window (RFC 2861 §3).
    pub fn restart(&mut self, now: Time, idle: Nanos, rto: Nanos, cwnd: u64, initial_window: u64) -> u64 {
        let floor = initial_window.min(cwnd);
        // One halving per elapsed RTO; after 64 nothing is left.
        let halvings = (idle.0.saturating_sub(1) / rto.0.max(1)).min(63);
        self.used = 0;
        self.since = now;
        (cwnd >> halvings).max(floor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(packets_out: u64, limited: bool) -> WindowFill {
        WindowFill { now: Time::ZERO, limited, packets_out, cwnd: 20, slow_start: false, una: 0, nxt: 100 }
    }

    #[test]
    fn slow_start_grows_only_below_twice_the_most_packets_out() {
        let mut usage = CwndUsage::default();
        usage.record(fill(8, false));
        assert!(usage.is_limited(15, true));
        assert!(!usage.is_limited(16, true));
        assert!(!usage.is_limited(15, false), "avoidance grows only if the window was full");
    }

    #[test]
    fn a_full_window_counts_for_the_whole_rtt() {
        let mut usage = CwndUsage::default();
        usage.record(fill(20, true));
        usage.record(fill(5, false));
        assert!(usage.is_limited(20, false));
        usage.record(WindowFill { una: 100, nxt: 200, ..fill(5, false) });
        assert!(!usage.is_limited(20, false));
    }

    #[test]
    fn an_application_limited_window_decays_towards_its_use() {
        let (rto, at) = (Nanos::from_millis(250), |ms: u64| Time(ms * 1_000_000));
        let mut usage = CwndUsage::default();
        usage.record(WindowFill { now: at(0), ..fill(12, false) });
        assert_eq!(usage.decay(at(249), rto, 100, 10), None);
        assert_eq!(usage.decay(at(250), rto, 100, 10), Some(56));
        assert_eq!(usage.decay(at(500), rto, 8, 10), None, "never below the initial window");
    }

    #[test]
    fn slow_start_after_idle_halves_once_per_rto_down_to_the_initial_window() {
        let restart = |idle_ms| CwndUsage::default().restart(Time::ZERO, Nanos::from_millis(idle_ms), Nanos::from_millis(250), 100, 10);
        assert_eq!(restart(251), 50);
        assert_eq!(restart(501), 25);
        assert_eq!(restart(60_000), 10);
    }
}
