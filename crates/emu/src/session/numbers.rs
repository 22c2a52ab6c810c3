//! Numbers of flows in the rows. The relay numbers flows by their first packet; the rows of a race number them as its Experiment does.

use crate::header::{FlowKey, TCP};
use crate::race::FIRST_PORT;
use crate::spec::Workload;
use std::collections::BTreeMap;

/// See the module.
#[derive(Debug, Default)]
pub struct Numbers {
    /// Number of the race's flows; a program has none.
    flows: u32,
    /// Flow of the race by the relay's number.
    raced: BTreeMap<u32, u32>,
}

impl Numbers {
    /// Numbers of a workload's flows.
    #[allow(clippy::cast_possible_truncation)] // fewer than 2^16 ports
    pub fn new(workload: &Workload) -> Self {
        let flows = match workload {
            Workload::Race { experiment } => experiment.flows.len() as u32,
            Workload::Program { .. } => 0,
        };
        Self { flows, raced: BTreeMap::new() }
    }

    /// Adds a flow with the relay's number and returns its number in the rows. The port identifies a race's flow.
    pub fn add(&mut self, key: FlowKey, relay: u32) -> u32 {
        let ports = [key.client.port(), key.server.port()];
        let places = ports.into_iter().filter_map(|port| port.checked_sub(FIRST_PORT)).map(u32::from);
        if let Some(flow) = places.filter(|&place| key.protocol == TCP && place < self.flows).min() {
            self.raced.insert(relay, flow);
        }
        self.of(relay)
    }

    /// The number in the rows; those of flows outside the race follow the race's.
    pub fn of(&self, relay: u32) -> u32 {
        self.raced.get(&relay).copied().unwrap_or(self.flows + relay)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(client: u16, server: u16) -> FlowKey {
        FlowKey { client: ([10, 0, 0, 1], client).into(), server: ([10, 0, 0, 2], server).into(), protocol: TCP }
    }

    #[test]
    fn a_races_flows_have_their_numbers_in_whatever_order_their_packets_come() {
        let mut numbers = Numbers { flows: 2, raced: BTreeMap::new() };
        assert_eq!(numbers.add(key(FIRST_PORT + 1, FIRST_PORT + 1), 0), 1);
        assert_eq!(numbers.add(key(40_000, 53), 1), 3, "not of the race");
        assert_eq!(numbers.add(key(FIRST_PORT, FIRST_PORT), 2), 0);
        assert_eq!([0, 1, 2].map(|relay| numbers.of(relay)), [1, 3, 0]);
    }

    #[test]
    fn a_programs_flows_keep_the_relays_numbers() {
        let mut numbers = Numbers::default();
        assert_eq!(numbers.add(key(FIRST_PORT, FIRST_PORT), 0), 0);
        assert_eq!(numbers.add(key(40_000, 80), 1), 1);
    }
}
