//! Whole Runs in which packets pass links ahead of their time, against the same Runs one hop at a time.

use super::{experiment, flow, side};
use crate::{RunData, Simulation};
use bentpipe_cc::controllers::Controllers;
use bentpipe_profile::app::AppSpec;
use bentpipe_profile::experiment::{Experiment, ProfileRef};
use bentpipe_profile::*;
use std::collections::BTreeSet;

const MS: u64 = 1_000_000;

/// Two paths `a` and `b` of five links each, of which the third is common.
///
/// Path `a` alternates between two first links and path `b` between two last links. At each handover `queue` tells what happens to the packets that wait,
/// and the link that is taken is interrupted. The second link of `a` has an outage between two handovers.
fn handovers(queue: impl Fn(usize) -> QueueFate, order: OrderFate) -> NetworkSpec {
    let link = |(number, ends): (usize, [usize; 2])| {
        // Delays and capacities such that no two packets arrive at one nanosecond over different links.
        let mut side = side(1, 1, 0);
        side.capacity = Some(Series::constant([9_000_000, 31_000_007, 21_000_011][number % 3]));
        side.delay = Series::constant(1_000_003 + 711_993 * number as u64);
        side.queue.limit = QueueLimit::Packets(40);
        let hop = Hop { name: format!("l{number}"), shared_id: None, up: side.clone(), down: side };
        LinkSpec { name: format!("l{number}"), ends, hop }
    };
    let ends = [[0, 2], [2, 4], [4, 5], [5, 6], [6, 8], [1, 3], [3, 4], [5, 7], [7, 9], [0, 2], [7, 9]];
    let outage = Event {
        at_ns: Time(2_171 * MS + 5),
        interruption_ns: Nanos(113 * MS),
        hop: 1,
        kind: EventKind::Outage,
        up: Fate::LOSSLESS,
        down: Fate::LOSSLESS,
    };
    let topology = Topology {
        nodes: (0..10).map(|node| format!("n{node}")).collect(),
        links: ends.into_iter().enumerate().map(link).collect(),
        events: vec![outage],
    };
    let path = |name: &str, ends, links: [usize; 6], own: usize, first_ms: u64| {
        let mut hops = [0, 1, 2, 3, 4];
        let mut routes = vec![RouteEntry { at_ns: Time::ZERO, hops: hops.to_vec() }];
        let mut events = Vec::new();
        for at_ns in (first_ms..6_000).step_by(730).map(|ms| Time(ms * MS + 17)) {
            let (left, taken) = (hops[own], own + 5 - hops[own]);
            hops[own] = taken;
            let fate = Fate { queue: queue(taken), in_flight: InFlightFate::Deliver, order };
            routes.push(RouteEntry { at_ns, hops: hops.to_vec() });
            events.push(Event {
                at_ns,
                interruption_ns: Nanos(if fate.queue == QueueFate::Keep { 0 } else { 23 * MS }),
                hop: left,
                kind: EventKind::Handover { from_satellite: None, to_satellite: None, from_gateway: None, to_gateway: None, to_hop: taken },
                up: fate,
                down: fate,
            });
        }
        Path { name: name.to_owned(), ends, hops: links.map(|link| PathHop { link, reversed: false }).to_vec(), routes, events }
    };
    let paths = vec![path("a", [0, 8], [0, 1, 2, 3, 4, 9], 0, 500), path("b", [1, 9], [5, 6, 2, 7, 8, 10], 4, 810)];
    let provenance = Provenance {
        kind: "computed".to_owned(),
        description: "test".to_owned(),
        made_by: "test".to_owned(),
        seed: None,
        includes: Vec::new(),
        recipe: serde_json::Value::Null,
    };
    NetworkSpec::new("n".to_owned(), Utc(0), Nanos::from_secs(7), Basis::OneWay, provenance, topology, paths).expect("a valid network")
}

/// Bulk flows in both directions of both paths, and a paced one that leaves links idle.
fn flows() -> Experiment {
    let paced = AppSpec::Paced { write_bytes: Bytes(9_000), every_ns: Nanos(13 * MS) };
    let on = |path: &str, controller, direction, app| bentpipe_profile::experiment::FlowSpec {
        profile: path.to_owned(),
        ..flow(controller, direction, app)
    };
    let flows = vec![
        on("a", "cubic", Direction::Up, AppSpec::Bulk),
        on("a", "bbr", Direction::Down, AppSpec::Bulk),
        on("b", "cubic", Direction::Down, AppSpec::Bulk),
        on("b", "reno", Direction::Up, paced),
    ];
    let reference = |role: &str| ProfileRef { role: role.to_owned(), name: role.to_owned(), hash: String::new(), network: None };
    Experiment { profiles: vec![reference("a"), reference("b")], ..experiment(6, 5, flows) }
}

fn run(network: &NetworkSpec, is_ahead: bool) -> RunData {
    let mut simulation = Simulation::over_network(flows(), network, &Controllers::default(), &|_, _| None).expect("a valid experiment");
    if !is_ahead {
        simulation.pass_one_hop_at_a_time();
    }
    assert!(!simulation.run_until(Nanos::from_secs(6)).expect("no application fails"));
    simulation.finish()
}

/// Packets that migrate go ahead of later arrivals, and events find the packets where they are at that time.
#[test]
fn looking_ahead_does_not_change_a_run_with_handovers() {
    let migrate = |delay_ns: u64, mbps: u64| {
        move |to_hop| QueueFate::Migrate(Migration { to_hop, delay_ns: Nanos(delay_ns), rate_bps: Rate::from_mbps(mbps) })
    };
    for order in [OrderFate::Clamp, OrderFate::Allow] {
        let cases: [(&str, NetworkSpec); 5] = [
            ("kept", handovers(|_| QueueFate::Keep, order)),
            ("dropped", handovers(|_| QueueFate::Drop, order)),
            ("migrate at once", handovers(migrate(0, 10_000), order)),
            ("migrate", handovers(migrate(3_300_019, 1_000), order)),
            ("migrate slowly", handovers(migrate(41_000_023, 5), order)),
        ];
        let mut hashes = BTreeSet::new();
        for (queues, network) in cases {
            let [plain, ahead] = [false, true].map(|is_ahead| run(&network, is_ahead));
            assert!(plain.summary.flows.iter().all(|flow| flow.goodput_bps > 5e5), "{queues}: {:?}", plain.summary.flows);
            assert_eq!(plain.content_hash(), ahead.content_hash(), "{queues}, {order:?}");
            hashes.insert(plain.content_hash());
        }
        assert_eq!(hashes.len(), 5, "the fate of the queues matters");
    }
}
