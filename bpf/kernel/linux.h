/* What the controllers use of the kernel's types. Offsets come from the running kernel (CO-RE), so a member that is not named here does not matter. */
#ifndef BENTPIPE_LINUX_H
#define BENTPIPE_LINUX_H

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed char __s8;
typedef short __s16;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;

enum bpf_map_type { BPF_MAP_TYPE_ARRAY = 2, BPF_MAP_TYPE_LRU_HASH = 9, BPF_MAP_TYPE_SK_STORAGE = 24, BPF_MAP_TYPE_RINGBUF = 27 };
enum { BPF_F_NO_PREALLOC = 1, BPF_SK_STORAGE_GET_F_CREATE = 1 };

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct in6_addr {
    union {
        __be32 u6_addr32[4];
    } in6_u;
};

struct ns_common {
    __u32 inum;
};

struct netns_ipv4 {
    __u8 sysctl_tcp_retries2;
};

struct net {
    struct ns_common ns;
    struct netns_ipv4 ipv4;
};

typedef struct {
    struct net *net;
} possible_net_t;

struct sock_common {
    __be32 skc_daddr, skc_rcv_saddr;
    __be16 skc_dport;
    __u16 skc_num, skc_family;
    volatile __u8 skc_state;
    possible_net_t skc_net;
    struct in6_addr skc_v6_daddr, skc_v6_rcv_saddr;
};

struct sock {
    struct sock_common __sk_common;
    unsigned long sk_pacing_rate; /* [bytes/s] */
    unsigned long sk_max_pacing_rate;
    __u32 sk_pacing_status; /* enum sk_pacing */
};

struct inet_connection_sock {
    __u8 icsk_ca_state : 5;
    __u8 icsk_pending; /* the timer that is armed; 0 while a time-out is processed */
};

struct minmax_sample {
    __u32 t, v;
};

struct minmax {
    struct minmax_sample s[3];
};

struct tcp_sock {
    struct inet_connection_sock inet_conn;
    __u32 snd_cwnd, snd_cwnd_cnt, snd_cwnd_clamp, snd_ssthresh;
    __u32 packets_out, sacked_out, lost_out, retrans_out, max_packets_out;
    __u32 delivered, delivered_ce, lost, app_limited;
    __u32 srtt_us; /* [µs / 8] */
    struct minmax rtt_min;
    __u32 mss_cache, snd_una, snd_nxt, snd_wnd, rate_delivered, rate_interval_us;
    __u64 tcp_mstamp, tcp_wstamp_ns;
    __u32 tlp_high_seq; /* 0: no tail loss probe is in flight */
    __u8 is_cwnd_limited : 1;
    __u8 rate_app_limited : 1;
};

struct rate_sample {
    __u64 prior_mstamp;
    __u32 prior_delivered, prior_delivered_ce;
    __s32 delivered, delivered_ce;
    long interval_us;
    __u32 snd_interval_us, rcv_interval_us;
    long rtt_us;
    int losses;
    __u32 acked_sacked, prior_in_flight, last_end_seq;
    _Bool is_app_limited, is_retrans, is_ack_delayed;
};

struct ack_sample {
    __u32 pkts_acked;
    __s32 rtt_us;
    __u32 in_flight;
};

#pragma clang attribute pop

enum tcp_ca_event {
    CA_EVENT_TX_START,
    CA_EVENT_CWND_RESTART,
    CA_EVENT_COMPLETE_CWR,
    CA_EVENT_LOSS,
    CA_EVENT_ECN_NO_CE,
    CA_EVENT_ECN_IS_CE
};

enum sk_pacing { SK_PACING_NONE, SK_PACING_NEEDED, SK_PACING_FQ };

struct tcp_congestion_ops {
    __u32 (*ssthresh)(struct sock *sk);
    void (*cong_avoid)(struct sock *sk, __u32 ack, __u32 acked);
    void (*set_state)(struct sock *sk, __u8 new_state);
    void (*cwnd_event)(struct sock *sk, enum tcp_ca_event event);
    void (*pkts_acked)(struct sock *sk, const struct ack_sample *sample);
    __u32 (*min_tso_segs)(struct sock *sk);
    void (*cong_control)(struct sock *sk, __u32 ack, int flag, const struct rate_sample *rs);
    __u32 (*undo_cwnd)(struct sock *sk);
    __u32 (*sndbuf_expand)(struct sock *sk);
    char name[16];
    __u32 flags;
    void (*init)(struct sock *sk);
    void (*release)(struct sock *sk);
};

/* Options of a socket. */
#define SOL_TCP 6
#define TCP_USER_TIMEOUT 18 /* [ms] */
#define TCP_RTO_MAX_MS 44 /* Linux 6.15 [ms] */

/* States of a socket whose program may still send. */
#define BP_TCP_ESTABLISHED 1
#define BP_TCP_CLOSE_WAIT 8

/* Sockets of all users may choose it, as those in net.ipv4.tcp_allowed_congestion_control. */
#define TCP_CONG_NON_RESTRICTED 1

#endif
