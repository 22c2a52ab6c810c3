/* Window of a window-based controller in packets: the twin of crates/cc/src/window.rs, function by function. */
#ifndef BENTPIPE_CORE_WINDOW_H
#define BENTPIPE_CORE_WINDOW_H

#include "fixed.h"

#define BP_CLAMP_PACKETS 0xffffffffULL
#define BP_NO_THRESHOLD BP_MAX

/* Returns the packets that hold so many bytes. */
BP_INLINE u64 bp_packets(u64 bytes, u64 mss) { return mss ? bytes / mss + !!(bytes % mss) : 0; }
BP_INLINE u64 bp_clamped_packets(u64 bytes, u64 mss) { return bp_min(bp_packets(bytes, mss), BP_CLAMP_PACKETS); }

struct bp_window {
    u64 mss;
    u64 cwnd;     /* [packets] */
    u64 count;    /* packets acknowledged since the window grew by additive increase */
    u64 ssthresh; /* [packets]; BP_NO_THRESHOLD */
    u64 has_prior, prior_cwnd, prior_ssthresh;
};

BP_INLINE void bp_window_init(struct bp_window *w, u64 mss, u64 initial_bytes)
{
    struct bp_window fresh = {.mss = mss, .ssthresh = BP_NO_THRESHOLD};

    *w = fresh;
    w->cwnd = bp_clamp(bp_packets(initial_bytes, mss), 1, BP_CLAMP_PACKETS);
}

BP_INLINE u64 bp_window_cwnd(const struct bp_window *w) { return w->cwnd * w->mss; }
BP_INLINE u64 bp_window_ssthresh(const struct bp_window *w) { return w->ssthresh == BP_NO_THRESHOLD ? BP_NONE : w->ssthresh * w->mss; }
BP_INLINE void bp_window_set_packets(struct bp_window *w, u64 packets) { w->cwnd = bp_clamp(packets, 1, BP_CLAMP_PACKETS); }
BP_INLINE void bp_window_set_cwnd(struct bp_window *w, u64 bytes) { bp_window_set_packets(w, bp_packets(bytes, w->mss)); }

BP_INLINE void bp_window_set_ssthresh(struct bp_window *w, u64 bytes)
{
    w->ssthresh = bytes == BP_NONE ? BP_NO_THRESHOLD : bp_clamped_packets(bytes, w->mss);
}

BP_INLINE void bp_window_leave_slow_start(struct bp_window *w) { w->ssthresh = w->cwnd; }
BP_INLINE int bp_window_in_slow_start(const struct bp_window *w) { return w->cwnd < w->ssthresh; }

/* Adds a packet per packet acknowledged, up to the threshold; returns the packets left over. */
BP_INLINE u64 bp_window_slow_start(struct bp_window *w, u64 acked)
{
    u64 cwnd = bp_min(w->cwnd + acked, w->ssthresh);
    u64 left = acked - (cwnd - w->cwnd);

    w->cwnd = bp_min(cwnd, BP_CLAMP_PACKETS);
    return left;
}

/* Adds a packet per `per` packets acknowledged. */
BP_INLINE void bp_window_additive_increase(struct bp_window *w, u64 per, u64 acked)
{
    per = bp_max(per, 1);
    if (w->count >= per) {
        w->count = 0;
        w->cwnd++;
    }
    w->count += acked;
    w->cwnd = bp_min(w->cwnd + w->count / per, BP_CLAMP_PACKETS);
    w->count %= per;
}

/* Begins a reduction to this threshold; keeps what undo restores. */
BP_INLINE void bp_window_reduce(struct bp_window *w, u64 ssthresh)
{
    w->has_prior = 1;
    w->prior_cwnd = w->cwnd;
    w->prior_ssthresh = bp_max(w->ssthresh, w->cwnd / 2 + w->cwnd / 4);
    w->ssthresh = ssthresh;
    w->count = 0;
}

BP_INLINE u64 bp_window_count_ack(struct bp_window *w) { return ++w->count; }
BP_INLINE void bp_window_reset_count(struct bp_window *w) { w->count = 0; }

BP_INLINE void bp_window_undo(struct bp_window *w)
{
    if (!w->has_prior)
        return;
    w->has_prior = 0;
    w->cwnd = bp_max(w->cwnd, w->prior_cwnd);
    w->ssthresh = bp_max(w->ssthresh, w->prior_ssthresh);
}

#endif
