/* How long a kernel retransmits before it gives up.
 *
 * It gives up when no ACK has come for as long as `tcp_retries2` retransmissions would take from an RTO of 200 ms to the largest one
 * (retransmits_timed_out): with 1 s that is 14.4 s in place of 15 minutes.
 */
#ifndef BENTPIPE_CORE_GIVE_UP_H
#define BENTPIPE_CORE_GIVE_UP_H

#include "fixed.h"

#define BP_LEAST_RTO_MS 200 /* TCP_RTO_MIN, from which the kernel computes when it gives up */
#define BP_RTO_DOUBLINGS 10 /* from 200 ms beyond the kernel's 120 s */

/* Returns how long the kernel waits for an ACK with this largest RTO (tcp_model_timeout): the sum of RTOs that double [ms]. */
BP_FUNC u64 bp_give_up_ms(u64 retries, u64 most_ms)
{
    u64 sum = 0, rto = BP_LEAST_RTO_MS;
    u32 n;

    for (n = 0; n < BP_RTO_DOUBLINGS && n <= retries && rto <= most_ms; n++) {
        sum += rto;
        rto *= 2;
    }
    return n > retries ? sum : sum + (retries + 1 - n) * most_ms;
}

#endif
