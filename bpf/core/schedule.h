/* Announced reconfigurations: the twin of Schedule in crates/cc/src/hints.rs.
 *
 * It holds the latest 64 (16 minutes of 15 s); the model holds all. Who announces must not announce further ahead than that.
 */
#ifndef BENTPIPE_CORE_SCHEDULE_H
#define BENTPIPE_CORE_SCHEDULE_H

#include "fixed.h"

#define BP_SCHEDULE_CAPACITY 64
#define BP_HINT_ERROR_OPTIONS(OPTION) OPTION(hint_offset_ms) OPTION(hint_jitter_ms) OPTION(hint_missing)

struct bp_schedule {
    u64 count;
    u64 at[BP_SCHEDULE_CAPACITY]; /* in any order */
};

BP_INLINE void bp_schedule_init(struct bp_schedule *s) { s->count = 0; }

/* Stores an announcement, in the place of the earliest if there is no other. */
BP_FUNC int bp_schedule_hint(struct bp_schedule *s, const struct bp_hint *hint)
{
    u64 earliest = BP_MAX;
    u32 place = 0, n;

    BP_REQUIRE(s, 0);
    BP_REQUIRE(hint, 0);
    if (hint->kind != BP_HINT_RECONFIGURATION)
        return 0;
    if (s->count < BP_SCHEDULE_CAPACITY) {
        s->at[s->count++ & (BP_SCHEDULE_CAPACITY - 1)] = hint->value;
        return 0;
    }
    for (n = 0; n < BP_SCHEDULE_CAPACITY; n++)
        if (s->at[n] < earliest) {
            earliest = s->at[n];
            place = n;
        }
    if (hint->value > earliest)
        s->at[place & (BP_SCHEDULE_CAPACITY - 1)] = hint->value;
    return 0;
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

/* Returns whether `now` is in the interval of length `hold` that begins `early` before an announced time. */
BP_INLINE int bp_schedule_is_near(const struct bp_schedule *s, u64 now, u64 early, u64 hold)
{
    u64 last = bp_schedule_last(s, now, early);

    return last != BP_NONE && now < bp_add_sat(bp_sub_sat(last, early), hold);
}

#endif
