//! Whether a reduction was for nothing.
//!
//! Source: Linux `tcp_init_undo`, `tcp_may_undo`, `tcp_packet_delayed` (`net/ipv4/tcp_input.c`); Eifel detection by timestamps (RFC 3522), detection by
//! DSACK (RFC 3708). Timestamps here are exact; the kernel's have a resolution of 1 ms.

use crate::stats::UndoCause;
use bentpipe_profile::Time;

/// The evidence since a reduction began.
#[derive(Clone, Copy, Debug, Default)]
pub struct Undo {
    /// First byte unacknowledged when it began; `None`: no reduction to undo.
    marker: Option<u64>,
    /// Retransmissions since then that no DSACK has reported yet; negative: there was none yet.
    unreported: i64,
    /// When the first retransmission since the line was clean was sent.
    first_retransmission: Option<Time>,
}

impl Undo {
    /// A reduction begins; `retrans_out` retransmissions are under way.
    pub fn begin(&mut self, una: u64, retrans_out: u32) {
        self.marker = Some(una);
        self.unreported = if retrans_out > 0 { i64::from(retrans_out) } else { -1 };
    }

    /// The reduction stands, or was undone.
    pub const fn end(&mut self) {
        self.marker = None;
    }

    /// Whether there is a reduction to undo.
    pub const fn is_armed(&self) -> bool {
        self.marker.is_some()
    }

    /// A segment was retransmitted.
    pub fn on_retransmission(&mut self, now: Time) {
        self.first_retransmission.get_or_insert(now);
        self.unreported = self.unreported.max(0) + 1;
    }

    /// Nothing that was retransmitted is outstanding any more.
    pub const fn forget_retransmissions(&mut self) {
        self.first_retransmission = None;
    }

    /// A DSACK up to `end` reports `segments` duplicates.
    pub fn on_duplicate(&mut self, end: u64, segments: u32) {
        if self.marker.is_some_and(|marker| end > marker) && self.unreported > 0 {
            self.unreported = (self.unreported - i64::from(segments)).max(0);
        }
    }

    /// Whether every retransmission arrived as a duplicate.
    pub const fn all_duplicates(&self) -> bool {
        self.marker.is_some() && self.unreported == 0
    }

    /// Whether the acknowledgement that echoes `ts_ecr` answers something sent before the first retransmission (`tcp_packet_delayed`).
    pub fn was_delayed(&self, ts_ecr: Time) -> bool {
        self.first_retransmission.is_none_or(|first| ts_ecr < first)
    }

    /// Whether the reduction may be undone, and how it shows.
    pub fn cause(&self, ts_ecr: Time) -> Option<UndoCause> {
        if self.all_duplicates() {
            Some(UndoCause::Dsack)
        } else if self.marker.is_some() && self.was_delayed(ts_ecr) {
            Some(UndoCause::Timestamp)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn undo_by_dsack_needs_every_retransmission_reported() {
        let mut undo = Undo::default();
        undo.begin(1000, 0);
        assert!(!undo.all_duplicates(), "nothing was retransmitted yet");
        undo.on_retransmission(Time(10));
        undo.on_retransmission(Time(11));
        undo.on_duplicate(2000, 1);
        assert_eq!(undo.cause(Time(20)), None);
        undo.on_duplicate(900, 1);
        assert_eq!(undo.cause(Time(20)), None, "it reports something older than the reduction");
        undo.on_duplicate(3000, 1);
        assert_eq!(undo.cause(Time(20)), Some(UndoCause::Dsack));
    }

    #[test]
    fn undo_by_timestamp_needs_an_echo_older_than_the_first_retransmission() {
        let mut undo = Undo::default();
        undo.begin(1000, 0);
        undo.on_retransmission(Time(10));
        undo.on_retransmission(Time(15));
        assert_eq!(undo.cause(Time(12)), None);
        assert_eq!(undo.cause(Time(9)), Some(UndoCause::Timestamp));
        undo.end();
        assert_eq!(undo.cause(Time(9)), None);
    }
}
