/* bbr3-leo: the twin of crates/cc/src/bbr3_leo.rs. */
#ifndef BENTPIPE_CORE_BBR3_LEO_H
#define BENTPIPE_CORE_BBR3_LEO_H

#include "bbr3.h"
#include "monitor.h"
#include "slot_path.h"

#define BP_BBR3_LEO_OWN_OPTIONS(OPTION) OPTION(queue_ms) OPTION(queue_jitters) OPTION(queue_part) OPTION(bw_rounds) OPTION(max_rto_ms)
#define BP_BBR3_LEO_OPTIONS(OPTION) BP_BBR3_LEO_OWN_OPTIONS(OPTION) BP_MONITOR_OPTIONS(OPTION) BP_BBR3_OPTIONS(OPTION)
enum bp_bbr3_leo_option {
    BP_BBR3_LEO_QUEUE,
    BP_BBR3_LEO_QUEUE_JITTERS,
    BP_BBR3_LEO_QUEUE_PART,
    BP_BBR3_LEO_BW_ROUNDS,
    BP_BBR3_LEO_MAX_RTO,
    BP_BBR3_LEO_MONITOR,
    BP_BBR3_LEO_BBR = BP_BBR3_LEO_MONITOR + BP_MONITOR_OPTION_COUNT
};

#define BP_BBR3_LEO_REFILLED_RTTS 2
#define BP_BBR3_LEO_RESUMED_RTTS 3
#define BP_BBR3_LEO_OUTAGE_AFTER (100 * BP_NS_PER_MS)
#define BP_BBR3_LEO_LEAST_OUTAGE (500 * BP_NS_PER_MS)
#define BP_BBR3_LEO_PROBE_AFTER (350 * BP_NS_PER_MS)
#define BP_BBR3_LEO_MAX_OUTAGE BP_MONITOR_MAX_PAUSED
#define BP_BBR3_LEO_MAX_FAILURES 4

/* An outage, and window, rate and RTT before it. */
struct bp_outage {
    u64 is_on;
    u64 began;   /* last ACK before it */
    u64 packets; /* 0: BBR was in charge */
    u64 rate, rtt;
    u64 since; /* BP_NONE: no ACK yet */
    u64 failures; /* time-outs since such an ACK */
};

/* Packets in flight at the first ACK after an outage, less those that were marked lost or arrived since. */
struct bp_stale {
    u64 packets;
    u64 since;
    u64 lost_total; /* bytes lost so far, at the last ACK */
};

struct bp_bbr3_leo {
    struct bp_bbr3 bbr;
    struct bp_monitor monitor;
    struct bp_path path;
    u64 inflight_limit;             /* of the slot model [packets]; BP_NONE: BBR's window applies */
    u64 is_refilling, refill_since; /* after a time-out; BP_NONE: the window is not full yet */
    struct bp_outage outage;
    struct bp_stale stale;
    u64 restarted; /* when the application last had data again after the flow was idle */
    u64 is_repairing; /* lost packets are outstanding: what is sent with none in flight ends no idle time */
    u64 rate;
    u64 was_leo; /* at the last ACK */
    u64 max_rto; /* option [ns]; 0: the host's */
};

BP_INLINE void bp_bbr3_leo_set_options(struct bp_bbr3_leo *c, const struct bp_options *options)
{
    struct bp_target target = {
        .min = options->word[BP_BBR3_LEO_QUEUE],
        .jitter_gain = bp_ratio(options->word[BP_BBR3_LEO_QUEUE_JITTERS]),
        .rtt_fraction = bp_ratio(options->word[BP_BBR3_LEO_QUEUE_PART]),
    };

    c->max_rto = options->word[BP_BBR3_LEO_MAX_RTO];
    bp_path_set_target(&c->path, &target, options->word[BP_BBR3_LEO_BW_ROUNDS]);
    bp_monitor_set_options(&c->monitor, options, BP_BBR3_LEO_MONITOR);
    bp_bbr_params_3(&c->bbr.p, options, BP_BBR3_LEO_BBR);
}

BP_INLINE void bp_bbr3_leo_init(struct bp_bbr3_leo *c, const struct bp_config *config, const struct bp_options *options)
{
    bp_monitor_init(&c->monitor, options, BP_BBR3_LEO_MONITOR);
    bp_path_init(&c->path, config->mss);
    c->inflight_limit = BP_NONE;
    c->is_refilling = 0;
    c->refill_since = BP_NONE;
    c->outage.is_on = 0;
    c->stale.packets = c->stale.since = c->stale.lost_total = 0;
    c->restarted = c->is_repairing = 0;
    c->rate = 0;
    c->was_leo = 0;
    bp_bbr3_leo_set_options(c, options);
    bp_bbr3_start(&c->bbr, config);
}

BP_INLINE void bp_bbr3_leo_set_refilling(struct bp_bbr3_leo *c, u64 is_refilling)
{
    c->is_refilling = is_refilling;
    c->refill_since = BP_NONE;
}

BP_INLINE void bp_bbr3_leo_update_refill(struct bp_bbr3_leo *c, const struct bp_ack *ack)
{
    if (!c->is_refilling || (c->refill_since == BP_NONE && !bp_bbr3_is_cwnd_at_bdp(&c->bbr)))
        return;
    if (c->refill_since == BP_NONE)
        c->refill_since = ack->now;
    if (bp_sub_sat(ack->now, c->refill_since) > BP_BBR3_LEO_REFILLED_RTTS * ack->srtt)
        bp_bbr3_leo_set_refilling(c, 0);
}

/* Remembers window and rate if the time-out is due to an outage. */
BP_FUNC int bp_bbr3_leo_note_outage(struct bp_bbr3_leo *c, u64 now)
{
    struct bp_outage *o;
    u64 rtt;

    BP_REQUIRE(c, 0);
    o = &c->outage;
    if (o->is_on && o->since != BP_NONE && c->restarted > o->since)
        o->is_on = 0; /* all arrived, and the flow was idle since */
    if (o->is_on) {
        if (o->since != BP_NONE) {
            o->since = BP_NONE;
            o->failures++;
            o->packets /= 2;
            o->rate /= 2;
        }
        if (o->failures >= BP_BBR3_LEO_MAX_FAILURES)
            o->is_on = 0;
        return 0;
    }
    rtt = bp_path_queued_rtt(&c->path, now);
    if (rtt == BP_NONE || !c->was_leo || c->monitor.last_ack < c->restarted ||
        bp_sub_sat(now, c->monitor.last_ack) <= rtt + BP_BBR3_LEO_OUTAGE_AFTER)
        return 0;
    o->is_on = 1;
    o->began = c->monitor.last_ack;
    o->packets = c->inflight_limit == BP_NONE ? 0 : c->inflight_limit;
    o->rate = c->rate;
    o->rtt = rtt;
    o->since = BP_NONE;
    o->failures = 0;
    return 0;
}

BP_INLINE void bp_bbr3_leo_update_stale(struct bp_bbr3_leo *c, const struct bp_ack *ack)
{
    struct bp_stale *s = &c->stale;
    u64 gone = bp_sub_sat(ack->lost_total, s->lost_total);

    s->lost_total = ack->lost_total;
    if (ack->rtt == BP_NONE || ack->rtt > bp_sub_sat(ack->now, s->since))
        gone = bp_add_sat(gone, ack->acked);
    s->packets = bp_sub_sat(s->packets, bp_packets(gone, c->bbr.mss));
}

/* Takes the first ACK after an outage for the start of a slot. */
BP_FUNC int bp_bbr3_leo_end_outage(struct bp_bbr3_leo *c, const struct bp_ack *ack)
{
    struct bp_outage *o;

    BP_REQUIRE(c, 0);
    BP_REQUIRE(ack, 0);
    bp_bbr3_leo_update_stale(c, ack);
    o = &c->outage;
    if (!o->is_on)
        return 0;
    if (o->since == BP_NONE) {
        u64 silence = bp_sub_sat(ack->now, o->began);

        if (!o->failures && silence <= o->rtt + BP_BBR3_LEO_LEAST_OUTAGE) {
            o->is_on = 0;
            return 0;
        }
        if (!o->packets || silence > BP_BBR3_LEO_MAX_OUTAGE) {
            o->is_on = 0;
        } else {
            o->since = ack->now;
            c->stale.packets = bp_packets(ack->in_flight, c->bbr.mss);
            c->stale.since = ack->now;
        }
        c->path.ignored_before = ack->now;
        bp_path_reconfiguration(&c->path, ack->now);
    }
    bp_bbr3_postpone_probe_rtt(&c->bbr, ack->now);
    return 0;
}

/* Resumes the window before the outage; returns whether it applies. */
BP_FUNC int bp_bbr3_leo_resume(struct bp_bbr3_leo *c, const struct bp_ack *ack)
{
    struct bp_outage *o;

    BP_REQUIRE(c, 0);
    BP_REQUIRE(ack, 0);
    o = &c->outage;
    if (!o->is_on || o->since == BP_NONE)
        return 0;
    if (bp_sub_sat(ack->now, o->since) > BP_BBR3_LEO_RESUMED_RTTS * o->rtt) {
        o->is_on = 0;
        bp_bbr3_leo_set_refilling(c, 0);
        bp_bbr3_reset_path(&c->bbr, ack);
        return 0;
    }
    c->inflight_limit = o->packets;
    c->rate = o->rate;
    return 1;
}

/* Decides whether the slot model or BBR sets the window. */
BP_FUNC int bp_bbr3_leo_decide(struct bp_bbr3_leo *c, const struct bp_ack *ack)
{
    int applies;

    BP_REQUIRE(c, 0);
    BP_REQUIRE(ack, 0);
    if (bp_bbr3_leo_resume(c, ack))
        return 0;
    bp_bbr3_leo_update_refill(c, ack);
    applies = !c->is_refilling && bp_monitor_is_leo(&c->monitor, ack->now) && bp_bbr3_has_left_startup(&c->bbr) &&
              ack->recovery != BP_LOSS && !bp_path_has_cross_traffic(&c->path, ack->now);
    c->inflight_limit = applies ? bp_path_inflight_limit(&c->path, ack->now) : BP_NONE;
    if (c->inflight_limit == BP_NONE)
        return 0;
    c->rate = bp_bw_pacing_rate(bp_path_bw(&c->path), c->bbr.p.up_gain, c->bbr.mss, c->bbr.p.pacing_margin_percent);
    bp_bbr3_postpone_probe_rtt(&c->bbr, ack->now);
    return 0;
}

BP_INLINE void bp_bbr3_leo_reconfiguration(struct bp_bbr3_leo *c, const struct bp_ack *ack)
{
    bp_path_reconfiguration(&c->path, ack->now);
    bp_bbr3_reset_path(&c->bbr, ack);
}

/* Updates monitor and path, and tells BBR whether losses are congestion. */
BP_FUNC int bp_bbr3_leo_update(struct bp_bbr3_leo *c, const struct bp_ack *ack)
{
    u64 is_leo, is_near;
    int is_reconfigured;

    BP_REQUIRE(c, 0);
    BP_REQUIRE(ack, 0);
    is_reconfigured = bp_monitor_ack(&c->monitor, ack);
    bp_bbr3_leo_end_outage(c, ack);
    if (is_reconfigured && !c->outage.is_on)
        bp_bbr3_leo_reconfiguration(c, ack);
    is_leo = (u64)bp_monitor_is_leo(&c->monitor, ack->now);
    is_near = is_leo && bp_monitor_is_near(&c->monitor, ack->now);
    bp_path_ack(&c->path, ack, is_near, bp_bbr3_loss_threshold(&c->bbr));
    if (is_leo && bp_path_is_stale(&c->path, ack->now))
        bp_bbr3_leo_reconfiguration(c, ack);
    bp_bbr3_ignore_losses(&c->bbr, is_near || (is_leo && bp_path_ignores_losses(&c->path, ack->now)));
    c->was_leo = is_leo;
    return 0;
}

BP_INLINE void bp_bbr3_leo_ack(struct bp_bbr3_leo *c, const struct bp_ack *ack)
{
    bp_bbr3_leo_update(c, ack);
    bp_bbr3_ack(&c->bbr, ack);
    bp_bbr3_leo_decide(c, ack);
    c->is_repairing = ack->recovery == BP_RECOVERY || ack->recovery == BP_LOSS;
}

BP_INLINE void bp_bbr3_leo_lost(struct bp_bbr3_leo *c, const struct bp_lost *lost)
{
    int is_leo = bp_monitor_is_leo(&c->monitor, lost->now);

    bp_bbr3_ignore_losses(&c->bbr, is_leo && (bp_monitor_is_near(&c->monitor, lost->now) || bp_path_ignores_losses(&c->path, lost->now)));
    bp_bbr3_lost(&c->bbr, lost);
}

BP_INLINE void bp_bbr3_leo_congestion(struct bp_bbr3_leo *c, const struct bp_congestion *event)
{
    switch (event->event) {
    case BP_EVENT_TIMEOUT:
    case BP_EVENT_TIMEOUT_AGAIN:
        bp_bbr3_leo_note_outage(c, event->now);
        c->is_repairing = 1;
        c->inflight_limit = BP_NONE;
        c->stale.packets = 0; /* they are marked lost now */
        bp_bbr3_leo_set_refilling(c, 1);
        break;
    case BP_EVENT_LOSS:
        if (bp_bbr3_is_cwnd_at_bdp(&c->bbr))
            bp_bbr3_leo_set_refilling(c, 0);
        break;
    case BP_EVENT_UNDO: bp_bbr3_leo_set_refilling(c, 0); break;
    case BP_EVENT_RESTART:
        if (!c->is_repairing)
            c->restarted = event->now;
        break;
    default: break;
    }
    bp_bbr3_congestion(&c->bbr, event);
}

BP_INLINE u64 bp_bbr3_leo_cwnd(const struct bp_bbr3_leo *c)
{
    return c->inflight_limit == BP_NONE ? bp_bbr3_cwnd(&c->bbr) : bp_mul_sat(bp_add_sat(c->inflight_limit, c->stale.packets), c->bbr.mss);
}

BP_INLINE u64 bp_bbr3_leo_pacing_rate(const struct bp_bbr3_leo *c)
{
    return c->inflight_limit == BP_NONE ? bp_bbr3_pacing_rate(&c->bbr) : c->rate;
}

/* Returns the largest RTO that the connection should have now [ns], in an outage; BP_NONE: the host's. */
BP_FUNC u64 bp_bbr3_leo_max_rto(const struct bp_bbr3_leo *c, u64 now)
{
    u64 longest, next, wait;

    BP_REQUIRE(c, BP_NONE);
    if (!c->outage.is_on || !c->max_rto)
        return BP_NONE;
    longest = bp_max(c->max_rto, 2 * c->outage.rtt);
    next = bp_monitor_next_expected(&c->monitor, now);
    if (next == BP_NONE)
        return longest;
    wait = bp_sub_sat(bp_add_sat(next, BP_BBR3_LEO_PROBE_AFTER), now);
    return wait >= longest && wait < 2 * longest ? wait : longest;
}

BP_INLINE void bp_bbr3_leo_established(struct bp_bbr3_leo *c, u64 now, u64 rtt) { bp_bbr3_established(&c->bbr, now, rtt); }
BP_INLINE void bp_bbr3_leo_acked(struct bp_bbr3_leo *c, const struct bp_ack *ack) { bp_bbr3_acked(&c->bbr, ack); }
BP_INLINE void bp_bbr3_leo_sent(struct bp_bbr3_leo *c, const struct bp_sent *sent) { bp_bbr3_sent(&c->bbr, sent); }
BP_INLINE void bp_bbr3_leo_hint(struct bp_bbr3_leo *c, const struct bp_hint *hint) { bp_monitor_hint(&c->monitor, hint); }
BP_INLINE void bp_bbr3_leo_set_cwnd(struct bp_bbr3_leo *c, u64 bytes) { bp_bbr3_set_cwnd(&c->bbr, bytes); }
BP_INLINE void bp_bbr3_leo_set_ssthresh(struct bp_bbr3_leo *c, u64 bytes) { bp_bbr3_set_ssthresh(&c->bbr, bytes); }
BP_INLINE u64 bp_bbr3_leo_ssthresh(const struct bp_bbr3_leo *c) { return bp_bbr3_ssthresh(&c->bbr); }
BP_INLINE u64 bp_bbr3_leo_min_tso_segments(const struct bp_bbr3_leo *c) { return bp_bbr3_min_tso_segments(&c->bbr); }

#endif
