//! The network of one or more Profiles: chains, routes and events. Packets enter at one end; they leave at the other or are dropped.
//!
//! ```text
//!            send(up)                                              outcome(up)
//!   terminal ───────▶ [hop 0 ▸] ─▶ [hop 1 ▸] ─▶ … ─▶ [hop n ▸] ──────▶ server
//!   terminal ◀─────── [◂ hop 0] ◀─ [◂ hop 1] ◀─ … ◀─ [◂ hop n] ◀────── server
//!            outcome(down)        routes: which hops, from when        send(down)
//! ```
//! Each `[hop]` is a [`Chain`]. A packet follows the newest route as long as the path still uses the packet's hop. If the path has left that hop,
//! the packet continues over the rest of the old route. Module `changes` applies events.

mod changes;
mod path;

use self::path::{ABSENT, HopChains, Path, Route};
use crate::cause::DropCause;
use crate::chain::Chain;
use crate::element::{Exit, Port};
use crate::error::NetworkError;
use crate::packet::Packet;
use crate::shared::SharedHops;
use crate::stages::Stage;
use crate::stats::LinkStats;
use bentpipe_profile::{Direction, EventKind, Profile, QueueFate, Streams, Time};
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

/// The outcome of a packet that has left the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The packet reached the other end.
    Delivered,
    /// The packet was dropped.
    Dropped(DropCause),
}

/// Chains, routes and events of one or more Profiles (see the module).
pub struct Network {
    chains: Vec<Chain>,
    paths: Vec<Path>,
    /// Wake-up times of chains. An entry is valid only while it equals the chain's entry in `due`.
    wakes: BinaryHeap<Reverse<(Time, u64, u32)>>,
    due: Vec<Time>,
    pushes: u64,
    /// For each chain, the chain that its queue migrates to.
    migrate_to: Vec<u32>,
    /// Buffer for the packets that leave a chain.
    exits: Vec<(Exit, Packet)>,
    /// Recorded stages; `None`: not recorded.
    stages: Option<Vec<Stage>>,
    /// Flows from this number on share one set of counters.
    separate_flows: u32,
}

impl Network {
    /// Build the network of these Profiles. `streams`: random streams of the run. Per-packet draws are keyed by hop name and direction.
    ///
    /// # Errors
    /// [`NetworkError`].
    pub fn new(profiles: &[&Profile], streams: Streams) -> Result<Self, NetworkError> {
        let mut network = Self {
            chains: Vec::new(),
            paths: Vec::new(),
            wakes: BinaryHeap::new(),
            due: Vec::new(),
            pushes: 0,
            migrate_to: Vec::new(),
            exits: Vec::new(),
            stages: None,
            separate_flows: u32::MAX,
        };
        let mut shared = SharedHops::default();
        let limit = |items, count: usize| {
            let max = usize::from(ABSENT) - 1;
            if count > max { Err(NetworkError::TooMany { items, count, max }) } else { Ok(()) }
        };
        limit("Profiles", profiles.len())?;
        for profile in profiles {
            limit("hops", profile.hops().len())?;
            limit("routes", profile.routes().len())?;
            let path = network.path(profile, streams, &mut shared)?;
            network.paths.push(path);
        }
        network.due = vec![Time::MAX; network.chains.len()];
        network.migrate_to = vec![u32::MAX; network.chains.len()];
        Ok(network)
    }

    /// Keep separate counters only for flows below number `flows`. All others share one set, under that number: many short flows would each need a
    /// histogram in each hop.
    pub const fn set_separate_flows(&mut self, flows: u32) {
        self.separate_flows = flows;
    }

    /// Return how many flows have counters of their own. The others share one set, under this number.
    #[must_use]
    pub const fn separate_flows(&self) -> u32 {
        self.separate_flows
    }

    /// Build the chains and routes of one Profile.
    #[allow(clippy::cast_possible_truncation)] // counts were checked in `new`
    fn path<'a>(&mut self, profile: &'a Profile, streams: Streams, shared: &mut SharedHops<'a>) -> Result<Path, NetworkError> {
        let interruptible = interruptible_hops(profile);
        let mut hops = Vec::new();
        for (i, hop) in profile.hops().iter().enumerate() {
            let key = |d: Direction| streams.key(&format!("loss/{}/{}", hop.name, d.name()));
            let queue_key = |name: &str, d: Direction| streams.key(&format!("queue/{name}/{}", d.name()));
            let chains = if let Some(id) = &hop.shared_id {
                if interruptible.contains(&i) {
                    return Err(NetworkError::SharedWithEvents { hop: hop.name.clone(), id: id.clone() });
                }
                let entry =
                    shared.chains(id, hop, || Direction::BOTH.map(|d| self.add(Chain::queue_only(hop.side(d), queue_key(id, d)))))?;
                let exit = Direction::BOTH.map(|d| self.add(Chain::behind_queue(hop.side(d), key(d))));
                HopChains { entry, exit }
            } else {
                let entry = Direction::BOTH
                    .map(|d| self.add(Chain::full(hop.side(d), interruptible.contains(&i), [queue_key(&hop.name, d), key(d)])));
                HopChains { entry, exit: entry }
            };
            hops.push(chains);
        }
        let routes = profile
            .routes()
            .iter()
            .map(|r| {
                let mut position = vec![ABSENT; profile.hops().len()];
                r.hops.iter().enumerate().for_each(|(place, &hop)| position[hop] = place as u16);
                Route { at: r.at_ns, hops: r.hops.iter().map(|&h| h as u16).collect(), position }
            })
            .collect();
        let stats = (0..hops.len()).map(|_| Default::default()).collect();
        Ok(Path {
            routes,
            current: 0,
            hops,
            events: profile.events().to_vec(),
            next_event: 0,
            stats,
            no_route: [0; 2],
            stragglers: Default::default(),
            floor: [Time::ZERO; 2],
        })
    }

    #[allow(clippy::cast_possible_truncation)] // far fewer than 2^32 hops
    fn add(&mut self, chain: Chain) -> u32 {
        self.chains.push(chain);
        self.chains.len() as u32 - 1
    }

    /// Record from now on how each packet spends its time ([`Network::take_stages`]).
    pub fn record_stages(&mut self) {
        self.stages.get_or_insert_default();
    }

    /// Remove and return the stages recorded since the last call, in order for each packet. A packet's stages are complete when its [`Outcome`] is.
    pub fn take_stages(&mut self) -> impl Iterator<Item = Stage> {
        self.stages.iter_mut().flat_map(|stages| stages.drain(..))
    }

    /// Send a packet into its end of the path at `packet.at`. `Err`: there is no route, and the packet is dropped.
    ///
    /// # Errors
    /// The packet itself, if the current route is empty.
    #[allow(clippy::cast_possible_truncation)] // counts were checked in `new`
    pub fn send(&mut self, mut packet: Packet) -> Result<(), Packet> {
        let path = &mut self.paths[usize::from(packet.path)];
        let route = &path.routes[path.current];
        if route.hops.is_empty() {
            path.no_route[packet.direction as usize] += 1;
            return Err(packet);
        }
        packet.route = path.current as u16;
        packet.position = match packet.direction {
            Direction::Up => 0,
            Direction::Down => route.hops.len() as u16 - 1,
        };
        self.enter(packet, Port::In);
        Ok(())
    }

    /// Return when the next packet or event is due.
    #[must_use]
    pub fn wake_at(&self) -> Option<Time> {
        let chain = self.wakes.peek().map(|Reverse((at, ..))| *at);
        self.paths.iter().filter_map(Path::next_change).chain(chain).min()
    }

    /// Process everything that is due by `now`, in order of logical time. Appends delivered and dropped packets to `out`.
    pub fn run_until(&mut self, now: Time, out: &mut Vec<(Outcome, Packet)>) {
        loop {
            while let Some(Reverse((at, _, chain))) = self.wakes.peek().copied() {
                if self.due[chain as usize] == at {
                    break;
                }
                self.wakes.pop(); // superseded by an earlier wake-up
            }
            let chain_at = self.wakes.peek().map(|Reverse((at, ..))| *at);
            let change_at = self.paths.iter().filter_map(Path::next_change).min();
            match (chain_at, change_at) {
                (_, Some(at)) if at <= now && chain_at.is_none_or(|c| at <= c) => self.change(at),
                (Some(at), _) if at <= now => {
                    let Some(Reverse((_, _, chain))) = self.wakes.pop() else { return };
                    self.run_chain(chain, at, out);
                }
                _ => return,
            }
        }
    }

    fn run_chain(&mut self, chain: u32, at: Time, out: &mut Vec<(Outcome, Packet)>) {
        self.due[chain as usize] = Time::MAX;
        let mut exits = std::mem::take(&mut self.exits);
        self.chains[chain as usize].run(at, self.stages.as_mut(), |exit, packet| exits.push((exit, packet)));
        self.reschedule(chain);
        for (exit, packet) in exits.drain(..) {
            match exit {
                Exit::Out => self.forward(chain, packet, out),
                Exit::Migrate => {
                    let path = &mut self.paths[usize::from(packet.path)];
                    let hop = path.hop_of(&packet);
                    path.stats[hop][packet.direction as usize].marked(packet.flow.min(self.separate_flows), &packet); // this hop marked it
                    self.migrate(chain, packet);
                }
                Exit::Dropped(cause) => {
                    let path = &mut self.paths[usize::from(packet.path)];
                    let hop = path.hop_of(&packet);
                    let stats = &mut path.stats[hop][packet.direction as usize];
                    stats.dropped(cause);
                    stats.marked(packet.flow.min(self.separate_flows), &packet);
                    out.push((Outcome::Dropped(cause), packet));
                }
            }
        }
        self.exits = exits;
    }

    /// Forward a packet that left `chain` downstream: into the rest of a shared hop, the next hop, or out of the network.
    #[allow(clippy::cast_possible_truncation)] // counts were checked in `new`
    fn forward(&mut self, chain: u32, mut packet: Packet, out: &mut Vec<(Outcome, Packet)>) {
        let path = &mut self.paths[usize::from(packet.path)];
        let direction = packet.direction as usize;
        let hop = path.hop_of(&packet);
        let exit = path.hops[hop].exit[direction];
        if exit != chain {
            self.chains[exit as usize].push(Port::In, packet);
            self.reschedule(exit);
            return;
        }
        path.stats[hop][direction].delivered(packet.flow.min(self.separate_flows), packet.bytes, packet.at.since(packet.hop_entered));
        path.stats[hop][direction].marked(packet.flow.min(self.separate_flows), &packet);
        if usize::from(packet.route) != path.current {
            let route = path.newest_route_from(usize::from(packet.route), hop);
            (packet.route, packet.position) = (route as u16, path.routes[route].position[hop]);
        }
        let end = path.routes[usize::from(packet.route)].hops.len() as u16 - 1;
        match packet.direction {
            Direction::Up if packet.position < end => packet.position += 1,
            Direction::Down if packet.position > 0 => packet.position -= 1,
            _ => {
                out.push((Outcome::Delivered, packet));
                return;
            }
        }
        self.enter(packet, Port::In);
    }

    fn enter(&mut self, mut packet: Packet, port: Port) {
        let path = &self.paths[usize::from(packet.path)];
        let chain = path.hops[path.hop_of(&packet)].entry[packet.direction as usize];
        (packet.hop_entered, packet.marked) = (packet.at, None);
        self.chains[chain as usize].push(port, packet);
        self.reschedule(chain);
    }

    /// Deliver a packet of a migrating queue, or one that follows it, to the hop that the event named.
    #[allow(clippy::cast_possible_truncation)] // counts were checked in `new`
    fn migrate(&mut self, from: u32, mut packet: Packet) {
        let path = &self.paths[usize::from(packet.path)];
        let to = self.migrate_to[from as usize];
        let target = path.hops.iter().position(|hop| hop.entry[packet.direction as usize] == to);
        if let Some((hop, route)) = target.and_then(|hop| Some((hop, path.newest_route_with(hop)?))) {
            (packet.route, packet.position) = (route as u16, path.routes[route].position[hop]);
        }
        self.enter(packet, Port::Migrated);
    }

    fn reschedule(&mut self, chain: u32) {
        let wake = self.chains[chain as usize].wake_at().unwrap_or(Time::MAX);
        if wake < self.due[chain as usize] {
            self.due[chain as usize] = wake;
            self.pushes += 1;
            self.wakes.push(Reverse((wake, self.pushes, chain)));
        }
    }

    /// Return the statistics of one direction of a Profile's hop.
    pub fn stats_mut(&mut self, path: usize, hop: usize, direction: Direction) -> &mut LinkStats {
        &mut self.paths[path].stats[hop][direction as usize]
    }

    /// Add the statistics of an earlier network of the same Profiles to these, and reset its counters to zero.
    pub fn take_stats(&mut self, earlier: &mut Self) {
        for (path, before) in self.paths.iter_mut().zip(&mut earlier.paths) {
            for (own, added) in path.stats.iter_mut().flatten().zip(before.stats.iter_mut().flatten()) {
                own.merge(&std::mem::take(added));
            }
            for (own, added) in path.no_route.iter_mut().zip(&mut before.no_route) {
                *own += std::mem::take(added);
            }
        }
    }

    /// Return the bytes that wait for a hop's capacity.
    #[must_use]
    pub fn backlog_bytes(&self, path: usize, hop: usize, direction: Direction) -> u64 {
        self.chains[self.paths[path].hops[hop].entry[direction as usize] as usize].backlog_bytes()
    }

    /// Return the peak backlog since [`Network::begin_window`].
    #[must_use]
    pub fn peak_backlog_bytes(&self, path: usize, hop: usize, direction: Direction) -> u64 {
        self.chains[self.paths[path].hops[hop].entry[direction as usize] as usize].peak_backlog_bytes()
    }

    /// Reset every peak backlog. Call it after the rows of a window are recorded for all paths.
    pub fn begin_window(&mut self) {
        self.chains.iter_mut().for_each(Chain::reset_peak_backlog);
    }

    /// Return the packets that found no route so far.
    #[must_use]
    pub fn no_route_drops(&self, path: usize, direction: Direction) -> u64 {
        self.paths[path].no_route[direction as usize]
    }

    /// Return the hops in use now.
    #[must_use]
    pub fn route(&self, path: usize) -> &[u16] {
        let path = &self.paths[path];
        &path.routes[path.current].hops
    }

    /// Return the number of packets inside.
    #[must_use]
    pub fn packets(&self) -> usize {
        self.chains.iter().map(Chain::packets).sum()
    }
}

/// Return the hops that an event interrupts, leaves, takes or migrates a queue to.
fn interruptible_hops(profile: &Profile) -> BTreeSet<usize> {
    let mut hops = BTreeSet::new();
    for event in profile.events() {
        hops.insert(event.hop);
        if let EventKind::Handover { to_hop, .. } = event.kind {
            hops.insert(to_hop);
        }
        for direction in Direction::BOTH {
            if let QueueFate::Migrate(migration) = event.fate(direction).queue {
                hops.insert(migration.to_hop);
            }
        }
    }
    hops
}
