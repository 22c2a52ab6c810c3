//! Which connections count as one flow.

use crate::header::{FlowKey, TCP};
use crate::race::FIRST_PORT;
use std::net::SocketAddr;
use std::ops::Range;

/// Of a program, each connection is a flow. Of a race, all connections of one flow of the Experiment are: each has the flow's port at one end.
#[derive(Clone, Debug, Default)]
pub struct Grouping {
    ports: Range<u16>,
}

impl Grouping {
    /// Create the grouping of a race with this number of flows.
    #[must_use]
    pub fn race(flows: usize) -> Self {
        Self { ports: FIRST_PORT..FIRST_PORT.saturating_add(u16::try_from(flows).unwrap_or(u16::MAX)) }
    }

    /// Return the key of the flow that a connection belongs to.
    #[must_use]
    pub fn flow(&self, key: FlowKey) -> FlowKey {
        let port = [key.client.port(), key.server.port()].into_iter().find(|port| self.ports.contains(port));
        match port {
            Some(port) if key.protocol == TCP => {
                let at_port = |end: SocketAddr| SocketAddr::new(end.ip(), port);
                FlowKey { client: at_port(key.client), server: at_port(key.server), protocol: TCP }
            }
            _ => key,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(client: u16, server: u16) -> FlowKey {
        let end = |host: u8, port| SocketAddr::from(([10, 0, 0, host], port));
        FlowKey { client: end(1, client), server: end(2, server), protocol: TCP }
    }

    #[test]
    fn the_connections_of_a_races_flow_are_one_whichever_end_opened_them() {
        let race = Grouping::race(2);
        let flow = race.flow(key(40_000, FIRST_PORT + 1));
        assert_eq!(race.flow(key(40_001, FIRST_PORT + 1)), flow);
        assert_eq!(race.flow(key(FIRST_PORT + 1, 50_000)), flow);
        assert_ne!(race.flow(key(40_000, FIRST_PORT)), flow);
        let other = key(40_000, FIRST_PORT + 2);
        assert_eq!(race.flow(other), other, "no port of the race");
        assert_eq!(Grouping::default().flow(key(40_000, FIRST_PORT)), key(40_000, FIRST_PORT), "a program's connections are flows");
    }
}
