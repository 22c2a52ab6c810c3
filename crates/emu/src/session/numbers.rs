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
