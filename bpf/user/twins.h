/* The core's controllers for programs in user space: one table entry each. */
#ifndef BENTPIPE_TWINS_H
#define BENTPIPE_TWINS_H

#include "types.h"

struct bp_twin {
    const char *name;           /* as in the registry */
    const char *const *options; /* names in the order of bp_options.word; a null pointer ends them */
    uint64_t state_bytes;
    void (*init)(void *state, const struct bp_config *config, const struct bp_options *options);
    void (*call)(void *state, uint64_t kind, const void *arguments); /* enum bp_kind, and its struct in hook_trace.h */
    void (*get)(const void *state, struct bp_state *out);
    uint64_t (*max_rto)(const void *state, uint64_t now); /* [ns]; BP_NONE: the host's; a null pointer: always */
    void (*set_clock)(void *state, uint64_t period, uint64_t at, uint64_t until); /* [ns], of the host; a null pointer: it reads none */
    int (*uses_clock)(const void *state, uint64_t now); /* whether it takes the times of handovers from that clock; a null pointer: never */
};

/* Returns entry n; a null pointer after the last one. */
const struct bp_twin *bp_twin(uint64_t n);

/* Sets where random numbers come from until the next call on this thread. */
void bp_random_source(u64 (*below)(void *context, u64 n), void *context);

#endif
