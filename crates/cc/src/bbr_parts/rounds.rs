//! RTTs counted by packets (`bbr_update_round_start`).

use super::super::RateSample;
use bentpipe_profile::Bytes;

/// Counter of rounds. A round ends when a packet sent after it began is acknowledged.
#[derive(Clone, Debug, Default)]
pub struct Rounds {
    count: u64,
    /// A packet sent at this count of delivered bytes, or later, ends the round (`next_rtt_delivered`).
    end: Bytes,
    start: bool,
}

impl Rounds {
    /// Creates a counter before its first round.
    pub const fn new() -> Self {
        Self { count: 0, end: Bytes::ZERO, start: false }
    }

    /// Processes an ACK; returns true if it starts a round.
    pub fn advance(&mut self, sample: Option<&RateSample>, delivered_total: Bytes) -> bool {
        self.start = sample.is_some_and(|s| s.prior_delivered >= self.end);
        if self.start {
            self.end = delivered_total;
            self.count += 1;
        }
        self.start
    }

    /// Starts a round now.
    pub const fn restart(&mut self, delivered_total: Bytes) {
        self.end = delivered_total;
    }

    /// Counts a time-out as the end of a round.
    pub const fn force_start(&mut self) {
        self.start = true;
    }

    pub const fn count(&self) -> u64 {
        self.count
    }

    pub const fn start(&self) -> bool {
        self.start
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bentpipe_profile::Nanos;

    #[test]
    fn rounds_are_counted_by_delivered_bytes() {
        let sample = |prior| RateSample { prior_delivered: Bytes(prior), delivered: Bytes(1), interval: Nanos(1), app_limited: false };
        let mut b = Rounds::default();
        assert!(b.advance(Some(&sample(0)), Bytes(100)));
        assert!(!b.advance(Some(&sample(99)), Bytes(150)));
        assert!(!b.advance(None, Bytes(160)));
        assert!(b.advance(Some(&sample(100)), Bytes(200)));
        assert_eq!(b.count(), 2);
    }
}
