//! `HyStart++`: ends slow start when RTTs grow, after a phase of slower growth that is cancelled if they shrink again.
//!
//! Source: RFC 9406 §4.2 (the algorithm) and §4.3 (the values). Composable: a controller calls [`HyStartPp::on_ack`] on every ACK of its first slow start, and
//! grows its window by [`HyStartPp::growth`].

use super::AckSample;
use bentpipe_profile::Nanos;

/// Smallest rise of a round's minimum RTT that counts (`MIN_RTT_THRESH`).
const MIN_RTT_THRESHOLD: Nanos = Nanos::from_millis(4);
/// Rise that always counts (`MAX_RTT_THRESH`).
const MAX_RTT_THRESHOLD: Nanos = Nanos::from_millis(16);
/// Between the two: this part of the previous round's minimum (`MIN_RTT_DIVISOR`).
const MIN_RTT_DIVISOR: u64 = 8;
/// RTT samples of a round before their minimum is used (`N_RTT_SAMPLE`).
const MIN_SAMPLES: u32 = 8;
/// Divisor of the growth in conservative slow start (`CSS_GROWTH_DIVISOR`).
const CONSERVATIVE_DIVISOR: u64 = 4;
/// Rounds of conservative slow start before slow start is over (`CSS_ROUNDS`).
const CONSERVATIVE_ROUNDS: u32 = 5;
/// Most packets that one ACK counts for if the sender does not pace (`L`; infinite if it does).
const UNPACED_LIMIT_PACKETS: u64 = 8;

/// State of the current round and of conservative slow start.
#[derive(Clone, Debug)]
pub struct HyStartPp {
    limit: u64,
    /// The round ends once data beyond this is acknowledged.
    round_end: u64,
    last_min_rtt: Option<Nanos>,
    min_rtt: Option<Nanos>,
    samples: u32,
    conservative: Option<Conservative>,
}

#[derive(Clone, Copy, Debug)]
struct Conservative {
    /// Minimum RTT of the round that began it (`cssBaselineMinRtt`).
    baseline: Nanos,
    rounds: u32,
    /// Packets acknowledged that have not raised the window yet.
    credit: u64,
}

impl HyStartPp {
    /// Creates the detector. `paced`: whether the host paces.
    #[must_use]
    pub const fn new(paced: bool) -> Self {
        let limit = if paced { u64::MAX } else { UNPACED_LIMIT_PACKETS };
        Self { limit, round_end: 0, last_min_rtt: None, min_rtt: None, samples: 0, conservative: None }
    }

    /// Returns whether it is in conservative slow start.
    #[must_use]
    pub const fn is_conservative(&self) -> bool {
        self.conservative.is_some()
    }

    /// Returns the packets that the window grows by for `acked` packets acknowledged.
    pub fn growth(&mut self, acked: u64) -> u64 {
        let acked = acked.min(self.limit);
        let Some(conservative) = &mut self.conservative else { return acked };
        let credit = conservative.credit + acked;
        conservative.credit = credit % CONSERVATIVE_DIVISOR;
        credit / CONSERVATIVE_DIVISOR
    }

    /// Processes an ACK of slow start with its RTT. Returns true if slow start must end now.
    pub fn on_ack(&mut self, ack: &AckSample, rtt: Nanos) -> bool {
        if ack.snd_una > self.round_end {
            self.round_end = ack.snd_nxt;
            self.last_min_rtt = self.min_rtt.take();
            self.samples = 0;
            if let Some(conservative) = &mut self.conservative {
                conservative.rounds += 1;
                if conservative.rounds >= CONSERVATIVE_ROUNDS {
                    return true;
                }
            }
        }
        let min_rtt = self.min_rtt.map_or(rtt, |least| least.min(rtt));
        self.min_rtt = Some(min_rtt);
        self.samples += 1;
        if self.samples < MIN_SAMPLES {
            return false;
        }
        match (self.conservative, self.last_min_rtt) {
            // The rise was jitter.
            (Some(conservative), _) if min_rtt < conservative.baseline => self.conservative = None,
            (None, Some(last)) => {
                let rise = Nanos(last.0 / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESHOLD, MAX_RTT_THRESHOLD);
                if min_rtt.0 >= last.0.saturating_add(rise.0) {
                    self.conservative = Some(Conservative { baseline: min_rtt, rounds: 0, credit: 0 });
                }
            }
            _ => {}
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::ack_at;
    use super::*;
    use bentpipe_profile::Time;

    const fn ms(n: u64) -> Nanos {
        Nanos::from_millis(n)
    }

    /// Feeds round `k` (from 1) of `acks` ACKs with one RTT; returns whether slow start ended.
    fn round(h: &mut HyStartPp, k: u64, acks: u64, rtt: Nanos) -> bool {
        (1..=acks).any(|_| h.on_ack(&AckSample { snd_una: k * 1000, snd_nxt: k * 1000 + 500, ..ack_at(Time(k)) }, rtt))
    }

    #[test]
    fn a_rise_of_an_eighth_within_4_and_16_ms_starts_conservative_growth_that_five_rounds_end() {
        for (before, after, rises) in
            [(40, 44, false), (40, 45, true), (16, 19, false), (16, 20, true), (400, 415, false), (400, 416, true)]
        {
            let mut h = HyStartPp::new(true);
            assert!(!round(&mut h, 1, 8, ms(before)) && !round(&mut h, 2, 8, ms(after)));
            assert_eq!(h.is_conservative(), rises, "{before} ms to {after} ms");
        }
        let mut h = HyStartPp::new(true);
        round(&mut h, 1, 8, ms(40));
        round(&mut h, 2, 8, ms(60));
        assert_eq!((3..20).find(|&k| round(&mut h, k, 8, ms(60))), Some(7));
    }

    #[test]
    fn conservative_growth_is_cancelled_if_the_rtt_falls_again() {
        let mut h = HyStartPp::new(true);
        round(&mut h, 1, 8, ms(40));
        round(&mut h, 2, 8, ms(60));
        assert!(h.is_conservative());
        round(&mut h, 3, 8, ms(59));
        assert!(!h.is_conservative());
    }

    #[test]
    fn seven_samples_are_too_few_to_show_a_rise() {
        let mut h = HyStartPp::new(true);
        round(&mut h, 1, 7, ms(40));
        round(&mut h, 2, 7, ms(80));
        assert!(!h.is_conservative());
    }

    #[test]
    fn conservative_growth_is_a_quarter_and_an_unpaced_ack_counts_for_at_most_eight_packets() {
        let mut h = HyStartPp::new(false);
        assert_eq!((h.growth(3), h.growth(20)), (3, 8));
        assert_eq!(HyStartPp::new(true).growth(20), 20);
        h.conservative = Some(Conservative { baseline: ms(60), rounds: 0, credit: 0 });
        assert_eq!([2, 2, 2, 3].map(|acked| h.growth(acked)), [0, 1, 0, 1]);
    }
}
