/* ACK aggregation: the twin of crates/cc/src/bbr_parts/aggregation.rs. */
#ifndef BENTPIPE_CORE_BBR_AGGREGATION_H
#define BENTPIPE_CORE_BBR_AGGREGATION_H

#include "bbr_parts.h"
#include "filter.h"

/* The excess is filtered by Linux's two windows, or by the draft's windowed maximum. */
struct bp_bbr_aggregation {
    u64 epoch_start, epoch_acked;
    u64 has_one_window;
    u64 rounds;               /* since the current one of two windows began, or all */
    u64 current, previous;    /* excess in two windows [packets] */
    struct bp_filter maximum; /* excess in one window [packets] */
};

BP_INLINE void bp_bbr_aggregation_restart_epoch(struct bp_bbr_aggregation *a, u64 now)
{
    a->epoch_start = now;
    a->epoch_acked = 0;
}

BP_INLINE void bp_bbr_aggregation_init(struct bp_bbr_aggregation *a, u64 now, int has_one_window)
{
    bp_bbr_aggregation_restart_epoch(a, now);
    a->has_one_window = has_one_window;
    a->rounds = a->current = a->previous = 0;
    bp_filter_init(&a->maximum, 1, 0, 0);
}

BP_INLINE void bp_bbr_aggregation_filter(struct bp_bbr_aggregation *a, u64 extra, u64 round_start, u64 window_rounds)
{
    a->rounds += round_start;
    if (a->has_one_window) {
        a->maximum.window = window_rounds;
        bp_filter_update(&a->maximum, a->rounds, extra);
        return;
    }
    if (round_start && a->rounds >= window_rounds) {
        a->rounds = 0;
        a->previous = a->current;
        a->current = 0;
    }
    a->current = bp_max(a->current, extra);
}

/* Processes an ACK with a valid delivery rate. */
BP_INLINE void bp_bbr_aggregation_ack(struct bp_bbr_aggregation *a, u64 now, u64 acked, u64 round_start, u64 window_rounds, u64 bw, u64 cwnd)
{
    u64 expected;

    if (!acked)
        return;
    expected = bp_bw_packets_in(bw, bp_sub_sat(now, a->epoch_start));
    if (a->epoch_acked <= expected || bp_add_sat(a->epoch_acked, acked) >= BP_BBR_ACK_EPOCH_MAX) {
        bp_bbr_aggregation_restart_epoch(a, now);
        expected = 0;
    }
    a->epoch_acked = bp_min(bp_add_sat(a->epoch_acked, acked), BP_BBR_ACK_EPOCH_MAX - 1);
    bp_bbr_aggregation_filter(a, bp_min(bp_sub_sat(a->epoch_acked, expected), cwnd), round_start, window_rounds);
}

/* Returns the greatest excess in the window [packets]. */
BP_INLINE u64 bp_bbr_aggregation_extra(const struct bp_bbr_aggregation *a)
{
    return a->has_one_window ? bp_filter_get(&a->maximum) : bp_max(a->current, a->previous);
}

/* Returns the packets added to the window. */
BP_INLINE u64 bp_bbr_aggregation_window(const struct bp_bbr_aggregation *a, u64 bw)
{
    return bp_min(bp_bbr_aggregation_extra(a), bp_bw_packets_in(bw, BP_BBR_EXTRA_ACKED_MAX));
}

#endif
