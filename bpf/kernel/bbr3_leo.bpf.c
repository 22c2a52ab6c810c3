/* bbr3-leo for a Linux kernel. */
#include "bbr3_leo.h"

#define BP_ID bbr3_leo
#define BP_NAME "bbr3_leo"
#define BP_BOUNDS_RTO /* the controller says what the socket's largest RTO is */
#define BP_MONITOR(core) (&(core)->monitor)

/* After the phases of BBR: the model of the slot sets the window, or the one before an outage is resumed. */
enum { BP_PHASE_SLOT = BP_BBR3_NO_PHASE, BP_PHASE_RESUME };

BP_INLINE u64 bp_bbr3_leo_phase(const struct bp_bbr3_leo *b)
{
    if (b->inflight_limit == BP_NONE)
        return b->bbr.phase;
    return b->outage.is_on ? BP_PHASE_RESUME : BP_PHASE_SLOT;
}

#include "rate_hooks.h"
