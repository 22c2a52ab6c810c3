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
    struct BP_JOIN(bp_, BP_ID, ) core;
    struct bp_ack ack;
    struct bp_shown shown;
    u64 ready, generation;
    u64 clock_generation, announced; /* of the host's clock; the last announcement [ns] */
};

struct {
    __uint(type, BPF_MAP_TYPE_SK_STORAGE);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, int);
    __type(value, struct bp_socket);
} BP_SOCKETS SEC(".maps");

#include "host_clock.h"

/* Returns the state of a socket, with the options and the kernel's window in it. */
BP_INLINE struct bp_socket *bp_socket_of(struct sock *sk)
{
    struct bp_socket *s = bpf_sk_storage_get(&BP_SOCKETS, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
    struct tcp_sock *tp = tcp_of(sk);
    struct bp_options *o;
    __u32 first = 0;

    if (!s)
        return 0;
    o = bpf_map_lookup_elem(&BP_OPTIONS, &first);
    if (!o)
        return 0;
    if (!s->ready) {
        struct bp_config config = {.mss = bp_mss(sk), .initial_cwnd = bp_bytes(sk, tp->snd_cwnd), .paced = 0};

        CORE(_init)(&s->core, &config, o);
        s->generation = o->generation;
        s->ready = 1;
    } else if (s->generation != o->generation) {
        CORE(_set_options)(&s->core, o);
        s->generation = o->generation;
    }
    bp_tell_clock(sk, s);
    BP_WINDOW(&s->core)->mss = bp_mss(sk);
    bp_window_set_packets(BP_WINDOW(&s->core), tp->snd_cwnd);
    BP_WINDOW(&s->core)->ssthresh = tp->snd_ssthresh >= 0x7fffffff ? BP_NO_THRESHOLD : tp->snd_ssthresh;
    return s;
}

BP_INLINE void bp_store_window(struct sock *sk, const struct bp_socket *s)
{
    struct tcp_sock *tp = tcp_of(sk);

    tp->snd_cwnd = bp_min(BP_WINDOW(&s->core)->cwnd, 0x7fffffff);
    tp->snd_ssthresh = bp_min(BP_WINDOW(&s->core)->ssthresh, 0x7fffffff);
}

SEC("struct_ops")
void BPF_PROG(bp_init, struct sock *sk)
{
    struct bp_socket *s = bp_socket_of(sk);
    struct tcp_sock *tp = tcp_of(sk);

    if (!s)
        return;
    CORE(_established)(&s->core, tp->tcp_mstamp * BP_NS_PER_US, tp->srtt_us ? (u64)tp->srtt_us * (BP_NS_PER_US / 8) : BP_NONE);
    bp_store_window(sk, s);
}

SEC("struct_ops")
void BPF_PROG(bp_release, struct sock *sk)
{
    struct bp_socket *s = bpf_sk_storage_get(&BP_SOCKETS, sk, 0, 0);

    if (s)
        bp_forget(&s->shown);
}

SEC("struct_ops")
void BPF_PROG(bp_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
    struct bp_socket *s = bp_socket_of(sk);
    __s32 rtt_us = sample->rtt_us;
    __u32 packets = sample->pkts_acked;

    if (!s)
        return;
    bp_fill_ack(sk, &s->ack);
    s->ack.acked = s->ack.cumulative = bp_bytes(sk, packets);
    s->ack.rtt = rtt_us < 0 ? BP_NONE : (u64)rtt_us * BP_NS_PER_US;
    CORE(_acked)(&s->core, &s->ack);
    bp_store_window(sk, s);
    bp_show(sk, &s->shown, bp_window_in_slow_start(BP_WINDOW(&s->core)));
}

SEC("struct_ops")
void BPF_PROG(bp_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
    struct bp_socket *s = bp_socket_of(sk);

    if (!s)
        return;
    bp_fill_ack(sk, &s->ack);
    s->ack.acked = s->ack.cumulative = bp_bytes(sk, acked);
    CORE(_ack)(&s->core, &s->ack);
    bp_store_window(sk, s);
}

BP_INLINE void bp_event(struct sock *sk, struct bp_socket *s, u64 kind)
{
    struct bp_congestion event = {.now = tcp_of(sk)->tcp_mstamp * BP_NS_PER_US, .event = kind, .in_flight = bp_bytes(sk, bp_in_flight(sk))};

    CORE(_congestion)(&s->core, &event);
}

/* A reduction begins, whatever its cause: a time-out's follows in bp_set_state. */
SEC("struct_ops")
__u32 BPF_PROG(bp_ssthresh, struct sock *sk)
{
    struct bp_socket *s = bp_socket_of(sk);

    if (!s)
        return bp_max(tcp_of(sk)->snd_cwnd / 2, 2);
    bp_event(sk, s, BP_EVENT_LOSS);
    return bp_min(BP_WINDOW(&s->core)->ssthresh, 0x7fffffff);
}

SEC("struct_ops")
void BPF_PROG(bp_set_state, struct sock *sk, __u8 new_state)
{
    struct bp_socket *s = bp_socket_of(sk);

    if (!s)
        return;
    if (new_state == BP_LOSS)
        bp_event(sk, s, BP_EVENT_TIMEOUT_AGAIN);
    else if (new_state < BP_CWR && bp_recovery_state(sk) > BP_CWR)
        bp_event(sk, s, BP_EVENT_RECOVERY_END);
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
    return bp_min(BP_WINDOW(&s->core)->cwnd, 0x7fffffff);
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
    .name = BP_NAME,
};
