/* Hooks of a controller that sets a window and leaves recovery to the kernel (cong_avoid).
 *
 * Before: BP_ID, the name of its functions in the core; BP_NAME, its name in the kernel; BP_WINDOW(core), where its window is; BP_MONITOR(core), where
 * its monitor of handovers is, if it has one. The kernel changes the window by itself, too (recovery,
 * time-outs): each hook first tells the core what it finds.
 */
#include "socket.h"

#define CORE(function) BP_JOIN(bp_, BP_ID, function)

char _license[] SEC("license") = "Dual MIT/GPL"; /* the kernel gives some helpers to GPL-compatible programs only */

struct bp_socket {
    struct bp_base base;
    struct BP_JOIN(bp_, BP_ID, ) core;
};

struct {
    __uint(type, BPF_MAP_TYPE_SK_STORAGE);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, int);
    __type(value, struct bp_socket);
} BP_SOCKETS SEC(".maps");

#include "host_clock.h"

/* Begins anew, also for a socket that comes back to this controller, or that was connected before. */
BP_INLINE struct bp_socket *bp_begin(struct sock *sk)
{
    struct bp_socket *s;
    struct bp_options *o;
    __u32 first = 0;

    bpf_sk_storage_delete(&BP_SOCKETS, sk);
    s = bpf_sk_storage_get(&BP_SOCKETS, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
    o = bpf_map_lookup_elem(&BP_OPTIONS, &first);
    if (!s || !o)
        return 0;
    bp_begin_base(sk, &s->base);
    {
        struct bp_config config = {
            .mss = s->base.mss,
            .initial_cwnd = bp_bytes(&s->base, tcp_of(sk)->snd_cwnd),
            .paced = sk->sk_pacing_status != SK_PACING_NONE,
        };

        CORE(_init)(&s->core, &config, o);
    }
    s->base.generation = o->generation;
    bp_tell_clock(sk, s);
    return s;
}

/* Returns the state of a socket with the options of now; null: it has not begun, or there was no memory. */
BP_INLINE struct bp_socket *bp_socket_of(struct sock *sk)
{
    struct bp_socket *s = bpf_sk_storage_get(&BP_SOCKETS, sk, 0, 0);
    struct tcp_sock *tp = tcp_of(sk);
    struct bp_options *o;
    __u32 first = 0;

    if (!s || !s->base.is_ready)
        return 0;
    o = bpf_map_lookup_elem(&BP_OPTIONS, &first);
    if (!o)
        return 0;
    if (s->base.generation != o->generation) {
        CORE(_set_options)(&s->core, o);
        s->base.generation = o->generation;
    }
    bp_tell_clock(sk, s);
    /* What the kernel did to the window meanwhile. */
    if (tp->snd_cwnd != bp_window_of(sk, &s->base, CORE(_cwnd)(&s->core)))
        CORE(_set_cwnd)(&s->core, bp_bytes(&s->base, tp->snd_cwnd));
    CORE(_set_ssthresh)(&s->core, tp->snd_ssthresh >= 0x7fffffff ? BP_NONE : bp_bytes(&s->base, tp->snd_ssthresh));
    return s;
}

SEC("struct_ops")
void BPF_PROG(bp_release, struct sock *sk)
{
    struct bp_socket *s = bpf_sk_storage_get(&BP_SOCKETS, sk, 0, 0);

    if (!s)
        return;
    bp_forget(&s->base.shown);
    bpf_sk_storage_delete(&BP_SOCKETS, sk);
}

BP_INLINE void bp_event(struct sock *sk, struct bp_socket *s, u64 kind)
{
    struct bp_congestion event = {.now = bpf_ktime_get_ns(), .event = kind, .in_flight = bp_bytes(&s->base, bp_in_flight(sk))};

    if (kind == BP_EVENT_RESTART)
        event.idle = bp_idle(sk, &s->base);
    CORE(_congestion)(&s->core, &event);
}

BP_INLINE void bp_store_window(struct sock *sk, const struct bp_socket *s)
{
    tcp_of(sk)->snd_cwnd = bp_window_of(sk, &s->base, CORE(_cwnd)(&s->core));
    tcp_of(sk)->snd_ssthresh = bp_min(BP_WINDOW(&s->core)->ssthresh, 0x7fffffff);
}

SEC("struct_ops")
void BPF_PROG(bp_init, struct sock *sk)
{
    struct bp_socket *s = bp_begin(sk);

    if (!s)
        return;
    CORE(_established)(&s->core, bpf_ktime_get_ns(), bp_srtt(sk) ? bp_srtt(sk) : BP_NONE);
    bp_store_window(sk, s);
}

/* The kernel's newest rate sample is that of an earlier ACK: it makes one after this hook. */
SEC("struct_ops")
void BPF_PROG(bp_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
    struct bp_socket *s = bp_socket_of(sk);
    struct tcp_sock *tp = tcp_of(sk);
    __s32 rtt_us = sample->rtt_us;
    __u32 packets = sample->pkts_acked;
    struct bp_ack *ack;

    if (!s)
        return;
    bp_fill_ack(sk, &s->base);
    ack = &s->base.ack;
    ack->acked = ack->cumulative = bp_bytes(&s->base, packets);
    ack->rtt = rtt_us < 0 ? BP_NONE : (u64)rtt_us * BP_NS_PER_US;
    ack->ack_delayed = packets == 1 && !tp->packets_out;
    if (tp->rate_interval_us) {
        ack->rate_delivered = bp_bytes(&s->base, tp->rate_delivered);
        ack->rate_prior_delivered = bp_sub_sat(ack->delivered_total, ack->rate_delivered);
        ack->rate_interval = (u64)tp->rate_interval_us * BP_NS_PER_US;
        ack->rate_app_limited = ack->app_limited;
    }
    CORE(_acked)(&s->core, ack);
    bp_store_window(sk, s);
    bp_show(sk, &s->base, bp_window_in_slow_start(BP_WINDOW(&s->core)));
}

SEC("struct_ops")
void BPF_PROG(bp_cong_avoid, struct sock *sk, __u32 number, __u32 acked)
{
    struct bp_socket *s = bp_socket_of(sk);

    if (!s) {
        bp_grow_without_state(sk, acked);
        return;
    }
    bp_fill_ack(sk, &s->base);
    s->base.ack.acked = s->base.ack.cumulative = bp_bytes(&s->base, acked);
    CORE(_ack)(&s->core, &s->base.ack);
    bp_store_window(sk, s);
}

SEC("struct_ops")
__u32 BPF_PROG(bp_ssthresh, struct sock *sk)
{
    struct bp_socket *s = bp_socket_of(sk);

    if (!s)
        return bp_max(tcp_of(sk)->snd_cwnd / 2, 2);
    bp_event(sk, s, bp_reduction(sk, &s->base));
    return bp_min(BP_WINDOW(&s->core)->ssthresh, 0x7fffffff);
}

SEC("struct_ops")
void BPF_PROG(bp_set_state, struct sock *sk, __u8 new_state)
{
    struct bp_socket *s = bp_socket_of(sk);
    u64 kind;

    if (!s)
        return;
    kind = bp_event_of_state(sk, &s->base, new_state);
    if (kind != BP_NONE)
        bp_event(sk, s, kind);
}

SEC("struct_ops")
void BPF_PROG(bp_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
    struct bp_socket *s;

    if (event != CA_EVENT_TX_START)
        return;
    s = bp_socket_of(sk);
    if (s)
        bp_event(sk, s, BP_EVENT_RESTART);
}

SEC("struct_ops")
__u32 BPF_PROG(bp_undo_cwnd, struct sock *sk)
{
    struct bp_socket *s = bp_socket_of(sk);

    if (!s)
        return tcp_of(sk)->snd_cwnd;
    bp_event(sk, s, BP_EVENT_UNDO);
    return bp_window_of(sk, &s->base, CORE(_cwnd)(&s->core));
}

SEC(".struct_ops")
struct tcp_congestion_ops BP_CONTROLLER = {
    .init = (void *)bp_init,
    .release = (void *)bp_release,
    .pkts_acked = (void *)bp_pkts_acked,
    .cong_avoid = (void *)bp_cong_avoid,
    .ssthresh = (void *)bp_ssthresh,
    .set_state = (void *)bp_set_state,
    .cwnd_event = (void *)bp_cwnd_event,
    .undo_cwnd = (void *)bp_undo_cwnd,
    .flags = TCP_CONG_NON_RESTRICTED,
    .name = BP_NAME,
};
