//! The send buffer: how far the application may write ahead of the network.
//!
//! Source: Linux `tcp_sndbuf_expand`, `tcp_new_space` (`net/ipv4/tcp_input.c`), `sk_stream_write_space`, `tcp_sendmsg_locked`. The buffer
//! counts memory, not payload. An application that found it full sleeps until a third of it is free.
//!
//! The application writes as iperf3 does: it waits until the socket is writable, then makes ten writes of 128 kB, or fewer if one would block.
//! Each write is sent, as far as it may, before the next. A write is not a whole number of segments or bursts, so the skbs of an open window
//! are a little smaller than the largest. That decides on which side of a third the buffer is when a whole round of writes has been
//! acknowledged.
//!
//! The check for room before each further write counts the earlier writes as still unsent. Linux 6.18 makes all ten writes even where the
//! memory of the bursts that left meanwhile would have stopped the ninth (a capture of CUBIC over 660 ms). A write that blocks would not be
//! limited by the buffer while the window is open: `tcp_sendmsg_locked` checks the limit only where a new skb begins.

use crate::config::SenderConfig;

/// Memory of an skb beyond its payload: `SO_MEMINFO` of a socket with one byte queued shows 833 bytes (Linux 6.18, x86-64).
const SKB_OVERHEAD: u64 = 832;
/// Bytes of one write: 128 kB (iperf3's default length).
const WRITE_BYTES: u64 = 1 << 17;
/// Writes between two checks whether the socket is writable (iperf3's `multisend`).
const WRITES_PER_ROUND: u64 = 10;
/// Fewest segments that the buffer has room for (`TCP_INIT_CWND`).
const MIN_SEGMENTS: u64 = 10;
/// Bytes that the largest skb reserves for headers (`MAX_TCP_HEADER` + 1, x86-64).
const HEADERS: u64 = 321;
/// For a peer whose largest window is at most this (`TCP_MSS_DEFAULT`), the limit is the whole window, else half of it.
const SMALL_WINDOW: u64 = 536;

/// Payload of a full skb for a peer whose largest window so far is `max_window`: at most half of that window (`tcp_xmit_size_goal`,
/// `tcp_bound_to_half_wnd`).
pub fn size_goal(config: &SenderConfig, max_window: u64) -> u64 {
    let mss = u64::from(config.mss);
    let skb_max = config.gso_max.0.saturating_sub(HEADERS);
    let half = if max_window > SMALL_WINDOW { max_window / 2 } else { max_window };
    (skb_max.min(half) / mss).max(1) * mss
}

/// The data that the application offered, and the part that the buffer accepted.
#[derive(Clone, Debug)]
pub struct SendBuffer {
    /// Size of the buffer [bytes of memory].
    limit: u64,
    max: u64,
    /// Memory assumed per segment.
    per_segment: u64,
    /// Payload of the largest skb, as `size_goal` has it [bytes].
    goal: u64,
    /// End of the data that the application has to send; `u64::MAX`: unlimited.
    offered: u64,
    /// End of the data written.
    written: u64,
    /// Writes left before the next check, the end of the current write, and the queue when this round of writes began.
    writes_left: u64,
    write_end: u64,
    queued_at_start: Queued,
    /// Whether the application waits for space.
    app_waits: bool,
    closed: bool,
}

/// Contents of the buffer.
#[derive(Clone, Copy, Debug)]
pub struct Queued {
    /// First byte not acknowledged.
    pub una: u64,
    /// Next byte to send.
    pub nxt: u64,
    /// Bursts outstanding, one skb each.
    pub bursts: u64,
}

impl SendBuffer {
    /// Create an empty buffer with room for the initial window.
    pub fn new(config: &SenderConfig, factor: u32) -> Self {
        let mut buffer = Self {
            limit: config.wmem_initial.0,
            max: config.wmem_max.0,
            per_segment: config.wmem_segment.0,
            goal: size_goal(config, u64::MAX),
            offered: 0,
            written: 0,
            writes_left: 0,
            write_end: 0,
            queued_at_start: Queued { una: 0, nxt: 0, bursts: 0 },
            app_waits: false,
            closed: false,
        };
        buffer.expand(u64::from(config.initial_window), factor);
        buffer
    }

    /// Offer `bytes` more to send.
    pub const fn offer(&mut self, bytes: u64) {
        self.offered = self.offered.saturating_add(bytes);
    }

    /// End of the data that the application has to send; `u64::MAX`: unlimited.
    pub const fn offered(&self) -> u64 {
        self.offered
    }

    /// Record that the application sends no more.
    pub const fn close(&mut self) {
        self.closed = true;
    }

    /// Whether the application closed.
    pub const fn is_closed(&self) -> bool {
        self.closed
    }

    /// Whether the application has data that the buffer has not accepted.
    pub const fn has_more(&self) -> bool {
        self.written < self.offered
    }

    /// Whether the application waits for space.
    pub const fn is_full(&self) -> bool {
        self.app_waits
    }

    /// Record that the application was woken: it no longer waits, though it has not written yet.
    pub const fn wake(&mut self) {
        self.app_waits = false;
    }

    /// End of the data written.
    pub const fn written(&self) -> u64 {
        self.written
    }

    /// Grow to hold `factor` windows of `cwnd` packets, up to the host's limit.
    pub fn expand(&mut self, cwnd: u64, factor: u32) {
        let target = u64::from(factor) * cwnd.max(MIN_SEGMENTS) * self.per_segment;
        self.limit = self.limit.max(target.min(self.max));
    }

    /// Set the payload of the largest skb after the peer's largest window changed.
    pub const fn set_goal(&mut self, goal: u64) {
        self.goal = goal;
    }

    /// Whether the application is within a round of writes.
    pub const fn is_writing(&self) -> bool {
        self.writes_left > 0 || self.written < self.write_end
    }

    /// Whether the application may write now: a third is free (`sk_stream_is_writeable`), or it is within a round of writes and there is room.
    pub fn may_write(&mut self, queued: Queued) -> bool {
        if !self.has_more() {
            return false;
        }
        if self.is_writing() {
            if self.memory(self.queued_at_start) < self.limit {
                return true;
            }
            self.end_round(); // the next write would block
        }
        // Payload alone usually decides, without a division.
        let payload = self.written.saturating_sub(queued.una);
        self.is_writable(payload) && self.is_writable(self.memory(queued))
    }

    const fn is_writable(&self, memory: u64) -> bool {
        memory < self.limit && self.limit - memory >= memory / 2
    }

    /// Make one write, or as much of it as there is room for. If nothing waits to be sent, the first skb is sent before the write goes on
    /// (`tcp_push_one`); the rest of that skb, which the `window` [bytes] did not admit, is filled up even if the buffer is full.
    pub fn write(&mut self, queued: Queued, window: u64) {
        if !self.is_writing() {
            self.writes_left = WRITES_PER_ROUND;
            self.queued_at_start = queued;
        }
        if self.written >= self.write_end {
            self.writes_left -= 1;
            self.write_end = self.offered.min(self.written.saturating_add(WRITE_BYTES));
        }
        let unsent = self.written.saturating_sub(queued.nxt);
        let end =
            if unsent == 0 && window < self.goal { self.write_end.min(self.written.saturating_add(self.goal)) } else { self.write_end };
        if !unsent.is_multiple_of(self.goal) {
            self.written = end.min(self.written + self.goal - unsent % self.goal);
        }
        while self.written < end {
            let memory = self.memory(self.queued_at_start);
            if memory >= self.limit {
                self.end_round();
                break;
            }
            let skbs = (self.limit - memory).div_ceil(self.goal + SKB_OVERHEAD);
            self.written = end.min(self.written + skbs * self.goal);
        }
        self.app_waits = self.has_more();
        if !self.app_waits {
            self.end_round();
        }
    }

    const fn end_round(&mut self) {
        (self.writes_left, self.write_end) = (0, self.written);
    }

    const fn memory(&self, queued: Queued) -> u64 {
        let unsent = self.written.saturating_sub(queued.nxt);
        (self.written.saturating_sub(queued.una)) + SKB_OVERHEAD * (queued.bursts + unsent.div_ceil(self.goal))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bentpipe_profile::Bytes;

    const EMPTY: Queued = Queued { una: 0, nxt: 0, bursts: 0 };

    fn bulk(max: u64, factor: u32) -> SendBuffer {
        let mut buffer = SendBuffer::new(&SenderConfig { wmem_max: Bytes(max), ..SenderConfig::default() }, factor);
        buffer.offer(u64::MAX);
        buffer
    }

    #[test]
    fn sndbuf_starts_at_87040_bytes_and_grows_to_twice_cwnd_in_truesize_up_to_its_cap() {
        let mut buffer = bulk(4_194_304, 2);
        assert_eq!(buffer.limit, 87_040, "as on every Linux host: 2 x 10 x 4352");
        buffer.expand(100, 2);
        assert_eq!(buffer.limit, 870_400);
        buffer.expand(50, 2);
        assert_eq!(buffer.limit, 870_400, "it never shrinks");
        buffer.expand(10_000, 2);
        assert_eq!(buffer.limit, 4_194_304);
        assert_eq!(bulk(4_194_304, 3).limit, 130_560, "BBR: three windows");
    }

    /// Write while the buffer allows it, without sending anything.
    fn fill(buffer: &mut SendBuffer, queued: Queued) {
        while buffer.may_write(queued) {
            buffer.write(queued, u64::MAX);
        }
    }

    #[test]
    fn a_bulk_application_fills_the_buffer_and_wakes_when_a_third_is_free() {
        let mut buffer = bulk(87_040, 2);
        fill(&mut buffer, EMPTY);
        assert!(buffer.is_full() && buffer.memory(EMPTY) >= 87_040);
        let written = buffer.written();
        let acked = |una| Queued { una, nxt: written, bursts: 0 };
        assert!(!buffer.may_write(acked(written - 60_000)));
        assert!(buffer.may_write(acked(written - 58_000)), "two thirds of 87040 is 58026");
    }

    #[test]
    fn an_application_makes_ten_writes_between_checks() {
        let mut buffer = bulk(4_194_304, 2);
        buffer.expand(10_000, 2);
        buffer.write(EMPTY, u64::MAX);
        assert_eq!((buffer.written(), buffer.is_writing()), (WRITE_BYTES, true), "the other nine follow");
        fill(&mut buffer, EMPTY);
        let first = buffer.written();
        assert!(
            first >= 2 * WRITES_PER_ROUND * WRITE_BYTES && buffer.is_full() && !buffer.is_writing(),
            "no room is left after two rounds: {first}"
        );
        let una = first - 2_700_000;
        fill(&mut buffer, Queued { una, nxt: first, bursts: 0 });
        assert_eq!(buffer.written(), first + WRITES_PER_ROUND * WRITE_BYTES, "ten writes, although more is free");
    }

    #[test]
    fn an_application_that_would_block_within_a_round_waits_for_a_third() {
        let mut buffer = bulk(400_000, 2);
        buffer.expand(10_000, 2);
        fill(&mut buffer, EMPTY);
        let written = buffer.written();
        assert!(!buffer.is_writing() && written < WRITES_PER_ROUND * WRITE_BYTES);
        assert!(
            !buffer.may_write(Queued { una: written - 390_000, nxt: written, bursts: 0 }),
            "the application waits although there is room"
        );
    }

    #[test]
    fn an_application_of_a_given_size_writes_exactly_that_size() {
        let mut buffer = SendBuffer::new(&SenderConfig::default(), 2);
        buffer.offer(1000);
        buffer.write(EMPTY, u64::MAX);
        assert_eq!(buffer.written(), 1000);
        assert!(!buffer.is_full() && !buffer.has_more());
    }
}
