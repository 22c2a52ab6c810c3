/* Hooks of a controller that sets rate and window on every ACK, in recovery, too (cong_control).
 *
 * Before: BP_ID, BP_NAME and BP_MONITOR, as for window_hooks.h; a function bp_<id>_phase. What a mainline kernel does not tell is recorded before each
 * burst (min_tso_segs): inflight and losses, by the count of delivered packets that the burst's packets carry.
 * No hook tells which packet was lost: the losses of an ACK are reported as one packet of their size, sent with the newest one acknowledged.
 */
#include "socket.h"
#include "rto.h"

/* Below this rate a burst is one packet, above it at least two [bytes/s] (`bbr_min_tso_rate`: 1.2 Mbit/s). */
#define BP_MIN_TSO_RATE 150000

/* Bursts that are remembered, a power of 2. With them a socket's state fits in 16 KiB. */
#define BP_BURSTS 1024

struct bp_burst {
    __u32 delivered; /* [packets] */
    __u16 in_flight; /* at most 65,535; 0: no burst */
    __u16 lost;      /* its lowest 16 bits */
};

struct bp_hook_state {
    struct bp_lost report;
    u64 reported_lost; /* [packets] */
    u64 reported_seq;  /* [bytes], of the losses reported so far */
    struct bp_rto rto;
    struct bp_burst bursts[BP_BURSTS];
};

#include "socket_state.h"

/* Place of the rate sample among cong_control's arguments: the fourth since Linux 6.10, the second before. The loader sets it from the kernel's types. */
const volatile __u32 bp_rate_sample_at SEC(".rodata.kernel") = 3;

/* Rate and window are the controller's alone. */
BP_INLINE void bp_follow(struct sock *sk, struct bp_socket *s) { (void)sk, (void)s; }

/* Applies window and rate. The kernel paces by itself: an fq qdisc is not needed. */
BP_INLINE void bp_apply(struct sock *sk, const struct bp_socket *s)
{
    struct tcp_sock *tp = tcp_of(sk);
    u64 rate = CORE(_pacing_rate)(&s->core);

    tp->snd_cwnd = bp_window_of(sk, &s->base, CORE(_cwnd)(&s->core));
    if (rate != BP_NONE)
        sk->sk_pacing_rate = bp_min(bp_max(bp_mul_div(rate / 8, tp->mss_cache, s->base.mss), 1), sk->sk_max_pacing_rate);
}

/* Sets the largest RTO that the controller wants at a time-out. */
BP_INLINE void bp_bound_rto(struct sock *sk, struct bp_socket *s)
{
#ifdef BP_BOUNDS_RTO
    bp_lower_rto(sk, &s->hooks.rto, CORE(_max_rto)(&s->core, bp_now(sk)));
#endif
}

/* Takes it back once the controller wants it no more, or nothing is in flight: a socket without data has the host's. */
BP_INLINE void bp_release_rto(struct sock *sk, struct bp_socket *s)
{
#ifdef BP_BOUNDS_RTO
    if (!s->hooks.rto.lowered_ms)
        return;
    if (!tcp_of(sk)->packets_out || !tcp_of(sk)->snd_wnd || CORE(_max_rto)(&s->core, bp_now(sk)) == BP_NONE)
        bp_restore_rto(sk, &s->hooks.rto);
#endif
}

/* Takes it back before the last packet of a socket that its program closes: no hook follows. */
BP_INLINE void bp_close_rto(struct sock *sk, struct bp_socket *s)
{
#ifdef BP_BOUNDS_RTO
    if (!bp_is_open(sk))
        bp_restore_rto(sk, &s->hooks.rto);
#endif
}

SEC("struct_ops")
void BPF_PROG(bp_init, struct sock *sk)
{
    struct bp_socket *s;

    if (sk->sk_pacing_status == SK_PACING_NONE)
        sk->sk_pacing_status = SK_PACING_NEEDED;
    tcp_of(sk)->snd_ssthresh = BP_NO_SSTHRESH; /* it is no part of the window, and the kernel remembers it for the next connection */
#ifdef BP_BOUNDS_RTO
    bp_restore_former_rto(sk);
#endif
    s = bp_begin(sk);
    if (!s)
        return;
    s->hooks.reported_lost = s->base.lost;
    CORE(_established)(&s->core, bpf_ktime_get_ns(), bp_srtt(sk) ? bp_srtt(sk) : BP_NONE);
    bp_apply(sk, s);
}

BP_INLINE struct bp_burst *bp_burst_of(struct bp_socket *s, __u32 delivered) { return &s->hooks.bursts[delivered & (BP_BURSTS - 1)]; }

/* Called before each burst, and also when nothing can be sent. */
SEC("struct_ops")
__u32 BPF_PROG(bp_min_tso_segs, struct sock *sk)
{
    struct bp_socket *s = bp_socket_of(sk);
    struct tcp_sock *tp = tcp_of(sk);
    u64 in_flight = bp_in_flight(sk);
    struct bp_burst *burst;

    if (s && in_flight < tp->snd_cwnd) {
        burst = bp_burst_of(s, tp->delivered);
        if (burst->delivered != tp->delivered || !burst->in_flight) {
            burst->delivered = tp->delivered;
            burst->lost = (__u16)tp->lost; /* of the first burst since the last delivery */
        }
        burst->in_flight = bp_min(in_flight + 1, 0xffff); /* at least: the burst's size is not known yet */
    }
    if (s)
        bp_close_rto(sk, s);
    return sk->sk_pacing_rate < BP_MIN_TSO_RATE ? 1 : 2;
}

/* Copies what the kernel measured into the record of an ACK; returns the burst that its newest packet belongs to. */
BP_INLINE struct bp_burst *bp_measure(struct sock *sk, struct bp_socket *s, const struct rate_sample *rs)
{
    struct bp_base *b = &s->base;
    struct bp_ack *ack = &b->ack;
    long interval_us = rs->interval_us, rtt_us = rs->rtt_us;
    __s32 delivered = rs->delivered;
    int losses = rs->losses;
    __u32 acked = rs->acked_sacked, prior_delivered = rs->prior_delivered, prior_in_flight = rs->prior_in_flight;
    u64 has_packet = !!rs->prior_mstamp;
    struct bp_burst *burst = bp_burst_of(s, prior_delivered);

    bp_fill_ack(sk, b);
    ack->acked = bp_bytes(b, acked);
    ack->cumulative = ack->acked;
    ack->newly_lost = losses > 0 ? bp_bytes(b, losses) : 0;
    ack->rtt = rtt_us < 0 ? BP_NONE : (u64)rtt_us * BP_NS_PER_US;
    ack->ack_delayed = rs->is_ack_delayed;
    ack->prior_in_flight = bp_bytes(b, prior_in_flight);
    if (delivered > 0 && interval_us > 0) {
        ack->rate_prior_delivered = bp_bytes(b, bp_sub_sat(b->delivered, (__u32)((__u32)b->delivered - prior_delivered)));
        ack->rate_delivered = bp_bytes(b, delivered);
        ack->rate_interval = (u64)interval_us * BP_NS_PER_US;
        ack->rate_app_limited = rs->is_app_limited;
    }
    if (!has_packet || !burst->in_flight || burst->delivered != prior_delivered)
        burst = 0; /* no packet is new, or overwritten: what was in flight before this ACK stands for it */
    ack->tx_in_flight = burst ? bp_bytes(b, burst->in_flight) : ack->prior_in_flight;
    ack->lost_since_sent = burst ? bp_bytes(b, (__u16)((__u16)b->lost - burst->lost)) : ack->newly_lost;
    return burst;
}

/* Reports the losses since the last ACK. */
BP_INLINE void bp_report_losses(struct sock *sk, struct bp_socket *s, const struct bp_burst *burst)
{
    const struct bp_ack *ack = &s->base.ack;
    struct bp_lost *l = &s->hooks.report;
    u64 lost = s->base.lost - s->hooks.reported_lost;

    s->hooks.reported_lost = s->base.lost;
    if (!lost)
        return;
    l->now = ack->now;
    l->bytes = bp_bytes(&s->base, lost);
    l->seq = s->hooks.reported_seq;
    s->hooks.reported_seq += 2 * l->bytes; /* a gap of its own */
    l->tx_in_flight = ack->tx_in_flight;
    l->delivered_at_send = ack->rate_prior_delivered == BP_NONE ? ack->delivered_total : ack->rate_prior_delivered;
    l->lost_total = ack->lost_total;
    l->lost_at_send = ack->lost_total - bp_min(burst ? ack->lost_since_sent : l->bytes, ack->lost_total);
    l->delivered_total = ack->delivered_total;
    l->sent_at = l->now - bp_min(ack->srtt, l->now);
    l->app_limited = ack->app_limited;
    CORE(_lost)(&s->core, l);
}

/* Reno for a socket without state: the window, and the pace that the kernel gives to a controller that sets none (`tcp_update_pacing_rate`). */
BP_INLINE void bp_control_without_state(struct sock *sk, __u32 acked)
{
    struct tcp_sock *tp = tcp_of(sk);
    u64 state = bp_recovery_state(sk), in_slow_start = tp->snd_cwnd < tp->snd_ssthresh / 2;

    if (state != BP_CWR && state != BP_RECOVERY)
        bp_grow_without_state(sk, acked);
    if (tp->srtt_us)
        sk->sk_pacing_rate = bp_min(
            bp_max((u64)tp->snd_cwnd * tp->mss_cache * 8 * BP_US_PER_S / tp->srtt_us * (in_slow_start ? 20 : 12) / 10, 1), sk->sk_max_pacing_rate);
}

/* Called first for an ACK: whether it may end a tail loss probe is not seen later. */
SEC("struct_ops")
void BPF_PROG(bp_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
    struct bp_socket *s = bpf_sk_storage_get(&BP_SOCKETS, sk, 0, 0);

    if (!s)
        return;
    s->base.probed = !!tcp_of(sk)->tlp_high_seq;
    s->base.new_marks = 0; /* those of this ACK are not counted yet */
}

/* Two instructions for one: of a branch that the kernel knows not to be taken it checks nothing, and the compiler must not join them. */
#define BP_ARGUMENT(ctx, n) \
    ({ \
        const struct rate_sample *argument_ = (const void *)(ctx)[n]; \
        asm volatile("/* argument " #n " */" : "+r"(argument_)); \
        argument_; \
    })

SEC("struct_ops")
int bp_cong_control(unsigned long long *ctx)
{
    struct sock *sk = (void *)ctx[0];
    const struct rate_sample *rs;
    struct bp_socket *s;
    struct bp_burst *burst;

    if (bp_rate_sample_at == 1)
        rs = BP_ARGUMENT(ctx, 1);
    else
        rs = BP_ARGUMENT(ctx, 3);
    s = bp_socket_of(sk);
    if (!s) {
        bp_control_without_state(sk, rs->acked_sacked);
        return 0;
    }
    burst = bp_measure(sk, s, rs);
    bp_report_losses(sk, s, burst);
    CORE(_ack)(&s->core, &s->base.ack);
    bp_apply(sk, s);
    bp_release_rto(sk, s);
    bp_show(sk, &s->base, CORE(_phase)(&s->core));
    return 0;
}

SEC("struct_ops")
__u32 BPF_PROG(bp_ssthresh, struct sock *sk)
{
    struct bp_socket *s = bp_socket_of(sk);

    if (!s) {
        __u32 half = bp_max(tcp_of(sk)->snd_cwnd / 2, 2);

        tcp_of(sk)->snd_cwnd = half; /* nothing else reduces it under cong_control */
        return half;
    }
    bp_reduce(sk, s);
    return tcp_of(sk)->snd_ssthresh;
}

SEC("struct_ops")
void BPF_PROG(bp_set_state, struct sock *sk, __u8 new_state)
{
    struct bp_socket *s = bp_socket_of(sk);
    int is_timeout;
    u64 kind;

    if (!s)
        return;
    is_timeout = new_state == BP_LOSS && bp_is_timeout(sk);
    kind = bp_event_of_state(sk, &s->base, new_state);
    if (kind != BP_NONE)
        bp_event(sk, s, kind);
    if (is_timeout) {
        bp_apply(sk, s);
        bp_bound_rto(sk, s);
    }
}

SEC("struct_ops")
void BPF_PROG(bp_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
    struct bp_socket *s;

    if (event != CA_EVENT_TX_START)
        return;
    s = bp_socket_of(sk);
    if (!s)
        return;
    {
        struct bp_sent sent = {.now = bp_now(sk), .app_limited = !!tcp_of(sk)->app_limited};

        CORE(_sent)(&s->core, &sent);
    }
    bp_event(sk, s, BP_EVENT_RESTART);
    bp_apply(sk, s);
}

SEC("struct_ops")
__u32 BPF_PROG(bp_sndbuf_expand, struct sock *sk)
{
    return 3; /* SNDBUF_FACTOR of crates/cc: lost packets wait in the send buffer for two rounds */
}

SEC(".struct_ops")
struct tcp_congestion_ops BP_CONTROLLER = {
    .init = (void *)bp_init,
    .release = (void *)bp_release,
    .pkts_acked = (void *)bp_pkts_acked,
    .min_tso_segs = (void *)bp_min_tso_segs,
    .cong_control = (void *)bp_cong_control,
    .ssthresh = (void *)bp_ssthresh,
    .set_state = (void *)bp_set_state,
    .cwnd_event = (void *)bp_cwnd_event,
    .undo_cwnd = (void *)bp_undo_cwnd,
    .sndbuf_expand = (void *)bp_sndbuf_expand,
    .flags = TCP_CONG_NON_RESTRICTED,
    .name = BP_NAME,
};
