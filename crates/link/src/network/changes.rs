//! Routes and events: what a handover does to the hop that is left, to the hop that is taken, and to the order between them.
//!
//! ```text
//!                 ┌─▶ feeders ─▶ left  ─▶ old strand ─┐
//!   common hops ──┤                 ⇣                 ├──▶ first common hop downstream, or the end
//!                 └─▶ ………………… ─▶ taken ─▶ new strand ─┘
//! ```
//! A queue that migrates goes from the left hop to the taken one (⇣), and packets that are still on their way to the left hop follow it. With
//! [`OrderFate::Clamp`] packets of the new route wait twice: in the taken hop's queue for all that migrates, and at the end of the new strand for all that
//! goes on over the old one. That holds as long as no handover comes before the packets of the one before it have left the feeders.

use super::Network;
use super::path::{Path, Stragglers};
use crate::element::PathEvent;
use crate::packet::Packet;
use bentpipe_profile::{Direction, Event, EventKind, Fate, Nanos, OrderFate, QueueFate, Time};
use std::collections::BTreeSet;

/// Old and new route around a handover, in the order in which packets meet the hops.
struct Strands {
    /// The new route's number.
    route: usize,
    /// Hops of the old route alone, before the one that is left.
    feeders: Vec<usize>,
    /// The hop that is left, and behind it hops of the old route alone.
    old: Vec<usize>,
    /// The hop that is taken, and behind it hops of the new route alone.
    new: Vec<usize>,
}

impl Strands {
    /// `None`: no route so far used `left`, or none will use `taken`.
    fn of(path: &Path, left: usize, taken: usize, direction: Direction) -> Option<Self> {
        let route = (path.current..path.routes.len()).find(|&route| path.routes[route].has(taken))?;
        let before = (0..route).rev().find(|&route| path.routes[route].has(left))?;
        let (old, new) = (&path.routes[before], &path.routes[route]);
        let feeders = old.strand(left, direction.reverse(), new).into_iter().skip(1).rev().collect();
        Some(Self { route, feeders, old: old.strand(left, direction, new), new: new.strand(taken, direction, old) })
    }
}

impl Network {
    /// Routes and events at `at`.
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

    fn apply(&mut self, path: usize, event: &Event, direction: Direction) {
        let mut fate = *event.fate(direction);
        if let QueueFate::Migrate(migration) = fate.queue {
            if self.paths[path].newest_with(migration.to_hop).is_some() {
                self.prepare_migration(path, event.hop, migration.to_hop, direction);
            } else {
                fate.queue = QueueFate::Keep; // there is no way on from that hop
            }
        }
        match event.kind {
            EventKind::Handover { to_hop, .. } if to_hop != event.hop => self.hand_over(path, event, to_hop, direction, fate),
            _ => {
                let until = event.at_ns + event.interruption_ns;
                self.tell(path, event.hop, direction, &PathEvent::Close { at: event.at_ns, until, fate });
            }
        }
        if let QueueFate::Migrate(migration) = fate.queue {
            self.join(path, migration.to_hop, direction); // so that no queue is handed on in a circle
        }
    }

    /// A queue that moves is the same machine's as before: what its discipline has learnt goes with it.
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

    fn hand_over(&mut self, path: usize, event: &Event, taken: usize, direction: Direction, fate: Fate) {
        let at = event.at_ns;
        self.tell(path, event.hop, direction, &PathEvent::Leave { at, fate });
        if event.interruption_ns.0 > 0 {
            let until = at + event.interruption_ns;
            self.tell(path, taken, direction, &PathEvent::Close { at, until, fate: Fate::GENTLE });
        }
        self.join(path, taken, direction);
        let strands = Strands::of(&self.paths[path], event.hop, taken, direction);
        if self.paths[path].routes[self.paths[path].current].has(event.hop) {
            self.join(path, event.hop, direction); // the path still uses the hop
        }
        if let Some(strands) = strands {
            self.keep_order(path, at, direction, fate, &strands);
        }
    }

    /// Lets the new route wait for the old one, as far as `fate` wants it.
    #[allow(clippy::cast_possible_truncation)] // counts were checked in `new`
    fn keep_order(&mut self, path: usize, at: Time, direction: Direction, fate: Fate, strands: &Strands) {
        let d = direction as usize;
        let left = strands.old[0];
        // What the left hop still receives: from the handover before, and from the hops in front of it.
        let earlier = std::mem::take(&mut self.paths[path].stragglers[d]);
        let mut coming: Vec<Packet> = earlier.packets.into_iter().filter(|packet| earlier.hop == left && packet.at >= at).collect();
        coming.extend(self.departures(path, d, &strands.feeders, Vec::new()));
        coming.sort_by_key(|packet| packet.at);
        let clamp = fate.order == OrderFate::Clamp;
        if let QueueFate::Migrate(migration) = fate.queue {
            let left = self.paths[path].hops[left].entry[d];
            let mut packets = self.chains[left as usize].migrating(&coming);
            for packet in &mut packets {
                packet.route = strands.route as u16;
            }
            if let Some(last) = packets.last().filter(|_| clamp) {
                // A nanosecond later: of one instant, chains go in any order.
                let to = self.paths[path].hops[migration.to_hop].entry[d];
                self.chains[to as usize].on_event(&PathEvent::Await { until: last.at + Nanos(1) });
            }
            self.paths[path].stragglers[d] = Stragglers { hop: migration.to_hop, packets };
        }
        let gone = self.departures(path, d, &strands.old, coming).iter().map(|packet| packet.at).max();
        let floor = self.paths[path].floor[d].max(gone.unwrap_or(Time::ZERO));
        self.paths[path].floor[d] = floor;
        if clamp
            && floor >= at
            && let Some(&last) = strands.new.last()
        {
            let exit = self.paths[path].hops[last].exit[d];
            self.chains[exit as usize].on_event(&PathEvent::NotBefore { route: strands.route as u16, floor: floor + Nanos(1) });
        }
    }

    /// What is in these hops of a path, and then `arrivals`, as it leaves the last of them if nothing else happens.
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

    /// The path uses this hop.
    fn join(&mut self, path: usize, hop: usize, direction: Direction) {
        let entry = self.paths[path].hops[hop].entry[direction as usize];
        self.chains[entry as usize].on_event(&PathEvent::Join);
    }

    fn tell(&mut self, path: usize, hop: usize, direction: Direction, event: &PathEvent) {
        let hop = &self.paths[path].hops[hop];
        let d = direction as usize;
        for chain in BTreeSet::from([hop.entry[d], hop.exit[d]]) {
            self.chains[chain as usize].on_event(event);
            // What was due may be due later now: the old entry is void.
            self.due[chain as usize] = Time::MAX;
            self.reschedule(chain);
        }
    }
}
