/* Largest RTO of a socket in an outage (TCP_RTO_MAX_MS, Linux 6.15): set at a time-out, taken back at the first ACK without need of it.
 *
 * It grows with the silence, so that the kernel does not give up sooner (give_up.h). The kernel shortens other times of a socket by it, too: those of one that
 * is closed with data left (tcp_orphan_retries), and of one whose receiver has no window (tcp_rtx_probe0_timed_out). Neither has a lowered one.
 */
#ifndef BENTPIPE_RTO_H
#define BENTPIPE_RTO_H

#include "give_up.h"
#include "socket.h"

struct bp_rto {
    __u32 hosts_ms;   /* before it was lowered */
    __u32 lowered_ms; /* now; 0: it is not */
};

/* Returns how long ago the first retransmission was that no ACK has followed [ms]. */
BP_INLINE u64 bp_silent_ms(struct sock *sk)
{
    struct tcp_sock *tp = tcp_of(sk);
    u64 in_us = bpf_core_field_exists(tp->tcp_usec_ts) && BPF_CORE_READ_BITFIELD(tp, tcp_usec_ts);
    __u32 now = in_us ? tp->tcp_mstamp : tp->tcp_mstamp / 1000;

    if (!tp->retrans_stamp)
        return 0;
    return (__u32)(now - tp->retrans_stamp) / (in_us ? 1000 : 1);
}

BP_INLINE int bp_is_open(struct sock *sk)
{
    __u8 state = sk->__sk_common.skc_state;

    return state == BP_TCP_ESTABLISHED || state == BP_TCP_CLOSE_WAIT;
}

/* What a socket had, while its largest RTO is lowered. It outlives the controller, which cannot set an option of a socket that it is taken from. */
#define BP_RTOS BP_JOIN(bpr_, BP_ID, )
struct {
    __uint(type, BPF_MAP_TYPE_SK_STORAGE);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, int);
    __type(value, struct bp_rto);
} BP_RTOS SEC(".maps");

BP_INLINE void bp_set_rto_max(struct sock *sk, struct bp_rto *r, __u32 ms)
{
    bpf_setsockopt(sk, SOL_TCP, TCP_RTO_MAX_MS, &ms, sizeof(ms));
    bpf_getsockopt(sk, SOL_TCP, TCP_RTO_MAX_MS, &ms, sizeof(ms)); /* as the kernel rounds it */
    r->lowered_ms = ms < r->hosts_ms ? ms : 0;
}

/* Gives the host's value back, unless the program has set another one meanwhile. */
BP_INLINE void bp_restore_rto(struct sock *sk, struct bp_rto *r)
{
    __u32 ms = 0;

    if (!r->lowered_ms)
        return;
    if (!bpf_getsockopt(sk, SOL_TCP, TCP_RTO_MAX_MS, &ms, sizeof(ms)) && ms == r->lowered_ms)
        bp_set_rto_max(sk, r, r->hosts_ms);
    r->lowered_ms = 0;
    bpf_sk_storage_delete(&BP_RTOS, sk);
}

/* For a socket that comes back to this controller. */
BP_INLINE void bp_restore_former_rto(struct sock *sk)
{
    struct bp_rto *kept = bpf_sk_storage_get(&BP_RTOS, sk, 0, 0);
    struct bp_rto r;

    if (!kept)
        return;
    r = *kept;
    bp_restore_rto(sk, &r);
}

/* Sets the largest RTO at a time-out, before the kernel doubles the RTO. `wanted` [ns]; BP_NONE: the host's. Before Linux 6.15 a socket has none. */
BP_INLINE void bp_lower_rto(struct sock *sk, struct bp_rto *r, u64 wanted)
{
    struct bp_rto *kept;
    __u32 now_ms = 0;
    u64 ms;

    if (wanted == BP_NONE || !tcp_of(sk)->snd_wnd || !bp_is_open(sk)) {
        bp_restore_rto(sk, r);
        return;
    }
    if (bpf_getsockopt(sk, SOL_TCP, TCP_RTO_MAX_MS, &now_ms, sizeof(now_ms)))
        return;
    if (now_ms != r->lowered_ms)
        r->hosts_ms = now_ms;
    ms = bp_rto_max_ms(wanted / BP_NS_PER_MS, bp_silent_ms(sk), sk->__sk_common.skc_net.net->ipv4.sysctl_tcp_retries2);
    if (ms >= r->hosts_ms) {
        bp_restore_rto(sk, r);
        return;
    }
    if (ms == now_ms)
        return;
    kept = bpf_sk_storage_get(&BP_RTOS, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
    if (!kept)
        return;
    bp_set_rto_max(sk, r, ms);
    *kept = *r;
}

#endif
