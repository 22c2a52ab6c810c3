//! When the receiver sends an acknowledgement: quick, delayed and compressed ACKs.
//!
//! Source: Linux `__tcp_ack_snd_check`, `tcp_event_data_recv`, `tcp_send_delayed_ack`, `tcp_delack_timer_handler`, `tcp_cleanup_rbuf`; RFC
//! 5681 §4.2. An end that answers within the ACK delay is interactive (`pingpong`): its acknowledgements wait for the answer, on which they travel.

use crate::config::ReceiverConfig;
use bentpipe_profile::{Nanos, Time};

/// Most quick ACKs at the start of a connection or after a duplicate (`TCP_MAX_QUICKACKS`).
const QUICK_ACKS: u32 = 16;
/// Quick ACKs after a CE mark (`tcp_ecn_check_ce`).
const QUICK_ACKS_CE: u32 = 2;
/// Smallest ACK delay (`TCP_ATO_MIN`, `TCP_DELACK_MIN`).
const ATO_MIN: Nanos = Nanos::from_millis(40);
/// Largest ACK delay (`TCP_DELACK_MAX`).
const DELAY_MAX: Nanos = Nanos::from_millis(200);
/// Out-of-order segments acknowledged at once before compression starts (`TCP_FASTRETRANS_THRESH`): the sender needs three SACKs.
const UNCOMPRESSED: u32 = 3;

/// Properties of a received segment that decide when to acknowledge.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::struct_excessive_bools)] // independent facts, not states
pub struct ReceivedSegment {
    /// The segment starts at the next byte expected.
    pub in_order: bool,
    /// The segment fills the last hole.
    pub fills_hole: bool,
    /// All its bytes had arrived before.
    pub duplicate: bool,
    /// Shorter than a full segment, or the last of a write: acknowledged as soon as it is read (`ICSK_ACK_PUSHED` in `tcp_measure_rcv_mss`).
    pub pushed: bool,
    /// The segment enlarged the receive window.
    pub opens_window: bool,
    /// CE marks began or ended, and the sender should learn of it soon.
    pub needs_ce_ack: bool,
    /// The segment carries CWR: the sender's window may be small, so it should not wait for a delayed ACK (`tcp_ecn_accept_cwr`).
    pub cwr: bool,
    /// Out-of-order data is held beyond a hole.
    pub has_hole: bool,
    /// Next byte expected.
    pub next: u64,
    /// Bytes in order since the last acknowledgement.
    pub unacknowledged: u64,
    /// The receive window can be offered in full although some data is not read yet.
    pub has_window_room: bool,
    /// The application has read everything in order.
    pub all_read: bool,
}

impl ReceivedSegment {
    /// Merge with the segment that follows it (GRO).
    pub const fn merge(self, next: Self) -> Self {
        Self {
            in_order: self.in_order || next.in_order,
            fills_hole: self.fills_hole || next.fills_hole,
            duplicate: self.duplicate || next.duplicate,
            opens_window: self.opens_window || next.opens_window,
            needs_ce_ack: self.needs_ce_ack || next.needs_ce_ack,
            cwr: self.cwr || next.cwr,
            ..next
        }
    }
}

/// ACK timers and counters of a receiver.
#[derive(Clone, Debug)]
pub struct AckPolicy {
    mss: u64,
    compression_delay: Nanos,
    compression_count: u32,
    quick_acks: u32,
    /// Current ACK delay (`ato`); zero before the first segment.
    ato: Nanos,
    last_arrival: Time,
    /// Due time of the delayed ACK; `Time::MAX`: none is delayed. `compressed_until` likewise.
    delayed_until: Time,
    compressed: u32,
    compressed_until: Time,
    /// An ACK is due when the application reads (`tcp_cleanup_rbuf`).
    ack_on_read: bool,
    /// The application may read much later, so that such an ACK must not wait for it alone.
    reads_by_hand: bool,
    /// Next byte expected, and the out-of-order segments received since it last advanced.
    out_of_order: (u64, u32),
    /// Data was sent soon after data had arrived (`inet_csk_in_pingpong_mode`).
    is_interactive: bool,
}

impl AckPolicy {
    /// Create the policy of a new connection.
    pub fn new(config: &ReceiverConfig) -> Self {
        Self {
            mss: u64::from(config.mss),
            compression_delay: config.sack_compression_delay,
            compression_count: config.sack_compression_count,
            quick_acks: 0,
            ato: Nanos::ZERO,
            last_arrival: Time::ZERO,
            delayed_until: Time::MAX,
            compressed: 0,
            compressed_until: Time::MAX,
            ack_on_read: false,
            reads_by_hand: false,
            out_of_order: (0, 0),
            is_interactive: false,
        }
    }

    /// Process a received segment and return whether to acknowledge it at once. `rtt` is the receiver's estimate.
    pub fn on_segment(&mut self, now: Time, segment: ReceivedSegment, rtt: Option<Nanos>) -> bool {
        if segment.in_order {
            self.update_ato(now, rtt);
        }
        if segment.duplicate {
            self.quick_acks = self.quick_acks.max(QUICK_ACKS);
            (self.ato, self.is_interactive) = (ATO_MIN, false); // `tcp_enter_quickack_mode`
        }
        if segment.needs_ce_ack {
            self.quick_acks = self.quick_acks.max(QUICK_ACKS_CE);
        }
        if segment.opens_window {
            self.quick_acks |= 1; // the sender should learn of a larger window
        }
        let is_quick = self.quick_acks > 0 && !self.is_interactive;
        if segment.fills_hole || segment.cwr || is_quick || (segment.unacknowledged > self.mss && segment.has_window_room) {
            return true;
        }
        self.ack_on_read |= segment.unacknowledged > self.mss || (segment.pushed && segment.in_order && !self.is_interactive);
        if segment.has_hole {
            return self.compress(now, segment.next, rtt) || (self.ack_on_read && segment.all_read);
        }
        if self.ack_on_read && !self.reads_by_hand { segment.all_read } else { self.delay(now, rtt) }
    }

    /// Adapt the ACK delay to the spacing of the segments.
    fn update_ato(&mut self, now: Time, rtt: Option<Nanos>) {
        let gap = now.since(self.last_arrival);
        let rto = rtt.unwrap_or(Nanos::ZERO) + DELAY_MAX;
        if self.ato == Nanos::ZERO {
            self.quick_acks = QUICK_ACKS;
            self.ato = ATO_MIN;
        } else if gap.0 <= ATO_MIN.0 / 2 {
            self.ato = Nanos(self.ato.0 / 2 + ATO_MIN.0 / 2);
        } else if gap < self.ato {
            self.ato = Nanos(self.ato.0 / 2 + gap.0).min(rto);
        } else if gap > rto {
            // After a long idle time the sender is in slow start and waits for ACKs.
            self.quick_acks = self.quick_acks.max(QUICK_ACKS);
        }
        self.last_arrival = now;
    }

    fn delay(&mut self, now: Time, rtt: Option<Nanos>) -> bool {
        let bound = rtt.map_or(DELAY_MAX, |rtt| rtt.clamp(ATO_MIN, DELAY_MAX));
        let wait = self.ato.min(bound);
        if self.delayed_until <= now + Nanos(wait.0 / 4) {
            return true;
        }
        self.delayed_until = self.delayed_until.min(now + wait);
        false
    }

    fn compress(&mut self, now: Time, next: u64, rtt: Option<Nanos>) -> bool {
        if self.compressed >= self.compression_count {
            return true;
        }
        if self.out_of_order.0 != next {
            self.out_of_order = (next, 0);
        }
        if self.out_of_order.1 < UNCOMPRESSED {
            self.out_of_order.1 += 1;
            return true;
        }
        self.compressed += 1;
        let delay = self.compression_delay.min(Nanos(rtt.unwrap_or(Nanos::ZERO).0 / 20));
        self.compressed_until = self.compressed_until.min(now + delay);
        false
    }

    /// Whether a compressed ACK is waiting. It must not wait until its SACK blocks no longer fit into an ACK (`tcp_sack_new_ofo_skb`,
    /// `tcp_sack_compress_send_ack`).
    pub const fn is_compressing(&self) -> bool {
        self.compressed > 0
    }

    /// Record that this end sent data (`tcp_event_data_sent`).
    pub fn on_data_sent(&mut self, now: Time) {
        self.is_interactive |= now.since(self.last_arrival) < self.ato;
    }

    /// Prepare for an application that may read much later than data arrive.
    pub const fn read_by_hand(&mut self) {
        self.reads_by_hand = true;
    }

    /// Whether an ACK is due as soon as the application reads.
    pub const fn waits_for_reading(&self) -> bool {
        self.ack_on_read
    }

    /// Record that an ACK was sent.
    pub const fn on_ack_sent(&mut self) {
        self.quick_acks = self.quick_acks.saturating_sub(1);
        self.delayed_until = Time::MAX;
        self.compressed = 0;
        self.compressed_until = Time::MAX;
        self.ack_on_read = false;
    }

    /// Due time of the waiting ACK, if any.
    #[inline]
    pub fn due_at(&self) -> Option<Time> {
        let due = self.delayed_until.min(self.compressed_until);
        (due != Time::MAX).then_some(due)
    }

    /// Whether the waiting ACK is due. A delayed ACK that fires lengthens the next delay, or ends the interactive mode.
    pub fn on_wake(&mut self, now: Time, rtt: Option<Nanos>) -> bool {
        if self.delayed_until <= now && self.is_interactive {
            (self.is_interactive, self.ato) = (false, ATO_MIN);
        } else if self.delayed_until <= now {
            self.ato = Nanos(self.ato.0 * 2).min(rtt.unwrap_or(Nanos::ZERO) + DELAY_MAX);
        }
        self.due_at().is_some_and(|at| at <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u64 = 1448;
    const RTT: Option<Nanos> = Some(Nanos::from_millis(50));
    const fn us(n: u64) -> Time {
        Time(1_000_000_000 + n * 1000)
    }

    fn in_order(unacknowledged: u64) -> ReceivedSegment {
        ReceivedSegment {
            in_order: true,
            fills_hole: false,
            duplicate: false,
            pushed: false,
            opens_window: false,
            needs_ce_ack: false,
            cwr: false,
            has_hole: false,
            next: 0,
            unacknowledged,
            has_window_room: true,
            all_read: true,
        }
    }

    fn beyond_hole() -> ReceivedSegment {
        ReceivedSegment { in_order: false, has_hole: true, ..in_order(0) }
    }

    fn steady() -> AckPolicy {
        let mut policy = AckPolicy::new(&ReceiverConfig::default());
        for _ in 0..16 {
            assert!(policy.on_segment(us(0), in_order(MSS), RTT));
            policy.on_ack_sent();
        }
        policy
    }

    #[test]
    fn first_sixteen_acks_are_quick_then_one_for_two_full_segments() {
        let mut policy = steady();
        assert!(!policy.on_segment(us(0), in_order(MSS), RTT));
        assert!(policy.on_segment(us(10), in_order(2 * MSS), RTT));
    }

    #[test]
    fn delayed_ack_waits_40_ms_and_up_to_200_after_misses() {
        let mut policy = steady();
        let rtt = Some(Nanos::from_millis(300));
        let mut waits = Vec::new();
        let mut now = us(1000);
        for _ in 0..4 {
            policy.on_segment(now, in_order(MSS), rtt);
            let due = policy.due_at().expect("delayed");
            waits.push(due.since(now).0 / 1_000_000);
            assert!(policy.on_wake(due, rtt));
            policy.on_ack_sent();
            now = due;
        }
        assert_eq!(waits[0], 40);
        assert!(waits.windows(2).all(|w| w[0] <= w[1]) && *waits.last().expect("four") <= 200, "{waits:?}");
    }

    #[test]
    fn short_segments_filled_holes_and_duplicates_are_acknowledged_at_once() {
        let mut policy = steady();
        assert!(policy.on_segment(us(0), ReceivedSegment { pushed: true, ..in_order(100) }, RTT));
        assert!(policy.on_segment(us(0), ReceivedSegment { fills_hole: true, ..in_order(MSS) }, RTT));
        let mut policy = steady();
        assert!(policy.on_segment(us(0), ReceivedSegment { in_order: false, duplicate: true, ..in_order(0) }, RTT));
        policy.on_ack_sent();
        assert!(policy.on_segment(us(0), in_order(MSS), RTT), "and the next fifteen too");
    }

    #[test]
    fn after_three_immediate_acks_sacks_are_compressed_to_one_per_min_of_1_ms_and_rtt_over_20() {
        let mut policy = steady();
        for _ in 0..3 {
            assert!(policy.on_segment(us(0), beyond_hole(), RTT));
            policy.on_ack_sent();
        }
        assert!(!policy.on_segment(us(100), beyond_hole(), RTT));
        assert_eq!(policy.due_at(), Some(us(1100)), "1 ms at 50 ms");
        for _ in 0..43 {
            assert!(!policy.on_segment(us(100), beyond_hole(), RTT));
        }
        assert!(policy.on_segment(us(100), beyond_hole(), RTT), "44 are the most");
        policy.on_ack_sent();
        assert!(!policy.on_segment(us(200), beyond_hole(), Some(Nanos::from_millis(10))));
        assert_eq!(policy.due_at(), Some(us(700)), "0.5 ms at 10 ms");
    }
}
