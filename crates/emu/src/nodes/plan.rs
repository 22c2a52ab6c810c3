//! The nodes of a Profile, and the part of the Profile that each node runs.
//!
//! The first hop of each route is the bent pipe between terminal and gateway. Its satellite is a node. The terminal sends on it upwards, the satellite downwards;
//! the ground station applies the other hops, both ways. All other hops of a node's part are ideal.

use crate::error::EmuError;
use bentpipe_profile::{
    Bytes, EventKind, Hop, HopDirection, Nanos, NetworkSpec, Profile, QueueDiscipline, QueueLimit, QueueSpec, RouteEntry, Series,
};
use bentpipe_recovery::links::{handed_over, lossy_links};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;

/// Most satellites of one Run: each is a process with two veth pairs or more. Chosen here.
pub const MAX_SATELLITES: usize = 16;

/// A node's place on the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The dish.
    Terminal,
    /// The satellite of this hop.
    Satellite(usize),
    /// Gateway and everything behind it.
    Ground,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Terminal => f.write_str("terminal"),
            Self::Satellite(hop) => write!(f, "satellite{hop}"),
            Self::Ground => f.write_str("ground"),
        }
    }
}

/// The nodes of a Profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Hops with a satellite, in the order of their numbers.
    pub satellites: Vec<usize>,
    /// Pairs of satellites with a handover between them, the smaller number first.
    pub tunnels: BTreeSet<(usize, usize)>,
}

impl Plan {
    /// Find the nodes of a Profile.
    ///
    /// # Errors
    /// A Profile that loses packets behind the first hop of a route, that has more than [`MAX_SATELLITES`] satellites, or none.
    pub fn of(profile: &Profile) -> Result<Self, EmuError> {
        let name = |hop: usize| profile.hops()[hop].name.clone();
        let refused = |problem: String, expected: &'static str| EmuError::Nodes { problem, expected };
        let routes = profile.routes().iter().filter(|route| !route.hops.is_empty());
        let first: BTreeSet<usize> = routes.clone().map(|route| route.hops[0]).collect();
        let spec = NetworkSpec::from_profiles(&[profile])?;
        let lossy = lossy_links(&spec);
        let used: BTreeSet<usize> = routes.clone().flat_map(|route| route.hops.iter().copied()).collect();
        if let Some(&hop) = lossy.iter().find(|hop| used.contains(hop) && !first.contains(hop)) {
            let problem = format!("hop {} loses packets or is handed over, and is not the first of a route", name(hop));
            return Err(refused(problem, "one hop with loss, from the terminal to the gateway"));
        }
        if let Some(&hop) = routes.flat_map(|route| &route.hops[1..]).find(|hop| first.contains(hop)) {
            return Err(refused(format!("hop {} is first in one route and later in another", name(hop)), "one place in all routes"));
        }
        if first.is_empty() || first.len() > MAX_SATELLITES {
            return Err(refused(format!("{} satellites", first.len()), "1 to 16; try a Profile with a shorter --duration"));
        }
        let pairs = handed_over(&spec).into_iter().filter(|(from, to)| first.contains(from) && first.contains(to));
        let tunnels = pairs.map(|(from, to)| (from.min(to), from.max(to))).collect();
        Ok(Self { satellites: first.into_iter().collect(), tunnels })
    }

    /// Return every node: the terminal, the ground station, then the satellites.
    #[must_use]
    pub fn roles(&self) -> Vec<Role> {
        [Role::Terminal, Role::Ground].into_iter().chain(self.satellites.iter().map(|&hop| Role::Satellite(hop))).collect()
    }

    /// Return the pairs of nodes with a wire between them.
    #[must_use]
    pub fn wires(&self) -> Vec<(Role, Role)> {
        let ends = self.satellites.iter().flat_map(|&hop| [(Role::Terminal, Role::Satellite(hop)), (Role::Ground, Role::Satellite(hop))]);
        ends.chain(self.tunnels.iter().map(|&(from, to)| (Role::Satellite(from), Role::Satellite(to)))).collect()
    }
}

/// A hop's direction that takes no time and loses nothing.
fn ideal() -> HopDirection {
    HopDirection {
        delay: Series::constant(0),
        capacity: None,
        loss: None,
        jitter: None,
        queue: QueueSpec { discipline: QueueDiscipline::DropTail, limit: QueueLimit::Bytes(Bytes(1 << 30)) },
    }
}

/// Return the part of a Profile that a node runs.
///
/// # Errors
/// As [`Profile::new`]; a part of a Profile is one.
pub fn part(profile: &Profile, plan: &Plan, role: Role) -> Result<Profile, EmuError> {
    let is_access = |hop: usize| plan.satellites.contains(&hop);
    let hops = profile.hops().iter().enumerate().map(|(number, hop)| {
        let (up, down) = match role {
            Role::Terminal => (is_access(number), false),
            Role::Satellite(own) => (false, number == own),
            Role::Ground => (!is_access(number), !is_access(number)),
        };
        let side = |owns: bool, side: &HopDirection| if owns { side.clone() } else { ideal() };
        Hop { name: hop.name.clone(), shared_id: None, up: side(up, &hop.up), down: side(down, &hop.down) }
    });
    let routes = profile.routes().iter().map(|route| {
        let kept = if role == Role::Ground { route.hops.len() } else { route.hops.len().min(1) };
        RouteEntry { at_ns: route.at_ns, hops: route.hops[..kept].to_vec() }
    });
    let events = profile.events().iter().filter_map(|event| {
        let mut event = event.clone();
        let to = if let EventKind::Handover { to_hop, .. } = event.kind { to_hop } else { event.hop };
        let concerns = match role {
            Role::Terminal => is_access(event.hop),
            Role::Satellite(own) => event.hop == own || to == own,
            Role::Ground => !is_access(event.hop),
        };
        if matches!(role, Role::Satellite(own) if to != own) {
            event.interruption_ns = Nanos::ZERO; // the other satellite waits for its link
        }
        concerns.then_some(event)
    });
    let (start, duration, basis) = (profile.start(), profile.duration(), profile.basis());
    let (name, provenance) = (profile.name().to_owned(), profile.provenance().clone());
    Ok(Profile::new(name, start, duration, basis, provenance, hops.collect(), routes.collect(), events.collect())?)
}

/// Return whether a node applies a direction of a hop.
#[must_use]
pub fn owns(plan: &Plan, role: Role, hop: usize, is_up: bool) -> bool {
    let is_access = plan.satellites.contains(&hop);
    match role {
        Role::Terminal => is_access && is_up,
        Role::Satellite(own) => hop == own && !is_up,
        Role::Ground => !is_access,
    }
}
