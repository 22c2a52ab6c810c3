/* HyStart++: the twin of crates/cc/src/hystart_pp.rs. */
#ifndef BENTPIPE_CORE_HYSTART_PP_H
#define BENTPIPE_CORE_HYSTART_PP_H

#include "fixed.h"

#define BP_HYSTART_PP_MIN_RISE (4 * BP_NS_PER_MS)
#define BP_HYSTART_PP_MAX_RISE (16 * BP_NS_PER_MS)
#define BP_HYSTART_PP_MIN_SAMPLES 8
#define BP_HYSTART_PP_DIVISOR 4 /* of conservative growth */
#define BP_HYSTART_PP_ROUNDS 5  /* of conservative growth */
#define BP_HYSTART_PP_UNPACED_LIMIT 8

struct bp_hystart_pp {
    u64 limit; /* most packets that an ACK counts for */
    u64 round_end;
    u64 last_min_rtt, min_rtt; /* BP_NONE: no sample */
    u64 samples;
    u64 baseline; /* BP_NONE: not in conservative slow start, and the next two mean nothing */
    u64 rounds, credit;
};

BP_INLINE void bp_hystart_pp_init(struct bp_hystart_pp *h, u64 paced)
{
    struct bp_hystart_pp fresh = {.last_min_rtt = BP_NONE, .min_rtt = BP_NONE, .baseline = BP_NONE};

    *h = fresh;
    h->limit = paced ? BP_MAX : BP_HYSTART_PP_UNPACED_LIMIT;
}

/* Returns the packets that the window grows by for `acked` packets acknowledged. */
BP_INLINE u64 bp_hystart_pp_growth(struct bp_hystart_pp *h, u64 acked)
{
    u64 credit;

    acked = bp_min(acked, h->limit);
    if (h->baseline == BP_NONE)
        return acked;
    credit = h->credit + acked;
    h->credit = credit % BP_HYSTART_PP_DIVISOR;
    return credit / BP_HYSTART_PP_DIVISOR;
}

/* Processes an ACK of slow start with its RTT; returns whether slow start must end now. */
BP_INLINE int bp_hystart_pp_ack(struct bp_hystart_pp *h, const struct bp_ack *ack)
{
    if (ack->snd_una > h->round_end) {
        h->round_end = ack->snd_nxt;
        h->last_min_rtt = h->min_rtt;
        h->min_rtt = BP_NONE;
        h->samples = 0;
        if (h->baseline != BP_NONE && ++h->rounds >= BP_HYSTART_PP_ROUNDS)
            return 1;
    }
    h->min_rtt = bp_min(h->min_rtt, ack->rtt);
    h->samples++;
    if (h->samples < BP_HYSTART_PP_MIN_SAMPLES)
        return 0;
    if (h->baseline != BP_NONE) {
        if (h->min_rtt < h->baseline)
            h->baseline = BP_NONE;
    } else if (h->last_min_rtt != BP_NONE) {
        u64 rise = bp_clamp(h->last_min_rtt / 8, BP_HYSTART_PP_MIN_RISE, BP_HYSTART_PP_MAX_RISE);

        if (h->min_rtt >= bp_add_sat(h->last_min_rtt, rise)) {
            h->baseline = h->min_rtt;
            h->rounds = 0;
            h->credit = 0;
        }
    }
    return 0;
}

#endif
