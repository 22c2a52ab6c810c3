//! Options of versions 2 and 3 of BBR.

use super::super::bbr_parts::params::{MIN_RTT_WINDOW_S, PROBE_RTT_MS};
use bentpipe_profile::Nanos;
use bentpipe_profile::tunables::{Setting, count, millis, number, seconds, switch};

/// Greatest gain: the kernel stores gains in ten or eleven bits.
const MAX_GAIN: f64 = 4.0;

choices! {
    /// Source of version 3's rules.
    pub enum Choice {
        /// draft-ietf-ccwg-bbr-06.
        Draft = "draft",
        /// github.com/google/bbr, branch v3.
        Linux = "linux",
    }
}

options! {
    /// Options of version 3; the defaults are the draft's. With `rules=linux`, Linux's values replace the defaults of some of them.
    pub struct Options3 {
        rules: Choice = Choice::option("rules", "the draft's rules and values, or those of Google's Linux branch where they differ", Choice::Draft, "draft-ietf-ccwg-bbr-06; google/bbr v3"),
        startup_pacing_gain: f64 = number("startup_pacing_gain", "pacing gain in STARTUP, in bandwidths", 2.77, 1.0, MAX_GAIN, "draft §5.3.1.1"),
        startup_cwnd_gain: f64 = number("startup_cwnd_gain", "window in STARTUP and DRAIN, in BDPs", 2.0, 1.0, MAX_GAIN, "draft §5.3.1.1, DefaultCwndGain"),
        drain_gain: Setting<f64> = number("drain_gain", "pacing gain in DRAIN; Linux 0.347", 0.5, 0.1, 1.0, "draft §5.3.2").or_by_rule(),
        probe_up_gain: f64 = number("probe_up_gain", "pacing gain in PROBE_UP", 1.25, 1.0, MAX_GAIN, "draft §5.3.3.5"),
        probe_down_gain: Setting<f64> = number("probe_down_gain", "pacing gain in PROBE_DOWN; Linux 0.91", 0.9, 0.1, 1.0, "draft §5.3.3.1").or_by_rule(),
        probe_cruise_gain: f64 = number("probe_cruise_gain", "pacing gain in PROBE_CRUISE", 1.0, 0.1, MAX_GAIN, "draft §5.3.3.2"),
        probe_refill_gain: f64 = number("probe_refill_gain", "pacing gain in PROBE_REFILL", 1.0, 0.1, MAX_GAIN, "draft §5.3.3.3"),
        cwnd_gain: f64 = number("cwnd_gain", "window in PROBE_BW, in BDPs", 2.0, 1.0, MAX_GAIN, "draft §5.6.1"),
        probe_up_cwnd_gain: f64 = number("probe_up_cwnd_gain", "window in PROBE_UP, in BDPs", 2.25, 1.0, MAX_GAIN, "draft §5.3.3.5"),
        probe_rtt_win: Nanos = millis("probe_rtt_win_ms", "time without a lower RTT after which PROBE_RTT starts", 5000.0, 100.0, 60_000.0, "draft §5.3.4, ProbeRTTInterval"),
        probe_rtt_mode: Nanos = millis("probe_rtt_mode_ms", "time for which PROBE_RTT keeps little in flight", PROBE_RTT_MS, 1.0, 10_000.0, "draft §5.3.4, ProbeRTTDuration"),
        probe_rtt_cwnd_gain: f64 = number("probe_rtt_cwnd_gain", "window in PROBE_RTT, in BDPs", 0.5, 0.0, 1.0, "draft §5.3.4, ProbeRTTCwndGain"),
        min_rtt_win: Nanos = seconds("min_rtt_win_s", "time after which the minimum RTT expires", MIN_RTT_WINDOW_S, 0.1, 3600.0, "draft §5.5.7.2, MinRTTFilterLen"),
        loss_thresh: f64 = number("loss_thresh", "share of lost packets in a flight that shows that inflight was too high", 0.02, 0.0, 0.99, "draft §5.5.10.2, LossThresh"),
        beta: f64 = number("beta", "largest reduction of a bound at a loss, as a share", 0.3, 0.0, 0.99, "draft §5.5.10.2, 1 − Beta"),
        inflight_headroom: f64 = number("inflight_headroom", "share of the long-term inflight bound left free in PROBE_CRUISE", 0.15, 0.0, 0.99, "draft §5.6.1, Headroom"),
        full_bw_thresh: f64 = number("full_bw_thresh", "growth of the bandwidth per round below which the pipe may be full", 1.25, 1.0, MAX_GAIN, "draft §5.3.1.2"),
        full_bw_cnt: u32 = count("full_bw_cnt", "rounds without that growth after which the pipe is full", 3, 1, 7, "draft §5.3.1.2"),
        full_loss_cnt: u32 = count("full_loss_cnt", "losses in a round that end STARTUP (draft: gaps; Linux: ACKs that report losses); 0: never", 6, 0, 15, "draft §5.3.1.3"),
        bw_probe_base: Nanos = millis("bw_probe_base_ms", "shortest time between two bandwidth probes", 2000.0, 10.0, 60_000.0, "draft §5.3.3.8"),
        bw_probe_rand: Nanos = millis("bw_probe_rand_ms", "largest random time added to bw_probe_base_ms", 1000.0, 0.0, 60_000.0, "draft §5.3.3.8"),
        bw_probe_max_rounds: u32 = count("bw_probe_max_rounds", "most rounds between two bandwidth probes", 63, 1, 255, "draft §5.3.3.8"),
        bw_probe_rand_rounds: u32 = count("bw_probe_rand_rounds", "the rounds between two probes are fewer by a random number below this", 2, 1, 15, "draft §5.3.3.8"),
        extra_acked_gain: f64 = number("extra_acked_gain", "share of the ACK aggregation that is added to the window", 1.0, 0.0, MAX_GAIN, "draft §5.6.4.2"),
        extra_acked_win_rtts: Setting<u32> = count("extra_acked_win_rtts", "rounds in the maximum filter of ACK aggregation; Linux: 5, in each of two windows", 10, 1, 31, "draft §5.5.9, ExtraAckedFilterLen").or_by_rule(),
        tso_rtt_shift: Setting<u32> = count("tso_rtt_shift", "on short paths, bursts are larger by 64 KB, halved for every 2^this µs of RTT; 0: none; Linux 9", 0, 0, 15, "draft §5.6.3: none").or_by_rule(),
        pacing_margin_percent: u32 = count("pacing_margin_percent", "pacing rate below the bandwidth, in percent", 1, 0, 50, "draft §5.6.2, PacingMarginPercent"),
        loss_probe_recovery: bool = switch("loss_probe_recovery", "count a loss that a tail loss probe repaired", true, "google/bbr v3 `bbr_loss_probe_recovery`"),
        ecn_low: bool = switch("ecn_low", "respond to ECN marks as Linux does (the draft does not)", false, "google/bbr v3 `TCP_ECN_LOW`"),
        ecn_alpha_gain: f64 = number("ecn_alpha_gain", "weight of a round in the average share of marks", 0.0625, 0.0, 1.0, "google/bbr v3 `bbr_ecn_alpha_gain`"),
        ecn_alpha_init: f64 = number("ecn_alpha_init", "initial average share of marks", 1.0, 0.0, 1.0, "google/bbr v3 `bbr_ecn_alpha_init`"),
        ecn_factor: f64 = number("ecn_factor", "reduction of inflight, as a fraction of the average share of marks", 1.0 / 3.0, 0.0, 1.0, "google/bbr v3 `bbr_ecn_factor`"),
        ecn_thresh: f64 = number("ecn_thresh", "share of marks that shows that inflight was too high", 0.5, 0.0, 1.0, "google/bbr v3 `bbr_ecn_thresh`"),
        ecn_max_rtt: Nanos = millis("ecn_max_rtt_ms", "largest minimum RTT at which marks count; 0: any", 5.0, 0.0, 10_000.0, "google/bbr v3 `bbr_ecn_max_rtt_us`"),
        ecn_reprobe_gain: f64 = number("ecn_reprobe_gain", "first step of the next probe after marks without loss, as a share of the long-term inflight bound", 0.5, 0.0, 2.0, "google/bbr v3 `bbr_ecn_reprobe_gain`"),
        full_ecn_cnt: u32 = count("full_ecn_cnt", "consecutive rounds with a share of marks of at least ecn_thresh that end STARTUP; 0: never", 2, 0, 3, "google/bbr v3 `bbr_full_ecn_cnt`"),
    }
}

options! {
    /// Options of version 2: those of its kernel module, except those that docs/reference/controllers.md lists.
    pub struct Options2 {
        high_gain: f64 = number("high_gain", "pacing gain in STARTUP, in bandwidths", 2.885, 1.0, MAX_GAIN, "`bbr_high_gain`"),
        startup_cwnd_gain: f64 = number("startup_cwnd_gain", "window in STARTUP and DRAIN, in BDPs", 2.885, 1.0, MAX_GAIN, "`bbr_startup_cwnd_gain`"),
        drain_gain: f64 = number("drain_gain", "pacing gain in DRAIN", 0.347, 0.1, 1.0, "`bbr_drain_gain`"),
        probe_up_gain: f64 = number("probe_up_gain", "pacing gain in PROBE_UP", 1.25, 1.0, MAX_GAIN, "`bbr_pacing_gain[0]`"),
        probe_down_gain: f64 = number("probe_down_gain", "pacing gain in PROBE_DOWN", 0.75, 0.1, 1.0, "`bbr_pacing_gain[1]`"),
        probe_cruise_gain: f64 = number("probe_cruise_gain", "pacing gain in PROBE_CRUISE", 1.0, 0.1, MAX_GAIN, "`bbr_pacing_gain[2]`"),
        probe_refill_gain: f64 = number("probe_refill_gain", "pacing gain in PROBE_REFILL", 1.0, 0.1, MAX_GAIN, "`bbr_pacing_gain[3]`"),
        cwnd_gain: f64 = number("cwnd_gain", "window in PROBE_BW, in BDPs", 2.0, 1.0, MAX_GAIN, "`bbr_cwnd_gain`"),
        probe_rtt_win: Nanos = millis("probe_rtt_win_ms", "time without a lower RTT after which PROBE_RTT starts; at most min_rtt_win_s", 5000.0, 100.0, 16_383.0, "`bbr_probe_rtt_win_ms`, of 14 bits"),
        probe_rtt_mode: Nanos = millis("probe_rtt_mode_ms", "time for which PROBE_RTT keeps little in flight", PROBE_RTT_MS, 1.0, 10_000.0, "`bbr_probe_rtt_mode_ms`"),
        probe_rtt_cwnd_gain: f64 = number("probe_rtt_cwnd_gain", "window in PROBE_RTT, in BDPs", 0.5, 0.0, 1.0, "`bbr_probe_rtt_cwnd_gain`"),
        min_rtt_win: Nanos = seconds("min_rtt_win_s", "time after which the minimum RTT expires", MIN_RTT_WINDOW_S, 0.1, 31.0, "`bbr_min_rtt_win_sec`, of 5 bits"),
        loss_thresh: f64 = number("loss_thresh", "share of lost packets in a flight that shows that inflight was too high", 0.02, 0.0, 0.99, "`bbr_loss_thresh`"),
        beta: f64 = number("beta", "largest reduction of a bound at a loss, as a share", 0.3, 0.0, 0.99, "`bbr_beta`"),
        inflight_headroom: f64 = number("inflight_headroom", "share of the long-term inflight bound left free in PROBE_CRUISE", 0.15, 0.0, 0.99, "`bbr_inflight_headroom`"),
        full_bw_thresh: f64 = number("full_bw_thresh", "growth of the bandwidth per round below which the pipe may be full", 1.25, 1.0, MAX_GAIN, "`bbr_full_bw_thresh`"),
        full_bw_cnt: u32 = count("full_bw_cnt", "rounds without that growth after which the pipe is full", 3, 1, 7, "`bbr_full_bw_cnt`"),
        full_loss_cnt: u32 = count("full_loss_cnt", "ACKs that report losses in a round that end STARTUP; 0: never", 8, 0, 15, "`bbr_full_loss_cnt`"),
        bw_probe_base: Nanos = millis("bw_probe_base_ms", "shortest time between two bandwidth probes", 2000.0, 10.0, 60_000.0, "`bbr_bw_probe_base_us`"),
        bw_probe_rand: Nanos = millis("bw_probe_rand_ms", "largest random time added to bw_probe_base_ms", 1000.0, 0.0, 60_000.0, "`bbr_bw_probe_rand_us`"),
        bw_probe_max_rounds: u32 = count("bw_probe_max_rounds", "most rounds between two bandwidth probes", 63, 1, 255, "`bbr_bw_probe_max_rounds`"),
        bw_probe_rand_rounds: u32 = count("bw_probe_rand_rounds", "the rounds between two probes are fewer by a random number below this", 2, 1, 15, "`bbr_bw_probe_rand_rounds`"),
        bw_probe_pif_gain: f64 = number("bw_probe_pif_gain", "inflight that ends PROBE_UP, in BDPs", 1.25, 1.0, 2.0, "`bbr_bw_probe_pif_gain`"),
        extra_acked_gain: f64 = number("extra_acked_gain", "share of the ACK aggregation that is added to the window", 1.0, 0.0, MAX_GAIN, "`bbr_extra_acked_gain`"),
        extra_acked_win_rtts: u32 = count("extra_acked_win_rtts", "rounds in each of the two windows of ACK aggregation", 5, 1, 31, "`bbr_extra_acked_win_rtts`"),
        tso_rtt_shift: u32 = count("tso_rtt_shift", "on short paths, bursts are larger by 64 KB, halved for every 2^this µs of RTT; 0: none", 9, 0, 15, "`bbr_tso_rtt_shift`"),
        pacing_margin_percent: u32 = count("pacing_margin_percent", "pacing rate below the bandwidth, in percent", 1, 0, 50, "`bbr_pacing_margin_percent`"),
        loss_probe_recovery: bool = switch("loss_probe_recovery", "count a loss that a tail loss probe repaired, as in version 3", false, "google/bbr v3 `bbr_loss_probe_recovery`"),
        ecn_enable: bool = switch("ecn_enable", "respond to ECN marks", false, "`bbr_ecn_enable`"),
        ecn_alpha_gain: f64 = number("ecn_alpha_gain", "weight of a round in the average share of marks", 0.0625, 0.0, 1.0, "`bbr_ecn_alpha_gain`"),
        ecn_alpha_init: f64 = number("ecn_alpha_init", "initial average share of marks", 1.0, 0.0, 1.0, "`bbr_ecn_alpha_init`"),
        ecn_factor: f64 = number("ecn_factor", "reduction of rate and inflight, as a fraction of the average share of marks", 1.0 / 3.0, 0.0, 1.0, "`bbr_ecn_factor`"),
        ecn_thresh: f64 = number("ecn_thresh", "share of marks that shows that inflight was too high", 0.5, 0.0, 1.0, "`bbr_ecn_thresh`"),
        ecn_max_rtt: Nanos = millis("ecn_max_rtt_ms", "largest minimum RTT at which marks count; 0: any", 5.0, 0.0, 10_000.0, "`bbr_ecn_max_rtt_us`"),
        ecn_reprobe_gain: f64 = number("ecn_reprobe_gain", "first step of the next probe after marks without loss, as a share of the long-term inflight bound", 0.0, 0.0, 2.0, "`bbr_ecn_reprobe_gain`"),
        full_ecn_cnt: u32 = count("full_ecn_cnt", "consecutive rounds with a share of marks of at least ecn_thresh that end STARTUP; 0: never", 2, 0, 3, "`bbr_full_ecn_cnt`"),
    }
}
