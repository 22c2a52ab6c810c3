//! The sender's side of the connection: what is written, placed on subflows, and acknowledged.

use bentpipe_profile::{Bytes, Nanos, Time};

/// Time-out before any subflow has an RTT sample (`TCP_RTO_MIN`, as `mptcp_timeout_from_subflow` has it).
pub const RTO: Nanos = Nanos::from_millis(200);

/// Most bytes retransmitted at once: a fragment of the send queue (`mptcp_data_frag`, at most a page fragment of 32 KB).
const FRAGMENT: u64 = 32_768;

/// Counters of the connection's data.
#[derive(Debug)]
pub struct Connection {
    written: u64,
    /// Next byte to place; first byte not acknowledged.
    next: u64,
    unacked: u64,
    window: u64,
    retransmit_at: Time,
}

impl Connection {
    /// Create a connection with this receive window.
    pub const fn new(window: Bytes) -> Self {
        Self { written: 0, next: 0, unacked: 0, window: window.0, retransmit_at: Time::MAX }
    }

    /// Write data, and return its end; [`Bytes::MAX`]: it never ends.
    pub const fn write(&mut self, bytes: Bytes) -> u64 {
        self.written = self.written.saturating_add(bytes.0);
        self.written
    }

    /// Return how much is written and not placed, if the receive window is open; else zero.
    pub const fn backlog(&self) -> Bytes {
        if self.next >= self.unacked + self.window { Bytes::ZERO } else { Bytes(self.written - self.next) }
    }

    /// Take the next bytes to place, at most `most`; `None`: nothing may be placed.
    pub fn take(&mut self, now: Time, most: Bytes, rto: Nanos) -> Option<(u64, u64)> {
        let end = self.written.min(self.unacked + self.window).min(self.next.saturating_add(most.0));
        let range = (self.next, end);
        if range.0 >= range.1 {
            return None;
        }
        self.next = end;
        if self.retransmit_at == Time::MAX {
            self.restart_timer(now, rto);
        }
        Some(range)
    }

    /// Process an acknowledgement of the connection's data up to `acked`. Progress restarts the timer.
    pub fn on_ack(&mut self, now: Time, acked: u64, rto: Nanos) {
        if acked > self.unacked {
            self.unacked = acked;
            self.restart_timer(now, rto);
        }
    }

    /// Restart the timer if data is unacknowledged, else stop it.
    pub fn restart_timer(&mut self, now: Time, rto: Nanos) {
        self.retransmit_at = if self.unacked < self.next { now + rto } else { Time::MAX };
    }

    /// When the first unacknowledged data is due for retransmission on another subflow.
    pub const fn retransmit_at(&self) -> Time {
        self.retransmit_at
    }

    /// Return the first bytes that are placed and not acknowledged.
    pub fn first_unacked(&self) -> (u64, u64) {
        (self.unacked, self.next.min(self.unacked + FRAGMENT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_placed_within_the_window_and_the_timer_follows_progress() {
        let mut connection = Connection::new(Bytes(100));
        connection.write(Bytes(150));
        assert_eq!(connection.take(Time(0), Bytes(80), Nanos(10)), Some((0, 80)));
        assert_eq!((connection.take(Time(1), Bytes(80), Nanos(10)), connection.backlog()), (Some((80, 100)), Bytes::ZERO));
        assert_eq!((connection.retransmit_at(), connection.first_unacked()), (Time(10), (0, 100)));
        connection.on_ack(Time(5), 60, Nanos(20));
        assert_eq!((connection.retransmit_at(), connection.backlog()), (Time(25), Bytes(50)));
        assert_eq!(connection.take(Time(6), Bytes(80), Nanos(10)), Some((100, 150)));
        connection.on_ack(Time(7), 150, Nanos(20));
        assert_eq!((connection.retransmit_at(), connection.backlog()), (Time::MAX, Bytes::ZERO));
    }
}
