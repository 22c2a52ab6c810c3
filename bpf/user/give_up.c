/* When a kernel gives up, by a name that a program can call. */
#include "give_up.h"

u64 bp_user_give_up_ms(u64 retries, u64 most_ms) { return bp_give_up_ms(retries, most_ms); }
