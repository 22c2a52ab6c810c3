//! The relay's messages to the session, and its counters.

use crate::flows::Span;
use crate::header::FlowKey;
use bentpipe_profile::run::{Links, NoRoute, RecoverySummary};
use serde::Serialize;

/// Message from the relay to the session.
pub enum RelayEvent {
    /// First packet of a flow that has its own number.
    Flow(FlowKey, u32),
    /// The gateway split a connection: its two sets of addresses and ports.
    Split {
        /// As the client sees it.
        client: FlowKey,
        /// As the server's kernel sees it.
        server: FlowKey,
    },
    /// Rows of one window of the `links` table.
    Window(Box<Links>),
    /// The Profile is over (`--at-end stop`).
    ProfileEnded,
    /// The relay ends: first and last packet of each flow, by number.
    Spans(Vec<Span>),
}

/// The relay's counters and its measurements of its own lateness.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RelayReport {
    /// Packets delivered.
    pub delivered: u64,
    /// Packets dropped by link elements.
    pub lost: u64,
    /// Packets dropped because there was no route.
    pub refused: u64,
    /// `refused` by direction.
    #[serde(skip)]
    pub no_route: NoRoute,
    /// Loss recovery on the path and its counters.
    #[serde(skip)]
    pub recovery: Option<RecoverySummary>,
    /// Packets still on the path at the end.
    pub held: u64,
    /// Packets that the receiving kernel rejected.
    pub kernel_rejected: u64,
    /// Those of them that a device dropped with an error (`ENOBUFS`), by device.
    #[serde(skip)]
    pub reported_drops: [u64; 2],
    /// Packets that are not IP or are link-local multicast: no router forwards them, and neither does the path.
    pub not_forwarded: u64,
    /// Packets larger than the path's MTU: dropped before the path, and their senders informed by ICMP.
    pub too_large: u64,
    /// Buffers that could not be split into packets: dropped before the path.
    pub malformed: u64,
    /// Packets delivered in one buffer with the packet before, since both were due within 10 µs.
    pub coalesced: u64,
    /// Packets with a measured lateness.
    pub lateness_n: u64,
    /// Those of them that were later than [`crate::lateness::BOUND`].
    pub late: u64,
    /// Time between a packet's logical time and its delivery, median [ms]; `None`: no packets.
    pub lateness_p50_ms: Option<f64>,
    /// 99th percentile.
    pub lateness_p99_ms: Option<f64>,
    /// 99.9th percentile.
    pub lateness_p999_ms: Option<f64>,
    /// Largest.
    pub lateness_max_ms: Option<f64>,
    /// Upper bound of the time that packets waited in a device's queue before the relay read them, 99th percentile of reads [ms]: time since the queue
    /// was last found empty, without the time that the relay slept (a packet that arrives then wakes it: `wakeup_p99_ms`). `None`: no reads.
    pub ingress_wait_p99_ms: Option<f64>,
    /// Timer wake-ups.
    pub wakeups: u64,
    /// Those of them that were later than [`crate::lateness::BOUND`].
    pub wakeups_late: u64,
    /// Time between a timer's expiry and the relay's wake-up, 99th percentile [ms]; a packet that wakes the relay waits as long. `None`: no wake-ups.
    pub wakeup_p99_ms: Option<f64>,
    /// Largest.
    pub wakeup_max_ms: Option<f64>,
    /// Packets of TCP connections beyond the largest flow number: the path carried them, but no flow of the summary includes their bytes.
    pub unnumbered: u64,
    /// Restarts of the Profile.
    pub loops: u64,
    /// Largest drift of the machine's wall clock from the Profile's clock [ms]; `None`: the Profile does not follow the wall clock.
    pub wall_clock_off_ms: Option<f64>,
    /// Whether the kernel granted `SCHED_FIFO`, which requires root.
    pub realtime: bool,
}
