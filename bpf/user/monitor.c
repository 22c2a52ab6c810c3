/* A monitor with nothing but a shared clock. */
#include "monitor.h"

/* Returns whether it expects reconfigurations at all (bit 0), and one now (bit 1). */
u64 bp_user_shared_clock(u64 period, u64 at, u64 until, u64 now)
{
    static const struct bp_options options = {.word = {BP_MONITOR_LEARNED}};
    struct bp_monitor monitor;

    bp_monitor_init(&monitor, &options, 0);
    bp_monitor_set_clock(&monitor, period, at, until);
    return (u64)bp_monitor_is_leo(&monitor, now) | (u64)bp_monitor_is_near(&monitor, now) << 1;
}
