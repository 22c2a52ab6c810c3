//! Proxies that split connections on the path.

use crate::RunData;
use crate::simulation::Simulation;
use crate::testing::{experiment, flow, handover_path, interrupted_path, outage};
use bentpipe_profile::app::{AppSpec, CallSpec};
use bentpipe_profile::cross::{CrossTraffic, TransferSizes};
use bentpipe_profile::experiment::{Experiment, FlowSpec, RecoverySpec};
use bentpipe_profile::options::OptionValues;
use bentpipe_profile::pings::PingSpec;
use bentpipe_profile::{Bytes, Direction, Nanos, Profile, Rate, Time};
use std::sync::Arc;

const WHOLE: Nanos = Nanos::from_secs(3600);

fn with_scheme(flows: Vec<FlowSpec>, scheme: &str, options: &[(&str, f64)]) -> Experiment {
    let options: OptionValues = options.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect();
    Experiment { recovery: Some(RecoverySpec { scheme: scheme.to_owned(), options }), ..experiment(20, 7, flows) }
}

fn finish(experiment: Experiment, path: &Arc<Profile>, slice: Nanos) -> RunData {
    let mut simulation = Simulation::new(experiment, vec![path.clone()]).expect("a valid experiment");
    let mut until = slice;
    while simulation.run_until(until).unwrap() {
        until += slice;
    }
    simulation.finish()
}

fn run(path: &Arc<Profile>, app: &AppSpec, scheme: &str, options: &[(&str, f64)]) -> RunData {
    finish(with_scheme(vec![flow("cubic", Direction::Down, app.clone())], scheme, options), path, WHOLE)
}

fn counter(data: &RunData, name: &str) -> u64 {
    let overhead = &data.summary.recovery.as_ref().expect("a Run with recovery").overhead;
    *overhead.iter().find(|(key, _)| *key == name).expect("this counter exists").1
}

fn requests(count: u64) -> AppSpec {
    let (request_bytes, response_bytes) = (Bytes(300), Bytes(40_000));
    AppSpec::Request { request_bytes, response_bytes, count: Some(count), think_ns: Nanos::from_millis(5) }
}

#[test]
fn data_arrive_whole_in_both_directions_across_losses_and_a_handover() {
    let path = handover_path(20, 20_000_000); // 2 % on each satellite
    let transfers =
        AppSpec::Transfers { sizes_bytes: vec![Bytes(1_000_003)], count: Some(6), every_ns: Some(Nanos::from_secs(2)), poisson: false };
    for direction in Direction::BOTH {
        let data = finish(with_scheme(vec![flow("cubic", direction, transfers.clone())], "mpep", &[]), &path, WHOLE);
        let flow = &data.summary.flows[0];
        assert_eq!(data.tables.samples.goodput_bytes.last(), Some(&(6 * 1_000_003)), "{direction:?}");
        assert!(flow.completed_s.is_some());
    }
    let data = run(&path, &requests(150), "mpep", &[]);
    let app = data.summary.flows[0].app.clone().expect("requests");
    assert_eq!(app.completed, 150);
}

#[test]
fn losses_are_repaired_over_the_satellite_alone() {
    // 10 ms of the RTT of 30 ms are the satellite's, and losses are there.
    let path = interrupted_path(20, [19, 20], vec![]);
    let lossy = handover_path(20, 10_000_000);
    let goodput = |path, scheme| run(path, &AppSpec::Bulk, scheme, &[]).summary.flows[0].goodput_bps;
    let [none, mpep] = ["none", "mpep"].map(|scheme| goodput(&lossy, scheme));
    assert!(mpep > 1.5 * none, "{mpep} against {none}");
    let [none, mpep] = ["none", "mpep"].map(|scheme| goodput(&path, scheme));
    assert!((mpep / none - 1.0).abs() < 0.05, "without loss there is nothing to gain: {mpep} against {none}");
}

#[test]
fn state_moves_at_a_handover_and_the_next_satellite_begins_anew() {
    let path = handover_path(20, 0);
    let data = run(&path, &AppSpec::Bulk, "mpep", &[]);
    assert_eq!(counter(&data, "migrated"), 1);
    let bytes = counter(&data, "migrated_bytes");
    assert!(
        (10_000..8_000_000).contains(&bytes),
        "{bytes}: a proxy holds what one side's receive buffer and the other's send buffer allow"
    );
    // 300 ms for the state: nothing arrives meanwhile.
    let slow = run(&path, &AppSpec::Bulk, "mpep", &[("migration_delay_ms", 300.0)]);
    let silence = |data: &RunData| {
        let samples = &data.tables.samples;
        let still = samples.goodput_bytes.windows(2).zip(&samples.t_s).filter(|(pair, t)| pair[0] == pair[1] && (5.0..6.0).contains(*t));
        still.count()
    };
    assert!(silence(&slow) >= silence(&data) + 2, "{} {}", silence(&slow), silence(&data));
}

#[test]
fn a_proxy_reads_no_more_than_the_next_side_takes() {
    // The server's side has no limit, the satellite 20 Mbit/s. A proxy that read all that arrives would hold 11 s of data.
    let path = handover_path(20, 0);
    let data = run(&path, &AppSpec::Bulk, "mpep", &[]);
    let flow = &data.summary.flows[0];
    assert!(flow.owd_p99_ms.is_some_and(|ms| ms < 3_000.0), "{:?}", flow.owd_p99_ms);
}

#[test]
fn datagrams_and_pings_pass_and_datagrams_wait_for_the_state() {
    let path = handover_path(20, 0);
    let call = |options: &[(&str, f64)]| run(&path, &AppSpec::Call(CallSpec::default()), "mpep", options).summary.flows[0].clone();
    let (quick, slow) = (call(&[]), call(&[("migration_delay_ms", 400.0)]));
    assert!(quick.owd_p50_ms.zip(slow.owd_p50_ms).is_some_and(|(a, b)| (a - b).abs() < 5.0 && a > 15.0));
    assert!(slow.owd_p99_ms.unwrap() > quick.owd_p99_ms.unwrap() + 50.0, "{slow:?} {quick:?}");
    let pings = PingSpec { profile: "path".to_owned(), every_ns: Nanos::from_millis(50), bytes: 84, start_ns: Time::ZERO, stop_ns: None };
    let experiment = Experiment { pings: vec![pings], ..with_scheme(vec![flow("cubic", Direction::Down, requests(1))], "mpep", &[]) };
    let data = finish(experiment, &path, WHOLE);
    let idle = &data.summary.pings[0];
    assert!(idle.sent >= 399 && idle.lost <= 3, "{idle:?}");
}

#[test]
fn cross_traffic_is_split_too() {
    let path = handover_path(20, 5_000_000);
    let cross = CrossTraffic {
        profile: "path".to_owned(),
        direction: Direction::Down,
        controller: "cubic".to_owned(),
        options: OptionValues::new(),
        offered_bps: Rate::from_mbps(5),
        sizes: TransferSizes { least_bytes: Bytes(20_000), most_bytes: Bytes(500_000), tail_index: 1.2 },
        sender: None,
        receiver: None,
    };
    let bulk = with_scheme(vec![flow("cubic", Direction::Down, AppSpec::Bulk)], "mpep", &[]);
    let data = finish(Experiment { cross: vec![cross], ..bulk }, &path, WHOLE);
    let cross = &data.summary.cross[0];
    assert!(cross.completed > 10 && cross.completed + 20 > cross.transfers, "{cross:?}");
}

#[test]
fn a_split_run_does_not_depend_on_its_slices() {
    let path = handover_path(20, 5_000_000);
    let bulk = || with_scheme(vec![flow("bbr", Direction::Down, AppSpec::Bulk), flow("cubic", Direction::Up, requests(500))], "mpep", &[]);
    assert_eq!(finish(bulk(), &path, WHOLE).content_hash(), finish(bulk(), &path, Nanos::from_millis(37)).content_hash());
}

#[test]
fn a_connection_outlives_a_path_without_a_route() {
    let path = interrupted_path(20, [5, 9], vec![outage([5, 9])]);
    let data = run(&path, &AppSpec::Bulk, "mpep", &[]);
    let at = |t: f64| data.tables.samples.t_s.iter().position(|own| *own >= t).map(|row| data.tables.samples.goodput_bytes[row]);
    assert!(at(19.0) > at(12.0) && at(12.0) > at(4.9), "it goes on");
}
