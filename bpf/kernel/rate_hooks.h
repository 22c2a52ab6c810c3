/* Hooks of a controller that sets rate and window on every ACK, in recovery, too (cong_control).
 *
 * Before: BP_ID, BP_NAME and BP_MONITOR, as for window_hooks.h; a function bp_<id>_phase. What a mainline kernel does not tell is recorded before each burst (min_tso_segs):
 * inflight, losses and whether the sender was limited by the application, by the count of delivered packets that the burst's packets carry.
 * No hook tells which packet was lost: the losses of an ACK are reported as one packet of their size, sent with the newest one acknowledged.
 */
#include "socket.h"

#define CORE(function) BP_JOIN(bp_, BP_ID, function)

char _license[] SEC("license") = "Dual MIT/GPL"; /* the kernel gives some helpers to GPL-compatible programs only */

/* Bursts that are remembered: those of a window of 2048 packets and more, with an ACK for every other packet. A power of 2. */
#define BP_BURSTS 1024

struct bp_burst {
    __u32 delivered, in_flight, lost; /* [packets] */
    __u32 sent_us;                    /* the low 32 bits of tcp_mstamp; 0: never sent */
};

struct bp_socket {
    struct BP_JOIN(bp_, BP_ID, ) core;
    struct bp_ack ack;
    struct bp_lost lost;
    struct bp_shown shown;
    u64 ready, generation;
    u64 clock_generation, announced; /* of the host's clock; the last announcement [ns] */
    u64 lost_total; /* [packets], at the last ACK */
    u64 lost_seq;   /* [bytes], of the losses reported so far */
    struct bp_burst bursts[BP_BURSTS];
};

struct {
    __uint(type, BPF_MAP_TYPE_SK_STORAGE);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, int);
    __type(value, struct bp_socket);
} BP_SOCKETS SEC(".maps");

#include "host_clock.h"

BP_INLINE struct bp_socket *bp_socket_of(struct sock *sk)
{
    struct bp_socket *s = bpf_sk_storage_get(&BP_SOCKETS, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
    struct bp_options *o;
    __u32 first = 0;

    if (!s)
        return 0;
    o = bpf_map_lookup_elem(&BP_OPTIONS, &first);
    if (!o)
        return 0;
    if (!s->ready) {
        struct bp_config config = {.mss = bp_mss(sk), .initial_cwnd = bp_bytes(sk, tcp_of(sk)->snd_cwnd), .paced = 1};

        CORE(_init)(&s->core, &config, o);
        s->generation = o->generation;
        s->ready = 1;
    } else if (s->generation != o->generation) {
        CORE(_set_options)(&s->core, o);
        s->generation = o->generation;
    }
    bp_tell_clock(sk, s);
    return s;
}

/* Applies window and rate. The kernel paces by itself: an fq qdisc is not needed. */
BP_INLINE void bp_apply(struct sock *sk, const struct bp_socket *s)
{
    struct tcp_sock *tp = tcp_of(sk);
    u64 rate = CORE(_pacing_rate)(&s->core);

    tp->snd_cwnd = bp_clamp(bp_packets(CORE(_cwnd)(&s->core), bp_mss(sk)), 1, 0x7fffffff);
    if (rate != BP_NONE)
        sk->sk_pacing_rate = bp_min(bp_max(rate / 8, 1), sk->sk_max_pacing_rate);
}

SEC("struct_ops")
void BPF_PROG(bp_init, struct sock *sk)
{
    struct bp_socket *s = bp_socket_of(sk);
    struct tcp_sock *tp = tcp_of(sk);

    if (!s)
        return;
    CORE(_established)(&s->core, tp->tcp_mstamp * BP_NS_PER_US, tp->srtt_us ? (u64)tp->srtt_us * (BP_NS_PER_US / 8) : BP_NONE);
    if (sk->sk_pacing_status == SK_PACING_NONE)
        sk->sk_pacing_status = SK_PACING_NEEDED;
    s->lost_total = tp->lost;
    bp_apply(sk, s);
}

SEC("struct_ops")
void BPF_PROG(bp_release, struct sock *sk)
{
    struct bp_socket *s = bpf_sk_storage_get(&BP_SOCKETS, sk, 0, 0);

    if (s)
        bp_forget(&s->shown);
}

/* Called before each burst. */
SEC("struct_ops")
__u32 BPF_PROG(bp_min_tso_segs, struct sock *sk)
{
    struct bp_socket *s = bp_socket_of(sk);
    struct tcp_sock *tp = tcp_of(sk);
    struct bp_burst *burst;

    if (s) {
        burst = &s->bursts[tp->delivered & (BP_BURSTS - 1)];
        burst->delivered = tp->delivered;
        burst->in_flight = bp_in_flight(sk) + 1; /* at least: the burst's size is not known yet */
        burst->lost = tp->lost;
        burst->sent_us = bp_max((__u32)tp->tcp_mstamp, 1);
    }
    return sk->sk_pacing_rate < 150000 ? 1 : 2;
}

/* Copies what the kernel measured into the record of an ACK; returns the burst that its newest packet belongs to. */
BP_INLINE struct bp_burst *bp_measure(struct sock *sk, struct bp_socket *s, const struct rate_sample *rs)
{
    struct tcp_sock *tp = tcp_of(sk);
    struct bp_ack *ack = &s->ack;
    long interval_us = rs->interval_us, rtt_us = rs->rtt_us;
    __s32 delivered = rs->delivered;
    int losses = rs->losses;
    __u32 acked = rs->acked_sacked, prior_delivered = rs->prior_delivered, prior_in_flight = rs->prior_in_flight;
    struct bp_burst *burst = &s->bursts[prior_delivered & (BP_BURSTS - 1)];

    bp_fill_ack(sk, ack);
    ack->acked = bp_bytes(sk, acked);
    ack->cumulative = ack->acked;
    ack->newly_lost = losses > 0 ? bp_bytes(sk, losses) : 0;
    ack->rtt = rtt_us < 0 ? BP_NONE : (u64)rtt_us * BP_NS_PER_US;
    ack->ack_delayed = rs->is_ack_delayed;
    ack->prior_in_flight = bp_bytes(sk, prior_in_flight);
    if (delivered > 0 && interval_us > 0) {
        ack->rate_prior_delivered = bp_bytes(sk, prior_delivered);
        ack->rate_delivered = bp_bytes(sk, delivered);
        ack->rate_interval = (u64)interval_us * BP_NS_PER_US;
        ack->rate_app_limited = rs->is_app_limited;
    }
    if (!burst->sent_us || burst->delivered != prior_delivered)
        burst = 0; /* overwritten: what is in flight now stands for it */
    ack->tx_in_flight = burst ? bp_bytes(sk, burst->in_flight) : ack->prior_in_flight;
    ack->lost_since_sent = burst ? bp_bytes(sk, tp->lost - burst->lost) : ack->newly_lost;
    return burst;
}

/* Reports the losses since the last ACK. */
BP_INLINE void bp_report_losses(struct sock *sk, struct bp_socket *s, const struct bp_burst *burst)
{
    struct tcp_sock *tp = tcp_of(sk);
    __u32 lost = tp->lost - (__u32)s->lost_total;
    struct bp_lost *l = &s->lost;

    s->lost_total = tp->lost;
    if (!lost)
        return;
    l->now = s->ack.now;
    l->bytes = bp_bytes(sk, lost);
    l->seq = s->lost_seq;
    s->lost_seq += 2 * l->bytes; /* a gap of its own */
    l->tx_in_flight = s->ack.tx_in_flight;
    l->delivered_at_send = burst ? bp_bytes(sk, burst->delivered) : s->ack.delivered_total;
    l->lost_total = s->ack.lost_total;
    l->lost_at_send = burst ? bp_bytes(sk, burst->lost) : s->ack.lost_total - bp_min(l->bytes, s->ack.lost_total);
    l->delivered_total = s->ack.delivered_total;
    l->sent_at = l->now - bp_min(s->ack.srtt, l->now);
    l->app_limited = s->ack.app_limited;
    CORE(_lost)(&s->core, l);
}

SEC("struct_ops")
void BPF_PROG(bp_cong_control, struct sock *sk, __u32 number, int flag, const struct rate_sample *rs)
{
    struct bp_socket *s = bp_socket_of(sk);
    struct bp_burst *burst;

    if (!s)
        return;
    burst = bp_measure(sk, s, rs);
    bp_report_losses(sk, s, burst);
    CORE(_ack)(&s->core, &s->ack);
    bp_apply(sk, s);
    bp_show(sk, &s->shown, CORE(_phase)(&s->core));
}

BP_INLINE void bp_event(struct sock *sk, struct bp_socket *s, u64 kind)
{
    struct tcp_sock *tp = tcp_of(sk);
    struct bp_congestion event = {.now = tp->tcp_mstamp * BP_NS_PER_US, .event = kind, .in_flight = bp_bytes(sk, bp_in_flight(sk))};

    CORE(_congestion)(&s->core, &event);
}

SEC("struct_ops")
__u32 BPF_PROG(bp_ssthresh, struct sock *sk)
{
    struct bp_socket *s = bp_socket_of(sk);

    if (s)
        bp_event(sk, s, BP_EVENT_LOSS);
    return tcp_of(sk)->snd_ssthresh;
}

SEC("struct_ops")
void BPF_PROG(bp_set_state, struct sock *sk, __u8 new_state)
{
    struct bp_socket *s = bp_socket_of(sk);

    if (!s)
        return;
    if (new_state == BP_LOSS) {
        bp_event(sk, s, BP_EVENT_TIMEOUT_AGAIN);
        bp_apply(sk, s);
    } else if (new_state < BP_CWR && bp_recovery_state(sk) > BP_CWR) {
        bp_event(sk, s, BP_EVENT_RECOVERY_END);
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
    bp_event(sk, s, BP_EVENT_RESTART);
    bp_apply(sk, s);
}

SEC("struct_ops")
__u32 BPF_PROG(bp_undo_cwnd, struct sock *sk)
{
    struct bp_socket *s = bp_socket_of(sk);

    if (!s)
        return tcp_of(sk)->snd_cwnd;
    bp_event(sk, s, BP_EVENT_UNDO);
    return bp_clamp(bp_packets(CORE(_cwnd)(&s->core), bp_mss(sk)), 1, 0x7fffffff);
}

SEC("struct_ops")
__u32 BPF_PROG(bp_sndbuf_expand, struct sock *sk)
{
    return 3; /* lost packets wait in the send buffer for two rounds */
}

SEC(".struct_ops")
struct tcp_congestion_ops BP_CONTROLLER = {
    .init = (void *)bp_init,
    .release = (void *)bp_release,
    .min_tso_segs = (void *)bp_min_tso_segs,
    .cong_control = (void *)bp_cong_control,
    .ssthresh = (void *)bp_ssthresh,
    .set_state = (void *)bp_set_state,
    .cwnd_event = (void *)bp_cwnd_event,
    .undo_cwnd = (void *)bp_undo_cwnd,
    .sndbuf_expand = (void *)bp_sndbuf_expand,
    .name = BP_NAME,
};
