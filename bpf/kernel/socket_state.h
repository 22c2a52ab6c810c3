/* A socket's state, and the hooks that are the same for every controller. Included by window_hooks.h and rate_hooks.h, which define what their hooks keep
 * (struct bp_hook_state) and what a hook does before it calls the core (bp_follow).
 */
#define CORE(function) BP_JOIN(bp_, BP_ID, function)

char _license[] SEC("license") = "Dual MIT/GPL"; /* the kernel gives some helpers to GPL-compatible programs only */

struct bp_socket {
    struct bp_base base;
    struct bp_stored_options options; /* a copy: those in the map may change while the core reads them */
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

/* Takes the options of now; returns whether they are whole. */
BP_INLINE int bp_read_options(struct bp_socket *s)
{
    __u32 first = 0;
    struct bp_stored_options *stored = bpf_map_lookup_elem(&BP_OPTIONS, &first);

    return stored && bp_take_options(&s->options, stored);
}

/* Begins anew, also for a socket that comes back to this controller, or that was connected before. */
BP_INLINE struct bp_socket *bp_begin(struct sock *sk)
{
    struct bp_socket *s;

    bpf_sk_storage_delete(&BP_SOCKETS, sk);
    s = bpf_sk_storage_get(&BP_SOCKETS, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
    if (!s)
        return 0;
    if (!bp_read_options(s) && !bp_read_options(s)) { /* they may change just now, but not twice */
        bpf_sk_storage_delete(&BP_SOCKETS, sk);
        return 0;
    }
    bp_begin_base(sk, &s->base);
    {
        struct bp_config config = {
            .mss = s->base.mss,
            .initial_cwnd = bp_bytes(&s->base, tcp_of(sk)->snd_cwnd),
            .paced = sk->sk_pacing_status != SK_PACING_NONE,
        };

        CORE(_init)(&s->core, &config, &s->options.options);
    }
    s->base.generation = s->options.options.generation;
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
    if (stored && stored->options.generation != s->base.generation && bp_read_options(s)) {
        CORE(_set_options)(&s->core, &s->options.options);
        s->base.generation = s->options.options.generation;
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
