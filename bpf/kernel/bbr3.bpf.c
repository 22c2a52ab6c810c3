/* BBR version 3 for a Linux kernel. */
#include "bbr3.h"

#define BP_ID bbr3
#define BP_NAME "bbr3"
BP_INLINE u64 bp_bbr3_phase(const struct bp_bbr3 *b) { return b->phase; }
#include "rate_hooks.h"
