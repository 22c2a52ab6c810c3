//! The network: links, the routes of paths over them, and events. Packets enter at one end of a path; they leave at the other or are dropped.
//!
//! ```text
//!            send(up)                                                outcome(up)
//!   terminal ───────▶ [link 0 ▸] ─▶ [link 1 ▸] ─▶ … ─▶ [link n ▸] ──────▶ server
//!   terminal ◀─────── [◂ link 0] ◀─ [◂ link 1] ◀─ … ◀─ [◂ link n] ◀────── server
//!            outcome(down)      routes: which links, from when        send(down)
//! ```
//! Each [`Link`] exists once, with its queues and events, however many paths use it. A packet follows the newest route of its path as long as that uses the
//! packet's link. If the path has left that link, the packet continues over the rest of the old route. Module `changes` applies route changes and events.

mod ahead;
mod arrivals;
mod build;
mod changes;
mod path;
mod path_ends;
mod stops;
mod wakes;

use self::changes::Changes;
use self::path::{ABSENT, Path};
use self::wakes::Wakes;
use crate::cause::DropCause;
use crate::chain::Chain;
use crate::element::{Element, Port};
use crate::error::NetworkError;
use crate::link::Link;
use crate::packet::{Packet, Role};
use crate::stages::Stage;
use crate::stats::LinkStats;
use bentpipe_profile::{Direction, Time};

/// The outcome of a packet that has left the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The packet reached the other end.
    Delivered,
    /// The packet was dropped.
    Dropped(DropCause),
}

/// Links, the paths over them and their events (see the module). A *unit* is one direction of a link.
pub struct Network {
    /// The links of the Topology, then the queues that several of them share.
    links: Vec<Link>,
    /// For each link of the Topology, the link with its queue.
    queue_links: Vec<usize>,
    /// For each unit, how many crossings use it.
    users: Vec<u32>,
    /// For each unit, whether all its packets are of one hop of one path.
    solo: Vec<bool>,
    /// Before this time the driver reads no statistics (module `ahead`).
    look_ahead: Time,
    /// Units whose packets may be ahead of their time; empty between calls.
    pending: Vec<u32>,
    paths: Vec<Path>,
    changes: Changes,
    /// Wake-up times of units. An entry is valid only while it equals the unit's entry in `due`.
    wakes: Wakes,
    due: Vec<Time>,
    /// The egress of a path's direction, for each number from twice the number of links on.
    egresses: Vec<(u32, Direction)>,
    /// Buffer for the packets that leave a link, with their unit.
    exits: Vec<(u32, Port, Packet)>,
    /// Recorded stages; `None`: not recorded.
    stages: Option<Vec<Stage>>,
    /// Flows from this number on share one set of counters.
    separate_flows: u32,
}

impl Network {
    /// Keep separate counters only for flows below number `flows`. All others share one set, under that number: many short flows would each need a
    /// histogram in each link.
    pub const fn set_separate_flows(&mut self, flows: u32) {
        self.separate_flows = flows;
    }

    /// Return how many flows have counters of their own. The others share one set, under this number.
    #[must_use]
    pub const fn separate_flows(&self) -> u32 {
        self.separate_flows
    }

    /// Put elements at the ends of a link, before packets enter it. `link`: its index in the Topology, whose direction up leads from the first end to the
    /// second. Packets enter an end by [`Port::Near`] from its node and by [`Port::Far`] from the link. It returns them by [`Port::Far`] into the link, by
    /// [`Port::Ahead`] into the link ahead of the queue, by [`Port::Near`] to its node, by [`Port::Drop`] once it gives a packet up, or by [`Port::Onward`]
    /// to the link that the packet's path took at the last handover from this one. A packet that it keeps once it was sent has the role [`Role::Copy`]; one
    /// that waits in the queue, the first time or ahead, has the role [`Role::Host`]. If links share a queue, the ends stand behind it. A control packet names
    /// the path and hop of a packet that crosses the link.
    ///
    /// # Errors
    /// A link that does not exist, has ends already or carries packets.
    pub fn set_ends(&mut self, link: usize, elements: [Box<dyn Element>; 2]) -> Result<(), NetworkError> {
        let links = self.queue_links.len();
        let (problem, expected) = match self.queue_links.get(link) {
            None => ("it does not exist", format!("0 to {}", links.saturating_sub(1))),
            _ if self.links[link].has_ends() => ("it has ends already", "ends that are set once".to_owned()),
            _ if self.links[link].packets() > 0 => ("it carries packets", "ends that are set before packets enter".to_owned()),
            Some(&queue) => {
                self.links[link].set_ends(elements, queue != link);
                self.unsettle_for_ever();
                return Ok(());
            }
        };
        Err(NetworkError::Ends { link, problem, expected })
    }

    /// Return a link by its index in the Topology.
    #[must_use]
    pub fn link(&self, link: usize) -> &Link {
        &self.links[link]
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
        let path = &mut self.paths[packet.path as usize];
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
        path.count_entry(&packet);
        self.settle(packet.path);
        let packet = self.pass_ingress(packet);
        self.enter(packet, Port::Near);
        Ok(())
    }

    /// Return when the next packet or event is due.
    #[must_use]
    pub fn wake_at(&self) -> Option<Time> {
        let unit = self.wakes.peek().map(|(at, _)| at);
        self.changes.next_at().into_iter().chain(unit).min()
    }

    /// Process everything that is due by `now`, in order of logical time. Appends delivered and dropped packets to `out`.
    pub fn run_until(&mut self, now: Time, out: &mut Vec<(Outcome, Packet)>) {
        loop {
            let mut first = self.wakes.peek();
            while first.is_some_and(|(at, unit)| self.due[unit as usize] != at) {
                self.wakes.pop(); // superseded by an earlier wake-up
                first = self.wakes.peek();
            }
            let unit_at = first.map(|(at, _)| at);
            match (unit_at, self.changes.next_at()) {
                (_, Some(at)) if at <= now && unit_at.is_none_or(|unit| at <= unit) => self.change(),
                (Some(at), _) if at <= now => {
                    let Some((_, unit)) = self.wakes.pop() else { return };
                    self.run_unit(unit, at, out);
                }
                _ => return,
            }
        }
    }

    #[allow(clippy::cast_possible_truncation)] // a direction is 0 or 1
    fn run_unit(&mut self, unit: u32, at: Time, out: &mut Vec<(Outcome, Packet)>) {
        if self.run_egress(unit, at, out) {
            return;
        }
        self.due[unit as usize] = Time::MAX;
        let mut exits = std::mem::take(&mut self.exits);
        let (link, direction) = ((unit / 2) as usize, (unit % 2) as usize);
        let link = &mut self.links[link];
        link.run(direction, at, self.stages.as_mut(), |direction, port, packet| exits.push((unit & !1 | direction as u32, port, packet)));
        if link.chain(direction).has_ends {
            self.reschedule(unit ^ 1);
        }
        let first = unit;
        if !self.is_ahead() {
            self.reschedule(unit);
        }
        self.pass_on(&mut exits, out);
        self.exits = exits;
        if self.is_ahead() {
            self.run_ahead(first);
        }
    }

    /// Pass on packets that have left links, each with its unit and port.
    fn pass_on(&mut self, exits: &mut Vec<(u32, Port, Packet)>, out: &mut Vec<(Outcome, Packet)>) {
        for (unit, port, mut packet) in exits.drain(..) {
            if packet.role != Role::Host && matches!(port, Port::Drop(_) | Port::Migration) {
                // It came from an end behind this queue.
                let exit = self.paths[packet.path as usize].leg_of(&packet).exit[packet.direction as usize];
                let Some(host) = self.links[(exit / 2) as usize].leave_queue((exit % 2) as usize, port, packet) else { continue };
                packet = host;
            }
            match port {
                Port::Far | Port::Near => self.forward(unit, packet, out),
                Port::Ahead => {
                    let entry = self.paths[packet.path as usize].leg_of(&packet).entry[packet.direction as usize];
                    self.push(entry, Port::Ahead, packet);
                }
                Port::Onward => self.migrate(packet, Port::Ahead),
                Port::Migration => {
                    let path = &mut self.paths[packet.path as usize];
                    let hop = usize::from(packet.hop);
                    path.hops[hop].sides[packet.direction as usize].stats.marked(packet.flow.min(self.separate_flows), &packet); // this link marked it
                    self.migrate(packet, Port::Migration);
                }
                Port::Drop(cause) => {
                    let path = &mut self.paths[packet.path as usize];
                    path.count_exit(&packet);
                    let hop = usize::from(packet.hop);
                    let stats = &mut path.hops[hop].sides[packet.direction as usize].stats;
                    stats.dropped(cause);
                    stats.marked(packet.flow.min(self.separate_flows), &packet);
                    self.settle(packet.path);
                    out.push((Outcome::Dropped(cause), packet));
                }
            }
        }
    }

    /// Forward a packet that left `unit` downstream: from a shared queue into its link, into the next link, or out of the network.
    fn forward(&mut self, unit: u32, mut packet: Packet, out: &mut Vec<(Outcome, Packet)>) {
        let path = &mut self.paths[packet.path as usize];
        let direction = packet.direction as usize;
        let mut leg = path.leg_of(&packet);
        if leg.exit[direction] != unit {
            self.push(leg.exit[direction], Port::Near, packet);
            return;
        }
        let hop = usize::from(leg.hop);
        let inside = packet.at.since(packet.hop_entered);
        path.hops[hop].sides[direction].stats.delivered(packet.flow.min(self.separate_flows), &packet, inside);
        if usize::from(packet.route) != path.current {
            let route = path.newest_route_from(usize::from(packet.route), hop);
            path.follow(&mut packet, route, hop);
            leg = path.leg_of(&packet);
        }
        if leg.stops[direction] {
            return self.stop(packet, out);
        }
        match packet.direction {
            Direction::Up if !leg.is_last => packet.position += 1,
            Direction::Down if packet.position > 0 => packet.position -= 1,
            _ => return self.leave(packet, out),
        }
        self.enter(packet, Port::Near);
    }

    fn enter(&mut self, mut packet: Packet, port: Port) {
        let leg = self.paths[packet.path as usize].leg_of(&packet);
        let unit = leg.entry[packet.direction as usize];
        (packet.hop, packet.hop_entered, packet.marked) = (leg.hop, packet.at, None);
        self.push(unit, port, packet);
    }

    fn push(&mut self, unit: u32, port: Port, mut packet: Packet) {
        if port == Port::Near && self.is_ahead() {
            match self.enter_ahead(unit, packet) {
                None => return,
                Some(refused) => packet = refused,
            }
        }
        self.links[(unit / 2) as usize].push((unit % 2) as usize, port, packet);
        if self.is_ahead() { self.run_ahead(unit) } else { self.reschedule(unit) }
    }

    /// Deliver a packet of a migrating queue, one that follows it or one that an end kept to the hop that the event named.
    fn migrate(&mut self, mut packet: Packet, port: Port) {
        let path = &self.paths[packet.path as usize];
        let target = path.hops[usize::from(packet.hop)].sides[packet.direction as usize].migrate_to;
        if target != ABSENT
            && let Some(route) = path.newest_route_with(usize::from(target))
        {
            path.follow(&mut packet, route, usize::from(target));
        }
        self.enter(packet, port);
    }

    /// Return when a unit or an egress is due; `Time::MAX`: nothing is.
    fn wake_of(&self, unit: u32) -> Time {
        let wake = match self.links.get((unit / 2) as usize) {
            Some(link) => link.wake_at((unit % 2) as usize),
            None => self.egress_wake(unit),
        };
        wake.unwrap_or(Time::MAX)
    }

    fn reschedule(&mut self, unit: u32) {
        let wake = self.wake_of(unit);
        self.schedule(unit, wake);
    }

    fn schedule(&mut self, unit: u32, wake: Time) {
        if wake < self.due[unit as usize] {
            self.due[unit as usize] = wake;
            self.wakes.push(wake, unit);
        }
    }

    /// Return the statistics of one direction of a path's hop.
    pub fn stats_mut(&mut self, path: usize, hop: usize, direction: Direction) -> &mut LinkStats {
        &mut self.paths[path].hops[hop].sides[direction as usize].stats
    }

    /// Add the statistics of an earlier network of the same paths to these, and reset its counters to zero.
    pub fn take_stats(&mut self, earlier: &mut Self) {
        for (path, before) in self.paths.iter_mut().zip(&mut earlier.paths) {
            for (own, added) in path.hops.iter_mut().zip(&mut before.hops) {
                for (own, added) in own.sides.iter_mut().zip(&mut added.sides) {
                    own.stats.merge(&std::mem::take(&mut added.stats));
                }
            }
            for (own, added) in path.no_route.iter_mut().zip(&mut before.no_route) {
                *own += std::mem::take(added);
            }
        }
    }

    /// Return the bytes that wait for a hop's capacity.
    #[must_use]
    pub fn backlog_bytes(&self, path: usize, hop: usize, direction: Direction) -> u64 {
        self.queue(path, hop, direction).backlog_bytes()
    }

    /// Return the peak backlog since [`Network::begin_window`].
    #[must_use]
    pub fn peak_backlog_bytes(&self, path: usize, hop: usize, direction: Direction) -> u64 {
        self.queue(path, hop, direction).peak_backlog_bytes()
    }

    /// Return the chain that holds the queue of one direction of a path's hop.
    fn queue(&self, path: usize, hop: usize, direction: Direction) -> &Chain {
        self.chain(self.paths[path].hops[hop].sides[direction as usize].entry)
    }

    /// Return the chain of a unit.
    fn chain(&self, unit: u32) -> &Chain {
        self.links[(unit / 2) as usize].chain((unit % 2) as usize)
    }

    /// Reset every peak backlog. Call it after the rows of a window are recorded for all paths.
    pub fn begin_window(&mut self) {
        self.links.iter_mut().for_each(|link| [0, 1].into_iter().for_each(|direction| link.chain_mut(direction).reset_peak_backlog()));
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
        self.links.iter().map(Link::packets).sum::<usize>() + self.packets_at_path_ends()
    }
}
