/* LeoCC: the twin of crates/cc/src/leocc.rs. */
#ifndef BENTPIPE_CORE_LEOCC_H
#define BENTPIPE_CORE_LEOCC_H

#include "bbr1.h"
#include "wall_clock.h"

#define BP_LEOCC_OPTIONS(OPTION) \
    OPTION(min_rtt_win_s) OPTION(probe_rtt_mode_ms) OPTION(min_rtt_fluctuation_ms) OPTION(delta_thresh_ms) OPTION(reassigned_at_s) OPTION(period_s) \
    OPTION(hint_offset_ms)
enum bp_leocc_option {
    BP_LEOCC_MIN_RTT_WINDOW,
    BP_LEOCC_PROBE_RTT,
    BP_LEOCC_FLUCTUATION,
    BP_LEOCC_RTT_FALL,
    BP_LEOCC_REASSIGNED_AT,
    BP_LEOCC_PERIOD
};

#define BP_LEOCC_BEFORE (100 * BP_NS_PER_MS)
#define BP_LEOCC_NOISE 4
#define BP_LEOCC_UNCERTAINTY 25
#define BP_LEOCC_PROBE_RTT_GAIN (BP_UNIT / 2)
#define BP_LEOCC_GENTLE_UP (BP_UNIT * 21 / 20)

struct bp_kalman {
    u64 value, uncertainty;
};

struct bp_leocc {
    struct bp_bbr1 bbr;
    struct bp_wall_clock clock;
    u64 fluctuation, rtt_fall; /* options [ns] */
    u64 triggered;
    struct bp_bbr_rounds rounds;
    u64 round_bw, latest_bw, first_bw;
    struct bp_kalman bw;
    struct bp_kalman rtt; /* [us] */
};

BP_INLINE void bp_kalman_update(struct bp_kalman *k, u64 sample)
{
    u64 uncertainty = k->uncertainty + BP_LEOCC_NOISE;
    u64 gain = uncertainty * BP_UNIT / (uncertainty + BP_LEOCC_NOISE);
    struct bp_wide mixed = bp_wide_add(bp_wide_mul(BP_UNIT - gain, k->value), bp_wide_mul(gain, sample));

    k->value = bp_narrow(bp_wide_right(mixed, BP_UNIT_SHIFT));
    k->uncertainty = (BP_UNIT - gain) * uncertainty / BP_UNIT;
}

BP_INLINE void bp_leocc_set_options(struct bp_leocc *l, const struct bp_options *options)
{
    l->bbr.min_rtt_window = options->word[BP_LEOCC_MIN_RTT_WINDOW];
    l->bbr.probe_rtt_time = options->word[BP_LEOCC_PROBE_RTT];
    l->fluctuation = options->word[BP_LEOCC_FLUCTUATION];
    l->rtt_fall = options->word[BP_LEOCC_RTT_FALL];
    bp_wall_clock_set(&l->clock, options->word[BP_LEOCC_PERIOD], options->word[BP_LEOCC_REASSIGNED_AT]);
}

/* Begins with zeroed memory. */
BP_INLINE void bp_leocc_init(struct bp_leocc *l, const struct bp_config *config, const struct bp_options *options)
{
    bp_leocc_set_options(l, options);
    bp_bbr1_init(&l->bbr, config);
    l->bbr.probe_rtt_gain = BP_LEOCC_PROBE_RTT_GAIN;
    l->bw.uncertainty = l->rtt.uncertainty = BP_LEOCC_UNCERTAINTY;
}

/* Returns whether a reconfiguration is about to happen. */
BP_INLINE u64 bp_leocc_is_near(const struct bp_leocc *l, u64 now) { return bp_wall_clock_time_to_next(&l->clock, now) <= BP_LEOCC_BEFORE; }

/* Updates the filters, and the initial bandwidth of the new path. */
BP_FUNC int bp_leocc_update_filters(struct bp_leocc *l, const struct bp_ack *ack)
{
    u64 bw;

    BP_REQUIRE(l, 0);
    BP_REQUIRE(ack, 0);
    if (bp_bbr_rounds_advance(&l->rounds, ack->rate_prior_delivered, ack->delivered_total)) {
        if (l->bbr.mode == BP_BBR1_PROBE_BW)
            bp_kalman_update(&l->bw, l->round_bw);
        l->round_bw = 0;
    }
    bw = ack->rate_prior_delivered == BP_NONE ? 0 : bp_bw_of(ack->rate_delivered, ack->rate_interval, l->bbr.mss);
    if (!bw)
        return 0;
    l->round_bw = bp_max(l->round_bw, bw);
    if (ack->rtt != BP_NONE && l->bbr.mode == BP_BBR1_PROBE_RTT && l->rtt.value > bp_add_sat(ack->rtt, l->rtt_fall) / BP_NS_PER_US)
        l->first_bw = l->latest_bw;
    l->latest_bw = bw;
    return 0;
}

/* Sets minimum RTT and bandwidth of the new path at the end of PROBE_RTT. */
BP_INLINE void bp_leocc_finish_probe_rtt(struct bp_leocc *l, const struct bp_ack *ack)
{
    if (ack->rtt != BP_NONE) {
        l->bbr.min_rtt.value = ack->rtt;
        l->bbr.min_rtt.stamp = ack->now;
    }
    if (l->triggered)
        bp_bbr1_restart(&l->bbr, l->first_bw);
}

/* Uses the filtered bandwidth and a gentle probe where there is a queue. */
BP_INLINE void bp_leocc_set_variant(struct bp_leocc *l)
{
    u64 min_rtt = l->bbr.min_rtt.value;
    int has_queue = min_rtt != BP_NONE && l->rtt.value >= bp_add_sat(min_rtt, l->fluctuation) / BP_NS_PER_US;
    int is_filtered = has_queue && !l->triggered && l->bbr.mode == BP_BBR1_PROBE_BW && l->bw.value;

    l->bbr.up_gain = is_filtered ? BP_LEOCC_GENTLE_UP : 0;
    l->bbr.other_bw = is_filtered ? l->bw.value : 0;
}

BP_FUNC int bp_leocc_ack(struct bp_leocc *l, const struct bp_ack *ack)
{
    int was_in_probe_rtt;

    BP_REQUIRE(l, 0);
    BP_REQUIRE(ack, 0);
    l->triggered |= bp_leocc_is_near(l, ack->now);
    bp_leocc_update_filters(l, ack);
    if (l->triggered && l->bbr.mode == BP_BBR1_PROBE_BW)
        bp_bbr1_start_probe_rtt(&l->bbr, ack->delivered_total);
    was_in_probe_rtt = l->bbr.mode == BP_BBR1_PROBE_RTT;
    bp_bbr1_ack(&l->bbr, ack);
    if (was_in_probe_rtt && l->bbr.mode != BP_BBR1_PROBE_RTT)
        bp_leocc_finish_probe_rtt(l, ack);
    if (l->bbr.full.reached && l->bbr.mode != BP_BBR1_PROBE_RTT) {
        l->triggered &= bp_leocc_is_near(l, ack->now);
        l->first_bw = 0;
    }
    if (ack->rtt != BP_NONE)
        bp_kalman_update(&l->rtt, ack->rtt / BP_NS_PER_US);
    bp_leocc_set_variant(l);
    return 0;
}

BP_INLINE void bp_leocc_established(struct bp_leocc *l, u64 now, u64 rtt) { bp_bbr1_established(&l->bbr, now, rtt); }
BP_INLINE void bp_leocc_congestion(struct bp_leocc *l, const struct bp_congestion *event) { bp_bbr1_congestion(&l->bbr, event); }
BP_INLINE void bp_leocc_acked(struct bp_leocc *l, const struct bp_ack *ack) { (void)l, (void)ack; }
BP_INLINE void bp_leocc_lost(struct bp_leocc *l, const struct bp_lost *lost) { (void)l, (void)lost; }
BP_INLINE void bp_leocc_sent(struct bp_leocc *l, const struct bp_sent *sent) { l->bbr.app_limited = sent->app_limited; }
BP_INLINE void bp_leocc_hint(struct bp_leocc *l, const struct bp_hint *hint) { bp_wall_clock_hint(&l->clock, hint); }
BP_INLINE void bp_leocc_set_cwnd(struct bp_leocc *l, u64 bytes) { bp_bbr1_set_cwnd(&l->bbr, bytes); }
BP_INLINE void bp_leocc_set_ssthresh(struct bp_leocc *l, u64 bytes) { (void)l, (void)bytes; }
BP_INLINE u64 bp_leocc_cwnd(const struct bp_leocc *l) { return l->bbr.cwnd * l->bbr.mss; }
BP_INLINE u64 bp_leocc_ssthresh(const struct bp_leocc *l) { return l->bbr.ssthresh; }
BP_INLINE u64 bp_leocc_pacing_rate(const struct bp_leocc *l) { return l->bbr.pacing_rate; }

#endif
