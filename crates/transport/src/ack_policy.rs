//! When the receiver acknowledges.
//!
//! Source: Linux `__tcp_ack_snd_check`, `tcp_event_data_recv`, `tcp_send_delayed_ack`, `tcp_delack_timer_handler`, `tcp_cleanup_rbuf`; RFC 5681 §4.2.
//! The application (`reader.rs`) never writes, so the connection is never "interactive" (`pingpong`).

use crate::config::ReceiverConfig;
use bentpipe_profile::{Nanos, Time};

/// Most acknowledgements sent at once at the start, or after a duplicate (`TCP_MAX_QUICKACKS`).
const QUICK_ACKS: u32 = 16;
/// Quick ones after a mark (`tcp_ecn_check_ce`).
const QUICK_ACKS_CE: u32 = 2;
/// Least delay (`TCP_ATO_MIN`, `TCP_DELACK_MIN`).
const ATO_MIN: Nanos = Nanos::from_millis(40);
/// Largest delay (`TCP_DELACK_MAX`).
const DELAY_MAX: Nanos = Nanos::from_millis(200);
/// Out-of-order segments acknowledged at once before compression sets in (`TCP_FASTRETRANS_THRESH`): the sender must see three.
const UNCOMPRESSED: u32 = 3;

/// What arrived, as far as acknowledging goes.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::struct_excessive_bools)] // independent facts, not states
pub struct Arrived {
    /// Next in order.
    pub in_order: bool,
    /// The last hole is gone.
    pub filled: bool,
    /// There already.
    pub duplicate: bool,
    /// Shorter than a full segment, or the last of a write: acknowledged as soon as it is read (`ICSK_ACK_PUSHED` in `tcp_measure_rcv_mss`).
    pub pushed: bool,
    /// It opened the window further.
    pub opened: bool,
    /// A mark, or its end, that the sender should hear of soon.
    pub ce: bool,
    /// The sender says that its window came down: it may be small, so it should not wait (`tcp_ecn_accept_cwr`).
    pub cwr: bool,
    /// There is a hole.
    pub hole: bool,
    /// Next byte expected.
    pub next: u64,
    /// Bytes in order since the last acknowledgement.
    pub unacknowledged: u64,
    /// The window can be offered in full although something is not read yet.
    pub roomy: bool,
    /// The application has read all there is.
    pub read: bool,
}

impl Arrived {
    /// As one with what came directly behind it.
    pub const fn with(self, behind: Self) -> Self {
        Self {
            in_order: self.in_order || behind.in_order,
            filled: self.filled || behind.filled,
            duplicate: self.duplicate || behind.duplicate,
            opened: self.opened || behind.opened,
            ce: self.ce || behind.ce,
            cwr: self.cwr || behind.cwr,
            ..behind
        }
    }
}

/// The policy's state.
#[derive(Clone, Debug)]
pub struct AckPolicy {
    mss: u64,
    compression_delay: Nanos,
    compression_count: u32,
    quick: u32,
    /// Delay for now; zero before the first segment.
    ato: Nanos,
    last_arrival: Time,
    /// `Time::MAX`: none is delayed, nor compressed.
    delayed_until: Time,
    compressed: u32,
    compressed_until: Time,
    /// One is sent when the application reads (`tcp_cleanup_rbuf`).
    when_read: bool,
    /// Out-of-order segments since the next byte expected was this one.
    beyond: (u64, u32),
}

impl AckPolicy {
    /// At the start of a connection.
    pub fn new(config: &ReceiverConfig) -> Self {
        Self {
            mss: u64::from(config.mss),
            compression_delay: config.sack_compression_delay,
            compression_count: config.sack_compression_count,
            quick: 0,
            ato: Nanos::ZERO,
            last_arrival: Time::ZERO,
            delayed_until: Time::MAX,
            compressed: 0,
            compressed_until: Time::MAX,
            when_read: false,
            beyond: (0, 0),
        }
    }

    /// A segment arrived; whether to acknowledge at once. `rtt` as the receiver knows it.
    pub fn on_segment(&mut self, now: Time, arrived: Arrived, rtt: Option<Nanos>) -> bool {
        if arrived.in_order {
            self.pace_delay(now, rtt);
        }
        if arrived.duplicate {
            self.quick = self.quick.max(QUICK_ACKS);
            self.ato = ATO_MIN;
        }
        if arrived.ce {
            self.quick = self.quick.max(QUICK_ACKS_CE);
        }
        if arrived.opened {
            self.quick |= 1; // the sender should learn of a larger window
        }
        if arrived.filled || arrived.cwr || self.quick > 0 || (arrived.unacknowledged > self.mss && arrived.roomy) {
            return true;
        }
        self.when_read |= arrived.unacknowledged > self.mss || (arrived.pushed && arrived.in_order);
        if arrived.hole {
            return self.compress(now, arrived.next, rtt) || (self.when_read && arrived.read);
        }
        if self.when_read { arrived.read } else { self.delay(now, rtt) }
    }

    /// How long to wait follows the spacing of the segments.
    fn pace_delay(&mut self, now: Time, rtt: Option<Nanos>) {
        let gap = now.since(self.last_arrival);
        let rto = rtt.unwrap_or(Nanos::ZERO) + DELAY_MAX;
        if self.ato == Nanos::ZERO {
            self.quick = QUICK_ACKS;
            self.ato = ATO_MIN;
        } else if gap.0 <= ATO_MIN.0 / 2 {
            self.ato = Nanos(self.ato.0 / 2 + ATO_MIN.0 / 2);
        } else if gap < self.ato {
            self.ato = Nanos(self.ato.0 / 2 + gap.0).min(rto);
        } else if gap > rto {
            // The sender was silent for long: it starts slowly, and waits for us.
            self.quick = self.quick.max(QUICK_ACKS);
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
        if self.beyond.0 != next {
            self.beyond = (next, 0);
        }
        if self.beyond.1 < UNCOMPRESSED {
            self.beyond.1 += 1;
            return true;
        }
        self.compressed += 1;
        let delay = self.compression_delay.min(Nanos(rtt.unwrap_or(Nanos::ZERO).0 / 20));
        self.compressed_until = self.compressed_until.min(now + delay);
        false
    }

    /// Whether one that reports blocks waits to be joined by more. It must not wait until its blocks are out of reach (`tcp_sack_new_ofo_skb`,
    /// `tcp_sack_compress_send_ack`).
    pub const fn is_compressing(&self) -> bool {
        self.compressed > 0
    }

    /// An acknowledgement left.
    pub const fn on_ack_sent(&mut self) {
        self.quick = self.quick.saturating_sub(1);
        self.delayed_until = Time::MAX;
        self.compressed = 0;
        self.compressed_until = Time::MAX;
        self.when_read = false;
    }

    /// When one is due that waits.
    pub fn due_at(&self) -> Option<Time> {
        let due = self.delayed_until.min(self.compressed_until);
        (due != Time::MAX).then_some(due)
    }

    /// Whether one is due. One that was delayed for nothing makes the next wait longer.
    pub fn on_wake(&mut self, now: Time, rtt: Option<Nanos>) -> bool {
        if self.delayed_until <= now {
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

    fn in_order(unacknowledged: u64) -> Arrived {
        Arrived {
            in_order: true,
            filled: false,
            duplicate: false,
            pushed: false,
            opened: false,
            ce: false,
            cwr: false,
            hole: false,
            next: 0,
            unacknowledged,
            roomy: true,
            read: true,
        }
    }

    fn beyond_hole() -> Arrived {
        Arrived { in_order: false, hole: true, ..in_order(0) }
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
    fn a_short_segment_a_filled_hole_and_a_duplicate_are_acknowledged_at_once() {
        let mut policy = steady();
        assert!(policy.on_segment(us(0), Arrived { pushed: true, ..in_order(100) }, RTT));
        assert!(policy.on_segment(us(0), Arrived { filled: true, ..in_order(MSS) }, RTT));
        let mut policy = steady();
        assert!(policy.on_segment(us(0), Arrived { in_order: false, duplicate: true, ..in_order(0) }, RTT));
        policy.on_ack_sent();
        assert!(policy.on_segment(us(0), in_order(MSS), RTT), "and the next fifteen too");
    }

    #[test]
    fn three_out_of_order_acks_are_immediate_then_compressed_to_one_per_min_of_1_ms_and_a_twentieth_of_rtt() {
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
