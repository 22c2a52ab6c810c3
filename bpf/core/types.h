/* Types of the core: integers only, the same in the kernel and in user space.
 *
 * The core is C that clang compiles for BPF and any compiler compiles for user space. It takes the records of a hook trace
 * (hook_trace.h) and knows neither sockets nor maps: bpf/kernel/ makes the records from a socket, bpf/user/ from a trace.
 */
#ifndef BENTPIPE_CORE_TYPES_H
#define BENTPIPE_CORE_TYPES_H

#include "hook_trace.h"

typedef uint64_t u64;
typedef int64_t s64;
typedef uint32_t u32;

#define BP_INLINE static inline __attribute__((always_inline, unused))

#ifdef __bpf__
/* A function that the verifier checks once, by itself: its pointers may be null as far as it knows. At most 5 arguments. */
#define BP_FUNC __attribute__((noinline))
#define BP_REQUIRE(pointer, ...) \
    if (!(pointer)) \
    return __VA_ARGS__
#else
#define BP_FUNC static __attribute__((unused))
#define BP_REQUIRE(pointer, ...) (void)(pointer)
#endif

/* Calls step(n, &context) for n from 0 to count - 1; a step ends the loop by a result that is not 0. For loops whose bound the verifier cannot walk:
 * it checks one step. The context is a local struct: pointers that the step needs are in it. */
typedef long bp_step(u32 n, void *context);
#ifdef __bpf__
static long (*const bp_loop_helper)(u32 count, bp_step *step, void *context, u64 flags) = (void *)181; /* bpf_loop, Linux 5.17 */
#define bp_loop(count, step, context) bp_loop_helper(count, step, context, 0)
#else
#define bp_loop(count, step, context) \
    do { \
        u32 n_; \
        for (n_ = 0; n_ < (count) && !step(n_, context); n_++) \
            ; \
    } while (0)
#endif

#define BP_NS_PER_US 1000ULL
#define BP_NS_PER_MS 1000000ULL
#define BP_NS_PER_S 1000000000ULL

/* Recovery states in a bp_ack (tcp_ca_state). */
enum bp_recovery { BP_OPEN, BP_DISORDER, BP_CWR, BP_RECOVERY, BP_LOSS };

/* Events in a bp_congestion. */
enum bp_event {
    BP_EVENT_LOSS,
    BP_EVENT_ECN,
    BP_EVENT_TIMEOUT,
    BP_EVENT_TIMEOUT_AGAIN,
    BP_EVENT_TAIL_LOSS,
    BP_EVENT_UNDO,
    BP_EVENT_RECOVERY_END,
    BP_EVENT_RESTART
};

/* Kinds of a bp_hint. */
enum bp_hint_kind { BP_HINT_RECONFIGURATION, BP_HINT_WALL_CLOCK };

/* What a controller is made with. */
struct bp_config {
    u64 mss;          /* [bytes] */
    u64 initial_cwnd; /* [bytes] */
    u64 paced;        /* the host paces */
};

/* Options of a controller, in the order in which its header lists them. The loader writes them, also while sockets use them.
 * A time is in ns, a count, switch or number of a choice is itself, another number is in 2^-32 (signed). */
#define BP_MAX_OPTIONS 64
struct bp_options {
    u64 generation; /* grows with each change */
    u64 is_set;     /* bit n: the user set option n */
    u64 word[BP_MAX_OPTIONS];
};

/* Returns a random number below n, 0 for 0. In the kernel from its generator, in user space from the caller's. */
u64 bp_random_below(u64 n);

#endif
