//! Constants that the versions of BBR share. Source of each: Linux `net/ipv4/tcp_bbr.c`, 6.18, under the name given; the modules of versions 2 and 3
//! (github.com/google/bbr) have the same.

use bentpipe_profile::{Nanos, Rate};

/// Gains are multiples of 1/256 (`BBR_SCALE`, `BBR_UNIT`).
pub const GAIN_SHIFT: u32 = 8;
/// Gain 1.
pub const UNIT: u64 = 1 << GAIN_SHIFT;

/// Pacing stays this much below the bandwidth, so that a queue drains [%] (`bbr_pacing_margin_percent`).
pub const PACING_MARGIN_PERCENT: u64 = 1;

/// Seconds until the minimum RTT expires (`bbr_min_rtt_win_sec`).
pub const MIN_RTT_WINDOW_S: f64 = 10.0;
/// Duration of `PROBE_RTT` [ms] (`bbr_probe_rtt_mode_ms`).
pub const PROBE_RTT_MS: f64 = 200.0;
/// Window in `PROBE_RTT`, and the smallest window [packets] (`bbr_cwnd_min_target`).
pub const MIN_CWND_PACKETS: u64 = 4;
/// The window assumed before the first RTT [packets] (`TCP_INIT_CWND`, RFC 6928).
pub const INITIAL_CWND_PACKETS: u64 = 10;

/// Growth below which a round counts as without growth: 25 % (`bbr_full_bw_thresh`).
pub const FULL_BW_GROWTH: u64 = UNIT * 5 / 4;
/// Rounds without growth that show a full pipe (`bbr_full_bw_cnt`).
pub const FULL_BW_ROUNDS: u32 = 3;

/// Rounds of each of the two windows of ACK aggregation (`bbr_extra_acked_win_rtts`).
pub const EXTRA_ACKED_WINDOW_ROUNDS: u32 = 5;
/// Packets at which an aggregation epoch ends (`bbr_ack_epoch_acked_reset_thresh`).
pub const ACK_EPOCH_MAX_PACKETS: u64 = 1 << 20;
/// Limit of ACK aggregation, as time at the bandwidth (`bbr_extra_acked_max_us`).
pub const EXTRA_ACKED_MAX: Nanos = Nanos::from_millis(100);

/// Length of a burst, as time at the pacing rate: 2^-10 s (`sk_pacing_shift`, Linux `net/core/sock.c`).
pub const PACING_SHIFT: u32 = 10;
/// Largest burst [bytes] (`GSO_LEGACY_MAX_SIZE − 1 − MAX_TCP_HEADER`, the latter 320 on x86-64).
pub const MAX_BURST_BYTES: u64 = 65_536 - 1 - 320;
/// Most packets in a burst (`bbr_tso_segs_goal`).
pub const MAX_BURST_PACKETS: u64 = 0x7f;
/// Below this rate a burst is one packet, above it at least two (`bbr_min_tso_rate`).
pub const MIN_TSO_RATE: Rate = Rate(1_200_000);
/// Bursts added to the window: one in the qdisc, one in the device, one at the receiver (`bbr_quantization_budget`).
pub const BURSTS_IN_WINDOW: u64 = 3;
/// Size of the send buffer in windows: lost packets wait in it for two rounds (`bbr_sndbuf_expand`).
pub const SNDBUF_FACTOR: u32 = 3;

/// Returns the fewest packets in a burst (`bbr_min_tso_segs`).
pub const fn min_burst_packets(pacing_rate: Rate) -> u32 {
    if pacing_rate.0 < MIN_TSO_RATE.0 { 1 } else { 2 }
}
