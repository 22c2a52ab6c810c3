//! The Topology: nodes, the links between them and the events of the links.

use crate::error::ProfileError;
use crate::event::{Event, EventKind};
use crate::hop::{Hop, HopDirection};
use crate::queue::QueueSpec;
use crate::series::Series;
use crate::units::Nanos;
use crate::validation;
use std::collections::BTreeMap;

/// A link between two nodes, with both directions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkSpec {
    /// Name, unique in the Topology.
    pub name: String,
    /// The nodes at its ends, as indices into [`Topology::nodes`].
    pub ends: [usize; 2],
    /// Series and queues, and the name that the link has in the Profiles of its paths. The draws for its packets are keyed by that name, so that a Profile
    /// has the same ones alone and in a network. `up` leads from the first end to the second. Links with the same `shared_id` share one queue and capacity
    /// per direction, as the users of one beam do.
    pub hop: Hop,
}

/// Nodes, the links between them and the events of the links. Each link exists once, however many paths use it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    /// Names: `terminal`, `sat:44713`, `gateway:…`, `pop:…`, `server`.
    pub nodes: Vec<String>,
    /// The links.
    pub links: Vec<LinkSpec>,
    /// Outages, obstructions and rain, in order of time. Each strikes one link, for all paths that use it. `hop` and `to_hop` are indices into
    /// [`Topology::links`].
    pub events: Vec<Event>,
}

impl Topology {
    /// Check the Topology.
    ///
    /// # Errors
    /// Two nodes or two links of one name, a node or link that does not exist, series or events outside `duration`, a handover (it belongs to a path), or different
    /// capacities or queues under one shared id.
    pub(crate) fn check(&self, duration: Nanos) -> Result<(), ProfileError> {
        validation::unique("the list of nodes", self.nodes.iter().map(String::as_str))?;
        validation::unique("the list of links", self.links.iter().map(|link| link.name.as_str()))?;
        for link in &self.links {
            validation::hop(&link.hop, duration)?;
            link.ends.iter().try_for_each(|&node| self.check_node(&link.name, node))?;
        }
        validation::events(&self.events, self.links.len(), duration)?;
        if let Some(i) = self.events.iter().position(|event| matches!(event.kind, EventKind::Handover { .. })) {
            return Err(ProfileError::Network {
                item: format!("event {i} of the links"),
                problem: "it is a handover".to_owned(),
                expected: "handovers in the events of a path".to_owned(),
            });
        }
        self.check_shared()
    }

    /// Check that a node exists.
    pub(crate) fn check_node(&self, item: &str, node: usize) -> Result<(), ProfileError> {
        if node < self.nodes.len() {
            return Ok(());
        }
        let expected = format!("0 to {}", self.nodes.len().saturating_sub(1));
        Err(ProfileError::Network { item: item.to_owned(), problem: format!("node {node} does not exist"), expected })
    }

    /// Check that links with one shared id have the same capacity and queue.
    fn check_shared(&self) -> Result<(), ProfileError> {
        let transmitter = |side: &HopDirection| -> (Option<Series>, QueueSpec) { (side.capacity.clone(), side.queue) };
        let mut first: BTreeMap<&str, &Hop> = BTreeMap::new();
        for hop in self.links.iter().map(|link| &link.hop) {
            let Some(id) = &hop.shared_id else { continue };
            let other = *first.entry(id).or_insert(hop);
            for (direction, a, b) in [("up", &other.up, &hop.up), ("down", &other.down, &hop.down)] {
                if transmitter(a) != transmitter(b) {
                    return Err(ProfileError::Network {
                        item: format!("shared id {id:?}"),
                        problem: format!("hops differ in capacity or queue ({direction})"),
                        expected: "the same in every Profile that shares the hop".to_owned(),
                    });
                }
            }
        }
        Ok(())
    }
}
