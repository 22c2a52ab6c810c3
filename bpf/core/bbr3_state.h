/* State of versions 2 and 3 of BBR: the twin of the structs of crates/cc/src/bbr3/, and of state.rs. BP_NONE in a bound: no bound. */
#ifndef BENTPIPE_CORE_BBR3_STATE_H
#define BENTPIPE_CORE_BBR3_STATE_H

#include "bbr3_ecn.h"
#include "bbr_aggregation.h"
#include "window.h"

enum bp_bbr3_phase {
    BP_BBR3_STARTUP,
    BP_BBR3_DRAIN,
    BP_BBR3_DOWN,
    BP_BBR3_CRUISE,
    BP_BBR3_REFILL,
    BP_BBR3_UP,
    BP_BBR3_PROBE_RTT,
    BP_BBR3_NO_PHASE
};

/* Phase that the arriving ACKs belong to. */
enum bp_bbr3_ack_phase {
    BP_BBR3_ACKS_INIT,
    BP_BBR3_ACKS_REFILLING,
    BP_BBR3_ACKS_PROBE_STARTING,
    BP_BBR3_ACKS_PROBE_FEEDBACK,
    BP_BBR3_ACKS_PROBE_STOPPING
};

/* The current ACK [packets]; bw is 0 without a valid rate. */
struct bp_bbr3_sample {
    u64 now, acked, newly_lost, in_flight, prior_in_flight;
    u64 valid, bw, delivered, prior_delivered, delivered_total, app_limited;
    u64 tx_in_flight, lost, marked;
    u64 round_start, window_full, in_recovery, open;
};

/* Greatest delivery rate of this cycle and the previous one. */
struct bp_bbr3_max_bw {
    u64 before, current;
};

/* Signals of the latest round. */
struct bp_bbr3_latest {
    u64 bw, in_flight;
    u64 round_end, round_start;
    u64 loss_in_round, loss_in_cycle;
    u64 startup_losses;
    u64 lost_end; /* BP_NONE: no loss yet */
};

struct bp_bbr3_short_term {
    u64 bw, in_flight;
};

/* Rate at which PROBE_UP raises the bound; per_packet 0: not at all. */
struct bp_bbr3_slope {
    u64 rounds, acked, per_packet;
};

/* Position in the cycle. */
struct bp_bbr3_cycle {
    u64 stamp, wait, rounds_since_probe;
    u64 ack_phase, probe_samples, too_high, precautionary;
};

/* Two nested minima of the RTT. */
struct bp_bbr3_min_rtt {
    struct bp_bbr_min_rtt probe;
    u64 value, stamp; /* [ns]; BP_NONE */
};

/* Model before the losses. */
struct bp_bbr3_undo {
    struct bp_bbr3_short_term short_term;
    u64 inflight_longterm;
    u64 phase; /* BP_BBR3_NO_PHASE: losses ended none */
    u64 saved;
};

struct bp_bbr3 {
    struct bp_bbr_params p;
    u64 mss;
    u64 cwnd, initial_cwnd, prior_cwnd; /* [packets] */
    u64 ssthresh;                       /* [bytes]; BP_NONE */
    u64 pacing_rate;                    /* [bit/s] */
    u64 has_rtt;
    u64 phase;
    struct bp_bbr_rounds rounds;
    u64 drain_start_round;
    struct bp_bbr3_max_bw max_bw;
    struct bp_bbr3_latest latest;
    struct bp_bbr3_short_term short_term;
    u64 inflight_longterm;
    struct bp_bbr3_slope slope;
    struct bp_bbr3_cycle cycle;
    struct bp_bbr3_min_rtt min_rtt;
    struct bp_bbr_probe_rtt probe_rtt;
    struct bp_bbr_full full;
    struct bp_bbr_aggregation aggregation;
    struct bp_bbr3_undo undo;
    u64 resumes_probe;
    u64 previous; /* enum bp_recovery at the last ACK */
    u64 delivered_total, delivered_at;
    u64 idle_restart, app_limited, ignores_losses;
    struct bp_bbr3_sample sample;
    struct bp_bbr_ecn ecn;
};

BP_INLINE int bp_bbr3_is_draft(const struct bp_bbr3 *b) { return b->p.rules == BP_BBR_DRAFT; }
BP_INLINE int bp_bbr3_is_linux2(const struct bp_bbr3 *b) { return b->p.rules == BP_BBR_LINUX2; }
BP_INLINE int bp_bbr3_is_probe_bw(const struct bp_bbr3 *b) { return b->phase >= BP_BBR3_DOWN && b->phase <= BP_BBR3_UP; }

/* Returns whether it probes for more bandwidth. */
BP_INLINE int bp_bbr3_is_probing(const struct bp_bbr3 *b)
{
    return b->phase == BP_BBR3_STARTUP || b->phase == BP_BBR3_REFILL || b->phase == BP_BBR3_UP;
}

BP_INLINE u64 bp_bbr3_pacing_gain(const struct bp_bbr3 *b)
{
    switch (b->phase) {
    case BP_BBR3_STARTUP: return b->p.startup_pacing_gain;
    case BP_BBR3_DRAIN: return b->p.drain_gain;
    case BP_BBR3_DOWN: return b->p.down_gain;
    case BP_BBR3_UP: return b->p.up_gain;
    case BP_BBR3_CRUISE: return b->p.cruise_gain;
    case BP_BBR3_REFILL: return b->p.refill_gain;
    default: return BP_UNIT;
    }
}

BP_INLINE u64 bp_bbr3_cwnd_gain(const struct bp_bbr3 *b)
{
    switch (b->phase) {
    case BP_BBR3_STARTUP:
    case BP_BBR3_DRAIN: return b->p.startup_cwnd_gain;
    case BP_BBR3_UP: return b->p.up_cwnd_gain;
    case BP_BBR3_PROBE_RTT: return b->p.probe_rtt_cwnd_gain;
    default: return b->p.cwnd_gain;
    }
}

BP_INLINE u64 bp_bbr3_max_bw(const struct bp_bbr3 *b) { return bp_max(b->max_bw.before, b->max_bw.current); }

/* Returns the bandwidth within the short-term bound. */
BP_INLINE u64 bp_bbr3_bw(const struct bp_bbr3 *b) { return bp_min(bp_bbr3_max_bw(b), b->short_term.bw); }

BP_INLINE void bp_bbr3_reset_short_term(struct bp_bbr3 *b) { b->short_term.bw = b->short_term.in_flight = BP_NONE; }

BP_INLINE void bp_bbr3_min_rtt_init(struct bp_bbr3 *b, u64 now)
{
    bp_bbr_min_rtt_init(&b->min_rtt.probe, now);
    b->min_rtt.value = BP_NONE;
    b->min_rtt.stamp = now;
}

/* Processes an ACK; returns whether it is time to probe for a lower RTT. */
BP_INLINE int bp_bbr3_min_rtt_ack(struct bp_bbr3 *b, u64 now, u64 rtt, u64 ack_delayed)
{
    struct bp_bbr3_min_rtt *m = &b->min_rtt;
    int is_draft = bp_bbr3_is_draft(b);
    int expired = bp_bbr_min_rtt_ack(&m->probe, b->p.probe_rtt_window, now, rtt, ack_delayed && !is_draft);

    if (bp_bbr3_is_linux2(b) && rtt != BP_NONE && rtt / BP_NS_PER_US == m->probe.value / BP_NS_PER_US)
        m->probe.stamp = now;
    if (m->probe.value != BP_NONE
        && (m->probe.value < m->value || (!is_draft && m->probe.value == m->value) || now > bp_add_sat(m->stamp, b->p.min_rtt_window))) {
        m->value = m->probe.value;
        m->stamp = m->probe.stamp;
    }
    return expired;
}

BP_INLINE void bp_bbr3_reset_signals(struct bp_bbr3 *b)
{
    b->latest.loss_in_round = b->latest.loss_in_cycle = 0;
    b->latest.bw = b->latest.in_flight = 0;
    b->ecn.in_round = b->ecn.in_cycle = 0;
}

/* Saves the phase that losses ended. Linux does not return to it. */
BP_INLINE void bp_bbr3_save_phase(struct bp_bbr3 *b, u64 phase)
{
    if (bp_bbr3_is_draft(b))
        b->undo.phase = phase;
}

#endif
