/* cubic-leo: the twin of crates/cc/src/cubic_leo.rs. */
#ifndef BENTPIPE_CORE_CUBIC_LEO_H
#define BENTPIPE_CORE_CUBIC_LEO_H

#include "cubic.h"
#include "monitor.h"
#include "slot_path.h"

#define BP_CUBIC_LEO_OPTIONS(OPTION) OPTION(queue_ms) BP_MONITOR_OPTIONS(OPTION) BP_CUBIC_OPTIONS(OPTION)
enum bp_cubic_leo_option { BP_CUBIC_LEO_QUEUE, BP_CUBIC_LEO_MONITOR, BP_CUBIC_LEO_CUBIC = BP_CUBIC_LEO_MONITOR + BP_MONITOR_OPTION_COUNT };

#define BP_CUBIC_LEO_LOSS_THRESHOLD (BP_UNIT * 2 / 100)
#define BP_CUBIC_LEO_BW_ROUNDS 1

struct bp_cubic_leo {
    struct bp_cubic cubic;
    struct bp_monitor monitor;
    struct bp_path path;
    u64 reduction_skipped; /* the last one: there is nothing to undo */
    u64 last_rtt;
};

BP_INLINE void bp_cubic_leo_set_own_options(struct bp_cubic_leo *c, const struct bp_options *options)
{
    struct bp_target target = {.min = options->word[BP_CUBIC_LEO_QUEUE]};

    bp_path_set_target(&c->path, &target, BP_CUBIC_LEO_BW_ROUNDS);
}

BP_INLINE void bp_cubic_leo_set_options(struct bp_cubic_leo *c, const struct bp_options *options)
{
    bp_cubic_leo_set_own_options(c, options);
    bp_monitor_set_options(&c->monitor, options, BP_CUBIC_LEO_MONITOR);
    bp_cubic_set_options_at(&c->cubic, options, BP_CUBIC_LEO_CUBIC);
}

BP_INLINE void bp_cubic_leo_init(struct bp_cubic_leo *c, const struct bp_config *config, const struct bp_options *options)
{
    bp_cubic_init_at(&c->cubic, config, options, BP_CUBIC_LEO_CUBIC);
    bp_monitor_init(&c->monitor, options, BP_CUBIC_LEO_MONITOR);
    bp_path_init(&c->path, config->mss);
    c->reduction_skipped = c->last_rtt = 0;
    bp_cubic_leo_set_own_options(c, options);
}

BP_FUNC int bp_cubic_leo_acked(struct bp_cubic_leo *c, const struct bp_ack *ack)
{
    BP_REQUIRE(c, 0);
    BP_REQUIRE(ack, 0);
    if (bp_monitor_ack(&c->monitor, ack))
        bp_path_reconfiguration(&c->path, ack->now);
    if (ack->rtt != BP_NONE)
        c->last_rtt = ack->rtt;
    bp_path_ack(&c->path, ack, (u64)bp_monitor_is_near(&c->monitor, ack->now), BP_CUBIC_LEO_LOSS_THRESHOLD);
    return bp_cubic_acked(&c->cubic, ack);
}

/* Returns whether a loss now is not congestion. */
BP_INLINE int bp_cubic_leo_ignores_loss(struct bp_cubic_leo *c, u64 now, u64 is_leo, u64 is_near)
{
    return is_near || (is_leo && bp_path_ignores_losses(&c->path, now) && !bp_path_has_deep_queue(&c->path, now, c->last_rtt));
}

BP_FUNC int bp_cubic_leo_congestion(struct bp_cubic_leo *c, const struct bp_congestion *event)
{
    u64 now, is_leo, is_near;

    BP_REQUIRE(c, 0);
    BP_REQUIRE(event, 0);
    now = event->now;
    is_leo = (u64)bp_monitor_is_leo(&c->monitor, now);
    is_near = is_leo && bp_monitor_is_near(&c->monitor, now);
    switch (event->event) {
    case BP_EVENT_LOSS: c->reduction_skipped = (u64)bp_cubic_leo_ignores_loss(c, now, is_leo, is_near); break;
    case BP_EVENT_TIMEOUT: c->reduction_skipped = is_near; break;
    case BP_EVENT_TIMEOUT_AGAIN: break;
    case BP_EVENT_UNDO: return c->reduction_skipped ? 0 : bp_cubic_congestion(&c->cubic, event);
    default: return bp_cubic_congestion(&c->cubic, event);
    }
    if (!c->reduction_skipped)
        return bp_cubic_congestion(&c->cubic, event);
    if (event->event != BP_EVENT_TIMEOUT_AGAIN) /* recovery ends at this window */
        bp_cubic_set_ssthresh(&c->cubic, bp_cubic_cwnd(&c->cubic));
    return 0;
}

BP_INLINE void bp_cubic_leo_established(struct bp_cubic_leo *c, u64 now, u64 rtt) { bp_cubic_established(&c->cubic, now, rtt); }
BP_INLINE void bp_cubic_leo_ack(struct bp_cubic_leo *c, const struct bp_ack *ack) { bp_cubic_ack(&c->cubic, ack); }
BP_INLINE void bp_cubic_leo_lost(struct bp_cubic_leo *c, const struct bp_lost *lost) { (void)c, (void)lost; }
BP_INLINE void bp_cubic_leo_sent(struct bp_cubic_leo *c, const struct bp_sent *sent) { (void)c, (void)sent; }
BP_INLINE void bp_cubic_leo_hint(struct bp_cubic_leo *c, const struct bp_hint *hint) { bp_monitor_hint(&c->monitor, hint); }
BP_INLINE void bp_cubic_leo_set_cwnd(struct bp_cubic_leo *c, u64 bytes) { bp_cubic_set_cwnd(&c->cubic, bytes); }
BP_INLINE void bp_cubic_leo_set_ssthresh(struct bp_cubic_leo *c, u64 bytes) { bp_cubic_set_ssthresh(&c->cubic, bytes); }
BP_INLINE u64 bp_cubic_leo_cwnd(const struct bp_cubic_leo *c) { return bp_cubic_cwnd(&c->cubic); }
BP_INLINE u64 bp_cubic_leo_ssthresh(const struct bp_cubic_leo *c) { return bp_cubic_ssthresh(&c->cubic); }
BP_INLINE u64 bp_cubic_leo_pacing_rate(const struct bp_cubic_leo *c) { return bp_cubic_pacing_rate(&c->cubic); }

#endif
