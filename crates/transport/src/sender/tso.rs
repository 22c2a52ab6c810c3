//! How much of the new data leaves in one piece, and whether it waits to become more.
//!
//! Source: Linux 6.18 `tcp_write_xmit`, `tcp_tso_should_defer`, `tcp_grow_skb`, `tcp_mss_split_point`, `tcp_cwnd_test` (`net/ipv4/tcp_output.c`). A sender whose
//! window opens by two segments with every acknowledgement does not send two each time: it waits until a whole burst fits, a third of the window, or what is
//! left of the skb at the head of its queue. So data leave in bursts of a millisecond or so, and whoever shares the queue finds them there.

use super::Sender;
use super::recovery::State;
use crate::config::SenderConfig;
use crate::sndbuf::size_goal;
use crate::stats::Limit;
use bentpipe_profile::{Nanos, Time};
use std::collections::VecDeque;

/// A share of the window that does not wait (`tcp_tso_win_divisor`).
const WINDOW_DIVISOR: u64 = 3;

/// It waits only while the last departure was so recent, and the next acknowledgement is expected so soon.
const SOON: Nanos = Nanos::from_millis(1);

/// Where the skbs of the send queue begin and end, and what is left of the burst under way.
#[derive(Clone, Debug)]
pub(super) struct Bursts {
    /// Payload of a full skb.
    skb: u64,
    /// An end of one, at or before the next byte to send; the others follow at every `skb`.
    boundary: u64,
    /// Up to where the application had written when last looked.
    written: u64,
    /// Segments of the one under way, and those left of them; it is over when nothing more may leave.
    size: u64,
    left: u64,
    /// First bytes of those outstanding: each is an skb, and keeps the memory of one until its last byte is acknowledged.
    starts: VecDeque<u64>,
}

impl Bursts {
    pub fn new(config: &SenderConfig) -> Self {
        Self { skb: size_goal(config, u64::MAX), boundary: 0, written: 0, size: 0, left: 0, starts: VecDeque::new() }
    }

    /// The peer's largest window changed: so does the largest skb.
    pub const fn set_goal(&mut self, goal: u64) {
        self.skb = goal;
    }

    /// What is left of the burst under way does not leave with it.
    pub const fn end(&mut self) {
        self.left = 0;
    }

    /// Whether all of the burst under way has left.
    pub const fn is_over(&self) -> bool {
        self.left == 0
    }

    /// How many are outstanding, of which `una` is the first byte not acknowledged and `nxt` the next to send.
    pub fn outstanding(&mut self, una: u64, nxt: u64) -> u64 {
        while self.starts.get(1).map_or(una >= nxt, |next| *next <= una) && self.starts.pop_front().is_some() {}
        self.starts.len() as u64
    }

    /// Bytes of the skb at the head of the queue, of which `nxt` is the first to send and `written` the end of the last.
    fn head(&mut self, nxt: u64, written: u64) -> u64 {
        self.boundary += (nxt - self.boundary) / self.skb * self.skb;
        if written > self.written {
            // What the application adds begins a new skb, or fills the last. Of one that left in part what stayed is an skb of its own, with as much room.
            if self.boundary + self.skb > self.written {
                self.boundary = nxt;
            }
            self.written = written;
        }
        (self.boundary + self.skb).min(written) - nxt
    }
}

impl Sender {
    /// Whether new data, of which there are some and which the window allows, may leave now; if so a burst is under way.
    pub(super) fn open_burst(&mut self, now: Time) -> Result<(), Limit> {
        if self.bursts.left > 0 {
            return Ok(());
        }
        let mss = u64::from(self.config.mss);
        let most = u64::from(self.burst.max(1));
        let room = self.cwnd - u64::from(self.board.in_flight());
        let quota = room.min((self.cwnd / 2).max(1)).min(most);
        let written = self.buffer.written();
        let mut skb = self.bursts.head(self.nxt, written.max(self.nxt));
        // A skb that is less than what may leave takes from the next one.
        skb = skb.max((quota * mss).min(written.saturating_sub(self.nxt)));
        if skb > mss {
            self.defer(now, skb, self.nxt + skb >= written, most)?;
        }
        self.bursts.size = skb.div_ceil(mss).clamp(1, quota);
        self.bursts.left = self.bursts.size;
        self.bursts.starts.push_back(self.nxt);
        Ok(())
    }

    /// Waits, as an error that says for what, if more of the skb can leave soon.
    pub(super) fn defer(&self, now: Time, skb: u64, is_tail: bool, most: u64) -> Result<(), Limit> {
        let departed = self.pacer.rate().map_or(self.last_sent_at, |_| self.pacer.next_departure());
        if matches!(self.state, State::Recovery | State::Loss) || now.since(departed) > SOON {
            return Ok(());
        }
        let mss = u64::from(self.config.mss);
        let send_window = self.window_end.saturating_sub(self.nxt);
        let room = (self.cwnd - u64::from(self.board.in_flight())) * mss;
        let limit = send_window.min(room);
        let window = (self.window_end - self.una).min(self.cwnd * mss);
        if limit >= most * mss || (!is_tail && limit >= skb) || limit >= window / WINDOW_DIVISOR {
            return Ok(());
        }
        let (Some(head), Some(srtt)) = (self.board.head(), self.rtt.srtt()) else { return Ok(()) };
        let expected = head.sent_at + srtt;
        if expected.since(now) > SOON.min(Nanos(srtt.0 / 2)) {
            return Ok(());
        }
        match room < send_window {
            true if room <= skb => Err(Limit::Window),
            false if send_window <= skb => Err(Limit::Receiver),
            // The last of the queue, which the application may add to; what is behind a FIN it cannot.
            _ if self.buffer.is_closed() && is_tail => Ok(()),
            _ => Err(Limit::Sender),
        }
    }

    /// A new segment left; whether it is the last of a burst of several, which carries PSH, so that the receiver's host waits for no more of them
    /// (`__tcp_transmit_skb`).
    pub(super) fn ends_burst(&mut self) -> bool {
        self.bursts.left = self.bursts.left.saturating_sub(1);
        if self.bursts.left > 0 {
            return false;
        }
        self.pacer.end_burst();
        self.bursts.size > 1
    }
}
