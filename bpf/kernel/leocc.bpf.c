/* LeoCC for a Linux kernel. */
#include "leocc.h"

#define BP_ID leocc
#define BP_NAME "leocc"
#define BP_WALL_CLOCK

BP_INLINE u64 bp_leocc_phase(const struct bp_leocc *l) { return l->bbr.mode; }

#include "rate_hooks.h"
