/* Parts that the versions of BBR share: the twins of params, rounds, full_pipe, min_rtt and probe_rtt in crates/cc/src/bbr_parts/.
 * A window or threshold that is an option there is an argument here: options may change while a socket uses them. */
#ifndef BENTPIPE_CORE_BBR_PARTS_H
#define BENTPIPE_CORE_BBR_PARTS_H

#include "bw.h"

#define BP_BBR_PACING_MARGIN_PERCENT 1
#define BP_BBR_MIN_CWND 4ULL
#define BP_BBR_INITIAL_CWND 10ULL
#define BP_BBR_FULL_BW_GROWTH (BP_UNIT * 5 / 4)
#define BP_BBR_FULL_BW_ROUNDS 3
#define BP_BBR_EXTRA_ACKED_ROUNDS 5
#define BP_BBR_ACK_EPOCH_MAX (1ULL << 20)
#define BP_BBR_EXTRA_ACKED_MAX (100 * BP_NS_PER_MS)
#define BP_BBR_PACING_SHIFT 10
#define BP_BBR_MAX_BURST_BYTES (65536ULL - 1 - 320)
#define BP_BBR_MAX_BURST 0x7fULL
#define BP_BBR_MIN_TSO_RATE 1200000ULL
#define BP_BBR_BURSTS_IN_WINDOW 3ULL

/* Returns the fewest packets in a burst. */
BP_INLINE u64 bp_bbr_min_burst(u64 pacing_rate) { return pacing_rate < BP_BBR_MIN_TSO_RATE ? 1 : 2; }

/* RTTs counted by packets. */
struct bp_bbr_rounds {
    u64 count;
    u64 end; /* a packet sent at this count of delivered bytes, or later, ends the round */
    u64 start;
};

/* Processes an ACK; `prior_delivered` is BP_NONE without a rate sample. */
BP_INLINE u64 bp_bbr_rounds_advance(struct bp_bbr_rounds *r, u64 prior_delivered, u64 delivered_total)
{
    r->start = prior_delivered != BP_NONE && prior_delivered >= r->end;
    if (r->start) {
        r->end = delivered_total;
        r->count++;
    }
    return r->start;
}

BP_INLINE void bp_bbr_rounds_restart(struct bp_bbr_rounds *r, u64 delivered_total) { r->end = delivered_total; }
BP_INLINE void bp_bbr_rounds_force_start(struct bp_bbr_rounds *r) { r->start = 1; }

/* Detection of a full pipe. */
struct bp_bbr_full {
    u64 bw;
    u64 rounds_without_growth;
    u64 now;     /* since the last restart */
    u64 reached; /* at any time */
};

/* Processes a bandwidth within a round; returns whether it shows growth. */
BP_INLINE int bp_bbr_full_check_growth(struct bp_bbr_full *f, u64 growth, u64 bw)
{
    int has_grown = bw >= bp_mul_shift(f->bw, growth, BP_UNIT_SHIFT);

    if (has_grown && !f->now) {
        f->bw = bw;
        f->rounds_without_growth = 0;
    }
    return has_grown;
}

/* Processes the bandwidth at the start of a round, if it is not application-limited. */
BP_INLINE void bp_bbr_full_on_round(struct bp_bbr_full *f, u64 growth, u64 rounds, u64 bw)
{
    if (f->now || bp_bbr_full_check_growth(f, growth, bw))
        return;
    f->rounds_without_growth++;
    f->now = f->rounds_without_growth >= rounds;
    f->reached |= f->now;
}

BP_INLINE void bp_bbr_full_restart(struct bp_bbr_full *f, u64 bw)
{
    f->bw = bw;
    f->rounds_without_growth = 0;
    f->now = 0;
}

BP_INLINE void bp_bbr_full_set(struct bp_bbr_full *f) { f->now = f->reached = 1; }
BP_INLINE void bp_bbr_full_set_never(struct bp_bbr_full *f) { f->reached = 0; }
BP_INLINE void bp_bbr_full_timeout(struct bp_bbr_full *f) { f->bw = 0; }
BP_INLINE void bp_bbr_full_undo(struct bp_bbr_full *f) { f->bw = f->rounds_without_growth = 0; }

/* Minimum RTT of a window. */
struct bp_bbr_min_rtt {
    u64 value; /* [ns]; BP_NONE */
    u64 stamp;
};

BP_INLINE void bp_bbr_min_rtt_init(struct bp_bbr_min_rtt *m, u64 now)
{
    m->value = BP_NONE;
    m->stamp = now;
}

/* Processes an ACK; returns whether the value had expired before it. */
BP_INLINE int bp_bbr_min_rtt_ack(struct bp_bbr_min_rtt *m, u64 window, u64 now, u64 rtt, u64 ack_delayed)
{
    int expired = now > bp_add_sat(m->stamp, window);

    if (rtt != BP_NONE && (rtt < m->value || (expired && !ack_delayed))) {
        m->value = bp_max(rtt, BP_NS_PER_US);
        m->stamp = now;
    }
    return expired;
}

/* State of a PROBE_RTT, and the range of packets that it slowed. */
struct bp_bbr_probe_rtt {
    u64 done_at; /* BP_NONE: much is in flight */
    u64 round_done;
    u64 is_slowing; /* `from` and `until` are set */
    u64 from, until;
};

enum bp_bbr_probe_rtt_step { BP_BBR_PROBE_RTT_WAIT, BP_BBR_PROBE_RTT_BEGIN, BP_BBR_PROBE_RTT_DONE };

BP_INLINE void bp_bbr_probe_rtt_init(struct bp_bbr_probe_rtt *p)
{
    struct bp_bbr_probe_rtt fresh = {.done_at = BP_NONE};

    *p = fresh;
}

BP_INLINE void bp_bbr_probe_rtt_enter(struct bp_bbr_probe_rtt *p, u64 delivered)
{
    p->done_at = BP_NONE;
    p->is_slowing = 1;
    p->from = p->until = delivered;
}

BP_INLINE int bp_bbr_probe_rtt_time_is_up(const struct bp_bbr_probe_rtt *p, u64 now)
{
    return p->done_at != BP_NONE && now > p->done_at;
}

/* Processes an ACK; `small`: inflight is down to the minimum. */
BP_INLINE enum bp_bbr_probe_rtt_step bp_bbr_probe_rtt_ack(struct bp_bbr_probe_rtt *p, u64 duration, const struct bp_ack *ack, int small, u64 round_start)
{
    if (p->is_slowing)
        p->until = bp_add_sat(ack->delivered_total, ack->in_flight);
    if (p->done_at == BP_NONE) {
        if (!small)
            return BP_BBR_PROBE_RTT_WAIT;
        p->done_at = bp_add_sat(ack->now, duration);
        p->round_done = 0;
        return BP_BBR_PROBE_RTT_BEGIN;
    }
    p->round_done |= round_start;
    return p->round_done && bp_bbr_probe_rtt_time_is_up(p, ack->now) ? BP_BBR_PROBE_RTT_DONE : BP_BBR_PROBE_RTT_WAIT;
}

/* Returns whether PROBE_RTT slowed a packet sent when so many bytes had been delivered. */
BP_INLINE int bp_bbr_probe_rtt_slowed(const struct bp_bbr_probe_rtt *p, u64 delivered)
{
    return p->is_slowing && p->from <= delivered && delivered <= p->until;
}

#endif
