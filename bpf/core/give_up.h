/* How long a kernel retransmits before it gives up, and the largest RTO with which it goes on.
 *
 * It gives up when no ACK has come for as long as `tcp_retries2` retransmissions would take from an RTO of 200 ms to the largest one
 * (retransmits_timed_out): with 1 s that is 14.4 s in place of 15 minutes. A largest RTO that grows with the silence, to an eighth and after ten minutes between a fifth and a sixth of it, and then is the
 * host's leaves a connection the time that it has with the host's alone.
 */
#ifndef BENTPIPE_CORE_GIVE_UP_H
#define BENTPIPE_CORE_GIVE_UP_H

#include "fixed.h"

#define BP_LEAST_RTO_MS 200      /* TCP_RTO_MIN, from which the kernel computes when it gives up */
#define BP_LEAST_RTO_MAX_MS 1000 /* that TCP_RTO_MAX_MS takes */
#define BP_RTO_DOUBLINGS 10      /* from 200 ms beyond the kernel's 120 s */
#define BP_RTO_STEPS 24          /* of a quarter each, from the least largest RTO beyond 120 s */
#define BP_SPARE_MS 5000         /* left after the next time-out, beside its time again. Chosen here: a paused virtual machine is late by seconds */

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

/* Returns the least largest RTO, from `wanted_ms` on, with which the next time-out comes before the kernel gives up [ms]; BP_MAX: none does. */
BP_FUNC u64 bp_rto_max_ms(u64 wanted_ms, u64 silent_ms, u64 retries)
{
    u64 ms = bp_max(wanted_ms, BP_LEAST_RTO_MAX_MS);
    u32 n;

    for (n = 0; n < BP_RTO_STEPS && bp_give_up_ms(retries, ms) <= silent_ms + 2 * ms + BP_SPARE_MS; n++)
        ms += ms / 4;
    return n < BP_RTO_STEPS ? ms : BP_MAX;
}

#endif
