/* Undo of spurious losses, time-outs, tail losses: the twin of crates/cc/src/bbr3/undo.rs. */
#ifndef BENTPIPE_CORE_BBR3_UNDO_H
#define BENTPIPE_CORE_BBR3_UNDO_H

#include "bbr3_signals.h"

/* Saves the model at the start of a loss episode. */
BP_INLINE void bp_bbr3_save_model(struct bp_bbr3 *b)
{
    if (b->undo.saved && bp_bbr3_is_draft(b))
        return;
    b->undo.short_term = b->short_term;
    b->undo.inflight_longterm = b->inflight_longterm;
    b->undo.phase = BP_BBR3_NO_PHASE;
    b->undo.saved = 1;
}

BP_INLINE void bp_bbr3_end_episode(struct bp_bbr3 *b) { b->undo.saved = 0; }

/* Restores the model after spurious losses. The looser of two bounds is the greater one: none is BP_NONE. */
BP_INLINE void bp_bbr3_undo(struct bp_bbr3 *b)
{
    b->cwnd = bp_max(b->cwnd, b->prior_cwnd);
    b->latest.loss_in_round = 0;
    bp_bbr_full_restart(&b->full, 0);
    b->short_term.bw = bp_max(b->short_term.bw, b->undo.short_term.bw);
    b->short_term.in_flight = bp_max(b->short_term.in_flight, b->undo.short_term.in_flight);
    b->inflight_longterm = bp_max(b->inflight_longterm, b->undo.inflight_longterm);
    if (b->undo.phase == BP_BBR3_STARTUP && b->phase != BP_BBR3_STARTUP) {
        bp_bbr_full_set_never(&b->full);
        if (b->phase != BP_BBR3_PROBE_RTT)
            b->phase = BP_BBR3_STARTUP;
    } else if (b->undo.phase == BP_BBR3_UP && (b->phase == BP_BBR3_DOWN || b->phase == BP_BBR3_CRUISE)) {
        bp_bbr3_start_refill(b, b->delivered_total, 0);
        b->resumes_probe = 1;
    }
    bp_bbr3_end_episode(b);
    b->undo.phase = BP_BBR3_NO_PHASE;
}

/* Reduces the window after a time-out to the remaining packets and one. */
BP_INLINE void bp_bbr3_timeout(struct bp_bbr3 *b, u64 in_flight)
{
    b->previous = BP_LOSS;
    if (!bp_bbr3_is_draft(b))
        bp_bbr_full_restart(&b->full, 0);
    if (!bp_bbr3_is_probing(b) && b->short_term.in_flight == BP_NONE)
        b->short_term.in_flight = bp_max(b->cwnd, b->prior_cwnd);
    b->cwnd = bp_min(bp_add_sat(in_flight, 1), BP_CLAMP_PACKETS);
}

/* Saves the window, to restore it later. */
BP_INLINE void bp_bbr3_save_cwnd(struct bp_bbr3 *b)
{
    int reduced = b->previous == BP_RECOVERY || b->previous == BP_LOSS || b->phase == BP_BBR3_PROBE_RTT;

    b->prior_cwnd = reduced ? bp_max(b->prior_cwnd, b->cwnd) : b->cwnd;
}

/* Returns whether the window is restored at the end of this state of the sender. */
BP_INLINE int bp_bbr3_restores_after(const struct bp_bbr3 *b, u64 recovery)
{
    return recovery == BP_LOSS || (recovery == BP_RECOVERY && bp_bbr3_is_draft(b));
}

BP_INLINE void bp_bbr3_leave_recovery(struct bp_bbr3 *b, u64 recovery)
{
    if (bp_bbr3_restores_after(b, b->previous) && !bp_bbr3_restores_after(b, recovery))
        b->cwnd = bp_max(b->cwnd, b->prior_cwnd);
}

/* Processes a loss that a tail loss probe repaired. */
BP_INLINE void bp_bbr3_tail_loss(struct bp_bbr3 *b, u64 now)
{
    u64 in_flight;

    if (!b->p.tail_loss_counts)
        return;
    bp_bbr3_note_loss(&b->latest, b->delivered_total);
    in_flight = b->latest.in_flight + 1;
    if (b->cycle.probe_samples && bp_bbr3_is_lossy(b, 1, in_flight))
        bp_bbr3_inflight_too_high(b, now, in_flight, b->app_limited, b->delivered_total);
}

#endif
