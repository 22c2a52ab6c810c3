/* BBR v1 without its detection of policers, for controllers that are built on it: twins of crates/cc/src/bbr/mod.rs, window.rs and recovery.rs. */
#ifndef BENTPIPE_CORE_BBR1_H
#define BENTPIPE_CORE_BBR1_H

#include "bbr1_model.h"

/* Sets the initial rate; `rtt` may be BP_NONE. */
BP_INLINE void bp_bbr1_init_pacing_rate(struct bp_bbr1 *b, u64 rtt)
{
    u64 bw = bp_bw_of(b->cwnd * b->mss, bp_max(rtt == BP_NONE ? BP_NS_PER_MS : rtt, BP_NS_PER_US), b->mss);

    b->has_rtt |= rtt != BP_NONE;
    if (bw)
        b->pacing_rate = bp_bw_pacing_rate(bw, BP_BBR1_HIGH_GAIN, b->mss, BP_BBR_PACING_MARGIN_PERCENT);
}

BP_INLINE void bp_bbr1_init(struct bp_bbr1 *b, const struct bp_config *config)
{
    b->mss = config->mss;
    b->cwnd = bp_max(bp_packets(config->initial_cwnd, config->mss), 1);
    b->ssthresh = BP_NONE;
    b->mode = BP_BBR1_STARTUP;
    b->pacing_gain = b->cwnd_gain = BP_BBR1_HIGH_GAIN;
    bp_filter_init(&b->bandwidth, BP_BBR1_BANDWIDTH_ROUNDS, 0, 0);
    bp_bbr_min_rtt_init(&b->min_rtt, 0);
    bp_bbr_probe_rtt_init(&b->probe_rtt);
    bp_bbr_aggregation_init(&b->aggregation, 0, 0);
    bp_bbr1_init_pacing_rate(b, BP_NONE);
}

BP_INLINE void bp_bbr1_established(struct bp_bbr1 *b, u64 now, u64 rtt)
{
    b->delivered_at = now;
    b->min_rtt.stamp = now;
    bp_bbr_min_rtt_ack(&b->min_rtt, b->min_rtt_window, now, rtt, 0);
    bp_bbr_aggregation_restart_epoch(&b->aggregation, now);
    bp_bbr1_init_pacing_rate(b, rtt);
}

/* Sets the pacing rate; until the pipe is full it only rises. */
BP_FUNC int bp_bbr1_set_pacing_rate(struct bp_bbr1 *b, u64 gain, u64 srtt)
{
    u64 rate;

    BP_REQUIRE(b, 0);
    if (!b->has_rtt && srtt)
        bp_bbr1_init_pacing_rate(b, srtt);
    rate = bp_bw_pacing_rate(bp_bbr1_bw(b), gain, b->mss, BP_BBR_PACING_MARGIN_PERCENT);
    if (b->full.reached || rate > b->pacing_rate)
        b->pacing_rate = rate;
    return 0;
}

/* Grows the window by a packet per packet acknowledged, towards the target; it falls to the target only once the pipe was full. */
BP_INLINE void bp_bbr1_grow(struct bp_bbr1 *b, u64 delivered_total)
{
    u64 bw = bp_bbr1_bw(b);
    u64 aggregated = b->full.reached ? bp_bbr_aggregation_window(&b->aggregation, bw) : 0;
    u64 target = bp_bbr1_with_budget(b, bp_bbr1_bdp(b, bw, b->cwnd_gain) + aggregated);

    if (b->full.reached)
        b->cwnd = bp_min(b->cwnd + b->acked, target);
    else if (b->cwnd < target || delivered_total < BP_BBR_INITIAL_CWND * b->mss)
        b->cwnd += b->acked;
    b->cwnd = bp_max(b->cwnd, BP_BBR_MIN_CWND);
}

/* Adjusts the window in recovery: a round of packet conservation, at its end the saved window. */
BP_INLINE void bp_bbr1_recover(struct bp_bbr1 *b, const struct bp_ack *ack)
{
    u64 conserved = b->in_flight + b->acked;

    b->cwnd = bp_max(bp_sub_sat(b->cwnd, b->lost), 1);
    if (ack->recovery == BP_RECOVERY && b->previous_recovery != BP_RECOVERY) {
        b->is_conserving = 1;
        b->cwnd = conserved;
        bp_bbr_rounds_restart(&b->rounds, ack->delivered_total);
    } else if (bp_bbr1_is_recovery(b->previous_recovery) && !bp_bbr1_is_recovery(ack->recovery)) {
        b->is_conserving = 0;
        b->cwnd = bp_max(b->cwnd, b->saved_cwnd);
    }
    b->previous_recovery = ack->recovery;
    if (b->is_conserving)
        b->cwnd = bp_max(b->cwnd, conserved);
}

BP_FUNC int bp_bbr1_update_cwnd(struct bp_bbr1 *b, const struct bp_ack *ack)
{
    BP_REQUIRE(b, 0);
    BP_REQUIRE(ack, 0);
    if (b->acked) {
        bp_bbr1_recover(b, ack);
        if (!b->is_conserving)
            bp_bbr1_grow(b, ack->delivered_total);
    }
    bp_bbr1_clamp_cwnd(b);
    if (b->mode == BP_BBR1_PROBE_RTT)
        b->cwnd = bp_min(b->cwnd, bp_bbr1_probe_rtt_window(b));
    return 0;
}

BP_INLINE void bp_bbr1_ack(struct bp_bbr1 *b, const struct bp_ack *ack)
{
    b->app_limited = ack->app_limited;
    bp_bbr1_update_model(b, ack);
    bp_bbr1_set_pacing_rate(b, b->pacing_gain, ack->srtt);
    bp_bbr1_update_cwnd(b, ack);
}

/* Restarts after an idle period. */
BP_INLINE void bp_bbr1_resume(struct bp_bbr1 *b, u64 now)
{
    if (!b->app_limited && b->mode != BP_BBR1_PROBE_RTT)
        return;
    b->idle_restart = 1;
    bp_bbr_aggregation_restart_epoch(&b->aggregation, now);
    if (b->mode == BP_BBR1_PROBE_BW)
        bp_bbr1_set_pacing_rate(b, BP_UNIT, 0);
    else if (b->mode == BP_BBR1_PROBE_RTT && bp_bbr_probe_rtt_time_is_up(&b->probe_rtt, now))
        bp_bbr1_leave_probe_rtt(b, now);
}

BP_INLINE void bp_bbr1_timeout(struct bp_bbr1 *b, u64 in_flight)
{
    b->previous_recovery = BP_LOSS;
    bp_bbr_full_timeout(&b->full);
    bp_bbr_rounds_force_start(&b->rounds);
    b->cwnd = bp_add_sat(bp_packets(in_flight, b->mss), 1);
    bp_bbr1_clamp_cwnd(b);
}

BP_FUNC int bp_bbr1_congestion(struct bp_bbr1 *b, const struct bp_congestion *event)
{
    BP_REQUIRE(b, 0);
    BP_REQUIRE(event, 0);
    switch (event->event) {
    case BP_EVENT_LOSS:
    case BP_EVENT_ECN: bp_bbr1_save_cwnd(b); break;
    case BP_EVENT_TIMEOUT:
        bp_bbr1_save_cwnd(b);
        bp_bbr1_timeout(b, event->in_flight);
        break;
    case BP_EVENT_TIMEOUT_AGAIN: bp_bbr1_timeout(b, event->in_flight); break;
    case BP_EVENT_UNDO: bp_bbr_full_undo(&b->full); break;
    case BP_EVENT_RESTART: bp_bbr1_resume(b, event->now); break;
    default: break;
    }
    return 0;
}

BP_INLINE void bp_bbr1_set_cwnd(struct bp_bbr1 *b, u64 bytes)
{
    b->cwnd = bp_max(bp_packets(bytes, b->mss), 1);
    bp_bbr1_clamp_cwnd(b);
}

#endif
