//! One Profile in the network: its routes, and the route in use.

use crate::packet::Packet;
use crate::stats::LinkStats;
use bentpipe_profile::{Direction, Event, Time};

/// Position of a hop that the route does not use.
pub(super) const ABSENT: u16 = u16::MAX;

pub(super) struct Route {
    pub(super) at: Time,
    pub(super) hops: Vec<u16>,
    /// Position of each hop in `hops`, or `ABSENT`.
    pub(super) position: Vec<u16>,
}

impl Route {
    /// Return whether the route uses this hop.
    pub(super) fn has(&self, hop: usize) -> bool {
        self.position[hop] != ABSENT
    }

    /// Return the hops that packets pass in `direction` from `hop` on, up to the first that `other` uses too. Always includes `hop` itself.
    pub(super) fn branch(&self, hop: usize, direction: Direction, other: &Self) -> Vec<usize> {
        let place = usize::from(self.position[hop]);
        let onward: Vec<u16> = match direction {
            Direction::Up => self.hops[place..].to_vec(),
            Direction::Down => self.hops[..=place].iter().rev().copied().collect(),
        };
        let onward = onward.into_iter().map(usize::from);
        onward.enumerate().take_while(|&(i, hop)| i == 0 || !other.has(hop)).map(|(_, hop)| hop).collect()
    }
}

pub(super) struct HopChains {
    /// The chain that packets enter first, by direction.
    pub(super) entry: [u32; 2],
    /// The chain behind the shared queue, by direction. Equal to `entry` if the hop is not shared.
    pub(super) exit: [u32; 2],
}

/// Packets that the newest hop still receives from hops that the path has left.
#[derive(Default)]
pub(super) struct Stragglers {
    pub(super) hop: usize,
    /// Predicted arrivals there, in order of time.
    pub(super) packets: Vec<Packet>,
}

pub(super) struct Path {
    pub(super) routes: Vec<Route>,
    pub(super) current: usize,
    pub(super) hops: Vec<HopChains>,
    pub(super) events: Vec<Event>,
    pub(super) next_event: usize,
    /// Statistics by hop and direction.
    pub(super) stats: Vec<[LinkStats; 2]>,
    /// Packets that found no route, by direction.
    pub(super) no_route: [u64; 2],
    /// Packets still on their way from left hops, by direction.
    pub(super) stragglers: [Stragglers; 2],
    /// When the last packet leaves the hops that handovers left, by direction.
    pub(super) floor: [Time; 2],
}

impl Path {
    /// Return the hop that a packet is in.
    pub(super) fn hop_of(&self, packet: &Packet) -> usize {
        usize::from(self.routes[usize::from(packet.route)].hops[usize::from(packet.position)])
    }

    /// Return the newest route for a packet in `hop` that followed `route` so far. It switches routes as long as the path uses its hop.
    pub(super) fn newest_route_from(&self, route: usize, hop: usize) -> usize {
        let mut newest = route;
        for next in route + 1..=self.current {
            if self.routes[next].has(hop) {
                newest = next;
            } else if !self.routes[next].hops.is_empty() {
                break;
            }
        }
        newest
    }

    /// Return the newest route up to now that uses `hop`.
    pub(super) fn newest_route_with(&self, hop: usize) -> Option<usize> {
        (0..=self.current).rev().find(|&route| self.routes[route].has(hop))
    }

    /// Return when the next route change or event is due.
    pub(super) fn next_change(&self) -> Option<Time> {
        let route = self.routes.get(self.current + 1).map(|r| r.at);
        let event = self.events.get(self.next_event).map(|e| e.at_ns);
        match (route, event) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }
}
