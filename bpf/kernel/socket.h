/* A socket as the core sees it: its state in socket storage, its numbers in the units of a hook trace. */
#ifndef BENTPIPE_SOCKET_H
#define BENTPIPE_SOCKET_H

#include "linux.h"
#include "types.h"
#include "window.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

/* The kernel's generator gives 32 bits. */
BP_FUNC u64 bp_random_below(u64 n)
{
    u64 bits = (u64)bpf_get_prandom_u32() << 32 | bpf_get_prandom_u32();

    return bp_wide_mul(bits, n).high;
}

/* Names of maps and of the struct_ops: which is whose is seen by the controller's id (15 characters at most). */
#define BP_JOIN_(a, b, c) a##b##c
#define BP_JOIN(a, b, c) BP_JOIN_(a, b, c)
#define BP_OPTIONS BP_JOIN(bpo_, BP_ID, )
#define BP_SEEN BP_JOIN(bps_, BP_ID, )
#define BP_CONTROLLER BP_JOIN(bpc_, BP_ID, )
#define BP_CLOCK BP_JOIN(bpt_, BP_ID, )
#define BP_SOCKETS BP_JOIN(bpk_, BP_ID, )

#define tcp_of(sk) ((struct tcp_sock *)(sk))
#define icsk_of(sk) ((struct inet_connection_sock *)(sk))

/* Written by the loader, before it registers a controller and while sockets use it. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct bp_options);
} BP_OPTIONS SEC(".maps");

/* The host's clock of handovers, which `bentpipe clock` writes, and its wall clock. */
struct bp_host_clock {
    u64 generation;        /* grows with each change */
    u64 period, at, until; /* [ns], on the kernel's monotonic clock; a period of 0: none */
    u64 unix_ns;           /* wall-clock time when the monotonic clock is zero; 0: not known */
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct bp_host_clock);
} BP_CLOCK SEC(".maps");


/* A connection's ends: a program of this kind may not ask for a socket's cookie. */
struct bp_ends {
    __u32 family;
    __u16 local_port, remote_port; /* in host order */
    __u8 local[16], remote[16];    /* IPv4: the first four bytes */
};

/* What `bentpipe kernel status` shows of a socket. */
struct bp_seen {
    u64 at;            /* [ns], the kernel's monotonic clock */
    u64 cwnd, rate;    /* [bytes], [bit/s] */
    u64 srtt, min_rtt; /* [ns] */
    u64 delivered;     /* [bytes] */
    u64 lost;          /* [bytes] */
    u64 phase; /* a number of the controller's own */
};

struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 4096);
    __type(key, struct bp_ends);
    __type(value, struct bp_seen);
} BP_SEEN SEC(".maps");

#define BP_SEEN_EVERY (100 * BP_NS_PER_MS)

BP_INLINE u64 bp_mss(struct sock *sk) { return bp_max(tcp_of(sk)->mss_cache, 1); }
BP_INLINE u64 bp_bytes(struct sock *sk, u64 packets) { return packets * bp_mss(sk); }

BP_INLINE u64 bp_in_flight(struct sock *sk)
{
    struct tcp_sock *tp = tcp_of(sk);

    return bp_sub_sat((u64)tp->packets_out + tp->retrans_out, (u64)tp->sacked_out + tp->lost_out);
}

BP_INLINE u64 bp_recovery_state(struct sock *sk) { return BPF_CORE_READ_BITFIELD(icsk_of(sk), icsk_ca_state); }

/* Returns whether the window limits the sender: not less than half of it is in use in slow start, all of it later (RFC 7661). */
BP_INLINE u64 bp_cwnd_limited(struct sock *sk)
{
    struct tcp_sock *tp = tcp_of(sk);

    if (BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited))
        return 1;
    return tp->snd_cwnd < tp->snd_ssthresh && tp->snd_cwnd < 2 * tp->max_packets_out;
}

/* Fills in what every ACK has; the rate sample is the caller's. */
BP_INLINE void bp_fill_ack(struct sock *sk, struct bp_ack *ack)
{
    struct tcp_sock *tp = tcp_of(sk);

    ack->now = tp->tcp_mstamp * BP_NS_PER_US;
    ack->mss = bp_mss(sk);
    ack->srtt = (u64)tp->srtt_us * (BP_NS_PER_US / 8);
    ack->min_rtt = tp->rtt_min.s[0].v == ~0U ? BP_MAX : (u64)tp->rtt_min.s[0].v * BP_NS_PER_US;
    ack->delivered_total = bp_bytes(sk, tp->delivered);
    ack->lost_total = bp_bytes(sk, tp->lost);
    ack->in_flight = bp_bytes(sk, bp_in_flight(sk));
    ack->ce_count = tp->delivered_ce;
    ack->cwnd_limited = bp_cwnd_limited(sk);
    ack->window_full = BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited);
    ack->recovery = bp_recovery_state(sk);
    ack->app_limited = !!tp->app_limited;
    ack->snd_una = tp->snd_una;
    ack->snd_nxt = tp->snd_nxt;
    ack->pacing_rate = sk->sk_pacing_rate * 8;
    ack->next_departure = tp->tcp_wstamp_ns;
    ack->rtt = BP_NONE;
    ack->rate_prior_delivered = BP_NONE;
}

BP_INLINE void bp_ends_of(struct sock *sk, struct bp_ends *ends)
{
    struct sock_common *c = &sk->__sk_common;
    struct bp_ends e = {.family = c->skc_family, .local_port = c->skc_num, .remote_port = __builtin_bswap16(c->skc_dport)};

    if (e.family == 2) {
        __builtin_memcpy(e.local, &(__be32){c->skc_rcv_saddr}, 4);
        __builtin_memcpy(e.remote, &(__be32){c->skc_daddr}, 4);
    } else {
        bpf_core_read(e.local, 16, &c->skc_v6_rcv_saddr);
        bpf_core_read(e.remote, 16, &c->skc_v6_daddr);
    }
    *ends = e;
}

/* When `status` was told last, and under which key: a socket that closes has lost its addresses. */
struct bp_shown {
    u64 at;
    struct bp_ends ends;
};

/* Tells `status` about the socket, ten times a second at most. */
BP_INLINE void bp_show(struct sock *sk, struct bp_shown *shown, u64 phase)
{
    struct tcp_sock *tp = tcp_of(sk);
    struct bp_seen entry = {.at = bpf_ktime_get_ns()};

    if (entry.at - shown->at < BP_SEEN_EVERY)
        return;
    if (!shown->at)
        bp_ends_of(sk, &shown->ends);
    shown->at = entry.at;
    entry.cwnd = bp_bytes(sk, tp->snd_cwnd);
    entry.rate = sk->sk_pacing_rate * 8;
    entry.srtt = (u64)tp->srtt_us * (BP_NS_PER_US / 8);
    entry.min_rtt = (u64)tp->rtt_min.s[0].v * BP_NS_PER_US;
    entry.delivered = bp_bytes(sk, tp->delivered);
    entry.lost = bp_bytes(sk, tp->lost);
    entry.phase = phase;
    bpf_map_update_elem(&BP_SEEN, &shown->ends, &entry, 0);
}

BP_INLINE void bp_forget(const struct bp_shown *shown)
{
    if (shown->at)
        bpf_map_delete_elem(&BP_SEEN, &shown->ends);
}

#endif
