/* Reno: the twin of crates/cc/src/new_reno.rs. */
#ifndef BENTPIPE_CORE_RENO_H
#define BENTPIPE_CORE_RENO_H

#include "window.h"

#define BP_RENO_OPTIONS(OPTION)
#define BP_RENO_MIN_SSTHRESH 2 /* [packets] */

struct bp_reno {
    struct bp_window window;
};

BP_INLINE void bp_reno_set_options(struct bp_reno *r, const struct bp_options *options) { (void)r, (void)options; }

BP_INLINE void bp_reno_init(struct bp_reno *r, const struct bp_config *config, const struct bp_options *options)
{
    bp_window_init(&r->window, config->mss, config->initial_cwnd);
    bp_reno_set_options(r, options);
}

BP_INLINE void bp_reno_ack(struct bp_reno *r, const struct bp_ack *ack)
{
    u64 acked;

    if (!ack->cwnd_limited)
        return;
    acked = bp_clamped_packets(ack->acked, r->window.mss);
    if (bp_window_in_slow_start(&r->window))
        acked = bp_window_slow_start(&r->window, acked);
    if (acked)
        bp_window_additive_increase(&r->window, r->window.cwnd, acked);
}

BP_INLINE void bp_reno_congestion(struct bp_reno *r, const struct bp_congestion *event)
{
    switch (event->event) {
    case BP_EVENT_LOSS:
    case BP_EVENT_ECN:
    case BP_EVENT_TIMEOUT: bp_window_reduce(&r->window, bp_max(r->window.cwnd / 2, BP_RENO_MIN_SSTHRESH)); break;
    case BP_EVENT_TIMEOUT_AGAIN: bp_window_reset_count(&r->window); break;
    case BP_EVENT_UNDO: bp_window_undo(&r->window); break;
    default: break;
    }
}

BP_INLINE void bp_reno_established(struct bp_reno *r, u64 now, u64 rtt) { (void)r, (void)now, (void)rtt; }
BP_INLINE void bp_reno_acked(struct bp_reno *r, const struct bp_ack *ack) { (void)r, (void)ack; }
BP_INLINE void bp_reno_lost(struct bp_reno *r, const struct bp_lost *lost) { (void)r, (void)lost; }
BP_INLINE void bp_reno_sent(struct bp_reno *r, const struct bp_sent *sent) { (void)r, (void)sent; }
BP_INLINE void bp_reno_hint(struct bp_reno *r, const struct bp_hint *hint) { (void)r, (void)hint; }
BP_INLINE void bp_reno_set_cwnd(struct bp_reno *r, u64 bytes) { bp_window_set_cwnd(&r->window, bytes); }
BP_INLINE void bp_reno_set_ssthresh(struct bp_reno *r, u64 bytes) { bp_window_set_ssthresh(&r->window, bytes); }
BP_INLINE u64 bp_reno_cwnd(const struct bp_reno *r) { return bp_window_cwnd(&r->window); }
BP_INLINE u64 bp_reno_ssthresh(const struct bp_reno *r) { return bp_window_ssthresh(&r->window); }
BP_INLINE u64 bp_reno_pacing_rate(const struct bp_reno *r) { (void)r; return BP_NONE; }

#endif
