/* BBR version 2: the twin of crates/cc/src/bbr2.rs, version 3 with other rules and values. */
#ifndef BENTPIPE_CORE_BBR2_H
#define BENTPIPE_CORE_BBR2_H

#include "bbr3.h"

struct bp_bbr2 {
    struct bp_bbr3 bbr;
};

BP_INLINE void bp_bbr2_set_options(struct bp_bbr2 *b, const struct bp_options *options) { bp_bbr_params_2(&b->bbr.p, options); }

BP_INLINE void bp_bbr2_init(struct bp_bbr2 *b, const struct bp_config *config, const struct bp_options *options)
{
    bp_bbr2_set_options(b, options);
    bp_bbr3_start(&b->bbr, config);
}

BP_INLINE void bp_bbr2_established(struct bp_bbr2 *b, u64 now, u64 rtt) { bp_bbr3_established(&b->bbr, now, rtt); }
BP_INLINE void bp_bbr2_acked(struct bp_bbr2 *b, const struct bp_ack *ack) { bp_bbr3_acked(&b->bbr, ack); }
BP_INLINE void bp_bbr2_ack(struct bp_bbr2 *b, const struct bp_ack *ack) { bp_bbr3_ack(&b->bbr, ack); }
BP_INLINE void bp_bbr2_lost(struct bp_bbr2 *b, const struct bp_lost *lost) { bp_bbr3_lost(&b->bbr, lost); }
BP_INLINE void bp_bbr2_congestion(struct bp_bbr2 *b, const struct bp_congestion *event) { bp_bbr3_congestion(&b->bbr, event); }
BP_INLINE void bp_bbr2_sent(struct bp_bbr2 *b, const struct bp_sent *sent) { bp_bbr3_sent(&b->bbr, sent); }
BP_INLINE void bp_bbr2_hint(struct bp_bbr2 *b, const struct bp_hint *hint) { bp_bbr3_hint(&b->bbr, hint); }
BP_INLINE void bp_bbr2_set_cwnd(struct bp_bbr2 *b, u64 bytes) { bp_bbr3_set_cwnd(&b->bbr, bytes); }
BP_INLINE void bp_bbr2_set_ssthresh(struct bp_bbr2 *b, u64 bytes) { bp_bbr3_set_ssthresh(&b->bbr, bytes); }
BP_INLINE u64 bp_bbr2_cwnd(const struct bp_bbr2 *b) { return bp_bbr3_cwnd(&b->bbr); }
BP_INLINE u64 bp_bbr2_ssthresh(const struct bp_bbr2 *b) { return bp_bbr3_ssthresh(&b->bbr); }
BP_INLINE u64 bp_bbr2_pacing_rate(const struct bp_bbr2 *b) { return bp_bbr3_pacing_rate(&b->bbr); }
BP_INLINE u64 bp_bbr2_min_tso_segments(const struct bp_bbr2 *b) { return bp_bbr3_min_tso_segments(&b->bbr); }

#endif
