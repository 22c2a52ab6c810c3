//! The network: a Topology and the Paths over it. A Profile is a network of one Path.

use crate::direction::Direction;
use crate::error::ProfileError;
use crate::event::EventKind;
use crate::path::{Path, PathHop};
use crate::profile::{Basis, Profile, Provenance};
use crate::topology::{LinkSpec, Topology};
use crate::units::{Nanos, Utc};
use crate::validation;

/// A Topology and the Paths over it. [`NetworkSpec::new`] validates it.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkSpec {
    name: String,
    start: Utc,
    duration: Nanos,
    basis: Basis,
    provenance: Provenance,
    topology: Topology,
    paths: Vec<Path>,
}

impl NetworkSpec {
    /// Create a validated network.
    ///
    /// # Errors
    /// A zero duration, no path, two paths of one name; nodes, links or hops that do not exist; a route whose links do not follow each other from one end
    /// of its path to the other; different capacities or queues under one shared id; times outside the duration.
    pub fn new(
        name: String,
        start: Utc,
        duration: Nanos,
        basis: Basis,
        provenance: Provenance,
        topology: Topology,
        paths: Vec<Path>,
    ) -> Result<Self, ProfileError> {
        if duration == Nanos::ZERO {
            return Err(ProfileError::NotPositive { duration: "the network's duration", value_s: 0.0 });
        }
        if paths.is_empty() {
            return Err(ProfileError::Empty { item: "path" });
        }
        topology.check(duration)?;
        validation::unique("the list of paths", paths.iter().map(|path| path.name.as_str()))?;
        paths.iter().try_for_each(|path| path.check(&topology, duration))?;
        Ok(Self { name, start, duration, basis, provenance, topology, paths })
    }

    /// Create the network of these Profiles (at least one). Each becomes a path. Hops with the same shared id share one queue; other hops are links of
    /// their own, named by the number of the Profile and the hop. The network has the start, basis and provenance of the first Profile and the duration of the longest.
    ///
    /// # Errors
    /// Hops with one shared id that differ in capacity or queue; no Profile.
    pub fn from_profiles(profiles: &[&Profile]) -> Result<Self, ProfileError> {
        let first = profiles.first().ok_or(ProfileError::Empty { item: "path" })?;
        let (mut topology, mut paths) = (Topology::default(), Vec::new());
        for (number, profile) in profiles.iter().enumerate() {
            let prefix = if profiles.len() == 1 { String::new() } else { format!("{number}:") };
            paths.push(add_profile(&mut topology, profile, &prefix));
        }
        topology.events.sort_by_key(|event| event.at_ns);
        let duration = profiles.iter().map(|profile| profile.duration()).max().unwrap_or_default();
        Self::new(first.name().to_owned(), first.start(), duration, first.basis(), first.provenance().clone(), topology, paths)
    }

    /// Return one path as a Profile: its hops in its own directions, its routes, the events of its links and its own events.
    ///
    /// # Errors
    /// None that a validated network can have.
    ///
    /// # Panics
    /// If there is no path with this index.
    pub fn profile(&self, path: usize) -> Result<Profile, ProfileError> {
        let path = &self.paths[path];
        let hops = (0..path.hops.len()).map(|hop| path.oriented(&self.topology, hop)).collect();
        let mut events = path.link_events(&self.topology);
        events.extend(path.events.iter().cloned());
        events.sort_by_key(|event| event.at_ns);
        let (basis, provenance) = (self.basis, self.provenance.clone());
        Profile::new(path.name.clone(), self.start, self.duration, basis, provenance, hops, path.routes.clone(), events)
    }

    /// Return the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Return the wall-clock time of `Time::ZERO`.
    #[must_use]
    pub const fn start(&self) -> Utc {
        self.start
    }

    /// Return the duration.
    #[must_use]
    pub const fn duration(&self) -> Nanos {
        self.duration
    }

    /// Return whether the delays are one-way values or halves of RTTs.
    #[must_use]
    pub const fn basis(&self) -> Basis {
        self.basis
    }

    /// Return the provenance.
    #[must_use]
    pub const fn provenance(&self) -> &Provenance {
        &self.provenance
    }

    /// Return the nodes, links and events of links.
    #[must_use]
    pub const fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Return the paths.
    #[must_use]
    pub fn paths(&self) -> &[Path] {
        &self.paths
    }
}

/// Add the hops of a Profile to the Topology as links, and return its path. `prefix` makes the names of its nodes and links unique.
fn add_profile(topology: &mut Topology, profile: &Profile, prefix: &str) -> Path {
    let (first_link, (hosts, ends)) = (topology.links.len(), ends(profile));
    let mut numbers = vec![None; 2 * profile.hops().len() + 2];
    let mut node = |class: usize| {
        *numbers[class].get_or_insert_with(|| {
            let name = match class {
                TERMINAL => "terminal".to_owned(),
                SERVER => "server".to_owned(),
                _ => format!("{} of {}", if class.is_multiple_of(2) { "near end" } else { "far end" }, profile.hops()[class / 2 - 1].name),
            };
            topology.nodes.push(format!("{prefix}{name}"));
            topology.nodes.len() - 1
        })
    };
    let links = profile.hops().iter().zip(&ends).map(|(hop, ends)| LinkSpec {
        name: format!("{prefix}{}", hop.name),
        ends: ends.map(&mut node),
        hop: hop.clone(),
    });
    let (links, hosts): (Vec<_>, _) = (links.collect(), hosts.map(&mut node));
    topology.links.extend(links);
    let mut path = Path {
        name: format!("{prefix}{}", profile.name()),
        ends: hosts,
        hops: (0..profile.hops().len()).map(|hop| PathHop { link: first_link + hop, reversed: false }).collect(),
        routes: profile.routes().to_vec(),
        events: Vec::new(),
    };
    for event in profile.events() {
        // An event of a hop whose queue others share strikes only this Profile's packets.
        if matches!(event.kind, EventKind::Handover { .. }) || profile.hops()[event.hop].shared_id.is_some() {
            path.events.push(event.clone());
        } else {
            let mut event = event.clone();
            event.hop += first_link;
            for direction in Direction::BOTH {
                if let crate::QueueFate::Migrate(migration) = &mut event.fate_mut(direction).queue {
                    migration.to_hop += first_link;
                }
            }
            topology.events.push(event);
        }
    }
    path
}

/// Class of the terminal in [`ends`].
const TERMINAL: usize = 0;
/// Class of the server in [`ends`].
const SERVER: usize = 1;

/// Return the places of the two hosts and of the ends of each hop, as classes that the routes join: the far end of a hop is the near end of the next.
fn ends(profile: &Profile) -> ([usize; 2], Vec<[usize; 2]>) {
    fn root(joined: &[usize], mut place: usize) -> usize {
        while joined[place] != place {
            place = joined[place];
        }
        place
    }
    let place = |hop: usize, end: usize| 2 * hop + 2 + end;
    let mut joined: Vec<usize> = (0..2 * profile.hops().len() + 2).collect();
    for route in profile.routes().iter().filter(|route| !route.hops.is_empty()) {
        let leaves = [TERMINAL].into_iter().chain(route.hops.iter().map(|&hop| place(hop, 1)));
        let enters = route.hops.iter().map(|&hop| place(hop, 0)).chain([SERVER]);
        for (a, b) in leaves.zip(enters) {
            let (a, b) = (root(&joined, a), root(&joined, b));
            joined[a.max(b)] = a.min(b); // a class has the name of its first place
        }
    }
    let hops = (0..profile.hops().len()).map(|hop| [0, 1].map(|end| root(&joined, place(hop, end)))).collect();
    ([TERMINAL, SERVER].map(|host| root(&joined, host)), hops)
}

mod table;

#[cfg(test)]
mod tests;
