/* Options as the loader stores them, and how a socket takes them while they change. */
#ifndef BENTPIPE_CORE_OPTIONS_H
#define BENTPIPE_CORE_OPTIONS_H

#include "types.h"

/* Options with a sum over all their words: a reader sees whether it met half of a change, or words that are not the loader's. */
struct bp_stored_options {
    struct bp_options options;
    u64 sum;
};

#define BP_SUM_FACTOR 0x9e3779b97f4a7c15ULL /* 2^64 / golden ratio, chosen here: each word changes all bits of the sum above its own */

BP_FUNC u64 bp_sum_of(const struct bp_options *o)
{
    u64 sum;
    u32 n;

    BP_REQUIRE(o, 0);
    sum = ((o->generation * BP_SUM_FACTOR) + o->is_set) * BP_SUM_FACTOR;
    for (n = 0; n < BP_MAX_OPTIONS; n++)
        sum = (sum + o->word[n]) * BP_SUM_FACTOR;
    return sum;
}

/* Copies what is stored, and returns whether the copy is whole. The copy is what is compared and used: the stored words may change at any time. */
BP_FUNC int bp_take_options(struct bp_stored_options *copy, const struct bp_stored_options *stored)
{
    BP_REQUIRE(copy, 0);
    BP_REQUIRE(stored, 0);
    *copy = *stored;
    return bp_sum_of(&copy->options) == copy->sum;
}

#endif
