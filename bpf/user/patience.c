/* The patience of a kernel with names that a program can call. */
#include "patience.h"

u64 bp_user_patience_ms(u64 retries, u64 most_ms) { return bp_patience_ms(retries, most_ms); }
u64 bp_user_patient_rto_ms(u64 wanted_ms, u64 silent_ms, u64 retries) { return bp_patient_rto_ms(wanted_ms, silent_ms, retries); }
