/* Tells a controller the host's clock, in the form that it takes: BP_MONITOR(core), a clock beside its own; BP_ANNOUNCED, each handover ahead of time;
 * BP_WALL_CLOCK, the time of day. Included by the hooks, which define struct bp_socket. */

BP_INLINE void bp_tell_clock(struct sock *sk, struct bp_socket *s)
{
#if defined(BP_MONITOR) || defined(BP_ANNOUNCED) || defined(BP_WALL_CLOCK)
    struct bp_host_clock *clock;
    __u32 first = 0;

    clock = bpf_map_lookup_elem(&BP_CLOCK, &first);
    if (!clock)
        return;
#ifdef BP_ANNOUNCED
    if (clock->period >= BP_NS_PER_S) {
        u64 now = tcp_of(sk)->tcp_mstamp * BP_NS_PER_US;
        u64 past = bp_sub_sat(now, clock->at) / clock->period;
        struct bp_hint hint = {.kind = BP_HINT_RECONFIGURATION, .value = clock->at + (past + 1) * clock->period};

        if (now < clock->until && hint.value != s->base.announced) {
            s->base.announced = hint.value;
            CORE(_hint)(&s->core, &hint);
        }
    }
#endif
    if (s->base.clock_generation == clock->generation)
        return;
    s->base.clock_generation = clock->generation;
#ifdef BP_MONITOR
    bp_monitor_set_clock(BP_MONITOR(&s->core), clock->period, clock->at, clock->until);
#endif
#ifdef BP_WALL_CLOCK
    if (clock->unix_ns) {
        struct bp_hint hint = {.kind = BP_HINT_WALL_CLOCK, .value = clock->unix_ns};

        CORE(_hint)(&s->core, &hint);
    }
#endif
#endif
}
