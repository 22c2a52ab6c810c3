/* A socket's state, and the hooks that are the same for every controller. Included by window_hooks.h and rate_hooks.h, which define what their hooks keep
 * (struct bp_hook_state) and what a hook does before it calls the core (bp_follow).
 */
#define CORE(function) BP_JOIN(bp_, BP_ID, function)

char _license[] SEC("license") = "Dual MIT/GPL"; /* the kernel gives some helpers to GPL-compatible programs only */

struct bp_socket {
    struct bp_base base;
    struct BP_JOIN(bp_, BP_ID, ) core;
    struct bp_hook_state hooks;
};

struct {
    __uint(type, BPF_MAP_TYPE_SK_STORAGE);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, int);
    __type(value, struct bp_socket);
} BP_SOCKETS SEC(".maps");

#include "host_clock.h"

static void bp_follow(struct sock *sk, struct bp_socket *s);

/* Begins anew, also for a socket that comes back to this controller, or that was connected before. */
BP_INLINE struct bp_socket *bp_begin(struct sock *sk)
{
    struct bp_options *o = bp_whole_options();
    struct bp_socket *s;

    bpf_sk_storage_delete(&BP_SOCKETS, sk);
    if (!o)
        o = bp_whole_options(); /* they were changing */
    if (!o)
        return 0;
    s = bpf_sk_storage_get(&BP_SOCKETS, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
    if (!s)
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

/* Returns the state of a socket with the options of now; null: it has not begun, or there was no memory (or no whole options). */
BP_INLINE struct bp_socket *bp_socket_of(struct sock *sk)
{
    struct bp_socket *s = bpf_sk_storage_get(&BP_SOCKETS, sk, 0, 0);
    struct bp_stored_options *stored;
    __u32 first = 0;

    if (!s || !s->base.is_ready)
        return 0;
    stored = bpf_map_lookup_elem(&BP_OPTIONS, &first);
    if (stored && stored->options.generation != s->base.generation) {
        struct bp_options *o = bp_whole_options();

        if (o) {
            CORE(_set_options)(&s->core, o);
            s->base.generation = o->generation;
        }
    }
    bp_tell_clock(sk, s);
    bp_follow(sk, s);
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
    struct bp_congestion event = {.now = bp_now(sk), .event = kind, .in_flight = bp_bytes(&s->base, bp_in_flight(sk))};

    if (kind == BP_EVENT_RESTART)
        event.idle = bp_idle(sk, &s->base);
    s->base.events[kind & BP_EVENT_RESTART]++; /* the mask is for the verifier */
    CORE(_congestion)(&s->core, &event);
}

/* Tells the core about the reduction that the kernel asks ssthresh for. A probe's loss is a loss, and then that of a probe, as in crates/transport. */
BP_INLINE void bp_reduce(struct sock *sk, struct bp_socket *s)
{
    u64 kind = bp_reduction(sk, &s->base);

    bp_event(sk, s, kind == BP_EVENT_TAIL_LOSS ? BP_EVENT_LOSS : kind);
    if (kind == BP_EVENT_TAIL_LOSS)
        bp_event(sk, s, kind);
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
