//! Pacing: departure time and size of the next burst.
//!
//! Source: Linux `tcp_update_pacing_rate`, `tcp_update_skb_after_send`, `tcp_tso_autosize` (`net/ipv4/tcp_{input,output}.c`).

use crate::config::SenderConfig;
use bentpipe_profile::{Bytes, Nanos, Rate, Time};

/// Segments that leave unpaced at the start of a connection (`TCP_INIT_CWND` in `tcp_update_skb_after_send`).
const UNPACED_SEGMENTS: u64 = 10;
/// A burst lasts 2^-10 s at the pacing rate (`sk_pacing_shift`).
const BURST_SHIFT: u32 = 10;
/// Fewest segments in a burst (`tcp_min_tso_segs`).
const MIN_BURST_SEGMENTS: u32 = 2;
/// On paths with a short RTT bursts may be larger: by `gso_max` >> (min RTT in µs >> 9) (`tcp_tso_rtt_log`).
const RTT_LOG: u32 = 9;

/// Return the rate at which the host would pace a window-based controller: a multiple of cwnd / srtt.
pub fn window_rate(config: &SenderConfig, cwnd: u64, ssthresh: u64, packets_out: u64, srtt: Nanos) -> Rate {
    let percent = if cwnd < ssthresh / 2 { config.pacing_slow_start_percent } else { config.pacing_avoidance_percent };
    Rate::of(Bytes(cwnd.max(packets_out) * u64::from(config.mss) * percent / 100), srtt)
}

/// Return the number of segments in one burst at `rate`.
pub fn burst_segments(config: &SenderConfig, rate: Rate, min_rtt: Nanos, min_segments: Option<u32>) -> u32 {
    let mut bytes = (rate.0 / 8) >> BURST_SHIFT;
    let halvings = (min_rtt.0 / 1000) >> RTT_LOG;
    if halvings < u64::from(u32::BITS) {
        bytes += config.gso_max.0 >> halvings;
    }
    let segments = bytes.min(config.gso_max.0) / u64::from(config.mss);
    u32::try_from(segments).unwrap_or(u32::MAX).max(min_segments.unwrap_or(MIN_BURST_SEGMENTS))
}

/// The departure clock (`tcp_wstamp_ns`). The segments of a burst leave at once; the next burst waits for the transmission time of all of
/// them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pacer {
    /// Pacing rate; `None`: not paced.
    rate: Option<Rate>,
    next_departure: Time,
    /// Start of the current burst, and the segments that it may still send.
    burst_at: Time,
    burst_left: u32,
    /// Lateness of the current burst; each gap may recover up to half of itself from it.
    credit: Nanos,
    segments_sent: u64,
}

impl Pacer {
    /// Set the pacing rate.
    pub const fn set_rate(&mut self, rate: Option<Rate>) {
        self.rate = rate;
    }

    /// The pacing rate.
    pub const fn rate(&self) -> Option<Rate> {
        self.rate
    }

    /// Earliest departure of the next packet.
    pub const fn next_departure(&self) -> Time {
        self.next_departure
    }

    /// Time at which to try next; `None`: a packet may leave now.
    pub fn blocked_until(&self, now: Time) -> Option<Time> {
        let in_burst = self.burst_left > 0 && self.burst_at == now;
        (self.rate.is_some() && !in_burst && self.next_departure > now).then_some(self.next_departure)
    }

    /// Let the next packet leave at `at`, whatever the rate: the controller set its departure.
    pub const fn depart_at(&mut self, at: Time) {
        self.next_departure = at;
        self.burst_left = 0;
    }

    /// End the current burst.
    pub const fn end_burst(&mut self) {
        self.burst_left = 0;
    }

    /// Record that a segment of `len` bytes was sent; a new burst has `burst` segments.
    pub fn on_sent(&mut self, now: Time, len: u32, burst: u32) {
        self.segments_sent += 1;
        let Some(rate) = self.rate else { return };
        if self.burst_left == 0 || self.burst_at != now {
            self.burst_at = now;
            self.burst_left = burst.max(1);
            self.credit = now.since(self.next_departure);
            self.next_departure = self.next_departure.max(now);
        }
        self.burst_left -= 1;
        if self.segments_sent >= UNPACED_SEGMENTS {
            let gap = rate.time_for(Bytes(u64::from(len)));
            let recovered = Nanos(gap.0 / 2).min(self.credit);
            self.credit -= recovered;
            self.next_departure = self.next_departure + (gap - recovered);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate(11_584_000); // one segment of 1448 bytes a millisecond
    const LONG_RTT: Nanos = Nanos::from_millis(50);

    const fn ms(n: u64) -> Time {
        Time(n * 1_000_000)
    }

    fn paced() -> Pacer {
        let mut pacer = Pacer { segments_sent: UNPACED_SEGMENTS, ..Pacer::default() };
        pacer.set_rate(Some(RATE));
        pacer
    }

    #[test]
    fn pacing_is_200_percent_of_cwnd_over_srtt_in_early_slow_start_and_120_after() {
        let config = SenderConfig::default();
        let window = 100 * 1448 * 8 * 20; // 100 packets a 50 ms RTT [bit/s]
        assert_eq!(window_rate(&config, 100, 1000, 0, LONG_RTT), Rate(window * 2));
        assert_eq!(window_rate(&config, 100, 200, 0, LONG_RTT), Rate(window * 12 / 10), "half of ssthresh reached");
        assert_eq!(window_rate(&config, 50, 60, 100, LONG_RTT), Rate(window * 12 / 10), "packets out count if they are more than cwnd");
    }

    #[test]
    fn first_ten_segments_are_unpaced() {
        let mut pacer = Pacer::default();
        pacer.set_rate(Some(RATE));
        for _ in 0..10 {
            assert_eq!(pacer.blocked_until(ms(1)), None);
            pacer.on_sent(ms(1), 1448, 1);
        }
        assert_eq!(pacer.blocked_until(ms(1)), Some(ms(2)), "the tenth opens the first gap");
    }

    #[test]
    fn a_burst_leaves_at_once_and_the_next_waits_for_its_transmission_time() {
        let mut pacer = paced();
        pacer.next_departure = ms(5);
        for _ in 0..3 {
            assert_eq!(pacer.blocked_until(ms(5)), None);
            pacer.on_sent(ms(5), 1448, 3);
        }
        assert_eq!(pacer.blocked_until(ms(5)), Some(ms(8)));
        assert_eq!(pacer.blocked_until(ms(8)), None);
    }

    #[test]
    fn a_late_timer_recovers_up_to_half_a_gap() {
        let at = |late_us: u64| {
            let mut pacer = paced();
            pacer.next_departure = ms(5);
            let now = Time(ms(5).0 + late_us * 1000);
            pacer.on_sent(now, 1448, 1);
            pacer.next_departure.since(now)
        };
        assert_eq!(at(0), Nanos::from_micros(1000));
        assert_eq!(at(300), Nanos::from_micros(700), "on schedule again");
        assert_eq!(at(5000), Nanos::from_micros(500), "half a gap, no more");
    }

    #[test]
    fn bursts_last_a_millisecond_between_two_segments_and_64_kb() {
        let config = SenderConfig::default();
        let burst = |mbps| burst_segments(&config, Rate::from_mbps(mbps), LONG_RTT, None);
        assert_eq!(burst(1), 2);
        assert_eq!(burst(100), 8, "100 Mbit/s / 1024 is 12.2 kB");
        assert_eq!(burst(10_000), 45);
        assert_eq!(burst_segments(&config, Rate::from_mbps(1), LONG_RTT, Some(1)), 1, "the controller may ask for one");
    }

    #[test]
    fn burst_min_rtt_term_vanishes_above_16_ms() {
        let config = SenderConfig::default();
        let burst = |rtt_us| burst_segments(&config, Rate::from_mbps(1), Nanos::from_micros(rtt_us), None);
        assert_eq!(burst(100), 45);
        assert_eq!(burst(1024), 11, "64 kB >> 2");
        assert_eq!(burst(16_384), 2);
    }

    #[test]
    fn without_a_pacing_rate_nothing_waits() {
        let mut pacer = Pacer::default();
        for _ in 0..100 {
            pacer.on_sent(ms(1), 1448, 2);
        }
        assert_eq!(pacer.blocked_until(ms(1)), None);
    }
}
