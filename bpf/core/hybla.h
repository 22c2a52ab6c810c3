/* Hybla: the twin of crates/cc/src/hybla.rs, where its source and the meaning of each number are. */
#ifndef BENTPIPE_CORE_HYBLA_H
#define BENTPIPE_CORE_HYBLA_H

#include "window.h"

#define BP_HYBLA_OPTIONS(OPTION) OPTION(rtt0_ms) OPTION(counts)
enum bp_hybla_option { BP_HYBLA_RTT0, BP_HYBLA_COUNTS };

#define BP_HYBLA_COUNTS_PACKETS 1
#define BP_HYBLA_PACKET 128ULL /* one packet, in the unit of growth */
#define BP_HYBLA_MAX_SLOW_START_RHO 16
#define BP_HYBLA_MAX_CWND 65535ULL

struct bp_hybla {
    struct bp_window window;
    u64 rtt0, counts; /* options */
    u64 rho_8;        /* RTT / RTT0 [1/8] */
    u64 min_srtt;     /* [ns] */
    u64 credit;       /* growth that is not a packet yet [1/128] */
};

BP_INLINE void bp_hybla_set_options(struct bp_hybla *h, const struct bp_options *options)
{
    h->rtt0 = bp_max(options->word[BP_HYBLA_RTT0], 1);
    h->counts = options->word[BP_HYBLA_COUNTS];
}

BP_INLINE void bp_hybla_init(struct bp_hybla *h, const struct bp_config *config, const struct bp_options *options)
{
    struct bp_hybla fresh = {.min_srtt = BP_MAX};

    *h = fresh;
    bp_window_init(&h->window, config->mss, config->initial_cwnd);
    bp_hybla_set_options(h, options);
}

BP_INLINE void bp_hybla_update_rho(struct bp_hybla *h, u64 srtt)
{
    h->rho_8 = bp_clamp(bp_mul_div(srtt, 8, h->rtt0), 8, 0xffffffffULL);
    h->min_srtt = srtt;
}

BP_INLINE void bp_hybla_established(struct bp_hybla *h, u64 now, u64 rtt)
{
    (void)now;
    bp_hybla_update_rho(h, rtt == BP_NONE ? 0 : rtt);
    bp_window_set_packets(&h->window, bp_min(h->rho_8 / 8, BP_HYBLA_MAX_CWND));
}

/* 2^(k/8) [1/128], rounded down. */
BP_INLINE u64 bp_hybla_fraction(u64 k)
{
    switch (k & 7) {
    case 0: return 128;
    case 1: return 139;
    case 2: return 152;
    case 3: return 165;
    case 4: return 181;
    case 5: return 197;
    case 6: return 215;
    default: return 234;
    }
}

/* Returns the growth for an ACK [1/128 packet]. */
BP_INLINE u64 bp_hybla_growth(const struct bp_hybla *h)
{
    if (bp_window_in_slow_start(&h->window))
        return (bp_hybla_fraction(h->rho_8) << bp_min(h->rho_8 / 8, BP_HYBLA_MAX_SLOW_START_RHO)) - BP_HYBLA_PACKET;
    return 2 * h->rho_8 * h->rho_8 / bp_max(h->window.cwnd, 1);
}

BP_INLINE void bp_hybla_grow(struct bp_hybla *h)
{
    struct bp_window *w = &h->window;
    u64 growth = bp_hybla_growth(h);
    int in_slow_start = bp_window_in_slow_start(w);
    u64 slow_acks = !in_slow_start && growth < BP_HYBLA_PACKET ? bp_window_count_ack(w) : 0;
    u64 packets;
    int window_passed;

    h->credit += growth % BP_HYBLA_PACKET;
    packets = growth / BP_HYBLA_PACKET + h->credit / BP_HYBLA_PACKET;
    window_passed = growth == 0 && slow_acks >= w->cwnd;
    packets += window_passed;
    if (h->credit >= BP_HYBLA_PACKET || window_passed)
        bp_window_reset_count(w);
    h->credit %= BP_HYBLA_PACKET;
    bp_window_set_packets(w, bp_min(w->cwnd + packets, in_slow_start ? bp_min(w->ssthresh, BP_HYBLA_MAX_CWND) : BP_HYBLA_MAX_CWND));
}

struct bp_hybla_loop {
    struct bp_hybla *h;
};

static long bp_hybla_grow_step(u32 n, void *context)
{
    (void)n;
    bp_hybla_grow(((struct bp_hybla_loop *)context)->h);
    return 0;
}

BP_FUNC int bp_hybla_ack(struct bp_hybla *h, const struct bp_ack *ack)
{
    struct bp_hybla_loop loop = {h};
    u64 growths;

    BP_REQUIRE(h, 0);
    BP_REQUIRE(ack, 0);
    if (ack->srtt < h->min_srtt)
        bp_hybla_update_rho(h, ack->srtt);
    if (!ack->cwnd_limited)
        return 0;
    if (ack->recovery != BP_OPEN) {
        u64 acked = bp_clamped_packets(ack->acked, h->window.mss);

        if (bp_window_in_slow_start(&h->window))
            acked = bp_window_slow_start(&h->window, acked);
        if (acked)
            bp_window_additive_increase(&h->window, h->window.cwnd, acked);
        return 0;
    }
    growths = h->counts == BP_HYBLA_COUNTS_PACKETS ? bp_min(bp_clamped_packets(ack->acked, h->window.mss), BP_HYBLA_MAX_CWND) : 1;
    bp_loop((u32)growths, bp_hybla_grow_step, &loop);
    return 0;
}

BP_INLINE void bp_hybla_congestion(struct bp_hybla *h, const struct bp_congestion *event)
{
    switch (event->event) {
    case BP_EVENT_LOSS:
    case BP_EVENT_ECN:
    case BP_EVENT_TIMEOUT: bp_window_reduce(&h->window, bp_max(h->window.cwnd / 2, 2)); break;
    case BP_EVENT_TIMEOUT_AGAIN: bp_window_reset_count(&h->window); break;
    case BP_EVENT_UNDO: bp_window_undo(&h->window); break;
    default: break;
    }
}

BP_INLINE void bp_hybla_acked(struct bp_hybla *h, const struct bp_ack *ack) { (void)h, (void)ack; }
BP_INLINE void bp_hybla_lost(struct bp_hybla *h, const struct bp_lost *lost) { (void)h, (void)lost; }
BP_INLINE void bp_hybla_sent(struct bp_hybla *h, const struct bp_sent *sent) { (void)h, (void)sent; }
BP_INLINE void bp_hybla_hint(struct bp_hybla *h, const struct bp_hint *hint) { (void)h, (void)hint; }
BP_INLINE void bp_hybla_set_cwnd(struct bp_hybla *h, u64 bytes) { bp_window_set_cwnd(&h->window, bytes); }
BP_INLINE void bp_hybla_set_ssthresh(struct bp_hybla *h, u64 bytes) { bp_window_set_ssthresh(&h->window, bytes); }
BP_INLINE u64 bp_hybla_cwnd(const struct bp_hybla *h) { return bp_window_cwnd(&h->window); }
BP_INLINE u64 bp_hybla_ssthresh(const struct bp_hybla *h) { return bp_window_ssthresh(&h->window); }
BP_INLINE u64 bp_hybla_pacing_rate(const struct bp_hybla *h) { (void)h; return BP_NONE; }

#endif
