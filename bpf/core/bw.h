/* Bandwidth in packets/us, in 2^-24: the twin of crates/cc/src/bbr_parts/bw.rs. */
#ifndef BENTPIPE_CORE_BW_H
#define BENTPIPE_CORE_BW_H

#include "fixed.h"

#define BP_BW_SHIFT 24
#define BP_BW_MAX (1ULL << 50)

/* Returns the bandwidth of `delivered` bytes in a span, at least 1; 0 below a microsecond: none. */
BP_FUNC u64 bp_bw_of(u64 delivered, u64 span, u64 mss)
{
    u64 span_us = span / BP_NS_PER_US;
    struct bp_wide scaled = bp_wide_left((struct bp_wide){.low = delivered}, BP_BW_SHIFT);
    struct bp_wide divisor = bp_wide_mul(span_us, mss);

    if (!span_us || !mss)
        return 0;
    /* A divisor beyond 64 bits: span_us is above 2^32, so that the first quotient fits in them. */
    if (divisor.high)
        return bp_clamp(bp_wide_div(scaled, span_us) / mss, 1, BP_BW_MAX);
    return bp_clamp(bp_wide_div(scaled, divisor.low), 1, BP_BW_MAX);
}

/* Returns the packets delivered in a span, rounded down. */
BP_INLINE u64 bp_bw_packets_in(u64 bw, u64 span) { return bp_mul_shift(bw, span / BP_NS_PER_US, BP_BW_SHIFT); }

/* Returns the packets delivered in a span at `gain` times the bandwidth, rounded up. */
BP_FUNC u64 bp_bw_bdp(u64 bw, u64 span, u64 gain)
{
    struct bp_wide product = bp_wide_scale(bp_wide_mul(bw, span / BP_NS_PER_US), gain);
    struct bp_wide round_up = {.low = (1ULL << BP_BW_SHIFT) - 1};

    product = bp_wide_right(product, BP_UNIT_SHIFT);
    return bp_narrow(bp_wide_right(bp_wide_add(product, round_up), BP_BW_SHIFT));
}

/* Returns the rate at `gain` times the bandwidth, less a margin [%], in bit/s. */
BP_FUNC u64 bp_bw_pacing_rate(u64 bw, u64 gain, u64 mss, u64 margin_percent)
{
    struct bp_wide scaled = bp_wide_right(bp_wide_scale(bp_wide_mul(bw, mss), gain), BP_UNIT_SHIFT);
    struct bp_wide bytes = bp_wide_right(bp_wide_scale(scaled, 1000000 / 100 * (100 - margin_percent)), BP_BW_SHIFT);

    return bp_max(bp_narrow(bp_wide_left(bytes, 3)), 8);
}

/* Returns the rate, without gain, in bit/s. */
BP_INLINE u64 bp_bw_rate(u64 bw, u64 mss)
{
    return bp_narrow(bp_wide_right(bp_wide_scale(bp_wide_mul(bw, mss), 8000000), BP_BW_SHIFT));
}

#endif
