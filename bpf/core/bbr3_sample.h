/* An ACK in packets: the twin of crates/cc/src/bbr3/sample.rs. */
#ifndef BENTPIPE_CORE_BBR3_SAMPLE_H
#define BENTPIPE_CORE_BBR3_SAMPLE_H

#include "bbr3_state.h"

/* Fills the sample of the ACK and advances the round. */
BP_FUNC int bp_bbr3_take_sample(struct bp_bbr3 *b, const struct bp_ack *ack)
{
    struct bp_bbr3_sample *s;
    u64 mss, prior;

    BP_REQUIRE(b, 0);
    BP_REQUIRE(ack, 0);
    s = &b->sample;
    mss = b->mss;
    prior = ack->rate_prior_delivered;
    if (ack->rate_interval < BP_NS_PER_US)
        prior = BP_NONE;
    s->now = ack->now;
    s->acked = bp_clamped_packets(ack->acked, mss);
    s->newly_lost = b->ignores_losses ? 0 : bp_clamped_packets(ack->newly_lost, mss);
    s->in_flight = bp_clamped_packets(ack->in_flight, mss);
    s->prior_in_flight = bp_clamped_packets(ack->prior_in_flight, mss);
    s->bw = s->delivered = s->app_limited = 0;
    if (prior != BP_NONE) {
        s->bw = bp_bw_of(ack->rate_delivered, ack->rate_interval, mss);
        s->delivered = bp_clamped_packets(ack->rate_delivered, mss);
        s->app_limited = ack->rate_app_limited || bp_bbr_probe_rtt_slowed(&b->probe_rtt, prior);
    }
    s->valid = s->bw && ack->acked;
    s->prior_delivered = prior == BP_NONE ? ack->delivered_total : prior;
    s->delivered_total = ack->delivered_total;
    s->tx_in_flight = bp_clamped_packets(ack->tx_in_flight, mss);
    s->lost = b->ignores_losses ? 0 : bp_clamped_packets(ack->lost_since_sent, mss);
    s->marked = bp_bbr_ecn_marked_since(&b->ecn, s->prior_delivered, ack->ce_count);
    s->round_start = bp_bbr_rounds_advance(&b->rounds, prior, ack->delivered_total);
    s->window_full = ack->window_full;
    s->in_recovery = ack->recovery == BP_RECOVERY;
    s->open = ack->recovery == BP_OPEN;
    return 0;
}

#endif
