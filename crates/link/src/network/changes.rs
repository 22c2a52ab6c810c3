//! Route changes and events: how a handover affects the hop that is left, the hop that is taken, and packet order between them.
//!
//! ```text
//!                 ┌─▶ upstream ─▶ left ─▶ old branch ─┐
//!   common hops ──┤                 ⇣                 ├──▶ first common hop downstream, or the end
//!                 └─▶ ………………… ─▶ taken ─▶ new branch ─┘
//! ```
//! A queue that migrates goes from the left hop to the taken one (⇣). Packets that are still on their way to the left hop follow it. With
//! [`OrderFate::Clamp`] packets of the new route wait twice: in the taken hop's queue for all migrating packets, and at the end of the new branch for
//! all packets that continue over the old one. This keeps order if each handover comes after the packets of the previous one have left the upstream hops.

//!
//! An event of a path strikes its own packets alone: in a queue that others use too, only they leave, migrate or wait. An event of a link strikes all
//! packets in it. The clamp then is a prediction that does not know which packets of other paths will arrive.

use super::Network;
use super::path::{Path, Stragglers};
use crate::chain::Chain;
use crate::event::{PathEvent, Scope};
use crate::packet::{Crossing, Packet};
use bentpipe_profile::{Direction, Event, EventKind, Fate, Nanos, NetworkSpec, OrderFate, QueueFate, Time};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A change that is due at some time. At one time the order is: routes, events of links, events of paths; each in the order of the description.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Change {
    /// The path takes its next route.
    Route { path: u32 },
    /// An event strikes a link.
    Link { event: u32 },
    /// An event strikes the packets of a path.
    Path { path: u32, event: u32 },
}

/// All changes in order of time. They are known from the start, so the next one needs no search.
pub(super) struct Changes {
    list: Vec<(Time, Change)>,
    next: usize,
    link_events: Vec<Event>,
    /// Link that has events → the paths that use it, with their hop.
    users: BTreeMap<usize, Vec<(usize, usize)>>,
}

impl Changes {
    #[allow(clippy::cast_possible_truncation)] // far fewer than 2^32 paths and events
    pub(super) fn new(spec: &NetworkSpec) -> Self {
        let link_events = spec.topology().events.clone();
        let mut list: Vec<(Time, Change)> = (0..).zip(&link_events).map(|(event, e)| (e.at_ns, Change::Link { event })).collect();
        let mut users: BTreeMap<usize, Vec<_>> = link_events.iter().map(|event| (event.hop, Vec::new())).collect();
        for (number, path) in spec.paths().iter().enumerate() {
            list.extend(path.routes[1..].iter().map(|route| (route.at_ns, Change::Route { path: number as u32 })));
            list.extend((0..).zip(&path.events).map(|(event, e)| (e.at_ns, Change::Path { path: number as u32, event })));
            for (hop, used) in path.hops.iter().enumerate() {
                users.entry(used.link).and_modify(|users| users.push((number, hop)));
            }
        }
        list.sort_unstable();
        Self { list, next: 0, link_events, users }
    }

    /// Return when the next change is due.
    pub(super) fn next_at(&self) -> Option<Time> {
        self.list.get(self.next).map(|(at, _)| *at)
    }
}

/// The old and the new route around a handover, in the order in which packets pass the hops.
struct Branches {
    /// Index of the new route.
    route: usize,
    /// Hops that only the old route uses, before the hop that is left.
    upstream: Vec<usize>,
    /// The hop that is left, and the hops behind it that only the old route uses.
    old: Vec<usize>,
    /// The hop that is taken, and the hops behind it that only the new route uses.
    new: Vec<usize>,
}

impl Branches {
    /// Find the branches of a handover from `left` to `taken`. `None`: no earlier route used `left`, or no later one uses `taken`.
    fn of(path: &Path, left: usize, taken: usize, direction: Direction) -> Option<Self> {
        let route = (path.current..path.routes.len()).find(|&route| path.routes[route].has(taken))?;
        let before = (0..route).rev().find(|&route| path.routes[route].has(left))?;
        let (old, new) = (&path.routes[before], &path.routes[route]);
        let upstream = old.branch(left, direction.reverse(), new).into_iter().skip(1).rev().collect();
        Some(Self { route, upstream, old: old.branch(left, direction, new), new: new.branch(taken, direction, old) })
    }
}

impl Network {
    /// Apply the next change.
    #[allow(clippy::cast_possible_truncation)] // counts were checked in `new`
    pub(super) fn change(&mut self) {
        let Some(&(at, change)) = self.changes.list.get(self.changes.next) else { return };
        self.changes.next += 1;
        match change {
            Change::Route { path } => {
                self.paths[path as usize].advance_route(at);
                self.settle(path);
                let path = path as usize;
                for hop in self.route(path).to_vec() {
                    for direction in Direction::BOTH {
                        self.join(path, usize::from(hop), direction, at);
                    }
                }
            }
            Change::Link { event } => {
                let event = self.changes.link_events[event as usize].clone();
                for (path, _) in self.changes.users.get(&event.hop).cloned().unwrap_or_default() {
                    self.paths[path].note_change(at);
                    self.settle(path as u32);
                }
                for direction in Direction::BOTH {
                    self.strike_link(&event, direction);
                }
            }
            Change::Path { path, event } => {
                let event = self.paths[path as usize].events[event as usize].clone();
                self.paths[path as usize].note_change(at);
                self.settle(path);
                for direction in Direction::BOTH {
                    self.apply(path as usize, &event, direction);
                }
            }
        }
    }

    /// Apply an event to one direction of a link: to all packets in it at once, and to those of its paths in a queue that it shares with other links. If
    /// packets migrate, those of paths that cannot follow stay.
    #[allow(clippy::cast_possible_truncation)] // counts were checked in `new`
    fn strike_link(&mut self, event: &Event, direction: Direction) {
        let exit = (2 * event.hop) as u32 + direction as u32;
        let users = self.changes.users.get(&event.hop).cloned().unwrap_or_default();
        let oriented = |(path, hop): (usize, usize)| {
            let sides = &self.paths[path].hops[hop].sides;
            Direction::BOTH.into_iter().find(|&d| sides[d as usize].exit == exit).map(|d| (path, hop, d))
        };
        let users: Vec<_> = users.into_iter().filter_map(oriented).collect();
        let Some(&(path, hop, d)) = users.first() else { return };
        let entry = self.paths[path].hops[hop].sides[d as usize].entry;
        let (at, until, mut fate) = (event.at_ns, event.at_ns + event.interruption_ns, *event.fate(direction));
        if exit != entry {
            self.notify_unit(exit, &PathEvent::Close { at, until, fate, scope: Scope::All });
        }
        let mut followers = Vec::new();
        if let QueueFate::Migrate(migration) = fate.queue {
            for &(path, hop, d) in &users {
                let target = self.paths[path].hops.iter().position(|other| (other.sides[d as usize].exit / 2) as usize == migration.to_hop);
                if let Some(to_hop) = target.filter(|&hop| self.paths[path].newest_route_with(hop).is_some()) {
                    self.prepare_migration(path, hop, to_hop, d);
                    followers.push((path, hop, to_hop, d));
                }
            }
            if followers.is_empty() {
                fate.queue = QueueFate::Keep;
            } else if followers.len() < users.len() {
                let scope = self.scope(followers.iter().map(|user| (user.0, user.1)), entry);
                self.notify_unit(entry, &PathEvent::Close { at, until: at, fate, scope });
                fate.queue = QueueFate::Keep;
            }
        }
        // Packets of a path without a route that still reach the link are dropped as its queue is, whatever routes others have.
        let is_left = |&(path, _): &(usize, usize)| fate.queue == QueueFate::Drop && self.route(path).is_empty();
        let (left, served): (Vec<_>, Vec<_>) = users.iter().map(|user| (user.0, user.1)).partition(is_left);
        if !left.is_empty() {
            let scope = self.scope(left, entry);
            self.notify_unit(entry, &PathEvent::Leave { at, fate, scope });
        }
        if !served.is_empty() {
            let scope = self.scope(served, entry);
            self.notify_unit(entry, &PathEvent::Close { at, until, fate, scope });
        }
        for (path, _, to_hop, d) in followers {
            self.join(path, to_hop, d, at); // so that the queue does not migrate in a circle
        }
    }

    /// Apply an event to one direction of a path.
    fn apply(&mut self, path: usize, event: &Event, direction: Direction) {
        let mut fate = *event.fate(direction);
        if let QueueFate::Migrate(migration) = fate.queue {
            if self.paths[path].newest_route_with(migration.to_hop).is_some() {
                self.prepare_migration(path, event.hop, migration.to_hop, direction);
            } else {
                fate.queue = QueueFate::Keep; // no route leads on from that hop
            }
        }
        match event.kind {
            EventKind::Handover { to_hop, .. } if to_hop != event.hop => self.apply_handover(path, event, to_hop, direction, fate),
            _ => {
                let until = event.at_ns + event.interruption_ns;
                self.notify(path, event.hop, direction, |scope| PathEvent::Close { at: event.at_ns, until, fate, scope });
            }
        }
        if let QueueFate::Migrate(migration) = fate.queue {
            self.join(path, migration.to_hop, direction, event.at_ns); // so that the queue does not migrate in a circle
        }
    }

    /// Record where the queue migrates to. If no other path uses either queue, pass on its AQM state: it is still the same machine's queue.
    #[allow(clippy::cast_possible_truncation)] // counts were checked in `new`
    fn prepare_migration(&mut self, path: usize, from_hop: usize, to_hop: usize, direction: Direction) {
        let d = direction as usize;
        self.paths[path].hops[from_hop].sides[d].migrate_to = to_hop as u16;
        let [from, to] = [from_hop, to_hop].map(|hop| self.paths[path].hops[hop].sides[d].entry);
        if from == to || [from, to].iter().any(|&unit| self.users[unit as usize] > 1) {
            return;
        }
        let queue = self.chain(from).migration().map(|migration| migration.queue().clone());
        if let (Some(queue), Some(migration)) = (queue, self.chain_mut(to).migration_mut()) {
            migration.adopt_aqm_state(&queue);
        }
    }

    /// Apply a handover from the event's hop to the hop `taken`.
    #[allow(clippy::cast_possible_truncation)] // counts were checked in `new`
    fn apply_handover(&mut self, path: usize, event: &Event, taken: usize, direction: Direction, fate: Fate) {
        let at = event.at_ns;
        let side = &mut self.paths[path].hops[event.hop].sides[direction as usize];
        if !matches!(fate.queue, QueueFate::Migrate(_)) && self.links[(side.exit / 2) as usize].has_ends() {
            side.migrate_to = taken as u16; // for what the link's ends keep
        }
        self.notify(path, event.hop, direction, |scope| PathEvent::Leave { at, fate, scope });
        if event.interruption_ns.0 > 0 {
            let until = at + event.interruption_ns;
            self.notify(path, taken, direction, |scope| PathEvent::Close { at, until, fate: Fate::LOSSLESS, scope });
        }
        self.join(path, taken, direction, at);
        let branches = Branches::of(&self.paths[path], event.hop, taken, direction);
        if self.paths[path].routes[self.paths[path].current].has(event.hop) {
            self.join(path, event.hop, direction, at); // the path still uses the hop
        }
        if let Some(branches) = branches {
            self.enforce_order(path, at, direction, fate, &branches);
        }
    }

    /// Make packets of the new route wait for those of the old one, if `fate` requires it.
    #[allow(clippy::cast_possible_truncation)] // counts were checked in `new`
    fn enforce_order(&mut self, path: usize, at: Time, direction: Direction, fate: Fate, branches: &Branches) {
        let d = direction as usize;
        let left = branches.old[0];
        // Packets that the left hop still receives: from the previous handover, and from the hops upstream.
        let earlier = std::mem::take(&mut self.paths[path].stragglers[d]);
        let mut arriving: Vec<Packet> = earlier.packets.into_iter().filter(|packet| earlier.hop == left && packet.at >= at).collect();
        arriving.extend(self.departures(path, d, &branches.upstream, Vec::new()));
        for packet in &mut arriving {
            packet.hop = left as u16;
        }
        arriving.sort_by_key(|packet| packet.at);
        let clamp = fate.order == OrderFate::Clamp;
        if let QueueFate::Migrate(migration) = fate.queue {
            let entry = self.paths[path].hops[left].sides[d].entry;
            let mut packets = self.chain(entry).migration().map_or_else(Vec::new, |migration| migration.migrating(&arriving));
            packets.retain(|packet| packet.crossing() == crossing(path, left));
            for packet in &mut packets {
                packet.route = branches.route as u16;
            }
            if let Some(last) = packets.last().filter(|_| clamp) {
                // One nanosecond later, since chains run in any order within one instant.
                let to = self.paths[path].hops[migration.to_hop].sides[d].entry;
                let scope = self.scope([(path, migration.to_hop)], to);
                self.notify_unit(to, &PathEvent::Await { until: last.at + Nanos(1), scope });
            }
            self.paths[path].stragglers[d] = Stragglers { hop: migration.to_hop, packets };
        }
        let last_departure = self.departures(path, d, &branches.old, arriving).iter().map(|packet| packet.at).max();
        let floor = self.paths[path].floor[d].max(last_departure.unwrap_or(Time::ZERO));
        self.paths[path].floor[d] = floor;
        if clamp
            && floor >= at
            && let Some(&last) = branches.new.last()
        {
            let exit = self.paths[path].hops[last].sides[d].exit;
            let event = PathEvent::NotBefore { path: path as u32, route: branches.route as u16, floor: floor + Nanos(1) };
            self.notify_unit(exit, &event);
        }
    }

    /// Predict when the packets in these hops of a path, followed by `arrivals`, leave the last hop if no further event happens.
    fn departures(&self, path: usize, direction: usize, hops: &[usize], arrivals: Vec<Packet>) -> Vec<Packet> {
        hops.iter().fold(arrivals, |mut packets, &hop| {
            let own = crossing(path, hop);
            for packet in &mut packets {
                packet.hop = own.hop;
            }
            for unit in self.paths[path].hops[hop].sides[direction].units() {
                packets = self.chain(unit).departures(packets);
                packets.retain(|packet| packet.crossing() == own);
            }
            packets
        })
    }

    /// Return the scope of an event of paths and their hops (in order) in a unit: all packets if no others use it.
    fn scope(&self, users: impl IntoIterator<Item = (usize, usize)>, unit: u32) -> Scope {
        let crossings: Arc<[Crossing]> = users.into_iter().map(|(path, hop)| crossing(path, hop)).collect();
        if crossings.len() == self.users[unit as usize] as usize { Scope::All } else { Scope::Crossings(crossings) }
    }

    pub(super) fn chain_mut(&mut self, unit: u32) -> &mut Chain {
        self.links[(unit / 2) as usize].chain_mut((unit % 2) as usize)
    }

    /// Notify a hop that the path uses it.
    fn join(&mut self, path: usize, hop: usize, direction: Direction, at: Time) {
        let entry = self.paths[path].hops[hop].sides[direction as usize].entry;
        let event = PathEvent::Join { at, scope: self.scope([(path, hop)], entry) };
        self.notify_unit(entry, &event);
    }

    /// Pass an event to the units of one direction of a hop. `event`: the event by its scope.
    fn notify(&mut self, path: usize, hop: usize, direction: Direction, event: impl Fn(Scope) -> PathEvent) {
        let mut units: Vec<u32> = self.paths[path].hops[hop].sides[direction as usize].units().collect();
        units.sort_unstable();
        for unit in units {
            let event = event(self.scope([(path, hop)], unit));
            self.notify_unit(unit, &event);
        }
    }

    /// Pass an event to a unit. The unit may be due earlier or later afterwards.
    fn notify_unit(&mut self, unit: u32, event: &PathEvent) {
        self.links[(unit / 2) as usize].on_event((unit % 2) as usize, event);
        let wake = self.wake_of(unit);
        if wake > self.due[unit as usize] {
            self.due[unit as usize] = Time::MAX; // the old entry is invalid
        }
        self.schedule(unit, wake);
    }
}

/// Return a path and its hop as packets have them.
#[allow(clippy::cast_possible_truncation)] // counts were checked in `new`
const fn crossing(path: usize, hop: usize) -> Crossing {
    Crossing { path: path as u32, hop: hop as u16 }
}
