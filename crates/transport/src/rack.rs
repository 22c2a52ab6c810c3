//! RACK: a packet is lost when one sent sufficiently later was delivered.
//!
//! Source: RFC 8985 as implemented in Linux 6.18 (`net/ipv4/tcp_recovery.c`; `tcp_check_sack_reordering` in `tcp_input.c`).

use bentpipe_profile::{Nanos, Time};

/// Duplicate ACK threshold: selectively acknowledged packets that start recovery at once while no reordering was seen
/// (`sysctl_tcp_reordering`).
const DUPTHRESH: u32 = 3;
/// Largest reordering degree (`sysctl_tcp_max_reordering`).
const MAX_REORDERING: u32 = 300;
/// Recoveries for which a widened reordering window persists (`TCP_RACK_RECOVERY_THRESH`).
const PERSIST_RECOVERIES: u32 = 16;
/// Most steps of the reordering window (`tcp_rack_update_reo_wnd`).
const MAX_STEPS: u64 = 255;

/// RACK state: the newest delivered packet, and the reordering window.
#[derive(Clone, Debug)]
pub struct Rack {
    /// Send time and end of the newest delivered packet.
    newest: (Time, u64),
    /// RTT of the packet delivered last.
    rtt: Nanos,
    /// Whether a packet was delivered since the last loss detection.
    advanced: bool,
    reordering_seen: bool,
    /// Largest reordering degree seen [packets].
    reordering: u32,
    steps: u64,
    persist: u32,
    dsack_seen: bool,
    /// Packets delivered when the window was last widened.
    widened_at: u64,
}

impl Default for Rack {
    fn default() -> Self {
        Self {
            newest: (Time::ZERO, 0),
            rtt: Nanos::ZERO,
            advanced: false,
            reordering_seen: false,
            reordering: DUPTHRESH,
            steps: 1,
            persist: 0,
            dsack_seen: false,
            widened_at: 0,
        }
    }
}

impl Rack {
    /// Record a delivered packet.
    pub fn on_delivered(&mut self, now: Time, sent_at: Time, end: u64, ever_retransmitted: bool, min_rtt: Nanos) {
        let rtt = now.since(sent_at);
        if ever_retransmitted && rtt < min_rtt {
            return; // the original arrived, not the retransmission of `sent_at`
        }
        self.advanced = true;
        self.rtt = rtt;
        self.newest = self.newest.max((sent_at, end));
    }

    /// Send time and end of the newest delivered packet.
    pub const fn newest(&self) -> (Time, u64) {
        self.newest
    }

    /// RTT of the packet delivered last.
    pub const fn rtt(&self) -> Nanos {
        self.rtt
    }

    /// Request a new loss detection.
    pub const fn recheck(&mut self) {
        self.advanced = true;
    }

    /// Whether a packet was delivered since the last call.
    pub const fn take_advanced(&mut self) -> bool {
        std::mem::replace(&mut self.advanced, false)
    }

    /// Return the reordering window: how long to wait for a packet after a later one was delivered.
    pub fn reordering_window(&self, in_recovery: bool, sacked_out: u32, min_rtt: Nanos, srtt: Nanos) -> Nanos {
        if !self.reordering_seen && (in_recovery || sacked_out >= self.reordering) {
            return Nanos::ZERO;
        }
        // min_rtt / 4, because the path causes reordering, not the queue; at most one smoothed RTT (RFC 8985 §6.2 step 4).
        Nanos((min_rtt.0 / 4).saturating_mul(self.steps)).min(srtt)
    }

    /// Record reordering: a hole at `low`, below `highest_sacked`, was filled without a retransmission.
    pub fn on_reordering(&mut self, low: u64, highest_sacked: u64, mss: u32) {
        if low >= highest_sacked {
            return;
        }
        let degree = (highest_sacked - low).div_ceil(u64::from(mss));
        let degree = u32::try_from(degree).unwrap_or(u32::MAX).min(MAX_REORDERING);
        self.reordering = self.reordering.max(degree);
        self.reordering_seen = true;
    }

    /// Whether reordering was seen.
    #[cfg(test)]
    pub const fn has_seen_reordering(&self) -> bool {
        self.reordering_seen
    }

    /// Whether the reordering degree exceeds the default (`tcp_may_raise_cwnd`).
    pub const fn reorders_widely(&self) -> bool {
        self.reordering > DUPTHRESH
    }

    /// Record a DSACK of a spurious retransmission.
    pub const fn on_dsack(&mut self) {
        self.dsack_seen = self.reordering_seen;
    }

    /// Update the reordering window, once per acknowledgement. A DSACK widens it by one step, at most once per RTT; after 16 recoveries
    /// without a DSACK it returns to one step. `prior_delivered`: packets delivered when the newest acknowledged packet was sent.
    pub fn update_steps(&mut self, prior_delivered: Option<u64>, delivered: u64) {
        let Some(prior_delivered) = prior_delivered else { return };
        if prior_delivered < self.widened_at {
            self.dsack_seen = false;
        }
        if self.dsack_seen {
            self.steps = (self.steps + 1).min(MAX_STEPS);
            self.dsack_seen = false;
            self.widened_at = delivered;
            self.persist = PERSIST_RECOVERIES;
        } else if self.persist == 0 {
            self.steps = 1;
        }
    }

    /// Record that a recovery ended without an undo.
    pub const fn on_recovery_ended(&mut self) {
        self.persist = self.persist.saturating_sub(1);
    }

    /// Record that a recovery was undone by DSACK: the wide window persists longer.
    pub fn on_dsack_undo(&mut self) {
        self.persist = (self.persist + 1).min(PERSIST_RECOVERIES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIN_RTT: Nanos = Nanos::from_millis(40);
    const SRTT: Nanos = Nanos::from_millis(50);

    fn window(rack: &Rack, in_recovery: bool, sacked: u32) -> Nanos {
        rack.reordering_window(in_recovery, sacked, MIN_RTT, SRTT)
    }

    #[test]
    fn rack_reo_wnd_is_zero_in_recovery_or_at_three_sacked_unless_reordering_was_seen() {
        let mut rack = Rack::default();
        assert_eq!(window(&rack, false, 2), Nanos::from_millis(10), "a quarter of min_rtt");
        assert_eq!(window(&rack, false, 3), Nanos::ZERO);
        assert_eq!(window(&rack, true, 0), Nanos::ZERO);
        rack.on_reordering(1000, 5000, 1448);
        assert_eq!(window(&rack, true, 30), Nanos::from_millis(10));
    }

    #[test]
    fn rack_reo_wnd_widens_one_step_per_dsack_round_up_to_srtt() {
        let mut rack = Rack::default();
        rack.on_dsack();
        rack.update_steps(Some(1), 10);
        assert_eq!(window(&rack, false, 0), Nanos::from_millis(10), "without reordering a DSACK does not widen the window");
        rack.on_reordering(1000, 5000, 1448);
        rack.on_dsack();
        rack.update_steps(Some(1), 10);
        assert_eq!(window(&rack, false, 0), Nanos::from_millis(20));
        rack.on_dsack();
        rack.update_steps(Some(9), 20);
        assert_eq!(window(&rack, false, 0), Nanos::from_millis(20), "once per RTT");
        for round in 2..9 {
            rack.on_dsack();
            rack.update_steps(Some(round * 10), round * 10);
        }
        assert_eq!(window(&rack, false, 0), SRTT);
    }

    #[test]
    fn rack_reo_wnd_persists_for_sixteen_recoveries() {
        let mut rack = Rack::default();
        rack.on_reordering(1000, 5000, 1448);
        rack.on_dsack();
        rack.update_steps(Some(1), 10);
        for _ in 0..15 {
            rack.on_recovery_ended();
            rack.update_steps(Some(20), 30);
            assert_eq!(window(&rack, false, 0), Nanos::from_millis(20));
        }
        rack.on_recovery_ended();
        rack.update_steps(Some(20), 30);
        assert_eq!(window(&rack, false, 0), Nanos::from_millis(10));
    }

    #[test]
    fn rack_ignores_a_retransmission_acknowledged_sooner_than_min_rtt() {
        let mut rack = Rack::default();
        rack.on_delivered(Time(100_000_000), Time(90_000_000), 1, true, MIN_RTT);
        assert!(!rack.take_advanced());
        rack.on_delivered(Time(100_000_000), Time(50_000_000), 1, true, MIN_RTT);
        assert!(rack.take_advanced());
        assert_eq!(rack.rtt(), Nanos::from_millis(50));
    }
}
