//! BBR v1's constants. Source of each: Linux `net/ipv4/tcp_bbr.c`, 6.18, under the name given; why they have these values is told there and in
//! Cardwell et al., "BBR: congestion-based congestion control", ACM Queue 14(5), 2016.

pub use super::super::bbr_parts::params::*;
use bentpipe_profile::Rate;

/// The least gain that doubles the delivery rate every round, 2/ln 2 (`bbr_high_gain`).
pub const HIGH_GAIN: u64 = UNIT * 2885 / 1000 + 1;
/// Drains in a round what STARTUP queued (`bbr_drain_gain`).
pub const DRAIN_GAIN: u64 = UNIT * 1000 / 2885;
/// Window in `PROBE_BW`: room for delayed and stretched ACKs (`bbr_cwnd_gain`).
pub const CWND_GAIN: u64 = UNIT * 2;
/// `PROBE_BW`: probe, drain what that queued, cruise (`bbr_pacing_gain`).
pub const PACING_GAINS: [u64; 8] = [UNIT * 5 / 4, UNIT * 3 / 4, UNIT, UNIT, UNIT, UNIT, UNIT, UNIT];
/// The phases a cycle may begin with: all but the draining one (`bbr_cycle_rand`).
pub const CYCLE_RANDOM_PHASES: u64 = 7;

/// Rounds the bandwidth filter remembers (`bbr_bw_rtts`: a cycle and two).
pub const BANDWIDTH_WINDOW_ROUNDS: u64 = PACING_GAINS.len() as u64 + 2;
/// Least rounds of a policer's sampling interval (`bbr_lt_intvl_min_rtts`); four times as many are too many.
pub const POLICER_MIN_ROUNDS: u32 = 4;
/// Loss that ends an interval: 50/256 ≈ 20 % of what is delivered (`bbr_lt_loss_thresh`).
pub const POLICER_LOSS_THRESHOLD: u64 = 50;
/// Intervals agree within 1/8 … (`bbr_lt_bw_ratio`).
pub const POLICER_BW_RATIO: u64 = UNIT / 8;
/// … or 4 kbit/s (`bbr_lt_bw_diff`).
pub const POLICER_BW_DIFFERENCE: Rate = Rate(4000);
/// Rounds a policer's rate is kept to (`bbr_lt_bw_max_rtts`).
pub const POLICER_USE_ROUNDS: u32 = 48;
