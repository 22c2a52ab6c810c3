//! Counters of what recovery costs. Elements share them with their caller, hence atomic: an element cannot be reached inside a network.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of one scheme in one network.
#[derive(Debug, Default)]
pub struct Overhead {
    /// Bytes of the header that the ingress of a path adds, once per packet.
    pub header_bytes: Counter,
    /// Bytes of control packets.
    pub control_bytes: Counter,
    /// Packets that a link end has protected.
    pub protected: Counter,
    /// Packets that passed without protection: the buffer was full, or the numbers were used up.
    pub unprotected: Counter,
    /// Retransmissions.
    pub retransmitted: Counter,
    /// Packets given up after their last try or because their path has left the link.
    pub given_up: Counter,
    /// Bytes of the copies, or of the proxies' state, sent to the next satellite before and at handovers.
    pub migrated_bytes: Counter,
    /// Packets retransmitted by the next satellite, or connections whose proxy moved there.
    pub migrated: Counter,
    /// Largest number of bytes that one link end has kept.
    pub peak_buffer_bytes: Counter,
    /// Largest number of bytes that one path's egress has held.
    pub peak_held_bytes: Counter,
    /// Packets held at an egress.
    pub held: Counter,
    /// Gaps in a flow that an egress has given up after the longest hold.
    pub skipped: Counter,
    /// Packets that an egress dropped: duplicates, or recovered after the longest hold.
    pub late: Counter,
    /// Packets that the receiving host computed from parities.
    pub decoded: Counter,
}

/// A counter.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Add to it.
    pub fn add(&self, amount: u64) {
        self.0.fetch_add(amount, Ordering::Relaxed);
    }

    /// Raise it to `value`, if that is larger.
    pub fn raise(&self, value: u64) {
        self.0.fetch_max(value, Ordering::Relaxed);
    }

    /// Return its value.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Overhead {
    /// Return every counter with its name, in a fixed order.
    #[must_use]
    pub fn named(&self) -> [(&'static str, u64); 14] {
        [
            ("header_bytes", self.header_bytes.get()),
            ("control_bytes", self.control_bytes.get()),
            ("protected", self.protected.get()),
            ("unprotected", self.unprotected.get()),
            ("retransmitted", self.retransmitted.get()),
            ("given_up", self.given_up.get()),
            ("migrated_bytes", self.migrated_bytes.get()),
            ("migrated", self.migrated.get()),
            ("peak_buffer_bytes", self.peak_buffer_bytes.get()),
            ("peak_held_bytes", self.peak_held_bytes.get()),
            ("held", self.held.get()),
            ("skipped", self.skipped.get()),
            ("late", self.late.get()),
            ("decoded", self.decoded.get()),
        ]
    }
}
