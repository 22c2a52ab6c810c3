/* BBR version 2 for a Linux kernel. */
#include "bbr2.h"

#define BP_ID bbr2
#define BP_NAME "bbr2"
BP_INLINE u64 bp_bbr2_phase(const struct bp_bbr2 *b) { return b->bbr.phase; }
#include "rate_hooks.h"
