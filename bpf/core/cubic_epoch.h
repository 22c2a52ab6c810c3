/* CUBIC's window as a function of time: the twin of crates/cc/src/cubic/epoch.rs. */
#ifndef BENTPIPE_CORE_CUBIC_EPOCH_H
#define BENTPIPE_CORE_CUBIC_EPOCH_H

#include "fixed.h"

#define BP_CUBIC_BETA_SCALE 1024ULL
#define BP_CUBIC_BETA 717ULL
#define BP_CUBIC_TIME_SHIFT 10
#define BP_CUBIC_CURVE_SHIFT (10 + 3 * BP_CUBIC_TIME_SHIFT)
#define BP_CUBIC_C 410ULL /* C · 2^10 */
#define BP_CUBIC_CUBE_FACTOR ((1ULL << BP_CUBIC_CURVE_SHIFT) / BP_CUBIC_C)
#define BP_CUBIC_RENO_SCALE (8 * (BP_CUBIC_BETA_SCALE + BP_CUBIC_BETA) / 3 / (BP_CUBIC_BETA_SCALE - BP_CUBIC_BETA))
#define BP_CUBIC_MAX_OFFSET (1ULL << 22) /* from here on C·t³ is above 2^32 packets */
#define BP_CUBIC_MAX_DELTA 0xffffffffULL /* [packets] */

struct bp_cubic_epoch {
    u64 is_running;
    u64 start;      /* [jiffies] */
    u64 k;          /* [2^-10 s] */
    u64 origin;     /* [packets] */
    u64 reno_acked; /* packets acknowledged that have not raised Reno's estimate */
    u64 reno_cwnd;  /* [packets] */
};

/* Returns the cube root, rounded down. Without a branch for each bit, of which the verifier would follow every combination. */
BP_INLINE u64 bp_cube_root(u64 a)
{
    u64 root = 0;
    int bit;

    for (bit = 21; bit >= 0; bit--) {
        u64 candidate = root | 1ULL << bit;
        u64 square = candidate * candidate, quotient = a / candidate;
        u64 is_above = (~quotient & (quotient - square)) >> 63; /* square > quotient: the square is below 2^63 */

        root |= (1ULL << bit) & (is_above - 1);
    }
    return root;
}

/* Begins an epoch. `steep`: K is a ninth. */
BP_INLINE void bp_cubic_epoch_begin(struct bp_cubic_epoch *e, u64 jiffy, u64 cwnd, u64 w_max, int steep)
{
    e->is_running = 1;
    e->start = jiffy;
    e->k = 0;
    e->origin = cwnd;
    if (w_max > cwnd) {
        e->k = bp_cube_root(BP_CUBIC_CUBE_FACTOR * (w_max - cwnd));
        e->origin = w_max;
    }
    if (steep)
        e->k -= e->k * 8 / 9;
    e->reno_cwnd = cwnd;
}

/* Returns W(t) [packets], t in 2^-10 s. */
BP_INLINE u64 bp_cubic_epoch_target(const struct bp_cubic_epoch *e, u64 t)
{
    u64 offset = t < e->k ? e->k - t : t - e->k;
    u64 delta = BP_CUBIC_MAX_DELTA;

    if (offset < BP_CUBIC_MAX_OFFSET)
        delta = bp_min(bp_mul_shift(offset * offset, offset * BP_CUBIC_C, BP_CUBIC_CURVE_SHIFT), BP_CUBIC_MAX_DELTA);
    return t < e->k ? bp_sub_sat(e->origin, delta) : e->origin + delta;
}

/* Advances Reno's estimate; returns the packets to acknowledge per packet of growth that keep up with it, BP_NONE if it is not above `cwnd`. */
BP_INLINE u64 bp_cubic_epoch_reno(struct bp_cubic_epoch *e, u64 cwnd)
{
    u64 per = bp_max(cwnd * BP_CUBIC_RENO_SCALE >> 3, 1);
    u64 grown = bp_sub_sat(e->reno_acked, 1) / per;

    e->reno_acked -= grown * per;
    e->reno_cwnd += grown;
    return e->reno_cwnd > cwnd ? cwnd / (e->reno_cwnd - cwnd) : BP_NONE;
}

#endif
