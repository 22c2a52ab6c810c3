//! A Path: the routes of one pair of hosts over the links of a Topology, and the events that strike it alone.

use crate::error::ProfileError;
use crate::event::{Event, Fate, QueueFate};
use crate::hop::Hop;
use crate::profile::RouteEntry;
use crate::topology::Topology;
use crate::units::Nanos;
use crate::validation;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// End of the name of a reversed hop whose link the path also crosses forwards.
const REVERSED: &str = "~reversed";

/// A link as a path uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathHop {
    /// Index into [`Topology::links`].
    pub link: usize,
    /// Whether the path's direction up is the link's direction down.
    pub reversed: bool,
}

/// Routes between two hosts, and the events that strike this path alone: its handovers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Path {
    /// Name, unique in the network.
    pub name: String,
    /// The nodes of its hosts, terminal side first, as indices into [`Topology::nodes`].
    pub ends: [usize; 2],
    /// The links that its routes use, each once in each orientation.
    pub hops: Vec<PathHop>,
    /// Routes in order of time, with indices into `hops`. The first is at zero.
    pub routes: Vec<RouteEntry>,
    /// Events in order of time, with indices into `hops`. They strike only packets of this path.
    pub events: Vec<Event>,
}

impl Path {
    /// Return a hop in the path's directions. Of a link that the path crosses in both orientations, the reversed hop has a name of its own.
    #[must_use]
    pub fn oriented(&self, topology: &Topology, hop_index: usize) -> Hop {
        let PathHop { link, reversed } = self.hops[hop_index];
        let mut hop = topology.links[link].hop.clone();
        if reversed {
            std::mem::swap(&mut hop.up, &mut hop.down);
        }
        hop.name = self.hop_name(topology, self.hops[hop_index]).into_owned();
        hop
    }

    /// Return the name of a hop, as in [`Path::oriented`].
    fn hop_name<'a>(&self, topology: &'a Topology, hop: PathHop) -> Cow<'a, str> {
        let name = topology.links[hop.link].hop.name.as_str();
        let twice = hop.reversed && self.hops.contains(&PathHop { reversed: false, ..hop });
        if twice { Cow::Owned(format!("{name}{REVERSED}")) } else { Cow::Borrowed(name) }
    }

    /// Return the events of the links that this path uses, in its own indices and directions.
    pub(crate) fn link_events(&self, topology: &Topology) -> Vec<Event> {
        let mut positions = vec![Vec::new(); topology.links.len()];
        self.hops.iter().enumerate().for_each(|(position, hop)| positions[hop.link].push(position));
        let local = |event: &Event, hop: usize| {
            let fate = |fate: &Fate| match fate.queue {
                QueueFate::Migrate(migration) => match positions[migration.to_hop].first() {
                    Some(&to_hop) => Fate { queue: QueueFate::Migrate(crate::Migration { to_hop, ..migration }), ..*fate },
                    None => Fate { queue: QueueFate::Keep, ..*fate }, // the path cannot follow
                },
                _ => *fate,
            };
            let (up, down) = if self.hops[hop].reversed { (&event.down, &event.up) } else { (&event.up, &event.down) };
            Event { hop, up: fate(up), down: fate(down), ..event.clone() }
        };
        topology.events.iter().flat_map(|event| positions[event.hop].iter().map(|&hop| local(event, hop)).collect::<Vec<_>>()).collect()
    }

    /// Check the path.
    ///
    /// # Errors
    /// A node or link that does not exist, a link or a name twice, routes that lead elsewhere, times outside `duration`.
    pub(crate) fn check(&self, topology: &Topology, duration: Nanos) -> Result<(), ProfileError> {
        self.ends.iter().try_for_each(|&node| topology.check_node(&self.name, node))?;
        for hop in &self.hops {
            validation::hop_index(&self.name, hop.link, topology.links.len())?;
        }
        let names: Vec<_> = self.hops.iter().map(|&hop| self.hop_name(topology, hop)).collect();
        validation::unique(&format!("path {}", self.name), names.iter().map(AsRef::as_ref))?;
        if self.routes.is_empty() {
            return Err(ProfileError::Empty { item: "route" });
        }
        validation::route_times(self.routes.iter().map(|route| route.at_ns), duration)?;
        for route in &self.routes {
            self.check_route(topology, route)?;
        }
        validation::events(&self.events, self.hops.len(), duration)
    }

    /// Check that a route leads from one end of the path to the other, over each link at most once.
    fn check_route(&self, topology: &Topology, route: &RouteEntry) -> Result<(), ProfileError> {
        let label = format!("{}: {}", self.name, validation::route_label(route.at_ns));
        route.hops.iter().try_for_each(|&hop| validation::hop_index(&label, hop, self.hops.len()))?;
        validation::unique(&label, route.hops.iter().map(|&hop| topology.links[self.hops[hop].link].hop.name.as_str()))?;
        if route.hops.is_empty() {
            return Ok(());
        }
        let mut node = self.ends[0];
        let mut elsewhere = |name: &str, from: usize, to: usize| {
            if from == node {
                node = to;
                return Ok(());
            }
            let problem = format!("it reaches node {} and continues at {}", topology.nodes[node], topology.nodes[from]);
            Err(ProfileError::Network { item: format!("{label}, {name}"), problem, expected: "links that follow each other".to_owned() })
        };
        for &hop in &route.hops {
            let PathHop { link, reversed } = self.hops[hop];
            let link = &topology.links[link];
            let [a, b] = link.ends;
            if reversed { elsewhere(&link.hop.name, b, a) } else { elsewhere(&link.hop.name, a, b) }?;
        }
        elsewhere("its end", self.ends[1], self.ends[1])
    }
}
