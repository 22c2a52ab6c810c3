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

use super::Network;
use super::path::{Path, Stragglers};
use crate::event::PathEvent;
use crate::packet::Packet;
use bentpipe_profile::{Direction, Event, EventKind, Fate, Nanos, OrderFate, QueueFate, Time};
use std::collections::BTreeSet;

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
    /// Apply the route changes and events that are due at `at`.
    pub(super) fn change(&mut self, at: Time) {
        for i in 0..self.paths.len() {
            while self.paths[i].routes.get(self.paths[i].current + 1).is_some_and(|r| r.at <= at) {
                self.paths[i].current += 1;
                for hop in self.route(i).to_vec() {
                    for direction in Direction::BOTH {
                        self.join(i, usize::from(hop), direction);
                    }
                }
            }
            while let Some(event) = self.paths[i].events.get(self.paths[i].next_event).filter(|e| e.at_ns <= at) {
                let event = event.clone();
                self.paths[i].next_event += 1;
                for direction in Direction::BOTH {
                    self.apply(i, &event, direction);
                }
            }
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
                self.notify(path, event.hop, direction, &PathEvent::Close { at: event.at_ns, until, fate });
            }
        }
        if let QueueFate::Migrate(migration) = fate.queue {
            self.join(path, migration.to_hop, direction); // so that the queue does not migrate in a circle
        }
    }

    /// Pass the queue's AQM state to the hop that the queue migrates to: it is still the same machine's queue.
    fn prepare_migration(&mut self, path: usize, from_hop: usize, to_hop: usize, direction: Direction) {
        let entry = |hop: usize| self.paths[path].hops[hop].entry[direction as usize];
        let (from, to) = (entry(from_hop), entry(to_hop));
        self.migrate_to[from as usize] = to;
        if from != to
            && let Some(queue) = self.chains[from as usize].queue().cloned()
        {
            self.chains[to as usize].adopt_aqm_state(&queue);
        }
    }

    /// Apply a handover from the event's hop to the hop `taken`.
    fn apply_handover(&mut self, path: usize, event: &Event, taken: usize, direction: Direction, fate: Fate) {
        let at = event.at_ns;
        self.notify(path, event.hop, direction, &PathEvent::Leave { at, fate });
        if event.interruption_ns.0 > 0 {
            let until = at + event.interruption_ns;
            self.notify(path, taken, direction, &PathEvent::Close { at, until, fate: Fate::LOSSLESS });
        }
        self.join(path, taken, direction);
        let branches = Branches::of(&self.paths[path], event.hop, taken, direction);
        if self.paths[path].routes[self.paths[path].current].has(event.hop) {
            self.join(path, event.hop, direction); // the path still uses the hop
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
        arriving.sort_by_key(|packet| packet.at);
        let clamp = fate.order == OrderFate::Clamp;
        if let QueueFate::Migrate(migration) = fate.queue {
            let left = self.paths[path].hops[left].entry[d];
            let mut packets = self.chains[left as usize].migrating(&arriving);
            for packet in &mut packets {
                packet.route = branches.route as u16;
            }
            if let Some(last) = packets.last().filter(|_| clamp) {
                // One nanosecond later, since chains run in any order within one instant.
                let to = self.paths[path].hops[migration.to_hop].entry[d];
                self.chains[to as usize].on_event(&PathEvent::Await { until: last.at + Nanos(1) });
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
            let exit = self.paths[path].hops[last].exit[d];
            self.chains[exit as usize].on_event(&PathEvent::NotBefore { route: branches.route as u16, floor: floor + Nanos(1) });
        }
    }

    /// Predict when the packets in these hops of a path, followed by `arrivals`, leave the last hop if no further event happens.
    fn departures(&self, path: usize, direction: usize, hops: &[usize], arrivals: Vec<Packet>) -> Vec<Packet> {
        let hops = hops.iter().map(|&hop| &self.paths[path].hops[hop]);
        let mut chains: Vec<u32> = hops.flat_map(|hop| [hop.entry[direction], hop.exit[direction]]).collect();
        chains.dedup();
        chains.into_iter().fold(arrivals, |arrivals, chain| {
            let mut packets = self.chains[chain as usize].departures(arrivals);
            packets.retain(|packet| usize::from(packet.path) == path);
            packets
        })
    }

    /// Notify a hop that the path uses it.
    fn join(&mut self, path: usize, hop: usize, direction: Direction) {
        let entry = self.paths[path].hops[hop].entry[direction as usize];
        self.chains[entry as usize].on_event(&PathEvent::Join);
    }

    /// Pass an event to the chains of one direction of a hop.
    fn notify(&mut self, path: usize, hop: usize, direction: Direction, event: &PathEvent) {
        let hop = &self.paths[path].hops[hop];
        let d = direction as usize;
        for chain in BTreeSet::from([hop.entry[d], hop.exit[d]]) {
            self.chains[chain as usize].on_event(event);
            // The chain may now be due later, so the old entry is invalid.
            self.due[chain as usize] = Time::MAX;
            self.reschedule(chain);
        }
    }
}
