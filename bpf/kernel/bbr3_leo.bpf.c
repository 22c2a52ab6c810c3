/* bbr3-leo for a Linux kernel. */
#include "bbr3_leo.h"

#define BP_ID bbr3_leo
#define BP_NAME "bbr3_leo"
#define BP_BOUNDS_RTO /* the controller says what the socket's largest RTO is */
#define BP_MONITOR(core) (&(core)->monitor)
#define BP_PHASE_SLOT BP_BBR3_NO_PHASE /* the model of the slot sets the window */

BP_INLINE u64 bp_bbr3_leo_phase(const struct bp_bbr3_leo *b)
{
    return b->inflight_limit != BP_NONE ? BP_PHASE_SLOT : b->bbr.phase;
}

#include "rate_hooks.h"
