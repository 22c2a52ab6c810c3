/* Search of the clock: the twin of crates/cc/src/leo/search.rs.
 *
 * Of 16 detections in 240 s, two suggest at most 3700 candidates (period, anchor). A candidate takes 2 divisions, and 16 more unless it is skipped because even 16 hits
 * would be no better than the best so far: 5600 divisions (60 us in a kernel) for a clock of 15 s, 36,000 (120 us) for random detections, 46,000 (0.5 ms) for two
 * groups of eight 225 s apart. That is once per detection or missed reconfiguration. The verifier checks 45,000 instructions for all parts of a LEO-aware controller. */
#ifndef BENTPIPE_CORE_SEARCH_H
#define BENTPIPE_CORE_SEARCH_H

#include "logarithm.h"

#define BP_CLOCK_CAPACITY 16
#define BP_CLOCK_MAX_AGE (240 * BP_NS_PER_S)
#define BP_CLOCK_TOLERANCE (150 * BP_NS_PER_MS)
#define BP_CLOCK_DETECTION_RATE (BP_ONE * 9 / 10)
#define BP_CLOCK_PUBLISHED_PERIOD (15 * BP_NS_PER_S)
#define BP_CLOCK_MIN_PERIOD (4 * BP_NS_PER_S)
#define BP_CLOCK_MAX_PERIOD (60 * BP_NS_PER_S)
#define BP_CLOCK_MAX_SLOTS 60 /* MAX_AGE / MIN_PERIOD */
#define BP_CLOCK_PRIOR_PUBLISHED (-(s64)(BP_ONE * 11 / 10))
#define BP_CLOCK_PRIOR_OTHER (-(s64)(BP_ONE * 46 / 10))
#define BP_CLOCK_MIN_LOG_ODDS ((s64)(BP_ONE * 22 / 10))
#define BP_CLOCK_ANCHOR_SLOT 256ULL

/* Logarithms of the odds [2^-32]; hits that the fit uses up. */
struct bp_odds {
    s64 prior;
    u64 fitted, hit, miss;
};

/* Ages of the detections, the oldest first, and the best line through them. */
struct bp_search {
    u64 age[BP_CLOCK_CAPACITY], count;
    u64 fixed_period; /* 0: any */
    struct bp_odds known, other;
    u64 has_best, period, anchor; /* the anchor's age */
    s64 log_odds, slope, intercept;
    u64 hits, last_slot; /* of the candidate */
};

BP_INLINE u64 bp_positive(s64 value) { return value < 0 ? 0 : (u64)value; }

/* Returns value / divisor, rounded to zero. */
BP_INLINE s64 bp_div_signed(s64 value, u64 divisor) { return value < 0 ? -(s64)(-(u64)value / divisor) : (s64)((u64)value / divisor); }

BP_INLINE u64 bp_add_signed(u64 value, s64 by) { return by < 0 ? bp_sub_sat(value, -(u64)by) : bp_add_sat(value, (u64)by); }

BP_FUNC int bp_odds_set(struct bp_odds *odds, u64 is_known, u64 count, u64 span)
{
    u64 expected, p;

    BP_REQUIRE(odds, 0);
    expected = bp_mul_div(count * 2 * BP_CLOCK_TOLERANCE, BP_ONE, bp_max(span, 1));
    p = bp_min(BP_ONE - bp_exp_of_minus(expected), BP_CLOCK_DETECTION_RATE);
    odds->prior = is_known ? BP_CLOCK_PRIOR_PUBLISHED : BP_CLOCK_PRIOR_OTHER;
    odds->fitted = is_known ? 1 : 2;
    odds->hit = bp_positive(bp_ln(BP_CLOCK_DETECTION_RATE) - bp_ln(p));
    odds->miss = bp_positive(bp_ln(BP_ONE - p) - bp_ln(BP_ONE - BP_CLOCK_DETECTION_RATE));
    return 0;
}

BP_INLINE s64 bp_odds_of(const struct bp_odds *odds, u64 hits, u64 slots)
{
    return odds->prior + (s64)(bp_sub_sat(hits, odds->fitted) * odds->hit) - (s64)(bp_sub_sat(slots, hits) * odds->miss);
}

BP_INLINE u64 bp_search_known_period(const struct bp_search *s) { return s->fixed_period ? s->fixed_period : BP_CLOCK_PUBLISHED_PERIOD; }

/* Returns the time of an event since slot 0 began. */
BP_INLINE u64 bp_search_place(u64 age, u64 period, u64 anchor) { return anchor + period / 2 + BP_CLOCK_ANCHOR_SLOT * period - age; }

BP_INLINE int bp_search_is_hit(u64 since, u64 period)
{
    return since + BP_CLOCK_TOLERANCE >= period / 2 && since <= period / 2 + BP_CLOCK_TOLERANCE;
}

/* Returns the slot of detection n if it is a hit, the first in its slot; else 0. Counts the hits from detection 0 on. A function by itself, which counts in memory: the
 * verifier need not follow every combination of hits. */
BP_FUNC u64 bp_search_hit(struct bp_search *s, u64 n, u64 period, u64 anchor)
{
    u64 place, slot;

    BP_REQUIRE(s, 0);
    if (!period)
        return 0;
    if (!n)
        s->hits = s->last_slot = 0;
    place = bp_search_place(s->age[n % BP_CLOCK_CAPACITY], period, anchor);
    slot = place / period;
    if (slot == s->last_slot || !bp_search_is_hit(place % period, period))
        return 0;
    s->hits++;
    s->last_slot = slot;
    return slot;
}

BP_INLINE int bp_search_is_better(const struct bp_search *s, s64 log_odds) { return !s->has_best || log_odds > s->log_odds; }

BP_FUNC int bp_search_consider(struct bp_search *s, u64 period, u64 anchor)
{
    const struct bp_odds *odds;
    u64 place, begin, end, n;
    s64 log_odds;

    BP_REQUIRE(s, 0);
    if (!period)
        return 0;
    odds = s->fixed_period || period == BP_CLOCK_PUBLISHED_PERIOD ? &s->known : &s->other;
    place = bp_search_place(s->age[0], period, anchor);
    begin = place / period + (place % period > period / 2 + BP_CLOCK_TOLERANCE);
    place = bp_search_place(2 * BP_CLOCK_TOLERANCE, period, anchor);
    end = bp_max(place / period + 1 - (place % period < period / 2), BP_CLOCK_ANCHOR_SLOT + 1);
    if (!bp_search_is_better(s, bp_odds_of(odds, s->count, bp_sub_sat(end, begin))))
        return 0;
    for (n = 0; n < BP_CLOCK_CAPACITY && n < s->count; n++)
        bp_search_hit(s, n, period, anchor);
    log_odds = bp_odds_of(odds, s->hits, bp_sub_sat(bp_max(end, s->last_slot + 1), begin));
    if (bp_search_is_better(s, log_odds)) {
        s->has_best = 1;
        s->period = period;
        s->anchor = anchor;
        s->log_odds = log_odds;
    }
    return 0;
}

/* Considers the periods that a detection and an earlier one suggest. */
BP_FUNC int bp_search_pair(struct bp_search *s, u64 index, u64 before)
{
    u64 anchor, gap, slots, n;

    BP_REQUIRE(s, 0);
    anchor = s->age[index % BP_CLOCK_CAPACITY];
    gap = bp_sub_sat(s->age[before % BP_CLOCK_CAPACITY], anchor);
    slots = bp_max(gap / BP_CLOCK_MAX_PERIOD, 1);
    for (n = 0; n < BP_CLOCK_MAX_SLOTS; n++) {
        u64 period;

        if (slots > gap / BP_CLOCK_MIN_PERIOD)
            break;
        period = gap / slots;
        if (period >= BP_CLOCK_MIN_PERIOD && period <= BP_CLOCK_MAX_PERIOD)
            bp_search_consider(s, period, anchor);
        slots++;
    }
    return 0;
}

/* Fits the line to the errors of the hits. */
BP_FUNC int bp_search_fit(struct bp_search *s)
{
    s64 n, sum_k = 0, sum_kk = 0, sum_e = 0, sum_ke = 0;
    u64 spread, period, i;

    BP_REQUIRE(s, 0);
    period = s->period;
    for (i = 0; i < BP_CLOCK_CAPACITY && i < s->count; i++) {
        u64 slot = bp_search_hit(s, i, period, s->anchor);
        s64 k = (s64)slot - (s64)BP_CLOCK_ANCHOR_SLOT, e;

        if (!slot)
            continue;
        e = (s64)(bp_search_place(s->age[i], period, s->anchor) - slot * period) - (s64)(period / 2);
        sum_k += k;
        sum_kk += k * k;
        sum_e += e;
        sum_ke += k * e;
    }
    n = (s64)s->hits;
    spread = (u64)(n * sum_kk - sum_k * sum_k);
    s->slope = spread ? bp_div_signed(n * sum_ke - sum_k * sum_e, spread) : 0;
    s->intercept = spread ? bp_div_signed(sum_e * sum_kk - sum_k * sum_ke, spread) : bp_div_signed(sum_e, bp_max(s->hits, 1));
    return 0;
}

/* Finds the best line through the ages; leaves has_best 0 without detections. */
BP_INLINE void bp_search_run(struct bp_search *s)
{
    u64 index, before;

    s->has_best = 0;
    bp_odds_set(&s->known, 1, s->count, bp_max(s->age[0], bp_search_known_period(s)));
    bp_odds_set(&s->other, 0, s->count, s->age[0]);
    for (index = 0; index < BP_CLOCK_CAPACITY && index < s->count; index++) {
        bp_search_consider(s, bp_search_known_period(s), s->age[index]);
        for (before = 0; before < index; before++)
            if (!s->fixed_period)
                bp_search_pair(s, index, before);
    }
    if (s->has_best)
        bp_search_fit(s);
}

#endif
