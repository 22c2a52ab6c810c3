/* Short-term model, and losses and marks that end STARTUP: the twin of crates/cc/src/bbr3/signals.rs. */
#ifndef BENTPIPE_CORE_BBR3_SIGNALS_H
#define BENTPIPE_CORE_BBR3_SIGNALS_H

#include "bbr3_long_term.h"

/* Records a loss; returns whether it is the first one of the round. */
BP_INLINE int bp_bbr3_note_loss(struct bp_bbr3_latest *latest, u64 delivered_total)
{
    int first = !latest->loss_in_round;

    if (first)
        latest->round_end = delivered_total;
    latest->loss_in_round = latest->loss_in_cycle = 1;
    return first;
}

/* Counts the gap of a lost packet, unless it continues the last one. */
BP_INLINE void bp_bbr3_count_gap(struct bp_bbr3_latest *latest, u64 seq, u64 end)
{
    latest->startup_losses += latest->lost_end != seq;
    latest->lost_end = end;
}

BP_INLINE void bp_bbr3_restart_latest(struct bp_bbr3 *b)
{
    b->latest.bw = b->sample.bw;
    b->latest.in_flight = b->sample.delivered;
}

/* Adapts the short-term bounds once a round. */
BP_INLINE void bp_bbr3_adapt_lower_bounds(struct bp_bbr3 *b)
{
    struct bp_bbr3_short_term *bound = &b->short_term;
    u64 beta = BP_UNIT - b->p.beta;
    u64 marked_in_flight = BP_NONE, marked_bw = BP_NONE;

    if (bp_bbr3_is_probing(b))
        return;
    if (b->ecn.in_round && b->p.ecn_factor) {
        u64 reduction = bp_bbr_ecn_reduction(&b->ecn, &b->p);

        if (bound->in_flight == BP_NONE)
            bound->in_flight = b->cwnd;
        marked_in_flight = bp_bbr_part(bound->in_flight, reduction);
        if (bp_bbr3_is_linux2(b)) {
            if (bound->bw == BP_NONE)
                bound->bw = bp_bbr3_max_bw(b);
            marked_bw = bp_bbr_part(bound->bw, reduction);
        }
    }
    if (b->latest.loss_in_round) {
        u64 bw = bound->bw == BP_NONE ? bp_bbr3_max_bw(b) : bound->bw;
        u64 in_flight = bound->in_flight == BP_NONE ? b->cwnd : bound->in_flight;

        bound->bw = bp_max(b->latest.bw, bp_bbr_part(bw, beta));
        bound->in_flight = bp_max(b->latest.in_flight, bp_bbr_part(in_flight, beta));
    }
    bound->in_flight = bp_min(bound->in_flight, marked_in_flight);
    bound->bw = bp_max(bp_min(bound->bw, marked_bw), 1);
}

/* Updates the latest round, the bandwidth and, once a round, the short-term bounds. */
BP_FUNC int bp_bbr3_update_signals(struct bp_bbr3 *b)
{
    const struct bp_bbr3_sample *s;
    struct bp_bbr3_latest *latest;

    BP_REQUIRE(b, 0);
    s = &b->sample;
    latest = &b->latest;
    latest->round_start = 0;
    if (!s->valid)
        return 0;
    latest->bw = bp_max(latest->bw, s->bw);
    latest->in_flight = bp_max(latest->in_flight, s->delivered);
    if (s->prior_delivered >= latest->round_end) {
        latest->round_end = s->delivered_total;
        latest->round_start = 1;
    }
    if (!s->app_limited || s->bw >= bp_bbr3_max_bw(b))
        b->max_bw.current = bp_max(b->max_bw.current, s->bw);
    latest->loss_in_round |= s->newly_lost > 0;
    if (!latest->round_start)
        return 0;
    bp_bbr3_adapt_lower_bounds(b);
    latest->loss_in_round = 0;
    b->ecn.in_round = 0;
    if (bp_bbr3_is_linux2(b))
        bp_bbr3_restart_latest(b);
    return 0;
}

/* Ends the latest round, at the end of an ACK. */
BP_INLINE void bp_bbr3_advance_latest(struct bp_bbr3 *b)
{
    if (b->latest.round_start && !bp_bbr3_is_linux2(b))
        bp_bbr3_restart_latest(b);
    b->latest.loss_in_cycle |= b->sample.lost > 0;
    b->ecn.in_cycle |= b->sample.marked > 0;
}

/* Marks the pipe as full and sets the long-term bound. */
BP_FUNC int bp_bbr3_startup_too_high(struct bp_bbr3 *b)
{
    u64 bdp;

    BP_REQUIRE(b, 0);
    bp_bbr_full_set(&b->full);
    bp_bbr3_save_phase(b, BP_BBR3_STARTUP);
    bdp = bp_bbr3_inflight_at(b, bp_bbr3_max_bw(b));
    b->inflight_longterm = bp_bbr3_is_linux2(b) ? bdp : bp_max(bdp, b->latest.in_flight);
    return 0;
}

/* Ends STARTUP after too many losses. */
BP_INLINE void bp_bbr3_check_startup_loss(struct bp_bbr3 *b)
{
    struct bp_bbr3_latest *latest = &b->latest;

    if (b->full.reached)
        return;
    if (!bp_bbr3_is_draft(b) && b->sample.newly_lost)
        latest->startup_losses++;
    if (!latest->round_start)
        return;
    if (b->p.full_loss_count && latest->startup_losses >= b->p.full_loss_count && b->sample.in_recovery && bp_bbr3_is_sample_too_high(b))
        bp_bbr3_startup_too_high(b);
    latest->startup_losses = 0;
}

/* Ends STARTUP after too many marks; `share` of a round [1/256], or BP_NONE. */
BP_INLINE void bp_bbr3_check_startup_marks(struct bp_bbr3 *b, u64 share)
{
    if (share == BP_NONE || b->full.reached || !b->p.full_ecn_rounds || !b->p.ecn_threshold)
        return;
    b->ecn.startup_rounds = share >= b->p.ecn_threshold ? b->ecn.startup_rounds + 1 : 0;
    if (b->ecn.startup_rounds >= b->p.full_ecn_rounds)
        bp_bbr3_startup_too_high(b);
}

#endif
