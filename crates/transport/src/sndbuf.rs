//! The send buffer: how far ahead of the network the application may write.
//!
//! Source: Linux `tcp_sndbuf_expand`, `tcp_new_space` (`net/ipv4/tcp_input.c`), `sk_stream_write_space`, `tcp_sendmsg_locked`. The buffer counts memory, not
//! payload; an application that found it full sleeps until a third of it is free.
//!
//! The application writes as iperf3 does: it waits until the socket is writable, then writes ten pieces of 128 kB, or until that would block. Each piece leaves, as
//! far as it may, before the next is written: a piece is no whole number of segments, nor of bursts, and so the skbs of an open window are a little smaller than
//! the largest, which decides on which side of a third the buffer is when a whole round of writes has been acknowledged. Whether there is room for the next piece
//! is asked as if what was written before it still lay there unsent: behind Linux 6.18 all ten are written also where the memory of the bursts that left meanwhile
//! would have stopped the ninth (a capture of CUBIC over 660 ms). One that blocks in
//! `write` would not be held back by the buffer while the window is open: `tcp_sendmsg_locked` looks at the limit only where a new skb begins.

use crate::config::SenderConfig;

/// Memory of an skb besides its payload: `SO_MEMINFO` of a socket with one byte queued shows 833 bytes (Linux 6.18, x86-64).
const SKB_OVERHEAD: u64 = 832;
/// What an application writes in one call: 128 kB (iperf3's default length).
const PIECE: u64 = 1 << 17;
/// How many of them between two looks at whether there is room (iperf3's `multisend`).
const WRITES: u64 = 10;
/// Segments that the buffer allows for at least (`TCP_INIT_CWND`).
const MIN_SEGMENTS: u64 = 10;
/// Room that the largest skb keeps for headers (`MAX_TCP_HEADER` + 1, x86-64).
const HEADERS: u64 = 321;
/// Of a peer whose largest window is no more than this (`TCP_MSS_DEFAULT`), all of it counts, else half.
const SMALL_WINDOW: u64 = 536;

/// Payload of a full skb towards a peer whose largest window so far is `max_window`: no more than half of that (`tcp_xmit_size_goal`, `tcp_bound_to_half_wnd`).
pub fn size_goal(config: &SenderConfig, max_window: u64) -> u64 {
    let mss = u64::from(config.mss);
    let most = config.gso_max.0.saturating_sub(HEADERS);
    let half = if max_window > SMALL_WINDOW { max_window / 2 } else { max_window };
    (most.min(half) / mss).max(1) * mss
}

/// What the application gave and the buffer took.
#[derive(Clone, Debug)]
pub struct SendBuffer {
    /// Size [bytes of memory].
    limit: u64,
    max: u64,
    /// Memory that one segment is assumed to take.
    per_segment: u64,
    /// Largest skb, as `size_goal` has it [bytes of payload].
    goal: u64,
    /// End of what the application has to send; `u64::MAX`: there is always more.
    offered: u64,
    /// End of what it wrote.
    written: u64,
    /// Pieces that it still writes before it looks again, where the one under way ends, and what there was when it began.
    pieces: u64,
    piece_end: u64,
    begun: Queued,
    /// Whether it waits for space.
    waiting: bool,
    closed: bool,
}

/// What the buffer holds.
#[derive(Clone, Copy, Debug)]
pub struct Queued {
    /// First byte not acknowledged.
    pub una: u64,
    /// Next byte to send.
    pub nxt: u64,
    /// Bursts outstanding, an skb each.
    pub bursts: u64,
}

impl SendBuffer {
    /// Empty, with room for the initial window.
    pub fn new(config: &SenderConfig, factor: u32) -> Self {
        let mut buffer = Self {
            limit: config.wmem_initial.0,
            max: config.wmem_max.0,
            per_segment: config.wmem_segment.0,
            goal: size_goal(config, u64::MAX),
            offered: 0,
            written: 0,
            pieces: 0,
            piece_end: 0,
            begun: Queued { una: 0, nxt: 0, bursts: 0 },
            waiting: false,
            closed: false,
        };
        buffer.expand(u64::from(config.initial_window), factor);
        buffer
    }

    /// The application has more to send.
    pub const fn offer(&mut self, bytes: u64) {
        self.offered = self.offered.saturating_add(bytes);
    }

    /// The application has no more to send.
    pub const fn close(&mut self) {
        self.closed = true;
    }

    /// Whether it closed.
    pub const fn is_closed(&self) -> bool {
        self.closed
    }

    /// Whether it has something to send that the buffer has not taken.
    pub const fn has_more(&self) -> bool {
        self.written < self.offered
    }

    /// Whether the application waits for space.
    pub const fn is_full(&self) -> bool {
        self.waiting
    }

    /// The application is woken: it does not wait any more, though it has not written yet.
    pub const fn wake(&mut self) {
        self.waiting = false;
    }

    /// End of what was written.
    pub const fn written(&self) -> u64 {
        self.written
    }

    /// Room for `factor` windows of `cwnd` packets, up to the limit of the host.
    pub fn expand(&mut self, cwnd: u64, factor: u32) {
        let wanted = u64::from(factor) * cwnd.max(MIN_SEGMENTS) * self.per_segment;
        self.limit = self.limit.max(wanted.min(self.max));
    }

    /// The peer's largest window changed: so does the largest skb.
    pub const fn set_goal(&mut self, goal: u64) {
        self.goal = goal;
    }

    /// Whether the application is amid the pieces that it writes at once.
    pub const fn is_writing(&self) -> bool {
        self.pieces > 0 || self.written < self.piece_end
    }

    /// Whether the application may write now: a third is free (`sk_stream_is_writeable`), or it is amid its pieces and there is room.
    pub fn may_write(&mut self, queued: Queued) -> bool {
        if !self.has_more() {
            return false;
        }
        if self.is_writing() {
            if self.memory(self.begun) < self.limit {
                return true;
            }
            self.stop_writing(); // it would block
        }
        // Payload alone mostly tells: no division then.
        let payload = self.written.saturating_sub(queued.una);
        self.is_writable(payload) && self.is_writable(self.memory(queued))
    }

    const fn is_writable(&self, memory: u64) -> bool {
        memory < self.limit && self.limit - memory >= memory / 2
    }

    /// The application writes a piece, or what of it there is room for. Where nothing waits to be sent, the first skb leaves before the piece goes on
    /// (`tcp_push_one`), and what the `window` [bytes] did not let go of it is filled up, whatever there is room for.
    pub fn write(&mut self, queued: Queued, window: u64) {
        if !self.is_writing() {
            self.pieces = WRITES;
            self.begun = queued;
        }
        if self.written >= self.piece_end {
            self.pieces -= 1;
            self.piece_end = self.offered.min(self.written.saturating_add(PIECE));
        }
        let unsent = self.written.saturating_sub(queued.nxt);
        let end =
            if unsent == 0 && window < self.goal { self.piece_end.min(self.written.saturating_add(self.goal)) } else { self.piece_end };
        if !unsent.is_multiple_of(self.goal) {
            self.written = end.min(self.written + self.goal - unsent % self.goal);
        }
        while self.written < end {
            let memory = self.memory(self.begun);
            if memory >= self.limit {
                self.stop_writing();
                break;
            }
            let skbs = (self.limit - memory).div_ceil(self.goal + SKB_OVERHEAD);
            self.written = end.min(self.written + skbs * self.goal);
        }
        self.waiting = self.has_more();
        if !self.waiting {
            self.stop_writing();
        }
    }

    const fn stop_writing(&mut self) {
        (self.pieces, self.piece_end) = (0, self.written);
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
        assert_eq!(buffer.limit, 87_040, "the figure of every Linux host: 2 x 10 x 4352");
        buffer.expand(100, 2);
        assert_eq!(buffer.limit, 870_400);
        buffer.expand(50, 2);
        assert_eq!(buffer.limit, 870_400, "it never shrinks");
        buffer.expand(10_000, 2);
        assert_eq!(buffer.limit, 4_194_304);
        assert_eq!(bulk(4_194_304, 3).limit, 130_560, "BBR: three windows");
    }

    /// Writes while it may, and nothing leaves.
    fn fill(buffer: &mut SendBuffer, queued: Queued) {
        while buffer.may_write(queued) {
            buffer.write(queued, u64::MAX);
        }
    }

    #[test]
    fn a_bulk_application_fills_it_and_wakes_when_a_third_is_free() {
        let mut buffer = bulk(87_040, 2);
        fill(&mut buffer, EMPTY);
        assert!(buffer.is_full() && buffer.memory(EMPTY) >= 87_040);
        let written = buffer.written();
        let acked = |una| Queued { una, nxt: written, bursts: 0 };
        assert!(!buffer.may_write(acked(written - 60_000)));
        assert!(buffer.may_write(acked(written - 58_000)), "two thirds of 87040 is 58026");
    }

    #[test]
    fn an_application_writes_ten_pieces_and_looks_again() {
        let mut buffer = bulk(4_194_304, 2);
        buffer.expand(10_000, 2);
        buffer.write(EMPTY, u64::MAX);
        assert_eq!((buffer.written(), buffer.is_writing()), (PIECE, true), "one after the other");
        fill(&mut buffer, EMPTY);
        let first = buffer.written();
        assert!(first >= 2 * WRITES * PIECE && buffer.is_full() && !buffer.is_writing(), "after two thirds it finds no room: {first}");
        let una = first - 2_700_000;
        fill(&mut buffer, Queued { una, nxt: first, bursts: 0 });
        assert_eq!(buffer.written(), first + WRITES * PIECE, "less than what is free");
    }

    #[test]
    fn one_that_would_block_amid_its_pieces_waits_for_a_third() {
        let mut buffer = bulk(400_000, 2);
        buffer.expand(10_000, 2);
        fill(&mut buffer, EMPTY);
        let written = buffer.written();
        assert!(!buffer.is_writing() && written < WRITES * PIECE);
        assert!(!buffer.may_write(Queued { una: written - 390_000, nxt: written, bursts: 0 }), "though there is room");
    }

    #[test]
    fn an_application_of_given_size_writes_exactly_that() {
        let mut buffer = SendBuffer::new(&SenderConfig::default(), 2);
        buffer.offer(1000);
        buffer.write(EMPTY, u64::MAX);
        assert_eq!(buffer.written(), 1000);
        assert!(!buffer.is_full() && !buffer.has_more());
    }
}
