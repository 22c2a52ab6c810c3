/* The core compiled for user space. */
#include "twins.h"
#include <stddef.h>

static _Thread_local u64 (*random_below)(void *context, u64 n);
static _Thread_local void *random_context;

void bp_random_source(u64 (*below)(void *context, u64 n), void *context)
{
    random_below = below;
    random_context = context;
}

u64 bp_random_below(u64 n) { return random_below ? random_below(random_context, n) : 0; }

#include "bbr2.h"
#include "bbr3.h"
#include "bbr3_leo.h"
#include "cubic.h"
#include "cubic_leo.h"
#include "hybla.h"
#include "leocc.h"
#include "reno.h"
#include "satcp.h"

#define NAME(option) #option,

/* Wraps the functions of a controller, whose state has its own type, and makes its entry. */
#define TWIN(id, shown, options_of, max_rto_of, set_clock_of, uses_clock_of) \
    static void id##_init(void *s, const struct bp_config *c, const struct bp_options *o) { bp_##id##_init(s, c, o); } \
    static void id##_call(void *s, u64 kind, const void *arguments) \
    { \
        const struct bp_established *e = arguments; \
        const struct bp_size *size = arguments; \
        switch (kind) { \
        case BP_ESTABLISHED: bp_##id##_established(s, e->now, e->rtt); break; \
        case BP_ACKED: bp_##id##_acked(s, arguments); break; \
        case BP_ACK: bp_##id##_ack(s, arguments); break; \
        case BP_PACKET_LOST: bp_##id##_lost(s, arguments); break; \
        case BP_CONGESTION: bp_##id##_congestion(s, arguments); break; \
        case BP_SENT: bp_##id##_sent(s, arguments); break; \
        case BP_PATH_HINT: bp_##id##_hint(s, arguments); break; \
        case BP_SET_CWND: bp_##id##_set_cwnd(s, size->bytes); break; \
        case BP_SET_SSTHRESH: bp_##id##_set_ssthresh(s, size->bytes); break; \
        } \
    } \
    static void id##_get(const void *s, struct bp_state *out) \
    { \
        out->cwnd = bp_##id##_cwnd(s); \
        out->ssthresh = bp_##id##_ssthresh(s); \
        out->pacing_rate = bp_##id##_pacing_rate(s); \
    } \
    static const char *const id##_options[] = {options_of(NAME) NULL}; \
    static const struct bp_twin id##_twin = { \
        .name = shown, .options = id##_options, .state_bytes = sizeof(struct bp_##id), .init = id##_init, .call = id##_call, .get = id##_get, .max_rto = max_rto_of, \
        .set_clock = set_clock_of, .uses_clock = uses_clock_of, \
    };

static uint64_t bbr3_leo_max_rto(const void *s, uint64_t now) { return bp_bbr3_leo_max_rto(s, now); }

/* Makes two functions of a controller with a monitor: one gives it the host's clock, as bpf/kernel/host_clock.h does; the other returns whether it uses it. */
#define HOST_CLOCK(id) \
    static void id##_set_clock(void *s, uint64_t period, uint64_t at, uint64_t until) \
    { \
        struct bp_##id *c = s; \
        bp_monitor_set_clock(&c->monitor, period, at, until); \
    } \
    static int id##_uses_clock(const void *s, uint64_t now) \
    { \
        const struct bp_##id *c = s; \
        const struct bp_monitor *m = &c->monitor; \
        return m->source == BP_MONITOR_LEARNED && bp_monitor_is_leo(m, now) && bp_monitor_timing(m, now) == &m->shared; \
    }

HOST_CLOCK(bbr3_leo)
HOST_CLOCK(cubic_leo)

TWIN(bbr2, "bbr2", BP_BBR2_OPTIONS, NULL, NULL, NULL)
TWIN(bbr3, "bbr3", BP_BBR3_OPTIONS, NULL, NULL, NULL)
TWIN(bbr3_leo, "bbr3-leo", BP_BBR3_LEO_OPTIONS, bbr3_leo_max_rto, bbr3_leo_set_clock, bbr3_leo_uses_clock)
TWIN(cubic, "cubic", BP_CUBIC_OPTIONS, NULL, NULL, NULL)
TWIN(cubic_leo, "cubic-leo", BP_CUBIC_LEO_OPTIONS, NULL, cubic_leo_set_clock, cubic_leo_uses_clock)
TWIN(hybla, "hybla", BP_HYBLA_OPTIONS, NULL, NULL, NULL)
TWIN(leocc, "leocc", BP_LEOCC_OPTIONS, NULL, NULL, NULL)
TWIN(reno, "reno", BP_RENO_OPTIONS, NULL, NULL, NULL)
TWIN(satcp, "satcp", BP_SATCP_OPTIONS, NULL, NULL, NULL)

static const struct bp_twin *const twins[] = {&bbr2_twin, &bbr3_twin, &bbr3_leo_twin, &cubic_twin, &cubic_leo_twin, &hybla_twin, &leocc_twin, &reno_twin, &satcp_twin};

const struct bp_twin *bp_twin(uint64_t n) { return n < sizeof twins / sizeof twins[0] ? twins[n] : NULL; }
