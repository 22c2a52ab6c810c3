//! Constants of BBR v1. Source of each: Linux `net/ipv4/tcp_bbr.c`, 6.18, under the name given. Their reasons are given there and in
//! Cardwell et al., "BBR: congestion-based congestion control", ACM Queue 14(5), 2016.

pub use super::super::bbr_parts::params::*;
use bentpipe_profile::Rate;

/// Smallest gain that doubles the delivery rate every round, 2/ln 2 (`bbr_high_gain`).
pub const HIGH_GAIN: u64 = UNIT * 2885 / 1000 + 1;
/// Gain that drains the queue of STARTUP in one round (`bbr_drain_gain`).
pub const DRAIN_GAIN: u64 = UNIT * 1000 / 2885;
/// Window in `PROBE_BW`: room for delayed and stretched ACKs (`bbr_cwnd_gain`).
pub const CWND_GAIN: u64 = UNIT * 2;
/// Gains of `PROBE_BW`: probe, drain the queue of the probe, cruise (`bbr_pacing_gain`).
pub const PACING_GAINS: [u64; 8] = [UNIT * 5 / 4, UNIT * 3 / 4, UNIT, UNIT, UNIT, UNIT, UNIT, UNIT];
/// Phases that a cycle may begin with: all but the draining one (`bbr_cycle_rand`).
pub const CYCLE_RANDOM_PHASES: u64 = 7;

/// Rounds in the bandwidth filter (`bbr_bw_rtts`: a cycle and two).
pub const BANDWIDTH_WINDOW_ROUNDS: u64 = PACING_GAINS.len() as u64 + 2;
/// Fewest rounds of a policer's sampling interval (`bbr_lt_intvl_min_rtts`); four times as many are too many.
pub const POLICER_MIN_ROUNDS: u32 = 4;
/// Loss that ends an interval: 50/256 ≈ 20 % of the delivered bytes (`bbr_lt_loss_thresh`).
pub const POLICER_LOSS_THRESHOLD: u64 = 50;
/// Largest difference of two intervals' rates, as a fraction: 1/8 (`bbr_lt_bw_ratio`) …
pub const POLICER_BW_RATIO: u64 = UNIT / 8;
/// … or absolute: 4 kbit/s (`bbr_lt_bw_diff`).
pub const POLICER_BW_DIFFERENCE: Rate = Rate(4000);
/// Rounds for which a policer's rate is used (`bbr_lt_bw_max_rtts`).
pub const POLICER_USE_ROUNDS: u32 = 48;
