/* Windowed maximum of three samples: the twin of crates/cc/src/filter.rs. For a minimum, store BP_MAX - value. */
#ifndef BENTPIPE_CORE_FILTER_H
#define BENTPIPE_CORE_FILTER_H

#include "fixed.h"

struct bp_filter_sample {
    u64 at, value;
};

struct bp_filter {
    u64 window; /* in the unit of `at`; a change applies from the next value on */
    struct bp_filter_sample sample[3];
};

BP_INLINE void bp_filter_reset(struct bp_filter *f, u64 at, u64 value)
{
    struct bp_filter_sample sample = {.at = at, .value = value};

    f->sample[0] = f->sample[1] = f->sample[2] = sample;
}

BP_INLINE void bp_filter_init(struct bp_filter *f, u64 window, u64 at, u64 value)
{
    f->window = window;
    bp_filter_reset(f, at, value);
}

BP_INLINE u64 bp_filter_get(const struct bp_filter *f) { return f->sample[0].value; }

BP_INLINE void bp_filter_promote(struct bp_filter *f, struct bp_filter_sample last)
{
    f->sample[0] = f->sample[1];
    f->sample[1] = f->sample[2];
    f->sample[2] = last;
}

/* Adds a value and returns the best one; `at` never decreases. */
BP_FUNC u64 bp_filter_update(struct bp_filter *f, u64 at, u64 value)
{
    struct bp_filter_sample sample = {.at = at, .value = value};
    u64 window;

    BP_REQUIRE(f, 0);
    window = f->window;
    if (value >= f->sample[0].value || bp_sub_sat(at, f->sample[2].at) > window) {
        bp_filter_reset(f, at, value);
        return value;
    }
    if (value >= f->sample[1].value)
        f->sample[1] = f->sample[2] = sample;
    else if (value >= f->sample[2].value)
        f->sample[2] = sample;
    if (bp_sub_sat(at, f->sample[0].at) > window) {
        bp_filter_promote(f, sample);
        if (bp_sub_sat(at, f->sample[0].at) > window)
            bp_filter_promote(f, sample);
    } else if (f->sample[1].at == f->sample[0].at && bp_sub_sat(at, f->sample[0].at) > window / 4) {
        f->sample[1] = f->sample[2] = sample;
    } else if (f->sample[2].at == f->sample[1].at && bp_sub_sat(at, f->sample[0].at) > window / 2) {
        f->sample[2] = sample;
    }
    return bp_filter_get(f);
}

#endif
