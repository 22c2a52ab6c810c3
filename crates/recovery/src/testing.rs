//! Networks and traffic of the schemes' property tests.

use crate::overhead::Overhead;
use crate::registry::install;
use bentpipe_link::{Network, Outcome, Packet};
use bentpipe_profile::options::OptionValues;
use bentpipe_profile::*;
use std::collections::BTreeMap;
use std::sync::Arc;

pub const MS: u64 = 1_000_000;

pub fn side(delay_ms: u64, mbps: u64, loss: u64) -> HopDirection {
    HopDirection {
        delay: Series::constant(delay_ms * MS),
        capacity: (mbps > 0).then(|| Series::constant(mbps * 1_000_000)),
        loss: (loss > 0).then(|| Series::constant(loss)),
        jitter: None,
        queue: QueueSpec { discipline: QueueDiscipline::DropTail, limit: QueueLimit::Bytes(Bytes(500_000)) },
    }
}

pub fn hop(name: &str, side: &HopDirection) -> Hop {
    Hop { name: name.to_owned(), shared_id: None, up: side.clone(), down: side.clone() }
}

pub fn profile(hops: Vec<Hop>, routes: Vec<RouteEntry>, events: Vec<Event>) -> Profile {
    let text = String::new;
    let provenance =
        Provenance { kind: "preset".to_owned(), description: text(), made_by: text(), seed: None, includes: vec![], recipe: ().into() };
    Profile::new("p".to_owned(), Utc(0), Nanos::from_secs(100), Basis::OneWay, provenance, hops, routes, events).unwrap()
}

pub fn handover(at: u64, gap_ms: u64, from: usize, to_hop: usize, fate: Fate) -> Event {
    let kind = EventKind::Handover { from_satellite: None, to_satellite: None, from_gateway: None, to_gateway: None, to_hop };
    Event { at_ns: Time(at), interruption_ns: Nanos::from_millis(gap_ms), hop: from, kind, up: fate, down: fate }
}

pub fn route(at: u64, hops: &[usize]) -> RouteEntry {
    RouteEntry { at_ns: Time(at), hops: hops.to_vec() }
}

/// A queue that migrates with its path; what is in flight is lost.
pub fn migrating(to_hop: usize) -> Fate {
    let migration = Migration { to_hop, delay_ns: Nanos::from_millis(5), rate_bps: Rate::from_mbps(1000) };
    Fate { queue: QueueFate::Migrate(migration), in_flight: InFlightFate::Drop, order: OrderFate::Allow }
}

/// Terminal, two satellites with a link to the terminal and one to a gateway each, and a wire. Handovers at both ends at once, each after `gaps` (time since
/// the last, interruption) [ms].
pub fn two_satellites(loss: u64, gaps: &[(u64, u64)], fate: impl Fn(usize) -> Fate, shared: bool) -> NetworkSpec {
    let (user, feeder, wire) = (side(4, 20, loss), side(3, 100, 0), side(10, 0, 0));
    let (mut routes, mut events) = (vec![route(0, &[0, 2, 4])], vec![]);
    let (mut at, mut satellite) = (0, 0);
    for &(step, gap) in gaps {
        at += step * MS;
        let next = 1 - satellite;
        events.extend([0, 2].map(|first| handover(at, gap, first + satellite, first + next, fate(first + next))));
        satellite = next;
        routes.push(route(at, &[satellite, 2 + satellite, 4]));
    }
    let mut hops = vec![hop("user:a", &user), hop("user:b", &user), hop("feeder:a", &feeder), hop("feeder:b", &feeder), hop("wire", &wire)];
    if shared {
        for (hop, beam) in hops.iter_mut().zip(["beam:a", "beam:b"]) {
            hop.shared_id = Some(beam.to_owned());
        }
    }
    NetworkSpec::from_profiles(&[&profile(hops, routes, events)]).unwrap()
}

/// Send `(time, flow, bytes)` in turn up and down, and run the network until it is empty.
pub fn run(
    spec: &NetworkSpec,
    options: &OptionValues,
    scheme: &str,
    sends: &[(u64, u32, u32)],
    late: u64,
) -> (Vec<(Outcome, Packet)>, Option<Arc<Overhead>>) {
    let mut network = Network::new(spec, Streams::new(1)).unwrap();
    let overhead = install(scheme, options, &mut network, spec).unwrap().overhead;
    let (mut out, mut sends) = (Vec::new(), sends.to_vec());
    sends.sort_unstable();
    for (body, &(at, flow, bytes)) in (0_u32..).zip(&sends) {
        network.run_until(Time(at), &mut out);
        network.send(Packet::new(Time(at), 0, Direction::BOTH[(body % 2) as usize], flow, bytes, body)).unwrap();
    }
    while let Some(at) = network.wake_at() {
        network.run_until(Time(at.0 + late), &mut out);
    }
    assert_eq!(network.packets(), 0);
    (out, overhead)
}

/// Packets of 1000 bytes every 0.5 ms.
pub fn steady(packets: u64) -> Vec<(u64, u32, u32)> {
    (0..packets).map(|n| (n * MS / 2, 0, 1000)).collect()
}

pub fn delivered(out: &[(Outcome, Packet)]) -> usize {
    out.iter().filter(|(outcome, _)| *outcome == Outcome::Delivered).count()
}

/// Return whether each flow's packets left in the order in which they were sent.
pub fn is_in_order(out: &[(Outcome, Packet)]) -> bool {
    let mut last = BTreeMap::new();
    let delivered = out.iter().filter(|(outcome, _)| *outcome == Outcome::Delivered);
    delivered.fold(true, |ordered, (_, packet)| {
        last.insert((packet.direction, packet.flow), packet.body).is_none_or(|last| last < packet.body) && ordered
    })
}
