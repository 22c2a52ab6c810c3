//! The gateway's counters, shared by the relay and the gateway's thread.

use serde::Serialize;
use std::sync::atomic::{AtomicU64, Ordering};

/// One counter.
#[derive(Debug, Default, Serialize)]
#[serde(transparent)]
pub struct Count(AtomicU64);

impl Count {
    /// Adds one.
    pub fn increment(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Adds `count`.
    pub fn add_count(&self, count: u32) {
        self.0.fetch_add(count.into(), Ordering::Relaxed);
    }
}

/// See the module.
#[derive(Debug, Default, Serialize)]
pub struct Counters {
    /// TCP connections that their destinations accepted.
    pub connections: Count,
    /// TCP connections that their destinations refused.
    pub connections_refused: Count,
    /// TCP connections with an unreachable destination: no route, no host, or prohibited.
    pub connections_unreachable: Count,
    /// TCP connections without a reply.
    pub connections_unanswered: Count,
    /// UDP flows.
    pub udp_flows: Count,
    /// Flows of ICMP echo requests.
    pub echo_flows: Count,
    /// Limit of concurrent TCP connections, and of concurrent UDP and echo flows.
    pub places: Count,
    /// UDP and echo flows in use that were evicted for others.
    pub flows_evicted: Count,
    /// Packets to addresses that are never forwarded (loopback, link-local, multicast …).
    pub dropped_forbidden: Count,
    /// Packets that the requested reach does not allow: to private addresses and the machine's own, or to all.
    pub dropped_by_policy: Count,
    /// Packets whose source address is not the client's.
    pub dropped_foreign_source: Count,
    /// TCP segments without a connection, answered with a reset.
    pub dropped_no_connection: Count,
    /// Packets of protocols other than TCP, UDP and ICMP echo.
    pub dropped_protocol: Count,
    /// Malformed packets and fragments of TCP.
    pub dropped_malformed: Count,
    /// Fragments discarded before reassembly because there were too many.
    pub dropped_fragments: Count,
    /// SYNs and datagrams beyond the limit ([`Self::places`]), or without a descriptor or memory.
    pub dropped_limit: Count,
    /// Echo requests where the machine allows no ping socket (`net.ipv4.ping_group_range`).
    pub dropped_echo_not_allowed: Count,
    /// Packets that the machine's kernel rejected for other reasons: full queue, no route.
    pub dropped_outside: Count,
    /// Packets dropped because the gateway's queues were full.
    pub dropped_busy: Count,
    /// Datagrams from the Internet dropped because a socket's buffer was full.
    pub dropped_unread: Count,
}
