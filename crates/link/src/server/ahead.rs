//! What a server knows of packets that were taken out of it before their time.
//!
//! A FIFO server without events determines at a packet's arrival when its transmission ends. So the packet may leave the server at once, with that time. Later
//! arrivals must still find the server busy and the queue as long as it is at their time.

use bentpipe_profile::Time;
use std::collections::VecDeque;

/// Packets that left ahead of their time.
#[derive(Default)]
pub struct Ahead {
    /// When the last of their transmissions ends.
    pub busy_until: Time,
    /// When each of those that still wait at the latest arrival leaves the queue, and its size [bytes].
    waiting: VecDeque<(Time, u16)>,
    bytes: u64,
}

impl Ahead {
    /// Record a packet that leaves the queue at `at`.
    pub fn take(&mut self, at: Time, bytes: u16) {
        self.waiting.push_back((at, bytes));
        self.bytes += u64::from(bytes);
    }

    /// Forget those that have left the queue by `now`.
    #[inline]
    pub fn forget(&mut self, now: Time) {
        while let Some(&(_, bytes)) = self.waiting.front().filter(|(at, _)| *at <= now) {
            self.waiting.pop_front();
            self.bytes -= u64::from(bytes);
        }
    }

    /// Return the number of those that wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Return the bytes of those that wait.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }
}
