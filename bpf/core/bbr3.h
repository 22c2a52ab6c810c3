/* BBR version 3: the twin of crates/cc/src/bbr3/mod.rs, where its sources are. With other rules and values it is version 2 (bbr2.h).
 *
 * A controller that contains it (bbr3-leo) uses, besides the functions of every controller:
 *     bp_bbr_params_3(&b->p, options, first) instead of bp_bbr3_set_options: BBR's options begin at word `first`
 *     bp_bbr3_start(b, config)               instead of bp_bbr3_init, after the parameters are set
 *     bp_bbr3_ignore_losses(b, on)           bp_bbr3_reset_path(b, ack)       bp_bbr3_postpone_probe_rtt(b, now)
 *     bp_bbr3_has_left_startup(b)            bp_bbr3_is_cwnd_at_bdp(b)        bp_bbr3_loss_threshold(b)
 *     b->p.up_gain, b->p.pacing_margin_percent, and bp_bw_* of bw.h
 */
#ifndef BENTPIPE_CORE_BBR3_H
#define BENTPIPE_CORE_BBR3_H

#include "bbr3_probe_bw.h"
#include "bbr3_sample.h"
#include "bbr3_undo.h"

/* Sets the state of a new connection; the parameters are set already. */
BP_FUNC int bp_bbr3_start(struct bp_bbr3 *b, const struct bp_config *config)
{
    struct bp_bbr3_sample no_sample = {0};
    struct bp_bbr3_latest latest = {.lost_end = BP_NONE};
    struct bp_bbr3_cycle cycle = {.ack_phase = BP_BBR3_ACKS_INIT};

    BP_REQUIRE(b, 0);
    BP_REQUIRE(config, 0);
    b->mss = config->mss;
    b->cwnd = b->initial_cwnd = bp_max(bp_packets(config->initial_cwnd, config->mss), 1);
    b->prior_cwnd = 0;
    b->ssthresh = BP_NONE;
    b->pacing_rate = b->has_rtt = 0;
    b->phase = BP_BBR3_STARTUP;
    b->rounds.count = b->rounds.end = b->rounds.start = 0;
    b->drain_start_round = 0;
    b->max_bw.before = b->max_bw.current = 0;
    b->latest = latest;
    bp_bbr3_reset_short_term(b);
    b->inflight_longterm = BP_NONE;
    b->slope.rounds = b->slope.acked = b->slope.per_packet = 0;
    b->cycle = cycle;
    bp_bbr3_min_rtt_init(b, 0);
    bp_bbr_probe_rtt_init(&b->probe_rtt);
    bp_bbr_full_restart(&b->full, 0);
    bp_bbr_full_set_never(&b->full);
    bp_bbr_aggregation_init(&b->aggregation, 0, bp_bbr3_is_draft(b));
    bp_bbr_ecn_init(&b->ecn, &b->p);
    b->undo.short_term = b->short_term;
    b->undo.inflight_longterm = BP_NONE;
    b->undo.phase = BP_BBR3_NO_PHASE;
    b->undo.saved = 0;
    b->resumes_probe = 0;
    b->previous = BP_OPEN;
    b->delivered_total = b->delivered_at = 0;
    b->idle_restart = b->app_limited = b->ignores_losses = 0;
    b->sample = no_sample;
    bp_bbr3_init_pacing_rate(b, BP_NONE);
    return 0;
}

BP_INLINE void bp_bbr3_set_options(struct bp_bbr3 *b, const struct bp_options *options) { bp_bbr_params_3(&b->p, options, 0); }

BP_INLINE void bp_bbr3_init(struct bp_bbr3 *b, const struct bp_config *config, const struct bp_options *options)
{
    bp_bbr3_set_options(b, options);
    bp_bbr3_start(b, config);
}

/* Sets whether losses are ignored from now on. */
BP_INLINE void bp_bbr3_ignore_losses(struct bp_bbr3 *b, u64 on) { b->ignores_losses = on; }

/* Resets the bounds and the minimum RTT after a reconfiguration. */
BP_INLINE void bp_bbr3_reset_path(struct bp_bbr3 *b, const struct bp_ack *ack)
{
    bp_bbr3_reset_short_term(b);
    b->inflight_longterm = BP_NONE;
    bp_bbr3_min_rtt_init(b, ack->now);
    bp_bbr3_min_rtt_ack(b, ack->now, ack->rtt == BP_NONE ? ack->srtt : ack->rtt, 0);
}

BP_INLINE void bp_bbr3_postpone_probe_rtt(struct bp_bbr3 *b, u64 now) { b->min_rtt.probe.stamp = now; }
BP_INLINE int bp_bbr3_has_left_startup(const struct bp_bbr3 *b) { return b->full.reached && b->phase != BP_BBR3_STARTUP; }
BP_INLINE int bp_bbr3_is_cwnd_at_bdp(const struct bp_bbr3 *b) { return b->cwnd >= bp_bbr3_bdp(b, bp_bbr3_bw(b), BP_UNIT); }
BP_INLINE u64 bp_bbr3_loss_threshold(const struct bp_bbr3 *b) { return b->p.loss_threshold; }

BP_FUNC int bp_bbr3_established(struct bp_bbr3 *b, u64 now, u64 rtt)
{
    BP_REQUIRE(b, 0);
    b->delivered_at = now;
    bp_bbr3_min_rtt_init(b, now);
    bp_bbr3_min_rtt_ack(b, now, rtt, 0);
    bp_bbr_aggregation_restart_epoch(&b->aggregation, now);
    bp_bbr3_init_pacing_rate(b, rtt);
    return 0;
}

BP_INLINE void bp_bbr3_leave_probe_rtt(struct bp_bbr3 *b, u64 now)
{
    bp_bbr3_postpone_probe_rtt(b, now);
    b->cwnd = bp_max(b->cwnd, b->prior_cwnd);
    bp_bbr3_reset_short_term(b);
    if (b->full.reached) {
        bp_bbr3_start_down(b, now, b->delivered_total);
        bp_bbr3_start_cruise(b);
    } else {
        b->phase = BP_BBR3_STARTUP;
    }
}

/* Updates the minimum RTT and runs PROBE_RTT. */
BP_FUNC int bp_bbr3_update_min_rtt(struct bp_bbr3 *b, const struct bp_ack *ack)
{
    enum bp_bbr_probe_rtt_step step;
    int expired, small;

    BP_REQUIRE(b, 0);
    BP_REQUIRE(ack, 0);
    expired = bp_bbr3_min_rtt_ack(b, ack->now, ack->rtt, ack->ack_delayed);
    if (expired && !b->idle_restart && b->phase != BP_BBR3_PROBE_RTT) {
        bp_bbr3_save_cwnd(b);
        b->phase = BP_BBR3_PROBE_RTT;
        bp_bbr_probe_rtt_enter(&b->probe_rtt, ack->delivered_total);
        b->cycle.ack_phase = BP_BBR3_ACKS_PROBE_STOPPING;
        bp_bbr_rounds_restart(&b->rounds, ack->delivered_total);
    }
    if (b->phase == BP_BBR3_PROBE_RTT) {
        small = b->sample.in_flight <= bp_bbr3_probe_rtt_cwnd(b);
        step = bp_bbr_probe_rtt_ack(&b->probe_rtt, b->p.probe_rtt_duration, ack, small, b->sample.round_start);
        if (step == BP_BBR_PROBE_RTT_BEGIN)
            bp_bbr_rounds_restart(&b->rounds, ack->delivered_total);
        else if (step == BP_BBR_PROBE_RTT_DONE)
            bp_bbr3_leave_probe_rtt(b, ack->now);
    }
    if (b->sample.delivered)
        b->idle_restart = 0;
    return 0;
}

/* Updates the round's count and marks, at its start. */
BP_FUNC int bp_bbr3_round(struct bp_bbr3 *b, const struct bp_ack *ack)
{
    BP_REQUIRE(b, 0);
    BP_REQUIRE(ack, 0);
    b->cycle.rounds_since_probe = bp_min(b->cycle.rounds_since_probe + 1, BP_BBR3_MAX_ROUNDS_SINCE_PROBE);
    bp_bbr3_check_startup_marks(b, bp_bbr_ecn_round(&b->ecn, &b->p, b->mss, b->min_rtt.value, ack));
    return 0;
}

/* Updates the ACK aggregation. Until the pipe is full the window is one round. */
BP_FUNC int bp_bbr3_update_aggregation(struct bp_bbr3 *b)
{
    u64 window;

    BP_REQUIRE(b, 0);
    window = b->full.reached ? b->p.extra_acked_rounds : 1;
    bp_bbr_aggregation_ack(&b->aggregation, b->delivered_at, b->sample.acked, b->sample.round_start, window, bp_bbr3_bw(b), b->cwnd);
    return 0;
}

BP_FUNC int bp_bbr3_ack(struct bp_bbr3 *b, const struct bp_ack *ack)
{
    BP_REQUIRE(b, 0);
    BP_REQUIRE(ack, 0);
    b->app_limited = ack->app_limited;
    b->delivered_total = ack->delivered_total;
    if (ack->acked)
        b->delivered_at = ack->now;
    bp_bbr3_leave_recovery(b, ack->recovery);
    bp_bbr_ecn_ack(&b->ecn, ack->delivered_total, ack->ce_count);
    if (b->resumes_probe)
        bp_bbr_rounds_restart(&b->rounds, ack->delivered_total);
    b->resumes_probe = 0;
    bp_bbr3_take_sample(b, ack);
    if (b->sample.round_start)
        bp_bbr3_round(b, ack);
    bp_bbr3_update_signals(b);
    if (b->sample.valid)
        bp_bbr3_update_aggregation(b);
    bp_bbr3_check_startup_loss(b);
    bp_bbr3_check_full_pipe(b);
    bp_bbr3_check_drain(b, ack->next_departure);
    bp_bbr3_update_cycle(b, ack->next_departure);
    bp_bbr3_update_min_rtt(b, ack);
    bp_bbr3_set_pacing_rate(b, bp_bbr3_pacing_gain(b), ack->srtt);
    bp_bbr3_update_cwnd(b);
    bp_bbr3_advance_latest(b);
    b->previous = ack->recovery;
    return 0;
}

BP_FUNC int bp_bbr3_lost(struct bp_bbr3 *b, const struct bp_lost *lost)
{
    BP_REQUIRE(b, 0);
    BP_REQUIRE(lost, 0);
    if (b->ignores_losses)
        return 0;
    if (bp_bbr3_note_loss(&b->latest, lost->delivered_total) && bp_bbr3_is_draft(b)) {
        bp_bbr3_save_cwnd(b);
        bp_bbr3_save_model(b);
    }
    if (bp_bbr3_is_draft(b) && !b->full.reached)
        bp_bbr3_count_gap(&b->latest, lost->seq, lost->seq + lost->bytes);
    if (b->cycle.probe_samples)
        bp_bbr3_lost_while_probing(b, lost);
    return 0;
}

/* Restarts after an idle period. */
BP_INLINE void bp_bbr3_restart(struct bp_bbr3 *b, u64 now)
{
    if (!b->app_limited && b->phase != BP_BBR3_PROBE_RTT)
        return;
    b->idle_restart = 1;
    bp_bbr_aggregation_restart_epoch(&b->aggregation, now);
    if (bp_bbr3_is_probe_bw(b))
        bp_bbr3_set_pacing_rate(b, BP_UNIT, 0);
    else if (b->phase == BP_BBR3_PROBE_RTT && bp_bbr_probe_rtt_time_is_up(&b->probe_rtt, now))
        bp_bbr3_leave_probe_rtt(b, now);
}

BP_FUNC int bp_bbr3_congestion(struct bp_bbr3 *b, const struct bp_congestion *event)
{
    BP_REQUIRE(b, 0);
    BP_REQUIRE(event, 0);
    switch (event->event) {
    case BP_EVENT_LOSS:
    case BP_EVENT_ECN:
    case BP_EVENT_TIMEOUT:
        bp_bbr3_save_cwnd(b);
        bp_bbr3_save_model(b);
        if (event->event == BP_EVENT_TIMEOUT)
            bp_bbr3_timeout(b, bp_packets(event->in_flight, b->mss));
        break;
    case BP_EVENT_TIMEOUT_AGAIN: bp_bbr3_timeout(b, bp_packets(event->in_flight, b->mss)); break;
    case BP_EVENT_TAIL_LOSS: bp_bbr3_tail_loss(b, event->now); break;
    case BP_EVENT_UNDO: bp_bbr3_undo(b); break;
    case BP_EVENT_RECOVERY_END: bp_bbr3_end_episode(b); break;
    case BP_EVENT_RESTART: bp_bbr3_restart(b, event->now); break;
    default: break;
    }
    return 0;
}

BP_INLINE void bp_bbr3_acked(struct bp_bbr3 *b, const struct bp_ack *ack) { (void)b, (void)ack; }
BP_INLINE void bp_bbr3_sent(struct bp_bbr3 *b, const struct bp_sent *sent) { b->app_limited = sent->app_limited; }
BP_INLINE void bp_bbr3_hint(struct bp_bbr3 *b, const struct bp_hint *hint) { (void)b, (void)hint; }
BP_INLINE void bp_bbr3_set_cwnd(struct bp_bbr3 *b, u64 bytes) { b->cwnd = bp_clamp(bp_packets(bytes, b->mss), 1, BP_CLAMP_PACKETS); }
BP_INLINE void bp_bbr3_set_ssthresh(struct bp_bbr3 *b, u64 bytes) { (void)b, (void)bytes; }
BP_INLINE u64 bp_bbr3_cwnd(const struct bp_bbr3 *b) { return b->cwnd * b->mss; }
BP_INLINE u64 bp_bbr3_ssthresh(const struct bp_bbr3 *b) { return b->ssthresh; }
BP_INLINE u64 bp_bbr3_pacing_rate(const struct bp_bbr3 *b) { return b->pacing_rate; }

/* Returns the fewest packets in a burst; BP_NONE: the host's own rule. */
BP_INLINE u64 bp_bbr3_min_tso_segments(const struct bp_bbr3 *b)
{
    return bp_bbr3_is_linux2(b) ? bp_bbr_min_burst(b->pacing_rate) : BP_NONE;
}

#endif
