//! Detection of token-bucket policers: two intervals in a row with a fifth lost and the same rate show a policer. Its rate is then used for 48 rounds
//! without probing (`bbr_lt_bw_sampling` and related functions).

use super::super::bbr_parts::bw::Bw;
use super::params::{
    GAIN_SHIFT, POLICER_BW_DIFFERENCE, POLICER_BW_RATIO, POLICER_LOSS_THRESHOLD, POLICER_MIN_ROUNDS, POLICER_USE_ROUNDS, UNIT,
};
use bentpipe_profile::{Bytes, Nanos, Time};

/// Sampling interval, and the detected rate.
#[derive(Clone, Debug)]
pub struct Policer {
    mss: u32,
    sampling: bool,
    /// Whether the rate is in use (`lt_use_bw`).
    in_use: bool,
    /// Rate of the previous interval (`lt_bw`).
    bw: Option<Bw>,
    /// Rounds in the interval, or for which the rate has been used.
    rounds: u32,
    start: Totals,
}

/// Totals of a connection at one time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    /// Time of the last delivery.
    pub delivered_at: Time,
    pub delivered: Bytes,
    pub lost: Bytes,
}

/// State of the connection after an ACK.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::struct_excessive_bools)] // independent flags of one ACK
pub struct Sample {
    pub totals: Totals,
    pub round_start: bool,
    /// Whether this ACK reported losses.
    pub lossy: bool,
    pub app_limited: bool,
    pub in_probe_bw: bool,
}

/// Result of an ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Nothing,
    /// A policer sets the rate.
    Detected,
    /// The rate was used long enough: probe again.
    Expired,
}

impl Policer {
    pub fn new(mss: u32) -> Self {
        Self { mss, sampling: false, in_use: false, bw: None, rounds: 0, start: Totals::default() }
    }

    /// Returns the policer's rate while it is in use.
    pub fn bw(&self) -> Option<Bw> {
        self.bw.filter(|_| self.in_use)
    }

    /// Resets the detector (`bbr_reset_lt_bw_sampling`).
    pub fn reset(&mut self) {
        *self = Self::new(self.mss);
    }

    const fn start_interval(&mut self, totals: Totals) {
        self.start = totals;
        self.rounds = 0;
    }

    pub fn on_ack(&mut self, s: &Sample) -> Verdict {
        if self.in_use {
            return self.count_use(s);
        }
        // The first loss shows that the policer's tokens are used up.
        if !self.sampling {
            if !s.lossy {
                return Verdict::Nothing;
            }
            self.start_interval(s.totals);
            self.sampling = true;
        }
        // Rates below the policer's, or long intervals, must not be taken for a policer.
        if s.app_limited {
            self.reset();
            return Verdict::Nothing;
        }
        self.rounds += u32::from(s.round_start);
        if self.rounds < POLICER_MIN_ROUNDS {
            return Verdict::Nothing;
        }
        if self.rounds > 4 * POLICER_MIN_ROUNDS {
            self.reset();
            return Verdict::Nothing;
        }
        if s.lossy { self.end_interval(s.totals) } else { Verdict::Nothing }
    }

    fn count_use(&mut self, s: &Sample) -> Verdict {
        if s.in_probe_bw && s.round_start {
            self.rounds += 1;
            if self.rounds >= POLICER_USE_ROUNDS {
                self.reset();
                return Verdict::Expired;
            }
        }
        Verdict::Nothing
    }

    /// Ends an interval at a loss, if enough was lost in it (`bbr_lt_bw_interval_done`).
    fn end_interval(&mut self, totals: Totals) -> Verdict {
        let lost = totals.lost.saturating_sub(self.start.lost);
        let delivered = totals.delivered.saturating_sub(self.start.delivered);
        if delivered.0 == 0 || u128::from(lost.0) << GAIN_SHIFT < u128::from(POLICER_LOSS_THRESHOLD) * u128::from(delivered.0) {
            return Verdict::Nothing;
        }
        let span = totals.delivered_at.since(self.start.delivered_at);
        if span < Nanos::from_millis(1) {
            return Verdict::Nothing;
        }
        let Some(bw) = Bw::of(delivered, span, self.mss) else { return Verdict::Nothing };
        if let Some(before) = self.bw {
            let difference = Bw(bw.0.abs_diff(before.0));
            let is_alike = u128::from(difference.0) * u128::from(UNIT) <= u128::from(POLICER_BW_RATIO) * u128::from(before.0);
            if is_alike || difference.rate(self.mss) <= POLICER_BW_DIFFERENCE {
                self.bw = Some(Bw(u64::midpoint(bw.0, before.0)));
                self.in_use = true;
                self.rounds = 0;
                return Verdict::Detected;
            }
        }
        self.bw = Some(bw);
        self.start_interval(totals);
        Verdict::Nothing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u32 = 1448;

    /// Returns the sample of round `k`, of 40 ms, with so many packets delivered and lost so far.
    fn sample(k: u64, delivered: u64, lost: u64) -> Sample {
        let bytes = |packets| Bytes(packets * u64::from(MSS));
        let totals = Totals { delivered_at: Time(k * 40_000_000), delivered: bytes(delivered), lost: bytes(lost) };
        Sample { totals, round_start: true, lossy: true, app_limited: false, in_probe_bw: true }
    }

    fn run(p: &mut Policer, rounds: u64, lost_of_100: u64) -> Option<u64> {
        (1..=rounds).find(|&k| p.on_ack(&sample(k, k * 100, k * lost_of_100)) == Verdict::Detected)
    }

    #[test]
    fn two_intervals_of_four_rounds_with_a_fifth_lost_and_the_same_rate_show_a_policer() {
        let mut p = Policer::new(MSS);
        assert_eq!(run(&mut p, 100, 20), Some(8)); // rounds 1 to 4 and 5 to 8
        assert_eq!(p.bw(), Bw::of(Bytes(100 * u64::from(MSS)), Nanos::from_millis(40), MSS));
    }

    #[test]
    fn a_loss_of_19_percent_does_not_show_a_policer() {
        assert_eq!(run(&mut Policer::new(MSS), 100, 19), None);
    }

    #[test]
    fn an_application_limited_sample_restarts_the_detection() {
        let mut p = Policer::new(MSS);
        run(&mut p, 7, 20);
        let mut paused = sample(8, 800, 160);
        paused.app_limited = true;
        assert_eq!(p.on_ack(&paused), Verdict::Nothing);
        assert_eq!(p.on_ack(&sample(9, 900, 180)), Verdict::Nothing);
        assert_eq!(p.bw(), None);
    }

    #[test]
    fn the_rate_is_used_for_48_rounds_of_probe_bw() {
        let mut p = Policer::new(MSS);
        run(&mut p, 8, 20);
        let mut elsewhere = sample(9, 900, 180);
        elsewhere.in_probe_bw = false;
        assert_eq!(p.on_ack(&elsewhere), Verdict::Nothing);
        let expired = (1..=100).find(|k| p.on_ack(&sample(9 + k, 900, 180)) == Verdict::Expired);
        assert_eq!(expired, Some(48));
        assert_eq!(p.bw(), None);
    }
}
