//! Chains, routes and events of one or more Profiles: packets go in at one end and come out at the other, or not.
//!
//! ```text
//!            send(up)                                              outcome(up)
//!   terminal ───────▶ [hop 0 ▸] ─▶ [hop 1 ▸] ─▶ … ─▶ [hop n ▸] ──────▶ server
//!   terminal ◀─────── [◂ hop 0] ◀─ [◂ hop 1] ◀─ … ◀─ [◂ hop n] ◀────── server
//!            outcome(down)        routes: which hops, from when        send(down)
//! ```
//! Each `[hop]` is a [`Chain`]. A packet moves with the path for as long as the path uses the hop that the packet stands in; where the
//! path has left that hop, the packet goes on over the rest of the old route. What events do is in `changes`.

mod changes;
mod path;

use self::path::{ABSENT, HopChains, Path, Route};
use crate::chain::Chain;
use crate::element::{DropCause, Exit, Port};
use crate::packet::Packet;
use crate::shared::SharedHops;
use crate::stages::Stage;
use crate::stats::LinkStats;
use bentpipe_profile::{Direction, EventKind, Profile, QueueFate, Streams, Time};
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

/// Profiles that cannot form one network.
#[derive(Debug, thiserror::Error, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum NetworkError {
    /// One shared id, two different queues.
    #[error("hops with shared id {id:?} differ in capacity or queue ({direction}): Profiles that share a hop must agree on it")]
    SharedDiffers {
        /// The id.
        id: String,
        /// Where they differ.
        direction: &'static str,
    },
    /// One user's handover would strike the queue that all share.
    #[error("hop {hop:?} is shared ({id:?}) and events strike it: share hops that no handover or outage names")]
    SharedWithEvents {
        /// The hop.
        hop: String,
        /// Its shared id.
        id: String,
    },
    /// More of something than a packet's fields can count.
    #[error("{what}: {found} are too many; at most {most}")]
    TooMany {
        /// What.
        what: &'static str,
        /// How many there are.
        found: usize,
        /// The limit.
        most: usize,
    },
}

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It reached the other end.
    Delivered,
    /// It was lost.
    Dropped(DropCause),
}

/// See the module.
pub struct Network {
    chains: Vec<Chain>,
    paths: Vec<Path>,
    /// Due times of chains; an entry counts only while it is the one in `due`.
    wakes: BinaryHeap<Reverse<(Time, u64, u32)>>,
    due: Vec<Time>,
    pushes: u64,
    /// Where a chain's queue moves to.
    migrate_to: Vec<u32>,
    left: Vec<(Exit, Packet)>,
    /// `None`: not asked for.
    stages: Option<Vec<Stage>>,
    /// Flows from this number on are counted together.
    counted: u32,
}

impl Network {
    /// The network of these Profiles; `streams` are the run's (per-packet draws are keyed by hop name and direction).
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
            left: Vec::new(),
            stages: None,
            counted: u32::MAX,
        };
        let mut shared = SharedHops::default();
        let limit = |what, found: usize| {
            let most = usize::from(ABSENT) - 1;
            if found > most { Err(NetworkError::TooMany { what, found, most }) } else { Ok(()) }
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

    /// Counts the flows from number `flows` on together, as one with that number: many short ones would each need a histogram in each hop.
    pub const fn count_flows(&mut self, flows: u32) {
        self.counted = flows;
    }

    /// The number under which flows are counted together; above all of them where none are.
    #[must_use]
    pub const fn counted_flows(&self) -> u32 {
        self.counted
    }

    #[allow(clippy::cast_possible_truncation)] // counts were checked in `new`
    fn path<'a>(&mut self, profile: &'a Profile, streams: Streams, shared: &mut SharedHops<'a>) -> Result<Path, NetworkError> {
        let gated = gated_hops(profile);
        let mut hops = Vec::new();
        for (i, hop) in profile.hops().iter().enumerate() {
            let key = |d: Direction| streams.key(&format!("loss/{}/{}", hop.name, d.name()));
            let queue_key = |name: &str, d: Direction| streams.key(&format!("queue/{name}/{}", d.name()));
            let chains = if let Some(id) = &hop.shared_id {
                if gated.contains(&i) {
                    return Err(NetworkError::SharedWithEvents { hop: hop.name.clone(), id: id.clone() });
                }
                let entry =
                    shared.chains(id, hop, || Direction::BOTH.map(|d| self.add(Chain::queue_only(hop.side(d), queue_key(id, d)))))?;
                let exit = Direction::BOTH.map(|d| self.add(Chain::behind_queue(hop.side(d), key(d))));
                HopChains { entry, exit }
            } else {
                let entry =
                    Direction::BOTH.map(|d| self.add(Chain::whole(hop.side(d), gated.contains(&i), [queue_key(&hop.name, d), key(d)])));
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

    /// Keeps from now on where each packet's time went, until [`Network::take_stages`].
    pub fn keep_stages(&mut self) {
        self.stages.get_or_insert_default();
    }

    /// What was kept since it was last taken, in order for each packet; those of a packet are there when its [`Outcome`] is.
    pub fn take_stages(&mut self) -> impl Iterator<Item = Stage> {
        self.stages.iter_mut().flat_map(|stages| stages.drain(..))
    }

    /// Takes a packet at its end of the path at `packet.at`. `Err`: there is no path now, and the packet is lost.
    ///
    /// # Errors
    /// The packet itself, if the route is empty.
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

    /// When something is due next.
    #[must_use]
    pub fn wake_at(&self) -> Option<Time> {
        let chain = self.wakes.peek().map(|Reverse((at, ..))| *at);
        self.paths.iter().filter_map(Path::next_change).chain(chain).min()
    }

    /// Does all that is due by `now`, in order of logical time; what reaches an end, or is lost, is appended to `out`.
    pub fn run_until(&mut self, now: Time, out: &mut Vec<(Outcome, Packet)>) {
        loop {
            while let Some(Reverse((at, _, chain))) = self.wakes.peek().copied() {
                if self.due[chain as usize] == at {
                    break;
                }
                self.wakes.pop(); // overtaken by an earlier wake
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
        let mut left = std::mem::take(&mut self.left);
        self.chains[chain as usize].run(at, self.stages.as_mut(), |exit, packet| left.push((exit, packet)));
        self.reschedule(chain);
        for (exit, packet) in left.drain(..) {
            match exit {
                Exit::Out => self.forward(chain, packet, out),
                Exit::Migrate => {
                    let path = &mut self.paths[usize::from(packet.path)];
                    let hop = path.hop_of(&packet);
                    path.stats[hop][packet.direction as usize].marked(packet.flow.min(self.counted), &packet); // it got its mark here
                    self.migrate(chain, packet);
                }
                Exit::Dropped(cause) => {
                    let path = &mut self.paths[usize::from(packet.path)];
                    let hop = path.hop_of(&packet);
                    let stats = &mut path.stats[hop][packet.direction as usize];
                    stats.dropped(cause);
                    stats.marked(packet.flow.min(self.counted), &packet);
                    out.push((Outcome::Dropped(cause), packet));
                }
            }
        }
        self.left = left;
    }

    /// A packet left `chain` downstream: into the rest of a shared hop, the next hop, or out of the network.
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
        path.stats[hop][direction].delivered(packet.flow.min(self.counted), packet.bytes, packet.at.since(packet.hop_entered));
        path.stats[hop][direction].marked(packet.flow.min(self.counted), &packet);
        if usize::from(packet.route) != path.current {
            let route = path.follow(usize::from(packet.route), hop);
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

    /// A packet of a moved queue, or one that follows it, arrives at the hop that the event named.
    #[allow(clippy::cast_possible_truncation)] // counts were checked in `new`
    fn migrate(&mut self, from: u32, mut packet: Packet) {
        let path = &self.paths[usize::from(packet.path)];
        let to = self.migrate_to[from as usize];
        let joined = path.hops.iter().position(|hop| hop.entry[packet.direction as usize] == to);
        if let Some((hop, route)) = joined.and_then(|hop| Some((hop, path.newest_with(hop)?))) {
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

    /// Statistics of one direction of a Profile's hop.
    pub fn stats_mut(&mut self, path: usize, hop: usize, direction: Direction) -> &mut LinkStats {
        &mut self.paths[path].stats[hop][direction as usize]
    }

    /// Takes over the statistics of a network of the same Profiles, whose counts begin at zero again.
    pub fn take_stats(&mut self, earlier: &mut Self) {
        for (path, before) in self.paths.iter_mut().zip(&mut earlier.paths) {
            for (mine, theirs) in path.stats.iter_mut().flatten().zip(before.stats.iter_mut().flatten()) {
                mine.merge(&std::mem::take(theirs));
            }
            for (mine, theirs) in path.no_route.iter_mut().zip(&mut before.no_route) {
                *mine += std::mem::take(theirs);
            }
        }
    }

    /// Bytes that wait for a hop's capacity.
    #[must_use]
    pub fn backlog_bytes(&self, path: usize, hop: usize, direction: Direction) -> u64 {
        self.chains[self.paths[path].hops[hop].entry[direction as usize] as usize].backlog_bytes()
    }

    /// The most of it at any moment since [`Network::begin_window`].
    #[must_use]
    pub fn peak_backlog_bytes(&self, path: usize, hop: usize, direction: Direction) -> u64 {
        self.chains[self.paths[path].hops[hop].entry[direction as usize] as usize].peak_backlog_bytes()
    }

    /// Forgets what waited before; after the rows of a window are written, of all paths.
    pub fn begin_window(&mut self) {
        self.chains.iter_mut().for_each(Chain::reset_peak_backlog);
    }

    /// Packets that found no route so far.
    #[must_use]
    pub fn no_route_drops(&self, path: usize, direction: Direction) -> u64 {
        self.paths[path].no_route[direction as usize]
    }

    /// Hops in use now.
    #[must_use]
    pub fn route(&self, path: usize) -> &[u16] {
        let path = &self.paths[path];
        &path.routes[path.current].hops
    }

    /// Packets inside.
    #[must_use]
    pub fn packets(&self) -> usize {
        self.chains.iter().map(Chain::inside).sum()
    }
}

/// Hops that some event closes, leaves, takes or moves a queue to.
fn gated_hops(profile: &Profile) -> BTreeSet<usize> {
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
