//! One path in the network: its routes, and the route in use.

use crate::element::Element;
use crate::packet::Packet;
use crate::stats::LinkStats;
use bentpipe_profile::{Direction, Event, Time};

/// Hop that no queue migrates to.
pub(super) const ABSENT: u16 = u16::MAX;

pub(super) struct Route {
    pub(super) hops: Vec<u16>,
    /// Places of its stops: the number of hops between the terminal and each.
    pub(super) stops: Vec<u16>,
    /// Index of its first leg.
    first_leg: usize,
}

/// A hop of a route, with all that a packet needs to find its link. A path has few cache lines of legs.
#[derive(Clone, Copy)]
pub(super) struct Leg {
    pub(super) entry: [u32; 2],
    pub(super) exit: [u32; 2],
    pub(super) hop: u16,
    pub(super) is_last: bool,
    /// Whether packets of each direction are at a stop once they have crossed it.
    pub(super) stops: [bool; 2],
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

impl Hop {
    /// Return the units that packets of the hop pass, each once.
    pub(super) fn units(&self) -> impl Iterator<Item = u32> {
        self.sides.iter().flat_map(Side::units)
    }
}

impl Side {
    /// Return the units that packets of this direction pass, each once.
    pub(super) fn units(&self) -> impl Iterator<Item = u32> + use<> {
        [Some(self.entry), Some(self.exit).filter(|exit| *exit != self.entry)].into_iter().flatten()
    }
}

/// One direction of a link as the path uses it. A *unit* is one direction of a link: twice the link's index, plus the link's direction. Units and statistics
/// stand together, since a packet that leaves the link needs both.
#[repr(C, align(64))]
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

/// The elements at the ends of one direction of a path.
pub(super) struct PathEnd {
    pub(super) ingress: Box<dyn Element>,
    pub(super) egress: Box<dyn Element>,
    /// Number of the egress among the wake-ups.
    pub(super) unit: u32,
}

/// The fields that packets need stand first, in one cache line.
#[repr(C, align(64))]
pub(super) struct Path {
    pub(super) current: usize,
    /// Packets inside, and those of them that entered before the last change of routes or event, at `changed`.
    inside: u32,
    older: u32,
    changed: Time,
    /// Whether the links that it uses count it as unsettled.
    pub(super) is_unsettled: bool,
    /// Index of the first leg of the current route.
    first_leg: usize,
    /// The legs of all routes.
    legs: Box<[Leg]>,
    pub(super) hops: Vec<Hop>,
    /// Elements at the ends, by direction; `None`: neither has any.
    pub(super) ends: Option<Box<[Option<PathEnd>; 2]>>,
    pub(super) routes: Vec<Route>,
    pub(super) events: Vec<Event>,
    /// Packets that found no route, by direction.
    pub(super) no_route: [u64; 2],
    /// Packets still on their way from left hops, by direction.
    pub(super) stragglers: [Stragglers; 2],
    /// When the last packet leaves the hops that handovers left, by direction.
    pub(super) floor: [Time; 2],
}

impl Path {
    /// Create a path of these hops. `routes`: for each route its hops.
    pub(super) fn new(hops: Vec<Hop>, routes: Vec<Vec<u16>>, events: Vec<Event>) -> Self {
        let (mut legs, mut numbered) = (Vec::new(), Vec::new());
        for route in routes {
            let first_leg = legs.len();
            legs.extend(route.iter().enumerate().map(|(position, &hop)| {
                let sides = &hops[usize::from(hop)].sides;
                let [entry, exit] = [[0, 1].map(|d| sides[d].entry), [0, 1].map(|d| sides[d].exit)];
                Leg { entry, exit, hop, is_last: position + 1 == route.len(), stops: [false; 2] }
            }));
            numbered.push(Route { hops: route, stops: Vec::new(), first_leg });
        }
        Self {
            current: 0,
            inside: 0,
            older: 0,
            changed: Time::ZERO,
            is_unsettled: false,
            first_leg: 0,
            legs: legs.into(),
            hops,
            ends: None,
            routes: numbered,
            events,
            no_route: [0; 2],
            stragglers: Default::default(),
            floor: [Time::ZERO; 2],
        }
    }

    /// Return the elements at the ends of one direction, if there are any.
    #[inline]
    pub(super) fn end(&mut self, direction: Direction) -> Option<&mut PathEnd> {
        self.ends.as_mut()?[direction as usize].as_mut()
    }

    /// Whether it has stops.
    pub(super) fn has_stops(&self) -> bool {
        self.routes.iter().any(|route| !route.stops.is_empty())
    }

    /// Set the stops of each route. Returns false, and sets none, if the routes do not have these places.
    pub(super) fn set_stops(&mut self, places: &[Vec<u16>]) -> bool {
        let count = places.iter().map(Vec::len).max().unwrap_or_default();
        let is_inside = |(route, places): (&Route, &Vec<u16>)| {
            let hops = route.hops.len();
            if hops == 0 {
                return places.is_empty();
            }
            let ascend = places.windows(2).all(|pair| pair[0] < pair[1]);
            places.len() == count && ascend && places.iter().all(|&place| place > 0 && usize::from(place) < hops)
        };
        if places.len() != self.routes.len() || !self.routes.iter().zip(places).all(is_inside) {
            return false;
        }
        for (route, places) in self.routes.iter_mut().zip(places) {
            for &place in places {
                let after = route.first_leg + usize::from(place);
                self.legs[after - 1].stops[Direction::Up as usize] = true;
                self.legs[after].stops[Direction::Down as usize] = true;
            }
            route.stops.clone_from(places);
        }
        true
    }

    /// Return the stop where a packet is that has crossed its hop; `None`: there is none.
    pub(super) fn stop_of(&self, packet: &Packet) -> Option<usize> {
        let place = packet.position + u16::from(packet.direction == Direction::Up);
        self.routes[usize::from(packet.route)].stops.iter().position(|&stop| stop == place)
    }

    /// Count a packet that enters the network.
    #[inline]
    pub(super) const fn count_entry(&mut self, packet: &Packet) {
        self.inside += 1;
        if packet.entered.0 < self.changed.0 {
            self.older += 1; // it goes on from a stop
        }
    }

    /// Count a packet that leaves the network.
    #[inline]
    pub(super) fn count_exit(&mut self, packet: &Packet) {
        self.inside -= 1;
        if packet.entered < self.changed {
            self.older = self.older.saturating_sub(1);
        }
    }

    /// Return the unit that a packet enters next, if it follows the current route and no packet inside has followed another; `None`, too, on the last hop and before a stop.
    #[inline]
    pub(super) fn next_unit(&self, packet: &Packet) -> Option<u32> {
        if self.older > 0 || usize::from(packet.route) != self.current {
            return None;
        }
        let leg = self.first_leg + usize::from(packet.position);
        if self.legs[leg].stops[packet.direction as usize] {
            return None;
        }
        match packet.direction {
            Direction::Up => (!self.legs[leg].is_last).then(|| self.legs[leg + 1].entry[0]),
            Direction::Down => (packet.position > 0).then(|| self.legs[leg - 1].entry[1]),
        }
    }

    /// Note an event or a change of routes: packets that are inside may take another way than later ones.
    pub(super) const fn note_change(&mut self, at: Time) {
        (self.older, self.changed) = (self.inside, at);
    }

    /// Return whether packets are inside that entered before the last change.
    #[inline]
    pub(super) const fn has_older(&self) -> bool {
        self.older > 0
    }

    /// Take the next route at `at`.
    pub(super) fn advance_route(&mut self, at: Time) {
        self.note_change(at);
        self.current += 1;
        self.first_leg = self.routes[self.current].first_leg;
    }

    /// Return the leg that a packet is on.
    #[inline]
    pub(super) fn leg_of(&self, packet: &Packet) -> Leg {
        let route = usize::from(packet.route);
        let first = if route == self.current { self.first_leg } else { self.routes[route].first_leg };
        self.legs[first + usize::from(packet.position)]
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
