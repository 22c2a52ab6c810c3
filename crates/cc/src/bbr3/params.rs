//! Parameters of versions 2 and 3 of BBR, and the rules in which they differ.
//!
//! Ratios are multiples of 1/256, as in the kernel's modules (`BBR_UNIT`): rounded up for gains that must double the rate, else down. So a loss threshold of 2 %
//! is 5/256.

use super::super::bbr_parts::params::{GAIN_SHIFT, MIN_RTT_WINDOW_S, PROBE_RTT_MS, UNIT};
use super::super::registry::{Allowed, OptionSpec, Options};
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

const fn number(name: &'static str, description: &'static str, default: f64, min: f64, max: f64, source: &'static str) -> OptionSpec {
    OptionSpec { name, unit: "", description, default, allowed: Allowed::Range(min, max), source }
}

const fn millis(name: &'static str, description: &'static str, default: f64, min: f64, max: f64, source: &'static str) -> OptionSpec {
    OptionSpec { name, unit: "ms", description, default, allowed: Allowed::Range(min, max), source }
}

const fn count(name: &'static str, description: &'static str, default: f64, min: u32, max: u32, source: &'static str) -> OptionSpec {
    OptionSpec { name, unit: "", description, default, allowed: Allowed::Count(min, max), source }
}

const fn off(name: &'static str, description: &'static str, source: &'static str) -> OptionSpec {
    OptionSpec { name, unit: "", description, default: 0.0, allowed: Allowed::Switch, source }
}

/// Greatest gain: the kernel stores gains in ten or eleven bits.
const MAX_GAIN: f64 = 4.0;

/// Tunables of version 3; the defaults are the draft's. With `rules=linux`, Linux's values replace the defaults of some of them.
pub const OPTIONS_3: &[OptionSpec] = &[
    OptionSpec {
        name: "rules",
        unit: "",
        description: "the draft's rules and values, or those of Google's Linux branch where they differ",
        default: 0.0,
        allowed: Allowed::Choice(&["draft", "linux"]),
        source: "draft-ietf-ccwg-bbr-06; google/bbr v3",
    },
    number("startup_pacing_gain", "pacing gain in STARTUP, in bandwidths", 2.77, 1.0, MAX_GAIN, "draft §5.3.1.1"),
    number("startup_cwnd_gain", "window in STARTUP and DRAIN, in BDPs", 2.0, 1.0, MAX_GAIN, "draft §5.3.1.1, DefaultCwndGain"),
    number("drain_gain", "pacing gain in DRAIN; Linux 0.347", 0.5, 0.1, 1.0, "draft §5.3.2"),
    number("probe_up_gain", "pacing gain in PROBE_UP", 1.25, 1.0, MAX_GAIN, "draft §5.3.3.5"),
    number("probe_down_gain", "pacing gain in PROBE_DOWN; Linux 0.91", 0.9, 0.1, 1.0, "draft §5.3.3.1"),
    number("probe_cruise_gain", "pacing gain in PROBE_CRUISE", 1.0, 0.1, MAX_GAIN, "draft §5.3.3.2"),
    number("probe_refill_gain", "pacing gain in PROBE_REFILL", 1.0, 0.1, MAX_GAIN, "draft §5.3.3.3"),
    number("cwnd_gain", "window in PROBE_BW, in BDPs", 2.0, 1.0, MAX_GAIN, "draft §5.6.1"),
    number("probe_up_cwnd_gain", "window in PROBE_UP, in BDPs", 2.25, 1.0, MAX_GAIN, "draft §5.3.3.5"),
    millis(
        "probe_rtt_win_ms",
        "time without a lower RTT after which PROBE_RTT starts",
        5000.0,
        100.0,
        60_000.0,
        "draft §5.3.4, ProbeRTTInterval",
    ),
    millis(
        "probe_rtt_mode_ms",
        "time for which PROBE_RTT keeps little in flight",
        PROBE_RTT_MS,
        1.0,
        10_000.0,
        "draft §5.3.4, ProbeRTTDuration",
    ),
    number("probe_rtt_cwnd_gain", "window in PROBE_RTT, in BDPs", 0.5, 0.0, 1.0, "draft §5.3.4, ProbeRTTCwndGain"),
    OptionSpec {
        name: "min_rtt_win_s",
        unit: "s",
        description: "time after which the minimum RTT expires",
        default: MIN_RTT_WINDOW_S,
        allowed: Allowed::Range(0.1, 3600.0),
        source: "draft §5.5.7.2, MinRTTFilterLen",
    },
    number(
        "loss_thresh",
        "share of lost packets in a flight that shows that inflight was too high",
        0.02,
        0.0,
        0.99,
        "draft §5.5.10.2, LossThresh",
    ),
    number("beta", "largest reduction of a bound at a loss, as a share", 0.3, 0.0, 0.99, "draft §5.5.10.2, 1 − Beta"),
    number(
        "inflight_headroom",
        "share of the long-term inflight bound left free in PROBE_CRUISE",
        0.15,
        0.0,
        0.99,
        "draft §5.6.1, Headroom",
    ),
    number("full_bw_thresh", "growth of the bandwidth per round below which the pipe may be full", 1.25, 1.0, MAX_GAIN, "draft §5.3.1.2"),
    count("full_bw_cnt", "rounds without that growth after which the pipe is full", 3.0, 1, 7, "draft §5.3.1.2"),
    count(
        "full_loss_cnt",
        "losses in a round that end STARTUP (draft: gaps; Linux: ACKs that report losses); 0: never",
        6.0,
        0,
        15,
        "draft §5.3.1.3",
    ),
    millis("bw_probe_base_ms", "shortest time between two bandwidth probes", 2000.0, 10.0, 60_000.0, "draft §5.3.3.8"),
    millis("bw_probe_rand_ms", "largest random time added to bw_probe_base_ms", 1000.0, 0.0, 60_000.0, "draft §5.3.3.8"),
    count("bw_probe_max_rounds", "most rounds between two bandwidth probes", 63.0, 1, 255, "draft §5.3.3.8"),
    count("bw_probe_rand_rounds", "the rounds between two probes are fewer by a random number below this", 2.0, 1, 15, "draft §5.3.3.8"),
    number("extra_acked_gain", "share of the ACK aggregation that is added to the window", 1.0, 0.0, MAX_GAIN, "draft §5.6.4.2"),
    count(
        "extra_acked_win_rtts",
        "rounds in the maximum filter of ACK aggregation; Linux: 5, in each of two windows",
        10.0,
        1,
        31,
        "draft §5.5.9, ExtraAckedFilterLen",
    ),
    count(
        "tso_rtt_shift",
        "on short paths, bursts are larger by 64 KB, halved for every 2^this µs of RTT; 0: none; Linux 9",
        0.0,
        0,
        15,
        "draft §5.6.3: none",
    ),
    count("pacing_margin_percent", "pacing rate below the bandwidth, in percent", 1.0, 0, 50, "draft §5.6.2, PacingMarginPercent"),
    OptionSpec::switch("loss_probe_recovery", "count a loss that a tail loss probe repaired", "google/bbr v3 `bbr_loss_probe_recovery`"),
    off("ecn_low", "respond to ECN marks as Linux does (the draft does not)", "google/bbr v3 `TCP_ECN_LOW`"),
    number("ecn_alpha_gain", "weight of a round in the average share of marks", 0.0625, 0.0, 1.0, "google/bbr v3 `bbr_ecn_alpha_gain`"),
    number("ecn_alpha_init", "initial average share of marks", 1.0, 0.0, 1.0, "google/bbr v3 `bbr_ecn_alpha_init`"),
    number(
        "ecn_factor",
        "reduction of inflight, as a fraction of the average share of marks",
        1.0 / 3.0,
        0.0,
        1.0,
        "google/bbr v3 `bbr_ecn_factor`",
    ),
    number("ecn_thresh", "share of marks that shows that inflight was too high", 0.5, 0.0, 1.0, "google/bbr v3 `bbr_ecn_thresh`"),
    millis("ecn_max_rtt_ms", "largest minimum RTT at which marks count; 0: any", 5.0, 0.0, 10_000.0, "google/bbr v3 `bbr_ecn_max_rtt_us`"),
    number(
        "ecn_reprobe_gain",
        "first step of the next probe after marks without loss, as a share of the long-term inflight bound",
        0.5,
        0.0,
        2.0,
        "google/bbr v3 `bbr_ecn_reprobe_gain`",
    ),
    count(
        "full_ecn_cnt",
        "consecutive rounds with a share of marks of at least ecn_thresh that end STARTUP; 0: never",
        2.0,
        0,
        3,
        "google/bbr v3 `bbr_full_ecn_cnt`",
    ),
];

/// Tunables of version 2: those of its kernel module, except those that docs/reference/controllers.md lists.
pub const OPTIONS_2: &[OptionSpec] = &[
    number("high_gain", "pacing gain in STARTUP, in bandwidths", 2.885, 1.0, MAX_GAIN, "`bbr_high_gain`"),
    number("startup_cwnd_gain", "window in STARTUP and DRAIN, in BDPs", 2.885, 1.0, MAX_GAIN, "`bbr_startup_cwnd_gain`"),
    number("drain_gain", "pacing gain in DRAIN", 0.347, 0.1, 1.0, "`bbr_drain_gain`"),
    number("probe_up_gain", "pacing gain in PROBE_UP", 1.25, 1.0, MAX_GAIN, "`bbr_pacing_gain[0]`"),
    number("probe_down_gain", "pacing gain in PROBE_DOWN", 0.75, 0.1, 1.0, "`bbr_pacing_gain[1]`"),
    number("probe_cruise_gain", "pacing gain in PROBE_CRUISE", 1.0, 0.1, MAX_GAIN, "`bbr_pacing_gain[2]`"),
    number("probe_refill_gain", "pacing gain in PROBE_REFILL", 1.0, 0.1, MAX_GAIN, "`bbr_pacing_gain[3]`"),
    number("cwnd_gain", "window in PROBE_BW, in BDPs", 2.0, 1.0, MAX_GAIN, "`bbr_cwnd_gain`"),
    millis(
        "probe_rtt_win_ms",
        "time without a lower RTT after which PROBE_RTT starts; at most min_rtt_win_s",
        5000.0,
        100.0,
        16_383.0,
        "`bbr_probe_rtt_win_ms`, of 14 bits",
    ),
    millis("probe_rtt_mode_ms", "time for which PROBE_RTT keeps little in flight", PROBE_RTT_MS, 1.0, 10_000.0, "`bbr_probe_rtt_mode_ms`"),
    number("probe_rtt_cwnd_gain", "window in PROBE_RTT, in BDPs", 0.5, 0.0, 1.0, "`bbr_probe_rtt_cwnd_gain`"),
    OptionSpec {
        name: "min_rtt_win_s",
        unit: "s",
        description: "time after which the minimum RTT expires",
        default: MIN_RTT_WINDOW_S,
        allowed: Allowed::Range(0.1, 31.0),
        source: "`bbr_min_rtt_win_sec`, of 5 bits",
    },
    number("loss_thresh", "share of lost packets in a flight that shows that inflight was too high", 0.02, 0.0, 0.99, "`bbr_loss_thresh`"),
    number("beta", "largest reduction of a bound at a loss, as a share", 0.3, 0.0, 0.99, "`bbr_beta`"),
    number(
        "inflight_headroom",
        "share of the long-term inflight bound left free in PROBE_CRUISE",
        0.15,
        0.0,
        0.99,
        "`bbr_inflight_headroom`",
    ),
    number(
        "full_bw_thresh",
        "growth of the bandwidth per round below which the pipe may be full",
        1.25,
        1.0,
        MAX_GAIN,
        "`bbr_full_bw_thresh`",
    ),
    count("full_bw_cnt", "rounds without that growth after which the pipe is full", 3.0, 1, 7, "`bbr_full_bw_cnt`"),
    count("full_loss_cnt", "ACKs that report losses in a round that end STARTUP; 0: never", 8.0, 0, 15, "`bbr_full_loss_cnt`"),
    millis("bw_probe_base_ms", "shortest time between two bandwidth probes", 2000.0, 10.0, 60_000.0, "`bbr_bw_probe_base_us`"),
    millis("bw_probe_rand_ms", "largest random time added to bw_probe_base_ms", 1000.0, 0.0, 60_000.0, "`bbr_bw_probe_rand_us`"),
    count("bw_probe_max_rounds", "most rounds between two bandwidth probes", 63.0, 1, 255, "`bbr_bw_probe_max_rounds`"),
    count(
        "bw_probe_rand_rounds",
        "the rounds between two probes are fewer by a random number below this",
        2.0,
        1,
        15,
        "`bbr_bw_probe_rand_rounds`",
    ),
    number("bw_probe_pif_gain", "inflight that ends PROBE_UP, in BDPs", 1.25, 1.0, 2.0, "`bbr_bw_probe_pif_gain`"),
    number("extra_acked_gain", "share of the ACK aggregation that is added to the window", 1.0, 0.0, MAX_GAIN, "`bbr_extra_acked_gain`"),
    count("extra_acked_win_rtts", "rounds in each of the two windows of ACK aggregation", 5.0, 1, 31, "`bbr_extra_acked_win_rtts`"),
    count(
        "tso_rtt_shift",
        "on short paths, bursts are larger by 64 KB, halved for every 2^this µs of RTT; 0: none",
        9.0,
        0,
        15,
        "`bbr_tso_rtt_shift`",
    ),
    count("pacing_margin_percent", "pacing rate below the bandwidth, in percent", 1.0, 0, 50, "`bbr_pacing_margin_percent`"),
    off("loss_probe_recovery", "count a loss that a tail loss probe repaired, as in version 3", "google/bbr v3 `bbr_loss_probe_recovery`"),
    off("ecn_enable", "respond to ECN marks", "`bbr_ecn_enable`"),
    number("ecn_alpha_gain", "weight of a round in the average share of marks", 0.0625, 0.0, 1.0, "`bbr_ecn_alpha_gain`"),
    number("ecn_alpha_init", "initial average share of marks", 1.0, 0.0, 1.0, "`bbr_ecn_alpha_init`"),
    number(
        "ecn_factor",
        "reduction of rate and inflight, as a fraction of the average share of marks",
        1.0 / 3.0,
        0.0,
        1.0,
        "`bbr_ecn_factor`",
    ),
    number("ecn_thresh", "share of marks that shows that inflight was too high", 0.5, 0.0, 1.0, "`bbr_ecn_thresh`"),
    millis("ecn_max_rtt_ms", "largest minimum RTT at which marks count; 0: any", 5.0, 0.0, 10_000.0, "`bbr_ecn_max_rtt_us`"),
    number(
        "ecn_reprobe_gain",
        "first step of the next probe after marks without loss, as a share of the long-term inflight bound",
        0.0,
        0.0,
        2.0,
        "`bbr_ecn_reprobe_gain`",
    ),
    count(
        "full_ecn_cnt",
        "consecutive rounds with a share of marks of at least ecn_thresh that end STARTUP; 0: never",
        2.0,
        0,
        3,
        "`bbr_full_ecn_cnt`",
    ),
];

/// Rounds down to a multiple of 1/256, with a tolerance for binary rounding.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // within the range of an option
fn ratio(value: f64) -> u64 {
    libm::floor(value * UNIT as f64 + 1e-9) as u64
}

/// Rounds up to a multiple of 1/256, with the same tolerance.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn gain(value: f64) -> u64 {
    libm::ceil(value * UNIT as f64 - 1e-9) as u64
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
const fn whole(value: f64) -> u32 {
    value as u32
}

fn time(seconds: f64) -> Nanos {
    Nanos::from_secs_f64(seconds).unwrap_or(Nanos::MAX)
}

impl Params {
    /// Returns the parameters of version 3.
    pub fn version_3(options: &Options) -> Self {
        let rules = if options.is_on("rules") { Rules::Linux3 } else { Rules::Draft };
        let linux = |name: &str, value: f64| match rules {
            Rules::Draft => options.get(name),
            _ => options.given(name).unwrap_or(value),
        };
        Self {
            startup_pacing_gain: gain(options.get("startup_pacing_gain")),
            drain_gain: ratio(linux("drain_gain", 1000.0 / 2885.0)),
            down_gain: ratio(linux("probe_down_gain", 0.91)),
            up_cwnd_gain: ratio(options.get("probe_up_cwnd_gain")),
            extra_acked_rounds: whole(linux("extra_acked_win_rtts", 5.0)),
            tso_rtt_shift: whole(linux("tso_rtt_shift", 9.0)),
            ecn: options.is_on("ecn_low"),
            ..Self::common(rules, options)
        }
    }

    /// Returns the parameters of version 2.
    pub fn version_2(options: &Options) -> Self {
        let common = Self::common(Rules::Linux2, options);
        Self {
            startup_pacing_gain: gain(options.get("high_gain")),
            startup_cwnd_gain: gain(options.get("startup_cwnd_gain")),
            probe_in_flight_gain: ratio(options.get("bw_probe_pif_gain")),
            ecn: options.is_on("ecn_enable"),
            // `bbr_init`: the shorter of the two.
            probe_rtt_window: common.probe_rtt_window.min(common.min_rtt_window),
            ..common
        }
    }

    fn common(rules: Rules, options: &Options) -> Self {
        let get = |name: &str| options.get(name);
        let ratio_of = |name: &str| ratio(get(name));
        let millis_of = |name: &str| time(get(name) / 1e3);
        Self {
            rules,
            startup_pacing_gain: 0,
            startup_cwnd_gain: ratio_of("startup_cwnd_gain"),
            drain_gain: ratio_of("drain_gain"),
            up_gain: ratio_of("probe_up_gain"),
            down_gain: ratio_of("probe_down_gain"),
            cruise_gain: ratio_of("probe_cruise_gain"),
            refill_gain: ratio_of("probe_refill_gain"),
            cwnd_gain: ratio_of("cwnd_gain"),
            up_cwnd_gain: ratio_of("cwnd_gain"),
            probe_rtt_cwnd_gain: ratio_of("probe_rtt_cwnd_gain"),
            probe_rtt_window: millis_of("probe_rtt_win_ms"),
            probe_rtt_duration: millis_of("probe_rtt_mode_ms"),
            min_rtt_window: time(get("min_rtt_win_s")),
            loss_threshold: ratio_of("loss_thresh"),
            beta: ratio_of("beta"),
            headroom: ratio_of("inflight_headroom"),
            full_bw_growth: ratio_of("full_bw_thresh"),
            full_bw_rounds: whole(get("full_bw_cnt")),
            full_loss_count: u64::from(whole(get("full_loss_cnt"))),
            full_ecn_rounds: whole(get("full_ecn_cnt")),
            probe_wait_base: millis_of("bw_probe_base_ms"),
            probe_wait_random: millis_of("bw_probe_rand_ms"),
            probe_max_rounds: u64::from(whole(get("bw_probe_max_rounds"))),
            probe_random_rounds: u64::from(whole(get("bw_probe_rand_rounds"))),
            probe_in_flight_gain: 0,
            extra_acked_gain: ratio_of("extra_acked_gain"),
            extra_acked_rounds: whole(get("extra_acked_win_rtts")),
            tso_rtt_shift: whole(get("tso_rtt_shift")),
            pacing_margin_percent: u64::from(whole(get("pacing_margin_percent"))),
            tail_loss_counts: options.is_on("loss_probe_recovery"),
            ecn: false,
            ecn_alpha_gain: ratio_of("ecn_alpha_gain"),
            ecn_alpha_init: ratio_of("ecn_alpha_init"),
            ecn_factor: ratio_of("ecn_factor"),
            ecn_threshold: ratio_of("ecn_thresh"),
            ecn_max_rtt: millis_of("ecn_max_rtt_ms"),
            ecn_reprobe_gain: ratio_of("ecn_reprobe_gain"),
        }
    }

    /// Returns `part`/256 of `whole`, rounded down.
    pub fn part(whole: u64, part: u64) -> u64 {
        u64::try_from((u128::from(whole) * u128::from(part)) >> GAIN_SHIFT).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::registry::{Entry, Options, find};
    use super::*;
    use std::collections::BTreeMap;

    fn options(entry: &Entry, given: &[(&str, f64)]) -> Options {
        Options::check(entry, &given.iter().map(|&(n, v)| (n.to_owned(), v)).collect::<BTreeMap<_, _>>()).expect("in range")
    }

    #[test]
    fn the_fixed_point_values_are_the_kernels() {
        let v2 = Params::version_2(&options(find("bbr2").expect("known"), &[]));
        assert_eq!((v2.startup_pacing_gain, v2.startup_cwnd_gain, v2.drain_gain), (739, 739, 88));
        assert_eq!((v2.up_gain, v2.down_gain, v2.cwnd_gain, v2.up_cwnd_gain, v2.probe_in_flight_gain), (320, 192, 512, 512, 320));
        assert_eq!((v2.cruise_gain, v2.refill_gain), (256, 256));
        assert_eq!((v2.loss_threshold, v2.beta, v2.headroom, v2.full_loss_count), (5, 76, 38, 8));
        assert_eq!((v2.ecn_alpha_gain, v2.ecn_alpha_init, v2.ecn_factor, v2.ecn_threshold, v2.ecn_reprobe_gain), (16, 256, 85, 128, 0));
        let v3 = Params::version_3(&options(find("bbr3").expect("known"), &[("rules", 1.0)]));
        assert_eq!((v3.startup_pacing_gain, v3.startup_cwnd_gain, v3.drain_gain), (710, 512, 88));
        assert_eq!((v3.up_gain, v3.down_gain, v3.up_cwnd_gain, v3.full_loss_count, v3.ecn_reprobe_gain), (320, 232, 576, 6, 128));
        assert_eq!((v3.cruise_gain, v3.refill_gain, v3.extra_acked_rounds, v3.tso_rtt_shift), (256, 256, 5, 9));
    }

    #[test]
    fn linuxs_values_are_defaults_that_options_override() {
        let bbr3 = find("bbr3").expect("known");
        let draft = Params::version_3(&options(bbr3, &[]));
        assert_eq!((draft.drain_gain, draft.extra_acked_rounds), (128, 10));
        assert_eq!(Params::version_3(&options(bbr3, &[("rules", 1.0), ("drain_gain", 0.5)])).drain_gain, 128);
        let eight_percent = options(find("bbr2").expect("known"), &[("loss_thresh", 0.08), ("probe_rtt_win_ms", 4000.0)]);
        let tuned = Params::version_2(&eight_percent);
        assert_eq!((tuned.loss_threshold, tuned.probe_rtt_window), (20, Nanos::from_secs(4)));
        let slot = options(find("bbr2").expect("known"), &[("probe_rtt_win_ms", 15_000.0)]);
        assert_eq!(Params::version_2(&slot).probe_rtt_window, Nanos::from_secs(10), "min_rtt_win_s, as its module has it");
    }
}
