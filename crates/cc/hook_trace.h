/* Hook trace of bentpipe, version 1: every call of a congestion controller in a Run, for programs in C.
 *
 * The file is little-endian and packed with gzip (zlib's gzread reads it). It is:
 *     8 bytes "BPHOOKS\1" | uint64_t length | a JSON object of that length, padded with spaces | records
 * The JSON object: controller, options, mss, initial_cwnd_bytes, seed, paced.
 *
 * A record is a head, the arguments of the call, and the state after the call. Every member of arguments and state is
 * 8 bytes. Times and spans are nanoseconds, sizes are bytes, rates are bit/s, flags are 0 or 1. BP_NONE: no value.
 */
#ifndef BENTPIPE_HOOK_TRACE_H
#define BENTPIPE_HOOK_TRACE_H

#ifdef __bpf__ /* no C library there */
typedef unsigned long long uint64_t;
typedef long long int64_t;
typedef unsigned int uint32_t;
typedef unsigned short uint16_t;
#define UINT64_MAX 0xffffffffffffffffULL
#else
#include <stdint.h>
#endif

#define BP_MAGIC "BPHOOKS\1"
#define BP_NONE UINT64_MAX

enum bp_kind {
    BP_ESTABLISHED = 1, /* struct bp_established */
    BP_ACKED = 2,       /* struct bp_ack: pkts_acked */
    BP_ACK = 3,         /* struct bp_ack: cong_avoid or cong_control */
    BP_PACKET_LOST = 4, /* struct bp_lost */
    BP_CONGESTION = 5,  /* struct bp_congestion: ssthresh, set_state, cwnd_event, undo_cwnd */
    BP_SENT = 6,        /* struct bp_sent */
    BP_PATH_HINT = 7,   /* struct bp_hint */
    BP_SET_CWND = 8,    /* struct bp_size: the sender sets the window */
    BP_SET_SSTHRESH = 9 /* struct bp_size */
};

struct bp_head {
    uint16_t kind; /* enum bp_kind */
    uint16_t size; /* of the whole record, this head and the state included [bytes] */
    uint32_t call; /* number of the call from 0, modulo 2^32 */
};

struct bp_state { /* after the call */
    uint64_t cwnd, ssthresh, pacing_rate; /* ssthresh BP_NONE: not set yet; pacing_rate BP_NONE: the sender's own rule */
};

struct bp_established { uint64_t now, rtt; };

struct bp_ack {
    uint64_t now, mss, acked, cumulative, newly_lost, rtt, srtt, min_rtt;
    uint64_t rate_prior_delivered, rate_delivered, rate_interval, rate_app_limited; /* first one BP_NONE: no rate sample */
    uint64_t delivered_total, lost_total, tx_in_flight, lost_since_sent, prior_in_flight, in_flight, ce_count;
    uint64_t ack_delayed, cwnd_limited, window_full;
    uint64_t recovery; /* tcp_ca_state: 0 Open, 1 Disorder, 2 CWR, 3 Recovery, 4 Loss */
    uint64_t app_limited, snd_una, snd_nxt, pacing_rate, next_departure;
};

struct bp_lost {
    uint64_t now, seq, bytes, sent_at, tx_in_flight, delivered_at_send, lost_at_send, lost_total, delivered_total;
    uint64_t app_limited;
};

struct bp_congestion {
    uint64_t now;
    uint64_t event; /* 0 loss, 1 ECN, 2 time-out, 3 time-out again, 4 tail loss, 5 undo, 6 end of recovery, 7 restart */
    uint64_t idle;  /* restart: time since the last send */
    uint64_t in_flight;
};

struct bp_sent { uint64_t now, in_flight, app_limited; };

struct bp_hint {
    uint64_t kind;  /* 0: a reconfiguration; 1: the wall clock */
    uint64_t value; /* its time; Unix time when the sender's clock is zero, as int64_t */
};

struct bp_size { uint64_t bytes; };

#endif
