/* Reconfiguration monitor: the twin of crates/cc/src/leo/monitor.rs. */
#ifndef BENTPIPE_CORE_MONITOR_H
#define BENTPIPE_CORE_MONITOR_H

#include "clock.h"
#include "detector.h"
#include "schedule.h"

#define BP_MONITOR_OPTIONS(OPTION) OPTION(hints) OPTION(hint_period_s) BP_HINT_ERROR_OPTIONS(OPTION)
enum bp_monitor_option { BP_MONITOR_HINTS, BP_MONITOR_PERIOD, BP_MONITOR_OFFSET, BP_MONITOR_JITTER, BP_MONITOR_MISSING, BP_MONITOR_OPTION_COUNT };

enum bp_monitor_source { BP_MONITOR_LEARNED, BP_MONITOR_SCHEDULE, BP_MONITOR_DETECTED };

#define BP_MONITOR_REGULAR_FOR (32 * BP_NS_PER_S)
#define BP_MONITOR_NEAR_BEFORE (100 * BP_NS_PER_MS)
#define BP_MONITOR_NEAR_AFTER (350 * BP_NS_PER_MS)
#define BP_MONITOR_CONFIRMATION_WINDOW (300 * BP_NS_PER_MS)
#define BP_MONITOR_PAUSE (2 * BP_NS_PER_S)
#define BP_MONITOR_MAX_PAUSED (90 * BP_NS_PER_S)
#define BP_MONITOR_MAX_OUTCOMES 4

struct bp_monitor {
    u64 source; /* enum bp_monitor_source */
    s64 offset; /* error added to the clock's times [ns] */
    struct bp_detector detector;
    struct bp_clock clock;
    struct bp_timing shared; /* clock of the host, which the model does not have; used before `shared_until` */
    u64 shared_until;
    struct bp_schedule schedule;
    u64 last_compared;
    u64 outcomes, outcome_count;
    u64 last_detected; /* BP_NONE: none */
    u64 shown;         /* last time at which detections or the flow's own clock showed a LEO path; BP_NONE: none */
    u64 paused;        /* silences since then [ns] */
    u64 last_ack, srtt;
};

/* Reads the options from word `first` on. A changed period restarts the clock. */
BP_INLINE void bp_monitor_set_options(struct bp_monitor *m, const struct bp_options *options, u64 first)
{
    u64 period = options->word[(first + BP_MONITOR_PERIOD) % BP_MAX_OPTIONS];

    m->source = options->word[(first + BP_MONITOR_HINTS) % BP_MAX_OPTIONS];
    m->offset = (s64)options->word[(first + BP_MONITOR_OFFSET) % BP_MAX_OPTIONS];
    if (period < BP_NS_PER_S)
        period = 0;
    if (m->clock.search.fixed_period != period)
        bp_clock_init(&m->clock, period);
}

BP_INLINE void bp_monitor_init(struct bp_monitor *m, const struct bp_options *options, u64 first)
{
    bp_detector_init(&m->detector);
    bp_clock_init(&m->clock, 0);
    bp_schedule_init(&m->schedule);
    m->last_compared = m->outcomes = m->outcome_count = m->paused = m->last_ack = m->srtt = 0;
    m->last_detected = m->shown = BP_NONE;
    m->shared.period = 0;
    bp_monitor_set_options(m, options, first);
}

BP_INLINE void bp_monitor_hint(struct bp_monitor *m, const struct bp_hint *hint)
{
    if (m->source == BP_MONITOR_SCHEDULE)
        bp_schedule_hint(&m->schedule, hint);
}

/* Sets the clock that all sockets of a host share: a period (at least a second; else none), the time of one reconfiguration, and
 * the end of its validity, all on the clock of bp_ack.now. With hints=learned it says when, while the flow's own clock is not set. That a path is reconfigured
 * at all is shown by its own detections alone. */
BP_INLINE void bp_monitor_set_clock(struct bp_monitor *m, u64 period, u64 at, u64 until)
{
    m->shared.period = period < BP_NS_PER_S ? 0 : period;
    m->shared.at = at;
    m->shared_until = until;
}

/* Returns the clock in use, if there is one. */
BP_INLINE const struct bp_timing *bp_monitor_timing(const struct bp_monitor *m, u64 now)
{
    if (bp_clock_is_set(&m->clock))
        return &m->clock.best;
    return m->shared.period && now < m->shared_until ? &m->shared : 0;
}

/* Compares the last announcement that is over with the detections. */
BP_INLINE void bp_monitor_compare(struct bp_monitor *m, u64 now)
{
    u64 over = BP_MONITOR_CONFIRMATION_WINDOW + 2 * m->srtt, at, hit;

    if (!m->schedule.count)
        return;
    at = bp_schedule_last(&m->schedule, bp_sub_sat(now, over), 0);
    if (at == BP_NONE || at <= m->last_compared)
        return;
    m->last_compared = at;
    hit = m->last_detected != BP_NONE && m->last_detected >= bp_sub_sat(at, BP_MONITOR_CONFIRMATION_WINDOW) &&
          bp_sub_sat(m->last_detected, at) <= over;
    m->outcome_count = bp_min(m->outcome_count + 1, BP_MONITOR_MAX_OUTCOMES);
    m->outcomes = (m->outcomes << 1 | hit) & ((1 << BP_MONITOR_MAX_OUTCOMES) - 1);
}

/* Processes an ACK; returns whether it shows a reconfiguration. */
BP_FUNC int bp_monitor_ack(struct bp_monitor *m, const struct bp_ack *ack)
{
    u64 at, silence;

    BP_REQUIRE(m, 0);
    BP_REQUIRE(ack, 0);
    silence = bp_sub_sat(ack->now, m->last_ack);
    if (m->last_ack && silence > BP_MONITOR_PAUSE) {
        if (m->source == BP_MONITOR_LEARNED && bp_clock_is_set(&m->clock)) {
            m->shown = m->last_ack;
            m->paused = 0;
        }
        bp_clock_reset(&m->clock);
        m->paused = bp_min(bp_add_sat(m->paused, silence), BP_MONITOR_MAX_PAUSED);
    }
    m->last_ack = ack->now;
    m->srtt = ack->srtt;
    at = bp_detector_ack(&m->detector, ack);
    if (at != BP_NONE) {
        m->last_detected = m->shown = at;
        m->paused = 0;
        bp_clock_detected(&m->clock, at);
    } else {
        bp_clock_advance(&m->clock, ack->now);
    }
    bp_monitor_compare(m, ack->now);
    return at != BP_NONE;
}

BP_INLINE int bp_monitor_is_schedule_confirmed(const struct bp_monitor *m)
{
    u64 hits = (m->outcomes & 1) + (m->outcomes >> 1 & 1) + (m->outcomes >> 2 & 1) + (m->outcomes >> 3 & 1);

    return hits * 2 >= m->outcome_count;
}

/* Returns whether the path is reconfigured regularly. */
BP_FUNC int bp_monitor_is_leo(const struct bp_monitor *m, u64 now)
{
    BP_REQUIRE(m, 0);
    if (m->shown != BP_NONE && bp_sub_sat(now, bp_add_sat(m->shown, m->paused)) < BP_MONITOR_REGULAR_FOR)
        return 1;
    switch (m->source) {
    case BP_MONITOR_LEARNED: return bp_clock_is_set(&m->clock); /* the host's clock may be that of another path */
    case BP_MONITOR_SCHEDULE:
        return bp_monitor_is_schedule_confirmed(m) && bp_schedule_last(&m->schedule, bp_add_sat(now, BP_MONITOR_REGULAR_FOR), 0) != BP_NONE;
    default: return 0;
    }
}

/* Returns the first reconfiguration that is expected after now; BP_NONE: none. */
BP_FUNC u64 bp_monitor_next_expected(const struct bp_monitor *m, u64 now)
{
    const struct bp_timing *timing;
    u64 nearest;

    BP_REQUIRE(m, BP_NONE);
    if (m->source == BP_MONITOR_SCHEDULE && bp_monitor_is_schedule_confirmed(m))
        return bp_schedule_next(&m->schedule, now);
    timing = m->source == BP_MONITOR_LEARNED ? bp_monitor_timing(m, now) : 0;
    if (!timing)
        return BP_NONE;
    nearest = bp_add_signed(bp_timing_nearest(timing, bp_add_signed(now, -m->offset)), m->offset);
    return nearest > now ? nearest : bp_add_sat(nearest, timing->period);
}

/* Returns whether a reconfiguration was just detected or is expected now. */
BP_FUNC int bp_monitor_is_near(const struct bp_monitor *m, u64 now)
{
    const struct bp_timing *timing;
    u64 span, at;

    BP_REQUIRE(m, 0);
    span = BP_MONITOR_NEAR_AFTER + m->srtt;
    if (m->last_detected != BP_NONE && bp_sub_sat(now, m->last_detected) < span)
        return 1;
    switch (m->source) {
    case BP_MONITOR_LEARNED:
        timing = bp_monitor_timing(m, now);
        if (!timing)
            return 0;
        at = bp_add_signed(bp_timing_nearest(timing, bp_add_signed(now, -m->offset)), m->offset);
        return at <= now + BP_MONITOR_NEAR_BEFORE && bp_sub_sat(now, at) < span;
    case BP_MONITOR_SCHEDULE:
        return bp_monitor_is_schedule_confirmed(m) &&
               bp_schedule_is_near(&m->schedule, now, BP_MONITOR_NEAR_BEFORE, BP_MONITOR_NEAR_BEFORE + span);
    default: return 0;
    }
}

#endif
