/* Learned clock: the twin of crates/cc/src/leo/clock.rs. */
#ifndef BENTPIPE_CORE_CLOCK_H
#define BENTPIPE_CORE_CLOCK_H

#include "search.h"

/* Period and phase of the reconfigurations. */
struct bp_timing {
    u64 period; /* 0: none */
    u64 at;
    s64 log_odds; /* [2^-32] */
};

struct bp_clock {
    u64 detected[BP_CLOCK_CAPACITY];
    struct bp_search search; /* with the number of detections */
    struct bp_timing best;
    u64 review_at;
};

/* Returns the expected reconfiguration nearest to now. */
BP_INLINE u64 bp_timing_nearest(const struct bp_timing *timing, u64 now)
{
    u64 period = bp_max(timing->period, 1), half = period / 2, ahead;

    if (now >= timing->at)
        return bp_add_sat(timing->at, bp_mul_sat(bp_add_sat(now - timing->at, half) / period, period));
    ahead = bp_sub_sat(timing->at - now, half);
    return bp_sub_sat(timing->at, bp_mul_sat(ahead / period + !!(ahead % period), period));
}

BP_INLINE void bp_clock_reset(struct bp_clock *c)
{
    c->search.count = 0;
    c->best.period = 0;
    c->review_at = BP_MAX;
}

/* Creates a clock that considers only this period; 0: any. */
BP_INLINE void bp_clock_init(struct bp_clock *c, u64 fixed_period)
{
    c->search.fixed_period = fixed_period;
    bp_clock_reset(c);
}

/* Keeps detection n unless it is old. A function by itself: the verifier need not follow every combination of kept ones. */
BP_FUNC int bp_clock_keep(struct bp_clock *c, u64 n, u64 now)
{
    u64 at, age, kept;

    BP_REQUIRE(c, 0);
    at = c->detected[n % BP_CLOCK_CAPACITY];
    age = bp_sub_sat(now, at);
    if (age > BP_CLOCK_MAX_AGE)
        return 0;
    kept = c->search.count++ % BP_CLOCK_CAPACITY;
    c->detected[kept] = at;
    c->search.age[kept] = age;
    return 0;
}

BP_FUNC int bp_clock_update(struct bp_clock *c, u64 now)
{
    struct bp_search *s;
    u64 count, n;

    BP_REQUIRE(c, 0);
    s = &c->search;
    count = s->count;
    s->count = 0;
    for (n = 0; n < BP_CLOCK_CAPACITY && n < count; n++)
        bp_clock_keep(c, n, now);
    bp_search_run(s);
    c->best.period = 0;
    c->review_at = BP_MAX;
    if (s->has_best) {
        u64 period = bp_add_signed(s->period, s->slope);

        c->best.period = period;
        c->best.at = bp_add_signed(bp_sub_sat(now, s->anchor), s->intercept);
        c->best.log_odds = s->log_odds;
        c->review_at = bp_max(
            bp_add_sat(bp_timing_nearest(&c->best, bp_add_sat(now, period / 2)), 4 * BP_CLOCK_TOLERANCE), bp_add_sat(now, period / 4));
    }
    return 0;
}

/* Records a reconfiguration detected at this time. */
BP_INLINE void bp_clock_detected(struct bp_clock *c, u64 at)
{
    u64 n;

    if (c->search.count >= BP_CLOCK_CAPACITY) {
        for (n = 0; n + 1 < BP_CLOCK_CAPACITY; n++)
            c->detected[n] = c->detected[n + 1];
        c->search.count = BP_CLOCK_CAPACITY - 1;
    }
    c->detected[c->search.count++ % BP_CLOCK_CAPACITY] = at;
    bp_clock_update(c, at);
}

BP_INLINE void bp_clock_advance(struct bp_clock *c, u64 now)
{
    if (now >= c->review_at)
        bp_clock_update(c, now);
}

/* Returns whether the odds of the best timing are high enough. */
BP_INLINE int bp_clock_is_set(const struct bp_clock *c) { return c->best.period && c->best.log_odds >= BP_CLOCK_MIN_LOG_ODDS; }

#endif
