//! The links that some path uses: each exists once, with its delay over the network's time.

use super::routing::{Slot, delay_ns};
use super::settings::{LinkCapacity, NetworkSettings};
use crate::ephemeris::{EcefBlock, TIMES_PER_BLOCK};
use crate::frames::{Observer, norm, sub};
use crate::propagate::Propagator;
use bentpipe_profile::{
    Bytes, Hop, HopDirection, Interpolation, LinkSpec, Nanos, ProfileError, QueueDiscipline, QueueLimit, QueueSpec, Rate, Series, Time,
    Topology, Utc,
};
use std::collections::BTreeMap;

/// Time between samples of a delay [ns]. A range's second derivative is at most 0.1 km/s² (7.6 km/s at 550 km), so linear interpolation is off by at most
/// 0.3 km, a microsecond.
const SAMPLE_STEP_NS: u64 = 5_000_000_000;

/// A link, by its ends. Places and satellites are indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Link {
    /// From a terminal to a satellite.
    User { place: u32, satellite: u32 },
    /// Between two satellites, the smaller index first.
    Isl { a: u32, b: u32 },
    /// From a satellite to a ground station.
    Feeder { satellite: u32, place: u32 },
}

/// Return the links of a route between two places, in order, each with whether it is crossed from its second end to its first.
#[allow(clippy::cast_possible_truncation)] // far fewer than 2^32 places
pub(super) fn links_of(pair: [usize; 2], satellites: &[u32]) -> Vec<(Link, bool)> {
    let [terminal, station] = pair.map(|place| place as u32);
    let user = Link::User { place: terminal, satellite: satellites[0] };
    let isls = satellites.windows(2).map(|ends| (Link::Isl { a: ends[0].min(ends[1]), b: ends[0].max(ends[1]) }, ends[0] > ends[1]));
    let feeder = Link::Feeder { satellite: satellites[satellites.len() - 1], place: station };
    std::iter::once((user, false)).chain(isls).chain([(feeder, false)]).collect()
}

/// The links in use, with the time of the first and the last use [ns since the network's start].
#[derive(Default)]
pub(super) struct Links(BTreeMap<Link, (u64, u64)>);

impl Links {
    /// Find the links of all routes.
    pub(super) fn of(settings: &NetworkSettings, slots: &[Slot]) -> Self {
        let mut links: BTreeMap<Link, (u64, u64)> = BTreeMap::new();
        for slot in slots {
            for (pair, route) in settings.pairs.iter().zip(&slot.routes) {
                for (link, _) in route.iter().flat_map(|route| links_of(*pair, route)) {
                    links.entry(link).or_insert((slot.start_ns, slot.end_ns)).1 = slot.end_ns;
                }
            }
        }
        Self(links)
    }

    /// Return the links in the order of their indices in the Topology.
    pub(super) fn in_order(&self) -> impl Iterator<Item = Link> + '_ {
        self.0.keys().copied()
    }

    /// Return the index of each link in the Topology.
    pub(super) fn numbers(&self) -> BTreeMap<Link, usize> {
        self.in_order().enumerate().map(|(number, link)| (link, number)).collect()
    }

    /// Build nodes and links.
    ///
    /// # Errors
    /// None that a network with checked settings can have.
    pub(super) fn topology(&self, settings: &NetworkSettings, satellites: &[Propagator]) -> Result<(Topology, Nodes), ProfileError> {
        let mut nodes = Nodes::default();
        let ends: Vec<[usize; 2]> = self.in_order().map(|link| nodes.ends(link, settings, satellites)).collect();
        let ranges = Ranges::new(self, settings, satellites);
        let mut links = Vec::new();
        for ((&link, &(from_ns, to_ns)), ends) in self.0.iter().zip(ends) {
            let name = name_of(link, settings, satellites);
            let delay = ranges.delay(&name, link, from_ns, to_ns)?;
            let (capacity, loss) = match link {
                Link::Isl { .. } => (settings.isl, settings.isl_loss()),
                _ => (settings.ground, 0),
            };
            let side = || HopDirection {
                delay: delay.clone(),
                capacity: Some(Series::constant(Rate(capacity.rate_bps).0)),
                loss: (loss > 0).then(|| Series::constant(loss)),
                jitter: None,
                queue: queue(capacity),
            };
            links.push(LinkSpec { name: name.clone(), ends, hop: Hop { name, shared_id: None, up: side(), down: side() } });
        }
        Ok((Topology { nodes: std::mem::take(&mut nodes.names), links, events: Vec::new() }, nodes))
    }
}

const fn queue(capacity: LinkCapacity) -> QueueSpec {
    QueueSpec { discipline: QueueDiscipline::DropTail, limit: QueueLimit::Bytes(Bytes(capacity.queue_bytes)) }
}

fn name_of(link: Link, settings: &NetworkSettings, satellites: &[Propagator]) -> String {
    let place = |place: u32| &settings.places[place as usize].name;
    let id = |satellite: u32| satellites[satellite as usize].norad_id();
    match link {
        Link::User { place: terminal, satellite } => format!("user:{}-{}", place(terminal), id(satellite)),
        Link::Isl { a, b } => format!("isl:{}-{}", id(a), id(b)),
        Link::Feeder { satellite, place: station } => format!("feeder:{}-{}", id(satellite), place(station)),
    }
}

/// The nodes of a Topology: terminals, satellites, ground stations.
#[derive(Default)]
pub(super) struct Nodes {
    names: Vec<String>,
    numbers: BTreeMap<String, usize>,
}

impl Nodes {
    fn ends(&mut self, link: Link, settings: &NetworkSettings, satellites: &[Propagator]) -> [usize; 2] {
        let place = |place: u32| settings.places[place as usize].name.as_str();
        let satellite = |satellite: u32| format!("sat:{}", satellites[satellite as usize].norad_id());
        let names = match link {
            Link::User { place: at, satellite: to } => [terminal_name(place(at)), satellite(to)],
            Link::Isl { a, b } => [satellite(a), satellite(b)],
            Link::Feeder { satellite: from, place: at } => [satellite(from), station_name(place(at))],
        };
        names.map(|name| self.number(name))
    }

    fn number(&mut self, name: String) -> usize {
        let (next, names) = (self.names.len(), &mut self.names);
        *self.numbers.entry(name).or_insert_with_key(|name| {
            names.push(name.clone());
            next
        })
    }

    /// Return the nodes of a path's ends. `None`: no route leads there.
    pub(super) fn hosts(&self, settings: &NetworkSettings, pair: [usize; 2]) -> Option<[usize; 2]> {
        let [terminal, station] = pair.map(|place| settings.places[place].name.as_str());
        Some([*self.numbers.get(&terminal_name(terminal))?, *self.numbers.get(&station_name(station))?])
    }
}

fn terminal_name(place: &str) -> String {
    format!("terminal:{place}")
}

fn station_name(place: &str) -> String {
    format!("gateway:{place}")
}

/// Positions of the satellites in use, at every sample.
struct Ranges {
    times_ns: Vec<u64>,
    /// Satellite → its place in a row of `positions`.
    columns: BTreeMap<u32, usize>,
    /// One row for each time [km].
    positions: Vec<Vec<[f64; 3]>>,
    observers: Vec<Observer>,
}

impl Ranges {
    fn new(links: &Links, settings: &NetworkSettings, satellites: &[Propagator]) -> Self {
        let ends = links.in_order().flat_map(|link| match link {
            Link::User { satellite, .. } | Link::Feeder { satellite, .. } => [satellite, satellite],
            Link::Isl { a, b } => [a, b],
        });
        let mut used: Vec<u32> = ends.collect();
        used.sort_unstable();
        used.dedup();
        let moving: Vec<Propagator> = used.iter().map(|&satellite| satellites[satellite as usize].clone()).collect();
        let steps = settings.duration_ns.0.div_ceil(SAMPLE_STEP_NS);
        let times_ns: Vec<u64> = (0..=steps).map(|step| (step * SAMPLE_STEP_NS).min(settings.duration_ns.0)).collect();
        let at: Vec<Utc> = times_ns.iter().map(|&time| settings.start_unix_ns.plus(Nanos(time))).collect();
        let mut block = EcefBlock::default();
        let mut positions = Vec::new();
        for times in at.chunks(TIMES_PER_BLOCK) {
            block.fill(&moving, times);
            positions.extend((0..times.len()).map(|time| block.at(time).to_vec()));
        }
        Self {
            times_ns,
            columns: used.into_iter().enumerate().map(|(column, satellite)| (satellite, column)).collect(),
            positions,
            observers: settings.places.iter().map(|place| Observer::new(place.site)).collect(),
        }
    }

    /// Return the delay of a link while it is in use, and one sample more on both sides, for packets on their way at a change.
    fn delay(&self, name: &str, link: Link, from_ns: u64, to_ns: u64) -> Result<Series, ProfileError> {
        let first = self.times_ns.partition_point(|&time| time <= from_ns).saturating_sub(1);
        let last = (self.times_ns.partition_point(|&time| time < to_ns) + 1).min(self.times_ns.len() - 1);
        let (times, values) = (first..=last).map(|sample| (Time(self.times_ns[sample]), delay_ns(self.km(sample, link)))).unzip();
        Series::new(&format!("{name}/delay_s"), Interpolation::Linear, times, values, vec![true; last - first + 1])
    }

    fn km(&self, sample: usize, link: Link) -> f64 {
        let position = |satellite: u32| self.positions[sample][self.columns[&satellite]];
        match link {
            Link::Isl { a, b } => norm(sub(position(a), position(b))),
            Link::User { place, satellite } | Link::Feeder { satellite, place } => {
                self.observers[place as usize].sin_elevation_and_range(position(satellite)).1
            }
        }
    }
}
