/* Detection of a reconfiguration from ACKs: the twin of crates/cc/src/leo/detector.rs. */
#ifndef BENTPIPE_CORE_DETECTOR_H
#define BENTPIPE_CORE_DETECTOR_H

#include "fixed.h"

#define BP_DETECTOR_MIN_STEP (35 * BP_NS_PER_MS)
#define BP_DETECTOR_MAX_SILENCE (1000 * BP_NS_PER_MS)
#define BP_DETECTOR_MIN_RISE_DIVISOR 3
#define BP_DETECTOR_MIN_INTERVAL (1000 * BP_NS_PER_MS)

struct bp_detector { /* times are BP_NONE before the first */
    u64 newest, newest_rtt;
    u64 suspected, suspected_rtt;
    u64 last;
};

BP_INLINE void bp_detector_init(struct bp_detector *d) { d->newest = d->suspected = d->last = BP_NONE; }

/* Returns the RTT of an ACK; BP_NONE if it has none or the receiver delayed it. */
BP_INLINE u64 bp_prompt_rtt(const struct bp_ack *ack) { return ack->ack_delayed ? BP_NONE : ack->rtt; }

/* Returns the start of the silence if this ACK confirms a reconfiguration; else BP_NONE. */
BP_INLINE u64 bp_detector_ack(struct bp_detector *d, const struct bp_ack *ack)
{
    u64 before = d->newest, rtt_before = d->newest_rtt, sample = bp_prompt_rtt(ack), rtt = sample, silence, rise;

    if (rtt == BP_NONE) {
        if (before == BP_NONE)
            return BP_NONE;
        rtt = rtt_before;
    }
    d->newest = ack->now;
    d->newest_rtt = rtt;
    if (d->suspected != BP_NONE && sample != BP_NONE) {
        u64 at = d->suspected;

        d->suspected = BP_NONE;
        if (rtt >= d->suspected_rtt + BP_DETECTOR_MIN_STEP) {
            d->last = at;
            return at;
        }
    }
    if (before == BP_NONE)
        return BP_NONE;
    silence = bp_sub_sat(ack->now, before);
    rise = bp_sub_sat(rtt, rtt_before);
    if (silence < BP_DETECTOR_MIN_STEP || silence > BP_DETECTOR_MAX_SILENCE || rise < BP_DETECTOR_MIN_STEP)
        return BP_NONE;
    if (bp_min(rise, BP_DETECTOR_MAX_SILENCE) * BP_DETECTOR_MIN_RISE_DIVISOR < silence)
        return BP_NONE;
    if (d->last != BP_NONE && bp_sub_sat(before, d->last) < BP_DETECTOR_MIN_INTERVAL)
        return BP_NONE;
    d->suspected = before;
    d->suspected_rtt = rtt_before;
    return BP_NONE;
}

#endif
