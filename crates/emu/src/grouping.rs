//! Which connections count as one flow.

use crate::header::{FlowKey, TCP};
use crate::race::FIRST_PORT;
use bentpipe_profile::Direction;
use std::net::SocketAddr;

/// Of a program, each connection is a flow. Of a race, all connections of one flow of the Experiment are: each has the flow's port at one end.
#[derive(Clone, Debug, Default)]
pub struct Grouping {
    /// Direction of the data of each flow of a race.
    directions: Vec<Direction>,
}

impl Grouping {
    /// Create the grouping of a race whose flows send their data in these directions.
    #[must_use]
    pub const fn race(directions: Vec<Direction>) -> Self {
        Self { directions }
    }

    /// Return the key of the flow that a connection belongs to.
    #[must_use]
    pub fn flow(&self, key: FlowKey) -> FlowKey {
        let Some((port, _)) = self.raced(&key) else { return key };
        let at_port = |end: SocketAddr| SocketAddr::new(end.ip(), port);
        FlowKey { client: at_port(key.client), server: at_port(key.server), protocol: TCP }
    }

    /// Return the direction of the data of a race's flow; `None`: the flow is of no race.
    #[must_use]
    pub fn direction(&self, key: &FlowKey) -> Option<Direction> {
        self.raced(key).map(|(_, direction)| direction)
    }

    fn raced(&self, key: &FlowKey) -> Option<(u16, Direction)> {
        let mut ports = [key.client.port(), key.server.port()].into_iter().filter(|_| key.protocol == TCP);
        let of = |port: u16| Some((port, *self.directions.get(usize::from(port.checked_sub(FIRST_PORT)?))?));
        ports.find_map(of)
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
        let race = Grouping::race(vec![Direction::Up, Direction::Down]);
        let flow = race.flow(key(40_000, FIRST_PORT + 1));
        assert_eq!(race.flow(key(40_001, FIRST_PORT + 1)), flow);
        assert_eq!(race.flow(key(FIRST_PORT + 1, 50_000)), flow);
        assert_ne!(race.flow(key(40_000, FIRST_PORT)), flow);
        assert_eq!([race.direction(&flow), race.direction(&key(40_000, 53))], [Some(Direction::Down), None]);
        let other = key(40_000, FIRST_PORT + 2);
        assert_eq!(race.flow(other), other, "no port of the race");
        assert_eq!(Grouping::default().flow(key(40_000, FIRST_PORT)), key(40_000, FIRST_PORT), "a program's connections are flows");
    }
}
