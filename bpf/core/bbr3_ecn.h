/* ECN marks: the twin of crates/cc/src/bbr3/ecn.rs. */
#ifndef BENTPIPE_CORE_BBR3_ECN_H
#define BENTPIPE_CORE_BBR3_ECN_H

#include "bbr_params.h"

#define BP_BBR_ECN_REPORTS 128 /* a power of two */

/* Marks before a group of new marks, and the bytes delivered when it was reported. */
struct bp_bbr_ecn_report {
    u64 delivered, marks;
};

struct bp_bbr_ecn {
    u64 eligible;
    u64 alpha; /* average share of marks [1/256] */
    u64 last_delivered, last_marks;
    u64 marks;
    u64 startup_rounds;
    u64 in_round, in_cycle;
    u64 head, count; /* reports[(head + n) % BP_BBR_ECN_REPORTS], n < count, are set */
    struct bp_bbr_ecn_report reports[BP_BBR_ECN_REPORTS];
};

/* Sets the state of a new connection; the reports are read only where `count` says so. */
BP_INLINE void bp_bbr_ecn_init(struct bp_bbr_ecn *e, const struct bp_bbr_params *p)
{
    e->eligible = 0;
    e->alpha = p->ecn_alpha_init;
    e->last_delivered = e->last_marks = e->marks = 0;
    e->startup_rounds = e->in_round = e->in_cycle = 0;
    e->head = e->count = 0;
}

BP_INLINE struct bp_bbr_ecn_report *bp_bbr_ecn_report(struct bp_bbr_ecn *e, u64 n)
{
    return &e->reports[(e->head + n) & (BP_BBR_ECN_REPORTS - 1)];
}

/* Merges each two reports that follow one another. */
BP_FUNC int bp_bbr_ecn_merge(struct bp_bbr_ecn *e)
{
    u64 n;

    BP_REQUIRE(e, 0);
    for (n = 0; n < BP_BBR_ECN_REPORTS / 2; n++) {
        u64 delivered = bp_bbr_ecn_report(e, 2 * n + 1)->delivered, marks = bp_bbr_ecn_report(e, 2 * n)->marks;
        struct bp_bbr_ecn_report *merged = bp_bbr_ecn_report(e, n);

        merged->delivered = delivered;
        merged->marks = marks;
    }
    e->count = BP_BBR_ECN_REPORTS / 2;
    return 0;
}

/* Processes the marks so far, on an ACK after which so many bytes are delivered. */
BP_INLINE void bp_bbr_ecn_ack(struct bp_bbr_ecn *e, u64 delivered, u64 marks)
{
    struct bp_bbr_ecn_report *report;

    if (marks <= e->marks)
        return;
    if (e->count >= BP_BBR_ECN_REPORTS)
        bp_bbr_ecn_merge(e);
    report = bp_bbr_ecn_report(e, e->count++);
    report->delivered = delivered;
    report->marks = e->marks;
    e->marks = marks;
    e->in_round |= e->eligible;
}

/* Returns the marks reported since `prior` bytes were delivered, of `marks` so far. */
BP_FUNC u64 bp_bbr_ecn_marked_since(struct bp_bbr_ecn *e, u64 prior, u64 marks)
{
    u64 n, before;

    BP_REQUIRE(e, 0);
    for (n = 0; n < BP_BBR_ECN_REPORTS && e->count && bp_bbr_ecn_report(e, 0)->delivered <= prior; n++) {
        e->head++;
        e->count--;
    }
    before = e->count ? bp_bbr_ecn_report(e, 0)->marks : e->marks;
    return marks - bp_min(before, marks);
}

/* Updates the average once a round. Returns the round's share of marks [1/256] if this connection responds to them, else BP_NONE. */
BP_INLINE u64 bp_bbr_ecn_round(struct bp_bbr_ecn *e, const struct bp_bbr_params *p, u64 mss, u64 min_rtt, const struct bp_ack *ack)
{
    u64 delivered, share;

    e->eligible |= p->ecn && p->ecn_factor && (!p->ecn_max_rtt || (min_rtt != BP_NONE && min_rtt <= p->ecn_max_rtt));
    if (!e->eligible)
        return BP_NONE;
    delivered = bp_sub_sat(ack->delivered_total, e->last_delivered) / mss;
    if (!delivered)
        return BP_NONE;
    share = bp_min(bp_mul_div(bp_sub_sat(ack->ce_count, e->last_marks), BP_UNIT, delivered), BP_UNIT);
    e->alpha = ((BP_UNIT - p->ecn_alpha_gain) * e->alpha >> BP_UNIT_SHIFT) + (p->ecn_alpha_gain * share >> BP_UNIT_SHIFT);
    e->alpha = bp_min(e->alpha, BP_UNIT);
    e->last_delivered = ack->delivered_total;
    e->last_marks = ack->ce_count;
    return share;
}

/* Returns the factor on rate and inflight after marks [1/256]. */
BP_INLINE u64 bp_bbr_ecn_reduction(const struct bp_bbr_ecn *e, const struct bp_bbr_params *p)
{
    return BP_UNIT - (e->alpha * p->ecn_factor >> BP_UNIT_SHIFT);
}

/* Returns whether the share of marked packets shows that inflight was too high. */
BP_INLINE int bp_bbr_ecn_is_share_too_high(const struct bp_bbr_ecn *e, const struct bp_bbr_params *p, u64 marked, u64 delivered)
{
    u64 limit;

    if (!e->eligible || !p->ecn_threshold || !marked || !delivered)
        return 0;
    limit = bp_bbr_part(delivered, p->ecn_threshold);
    return p->rules == BP_BBR_LINUX2 ? marked >= limit : marked > limit;
}

#endif
