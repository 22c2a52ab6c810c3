/* Window and pacing rate from the model: the twin of crates/cc/src/bbr3/window.rs. */
#ifndef BENTPIPE_CORE_BBR3_WINDOW_H
#define BENTPIPE_CORE_BBR3_WINDOW_H

#include "bbr3_state.h"

#define BP_BBR3_SHORT_PATH_BURST 65536ULL
#define BP_BBR3_MIN_BURST 2ULL

/* Sets the initial rate; `rtt` may be BP_NONE. */
BP_INLINE void bp_bbr3_init_pacing_rate(struct bp_bbr3 *b, u64 rtt)
{
    u64 bw;

    b->has_rtt |= rtt != BP_NONE;
    bw = bp_bw_of(b->cwnd * b->mss, bp_max(rtt == BP_NONE ? BP_NS_PER_MS : rtt, BP_NS_PER_US), b->mss);
    if (bw)
        b->pacing_rate = bp_bw_pacing_rate(bw, b->p.startup_pacing_gain, b->mss, b->p.pacing_margin_percent);
}

/* Sets the pacing rate; until the pipe is full it only rises. */
BP_FUNC int bp_bbr3_set_pacing_rate(struct bp_bbr3 *b, u64 gain, u64 srtt)
{
    u64 rate;

    BP_REQUIRE(b, 0);
    if (!b->has_rtt && srtt)
        bp_bbr3_init_pacing_rate(b, srtt);
    rate = bp_bw_pacing_rate(bp_bbr3_bw(b), gain, b->mss, b->p.pacing_margin_percent);
    if (b->full.reached || rate > b->pacing_rate)
        b->pacing_rate = rate;
    return 0;
}

/* Returns the packets that the sender puts in one burst. */
BP_FUNC u64 bp_bbr3_burst(const struct bp_bbr3 *b)
{
    u64 bytes, min;

    BP_REQUIRE(b, 0);
    bytes = b->pacing_rate / 8 >> BP_BBR_PACING_SHIFT;
    if (b->p.tso_rtt_shift && b->min_rtt.value != BP_NONE) {
        u64 halvings = b->min_rtt.value / BP_NS_PER_US >> (b->p.tso_rtt_shift & 63);

        if (halvings < 64)
            bytes += BP_BBR3_SHORT_PATH_BURST >> halvings;
    }
    min = bp_bbr3_is_linux2(b) ? bp_bbr_min_burst(b->pacing_rate) : BP_BBR3_MIN_BURST;
    return bp_max(bp_min(bytes, BP_BBR_MAX_BURST_BYTES) / b->mss, min);
}

/* Returns the bandwidth-delay product at `gain` [packets]. */
BP_INLINE u64 bp_bbr3_bdp(const struct bp_bbr3 *b, u64 bw, u64 gain)
{
    return bp_min(b->min_rtt.value == BP_NONE ? b->initial_cwnd : bp_bw_bdp(bw, b->min_rtt.value, gain), BP_CLAMP_PACKETS);
}

/* Adds room for bursts, and for PROBE_UP to show in a tiny window. */
BP_INLINE u64 bp_bbr3_with_budget(const struct bp_bbr3 *b, u64 window)
{
    window = bp_max(bp_max(window, BP_BBR_BURSTS_IN_WINDOW * bp_bbr3_burst(b)), BP_BBR_MIN_CWND);
    return b->phase == BP_BBR3_UP ? window + 2 : window;
}

/* Returns the inflight at gain 1 of a bandwidth. */
BP_FUNC u64 bp_bbr3_inflight_at(const struct bp_bbr3 *b, u64 bw)
{
    BP_REQUIRE(b, 0);
    return bp_bbr3_with_budget(b, bp_bbr3_bdp(b, bw, BP_UNIT));
}

BP_FUNC u64 bp_bbr3_target_inflight(const struct bp_bbr3 *b)
{
    u64 bdp;

    BP_REQUIRE(b, 0);
    bdp = bp_bbr3_bdp(b, bp_bbr3_bw(b), BP_UNIT);
    return bp_min(bp_bbr3_is_draft(b) ? bdp : bp_bbr3_with_budget(b, bdp), b->cwnd);
}

/* Returns the window in PROBE_RTT. */
BP_INLINE u64 bp_bbr3_probe_rtt_cwnd(const struct bp_bbr3 *b)
{
    return bp_max(bp_bbr3_bdp(b, bp_bbr3_bw(b), b->p.probe_rtt_cwnd_gain), BP_BBR_MIN_CWND);
}

/* Returns the long-term bound less the headroom for other flows. */
BP_INLINE u64 bp_bbr3_bound_with_headroom(const struct bp_bbr3 *b)
{
    u64 bound = b->inflight_longterm;

    if (bound == BP_NONE)
        return BP_NONE;
    return bp_max(bp_sub_sat(bound, bp_max(bp_bbr_part(bound, b->p.headroom), 1)), BP_BBR_MIN_CWND);
}

/* Returns the packets in flight when the pacer releases the next packet. */
BP_FUNC u64 bp_bbr3_inflight_at_departure(const struct bp_bbr3 *b, u64 in_flight, u64 next_departure)
{
    u64 delivered;

    BP_REQUIRE(b, 0);
    delivered = bp_bw_packets_in(bp_bbr3_bw(b), bp_sub_sat(next_departure, b->sample.now));
    if (bp_bbr3_pacing_gain(b) > BP_UNIT)
        in_flight += bp_bbr3_burst(b);
    return bp_sub_sat(in_flight, delivered);
}

/* Limits the window to the bounds. */
BP_INLINE void bp_bbr3_bound_cwnd(struct bp_bbr3 *b)
{
    u64 bound = BP_NONE;

    if (b->phase == BP_BBR3_DOWN || b->phase == BP_BBR3_REFILL || b->phase == BP_BBR3_UP)
        bound = b->inflight_longterm;
    else if (b->phase == BP_BBR3_CRUISE || b->phase == BP_BBR3_PROBE_RTT)
        bound = bp_bbr3_bound_with_headroom(b);
    b->cwnd = bp_min(b->cwnd, bp_max(bp_min(bound, b->short_term.in_flight), BP_BBR_MIN_CWND));
}

BP_INLINE void bp_bbr3_grow_cwnd(struct bp_bbr3 *b, u64 acked)
{
    int is_draft = bp_bbr3_is_draft(b);
    u64 bw = bp_bbr3_bw(b);
    u64 extra = is_draft ? bp_bbr_aggregation_extra(&b->aggregation) : bp_bbr_aggregation_window(&b->aggregation, bw);
    u64 target = bp_bbr3_with_budget(b, bp_bbr3_bdp(b, bw, bp_bbr3_cwnd_gain(b)) + bp_bbr_part(extra, b->p.extra_acked_gain));
    int is_early = is_draft ? b->sample.delivered_total < b->initial_cwnd * b->mss : b->cwnd < 2 * b->initial_cwnd;

    if (b->full.reached)
        b->cwnd = bp_min(b->cwnd + acked, target);
    else if (b->cwnd < target || is_early)
        b->cwnd += acked;
    b->cwnd = bp_max(b->cwnd, BP_BBR_MIN_CWND);
}

/* Updates the window. */
BP_FUNC int bp_bbr3_update_cwnd(struct bp_bbr3 *b)
{
    BP_REQUIRE(b, 0);
    if (b->sample.acked)
        bp_bbr3_grow_cwnd(b, b->sample.acked);
    b->cwnd = bp_min(b->cwnd, BP_CLAMP_PACKETS);
    if (b->phase == BP_BBR3_PROBE_RTT)
        b->cwnd = bp_min(b->cwnd, bp_bbr3_probe_rtt_cwnd(b));
    bp_bbr3_bound_cwnd(b);
    return 0;
}

#endif
