/* Full pipe, DRAIN and the cycle of PROBE_BW: the twin of crates/cc/src/bbr3/probe_bw.rs. */
#ifndef BENTPIPE_CORE_BBR3_PROBE_BW_H
#define BENTPIPE_CORE_BBR3_PROBE_BW_H

#include "bbr3_long_term.h"

#define BP_BBR3_MAX_ROUNDS_SINCE_PROBE 255
#define BP_BBR3_MAX_DRAIN_ROUNDS 3

/* Checks whether the pipe is full. */
BP_INLINE void bp_bbr3_check_full_pipe(struct bp_bbr3 *b)
{
    u64 bw = bp_bbr3_is_linux2(b) ? bp_bbr3_max_bw(b) : b->sample.bw;

    if (b->sample.app_limited || (bp_bbr3_is_linux2(b) && b->full.reached))
        return;
    if (b->sample.round_start)
        bp_bbr_full_on_round(&b->full, b->p.full_bw_growth, b->p.full_bw_rounds, bw);
    else if (b->p.rules == BP_BBR_LINUX3)
        bp_bbr_full_check_growth(&b->full, b->p.full_bw_growth, bw);
}

/* Moves from STARTUP to DRAIN, and from DRAIN to DOWN. */
BP_FUNC int bp_bbr3_check_drain(struct bp_bbr3 *b, u64 next_departure)
{
    int drained;

    BP_REQUIRE(b, 0);
    if (b->phase == BP_BBR3_STARTUP && b->full.reached) {
        b->ssthresh = bp_mul_sat(bp_bbr3_inflight_at(b, bp_bbr3_max_bw(b)), b->mss);
        b->phase = BP_BBR3_DRAIN;
        b->drain_start_round = b->rounds.count;
        if (!bp_bbr3_is_draft(b))
            bp_bbr3_reset_signals(b);
    }
    if (b->phase != BP_BBR3_DRAIN)
        return 0;
    if (bp_bbr3_is_draft(b))
        drained = b->sample.in_flight <= bp_bbr3_inflight_at(b, bp_bbr3_bw(b))
            || b->rounds.count > b->drain_start_round + BP_BBR3_MAX_DRAIN_ROUNDS;
    else
        drained = bp_bbr3_inflight_at_departure(b, b->sample.in_flight, next_departure) <= bp_bbr3_inflight_at(b, bp_bbr3_max_bw(b));
    if (drained)
        bp_bbr3_start_down(b, b->sample.now, b->sample.delivered_total);
    return 0;
}

/* Starts a probe if it is time; returns whether it did. */
BP_INLINE int bp_bbr3_check_time_to_probe(struct bp_bbr3 *b)
{
    const struct bp_bbr3_sample *s = &b->sample;

    if (b->p.ecn_reprobe_gain && b->ecn.eligible && b->ecn.in_cycle && !b->latest.loss_in_cycle && s->open) {
        u64 bound = b->inflight_longterm == BP_NONE ? BP_CLAMP_PACKETS : b->inflight_longterm;

        bp_bbr3_start_refill(b, s->delivered_total, bp_log2_floor(bp_bbr_part(bound, b->p.ecn_reprobe_gain)));
        return 1;
    }
    if (s->now <= bp_add_sat(b->cycle.stamp, b->cycle.wait)
        && b->cycle.rounds_since_probe < bp_min(b->p.probe_max_rounds, bp_bbr3_target_inflight(b)))
        return 0;
    bp_bbr3_start_refill(b, s->delivered_total, 0);
    return 1;
}

/* Returns whether CRUISE should start. */
BP_INLINE int bp_bbr3_is_time_to_cruise(const struct bp_bbr3 *b, u64 in_flight)
{
    return in_flight <= bp_bbr3_bound_with_headroom(b) && in_flight <= bp_bbr3_inflight_at(b, bp_bbr3_max_bw(b));
}

/* Returns whether DOWN should start. */
BP_INLINE int bp_bbr3_is_time_to_go_down(struct bp_bbr3 *b, u64 in_flight)
{
    if (b->cycle.too_high && in_flight >= b->inflight_longterm) {
        b->cycle.precautionary = 1;
        return 1;
    }
    if (bp_bbr3_is_linux2(b))
        return bp_sub_sat(b->sample.now, b->cycle.stamp) > b->min_rtt.value
            && in_flight >= bp_bbr3_with_budget(b, bp_bbr3_bdp(b, bp_bbr3_max_bw(b), b->p.probe_in_flight_gain));
    if (b->sample.window_full && b->cwnd >= b->inflight_longterm) {
        bp_bbr_full_restart(&b->full, b->sample.bw);
        return 0;
    }
    return b->full.now != 0;
}

/* Moves through the cycle. */
BP_FUNC int bp_bbr3_update_cycle(struct bp_bbr3 *b, u64 next_departure)
{
    u64 in_flight;

    BP_REQUIRE(b, 0);
    if (!b->full.reached || bp_bbr3_adapt_long_term(b))
        return 0;
    in_flight = b->sample.in_flight;
    if (!bp_bbr3_is_draft(b))
        in_flight = bp_bbr3_inflight_at_departure(b, b->sample.prior_in_flight, next_departure);
    switch (b->phase) {
    case BP_BBR3_DOWN:
    case BP_BBR3_CRUISE:
        if (!bp_bbr3_check_time_to_probe(b) && b->phase == BP_BBR3_DOWN && bp_bbr3_is_time_to_cruise(b, in_flight))
            bp_bbr3_start_cruise(b);
        break;
    case BP_BBR3_REFILL:
        if (b->sample.round_start) {
            b->cycle.probe_samples = 1;
            bp_bbr3_start_up(b);
        }
        break;
    case BP_BBR3_UP:
        if (bp_bbr3_is_time_to_go_down(b, in_flight)) {
            b->cycle.too_high = 0;
            bp_bbr3_start_down(b, b->sample.now, b->sample.delivered_total);
        }
        break;
    default: break;
    }
    return 0;
}

#endif
