//! Congestion window of a window-based controller, counted in packets as in the kernel: the one implementation of slow start, additive increase, reduction
//! and undo.

use bentpipe_profile::Bytes;

/// Most packets in a window: `snd_cwnd_clamp` is a `u32` (Linux `include/linux/tcp.h`).
const CLAMP_PACKETS: u64 = u32::MAX as u64;

/// No threshold yet (`TCP_INFINITE_SSTHRESH`, Linux `include/net/tcp.h`).
const NO_THRESHOLD: u64 = u64::MAX;

/// Returns the number of packets that hold `bytes`. The last segment of a flow may be short; the kernel counts it as one.
#[must_use]
pub fn packets(bytes: Bytes, mss: u32) -> u64 {
    bytes.0.div_ceil(u64::from(mss))
}

/// Returns the packets newly delivered, lost or in flight, at most the largest window.
#[must_use]
pub fn clamped_packets(bytes: Bytes, mss: u32) -> u64 {
    packets(bytes, mss).min(CLAMP_PACKETS)
}

/// `snd_cwnd`, `snd_cwnd_cnt`, `snd_ssthresh`, and the values that undo restores (`prior_cwnd`, `prior_ssthresh`).
#[derive(Clone, Debug)]
pub struct PacketWindow {
    mss: u32,
    cwnd: u64,
    /// Packets acknowledged since the window last grew by additive increase.
    count: u64,
    ssthresh: u64,
    prior: Option<Prior>,
}

#[derive(Clone, Copy, Debug)]
struct Prior {
    cwnd: u64,
    ssthresh: u64,
}

impl PacketWindow {
    /// Creates a window of `initial` bytes, in slow start.
    #[must_use]
    pub fn new(mss: u32, initial: Bytes) -> Self {
        let cwnd = packets(initial, mss).clamp(1, CLAMP_PACKETS);
        Self { mss, cwnd, count: 0, ssthresh: NO_THRESHOLD, prior: None }
    }

    /// Returns the window [packets].
    #[must_use]
    pub const fn cwnd_packets(&self) -> u64 {
        self.cwnd
    }

    /// Returns the window.
    #[must_use]
    pub fn cwnd(&self) -> Bytes {
        Bytes(self.cwnd * u64::from(self.mss))
    }

    /// Returns the slow-start threshold; `Bytes::MAX`: not set yet.
    #[must_use]
    pub fn ssthresh(&self) -> Bytes {
        if self.ssthresh == NO_THRESHOLD { Bytes::MAX } else { Bytes(self.ssthresh * u64::from(self.mss)) }
    }

    /// Sets the window, on behalf of the sender.
    pub fn set_cwnd(&mut self, cwnd: Bytes) {
        self.cwnd = packets(cwnd, self.mss).clamp(1, CLAMP_PACKETS);
    }

    /// Sets the window [packets], on behalf of the controller.
    pub fn set_cwnd_packets(&mut self, packets: u64) {
        self.cwnd = packets.clamp(1, CLAMP_PACKETS);
    }

    /// Returns the slow-start threshold [packets].
    #[must_use]
    pub const fn ssthresh_packets(&self) -> u64 {
        self.ssthresh
    }

    /// Sets the threshold, on behalf of the sender.
    pub fn set_ssthresh(&mut self, ssthresh: Bytes) {
        self.ssthresh = if ssthresh == Bytes::MAX { NO_THRESHOLD } else { clamped_packets(ssthresh, self.mss) };
    }

    /// Ends slow start at the current window (`HyStart`).
    pub const fn leave_slow_start(&mut self) {
        self.ssthresh = self.cwnd;
    }

    /// Returns whether the window is below the threshold (`tcp_in_slow_start`).
    #[must_use]
    pub const fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Adds a packet per packet acknowledged, up to the threshold (`tcp_slow_start`; RFC 5681 §3.1 with RFC 3465's L unbounded, as in Linux).
    /// Returns the acknowledged packets left over.
    pub fn slow_start(&mut self, acked: u64) -> u64 {
        let cwnd = (self.cwnd + acked).min(self.ssthresh);
        let left = acked - (cwnd - self.cwnd);
        self.cwnd = cwnd.min(CLAMP_PACKETS);
        left
    }

    /// Adds a packet per `per` packets acknowledged (`tcp_cong_avoid_ai`).
    pub fn additive_increase(&mut self, per: u64, acked: u64) {
        // Credit earned at a larger window is worth one packet now, not several.
        if self.count >= per {
            self.count = 0;
            self.cwnd += 1;
        }
        self.count += acked;
        self.cwnd = (self.cwnd + self.count / per).min(CLAMP_PACKETS);
        self.count %= per;
    }

    /// Begins a reduction to this threshold [packets]; saves window and threshold for undo (`tcp_init_cwnd_reduction`, `tcp_enter_loss`).
    pub fn reduce(&mut self, ssthresh_packets: u64) {
        // tcp_current_ssthresh: at least three quarters of the window.
        let ssthresh = self.ssthresh.max(self.cwnd / 2 + self.cwnd / 4);
        self.prior = Some(Prior { cwnd: self.cwnd, ssthresh });
        self.ssthresh = ssthresh_packets;
        self.count = 0;
    }

    /// Counts an ACK that raised the window by less than a packet (Hybla's use of `snd_cwnd_cnt`). Returns how many there were in a row.
    pub const fn count_ack(&mut self) -> u64 {
        self.count += 1;
        self.count
    }

    /// Restarts the count of additive increase from zero (`tcp_enter_loss`).
    pub const fn reset_count(&mut self) {
        self.count = 0;
    }

    /// Undoes a spurious reduction (`tcp_undo_cwnd_reduction` with `tcp_reno_undo_cwnd`).
    pub fn undo(&mut self) {
        if let Some(prior) = self.prior.take() {
            self.cwnd = self.cwnd.max(prior.cwnd);
            self.ssthresh = self.ssthresh.max(prior.ssthresh);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MSS: u32 = 1448;

    fn window(packets: u64) -> PacketWindow {
        PacketWindow::new(MSS, Bytes(packets * u64::from(MSS)))
    }

    #[test]
    fn slow_start_stops_at_the_threshold_and_returns_the_rest() {
        let mut w = window(10);
        assert_eq!(w.slow_start(10), 0);
        assert_eq!(w.cwnd_packets(), 20);
        w.set_ssthresh(Bytes(25 * u64::from(MSS)));
        assert_eq!(w.slow_start(8), 3);
        assert_eq!(w.cwnd_packets(), 25);
        assert!(!w.in_slow_start());
    }

    #[test]
    fn additive_increase_counts_packets_not_acks() {
        let mut w = window(10);
        for _ in 0..4 {
            w.additive_increase(10, 2);
        }
        assert_eq!(w.cwnd_packets(), 10);
        w.additive_increase(10, 2);
        assert_eq!(w.cwnd_packets(), 11);
    }

    #[test]
    fn credit_earned_at_a_larger_window_is_worth_one_packet() {
        let mut w = window(100);
        w.additive_increase(100, 90);
        w.additive_increase(10, 1);
        assert_eq!((w.cwnd_packets(), w.count), (101, 1));
    }

    #[test]
    fn undo_restores_window_and_threshold_only_once() {
        let mut w = window(100);
        w.reduce(70);
        w.set_cwnd(Bytes(70 * u64::from(MSS)));
        w.undo();
        assert_eq!((w.cwnd_packets(), w.ssthresh()), (100, Bytes::MAX));
        w.set_cwnd(Bytes(5 * u64::from(MSS)));
        w.undo();
        assert_eq!(w.cwnd_packets(), 5);
    }

    #[test]
    fn undo_restores_a_threshold_of_at_least_three_quarters_of_the_window() {
        let mut w = window(100);
        w.set_ssthresh(Bytes(50 * u64::from(MSS)));
        w.reduce(70);
        w.undo();
        assert_eq!(w.ssthresh(), Bytes(75 * u64::from(MSS)));
    }

    proptest! {
        #[test]
        fn additive_increase_adds_one_packet_per_so_many_acknowledged(start in 1_u64..1000, per in 1_u64..1000, acks in prop::collection::vec(1_u64..50, 1..200)) {
            let mut w = window(start);
            for &acked in &acks {
                w.additive_increase(per, acked);
            }
            prop_assert_eq!(w.cwnd_packets(), start + acks.iter().sum::<u64>() / per);
        }
    }
}
