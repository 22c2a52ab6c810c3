/* How an ACK updates the model of BBR v1: the twin of crates/cc/src/bbr/model.rs. */
#ifndef BENTPIPE_CORE_BBR1_MODEL_H
#define BENTPIPE_CORE_BBR1_MODEL_H

#include "bbr1_state.h"

/* Returns the packets in flight when the pacer releases the next packet. */
BP_INLINE u64 bp_bbr1_inflight_at_departure(const struct bp_bbr1 *b, u64 in_flight, const struct bp_ack *ack)
{
    u64 delivered = bp_bw_packets_in(bp_bbr1_bw(b), bp_sub_sat(ack->next_departure, ack->now));

    return bp_sub_sat(in_flight + (b->pacing_gain > BP_UNIT ? bp_bbr1_burst(b) : 0), delivered);
}

/* Updates the round and the bandwidth. */
BP_INLINE void bp_bbr1_update_bandwidth(struct bp_bbr1 *b, const struct bp_ack *ack, int app_limited)
{
    u64 bw;

    if (bp_bbr_rounds_advance(&b->rounds, ack->rate_prior_delivered, ack->delivered_total))
        b->is_conserving = 0;
    bw = bp_bw_of(ack->rate_delivered, ack->rate_interval, b->mss);
    if (bw && (!app_limited || bw >= bp_bbr1_max_bw(b)))
        bp_filter_update(&b->bandwidth, b->rounds.count, bw);
}

/* Moves to the next phase of PROBE_BW if the current one is over. */
BP_FUNC int bp_bbr1_update_cycle(struct bp_bbr1 *b, const struct bp_ack *ack)
{
    u64 inflight;
    int is_over;

    BP_REQUIRE(b, 0);
    BP_REQUIRE(ack, 0);
    if (b->mode != BP_BBR1_PROBE_BW)
        return 0;
    /* An unknown minimum RTT is BP_NONE: no phase lasts that long. */
    is_over = bp_sub_sat(b->delivered_at, b->phase_since) > b->min_rtt.value;
    inflight = bp_bbr1_inflight_at_departure(b, b->prior_in_flight, ack);
    if (b->pacing_gain > BP_UNIT)
        is_over = is_over && (b->lost || inflight >= bp_bbr1_target_inflight(b, b->pacing_gain));
    else if (b->pacing_gain < BP_UNIT)
        is_over = is_over || inflight <= bp_bbr1_target_inflight(b, BP_UNIT);
    if (is_over)
        bp_bbr1_advance_phase(b);
    return 0;
}

/* Enters DRAIN when the pipe is full, and PROBE_BW when the queue is drained. */
BP_FUNC int bp_bbr1_check_drain(struct bp_bbr1 *b, const struct bp_ack *ack)
{
    u64 full;

    BP_REQUIRE(b, 0);
    BP_REQUIRE(ack, 0);
    full = bp_bbr1_target_inflight(b, BP_UNIT);
    if (b->mode == BP_BBR1_STARTUP && b->full.reached) {
        b->mode = BP_BBR1_DRAIN;
        b->ssthresh = bp_mul_sat(full, b->mss);
    }
    if (b->mode == BP_BBR1_DRAIN && bp_bbr1_inflight_at_departure(b, b->in_flight, ack) <= full)
        bp_bbr1_enter_probe_bw(b);
    return 0;
}

/* Updates the minimum RTT and runs PROBE_RTT. */
BP_FUNC int bp_bbr1_update_min_rtt(struct bp_bbr1 *b, const struct bp_ack *ack)
{
    int expired;

    BP_REQUIRE(b, 0);
    BP_REQUIRE(ack, 0);
    expired = bp_bbr_min_rtt_ack(&b->min_rtt, b->min_rtt_window, ack->now, ack->rtt, ack->ack_delayed);
    if (expired && !b->idle_restart)
        bp_bbr1_start_probe_rtt(b, ack->delivered_total);
    if (b->mode == BP_BBR1_PROBE_RTT) {
        int small = b->in_flight <= bp_bbr1_probe_rtt_window(b);

        switch (bp_bbr_probe_rtt_ack(&b->probe_rtt, b->probe_rtt_time, ack, small, b->rounds.start)) {
        case BP_BBR_PROBE_RTT_BEGIN: bp_bbr_rounds_restart(&b->rounds, ack->delivered_total); break;
        case BP_BBR_PROBE_RTT_DONE: bp_bbr1_leave_probe_rtt(b, ack->now); break;
        default: break;
        }
    }
    if (ack->rate_prior_delivered != BP_NONE && ack->rate_delivered)
        b->idle_restart = 0;
    return 0;
}

BP_FUNC int bp_bbr1_update_model(struct bp_bbr1 *b, const struct bp_ack *ack)
{
    int has_rate, app_limited;

    BP_REQUIRE(b, 0);
    BP_REQUIRE(ack, 0);
    b->acked = bp_clamped_packets(ack->acked, b->mss);
    b->lost = bp_clamped_packets(ack->newly_lost, b->mss);
    b->in_flight = bp_clamped_packets(ack->in_flight, b->mss);
    b->prior_in_flight = bp_clamped_packets(ack->prior_in_flight, b->mss);
    if (b->acked)
        b->delivered_at = ack->now;
    has_rate = ack->rate_prior_delivered != BP_NONE && ack->rate_interval >= BP_NS_PER_US;
    app_limited = has_rate && (ack->rate_app_limited || bp_bbr_probe_rtt_slowed(&b->probe_rtt, ack->rate_prior_delivered));
    b->rounds.start = 0;
    if (has_rate) {
        bp_bbr1_update_bandwidth(b, ack, app_limited);
        bp_bbr_aggregation_ack(
            &b->aggregation, b->delivered_at, b->acked, b->rounds.start, BP_BBR_EXTRA_ACKED_ROUNDS, bp_bbr1_bw(b), b->cwnd);
    }
    bp_bbr1_update_cycle(b, ack);
    if (b->rounds.start && !app_limited)
        bp_bbr_full_on_round(&b->full, BP_BBR_FULL_BW_GROWTH, BP_BBR_FULL_BW_ROUNDS, bp_bbr1_max_bw(b));
    bp_bbr1_check_drain(b, ack);
    bp_bbr1_update_min_rtt(b, ack);
    bp_bbr1_update_gains(b);
    return 0;
}

#endif
