/* State of BBR v1 without its detection of policers, for controllers that are built on it: the twin of crates/cc/src/bbr/ with Variant::ignores_policers,
 * mod.rs, bandwidth.rs and probe_bw.rs. */
#ifndef BENTPIPE_CORE_BBR1_STATE_H
#define BENTPIPE_CORE_BBR1_STATE_H

#include "bbr_aggregation.h"
#include "window.h"

#define BP_BBR1_HIGH_GAIN (BP_UNIT * 2885 / 1000 + 1)
#define BP_BBR1_DRAIN_GAIN (BP_UNIT * 1000 / 2885)
#define BP_BBR1_CWND_GAIN (BP_UNIT * 2)
#define BP_BBR1_PHASES 8
#define BP_BBR1_RANDOM_PHASES 7
#define BP_BBR1_BANDWIDTH_ROUNDS (BP_BBR1_PHASES + 2)

enum bp_bbr1_mode { BP_BBR1_STARTUP, BP_BBR1_DRAIN, BP_BBR1_PROBE_BW, BP_BBR1_PROBE_RTT };

struct bp_bbr1 {
    u64 mss;
    u64 cwnd;     /* [packets] */
    u64 ssthresh; /* [bytes] */
    u64 pacing_rate, has_rtt;
    u64 mode;                           /* enum bp_bbr1_mode */
    u64 pacing_gain, cwnd_gain;         /* [1/256] */
    u64 min_rtt_window, probe_rtt_time; /* options [ns] */
    struct bp_filter bandwidth;         /* counts by rounds */
    struct bp_bbr_rounds rounds;
    struct bp_bbr_min_rtt min_rtt;
    struct bp_bbr_full full;
    u64 phase, phase_since;
    struct bp_bbr_probe_rtt probe_rtt;
    u64 previous_recovery, is_conserving; /* enum bp_recovery */
    u64 saved_cwnd;                       /* [packets] */
    struct bp_bbr_aggregation aggregation;
    u64 delivered_at;
    u64 idle_restart, app_limited;
    /* Variant; 0: as in BBR. */
    u64 probe_rtt_gain, up_gain; /* [1/256] */
    u64 other_bw;
    /* Packet counts of the ACK in process. */
    u64 acked, lost, in_flight, prior_in_flight;
};

/* Returns the greatest bandwidth of ten rounds. */
BP_INLINE u64 bp_bbr1_max_bw(const struct bp_bbr1 *b) { return bp_filter_get(&b->bandwidth); }
/* Returns the bandwidth to use. */
BP_INLINE u64 bp_bbr1_bw(const struct bp_bbr1 *b) { return b->other_bw ? b->other_bw : bp_bbr1_max_bw(b); }
BP_INLINE void bp_bbr1_clamp_cwnd(struct bp_bbr1 *b) { b->cwnd = bp_min(b->cwnd, BP_CLAMP_PACKETS); }

/* Returns the gain of a phase of PROBE_BW. */
BP_INLINE u64 bp_bbr1_phase_gain(u64 phase)
{
    return phase == 0 ? BP_UNIT * 5 / 4 : phase == 1 ? BP_UNIT * 3 / 4 : BP_UNIT;
}

BP_INLINE void bp_bbr1_advance_phase(struct bp_bbr1 *b)
{
    b->phase = (b->phase + 1) % BP_BBR1_PHASES;
    b->phase_since = b->delivered_at;
}

BP_INLINE void bp_bbr1_enter_probe_bw(struct bp_bbr1 *b)
{
    b->mode = BP_BBR1_PROBE_BW;
    b->phase = BP_BBR1_PHASES - 1 - bp_random_below(BP_BBR1_RANDOM_PHASES);
    bp_bbr1_advance_phase(b);
}

/* Returns the packets that the sender puts in one burst. */
BP_INLINE u64 bp_bbr1_burst(const struct bp_bbr1 *b)
{
    u64 bytes = bp_min(b->pacing_rate / 8 >> BP_BBR_PACING_SHIFT, BP_BBR_MAX_BURST_BYTES);

    return bp_min(bp_max(bytes / bp_max(b->mss, 1), bp_bbr_min_burst(b->pacing_rate)), BP_BBR_MAX_BURST);
}

/* Returns the bandwidth-delay product at `gain` [packets]. */
BP_INLINE u64 bp_bbr1_bdp(const struct bp_bbr1 *b, u64 bw, u64 gain)
{
    return bp_min(b->min_rtt.value == BP_NONE ? BP_BBR_INITIAL_CWND : bp_bw_bdp(bw, b->min_rtt.value, gain), BP_CLAMP_PACKETS);
}

/* Adds room for bursts, rounded up to even, and two packets in the phase that probes for bandwidth. */
BP_INLINE u64 bp_bbr1_with_budget(const struct bp_bbr1 *b, u64 window)
{
    u64 even = window + BP_BBR_BURSTS_IN_WINDOW * bp_bbr1_burst(b);

    even += even & 1;
    return b->mode == BP_BBR1_PROBE_BW && b->phase == 0 ? even + 2 : even;
}

/* Returns the target inflight at `gain` times the greatest bandwidth [packets]. */
BP_FUNC u64 bp_bbr1_target_inflight(const struct bp_bbr1 *b, u64 gain)
{
    BP_REQUIRE(b, 0);
    return bp_bbr1_with_budget(b, bp_bbr1_bdp(b, bp_bbr1_max_bw(b), gain));
}

/* Returns the window in PROBE_RTT [packets]. */
BP_FUNC u64 bp_bbr1_probe_rtt_window(const struct bp_bbr1 *b)
{
    BP_REQUIRE(b, 0);
    return bp_max(b->probe_rtt_gain ? bp_bbr1_bdp(b, bp_bbr1_bw(b), b->probe_rtt_gain) : 0, BP_BBR_MIN_CWND);
}

BP_INLINE int bp_bbr1_is_recovery(u64 state) { return state == BP_RECOVERY || state == BP_LOSS; }

/* Saves the window before it is reduced; if it is reduced already, keeps the greater one. */
BP_INLINE void bp_bbr1_save_cwnd(struct bp_bbr1 *b)
{
    int is_reduced = bp_bbr1_is_recovery(b->previous_recovery) || b->mode == BP_BBR1_PROBE_RTT;

    b->saved_cwnd = is_reduced ? bp_max(b->saved_cwnd, b->cwnd) : b->cwnd;
}

/* Enters PROBE_RTT now, whatever the age of the minimum RTT. */
BP_INLINE void bp_bbr1_start_probe_rtt(struct bp_bbr1 *b, u64 delivered_total)
{
    if (b->mode == BP_BBR1_PROBE_RTT)
        return;
    b->mode = BP_BBR1_PROBE_RTT;
    bp_bbr1_save_cwnd(b);
    bp_bbr_probe_rtt_enter(&b->probe_rtt, delivered_total);
}

BP_INLINE void bp_bbr1_leave_probe_rtt(struct bp_bbr1 *b, u64 now)
{
    b->min_rtt.stamp = now;
    b->cwnd = bp_max(b->cwnd, b->saved_cwnd);
    if (b->full.reached)
        bp_bbr1_enter_probe_bw(b);
    else
        b->mode = BP_BBR1_STARTUP;
}

/* Sets the gains of the current state. */
BP_INLINE void bp_bbr1_update_gains(struct bp_bbr1 *b)
{
    b->cwnd_gain = BP_BBR1_HIGH_GAIN;
    switch (b->mode) {
    case BP_BBR1_STARTUP: b->pacing_gain = BP_BBR1_HIGH_GAIN; break;
    case BP_BBR1_DRAIN: b->pacing_gain = BP_BBR1_DRAIN_GAIN; break;
    case BP_BBR1_PROBE_BW:
        b->pacing_gain = bp_bbr1_phase_gain(b->phase);
        b->cwnd_gain = BP_BBR1_CWND_GAIN;
        if (b->up_gain && b->pacing_gain > BP_UNIT)
            b->pacing_gain = b->up_gain;
        break;
    default: b->pacing_gain = b->cwnd_gain = BP_UNIT; break;
    }
}

/* Restarts in STARTUP on a new path, with this bandwidth. */
BP_INLINE void bp_bbr1_restart(struct bp_bbr1 *b, u64 bw)
{
    struct bp_bbr_full full = {0};

    b->mode = BP_BBR1_STARTUP;
    b->full = full;
    bp_filter_reset(&b->bandwidth, b->rounds.count, bw);
    bp_bbr1_update_gains(b);
}

#endif
