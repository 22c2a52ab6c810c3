//! What the gateway counts. The relay and the gateway's own thread both do.

use serde::Serialize;
use std::sync::atomic::{AtomicU64, Ordering};

/// A count.
#[derive(Debug, Default, Serialize)]
#[serde(transparent)]
pub struct Count(AtomicU64);

impl Count {
    /// One more.
    pub fn increment(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// So many more.
    pub fn add_count(&self, count: u32) {
        self.0.fetch_add(count.into(), Ordering::Relaxed);
    }
}

/// See the module.
#[derive(Debug, Default, Serialize)]
pub struct Counters {
    /// TCP connections that the outside took.
    pub connections: Count,
    /// … that it refused.
    pub connections_refused: Count,
    /// … that could not be made: no route, nobody there, forbidden.
    pub connections_unreachable: Count,
    /// … that got no answer.
    pub connections_unanswered: Count,
    /// Flows of UDP datagrams.
    pub udp_flows: Count,
    /// Series of ICMP echo requests.
    pub echo_flows: Count,
    /// TCP connections that there may be at a time, and flows of datagrams and echo requests as many.
    pub places: Count,
    /// UDP and echo flows that had to make room for others while they were in use.
    pub flows_evicted: Count,
    /// Packets to where no packet goes from here (loopback, link-local, multicast …).
    pub dropped_forbidden: Count,
    /// Packets to where the asked reach does not allow any: private addresses and the machine's own, or all.
    pub dropped_by_policy: Count,
    /// Packets with a source address that is not the client's.
    pub dropped_foreign_source: Count,
    /// TCP segments of no connection, answered with a reset.
    pub dropped_no_connection: Count,
    /// Packets of protocols other than TCP, UDP and ICMP echo.
    pub dropped_protocol: Count,
    /// Packets that could not be read: malformed, or fragments of TCP.
    pub dropped_malformed: Count,
    /// Fragments that waited for the rest of their packets, and were given up as there were too many.
    pub dropped_fragments: Count,
    /// SYNs and datagrams for which there was no place ([`Self::places`]), or the machine had no descriptor or memory.
    pub dropped_limit: Count,
    /// Echo requests where the machine allows no ping socket (`net.ipv4.ping_group_range`).
    pub dropped_echo_not_allowed: Count,
    /// Packets that the machine's kernel did not take for other reasons: no room, no route.
    pub dropped_outside: Count,
    /// Packets from the client that the gateway had no time for.
    pub dropped_busy: Count,
    /// Datagrams from the Internet that it had no time to read.
    pub dropped_unread: Count,
}
