//! One path in the network: its routes, and the route in use.

use crate::packet::Packet;
use crate::stats::LinkStats;
use bentpipe_profile::{Direction, Event, Time};

/// Hop that no queue migrates to.
pub(super) const ABSENT: u16 = u16::MAX;

pub(super) struct Route {
    pub(super) hops: Vec<u16>,
}

impl Route {
    /// Return the position of a hop in this route; `None`: the route does not use it.
    pub(super) fn position(&self, hop: usize) -> Option<usize> {
        self.hops.iter().position(|&other| usize::from(other) == hop)
    }

    /// Return whether the route uses this hop.
    pub(super) fn has(&self, hop: usize) -> bool {
        self.position(hop).is_some()
    }

    /// Return the hops that packets pass in `direction` from `hop` on, up to the first that `other` uses too. Always includes `hop` itself.
    pub(super) fn branch(&self, hop: usize, direction: Direction, other: &Self) -> Vec<usize> {
        let Some(place) = self.position(hop) else { return Vec::new() };
        let onward: Vec<u16> = match direction {
            Direction::Up => self.hops[place..].to_vec(),
            Direction::Down => self.hops[..=place].iter().rev().copied().collect(),
        };
        let onward = onward.into_iter().map(usize::from);
        onward.enumerate().take_while(|&(i, hop)| i == 0 || !other.has(hop)).map(|(_, hop)| hop).collect()
    }
}

/// A link as the path uses it: one side for each of the path's directions.
pub(super) struct Hop {
    pub(super) sides: [Side; 2],
}

/// One direction of a link as the path uses it. A *unit* is one direction of a link: twice the link's index, plus the link's direction. Units and statistics
/// stand together, since a packet that leaves the link needs both.
pub(super) struct Side {
    /// The unit that packets enter first.
    pub(super) entry: u32,
    /// The unit behind the shared queue. Equal to `entry` if the link has a queue of its own.
    pub(super) exit: u32,
    /// The hop that the path's packets in the queue migrate to.
    pub(super) migrate_to: u16,
    pub(super) stats: LinkStats,
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
    pub(super) hops: Vec<Hop>,
    pub(super) events: Vec<Event>,
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

    /// Let a packet in `hop` follow route number `route`, if that uses the hop.
    #[allow(clippy::cast_possible_truncation)] // counts were checked when the network was built
    pub(super) fn follow(&self, packet: &mut Packet, route: usize, hop: usize) {
        if let Some(position) = self.routes[route].position(hop) {
            (packet.route, packet.position) = (route as u16, position as u16);
        }
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
}
