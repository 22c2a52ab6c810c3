//! Classic `HyStart`: ends slow start before the queue overflows.
//!
//! Source: Ha and Rhee, "Taming the elephants: new TCP slow start", Computer Networks 55(9), 2011; as Linux has it
//! (`net/ipv4/tcp_cubic.c`, `hystart_update`, 6.18). Composable: a controller calls [`HyStart::on_ack`] on every ACK in slow start and leaves it on true.

use super::AckSample;
use bentpipe_profile::{Bytes, Nanos, Time};

/// Smallest window at which it ends slow start [packets] (`hystart_low_window`).
const LOW_WINDOW_PACKETS: u64 = 16;
/// RTT samples of a round before their minimum is used (`HYSTART_MIN_SAMPLES`).
const MIN_SAMPLES: u32 = 8;
/// Smallest rise of a round's minimum RTT that counts (`HYSTART_DELAY_MIN`).
const DELAY_MIN: Nanos = Nanos::from_millis(4);
/// Rise that always counts (`HYSTART_DELAY_MAX`).
const DELAY_MAX: Nanos = Nanos::from_millis(16);
/// Largest gap between two ACKs of one train (`hystart_ack_delta_us`).
const ACK_DELTA: Nanos = Nanos::from_millis(2);
/// Bursts whose serialisation time is added to the train's threshold, and the most that is added (`hystart_ack_delay`).
const ALLOWED_BURSTS: u64 = 4;
const MAX_BURST_ALLOWANCE: Nanos = Nanos::from_millis(1);
/// Largest burst that a device takes [bytes] (`GSO_LEGACY_MAX_SIZE`, Linux `include/linux/netdevice.h`).
const GSO_MAX_BYTES: u64 = 65_536;

/// The two detectors, ACK train and delay increase, and the current round.
#[derive(Clone, Debug)]
pub struct HyStart {
    paced: bool,
    triggered: bool,
    round_start: Time,
    last_ack: Time,
    /// The round ends once data beyond this is acknowledged; `None`: the next ACK sets it to `snd_nxt`.
    round_end: Option<u64>,
    round_min_rtt: Nanos,
    samples: u32,
}

impl HyStart {
    /// Creates the detectors. `paced`: whether the host paces, so that a train of ACKs may last an RTT without a queue.
    #[must_use]
    pub const fn new(paced: bool) -> Self {
        Self {
            paced,
            triggered: false,
            round_start: Time::ZERO,
            last_ack: Time::ZERO,
            round_end: Some(0),
            round_min_rtt: Nanos::MAX,
            samples: 0,
        }
    }

    /// Restarts both detectors (`bictcp_reset` and `bictcp_hystart_reset`, after a time-out).
    pub const fn restart(&mut self, now: Time) {
        self.triggered = false;
        self.start_round(now, None);
    }

    const fn start_round(&mut self, now: Time, end: Option<u64>) {
        self.round_start = now;
        self.last_ack = now;
        self.round_end = end;
        self.round_min_rtt = Nanos::MAX;
        self.samples = 0;
    }

    /// Processes an ACK of slow start with its RTT; `delay_min` is the smallest RTT so far, this one included. Returns true if slow start must end now.
    pub fn on_ack(&mut self, ack: &AckSample, rtt: Nanos, delay_min: Nanos, cwnd_packets: u64) -> bool {
        if self.triggered {
            return false;
        }
        if ack.snd_una > *self.round_end.get_or_insert(ack.snd_nxt) {
            self.start_round(ack.now, Some(ack.snd_nxt));
        }
        if cwnd_packets < LOW_WINDOW_PACKETS {
            return false;
        }
        self.triggered = self.detect_ack_train(ack, delay_min) | self.detect_delay_increase(rtt, delay_min);
        self.triggered
    }

    /// Returns whether the round's ACKs have come without a gap for the minimum RTT: the window fills the path.
    fn detect_ack_train(&mut self, ack: &AckSample, delay_min: Nanos) -> bool {
        if ack.now.since(self.last_ack) > ACK_DELTA {
            return false;
        }
        self.last_ack = ack.now;
        let allowance = if ack.pacing_rate.0 == 0 {
            Nanos::ZERO
        } else {
            ack.pacing_rate.time_for(Bytes(ALLOWED_BURSTS * GSO_MAX_BYTES)).min(MAX_BURST_ALLOWANCE)
        };
        let threshold = delay_min.0.saturating_add(allowance.0);
        // The sender itself spreads a paced window over half an RTT.
        let threshold = if self.paced { threshold } else { threshold / 2 };
        ack.now.since(self.round_start).0 > threshold
    }

    /// Returns whether the round's minimum RTT is clearly above `delay_min`: a queue is building.
    fn detect_delay_increase(&mut self, rtt: Nanos, delay_min: Nanos) -> bool {
        self.round_min_rtt = self.round_min_rtt.min(rtt);
        if self.samples < MIN_SAMPLES {
            self.samples += 1;
            return false;
        }
        let rise = Nanos(delay_min.0 / 8).clamp(DELAY_MIN, DELAY_MAX);
        self.round_min_rtt.0 > delay_min.0.saturating_add(rise.0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::ack_at;
    use super::*;
    use bentpipe_profile::Rate;

    const RTT: Nanos = Nanos::from_millis(40);

    /// Feeds a round of ACKs `gap_us` apart, all with `rtt`; returns the ACK that ended slow start.
    fn round(h: &mut HyStart, start_ms: u64, acks: u64, gap_us: u64, rtt: Nanos, cwnd: u64) -> Option<u64> {
        let una = start_ms * 1_000_000;
        (1..=acks).find(|i| {
            let mut ack = ack_at(Time(start_ms * 1_000_000 + i * gap_us * 1000));
            ack.snd_una = una + i;
            ack.snd_nxt = una + 1_000_000;
            ack.pacing_rate = Rate::from_mbps(1000);
            h.on_ack(&ack, rtt, RTT, cwnd)
        })
    }

    #[test]
    fn a_constant_rtt_does_not_end_slow_start() {
        let mut h = HyStart::new(true);
        for k in 1..20 {
            assert_eq!(round(&mut h, 40 * k, 10, 100, RTT, 100), None);
        }
    }

    #[test]
    fn a_delay_increase_beyond_the_threshold_ends_slow_start_on_the_ninth_sample() {
        let mut h = HyStart::new(true);
        // 40 ms / 8 = 5 ms, inside [4 ms, 16 ms]; the threshold itself does not count.
        assert_eq!(round(&mut h, 40, 20, 2500, Nanos::from_millis(45), 100), None);
        assert_eq!(round(&mut h, 140, 20, 2500, Nanos::from_micros(45_001), 100), Some(9));
    }

    #[test]
    fn the_delay_threshold_is_clamped_between_4_and_16_ms() {
        for (delay_min_ms, rise_ms) in [(8, 4), (64, 8), (600, 16)] {
            let mut h = HyStart::new(true);
            let delay_min = Nanos::from_millis(delay_min_ms);
            for _ in 0..8 {
                assert!(!h.detect_delay_increase(delay_min + Nanos::from_millis(rise_ms), delay_min));
            }
            assert!(!h.detect_delay_increase(delay_min + Nanos::from_millis(rise_ms), delay_min));
            let mut h = HyStart::new(true);
            for _ in 0..8 {
                h.detect_delay_increase(delay_min + Nanos(rise_ms * 1_000_000 + 1), delay_min);
            }
            assert!(h.detect_delay_increase(delay_min + Nanos(rise_ms * 1_000_000 + 1), delay_min));
        }
    }

    #[test]
    fn an_ack_train_ends_slow_start_after_half_the_delay_unpaced_and_all_of_it_paced() {
        // 4 × 64 KB at 1 Gbit/s are 2.1 ms, so 1 ms is added: 41 ms paced, 20.5 ms unpaced. The round starts with its first ACK.
        let mut unpaced = HyStart::new(false);
        assert_eq!(round(&mut unpaced, 40, 500, 100, RTT, 100), Some(1 + 206));
        let mut paced = HyStart::new(true);
        assert_eq!(round(&mut paced, 40, 500, 100, RTT, 100), Some(1 + 411));
    }

    #[test]
    fn a_gap_over_2_ms_breaks_the_train() {
        let mut h = HyStart::new(false);
        assert_eq!(round(&mut h, 40, 100, 2001, RTT, 100), None);
        assert!(round(&mut h, 400, 100, 2000, RTT, 100).is_some());
    }

    #[test]
    fn below_16_packets_slow_start_goes_on() {
        let mut h = HyStart::new(false);
        assert_eq!(round(&mut h, 40, 500, 100, Nanos::from_millis(90), 15), None);
        assert!(round(&mut h, 400, 500, 100, Nanos::from_millis(90), 16).is_some());
    }

    #[test]
    fn it_triggers_once_until_it_is_restarted() {
        let mut h = HyStart::new(false);
        assert!(round(&mut h, 40, 500, 100, RTT, 100).is_some());
        assert_eq!(round(&mut h, 400, 500, 100, RTT, 100), None);
        h.restart(Time(900_000_000));
        assert!(round(&mut h, 1000, 500, 100, Nanos::from_millis(90), 100).is_some());
    }
}
