/* Largest RTO of a socket in an outage (TCP_RTO_MAX_MS, Linux 6.15): set at a time-out, taken back at the first ACK without need of it.
 *
 * The kernel computes from it when it gives up (give_up.h). So a socket whose program has set no TCP_USER_TIMEOUT has the time that the host's value gives it as
 * one meanwhile. The kernel shortens other times of a socket by the largest RTO, too: those of one that is closed with data left (tcp_orphan_retries), and of one
 * whose receiver has no window (tcp_rtx_probe0_timed_out). Neither has a lowered one.
 */
#ifndef BENTPIPE_RTO_H
#define BENTPIPE_RTO_H

#include "give_up.h"
#include "socket.h"

#define BP_LEAST_RTO_MAX_MS 1000           /* that TCP_RTO_MAX_MS takes */
#define BP_MOST_USER_TIMEOUT_MS 0x7fffffff /* that TCP_USER_TIMEOUT takes */

struct bp_rto {
    __u32 hosts_ms;   /* before it was lowered */
    __u32 lowered_ms; /* now; 0: it is not */
    __u32 gives_up_ms; /* TCP_USER_TIMEOUT meanwhile; 0: the program's own */
};

BP_INLINE __u32 bp_tcp_option(struct sock *sk, int option)
{
    __u32 value = 0;

    return bpf_getsockopt(sk, SOL_TCP, option, &value, sizeof(value)) ? 0 : value;
}

BP_INLINE int bp_set_tcp_option(struct sock *sk, int option, __u32 value) { return bpf_setsockopt(sk, SOL_TCP, option, &value, sizeof(value)); }

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

/* Gives the host's values back, unless the program has set others meanwhile. */
BP_INLINE void bp_restore_rto(struct sock *sk, struct bp_rto *r)
{
    if (!r->lowered_ms)
        return;
    if (bp_tcp_option(sk, TCP_RTO_MAX_MS) == r->lowered_ms)
        bp_set_tcp_option(sk, TCP_RTO_MAX_MS, r->hosts_ms);
    if (r->gives_up_ms && bp_tcp_option(sk, TCP_USER_TIMEOUT) == r->gives_up_ms)
        bp_set_tcp_option(sk, TCP_USER_TIMEOUT, 0);
    r->lowered_ms = r->gives_up_ms = 0;
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

/* Lets the socket live as long as with the host's largest RTO; returns whether it does. */
BP_INLINE int bp_keep_alive(struct sock *sk, struct bp_rto *r)
{
    if (r->gives_up_ms || bp_tcp_option(sk, TCP_USER_TIMEOUT))
        return 1;
    r->gives_up_ms = bp_min(bp_give_up_ms(sk->__sk_common.skc_net.net->ipv4.sysctl_tcp_retries2, r->hosts_ms), BP_MOST_USER_TIMEOUT_MS);
    if (!bp_set_tcp_option(sk, TCP_USER_TIMEOUT, r->gives_up_ms))
        return 1;
    r->gives_up_ms = 0;
    return 0;
}

/* Sets the largest RTO at a time-out, before the kernel doubles the RTO. `wanted` [ns]; BP_NONE: the host's. Before Linux 6.15 a socket has none. */
BP_INLINE void bp_lower_rto(struct sock *sk, struct bp_rto *r, u64 wanted)
{
    __u32 now_ms = bp_tcp_option(sk, TCP_RTO_MAX_MS);
    struct bp_rto *kept;
    u64 ms;

    if (!now_ms)
        return;
    if (now_ms != r->lowered_ms)
        r->hosts_ms = now_ms;
    ms = bp_max(wanted / BP_NS_PER_MS, BP_LEAST_RTO_MAX_MS);
    if (wanted == BP_NONE || ms >= r->hosts_ms || !tcp_of(sk)->snd_wnd || !bp_is_open(sk)) {
        bp_restore_rto(sk, r);
        return;
    }
    if (ms == now_ms)
        return;
    kept = bpf_sk_storage_get(&BP_RTOS, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
    if (!kept)
        return;
    bp_set_tcp_option(sk, TCP_RTO_MAX_MS, ms);
    r->lowered_ms = bp_tcp_option(sk, TCP_RTO_MAX_MS); /* as the kernel rounds it */
    if (r->lowered_ms < r->hosts_ms && bp_keep_alive(sk, r))
        *kept = *r;
    else
        bp_restore_rto(sk, r);
}

#endif
