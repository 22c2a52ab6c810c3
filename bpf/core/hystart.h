/* Classic HyStart: the twin of crates/cc/src/hystart.rs. */
#ifndef BENTPIPE_CORE_HYSTART_H
#define BENTPIPE_CORE_HYSTART_H

#include "fixed.h"

#define BP_HYSTART_LOW_WINDOW 16 /* [packets] */
#define BP_HYSTART_MIN_SAMPLES 8
#define BP_HYSTART_DELAY_MIN (4 * BP_NS_PER_MS)
#define BP_HYSTART_DELAY_MAX (16 * BP_NS_PER_MS)
#define BP_HYSTART_ACK_DELTA (2 * BP_NS_PER_MS)
#define BP_HYSTART_BURSTS (4 * 65536ULL) /* whose serialisation time is allowed [bytes] */
#define BP_HYSTART_MAX_ALLOWANCE BP_NS_PER_MS

struct bp_hystart {
    u64 paced, triggered;
    u64 round_start, last_ack;
    u64 round_end; /* BP_NONE: the next ACK sets it */
    u64 round_min_rtt, samples;
};

BP_INLINE void bp_hystart_init(struct bp_hystart *h, u64 paced)
{
    struct bp_hystart fresh = {.paced = paced, .round_min_rtt = BP_MAX};

    *h = fresh;
}

BP_INLINE void bp_hystart_start_round(struct bp_hystart *h, u64 now, u64 end)
{
    h->round_start = now;
    h->last_ack = now;
    h->round_end = end;
    h->round_min_rtt = BP_MAX;
    h->samples = 0;
}

BP_INLINE void bp_hystart_restart(struct bp_hystart *h, u64 now)
{
    h->triggered = 0;
    bp_hystart_start_round(h, now, BP_NONE);
}

BP_INLINE int bp_hystart_detect_ack_train(struct bp_hystart *h, const struct bp_ack *ack, u64 delay_min)
{
    u64 allowance = 0, threshold;

    if (bp_sub_sat(ack->now, h->last_ack) > BP_HYSTART_ACK_DELTA)
        return 0;
    h->last_ack = ack->now;
    if (ack->pacing_rate)
        allowance = bp_min(BP_HYSTART_BURSTS * 8 * BP_NS_PER_S / ack->pacing_rate, BP_HYSTART_MAX_ALLOWANCE);
    threshold = bp_add_sat(delay_min, allowance);
    if (!h->paced)
        threshold /= 2;
    return bp_sub_sat(ack->now, h->round_start) > threshold;
}

BP_INLINE int bp_hystart_detect_delay_increase(struct bp_hystart *h, u64 rtt, u64 delay_min)
{
    u64 rise = bp_clamp(delay_min / 8, BP_HYSTART_DELAY_MIN, BP_HYSTART_DELAY_MAX);

    h->round_min_rtt = bp_min(h->round_min_rtt, rtt);
    if (h->samples < BP_HYSTART_MIN_SAMPLES) {
        h->samples++;
        return 0;
    }
    return h->round_min_rtt > bp_add_sat(delay_min, rise);
}

/* Processes an ACK of slow start with its RTT; returns whether slow start must end now. */
BP_INLINE int bp_hystart_ack(struct bp_hystart *h, const struct bp_ack *ack, u64 delay_min, u64 cwnd)
{
    int train, delay;

    if (h->triggered)
        return 0;
    if (h->round_end == BP_NONE)
        h->round_end = ack->snd_nxt;
    if (ack->snd_una > h->round_end)
        bp_hystart_start_round(h, ack->now, ack->snd_nxt);
    if (cwnd < BP_HYSTART_LOW_WINDOW)
        return 0;
    train = bp_hystart_detect_ack_train(h, ack, delay_min);
    delay = bp_hystart_detect_delay_increase(h, ack->rtt, delay_min);
    h->triggered = train || delay;
    return (int)h->triggered;
}

#endif
