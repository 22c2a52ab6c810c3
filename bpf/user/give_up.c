/* When a kernel gives up, by names that a program can call. */
#include "give_up.h"

u64 bp_user_give_up_ms(u64 retries, u64 most_ms) { return bp_give_up_ms(retries, most_ms); }
u64 bp_user_rto_max_ms(u64 wanted_ms, u64 silent_ms, u64 retries) { return bp_rto_max_ms(wanted_ms, silent_ms, retries); }
