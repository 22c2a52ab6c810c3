//! Construction of a network from its description.

use super::Network;
use super::changes::Changes;
use super::path::{ABSENT, Hop, Path, Side};
use super::wakes::{MAX_UNITS, Wakes};
use crate::chain::Chain;
use crate::error::NetworkError;
use crate::link::Link;
use crate::stats::LinkStats;
use bentpipe_profile::{Direction, Event, EventKind, NetworkSpec, QueueFate, Streams, Time};
use std::collections::BTreeMap;

impl Network {
    /// Build a network. `streams`: random streams of the run. Per-packet draws are keyed by direction and the link's name in the Profiles of
    /// its paths ([`bentpipe_profile::LinkSpec::hop`]).
    ///
    /// # Errors
    /// [`NetworkError`].
    pub fn new(spec: &NetworkSpec, streams: Streams) -> Result<Self, NetworkError> {
        let topology = spec.topology();
        check("paths", spec.paths().len(), u32::MAX as usize / 2)?;
        check("links", topology.links.len(), MAX_UNITS / 8)?; // with shared queues, at most twice as many, of two units each; the rest is for ends of paths
        let interruptible = interruptible_links(spec);
        let queue_key = |name: &str, d: Direction| streams.key(&format!("queue/{name}/{}", d.name()));
        let loss_key = |name: &str, d: Direction| streams.key(&format!("loss/{name}/{}", d.name()));
        let mut links = Vec::new();
        for (link, &interruptible) in topology.links.iter().zip(&interruptible) {
            let hop = &link.hop;
            links.push(Link::new(Direction::BOTH.map(|d| match &hop.shared_id {
                Some(_) => Chain::behind_queue(hop.side(d), loss_key(&hop.name, d)),
                None => Chain::full(hop.side(d), interruptible, [queue_key(&hop.name, d), loss_key(&hop.name, d)]),
            })));
        }
        // Shared queues are links of their own, in front of those that share them.
        let mut shared: BTreeMap<&str, usize> = BTreeMap::new();
        let mut queue_links = Vec::new();
        for (number, link) in topology.links.iter().enumerate() {
            queue_links.push(match &link.hop.shared_id {
                None => number,
                Some(id) => *shared.entry(id).or_insert_with(|| {
                    links.push(Link::new(Direction::BOTH.map(|d| Chain::queue_only(link.hop.side(d), queue_key(id, d)))));
                    links.len() - 1
                }),
            });
        }
        let paths = spec.paths().iter().map(|path| build_path(path, &queue_links)).collect::<Result<Vec<_>, _>>()?;
        let mut users = vec![0_u32; 2 * links.len()];
        for path in &paths {
            for unit in path.hops.iter().flat_map(Hop::units) {
                users[unit as usize] += 1;
            }
        }
        Ok(Self {
            solo: users.iter().map(|&users| users == 1).collect(),
            look_ahead: Time::ZERO,
            pending: Vec::new(),
            changes: Changes::new(spec),
            due: vec![Time::MAX; 2 * links.len()],
            links,
            queue_links,
            users,
            paths,
            wakes: Wakes::default(),
            egresses: Vec::new(),
            exits: Vec::new(),
            stages: None,
            separate_flows: u32::MAX,
        })
    }
}

fn check(items: &'static str, count: usize, max: usize) -> Result<(), NetworkError> {
    if count > max { Err(NetworkError::TooMany { items, count, max }) } else { Ok(()) }
}

/// Build the hops and routes of one path. `queue_links`: for each link, the one with its queue.
#[allow(clippy::cast_possible_truncation)] // counts are checked
fn build_path(spec: &bentpipe_profile::Path, queue_links: &[usize]) -> Result<Path, NetworkError> {
    let most = usize::from(ABSENT) - 1;
    check("hops of a path", spec.hops.len(), most)?;
    check("routes of a path", spec.routes.len(), most)?;
    let hop = |hop: &bentpipe_profile::PathHop| {
        let unit = |link: usize, d: Direction| (2 * link + (d as usize ^ usize::from(hop.reversed))) as u32;
        let side =
            |d| Side { entry: unit(queue_links[hop.link], d), exit: unit(hop.link, d), migrate_to: ABSENT, stats: LinkStats::default() };
        Hop { sides: Direction::BOTH.map(side) }
    };
    let routes = spec.routes.iter().map(|route| route.hops.iter().map(|&hop| hop as u16).collect());
    Ok(Path::new(spec.hops.iter().map(hop).collect(), routes.collect(), spec.events.clone()))
}

/// Return for each link whether an event interrupts it, leaves it, takes it or migrates a queue to it.
fn interruptible_links(spec: &NetworkSpec) -> Vec<bool> {
    let mut links = vec![false; spec.topology().links.len()];
    let mut mark = |event: &Event, link: &dyn Fn(usize) -> usize| {
        links[link(event.hop)] = true;
        if let EventKind::Handover { to_hop, .. } = event.kind {
            links[link(to_hop)] = true;
        }
        for direction in Direction::BOTH {
            if let QueueFate::Migrate(migration) = event.fate(direction).queue {
                links[link(migration.to_hop)] = true;
            }
        }
    };
    spec.topology().events.iter().for_each(|event| mark(event, &|link| link));
    for path in spec.paths() {
        path.events.iter().for_each(|event| mark(event, &|hop| path.hops[hop].link));
    }
    links
}
