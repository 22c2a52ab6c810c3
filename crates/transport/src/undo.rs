//! Detection of spurious window reductions, which are then undone.
//!
//! Source: Linux `tcp_init_undo`, `tcp_may_undo`, `tcp_packet_delayed` (`net/ipv4/tcp_input.c`); Eifel detection by timestamps (RFC 3522);
//! detection by DSACK (RFC 3708). Timestamps here are exact; the kernel's have a resolution of 1 ms.

use crate::stats::UndoCause;
use bentpipe_profile::Time;

/// Evidence collected since a window reduction began.
#[derive(Clone, Copy, Debug, Default)]
pub struct Undo {
    /// `SND.UNA` when the reduction began (`undo_marker`); `None`: there is no reduction to undo.
    marker: Option<u64>,
    /// Retransmissions since then that no DSACK has reported yet (`undo_retrans`); negative: none was sent yet.
    pending_retransmissions: i64,
    /// Send time of the first retransmission since no retransmitted data was outstanding (`retrans_stamp`).
    first_retransmission: Option<Time>,
}

impl Undo {
    /// Begin a reduction with `retrans_out` retransmissions in flight.
    pub fn begin(&mut self, una: u64, retrans_out: u32) {
        self.marker = Some(una);
        self.pending_retransmissions = if retrans_out > 0 { i64::from(retrans_out) } else { -1 };
    }

    /// End the reduction: it stands, or it was undone.
    pub const fn end(&mut self) {
        self.marker = None;
    }

    /// Whether there is a reduction to undo.
    pub const fn is_armed(&self) -> bool {
        self.marker.is_some()
    }

    /// Record a retransmission.
    pub fn on_retransmission(&mut self, now: Time) {
        self.first_retransmission.get_or_insert(now);
        self.pending_retransmissions = self.pending_retransmissions.max(0) + 1;
    }

    /// Forget the first retransmission's time: no retransmitted data is outstanding any more.
    pub const fn forget_retransmissions(&mut self) {
        self.first_retransmission = None;
    }

    /// Record a DSACK up to `end` that reports `segments` duplicates.
    pub fn on_duplicate(&mut self, end: u64, segments: u32) {
        if self.marker.is_some_and(|marker| end > marker) && self.pending_retransmissions > 0 {
            self.pending_retransmissions = (self.pending_retransmissions - i64::from(segments)).max(0);
        }
    }

    /// Whether a DSACK reported every retransmission.
    pub const fn all_duplicates(&self) -> bool {
        self.marker.is_some() && self.pending_retransmissions == 0
    }

    /// Whether the acknowledgement that echoes `ts_ecr` answers a segment sent before the first retransmission (`tcp_packet_delayed`).
    pub fn was_delayed(&self, ts_ecr: Time) -> bool {
        self.first_retransmission.is_none_or(|first| ts_ecr < first)
    }

    /// Return the evidence that allows an undo, if any.
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
        assert_eq!(undo.cause(Time(20)), None, "the reported data is older than the reduction");
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
