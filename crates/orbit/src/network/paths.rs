//! The paths: routes over the links, and the handovers of their ends.

use super::links::{Link, Nodes, links_of};
use super::routing::Slot;
use super::settings::NetworkSettings;
use crate::error::OrbitError;
use crate::propagate::Propagator;
use bentpipe_profile::{
    Direction, Event, EventKind, Fate, InFlightFate, Migration, Nanos, OrderFate, Path, PathHop, QueueFate, Rate, RouteEntry, Time,
};
use std::collections::BTreeMap;

/// Build a path. `pair`: its index.
///
/// # Errors
/// [`OrbitError::Network`]: no slot has a route.
pub(super) fn path(
    settings: &NetworkSettings,
    pair: usize,
    slots: &[Slot],
    numbers: &BTreeMap<Link, usize>,
    nodes: &Nodes,
    satellites: &[Propagator],
) -> Result<Path, OrbitError> {
    let ends = settings.pairs[pair];
    let name = settings.pair_name(ends);
    let Some(hosts) = nodes.hosts(settings, ends) else {
        return Err(no_route(settings, &name));
    };
    let mut builder =
        Builder { settings, pair: ends, satellites, hops: Vec::new(), index: BTreeMap::new(), routes: Vec::new(), events: Vec::new() };
    let mut before: Option<&Vec<u32>> = None;
    for slot in slots {
        match &slot.routes[pair] {
            Some(route) => builder.add_route(slot, route, before, numbers),
            None => builder.add_outage(slot),
        }
        before = slot.routes[pair].as_ref();
    }
    if builder.hops.is_empty() {
        return Err(no_route(settings, &name));
    }
    Ok(Path { name, ends: hosts, hops: builder.hops, routes: builder.routes, events: builder.events })
}

/// The error about a pair without a route.
fn no_route(settings: &NetworkSettings, name: &str) -> OrbitError {
    let expected = "places that satellites serve, with links between them; try `policy` least-delay, or another constellation";
    settings.error(format!("{name} has no route at any time"), expected.to_owned())
}

struct Builder<'a> {
    settings: &'a NetworkSettings,
    pair: [usize; 2],
    satellites: &'a [Propagator],
    hops: Vec<PathHop>,
    /// Link and orientation → index in `hops`.
    index: BTreeMap<(usize, bool), usize>,
    routes: Vec<RouteEntry>,
    events: Vec<Event>,
}

/// The end of a path at which a handover happens.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Terminal,
    Station,
}

impl Builder<'_> {
    fn add_route(&mut self, slot: &Slot, route: &[u32], before: Option<&Vec<u32>>, numbers: &BTreeMap<Link, usize>) {
        let links = links_of(self.pair, route);
        let hops: Vec<usize> = links.iter().map(|&(link, reversed)| self.hop(numbers[&link], reversed)).collect();
        let [first, last] = [hops[0], hops[hops.len() - 1]];
        if self.routes.last().is_none_or(|last| last.hops != hops) {
            self.routes.push(RouteEntry { at_ns: Time(slot.start_ns), hops });
        }
        let Some(before) = before else { return };
        let ends = [(End::Terminal, before[0], route[0], first), (End::Station, before[before.len() - 1], route[route.len() - 1], last)];
        for (end, old, new, to_hop) in ends {
            if old != new {
                let hop = self.hop(numbers[&self.ground_link(end, old)], false);
                self.events.push(self.handover(slot, end, (old, hop), (new, to_hop)));
            }
        }
    }

    #[allow(clippy::cast_possible_truncation)] // far fewer than 2^32 places
    fn ground_link(&self, end: End, satellite: u32) -> Link {
        match end {
            End::Terminal => Link::User { place: self.pair[0] as u32, satellite },
            End::Station => Link::Feeder { satellite, place: self.pair[1] as u32 },
        }
    }

    /// Return the handover of an end from one satellite and its hop to another.
    ///
    /// What waits at the place takes the new link. What waits at the old satellite is forwarded to the new one over the links between satellites, as packets
    /// that arrive there later are: the old satellite's routing table has changed. What is in the air towards the place is lost, since its antenna has turned.
    fn handover(&self, slot: &Slot, end: End, (old, hop): (u32, usize), (new, to_hop): (u32, usize)) -> Event {
        let to_place = if end == End::Terminal { Direction::Down } else { Direction::Up };
        let fate = |direction: Direction| {
            let migrate = |delay_ns: Nanos| QueueFate::Migrate(Migration { to_hop, delay_ns, rate_bps: Rate(self.settings.isl.rate_bps) });
            let (queue, in_flight) = if direction == to_place {
                let queue = slot.moves.get(&(old, new)).map_or(QueueFate::Drop, |&delay_ns| migrate(Nanos(delay_ns)));
                (queue, InFlightFate::Drop)
            } else {
                (migrate(Nanos::ZERO), InFlightFate::Deliver)
            };
            Fate { queue, in_flight, order: OrderFate::Allow }
        };
        let id = |satellite: u32| Some(self.satellites[satellite as usize].norad_id().to_string());
        let station = (end == End::Station).then(|| self.settings.places[self.pair[1]].name.clone());
        Event {
            at_ns: Time(slot.start_ns),
            interruption_ns: self.settings.gap_ns,
            hop,
            kind: EventKind::Handover {
                from_satellite: id(old),
                to_satellite: id(new),
                from_gateway: station.clone(),
                to_gateway: station,
                to_hop,
            },
            up: fate(Direction::Up),
            down: fate(Direction::Down),
        }
    }

    /// Add a slot without a route. What waits at the path's last satellites is dropped, since nothing leads on.
    fn add_outage(&mut self, slot: &Slot) {
        let at_ns = Time(slot.start_ns);
        if self.routes.last().is_none_or(|last| !last.hops.is_empty()) {
            let hops = self.routes.last().map(|last| [last.hops[0], last.hops[last.hops.len() - 1]]);
            self.routes.push(RouteEntry { at_ns, hops: Vec::new() });
            let fate = Fate { queue: QueueFate::Drop, in_flight: InFlightFate::Drop, order: OrderFate::Allow };
            for hop in hops.into_iter().flatten() {
                self.events.push(Event { at_ns, interruption_ns: Nanos::ZERO, hop, kind: EventKind::Outage, up: fate, down: fate });
            }
        }
        let began = self.routes.last().map_or(at_ns, |last| last.at_ns);
        for outage in self.events.iter_mut().rev().take_while(|event| event.at_ns == began && event.kind == EventKind::Outage) {
            outage.interruption_ns = Nanos(slot.end_ns - began.0);
        }
    }

    /// Return the index of a link among the path's hops, adding it if it is new.
    fn hop(&mut self, link: usize, reversed: bool) -> usize {
        let next = self.hops.len();
        *self.index.entry((link, reversed)).or_insert_with(|| {
            self.hops.push(PathHop { link, reversed });
            next
        })
    }
}
