/* The core's arithmetic with names that a program can call: its tests hold it against 128-bit integers. */
#include "bw.h"

u64 bp_user_mul_div(u64 a, u64 b, u64 divisor) { return bp_mul_div(a, b, divisor); }
u64 bp_user_mul_shift(u64 a, u64 b, u32 shift) { return bp_mul_shift(a, b, shift); }
u64 bp_user_scale_right(u64 a, u64 b, u64 c, u32 shift) { return bp_narrow(bp_wide_right(bp_wide_scale(bp_wide_mul(a, b), c), shift)); }
u32 bp_user_log2_floor(u64 value) { return bp_log2_floor(value); }
u64 bp_user_ratio(u64 option) { return bp_ratio(option); }
u64 bp_user_gain(u64 option) { return bp_gain(option); }
u64 bp_user_bw_of(u64 delivered, u64 span, u64 mss) { return bp_bw_of(delivered, span, mss); }
u64 bp_user_bw_bdp(u64 bw, u64 span, u64 gain) { return bp_bw_bdp(bw, span, gain); }
u64 bp_user_bw_pacing_rate(u64 bw, u64 gain, u64 mss, u64 margin_percent) { return bp_bw_pacing_rate(bw, gain, mss, margin_percent); }
