//! Receive buffer autotuning, and the receive window.
//!
//! Source: Linux 6.18 `tcp_rcv_space_adjust`, `tcp_rcvbuf_grow`, `tcp_grow_window`, `tcp_rcv_rtt_measure_ts`, `tcp_select_initial_window`. The
//! buffer holds out-of-order data and data that the application has not read.

use crate::config::ReceiverConfig;
use crate::wire::FIRST_WINDOW_MAX;
use bentpipe_profile::{Nanos, Time};

/// Scaling ratios are in 1/256 of the memory (`TCP_RMEM_TO_WIN_SCALE`).
const SCALE_SHIFT: u32 = 8;
/// Ratio of window to memory before the first full segment: half (`TCP_DEFAULT_SCALING_RATIO`).
const DEFAULT_RATIO: u64 = 1 << (SCALE_SHIFT - 1);
/// Segments in the first measurement of bytes read per RTT (`TCP_INIT_CWND`).
const FIRST_SPACE_SEGMENTS: u64 = 10;
/// Segments shorter than this do not enlarge the window (`tcp_event_data_recv`).
const MIN_OPENING_LEN: u32 = 128;

/// Receive buffer and window of a connection.
#[derive(Clone, Debug)]
pub struct ReceiveBuffer {
    mss: u64,
    truesize: u64,
    max: u64,
    ratio: u64,
    /// Size of the buffer [bytes of memory].
    buffer: u64,
    /// Largest window that fits into the buffer (`window_clamp`).
    clamp: u64,
    /// Largest window offered at present (`rcv_ssthresh`).
    ssthresh: u64,
    /// RTT from the echoes of the receiver's timestamps; `None`: not known.
    rtt: Option<Nanos>,
    last_echo: Option<Time>,
    /// The current RTT: its start, its first byte, and the bytes read per RTT that the buffer was last sized for (`rcvq_space`).
    round_start: Time,
    round_seq: u64,
    space: u64,
}

impl ReceiveBuffer {
    /// Create the buffer of a new connection.
    pub fn new(config: &ReceiverConfig) -> Self {
        let mss = u64::from(config.mss);
        let mut buffer = Self {
            mss,
            truesize: config.segment_truesize.0,
            max: config.rmem_max.0,
            ratio: DEFAULT_RATIO,
            buffer: config.rmem_initial.0,
            clamp: 0,
            ssthresh: 0,
            rtt: None,
            last_echo: None,
            round_start: Time::ZERO,
            round_seq: 0,
            space: 0,
        };
        buffer.clamp = buffer.window_of(buffer.buffer);
        buffer.ssthresh = buffer.clamp.min(FIRST_WINDOW_MAX);
        buffer.space = buffer.ssthresh.min(FIRST_SPACE_SEGMENTS * mss);
        buffer
    }

    /// Return the window from the next byte expected on, with `held` bytes out of order or unread.
    pub fn window(&self, held: u64) -> u64 {
        self.room(held).min(self.ssthresh)
    }

    /// The RTT, if known.
    pub const fn rtt(&self) -> Option<Nanos> {
        self.rtt
    }

    /// Process a data segment that echoes `ts_ecr`: measure the RTT and the memory per segment.
    pub fn on_segment(&mut self, now: Time, len: u32, ts_ecr: Time) {
        if self.last_echo == Some(ts_ecr) {
            return;
        }
        self.last_echo = Some(ts_ecr);
        if u64::from(len) < self.mss {
            return;
        }
        let sample = now.since(ts_ecr);
        self.rtt = Some(match self.rtt {
            // A lower sample counts at once, a higher one by an eighth.
            Some(rtt) if sample > rtt => Nanos(rtt.0 + (sample.0 - rtt.0) / 8),
            _ => sample,
        });
        if self.ratio == DEFAULT_RATIO {
            self.ratio = ((u64::from(len) << SCALE_SHIFT) / self.truesize).clamp(1, (1 << SCALE_SHIFT) - 1);
            self.clamp = self.window_of(self.buffer);
            self.space = self.space.min(self.clamp);
        }
    }

    /// Enlarge the window for an in-order segment by twice its length, up to what fits. Returns whether it grew.
    pub fn grow_window(&mut self, len: u32, held: u64) -> bool {
        let room = self.room(held).saturating_sub(self.ssthresh);
        if len < MIN_OPENING_LEN || room == 0 {
            return false;
        }
        self.ssthresh += room.min(2 * self.mss.max(u64::from(len)));
        true
    }

    /// Record that the application read up to `next`; once per RTT, adjust the buffer to the bytes read.
    pub fn on_read(&mut self, now: Time, next: u64, out_of_order_span: u64) {
        let Some(rtt) = self.rtt else { return };
        if now.since(self.round_start) < rtt {
            return;
        }
        let copied = next - self.round_seq;
        if copied > self.space {
            self.grow(copied, out_of_order_span);
        }
        self.round_start = now;
        self.round_seq = next;
    }

    /// Grow the buffer to make room for out-of-order data besides.
    pub fn on_out_of_order(&mut self, out_of_order_span: u64) {
        self.grow(self.space, out_of_order_span);
    }

    /// Make room for twice the bytes read in an RTT, plus twice their growth, because the sender may double its rate.
    fn grow(&mut self, copied: u64, out_of_order_span: u64) {
        let before = std::mem::replace(&mut self.space, copied);
        let mut window = 2 * copied;
        if copied > before {
            window += 2 * (window * (copied - before) / before.max(1));
        }
        window += out_of_order_span;
        let buffer = ((window << SCALE_SHIFT) / self.ratio).min(self.max);
        if buffer > self.buffer {
            self.buffer = buffer;
            self.clamp = self.window_of(buffer);
        }
    }

    fn window_of(&self, memory: u64) -> u64 {
        (memory * self.ratio) >> SCALE_SHIFT
    }

    fn room(&self, held: u64) -> u64 {
        self.clamp.saturating_sub(held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bentpipe_profile::Bytes;

    const MSS: u32 = 1448;
    const fn ms(n: u64) -> Time {
        Time(n * 1_000_000)
    }

    /// Read `segments` full segments per RTT of 50 ms.
    fn read(buffer: &mut ReceiveBuffer, rounds: u64, segments: u64) {
        for _ in 0..rounds {
            let (start, from) = (buffer.round_start + Nanos::from_millis(60), buffer.round_seq);
            for i in 1..=segments {
                buffer.on_segment(start, MSS, Time(start.0 - 50_000_000 - i));
                buffer.grow_window(MSS, 0);
            }
            buffer.on_read(start, from + segments * u64::from(MSS), 0);
        }
    }

    #[test]
    fn rcvbuf_offers_64_kb_at_first() {
        let buffer = ReceiveBuffer::new(&ReceiverConfig::default());
        assert_eq!(buffer.window(0), 65_535);
        assert_eq!(buffer.window(60_000), 5_536, "out-of-order data takes room");
    }

    #[test]
    fn rcvbuf_grows_to_twice_the_bytes_read_per_rtt() {
        let mut buffer = ReceiveBuffer::new(&ReceiverConfig::default());
        read(&mut buffer, 40, 1000);
        let copied = 1000 * u64::from(MSS);
        assert!(buffer.window(0) >= 2 * copied, "{} for {copied} an RTT", buffer.window(0));
        let steady = buffer.buffer;
        read(&mut buffer, 40, 1000);
        assert_eq!(buffer.buffer, steady, "it does not grow while the rate does not");
    }

    #[test]
    fn rcvbuf_is_capped_by_rmem_max() {
        let mut buffer = ReceiveBuffer::new(&ReceiverConfig { rmem_max: Bytes(6_291_456), ..ReceiverConfig::default() });
        read(&mut buffer, 100, 20_000);
        assert_eq!(buffer.buffer, 6_291_456);
        assert_eq!(buffer.window(0), 6_291_456 * 160 / 256, "1448 bytes in 2304 of memory");
    }

    #[test]
    fn receive_rtt_follows_lower_samples_at_once_and_higher_ones_by_an_eighth() {
        let mut buffer = ReceiveBuffer::new(&ReceiverConfig::default());
        buffer.on_segment(ms(100), MSS, ms(20));
        buffer.on_segment(ms(140), MSS, ms(100));
        assert_eq!(buffer.rtt(), Some(Nanos::from_millis(40)));
        buffer.on_segment(ms(220), MSS, ms(140));
        assert_eq!(buffer.rtt(), Some(Nanos::from_millis(45)));
        buffer.on_segment(ms(900), MSS, ms(140));
        assert_eq!(buffer.rtt(), Some(Nanos::from_millis(45)), "an echo counts once");
    }
}
