/* Starts of the phases of PROBE_BW, and the long-term model: the twin of crates/cc/src/bbr3/long_term.rs and the start functions of probe_bw.rs. */
#ifndef BENTPIPE_CORE_BBR3_LONG_TERM_H
#define BENTPIPE_CORE_BBR3_LONG_TERM_H

#include "bbr3_window.h"

#define BP_BBR3_MAX_UP_ROUNDS 30

/* Doubles the rate of growth. */
BP_INLINE void bp_bbr3_raise_slope(struct bp_bbr3 *b)
{
    b->slope.per_packet = bp_max(b->cwnd >> (b->slope.rounds & 63), 1);
    b->slope.rounds = bp_min(b->slope.rounds + 1, BP_BBR3_MAX_UP_ROUNDS);
}

/* Returns the packets that the bound grows by for `acked` packets acknowledged. */
BP_INLINE u64 bp_bbr3_slope_growth(struct bp_bbr3_slope *slope, u64 acked)
{
    u64 growth;

    if (!slope->per_packet)
        return 0;
    slope->acked += acked;
    growth = slope->acked / slope->per_packet;
    slope->acked %= slope->per_packet;
    return growth;
}

BP_FUNC int bp_bbr3_start_down(struct bp_bbr3 *b, u64 now, u64 delivered_total)
{
    u64 random;

    BP_REQUIRE(b, 0);
    bp_bbr3_reset_signals(b);
    b->slope.per_packet = 0;
    b->cycle.rounds_since_probe = bp_random_below(b->p.probe_random_rounds);
    random = b->p.probe_wait_random ? bp_random_below(b->p.probe_wait_random) : 0;
    b->cycle.wait = b->p.probe_wait_base + random;
    b->cycle.stamp = now;
    b->cycle.ack_phase = BP_BBR3_ACKS_PROBE_STOPPING;
    bp_bbr_rounds_restart(&b->rounds, delivered_total);
    b->phase = BP_BBR3_DOWN;
    return 0;
}

BP_INLINE void bp_bbr3_start_cruise(struct bp_bbr3 *b)
{
    if (!bp_bbr3_is_draft(b) && b->short_term.in_flight != BP_NONE)
        b->short_term.in_flight = bp_min(b->short_term.in_flight, b->inflight_longterm);
    b->phase = BP_BBR3_CRUISE;
}

/* Starts REFILL; `up_rounds`: initial slope of PROBE_UP. */
BP_INLINE void bp_bbr3_start_refill(struct bp_bbr3 *b, u64 delivered_total, u64 up_rounds)
{
    bp_bbr3_reset_short_term(b);
    b->slope.rounds = bp_min(up_rounds, BP_BBR3_MAX_UP_ROUNDS);
    b->slope.acked = 0;
    b->cycle.precautionary = 0;
    b->cycle.ack_phase = BP_BBR3_ACKS_REFILLING;
    bp_bbr_rounds_restart(&b->rounds, delivered_total);
    b->phase = BP_BBR3_REFILL;
}

BP_INLINE void bp_bbr3_start_up(struct bp_bbr3 *b)
{
    b->cycle.ack_phase = BP_BBR3_ACKS_PROBE_STARTING;
    bp_bbr_rounds_restart(&b->rounds, b->sample.delivered_total);
    b->cycle.stamp = b->sample.now;
    if (!bp_bbr3_is_linux2(b))
        bp_bbr_full_restart(&b->full, b->sample.bw);
    b->phase = BP_BBR3_UP;
    bp_bbr3_raise_slope(b);
}

/* Returns whether losses in a flight of `in_flight` packets show that inflight was too high. */
BP_INLINE int bp_bbr3_is_lossy(const struct bp_bbr3 *b, u64 lost, u64 in_flight)
{
    return lost && in_flight && lost > bp_bbr_part(in_flight, b->p.loss_threshold);
}

/* Returns whether the losses or marks of the sample show it. */
BP_INLINE int bp_bbr3_is_sample_too_high(const struct bp_bbr3 *b)
{
    const struct bp_bbr3_sample *s = &b->sample;

    return bp_bbr3_is_lossy(b, s->lost, s->tx_in_flight) || bp_bbr_ecn_is_share_too_high(&b->ecn, &b->p, s->marked, s->delivered);
}

/* Returns where in a flight, its last packet lost, the losses crossed the threshold; BP_NONE: inconsistent counts. */
BP_INLINE u64 bp_bbr3_inflight_at_loss(const struct bp_bbr3 *b, u64 in_flight, u64 lost)
{
    u64 threshold = b->p.loss_threshold;
    u64 budget;

    if (!in_flight || !lost)
        return BP_NONE;
    budget = ((in_flight - 1) * threshold + BP_UNIT - 1) >> BP_UNIT_SHIFT;
    return in_flight - 1 + (bp_sub_sat(budget, lost - 1) << BP_UNIT_SHIFT) / (BP_UNIT - threshold);
}

/* Lowers the long-term bound, once per probe. */
BP_FUNC int bp_bbr3_inflight_too_high(struct bp_bbr3 *b, u64 now, u64 in_flight, u64 app_limited, u64 delivered_total)
{
    BP_REQUIRE(b, 0);
    b->cycle.too_high = 1;
    b->cycle.probe_samples = 0;
    if (!app_limited)
        b->inflight_longterm = bp_max(in_flight, bp_bbr_part(bp_bbr3_target_inflight(b), BP_UNIT - b->p.beta));
    if (b->phase == BP_BBR3_UP) {
        bp_bbr3_save_phase(b, BP_BBR3_UP);
        bp_bbr3_start_down(b, now, delivered_total);
    }
    return 0;
}

/* Raises the long-term bound while it is in use. */
BP_INLINE void bp_bbr3_probe_upward(struct bp_bbr3 *b)
{
    if (!b->sample.window_full || b->cwnd < b->inflight_longterm) {
        if (bp_bbr3_is_linux2(b))
            b->slope.acked = 0;
        return;
    }
    b->inflight_longterm = bp_add_sat(b->inflight_longterm, bp_bbr3_slope_growth(&b->slope, b->sample.acked));
    if (b->sample.round_start)
        bp_bbr3_raise_slope(b);
}

/* Ends the feedback of a probe, at the start of a round. Returns whether a full probe starts: the precautionary one caused no loss. */
BP_INLINE int bp_bbr3_end_probe(struct bp_bbr3 *b)
{
    b->cycle.probe_samples = 0;
    b->cycle.ack_phase = BP_BBR3_ACKS_INIT;
    if (bp_bbr3_is_probe_bw(b) && !b->sample.app_limited && b->max_bw.current) {
        b->max_bw.before = b->max_bw.current;
        b->max_bw.current = 0;
    }
    if ((b->phase != BP_BBR3_DOWN && b->phase != BP_BBR3_CRUISE) || !b->cycle.precautionary || b->cycle.too_high)
        return 0;
    bp_bbr3_start_refill(b, b->sample.delivered_total, 0);
    return 1;
}

/* Adapts the long-term bound. Returns whether it changed the phase. */
BP_INLINE int bp_bbr3_adapt_long_term(struct bp_bbr3 *b)
{
    const struct bp_bbr3_sample *s = &b->sample;

    if (s->round_start && b->cycle.ack_phase == BP_BBR3_ACKS_PROBE_STARTING)
        b->cycle.ack_phase = BP_BBR3_ACKS_PROBE_FEEDBACK;
    if (s->round_start && b->cycle.ack_phase == BP_BBR3_ACKS_PROBE_STOPPING && bp_bbr3_end_probe(b))
        return 1;
    if (bp_bbr3_is_sample_too_high(b)) {
        if (b->cycle.probe_samples && !bp_bbr3_is_draft(b))
            bp_bbr3_inflight_too_high(b, s->now, s->tx_in_flight, s->app_limited, s->delivered_total);
        return 0;
    }
    if (b->inflight_longterm == BP_NONE)
        return 0;
    b->inflight_longterm = bp_max(b->inflight_longterm, s->tx_in_flight);
    if (b->phase == BP_BBR3_UP)
        bp_bbr3_probe_upward(b);
    return 0;
}

/* Processes a lost packet that was sent while probing. */
BP_INLINE void bp_bbr3_lost_while_probing(struct bp_bbr3 *b, const struct bp_lost *lost)
{
    u64 in_flight = bp_clamped_packets(lost->tx_in_flight, b->mss);
    u64 lost_since = bp_clamped_packets(bp_sub_sat(lost->lost_total, lost->lost_at_send), b->mss);
    u64 app_limited;

    if (!bp_bbr3_is_lossy(b, lost_since, in_flight))
        return;
    app_limited = lost->app_limited || bp_bbr_probe_rtt_slowed(&b->probe_rtt, lost->delivered_at_send);
    bp_bbr3_inflight_too_high(b, lost->now, bp_bbr3_inflight_at_loss(b, in_flight, lost_since), app_limited, lost->delivered_total);
}

#endif
