/* Options that are taken while they change. */
#include "options.h"

/* Whether `words` (of a struct bp_stored_options) are whole; `copy` receives them. */
u64 bp_user_take_options(u64 *copy, const u64 *words)
{
    return (u64)bp_take_options((struct bp_stored_options *)copy, (const struct bp_stored_options *)words);
}

u64 bp_user_sum_of(const u64 *words) { return bp_sum_of((const struct bp_options *)words); }
