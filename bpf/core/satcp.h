/* SaTCP: the twin of crates/cc/src/satcp.rs. */
#ifndef BENTPIPE_CORE_SATCP_H
#define BENTPIPE_CORE_SATCP_H

#include "cubic.h"
#include "schedule.h"

#define BP_SATCP_OWN_OPTIONS(OPTION) OPTION(rule) OPTION(early_ms) OPTION(hold_ms)
#define BP_SATCP_OPTIONS(OPTION) BP_SATCP_OWN_OPTIONS(OPTION) BP_CUBIC_OPTIONS(OPTION) BP_HINT_ERROR_OPTIONS(OPTION)
enum bp_satcp_option { BP_SATCP_RULE, BP_SATCP_EARLY, BP_SATCP_HOLD, BP_SATCP_CUBIC };
enum bp_satcp_rule { BP_SATCP_PAPER, BP_SATCP_CODE };

struct bp_satcp {
    struct bp_cubic cubic;
    struct bp_schedule schedule;
    u64 rule, early, hold; /* options */
    u64 flag;              /* set, as of the last update */
    u64 reduction_skipped;
};

BP_INLINE void bp_satcp_set_own_options(struct bp_satcp *s, const struct bp_options *options)
{
    s->rule = options->word[BP_SATCP_RULE];
    s->early = options->word[BP_SATCP_EARLY];
    s->hold = options->word[BP_SATCP_HOLD];
}

BP_INLINE void bp_satcp_set_options(struct bp_satcp *s, const struct bp_options *options)
{
    bp_satcp_set_own_options(s, options);
    bp_cubic_set_options_at(&s->cubic, options, BP_SATCP_CUBIC);
}

BP_INLINE void bp_satcp_init(struct bp_satcp *s, const struct bp_config *config, const struct bp_options *options)
{
    bp_cubic_init_at(&s->cubic, config, options, BP_SATCP_CUBIC);
    bp_schedule_init(&s->schedule);
    s->flag = 0;
    s->reduction_skipped = 0;
    bp_satcp_set_own_options(s, options);
}

BP_INLINE void bp_satcp_update_flag(struct bp_satcp *s, u64 now)
{
    s->flag = (u64)bp_schedule_is_near(&s->schedule, now, s->early, s->hold);
    s->cubic.in_handover = s->flag && s->rule == BP_SATCP_CODE;
}

BP_INLINE int bp_satcp_is_frozen(const struct bp_satcp *s) { return s->flag && s->rule == BP_SATCP_PAPER; }

BP_INLINE void bp_satcp_acked(struct bp_satcp *s, const struct bp_ack *ack)
{
    bp_satcp_update_flag(s, ack->now);
    if (!bp_satcp_is_frozen(s))
        bp_cubic_acked(&s->cubic, ack);
}

BP_INLINE void bp_satcp_ack(struct bp_satcp *s, const struct bp_ack *ack)
{
    if (!bp_satcp_is_frozen(s))
        bp_cubic_ack(&s->cubic, ack);
}

BP_INLINE void bp_satcp_congestion(struct bp_satcp *s, const struct bp_congestion *event)
{
    u64 kind = event->event;
    int reduces = kind == BP_EVENT_LOSS || kind == BP_EVENT_ECN || kind == BP_EVENT_TIMEOUT;

    bp_satcp_update_flag(s, event->now);
    if (kind == BP_EVENT_UNDO && s->reduction_skipped)
        return;
    if (reduces)
        s->reduction_skipped = (u64)bp_satcp_is_frozen(s);
    if ((reduces || kind == BP_EVENT_TIMEOUT_AGAIN) && bp_satcp_is_frozen(s))
        bp_cubic_set_ssthresh(&s->cubic, bp_cubic_cwnd(&s->cubic)); /* recovery ends at this window */
    else
        bp_cubic_congestion(&s->cubic, event);
}

BP_INLINE void bp_satcp_set_cwnd(struct bp_satcp *s, u64 bytes)
{
    if (!bp_satcp_is_frozen(s))
        bp_cubic_set_cwnd(&s->cubic, bytes);
}

BP_INLINE void bp_satcp_established(struct bp_satcp *s, u64 now, u64 rtt) { (void)s, (void)now, (void)rtt; }
BP_INLINE void bp_satcp_lost(struct bp_satcp *s, const struct bp_lost *lost) { (void)s, (void)lost; }
BP_INLINE void bp_satcp_sent(struct bp_satcp *s, const struct bp_sent *sent) { (void)s, (void)sent; }
BP_INLINE void bp_satcp_hint(struct bp_satcp *s, const struct bp_hint *hint) { bp_schedule_hint(&s->schedule, hint); }
BP_INLINE void bp_satcp_set_ssthresh(struct bp_satcp *s, u64 bytes) { bp_cubic_set_ssthresh(&s->cubic, bytes); }
BP_INLINE u64 bp_satcp_cwnd(const struct bp_satcp *s) { return bp_cubic_cwnd(&s->cubic); }
BP_INLINE u64 bp_satcp_ssthresh(const struct bp_satcp *s) { return bp_cubic_ssthresh(&s->cubic); }
BP_INLINE u64 bp_satcp_pacing_rate(const struct bp_satcp *s) { (void)s; return BP_NONE; }

#endif
