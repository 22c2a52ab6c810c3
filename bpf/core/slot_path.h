/* Model of the path since the last reconfiguration: the twin of crates/cc/src/leo/path.rs. */
#ifndef BENTPIPE_CORE_SLOT_PATH_H
#define BENTPIPE_CORE_SLOT_PATH_H

#include "bbr_parts.h"
#include "detector.h"
#include "filter.h"
#include "logarithm.h"

#define BP_PATH_SETTLING_TIME (1000 * BP_NS_PER_MS)
#define BP_PATH_MAX_EPISODE (400 * BP_NS_PER_MS)
#define BP_PATH_MAX_EPISODE_ROUNDS 3
#define BP_PATH_BETA (BP_UNIT * 7 / 10)
#define BP_PATH_SCALE_STEP (BP_UNIT / 16)
#define BP_PATH_MIN_SCALE (BP_UNIT / 8)
#define BP_PATH_EMPTY_SHIFT 3
#define BP_PATH_GROWTH (BP_UNIT * 5 / 4)
#define BP_PATH_CROSS_TRAFFIC_AFTER (1500 * BP_NS_PER_MS)
#define BP_PATH_STALE_AFTER (1000 * BP_NS_PER_MS)
#define BP_PATH_STALE_ROUNDS 6
#define BP_PATH_STALE_SCALE (BP_UNIT * 3 / 4)
#define BP_PATH_PEAK_SHIFT 8
#define BP_PATH_MAX_FALL 16ULL
#define BP_PATH_ROOT_SHIFT 20
#define BP_PATH_JITTER_SPAN (100 * BP_NS_PER_MS)
#define BP_PATH_JITTER_SHIFT 4

/* Target queue delay. */
struct bp_target {
    u64 min;          /* [ns] */
    u64 jitter_gain;  /* [1/256] */
    u64 rtt_fraction; /* [1/256] */
};

/* Variation of the RTT while the queue is about the same. */
struct bp_jitter {
    u64 start, min, sum, count;
    u64 mean; /* BP_NONE: not measured */
};

/* RTTs and times are BP_NONE if there is none. */
struct bp_path {
    u64 mss;
    struct bp_target target;
    struct bp_jitter jitter;
    struct bp_bbr_rounds rounds;
    struct bp_filter bw; /* 0: none */
    u64 peak, peak_at;
    u64 fall_root; /* square root of the fall of the bandwidth from its peak [2^-20] */
    u64 ignored_before; /* RTTs of packets that were sent before do not count */
    u64 slot_start, min_rtt, previous_base_rtt;
    u64 round_min_rtt, last_round_min_rtt;
    u64 round_start_delivered, round_start_lost;
    u64 lossy_since, lossy_rounds;
    u64 scale, growth; /* [1/256] */
    u64 queued_since;
    u64 standing_since, standing_rounds, standing_limit;
};

/* Sets what options may change. */
BP_INLINE void bp_path_set_target(struct bp_path *p, const struct bp_target *target, u64 bw_rounds)
{
    p->target = *target;
    p->bw.window = bw_rounds;
}

BP_INLINE void bp_path_init(struct bp_path *p, u64 mss)
{
    struct bp_path fresh = {
        .mss = mss,
        .jitter = {.min = BP_MAX, .mean = BP_NONE},
        .fall_root = 1ULL << BP_PATH_ROOT_SHIFT,
        .min_rtt = BP_NONE,
        .previous_base_rtt = BP_NONE,
        .round_min_rtt = BP_NONE,
        .last_round_min_rtt = BP_NONE,
        .lossy_since = BP_NONE,
        .scale = BP_UNIT,
        .growth = BP_UNIT,
        .queued_since = BP_NONE,
        .standing_since = BP_NONE,
    };

    *p = fresh;
}

BP_INLINE void bp_jitter_rtt(struct bp_jitter *j, u64 now, u64 rtt)
{
    if (bp_sub_sat(now, j->start) >= BP_PATH_JITTER_SPAN) {
        if (j->count > 1) {
            u64 above = bp_sub_sat(j->sum / j->count, j->min);

            j->mean = j->mean == BP_NONE ? above : j->mean - (j->mean >> BP_PATH_JITTER_SHIFT) + (above >> BP_PATH_JITTER_SHIFT);
        }
        j->start = now;
        j->min = BP_MAX;
        j->sum = j->count = 0;
    }
    j->min = bp_min(j->min, rtt);
    j->sum = bp_add_sat(j->sum, rtt);
    j->count++;
}

/* Returns the bandwidth; 0: none. */
BP_INLINE u64 bp_path_bw(const struct bp_path *p) { return bp_filter_get(&p->bw); }

/* Returns the base RTT. */
BP_INLINE u64 bp_path_base_rtt(const struct bp_path *p, u64 now)
{
    if (p->min_rtt == BP_NONE)
        return p->previous_base_rtt;
    return bp_sub_sat(now, p->slot_start) < BP_PATH_SETTLING_TIME ? bp_min(p->min_rtt, p->previous_base_rtt) : p->min_rtt;
}

/* Returns the target queue delay. */
BP_INLINE u64 bp_path_target_queue(const struct bp_path *p, u64 base_rtt)
{
    u64 jitter = p->jitter.mean == BP_NONE ? 0 : p->jitter.mean;
    u64 queue = p->target.min + bp_mul_shift(jitter, p->target.jitter_gain, BP_UNIT_SHIFT);

    return bp_max(bp_mul_shift(queue, p->fall_root, BP_PATH_ROOT_SHIFT), bp_mul_shift(base_rtt, p->target.rtt_fraction, BP_UNIT_SHIFT));
}

/* Returns the RTT with the target queue; BP_NONE: not known. */
BP_INLINE u64 bp_path_queued_rtt(const struct bp_path *p, u64 now)
{
    u64 base = bp_path_base_rtt(p, now);

    return base == BP_NONE ? BP_NONE : base + bp_path_target_queue(p, base);
}

BP_FUNC int bp_path_update_fall(struct bp_path *p)
{
    u64 bw;

    BP_REQUIRE(p, 0);
    bw = bp_max(bp_path_bw(p), 1);
    if (p->peak <= bw)
        p->fall_root = 1ULL << BP_PATH_ROOT_SHIFT;
    else if (p->peak / bw >= BP_PATH_MAX_FALL)
        p->fall_root = 4ULL << BP_PATH_ROOT_SHIFT;
    else
        p->fall_root = bp_isqrt(bp_mul_div(p->peak, 1ULL << (2 * BP_PATH_ROOT_SHIFT), bw));
    return 0;
}

/* Returns the packets that may be in flight; BP_NONE without a model. */
BP_FUNC u64 bp_path_inflight_limit(const struct bp_path *p, u64 now)
{
    u64 base, bw, full;

    BP_REQUIRE(p, BP_NONE);
    base = bp_path_base_rtt(p, now);
    bw = bp_path_bw(p);
    if (base == BP_NONE || !bw)
        return BP_NONE;
    full = bp_bw_bdp(bw, base + bp_path_target_queue(p, base), p->growth);
    return bp_max(bp_mul_shift(full, p->scale, BP_UNIT_SHIFT), BP_BBR_MIN_CWND);
}

BP_INLINE int bp_path_has_queue(const struct bp_path *p, u64 now)
{
    u64 rtt = bp_min(p->last_round_min_rtt, p->round_min_rtt), base = bp_path_base_rtt(p, now);

    return base == BP_NONE || (rtt != BP_NONE && rtt > base + bp_path_target_queue(p, base));
}

/* Returns whether a packet with this RTT met more than twice the target queue. */
BP_INLINE int bp_path_has_deep_queue(const struct bp_path *p, u64 now, u64 rtt)
{
    u64 base = bp_path_base_rtt(p, now);

    return base != BP_NONE && rtt > base + 2 * bp_path_target_queue(p, base);
}

BP_INLINE int bp_path_has_lasting_losses(const struct bp_path *p, u64 now)
{
    return p->lossy_rounds >= BP_PATH_MAX_EPISODE_ROUNDS && p->lossy_since != BP_NONE &&
           bp_sub_sat(now, p->lossy_since) > BP_PATH_MAX_EPISODE;
}

/* Returns whether losses now are not congestion. */
BP_FUNC int bp_path_ignores_losses(const struct bp_path *p, u64 now)
{
    BP_REQUIRE(p, 0);
    return !bp_path_has_queue(p, now) && !bp_path_has_lasting_losses(p, now);
}

/* Returns whether cross traffic fills the queue. */
BP_INLINE int bp_path_has_cross_traffic(const struct bp_path *p, u64 now)
{
    return p->queued_since != BP_NONE && bp_sub_sat(now, p->queued_since) > BP_PATH_CROSS_TRAFFIC_AFTER;
}

/* Returns whether a reconfiguration must have happened that was not detected. */
BP_INLINE int bp_path_is_stale(const struct bp_path *p, u64 now)
{
    u64 limit;

    if (p->standing_since == BP_NONE || bp_sub_sat(now, p->standing_since) <= BP_PATH_STALE_AFTER)
        return 0;
    if (p->standing_rounds <= BP_PATH_STALE_ROUNDS)
        return 0;
    limit = bp_path_inflight_limit(p, now);
    return limit != BP_NONE && !bp_wide_less(bp_wide_mul(p->standing_limit, BP_PATH_STALE_SCALE), bp_wide_mul(limit, BP_UNIT));
}

BP_INLINE void bp_path_reconfiguration(struct bp_path *p, u64 now)
{
    p->previous_base_rtt = bp_path_base_rtt(p, now);
    p->min_rtt = BP_NONE;
    p->slot_start = now;
    p->queued_since = BP_NONE;
    p->standing_since = BP_NONE;
}

BP_INLINE void bp_path_update_standing(struct bp_path *p, u64 now)
{
    u64 base = bp_path_base_rtt(p, now), limit = bp_path_inflight_limit(p, now), rtt = p->last_round_min_rtt;

    if (limit == BP_NONE || rtt == BP_NONE || rtt <= base + bp_path_target_queue(p, base)) {
        p->standing_since = BP_NONE;
        return;
    }
    if (p->standing_since == BP_NONE) {
        p->standing_since = now;
        p->standing_rounds = 0;
        p->standing_limit = limit;
    }
    p->standing_rounds++;
}

BP_FUNC int bp_path_round(struct bp_path *p, const struct bp_ack *ack, u64 is_near, u64 threshold)
{
    u64 now, delivered, lost, base;
    int lossy;

    BP_REQUIRE(p, 0);
    BP_REQUIRE(ack, 0);
    now = ack->now;
    delivered = bp_sub_sat(ack->delivered_total, p->round_start_delivered);
    lost = bp_sub_sat(ack->lost_total, p->round_start_lost);
    p->round_start_delivered = ack->delivered_total;
    p->round_start_lost = ack->lost_total;
    p->last_round_min_rtt = p->round_min_rtt;
    p->round_min_rtt = BP_NONE;
    lossy = bp_wide_less(bp_wide_mul(delivered + lost, threshold), bp_wide_mul(lost, BP_UNIT));
    if (lossy) {
        p->lossy_rounds++;
        if (p->lossy_since == BP_NONE)
            p->lossy_since = now;
    } else {
        p->lossy_rounds = 0;
        p->lossy_since = BP_NONE;
    }
    if (!lossy)
        p->scale = bp_min(p->scale + BP_PATH_SCALE_STEP, BP_UNIT);
    else if (!is_near && (bp_path_has_queue(p, now) || bp_path_has_lasting_losses(p, now)))
        p->scale = bp_max((p->scale * BP_PATH_BETA) >> BP_UNIT_SHIFT, BP_PATH_MIN_SCALE);
    base = bp_path_base_rtt(p, now);
    if (p->last_round_min_rtt != BP_NONE && base != BP_NONE && p->last_round_min_rtt <= base + (bp_path_target_queue(p, base) >> BP_PATH_EMPTY_SHIFT))
        p->growth = BP_PATH_GROWTH;
    else
        p->growth = BP_UNIT;
    if (p->last_round_min_rtt == BP_NONE || base == BP_NONE ||
        p->last_round_min_rtt <= base + 2 * bp_path_target_queue(p, base) + p->target.min)
        p->queued_since = BP_NONE;
    else if (p->queued_since == BP_NONE)
        p->queued_since = now;
    bp_path_update_standing(p, now);
    return 0;
}

BP_INLINE void bp_path_rate_sample(struct bp_path *p, const struct bp_ack *ack)
{
    u64 bw;

    if (ack->rate_prior_delivered == BP_NONE)
        return;
    bw = bp_bw_of(ack->rate_delivered, ack->rate_interval, p->mss);
    if (!bw)
        return;
    if (!bp_path_bw(p))
        bp_filter_reset(&p->bw, p->rounds.count, bw);
    else if (!ack->rate_app_limited || bw >= bp_path_bw(p))
        bp_filter_update(&p->bw, p->rounds.count, bw);
}

/* Processes an ACK. is_near: losses now are due to a reconfiguration; threshold: share of a round's packets that must be lost to count [1/256]. */
BP_FUNC int bp_path_ack(struct bp_path *p, const struct bp_ack *ack, u64 is_near, u64 threshold)
{
    u64 rtt, round;

    BP_REQUIRE(p, 0);
    BP_REQUIRE(ack, 0);
    rtt = bp_prompt_rtt(ack);
    if (rtt != BP_NONE && rtt <= bp_sub_sat(ack->now, p->ignored_before)) {
        p->min_rtt = bp_min(p->min_rtt, rtt);
        p->round_min_rtt = bp_min(p->round_min_rtt, rtt);
        bp_jitter_rtt(&p->jitter, ack->now, rtt);
    }
    round = bp_bbr_rounds_advance(&p->rounds, ack->rate_prior_delivered, ack->delivered_total);
    bp_path_rate_sample(p, ack);
    if (bp_sub_sat(ack->now, p->peak_at) >= BP_PATH_JITTER_SPAN) {
        p->peak = bp_max(p->peak - (p->peak >> BP_PATH_PEAK_SHIFT), bp_path_bw(p));
        p->peak_at = ack->now;
    }
    bp_path_update_fall(p);
    if (round)
        bp_path_round(p, ack, is_near, threshold);
    return 0;
}

#endif
