//! One CUBIC and one BBR flow on 100 Mbit/s, 40 ms and a drop-tail queue of one BDP, which `benchmarks/dumbbell.py` compares with ns-3.
//!
//! `cargo run --release -p bentpipe-sim --example dumbbell -- [seconds] [seed] [controllers] [app]`, `app` as JSON (`"bulk"`)

use bentpipe_profile::app::AppSpec;
use bentpipe_profile::experiment::{EcnMode, Experiment, FlowSpec, HostTiming, ProfileRef};
use bentpipe_profile::{
    Basis, Direction, Hop, HopDirection, Nanos, Profile, Provenance, QueueDiscipline, QueueLimit, QueueSpec, Rate, RouteEntry, Series,
    Time, Utc,
};
use bentpipe_sim::Simulation;
use std::collections::BTreeMap;
use std::sync::Arc;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let seconds: u64 = args.next().map_or(Ok(60), |a| a.parse())?;
    let seed: u64 = args.next().map_or(Ok(0), |a| a.parse())?;
    let controllers = args.next().unwrap_or_else(|| "cubic,bbr".to_owned());
    let app: AppSpec = args.next().map_or(Ok(AppSpec::Bulk), |a| serde_json::from_str(&a))?;
    let rate = Rate::from_mbps(100);
    let packets = rate.bytes_in(Nanos::from_millis(40)).0 / 1500;
    let side = HopDirection {
        delay: Series::constant(20_000_000),
        capacity: Some(Series::constant(rate.0)),
        loss: None,
        jitter: None,
        queue: QueueSpec { discipline: QueueDiscipline::DropTail, limit: QueueLimit::Packets(packets) },
    };
    let provenance = Provenance {
        kind: "preset".to_owned(),
        description: "dumbbell".to_owned(),
        made_by: "example".to_owned(),
        seed: None,
        includes: Vec::new(),
        recipe: serde_json::Value::Null,
    };
    let profile = Profile::new(
        "dumbbell".to_owned(),
        Utc(0),
        Nanos::from_secs(seconds),
        Basis::OneWay,
        provenance,
        vec![Hop { name: "bottleneck".to_owned(), shared_id: None, up: side.clone(), down: side }],
        vec![RouteEntry { at_ns: Time::ZERO, hops: vec![0] }],
        Vec::new(),
    )?;
    let flow = |controller: &str| FlowSpec {
        profile: "path".to_owned(),
        direction: Direction::Down,
        controller: controller.to_owned(),
        options: BTreeMap::new(),
        start_ns: Time::ZERO,
        stop_ns: None,
        app: app.clone(),
        sender: None,
        receiver: None,
        ecn: EcnMode::Off,
    };
    let experiment = Experiment {
        name: "dumbbell".to_owned(),
        seed,
        duration_ns: Nanos::from_secs(seconds),
        warmup_ns: Nanos::from_secs(seconds / 6),
        sample_step_ns: Nanos::from_millis(100),
        offset_ns: Nanos::ZERO,
        profiles: vec![ProfileRef {
            role: "path".to_owned(),
            name: profile.name().to_owned(),
            hash: profile.content_hash(),
            network: None,
        }],
        host_timing: HostTiming::default(),
        hosts: BTreeMap::new(),
        flows: controllers.split(',').map(flow).collect(),
        queues: Vec::new(),
        cross: Vec::new(),
        pings: Vec::new(),
        test: None,
        recovery: None,
    };
    let mut simulation = Simulation::new(experiment, vec![Arc::new(profile)])?;
    simulation.run_until(Nanos::from_secs(seconds))?;
    let run = simulation.finish();
    for flow in &run.summary.flows {
        println!(
            "{} {:.2} Mbit/s, {} retransmits, {:?} timeouts, rtt {:?} ms",
            flow.controller,
            flow.goodput_bps / 1e6,
            flow.retransmits,
            flow.timeouts,
            flow.rtt_median_ms
        );
    }
    println!("{} packets, {}", run.summary.packets, run.content_hash());
    Ok(())
}
