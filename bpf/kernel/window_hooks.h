/* Hooks of a controller that sets a window and leaves recovery to the kernel (cong_avoid).
 *
 * Before: BP_ID, the name of its functions in the core; BP_NAME, its name in the kernel; BP_WINDOW(core), where its window is; BP_MONITOR(core), where
 * its monitor of handovers is, if it has one. The kernel changes the window by itself, too (recovery, time-outs): each hook first tells the core.
 */
#include "socket.h"

struct bp_hook_state {}; /* nothing beside the window */

#include "socket_state.h"

/* Tells the core what the kernel did to the window meanwhile. */
BP_INLINE void bp_follow(struct sock *sk, struct bp_socket *s)
{
    struct tcp_sock *tp = tcp_of(sk);

    if (tp->snd_cwnd != bp_packets(CORE(_cwnd)(&s->core), s->base.mss)) /* also where the kernel's limit (snd_cwnd_clamp) cut it */
        CORE(_set_cwnd)(&s->core, bp_bytes(&s->base, tp->snd_cwnd));
    CORE(_set_ssthresh)(&s->core, tp->snd_ssthresh >= BP_NO_SSTHRESH ? BP_NONE : bp_bytes(&s->base, tp->snd_ssthresh));
}

BP_INLINE void bp_store_window(struct sock *sk, const struct bp_socket *s)
{
    tcp_of(sk)->snd_cwnd = bp_window_of(sk, &s->base, CORE(_cwnd)(&s->core));
    tcp_of(sk)->snd_ssthresh = bp_min(BP_WINDOW(&s->core)->ssthresh, BP_NO_SSTHRESH);
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
    s->base.probed = !!tp->tlp_high_seq;
    bp_fill_ack(sk, &s->base);
    ack = &s->base.ack;
    ack->acked = ack->cumulative = bp_bytes(&s->base, packets);
    ack->rtt = rtt_us < 0 ? BP_NONE : (u64)rtt_us * BP_NS_PER_US;
    ack->ack_delayed = packets == 1 && !tp->packets_out; /* a lone packet: its receiver may have waited for another */
    if (tp->rate_interval_us) {
        ack->rate_delivered = bp_bytes(&s->base, tp->rate_delivered);
        ack->rate_prior_delivered = bp_sub_sat(ack->delivered_total, ack->rate_delivered);
        ack->rate_interval = (u64)tp->rate_interval_us * BP_NS_PER_US;
        ack->rate_app_limited = ack->app_limited || BPF_CORE_READ_BITFIELD(tp, rate_app_limited); /* of now: the sample may be an old one */
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
    bp_reduce(sk, s);
    return bp_min(BP_WINDOW(&s->core)->ssthresh, BP_NO_SSTHRESH);
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
