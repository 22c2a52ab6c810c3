//! Threads that must not wait for the machine's other work, where the kernel allows it.

use thread_priority::{
    RealtimeThreadSchedulePolicy, ThreadPriority, ThreadPriorityValue, ThreadSchedulePolicy, set_thread_priority_and_policy,
    thread_native_id,
};

/// The relay: before everything else.
pub const RELAY: u8 = 2;

/// The ends of a race's flows, behind the relay alone: a sender that gets no processor for longer than its buffer lasts (two windows) falls silent,
/// and then sends a window at once, which the path's queue does not hold.
pub const FLOWS: u8 = 1;

/// The gateway, behind the relay alone too: what it answers is on its way. It cannot take the machine: it sleeps unless a socket has something, what
/// its sockets carry to the path is no more than the relay takes, and the kernel keeps a twentieth of each processor for others
/// (`sched_rt_runtime_us`).
pub const GATEWAY: u8 = 1;

/// Puts the calling thread before all ordinary ones (`SCHED_FIFO`); false: not allowed, which takes root.
pub fn realtime(level: u8) -> bool {
    let policy = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo);
    let Ok(level) = ThreadPriorityValue::try_from(level) else { return false };
    set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Crossplatform(level), policy).is_ok()
}
