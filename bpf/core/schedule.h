/* Announced reconfigurations: the twin of Schedule in crates/cc/src/hints.rs.
 *
 * It holds the last 64 received (16 minutes of 15 s); the model holds all. Who announces does so in order, and not further ahead than that.
 */
#ifndef BENTPIPE_CORE_SCHEDULE_H
#define BENTPIPE_CORE_SCHEDULE_H

#include "fixed.h"

#define BP_SCHEDULE_CAPACITY 64
#define BP_HINT_ERROR_OPTIONS(OPTION) OPTION(hint_offset_ms) OPTION(hint_jitter_ms) OPTION(hint_missing)

struct bp_schedule {
    u64 count;                    /* received */
    u64 at[BP_SCHEDULE_CAPACITY]; /* in any order */
};

BP_INLINE void bp_schedule_init(struct bp_schedule *s) { s->count = 0; }

/* Stores an announcement, after 64 in the place of the first one received. */
BP_INLINE void bp_schedule_hint(struct bp_schedule *s, const struct bp_hint *hint)
{
    if (hint->kind == BP_HINT_RECONFIGURATION)
        s->at[s->count++ % BP_SCHEDULE_CAPACITY] = hint->value;
}

/* Returns the latest announced time that is at most `early` after `now`; BP_NONE: none. A time before `early` counts as zero less `early`. */
BP_FUNC u64 bp_schedule_last(const struct bp_schedule *s, u64 now, u64 early)
{
    u64 last = BP_NONE;
    u32 n;

    BP_REQUIRE(s, BP_NONE);
    for (n = 0; n < BP_SCHEDULE_CAPACITY && n < s->count; n++)
        if (bp_sub_sat(s->at[n], early) <= now && (last == BP_NONE || s->at[n] > last))
            last = s->at[n];
    return last;
}

/* Returns the first announced time after `now`; BP_NONE: none. */
BP_FUNC u64 bp_schedule_next(const struct bp_schedule *s, u64 now)
{
    u64 next = BP_NONE;
    u32 n;

    BP_REQUIRE(s, BP_NONE);
    for (n = 0; n < BP_SCHEDULE_CAPACITY && n < s->count; n++)
        if (s->at[n] > now)
            next = bp_min(next, s->at[n]);
    return next;
}

/* Returns whether `now` is in the interval of length `hold` that begins `early` before an announced time. */
BP_INLINE int bp_schedule_is_near(const struct bp_schedule *s, u64 now, u64 early, u64 hold)
{
    u64 last = bp_schedule_last(s, now, early);

    return last != BP_NONE && now < bp_add_sat(bp_sub_sat(last, early), hold);
}

#endif
