//! A thousand flows of 1 Mbit/s over a thousand paths of ten links, which share a grid of satellites. `benchmarks/network.py` compares the cost per packet and
//! link with that of the dumbbell.
//!
//! `cargo run --release -p bentpipe-sim --example network -- [seconds] [paths]`

use bentpipe_cc::controllers::Controllers;
use bentpipe_profile::app::AppSpec;
use bentpipe_profile::experiment::{EcnMode, Experiment, FlowSpec, HostTiming, ProfileRef};
use bentpipe_profile::{
    Basis, Bytes, Direction, Hop, HopDirection, LinkSpec, Nanos, NetworkSpec, Path, PathHop, Provenance, QueueDiscipline, QueueLimit,
    QueueSpec, Rate, RouteEntry, Series, Time, Topology, Utc, keyed_u64,
};
use bentpipe_sim::Simulation;
use std::collections::BTreeMap;

/// Satellites in a row and rows in the grid, which closes on itself in both directions.
const SIDE: usize = 40;
/// Links of each path: half of them along the row, half along the column.
const LINKS: usize = 10;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let seconds: u64 = args.next().map_or(Ok(10), |a| a.parse())?;
    let paths: usize = args.next().map_or(Ok(1000), |a| a.parse())?;
    let network = grid(seconds, paths)?;
    let flow = |path: &Path| FlowSpec {
        profile: path.name.clone(),
        direction: Direction::Down,
        controller: "cubic".to_owned(),
        options: BTreeMap::new(),
        start_ns: Time::ZERO,
        stop_ns: None,
        app: AppSpec::Paced { write_bytes: Bytes(1250), every_ns: Nanos::from_millis(10) },
        sender: None,
        receiver: None,
        ecn: EcnMode::Off,
    };
    let experiment = Experiment {
        name: "network".to_owned(),
        seed: 0,
        duration_ns: Nanos::from_secs(seconds),
        warmup_ns: Nanos::ZERO,
        sample_step_ns: Nanos::from_millis(100),
        offset_ns: Nanos::ZERO,
        profiles: network
            .paths()
            .iter()
            .map(|path| ProfileRef { role: path.name.clone(), name: path.name.clone(), hash: String::new(), network: None })
            .collect(),
        host_timing: HostTiming::default(),
        hosts: BTreeMap::new(),
        flows: network.paths().iter().map(flow).collect(),
        queues: Vec::new(),
        cross: Vec::new(),
        pings: Vec::new(),
        test: None,
        recovery: None,
    };
    let mut simulation = Simulation::over_network(experiment, &network, &Controllers::default(), &|_, _| None)?;
    simulation.run_until(Nanos::from_secs(seconds))?;
    let run = simulation.finish();
    let goodput: f64 = run.summary.flows.iter().map(|flow| flow.goodput_bps).sum();
    println!(
        "{} nodes, {} links, {} paths of {LINKS} links, {:.0} Mbit/s in all",
        network.topology().nodes.len(),
        network.topology().links.len(),
        network.paths().len(),
        goodput / 1e6
    );
    println!("{} packets, {}", run.summary.packets, run.content_hash());
    Ok(())
}

/// Links of 1 Gbit/s and 5 ms between neighbours, and paths between pairs that are five columns and five rows apart.
fn grid(seconds: u64, paths: usize) -> Result<NetworkSpec, Box<dyn std::error::Error>> {
    let side = HopDirection {
        delay: Series::constant(5_000_000),
        capacity: Some(Series::constant(Rate::from_mbps(1000).0)),
        loss: None,
        jitter: None,
        queue: QueueSpec { discipline: QueueDiscipline::DropTail, limit: QueueLimit::Packets(1000) },
    };
    let node = |column: usize, row: usize| row % SIDE * SIDE + column % SIDE;
    let link = |a: usize, b: usize| {
        let name = format!("sat:{a}-sat:{b}");
        let hop = Hop { name: name.clone(), shared_id: None, up: side.clone(), down: side.clone() };
        LinkSpec { name, ends: [a, b], hop }
    };
    // Link 2n leads from node n along the row, link 2n + 1 along the column.
    let links = (0..SIDE * SIDE).flat_map(|n| {
        let (column, row) = (n % SIDE, n / SIDE);
        [link(n, node(column + 1, row)), link(n, node(column, row + 1))]
    });
    let topology = Topology { nodes: (0..SIDE * SIDE).map(|n| format!("sat:{n}")).collect(), links: links.collect(), events: Vec::new() };
    let path = |number: usize| {
        let from = usize::try_from(keyed_u64(7, number as u64) % (SIDE * SIDE) as u64).unwrap_or_default();
        let (column, row) = (from % SIDE, from / SIDE);
        let along_row = (0..LINKS / 2).map(|step| 2 * node(column + step, row));
        let along_column = (0..LINKS / 2).map(|step| 2 * node(column + LINKS / 2, row + step) + 1);
        Path {
            name: format!("pair:{number}"),
            ends: [from, node(column + LINKS / 2, row + LINKS / 2)],
            hops: along_row.chain(along_column).map(|link| PathHop { link, reversed: false }).collect(),
            routes: vec![RouteEntry { at_ns: Time::ZERO, hops: (0..LINKS).collect() }],
            events: Vec::new(),
        }
    };
    let provenance = Provenance {
        kind: "preset".to_owned(),
        description: "grid of satellites".to_owned(),
        made_by: "example".to_owned(),
        seed: None,
        includes: Vec::new(),
        recipe: serde_json::Value::Null,
    };
    let paths = (0..paths).map(path).collect();
    Ok(NetworkSpec::new("grid".to_owned(), Utc(0), Nanos::from_secs(seconds), Basis::OneWay, provenance, topology, paths)?)
}
