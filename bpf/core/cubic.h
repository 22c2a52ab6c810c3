/* CUBIC: the twin of crates/cc/src/cubic/mod.rs. */
#ifndef BENTPIPE_CORE_CUBIC_H
#define BENTPIPE_CORE_CUBIC_H

#include "cubic_epoch.h"
#include "hystart.h"
#include "hystart_pp.h"
#include "window.h"

#define BP_CUBIC_OPTIONS(OPTION) OPTION(hystart) OPTION(fast_convergence) OPTION(tcp_friendliness)
enum bp_cubic_option { BP_CUBIC_HYSTART, BP_CUBIC_FAST_CONVERGENCE, BP_CUBIC_TCP_FRIENDLINESS };
/* How slow start ends before a loss. */
enum bp_cubic_exit { BP_CUBIC_EXIT_NEVER, BP_CUBIC_EXIT_CLASSIC, BP_CUBIC_EXIT_PP };

#define BP_CUBIC_HZ 250ULL
#define BP_CUBIC_JIFFY (BP_NS_PER_S / BP_CUBIC_HZ)
#define BP_CUBIC_HOLD_JIFFIES (BP_CUBIC_HZ / 32)
#define BP_CUBIC_MIN_ACKS_PER_PACKET 2
#define BP_CUBIC_MAX_ACKS_WITHOUT_W_MAX 20
#define BP_CUBIC_PLATEAU_WINDOWS 100
#define BP_CUBIC_MIN_SSTHRESH 2 /* [packets] */

struct bp_cubic {
    struct bp_window window;
    struct bp_cubic_epoch epoch;
    struct bp_hystart hystart;
    struct bp_hystart_pp hystart_pp;
    u64 exit_option, fast_convergence, reno_friendly; /* options */
    u64 exit;                                         /* enum bp_cubic_exit, now */
    u64 acks_per_packet;
    u64 w_max;                           /* [packets]; 0: unknown */
    u64 min_rtt;                         /* [ns]; BP_NONE: none yet */
    u64 evaluated_cwnd, evaluated_jiffy; /* of the last evaluation */
    u64 in_handover;                     /* losses are due to a handover (satcp.h) */
};

/* Applies the options that begin at word `first`. Another way out of slow start takes effect at once. */
BP_INLINE void bp_cubic_set_options_at(struct bp_cubic *c, const struct bp_options *options, u32 first)
{
    u64 exit = options->word[first + BP_CUBIC_HYSTART];

    if (c->exit_option != exit)
        c->exit = exit;
    c->exit_option = exit;
    c->fast_convergence = options->word[first + BP_CUBIC_FAST_CONVERGENCE];
    c->reno_friendly = options->word[first + BP_CUBIC_TCP_FRIENDLINESS];
}

BP_INLINE void bp_cubic_init_at(struct bp_cubic *c, const struct bp_config *config, const struct bp_options *options, u32 first)
{
    bp_window_init(&c->window, config->mss, config->initial_cwnd);
    bp_hystart_init(&c->hystart, config->paced);
    bp_hystart_pp_init(&c->hystart_pp, config->paced);
    c->epoch.is_running = 0;
    c->exit_option = BP_NONE;
    c->acks_per_packet = 0;
    c->w_max = 0;
    c->min_rtt = BP_NONE;
    c->evaluated_cwnd = 0;
    c->evaluated_jiffy = 0;
    c->in_handover = 0;
    bp_cubic_set_options_at(c, options, first);
}

BP_INLINE void bp_cubic_set_options(struct bp_cubic *c, const struct bp_options *options) { bp_cubic_set_options_at(c, options, 0); }

BP_INLINE void bp_cubic_init(struct bp_cubic *c, const struct bp_config *config, const struct bp_options *options)
{
    bp_cubic_init_at(c, config, options, 0);
}

BP_INLINE void bp_cubic_reduce(struct bp_cubic *c)
{
    u64 cwnd = c->window.cwnd;

    c->epoch.is_running = 0;
    c->w_max = cwnd < c->w_max && c->fast_convergence ? cwnd * (BP_CUBIC_BETA_SCALE + BP_CUBIC_BETA) / (2 * BP_CUBIC_BETA_SCALE) : cwnd;
    bp_window_reduce(&c->window, bp_max(cwnd * BP_CUBIC_BETA / BP_CUBIC_BETA_SCALE, BP_CUBIC_MIN_SSTHRESH));
}

/* Resets the state after a time-out. */
BP_INLINE void bp_cubic_reset(struct bp_cubic *c, u64 now)
{
    if (c->in_handover)
        return;
    c->acks_per_packet = 0;
    c->w_max = 0;
    c->min_rtt = BP_NONE;
    c->evaluated_cwnd = 0;
    c->evaluated_jiffy = 0;
    c->epoch.is_running = 0;
    if (c->exit == BP_CUBIC_EXIT_CLASSIC)
        bp_hystart_restart(&c->hystart, now);
    else
        c->exit = BP_CUBIC_EXIT_NEVER;
}

/* Evaluates the curve: sets the packets to acknowledge per packet of growth. */
BP_INLINE void bp_cubic_evaluate(struct bp_cubic *c, u64 jiffy, u64 acked)
{
    struct bp_cubic_epoch *epoch = &c->epoch;
    u64 cwnd = c->window.cwnd;
    u64 path = 0, target;

    c->evaluated_cwnd = cwnd;
    c->evaluated_jiffy = jiffy;
    if (!epoch->is_running) {
        bp_cubic_epoch_begin(epoch, jiffy, cwnd, c->w_max, c->in_handover != 0);
        epoch->reno_acked = acked;
    }
    if (c->min_rtt != BP_NONE)
        path = c->min_rtt / BP_CUBIC_JIFFY + !!(c->min_rtt % BP_CUBIC_JIFFY);
    target = bp_cubic_epoch_target(epoch, (jiffy - epoch->start + path) * (1ULL << BP_CUBIC_TIME_SHIFT) / BP_CUBIC_HZ);
    c->acks_per_packet = target > cwnd ? cwnd / (target - cwnd) : BP_CUBIC_PLATEAU_WINDOWS * cwnd;
    if (!c->w_max)
        c->acks_per_packet = bp_min(c->acks_per_packet, BP_CUBIC_MAX_ACKS_WITHOUT_W_MAX);
}

BP_INLINE void bp_cubic_update(struct bp_cubic *c, u64 now, u64 acked)
{
    u64 cwnd = c->window.cwnd, jiffy = now / BP_CUBIC_JIFFY;

    if (c->epoch.is_running)
        c->epoch.reno_acked += acked;
    if (c->evaluated_cwnd == cwnd && jiffy - c->evaluated_jiffy <= BP_CUBIC_HOLD_JIFFIES)
        return;
    if (!c->epoch.is_running || jiffy != c->evaluated_jiffy)
        bp_cubic_evaluate(c, jiffy, acked);
    if (c->reno_friendly)
        c->acks_per_packet = bp_min(c->acks_per_packet, bp_cubic_epoch_reno(&c->epoch, cwnd));
    c->acks_per_packet = bp_max(c->acks_per_packet, BP_CUBIC_MIN_ACKS_PER_PACKET);
}

BP_FUNC int bp_cubic_acked(struct bp_cubic *c, const struct bp_ack *ack)
{
    int is_over = 0;

    BP_REQUIRE(c, 0);
    BP_REQUIRE(ack, 0);
    if (ack->rtt == BP_NONE)
        return 0;
    if (c->epoch.is_running && bp_sub_sat(ack->now / BP_CUBIC_JIFFY, c->epoch.start) < BP_CUBIC_HZ)
        return 0;
    c->min_rtt = bp_min(c->min_rtt, ack->rtt);
    if (!bp_window_in_slow_start(&c->window))
        return 0;
    if (c->exit == BP_CUBIC_EXIT_CLASSIC)
        is_over = bp_hystart_ack(&c->hystart, ack, c->min_rtt, c->window.cwnd);
    else if (c->exit == BP_CUBIC_EXIT_PP)
        is_over = bp_hystart_pp_ack(&c->hystart_pp, ack);
    if (is_over)
        bp_window_leave_slow_start(&c->window);
    return 0;
}

BP_FUNC int bp_cubic_ack(struct bp_cubic *c, const struct bp_ack *ack)
{
    u64 acked;

    BP_REQUIRE(c, 0);
    BP_REQUIRE(ack, 0);
    if (!ack->cwnd_limited)
        return 0;
    acked = bp_clamped_packets(ack->acked, c->window.mss);
    if (bp_window_in_slow_start(&c->window)) {
        if (c->exit == BP_CUBIC_EXIT_PP)
            acked = bp_hystart_pp_growth(&c->hystart_pp, acked);
        acked = bp_window_slow_start(&c->window, acked);
    }
    if (acked) {
        bp_cubic_update(c, ack->now, acked);
        bp_window_additive_increase(&c->window, c->acks_per_packet, acked);
    }
    return 0;
}

/* Moves the epoch by a pause: the curve does not advance while nothing is sent. */
BP_INLINE void bp_cubic_resume(struct bp_cubic *c, u64 now, u64 idle)
{
    u64 jiffy = now / BP_CUBIC_JIFFY;
    u64 idle_jiffies = jiffy - bp_sub_sat(now, idle) / BP_CUBIC_JIFFY;

    if (c->epoch.is_running)
        c->epoch.start = bp_min(c->epoch.start + idle_jiffies, jiffy);
}

BP_FUNC int bp_cubic_congestion(struct bp_cubic *c, const struct bp_congestion *event)
{
    BP_REQUIRE(c, 0);
    BP_REQUIRE(event, 0);
    switch (event->event) {
    case BP_EVENT_LOSS:
    case BP_EVENT_ECN:
        bp_cubic_reduce(c);
        if (c->exit == BP_CUBIC_EXIT_PP)
            c->exit = BP_CUBIC_EXIT_NEVER;
        break;
    case BP_EVENT_TIMEOUT:
        bp_cubic_reduce(c);
        bp_cubic_reset(c, event->now);
        break;
    case BP_EVENT_TIMEOUT_AGAIN:
        bp_window_reset_count(&c->window);
        bp_cubic_reset(c, event->now);
        break;
    case BP_EVENT_UNDO: bp_window_undo(&c->window); break;
    case BP_EVENT_RESTART: bp_cubic_resume(c, event->now, event->idle); break;
    default: break;
    }
    return 0;
}

BP_INLINE void bp_cubic_established(struct bp_cubic *c, u64 now, u64 rtt) { (void)c, (void)now, (void)rtt; }
BP_INLINE void bp_cubic_lost(struct bp_cubic *c, const struct bp_lost *lost) { (void)c, (void)lost; }
BP_INLINE void bp_cubic_sent(struct bp_cubic *c, const struct bp_sent *sent) { (void)c, (void)sent; }
BP_INLINE void bp_cubic_hint(struct bp_cubic *c, const struct bp_hint *hint) { (void)c, (void)hint; }
BP_INLINE void bp_cubic_set_cwnd(struct bp_cubic *c, u64 bytes) { bp_window_set_cwnd(&c->window, bytes); }
BP_INLINE void bp_cubic_set_ssthresh(struct bp_cubic *c, u64 bytes) { bp_window_set_ssthresh(&c->window, bytes); }
BP_INLINE u64 bp_cubic_cwnd(const struct bp_cubic *c) { return bp_window_cwnd(&c->window); }
BP_INLINE u64 bp_cubic_ssthresh(const struct bp_cubic *c) { return bp_window_ssthresh(&c->window); }
BP_INLINE u64 bp_cubic_pacing_rate(const struct bp_cubic *c) { (void)c; return BP_NONE; }

#endif
