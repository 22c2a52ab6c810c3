//! TSO bursts: how much new data leaves at once, and whether it is deferred to grow.
//!
//! Source: Linux 6.18 `tcp_write_xmit`, `tcp_tso_should_defer`, `tcp_grow_skb`, `tcp_mss_split_point`, `tcp_cwnd_test`
//! (`net/ipv4/tcp_output.c`). A sender whose window opens by two segments with every ACK does not send two each time. It waits until a whole
//! burst fits, or a third of the window, or the rest of the skb at the head of its queue. So data leaves in bursts of a millisecond or so,
//! which other flows meet in a shared queue.

use super::Sender;
use super::state::State;
use crate::config::SenderConfig;
use crate::sndbuf::size_goal;
use crate::stats::Limit;
use bentpipe_profile::{Nanos, Time};
use std::collections::VecDeque;

/// A burst of this share of the window is not deferred (`tcp_tso_win_divisor`).
const WINDOW_DIVISOR: u64 = 3;

/// A burst is deferred only if the last departure was this recent and the next ACK is expected this soon.
const DEFER_WITHIN: Nanos = Nanos::from_millis(1);

/// Boundaries of the skbs in the send queue, and the rest of the current burst.
#[derive(Clone, Debug)]
pub(super) struct Bursts {
    /// Payload of a full skb.
    skb: u64,
    /// Boundary of an skb at or before the next byte to send; the others follow every `skb` bytes.
    boundary: u64,
    /// End of the data written at the last check.
    written: u64,
    /// Segments of the current burst, and those left of it; the burst also ends when nothing more may leave.
    size: u64,
    left: u64,
    /// First bytes of the outstanding bursts: each is an skb, and keeps the memory of one until its last byte is acknowledged.
    starts: VecDeque<u64>,
}

impl Bursts {
    pub fn new(config: &SenderConfig) -> Self {
        Self { skb: size_goal(config, u64::MAX), boundary: 0, written: 0, size: 0, left: 0, starts: VecDeque::new() }
    }

    /// Set the payload of the largest skb after the peer's largest window changed.
    pub const fn set_goal(&mut self, goal: u64) {
        self.skb = goal;
    }

    /// End the current burst without its remaining segments.
    pub const fn end(&mut self) {
        self.left = 0;
    }

    /// Whether the current burst is complete.
    pub const fn is_over(&self) -> bool {
        self.left == 0
    }

    /// Count the outstanding bursts; `una` is the first byte not acknowledged, `nxt` the next to send.
    pub fn outstanding(&mut self, una: u64, nxt: u64) -> u64 {
        while self.starts.get(1).map_or(una >= nxt, |next| *next <= una) && self.starts.pop_front().is_some() {}
        self.starts.len() as u64
    }

    /// Return the unsent bytes of the skb at the head of the queue; `nxt` is the next byte to send, `written` the end of the data.
    fn head(&mut self, nxt: u64, written: u64) -> u64 {
        self.boundary += (nxt - self.boundary) / self.skb * self.skb;
        if written > self.written {
            // New data starts a new skb or fills the last one. The unsent rest of a partly sent skb is an skb of its own, with as much room.
            if self.boundary + self.skb > self.written {
                self.boundary = nxt;
            }
            self.written = written;
        }
        (self.boundary + self.skb).min(written) - nxt
    }
}

impl Sender {
    /// Start a burst of new data, if it may leave now; within a burst do nothing. There must be new data that the window allows.
    pub(super) fn open_burst(&mut self, now: Time) -> Result<(), Limit> {
        if self.bursts.left > 0 {
            return Ok(());
        }
        let mss = u64::from(self.config.mss);
        let burst_max = u64::from(self.burst.max(1));
        let room = self.cwnd - u64::from(self.scoreboard.in_flight());
        let quota = room.min((self.cwnd / 2).max(1)).min(burst_max);
        let written = self.buffer.written();
        let mut skb = self.bursts.head(self.nxt, written.max(self.nxt));
        // An skb smaller than the send quota takes data from the next one.
        skb = skb.max((quota * mss).min(written.saturating_sub(self.nxt)));
        if skb > mss {
            self.defer(now, skb, self.nxt + skb >= written, burst_max)?;
        }
        self.bursts.size = skb.div_ceil(mss).clamp(1, quota);
        self.bursts.left = self.bursts.size;
        self.bursts.starts.push_back(self.nxt);
        Ok(())
    }

    /// Return the limiting factor as an error if the burst should be deferred because more of the skb can leave soon.
    pub(super) fn defer(&self, now: Time, skb: u64, is_tail: bool, burst_max: u64) -> Result<(), Limit> {
        let departed = self.pacer.rate().map_or(self.last_sent_at, |_| self.pacer.next_departure());
        if matches!(self.state, State::Recovery | State::Loss) || now.since(departed) > DEFER_WITHIN {
            return Ok(());
        }
        let mss = u64::from(self.config.mss);
        let send_window = self.window_end.saturating_sub(self.nxt);
        let room = (self.cwnd - u64::from(self.scoreboard.in_flight())) * mss;
        let limit = send_window.min(room);
        let window = (self.window_end - self.una).min(self.cwnd * mss);
        if limit >= burst_max * mss || (!is_tail && limit >= skb) || limit >= window / WINDOW_DIVISOR {
            return Ok(());
        }
        let (Some(head), Some(srtt)) = (self.scoreboard.head(), self.rtt.srtt()) else { return Ok(()) };
        let expected = head.sent_at + srtt;
        if expected.since(now) > DEFER_WITHIN.min(Nanos(srtt.0 / 2)) {
            return Ok(());
        }
        match room < send_window {
            true if room <= skb => Err(Limit::Window),
            false if send_window <= skb => Err(Limit::Receiver),
            // The tail of the queue may still grow, unless a FIN follows it.
            _ if self.buffer.is_closed() && is_tail => Ok(()),
            _ => Err(Limit::Sender),
        }
    }

    /// Record a new segment of the burst and return whether it is the last of a burst of several. That one carries PSH, so that the receiver's
    /// GRO does not wait for more (`__tcp_transmit_skb`).
    pub(super) fn ends_burst(&mut self) -> bool {
        self.bursts.left = self.bursts.left.saturating_sub(1);
        if self.bursts.left > 0 {
            return false;
        }
        self.pacer.end_burst();
        self.bursts.size > 1
    }
}
