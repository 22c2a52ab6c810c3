//! Parameters of versions 2 and 3 of BBR, and the rules in which they differ.
//!
//! Ratios are multiples of 1/256, as in the kernel's modules (`BBR_UNIT`): rounded up for gains that must double the rate, else down. So a loss threshold of 2 %
//! is 5/256.

use super::super::bbr_parts::params::{GAIN_SHIFT, UNIT};
use super::options::{Choice, Options2, Options3};
use bentpipe_profile::Nanos;

/// Specification or code whose rules apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rules {
    /// draft-ietf-ccwg-bbr-06.
    Draft,
    /// github.com/google/bbr, branch v3, `net/ipv4/tcp_bbr.c`.
    Linux3,
    /// github.com/google/bbr, branch v2alpha, `net/ipv4/tcp_bbr2.c`.
    Linux2,
}

/// All parameters. Gains and ratios [1/256].
#[derive(Clone, Copy, Debug)]
pub struct Params {
    pub rules: Rules,
    pub startup_pacing_gain: u64,
    pub startup_cwnd_gain: u64,
    pub drain_gain: u64,
    pub up_gain: u64,
    pub down_gain: u64,
    pub cruise_gain: u64,
    pub refill_gain: u64,
    pub cwnd_gain: u64,
    pub up_cwnd_gain: u64,
    pub probe_rtt_cwnd_gain: u64,
    pub probe_rtt_window: Nanos,
    pub probe_rtt_duration: Nanos,
    pub min_rtt_window: Nanos,
    pub loss_threshold: u64,
    pub beta: u64,
    pub headroom: u64,
    pub full_bw_growth: u64,
    pub full_bw_rounds: u32,
    /// Losses of a round that end STARTUP; 0: never.
    pub full_loss_count: u64,
    /// Rounds of marks that end STARTUP; 0: never.
    pub full_ecn_rounds: u32,
    pub probe_wait_base: Nanos,
    pub probe_wait_random: Nanos,
    pub probe_max_rounds: u64,
    pub probe_random_rounds: u64,
    /// Version 2: inflight that ends UP, in BDPs.
    pub probe_in_flight_gain: u64,
    pub extra_acked_gain: u64,
    pub extra_acked_rounds: u32,
    pub tso_rtt_shift: u32,
    pub pacing_margin_percent: u64,
    pub tail_loss_counts: bool,
    pub ecn: bool,
    pub ecn_alpha_gain: u64,
    pub ecn_alpha_init: u64,
    pub ecn_factor: u64,
    pub ecn_threshold: u64,
    /// Zero: marks count at any RTT.
    pub ecn_max_rtt: Nanos,
    pub ecn_reprobe_gain: u64,
}

/// Rounds down to a multiple of 1/256, with a tolerance for binary rounding.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // within the range of an option
pub fn ratio(value: f64) -> u64 {
    libm::floor(value * UNIT as f64 + 1e-9) as u64
}

/// Rounds up to a multiple of 1/256, with the same tolerance.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn gain(value: f64) -> u64 {
    libm::ceil(value * UNIT as f64 - 1e-9) as u64
}

/// Fills [`Params`] from the options that versions 2 and 3 share; those that differ are zero, for the caller to set.
macro_rules! common {
    ($options:expr, $rules:expr) => {{
        let o = $options;
        Params {
            rules: $rules,
            startup_pacing_gain: 0,
            startup_cwnd_gain: ratio(o.startup_cwnd_gain),
            drain_gain: 0,
            up_gain: ratio(o.probe_up_gain),
            down_gain: 0,
            cruise_gain: ratio(o.probe_cruise_gain),
            refill_gain: ratio(o.probe_refill_gain),
            cwnd_gain: ratio(o.cwnd_gain),
            up_cwnd_gain: ratio(o.cwnd_gain),
            probe_rtt_cwnd_gain: ratio(o.probe_rtt_cwnd_gain),
            probe_rtt_window: o.probe_rtt_win,
            probe_rtt_duration: o.probe_rtt_mode,
            min_rtt_window: o.min_rtt_win,
            loss_threshold: ratio(o.loss_thresh),
            beta: ratio(o.beta),
            headroom: ratio(o.inflight_headroom),
            full_bw_growth: ratio(o.full_bw_thresh),
            full_bw_rounds: o.full_bw_cnt,
            full_loss_count: u64::from(o.full_loss_cnt),
            full_ecn_rounds: o.full_ecn_cnt,
            probe_wait_base: o.bw_probe_base,
            probe_wait_random: o.bw_probe_rand,
            probe_max_rounds: u64::from(o.bw_probe_max_rounds),
            probe_random_rounds: u64::from(o.bw_probe_rand_rounds),
            probe_in_flight_gain: 0,
            extra_acked_gain: ratio(o.extra_acked_gain),
            extra_acked_rounds: 0,
            tso_rtt_shift: 0,
            pacing_margin_percent: u64::from(o.pacing_margin_percent),
            tail_loss_counts: o.loss_probe_recovery,
            ecn: false,
            ecn_alpha_gain: ratio(o.ecn_alpha_gain),
            ecn_alpha_init: ratio(o.ecn_alpha_init),
            ecn_factor: ratio(o.ecn_factor),
            ecn_threshold: ratio(o.ecn_thresh),
            ecn_max_rtt: o.ecn_max_rtt,
            ecn_reprobe_gain: ratio(o.ecn_reprobe_gain),
        }
    }};
}

impl Params {
    /// Returns the parameters of version 3.
    pub fn version_3(o: &Options3) -> Self {
        let (rules, is_linux) = match o.rules {
            Choice::Draft => (Rules::Draft, false),
            Choice::Linux => (Rules::Linux3, true),
        };
        Self {
            startup_pacing_gain: gain(o.startup_pacing_gain),
            drain_gain: ratio(o.drain_gain.or(is_linux.then_some(1000.0 / 2885.0))),
            down_gain: ratio(o.probe_down_gain.or(is_linux.then_some(0.91))),
            up_cwnd_gain: ratio(o.probe_up_cwnd_gain),
            extra_acked_rounds: o.extra_acked_win_rtts.or(is_linux.then_some(5)),
            tso_rtt_shift: o.tso_rtt_shift.or(is_linux.then_some(9)),
            ecn: o.ecn_low,
            ..common!(o, rules)
        }
    }

    /// Returns the parameters of version 2.
    pub fn version_2(o: &Options2) -> Self {
        Self {
            startup_pacing_gain: gain(o.high_gain),
            startup_cwnd_gain: gain(o.startup_cwnd_gain),
            drain_gain: ratio(o.drain_gain),
            down_gain: ratio(o.probe_down_gain),
            probe_in_flight_gain: ratio(o.bw_probe_pif_gain),
            extra_acked_rounds: o.extra_acked_win_rtts,
            tso_rtt_shift: o.tso_rtt_shift,
            ecn: o.ecn_enable,
            // `bbr_init`: the shorter of the two.
            probe_rtt_window: o.probe_rtt_win.min(o.min_rtt_win),
            ..common!(o, Rules::Linux2)
        }
    }

    /// Returns `part`/256 of `whole`, rounded down.
    pub fn part(whole: u64, part: u64) -> u64 {
        u64::try_from((u128::from(whole) * u128::from(part)) >> GAIN_SHIFT).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::options_of;
    use bentpipe_profile::options::OptionValue;

    fn version_2(given: &[(&str, OptionValue)]) -> Params {
        Params::version_2(&options_of(&crate::bbr2::ENTRY, given))
    }

    fn version_3(given: &[(&str, OptionValue)]) -> Params {
        Params::version_3(&options_of(&crate::bbr3::ENTRY, given))
    }

    #[test]
    fn the_fixed_point_values_are_the_kernels() {
        let v2 = version_2(&[]);
        assert_eq!((v2.startup_pacing_gain, v2.startup_cwnd_gain, v2.drain_gain), (739, 739, 88));
        assert_eq!((v2.up_gain, v2.down_gain, v2.cwnd_gain, v2.up_cwnd_gain, v2.probe_in_flight_gain), (320, 192, 512, 512, 320));
        assert_eq!((v2.cruise_gain, v2.refill_gain), (256, 256));
        assert_eq!((v2.loss_threshold, v2.beta, v2.headroom, v2.full_loss_count), (5, 76, 38, 8));
        assert_eq!((v2.ecn_alpha_gain, v2.ecn_alpha_init, v2.ecn_factor, v2.ecn_threshold, v2.ecn_reprobe_gain), (16, 256, 85, 128, 0));
        let v3 = version_3(&[("rules", "linux".into())]);
        assert_eq!((v3.startup_pacing_gain, v3.startup_cwnd_gain, v3.drain_gain), (710, 512, 88));
        assert_eq!((v3.up_gain, v3.down_gain, v3.up_cwnd_gain, v3.full_loss_count, v3.ecn_reprobe_gain), (320, 232, 576, 6, 128));
        assert_eq!((v3.cruise_gain, v3.refill_gain, v3.extra_acked_rounds, v3.tso_rtt_shift), (256, 256, 5, 9));
    }

    #[test]
    fn linuxs_values_are_defaults_that_options_override() {
        let draft = version_3(&[]);
        assert_eq!((draft.drain_gain, draft.extra_acked_rounds), (128, 10));
        assert_eq!(version_3(&[("rules", "linux".into()), ("drain_gain", 0.5.into())]).drain_gain, 128);
        let tuned = version_2(&[("loss_thresh", 0.08.into()), ("probe_rtt_win_ms", 4000.0.into())]);
        assert_eq!((tuned.loss_threshold, tuned.probe_rtt_window), (20, Nanos::from_secs(4)));
        let slot = version_2(&[("probe_rtt_win_ms", 15_000.0.into())]);
        assert_eq!(slot.probe_rtt_window, Nanos::from_secs(10), "min_rtt_win_s, as its module has it");
    }
}
