//! BBR v1's constants. Source of each: Linux `net/ipv4/tcp_bbr.c`, 6.18, under the name given; why they have these values is told there and in
//! Cardwell et al., "BBR: congestion-based congestion control", ACM Queue 14(5), 2016.

use bentpipe_profile::{Nanos, Rate};

/// Gains are multiples of 1/256 (`BBR_SCALE`, `BBR_UNIT`).
pub const GAIN_SHIFT: u32 = 8;
/// Gain 1.
pub const UNIT: u64 = 1 << GAIN_SHIFT;

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
/// Pacing stays this much below the bandwidth, so that a queue drains [%] (`bbr_pacing_margin_percent`).
pub const PACING_MARGIN_PERCENT: u64 = 1;

/// Seconds the minimum RTT is believed (`bbr_min_rtt_win_sec`).
pub const MIN_RTT_WINDOW_S: f64 = 10.0;
/// Milliseconds of `PROBE_RTT` (`bbr_probe_rtt_mode_ms`).
pub const PROBE_RTT_MS: f64 = 200.0;
/// Window in `PROBE_RTT`, and the least window at all [packets] (`bbr_cwnd_min_target`).
pub const MIN_CWND_PACKETS: u64 = 4;
/// The window assumed before the first RTT [packets] (`TCP_INIT_CWND`, RFC 6928).
pub const INITIAL_CWND_PACKETS: u64 = 10;

/// Growth that says the pipe is not full: 25 % … (`bbr_full_bw_thresh`).
pub const FULL_BW_GROWTH: u64 = UNIT * 5 / 4;
/// … and the rounds without it that say it is (`bbr_full_bw_cnt`).
pub const FULL_BW_ROUNDS: u32 = 3;

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

/// Rounds of each of the two windows of ACK aggregation (`bbr_extra_acked_win_rtts`).
pub const EXTRA_ACKED_WINDOW_ROUNDS: u32 = 5;
/// An aggregation epoch ends at so many packets (`bbr_ack_epoch_acked_reset_thresh`).
pub const ACK_EPOCH_MAX_PACKETS: u64 = 1 << 20;
/// Aggregation is worth this much time of the bandwidth at most (`bbr_extra_acked_max_us`).
pub const EXTRA_ACKED_MAX: Nanos = Nanos::from_millis(100);

/// Bursts are this much time of the pacing rate: 2^-10 s (`sk_pacing_shift`, Linux `net/core/sock.c`).
pub const PACING_SHIFT: u32 = 10;
/// Largest burst [bytes] (`GSO_LEGACY_MAX_SIZE − 1 − MAX_TCP_HEADER`, the latter 320 on x86-64).
pub const MAX_BURST_BYTES: u64 = 65_536 - 1 - 320;
/// Most packets in a burst (`bbr_tso_segs_goal`).
pub const MAX_BURST_PACKETS: u64 = 0x7f;
/// Below this rate a burst is one packet, above it two at least (`bbr_min_tso_rate`).
pub const MIN_TSO_RATE: Rate = Rate(1_200_000);
/// The send buffer is this many windows: lost packets wait in it for two rounds (`bbr_sndbuf_expand`).
pub const SNDBUF_FACTOR: u32 = 3;
