/* Wall clock, and the reassignments that follow it: the twin of WallClock in crates/cc/src/hints.rs. */
#ifndef BENTPIPE_CORE_WALL_CLOCK_H
#define BENTPIPE_CORE_WALL_CLOCK_H

#include "fixed.h"

struct bp_wall_clock {
    u64 period, reassigned_at; /* [ns] */
    u64 is_known;              /* a hint set the next one */
    u64 unix_ns;               /* when the sender's clock is zero, as s64 */
};

BP_INLINE void bp_wall_clock_set(struct bp_wall_clock *c, u64 period, u64 reassigned_at)
{
    c->period = bp_max(period, 1);
    c->reassigned_at = reassigned_at % c->period;
}

BP_INLINE void bp_wall_clock_hint(struct bp_wall_clock *c, const struct bp_hint *hint)
{
    if (hint->kind != BP_HINT_WALL_CLOCK)
        return;
    c->is_known = 1;
    c->unix_ns = hint->value;
}

/* Returns the time until the next reassignment; BP_NONE: unknown. */
BP_INLINE u64 bp_wall_clock_time_to_next(const struct bp_wall_clock *c, u64 now)
{
    u64 period = c->period, phase;

    if (!c->is_known)
        return BP_NONE;
    if (c->unix_ns >> 63)
        phase = period - 1 - (-c->unix_ns - 1) % period;
    else
        phase = c->unix_ns % period;
    phase = (phase + now % period) % period;
    return (c->reassigned_at + period - phase) % period;
}

#endif
