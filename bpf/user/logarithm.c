/* The core's functions of logarithm.h with names that a program can call. */
#include "logarithm.h"

s64 bp_user_ln(u64 value) { return bp_ln(value); }
u64 bp_user_exp_of_minus(u64 x) { return bp_exp_of_minus(x); }
u64 bp_user_isqrt(u64 value) { return bp_isqrt(value); }
