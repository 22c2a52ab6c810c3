//! M-PEP: proxies that split TCP connections on the path, as a baseline of `SatGuard`.
//!
//! Source: the comparison in "`SatGuard`", WWW 2024, §4.1: proxies at the dish, at its ingress satellite and at the ground station. At a handover the state of the
//! old satellite's proxy moves to the next satellite, and transmission begins anew there in slow start. The cited M-PEP ("Mobile-PEP", ISWCS 2015) hands over
//! without a transfer of context; this follows the comparison.
//!
//! | module | content |
//! |---|---|
//! | [`plan`] | where a network's proxies stand, and when their state moves |
//!
//! The transports of the proxies belong to the driver: here is what depends on the network alone.

pub mod plan;

use crate::registry::{AtHosts, Entry, Installed};
use bentpipe_profile::tunables::{OptionSet, count, millis, number, switch};
use bentpipe_profile::{Bytes, Nanos, Rate};
use std::sync::Arc;

/// `mpep` in the registry.
pub const ENTRY: Entry = Entry {
    name: "mpep",
    status: "a baseline: as SatGuard's comparison describes it; datagrams wait while state moves",
    description: "proxies split TCP at dish, satellite and ground station; their state moves at handovers",
    citation: "Mobile-PEP, ISWCS 2015; SatGuard, WWW 2024, §4.1",
    at_hosts: true,
    options: Options::SPECS,
    install: |network, spec, values| {
        let plan = plan::Plan::new(spec, Options::read(values));
        plan.set_stops(network)?;
        Ok(Installed { overhead: Some(Arc::default()), hosts: Some(AtHosts::Mpep(plan)) })
    },
};

options! {
    /// Options of `mpep`.
    pub struct Options {
        migration_delay: Nanos = millis("migration_delay_ms", "delay from the old satellite to the next", 6.6, 0.0, 1000.0, "a hop between satellites of one plane, 1970 km"),
        migration_mbps: f64 = number("migration_mbps", "rate from the old satellite to the next", 1000.0, 0.1, 1_000_000.0, "WWW 2024, §4.1").unit("Mbit/s"),
        state: u32 = count("state_bytes", "state of a connection that moves besides its data", 256, 0, 1_000_000, "chosen here: windows, estimates and sequence numbers of two transports").unit("bytes"),
        restart: bool = switch("restart", "the next satellite transmits from the initial window on", true, "WWW 2024, §4.2"),
    }
}

impl Options {
    /// Return how long the state of connections that hold `data` takes to the next satellite.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // within the bounds of the option
    pub fn move_time(&self, connections: u64, data: Bytes) -> (Nanos, Bytes) {
        let bytes = Bytes(data.0 + connections * u64::from(self.state));
        let rate = Rate((self.migration_mbps * 1e6) as u64);
        (self.migration_delay + rate.time_for(bytes), bytes)
    }
}
