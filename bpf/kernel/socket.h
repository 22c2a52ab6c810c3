/* A socket as the core sees it: its state in socket storage, its numbers in the units of a hook trace. */
#ifndef BENTPIPE_SOCKET_H
#define BENTPIPE_SOCKET_H

#include "linux.h"
#include "options.h"
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

#define BP_US_PER_S 1000000ULL

#define tcp_of(sk) ((struct tcp_sock *)(sk))
#define icsk_of(sk) ((struct inet_connection_sock *)(sk))

/* Written by the loader, before it registers a controller and while sockets use it. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct bp_stored_options);
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
    __u32 network; /* inode number of its network namespace */
    __u32 family;
    __u16 local_port, remote_port; /* in host order */
    __be32 local[4], remote[4];    /* IPv4: the first ones */
};

#define BP_COPY_ADDRESS(to, from) \
    ((to)[0] = (from).in6_u.u6_addr32[0], (to)[1] = (from).in6_u.u6_addr32[1], (to)[2] = (from).in6_u.u6_addr32[2], \
     (to)[3] = (from).in6_u.u6_addr32[3])

/* What `bentpipe kernel status` shows of a socket. */
struct bp_seen {
    u64 at;            /* [ns], the kernel's monotonic clock */
    u64 cwnd, rate;    /* [bytes], [bit/s] */
    u64 srtt, min_rtt; /* [ns] */
    u64 delivered;     /* [bytes] */
    u64 lost;          /* [bytes] */
    u64 phase;         /* a number of the controller's own */
    u64 losses, marks, timeouts, probes, undone; /* reductions by their cause, and those that were undone */
};

struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 4096);
    __type(key, struct bp_ends);
    __type(value, struct bp_seen);
} BP_SEEN SEC(".maps");

#define BP_SEEN_EVERY (100 * BP_NS_PER_MS)

/* When `status` was told last, and under which key: a socket that closes has lost its addresses. */
struct bp_shown {
    u64 at;
    struct bp_ends ends;
};

/* What all controllers keep of a socket. */
struct bp_base {
    struct bp_ack ack;
    struct bp_shown shown;
    u64 is_ready;
    u64 events[BP_EVENT_RESTART + 1]; /* how many of each kind the core was told */
    u64 generation, clock_generation; /* of the options and the host's clock in use */
    u64 announced;                    /* the last handover announced [ns] */
    u64 has_timed_out;                /* a time-out was reported in ssthresh */
    u64 probed;                       /* a tail loss probe was in flight when the newest ACK came */
    u64 new_marks;                    /* of the newest ACK [packets] */
    u64 last_ack_at;                  /* [ns] */
    u64 mss;                          /* at the start, for good: totals stay comparable when the path's MSS changes [bytes] */
    u64 delivered, lost, marked;      /* the kernel's counters of 32 bits, continued [packets] */
    u64 una;                          /* the same [bytes] */
};

/* Continues a counter of 32 bits. */
BP_INLINE void bp_continue(u64 *total, __u32 counter) { *total += (__u32)(counter - (__u32)*total); }

/* No threshold yet (`TCP_INFINITE_SSTHRESH`); the most packets of a window are as many. */
#define BP_NO_SSTHRESH 0x7fffffff
#define BP_MOST_PACKETS BP_NO_SSTHRESH

BP_INLINE u64 bp_bytes(const struct bp_base *b, u64 packets) { return packets * b->mss; }

/* Returns the time of what the kernel does now [ns]: of the ACK, timer or write, so that it never runs backwards between two hooks. */
BP_INLINE u64 bp_now(struct sock *sk) { return tcp_of(sk)->tcp_mstamp * BP_NS_PER_US; }

BP_INLINE void bp_begin_base(struct sock *sk, struct bp_base *b)
{
    struct tcp_sock *tp = tcp_of(sk);

    b->mss = bp_max(tp->mss_cache, 1);
    b->delivered = tp->delivered;
    b->lost = tp->lost;
    b->marked = tp->delivered_ce;
    b->una = tp->snd_una;
    b->last_ack_at = bpf_ktime_get_ns(); /* the socket may have been silent for long */
    b->is_ready = 1;
}

BP_INLINE u64 bp_in_flight(struct sock *sk)
{
    struct tcp_sock *tp = tcp_of(sk);

    return bp_sub_sat((u64)tp->packets_out + tp->retrans_out, (u64)tp->sacked_out + tp->lost_out);
}

BP_INLINE u64 bp_recovery_state(struct sock *sk) { return BPF_CORE_READ_BITFIELD(icsk_of(sk), icsk_ca_state); }

/* Returns the smoothed RTT [ns]; 0: none yet. */
BP_INLINE u64 bp_srtt(struct sock *sk) { return (u64)tcp_of(sk)->srtt_us * (BP_NS_PER_US / 8); }

/* Returns whether the window limits the sender: not less than half of it is in use in slow start, all of it later (RFC 7661). */
BP_INLINE u64 bp_cwnd_limited(struct sock *sk)
{
    struct tcp_sock *tp = tcp_of(sk);

    if (BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited))
        return 1;
    return tp->snd_cwnd < tp->snd_ssthresh && tp->snd_cwnd < 2 * tp->max_packets_out;
}

/* Returns a window of so many bytes in packets, within what the kernel allows. */
BP_INLINE __u32 bp_window_of(struct sock *sk, const struct bp_base *b, u64 bytes)
{
    return bp_clamp(bp_packets(bytes, b->mss), 1, bp_clamp(tcp_of(sk)->snd_cwnd_clamp, 1, BP_MOST_PACKETS));
}

/* Fills in what every ACK has; the rate sample is the caller's. */
BP_INLINE void bp_fill_ack(struct sock *sk, struct bp_base *b)
{
    struct tcp_sock *tp = tcp_of(sk);
    struct bp_ack *ack = &b->ack;

    bp_continue(&b->delivered, tp->delivered);
    bp_continue(&b->lost, tp->lost);
    b->new_marks = (__u32)(tp->delivered_ce - (__u32)b->marked);
    bp_continue(&b->marked, tp->delivered_ce);
    bp_continue(&b->una, tp->snd_una);
    ack->now = bp_now(sk);
    ack->mss = b->mss;
    ack->srtt = bp_srtt(sk);
    ack->min_rtt = tp->rtt_min.s[0].v == ~0U ? BP_MAX : (u64)tp->rtt_min.s[0].v * BP_NS_PER_US;
    ack->delivered_total = bp_bytes(b, b->delivered);
    ack->lost_total = bp_bytes(b, b->lost);
    ack->in_flight = bp_bytes(b, bp_in_flight(sk));
    ack->ce_count = b->marked;
    ack->cwnd_limited = bp_cwnd_limited(sk);
    ack->window_full = BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited);
    ack->recovery = bp_recovery_state(sk);
    ack->app_limited = !!tp->app_limited;
    ack->snd_una = b->una;
    ack->snd_nxt = b->una + (__u32)(tp->snd_nxt - tp->snd_una);
    ack->pacing_rate = sk->sk_pacing_rate * 8;
    ack->next_departure = tp->tcp_wstamp_ns;
    ack->rtt = BP_NONE;
    ack->rate_prior_delivered = BP_NONE;
    b->last_ack_at = ack->now;
}

/* Kind of the reduction that the kernel asks ssthresh for; BP_EVENT_TAIL_LOSS: a tail loss probe repaired a loss, which no packet is marked for.
 * ECN and a full local queue mark none either. A time-out disarms its timer first. It need not mark all packets lost (not those that RACK still
 * expects), and a fast recovery may begin with all of them lost or delivered. */
BP_INLINE u64 bp_reduction(struct sock *sk, struct bp_base *b)
{
    struct tcp_sock *tp = tcp_of(sk);

    b->has_timed_out = tp->lost_out && !icsk_of(sk)->icsk_pending;
    if (b->has_timed_out)
        return BP_EVENT_TIMEOUT;
    if (tp->lost_out)
        return BP_EVENT_LOSS;
    return b->probed && !b->new_marks && tp->delivered_ce == (__u32)b->marked ? BP_EVENT_TAIL_LOSS : BP_EVENT_ECN;
}

/* Returns whether the kernel enters its state Loss for a time-out: then it has set the window. A smaller MSS leads there, too, without congestion. */
BP_INLINE int bp_is_timeout(struct sock *sk) { return tcp_of(sk)->snd_cwnd == bp_in_flight(sk) + 1; }

/* Event of a change of state; BP_NONE: none. A time-out's reduction, if it had one, was reported before. */
BP_INLINE u64 bp_event_of_state(struct sock *sk, struct bp_base *b, __u8 new_state)
{
    if (new_state == BP_LOSS) {
        u64 kind = b->has_timed_out || !bp_is_timeout(sk) ? BP_NONE : BP_EVENT_TIMEOUT_AGAIN;

        b->has_timed_out = 0;
        return kind;
    }
    return new_state < BP_CWR && bp_recovery_state(sk) >= BP_CWR ? BP_EVENT_RECOVERY_END : BP_NONE;
}

/* Time since the last packet was sent, when none is expected: it was acknowledged an RTT later. With packets that are lost: at least since the last ACK. */
BP_INLINE u64 bp_idle(struct sock *sk, const struct bp_base *b)
{
    return bp_sub_sat(bp_now(sk), b->last_ack_at) + (tcp_of(sk)->packets_out ? 0 : bp_srtt(sk));
}

/* Reno's window for a socket without state: the kernel had no memory for it. */
BP_INLINE void bp_grow_without_state(struct sock *sk, __u32 acked)
{
    struct tcp_sock *tp = tcp_of(sk);

    if (!bp_cwnd_limited(sk))
        return;
    if (tp->snd_cwnd < tp->snd_ssthresh) {
        tp->snd_cwnd = bp_min((u64)tp->snd_cwnd + acked, tp->snd_ssthresh);
        return;
    }
    tp->snd_cwnd_cnt += acked;
    if (tp->snd_cwnd_cnt >= tp->snd_cwnd) {
        tp->snd_cwnd_cnt = 0;
        tp->snd_cwnd++;
    }
}

BP_INLINE void bp_ends_of(struct sock *sk, struct bp_ends *ends)
{
    struct sock_common *c = &sk->__sk_common;
    struct bp_ends e = {
        .network = c->skc_net.net->ns.inum,
        .family = c->skc_family,
        .local_port = c->skc_num,
        .remote_port = __builtin_bswap16(c->skc_dport),
    };

    /* Without bpf_core_read, which a locked-down kernel does not give. */
    if (e.family == 2) {
        e.local[0] = c->skc_rcv_saddr;
        e.remote[0] = c->skc_daddr;
    } else if (bpf_core_field_exists(c->skc_v6_daddr)) {
        BP_COPY_ADDRESS(e.local, c->skc_v6_rcv_saddr);
        BP_COPY_ADDRESS(e.remote, c->skc_v6_daddr);
    }
    *ends = e;
}

/* Tells `status` about the socket, ten times a second at most. */
BP_INLINE void bp_show(struct sock *sk, struct bp_base *b, u64 phase)
{
    struct bp_shown *shown = &b->shown;
    struct tcp_sock *tp = tcp_of(sk);
    struct bp_seen entry = {.at = bpf_ktime_get_ns()};

    if (entry.at - shown->at < BP_SEEN_EVERY)
        return;
    if (!shown->at)
        bp_ends_of(sk, &shown->ends);
    shown->at = entry.at;
    entry.cwnd = (u64)tp->snd_cwnd * tp->mss_cache;
    entry.rate = sk->sk_pacing_rate * 8;
    entry.srtt = bp_srtt(sk);
    entry.min_rtt = b->ack.min_rtt == BP_MAX ? 0 : b->ack.min_rtt;
    entry.delivered = bp_bytes(b, b->delivered);
    entry.lost = bp_bytes(b, b->lost);
    entry.phase = phase;
    entry.losses = b->events[BP_EVENT_LOSS] - b->events[BP_EVENT_TAIL_LOSS];
    entry.marks = b->events[BP_EVENT_ECN];
    entry.timeouts = b->events[BP_EVENT_TIMEOUT] + b->events[BP_EVENT_TIMEOUT_AGAIN];
    entry.probes = b->events[BP_EVENT_TAIL_LOSS];
    entry.undone = b->events[BP_EVENT_UNDO];
    bpf_map_update_elem(&BP_SEEN, &shown->ends, &entry, 0);
}

BP_INLINE void bp_forget(const struct bp_shown *shown)
{
    if (shown->at)
        bpf_map_delete_elem(&BP_SEEN, &shown->ends);
}

#endif
