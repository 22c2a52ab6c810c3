//! Small whole runs, and properties that hold for every run.

use crate::testing::{experiment, flow, handover_path, interrupted_path, outage, side};
use crate::{RunData, SimError, Simulation};
use bentpipe_cc::controllers::Controllers;
use bentpipe_profile::app::AppSpec;
use bentpipe_profile::cross::{CrossTraffic, TransferSizes};
use bentpipe_profile::experiment::{Experiment, HostTiming};
use bentpipe_profile::{Bytes, Direction, Nanos, NetworkSpec, Profile, QueueDiscipline, QueueRule, Rate, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

mod ahead;
mod applications;
mod coding;
mod proxies;
mod quic;

fn run(experiment: Experiment, profile: &Arc<Profile>) -> RunData {
    run_in_slices(experiment, profile, Nanos::from_secs(3600))
}

fn run_in_slices(experiment: Experiment, profile: &Arc<Profile>, slice: Nanos) -> RunData {
    let mut simulation = Simulation::new(experiment, vec![profile.clone()]).expect("a valid experiment");
    let mut until = slice;
    while simulation.run_until(until).expect("no application fails") {
        until += slice;
    }
    simulation.finish()
}

fn three_flows() -> Vec<bentpipe_profile::experiment::FlowSpec> {
    vec![
        flow("cubic", Direction::Down, AppSpec::Bulk),
        flow("bbr", Direction::Down, AppSpec::Bulk),
        flow("reno", Direction::Up, AppSpec::Bulk),
    ]
}

#[test]
fn the_same_seed_gives_the_same_run_bit_for_bit() {
    let path = handover_path(10, 2_000_000);
    let first = run(experiment(10, 7, three_flows()), &path);
    let second = run(experiment(10, 7, three_flows()), &path);
    assert_eq!(first.content_hash(), second.content_hash());
    assert_ne!(first.content_hash(), run(experiment(10, 8, three_flows()), &path).content_hash());
}

#[test]
fn the_slices_of_a_run_do_not_change_it() {
    let path = handover_path(10, 2_000_000);
    let whole = run(experiment(10, 7, three_flows()), &path);
    let sliced = run_in_slices(experiment(10, 7, three_flows()), &path, Nanos::from_millis(37));
    assert_eq!(whole.content_hash(), sliced.content_hash());
}

#[test]
fn two_flows_share_the_capacity_and_do_not_exceed_it() {
    let path = handover_path(20, 0);
    let data = run(experiment(20, 1, three_flows()), &path);
    let down: f64 = data.summary.flows[..2].iter().map(|f| f.goodput_bps).sum();
    // 20 Mbit/s for 5 s and 30 for 15: 27.5, less headers.
    assert!(down < 27.5e6 * 1448.0 / 1500.0, "{down}");
    assert!(down > 0.8 * 27.5e6, "{down}");
    assert!(data.summary.flows[2].goodput_bps > 5e6);
}

#[test]
fn a_flow_of_a_given_size_completes_when_all_bytes_are_delivered() {
    let path = handover_path(10, 5_000_000);
    let data = run(experiment(10, 1, vec![flow("cubic", Direction::Down, AppSpec::transfer(Bytes(500_000)))]), &path);
    let summary = &data.summary.flows[0];
    let duration_s = summary.completed_s.expect("half a megabyte fits into ten seconds");
    assert_eq!(data.tables.samples.goodput_bytes.last(), Some(&500_000));
    assert!((summary.goodput_bps - 500_000.0 * 8.0 / duration_s).abs() < 1.0);
}

#[test]
fn an_application_limited_flow_gets_the_rate_it_writes() {
    let path = handover_path(10, 0);
    let paced = AppSpec::Paced { write_bytes: Bytes(10_000), every_ns: Nanos::from_millis(20) };
    let data = run(experiment(10, 1, vec![flow("bbr", Direction::Down, paced)]), &path);
    let goodput = data.summary.flows[0].goodput_bps;
    assert!((goodput / 4e6 - 1.0).abs() < 0.02, "{goodput}");
    assert!(data.tables.samples.sender_limited_s.last().is_some_and(|&s| s > 5.0));
}

#[test]
fn a_connection_is_established_at_the_end_of_its_handshake() {
    let think_ns = Nanos::from_millis(500);
    let app = AppSpec::Request { request_bytes: Bytes(200), response_bytes: Bytes(5_000), count: Some(1), think_ns };
    let events = run(experiment(2, 1, vec![flow("cubic", Direction::Down, app)]), &handover_path(10, 0)).tables.events;
    let established = events.kind.iter().position(|kind| kind == "established").map(|i| events.t_s[i]);
    // The request, with which the handshake ends, arrives after three times 15 ms; the server answers half a second later.
    assert!(established.is_some_and(|t_s| (0.045..0.046).contains(&t_s)), "{established:?}");
}

#[test]
fn flows_start_and_stop_at_their_configured_times() {
    let path = handover_path(10, 0);
    let mut late = flow("cubic", Direction::Down, AppSpec::Bulk);
    late.start_ns = Time(2_000_000_000);
    late.stop_ns = Some(Time(4_000_000_000));
    let data = run(experiment(10, 1, vec![late]), &path);
    assert!(data.tables.samples.t_s.iter().all(|&t| t >= 2.0));
    let at = |t: f64| data.tables.samples.t_s.iter().position(|&s| s >= t).map(|i| data.tables.samples.goodput_bytes[i]);
    assert_eq!(at(5.0), at(9.9));
    assert!(at(3.9) > at(2.5));
}

#[test]
fn a_handover_is_recorded_in_events_and_drops() {
    let path = handover_path(10, 0);
    let data = run(experiment(10, 1, three_flows()), &path);
    let handover = data.tables.events.kind.iter().position(|k| k == "handover").expect("a handover");
    assert!((data.tables.events.t_s[handover] - 5.0).abs() < 1e-9);
    assert!(data.tables.links.drops_event.iter().any(|&n| n > 0));
    assert!(data.tables.events.t_s.is_sorted());
}

#[test]
fn an_offset_starts_the_run_later_in_the_profile() {
    let path = handover_path(20, 0);
    let mut later = experiment(10, 1, three_flows());
    later.offset_ns = Nanos::from_secs(6);
    let data = run(later, &path);
    assert!(!data.tables.events.kind.iter().any(|k| k == "handover"));
    // The second satellite's 30 Mbit/s from the start.
    assert!(data.summary.flows[..2].iter().map(|f| f.goodput_bps).sum::<f64>() > 22e6);
}

#[test]
fn no_route_drops_are_counted_in_links_and_summary() {
    let data = run(experiment(10, 1, vec![flow("cubic", Direction::Down, AppSpec::Bulk)]), &interrupted_path(10, [3, 7], vec![]));
    let l = &data.tables.links;
    let rows: Vec<_> = (0..l.t_s.len()).filter(|&i| l.hop[i] == "no_route" && l.direction[i] == "down").collect();
    let counts: Vec<_> = rows.iter().map(|&i| l.drops_no_route[i]).collect();
    assert!(counts.is_sorted() && rows.iter().all(|&i| l.t_s[i] > 3.0), "{counts:?}");
    assert_eq!(counts.last(), Some(&data.summary.no_route.down));
    // A window of segments is dropped while acknowledgements still arrive; then every time-out's retransmission is dropped.
    assert!(data.summary.no_route.down > 10, "{:?}", data.summary.no_route);
    assert!(l.drops_no_route.iter().zip(&l.hop).all(|(&n, hop)| n == 0 || hop == "no_route"));
}

/// The outage starts before the run: the run still records it as one outage.
#[test]
fn an_outage_that_began_before_the_run_is_recorded() {
    let path = interrupted_path(10, [2, 6], vec![outage([2, 6])]);
    for (offset_s, expected) in [(1, Some(1.0)), (2, Some(0.0)), (4, Some(0.0)), (6, None)] {
        let mut later = experiment(4, 1, three_flows());
        later.offset_ns = Nanos::from_secs(offset_s);
        let events = run(later, &path).tables.events;
        let outages: Vec<f64> = (0..events.kind.len()).filter(|&i| events.kind[i] == "outage").map(|i| events.t_s[i]).collect();
        assert_eq!(outages, Vec::from_iter(expected), "{offset_s} s");
    }
}

#[test]
fn the_links_table_accounts_for_delivered_bytes() {
    let path = handover_path(10, 0);
    let data = run(experiment(10, 1, vec![flow("cubic", Direction::Down, AppSpec::Bulk)]), &path);
    let l = &data.tables.links;
    let last = |hop: &str| (0..l.t_s.len()).rev().find(|&i| l.hop[i] == hop && l.direction[i] == "down" && l.flow[i] == -1);
    let carried: u64 = ["sat:a", "sat:b"].iter().filter_map(|hop| last(hop)).map(|i| l.delivered_bytes[i]).sum();
    let goodput = *data.tables.samples.goodput_bytes.last().unwrap();
    assert!(carried > goodput && carried < goodput + goodput / 10, "{carried} {goodput}");
    let i = last("sat:b").unwrap();
    assert!(l.delay_p50_ms[i] >= 9.0 && l.delay_p50_ms[i] <= l.delay_p95_ms[i] && l.delay_p95_ms[i] <= l.delay_max_ms[i] + 1e-9);
}

#[test]
fn invalid_experiments_are_refused_before_they_run() {
    let path = handover_path(10, 0);
    let fails = |e: Experiment, p: Vec<Arc<Profile>>| Simulation::new(e, p).err().expect("must be refused");
    assert!(matches!(fails(experiment(11, 1, three_flows()), vec![path.clone()]), SimError::TooLong { .. }));
    assert!(matches!(fails(experiment(10, 1, three_flows()), vec![]), SimError::ProfileCount { .. }));
    let unknown = experiment(10, 1, vec![flow("qubic", Direction::Down, AppSpec::Bulk)]);
    assert!(fails(unknown, vec![path]).to_string().contains("did you mean `cubic`"));
}

#[test]
fn the_warm_up_of_a_late_flow_begins_when_it_starts() {
    let path = handover_path(10, 0);
    let mut late = flow("cubic", Direction::Down, AppSpec::Bulk);
    late.start_ns = Time(6_000_000_000);
    let summary = &run(experiment(10, 1, vec![late]), &path).summary.flows[0];
    assert!(summary.goodput_bps > 15e6, "{}", summary.goodput_bps);
    let mut short = flow("cubic", Direction::Down, AppSpec::Bulk);
    short.start_ns = Time(9_500_000_000);
    let summary = &run(experiment(10, 1, vec![short]), &path).summary.flows[0];
    assert_eq!(summary.goodput_bps.to_bits(), summary.whole_run_bps.to_bits());
}

/// Times at which a flow's controller with these options enters and leaves the state `handover` [s].
fn handover_state_times(options: &[(&str, f64)]) -> Vec<f64> {
    let mut spec = flow("satcp", Direction::Down, AppSpec::Bulk);
    spec.options = options.iter().map(|&(name, value)| (name.to_owned(), value.into())).collect();
    let events = run(experiment(10, 3, vec![spec]), &handover_path(10, 0)).tables.events;
    let states: Vec<_> =
        (0..events.kind.len()).filter(|&i| events.kind[i] == "state").map(|i| (events.t_s[i], &events.detail[i])).collect();
    let entered = states.iter().position(|s| s.1 == "handover");
    entered.map_or_else(Vec::new, |i| states[i..].iter().take(2).map(|s| s.0).collect())
}

#[test]
fn a_scheduled_controller_learns_the_handover_time_with_the_configured_error() {
    // The handover is at 5 s. The state lasts from 0.5 s before it for 2.3 s, up to the next ACK.
    for (options, begin) in [(vec![], 4.5), (vec![("hint_offset_ms", -2000.0)], 2.5), (vec![("hint_offset_ms", 1000.0)], 5.5)] {
        let times = handover_state_times(&options);
        assert!(
            times.len() == 2 && (begin..begin + 0.2).contains(&times[0]) && (begin + 2.3..begin + 2.6).contains(&times[1]),
            "{times:?}"
        );
    }
    assert!(handover_state_times(&[("hint_missing", 1.0)]).is_empty());
}

#[test]
fn every_controller_fills_a_path_with_a_handover_and_is_deterministic() {
    for entry in bentpipe_cc::registry::CONTROLLERS {
        let run_again = || run(experiment(15, 5, vec![flow(entry.name, Direction::Down, AppSpec::Bulk)]), &handover_path(15, 100_000));
        let (first, second) = (run_again(), run_again());
        assert_eq!(first.content_hash(), second.content_hash(), "{}", entry.name);
        // 20 and 30 Mbit/s, one packet in 10,000 lost.
        assert!(first.summary.flows[0].goodput_bps > 15e6, "{}: {}", entry.name, first.summary.flows[0].goodput_bps);
    }
}

/// Three flows of 20 s with cross traffic in transfers of 20 kB to 2 MB.
fn with_cross_traffic(mbps: u64) -> Experiment {
    let cross = CrossTraffic {
        profile: "path".to_owned(),
        direction: Direction::Down,
        controller: "cubic".to_owned(),
        options: BTreeMap::new(),
        offered_bps: Rate(mbps * 1_000_000),
        sizes: TransferSizes { least_bytes: Bytes(20_000), most_bytes: Bytes(2_000_000), tail_index: 1.2 },
        sender: None,
        receiver: None,
    };
    Experiment { cross: vec![cross], ..experiment(20, 7, three_flows()) }
}

#[test]
fn cross_traffic_takes_capacity_from_the_flows_and_is_summarised() {
    let path = handover_path(20, 0);
    let (alone, shared) = (run(experiment(20, 7, three_flows()), &path), run(with_cross_traffic(12), &path));
    let down = |data: &RunData| data.summary.flows[..2].iter().map(|f| f.whole_run_bps).sum::<f64>();
    let cross = &shared.summary.cross[0];
    assert!(cross.transfers > 100 && cross.completed > 8 * cross.transfers / 10, "{cross:?}");
    assert!(cross.delivered_bytes <= cross.offered_bytes && cross.mean_s.is_some_and(|s| s > 0.05), "{cross:?}");
    let (lost, gained) = (down(&alone) - down(&shared), cross.goodput_bps);
    assert!((lost / gained - 1.0).abs() < 0.3, "{lost} {gained}");
    // Only the Experiment's own flows have rows in samples and events.
    assert!(shared.tables.samples.flow.iter().all(|&flow| flow < 3));
    assert!(shared.tables.events.flow.iter().all(|&flow| flow < 3));
    let links: BTreeSet<i64> = shared.tables.links.flow.iter().copied().collect();
    assert_eq!(links, [-2, -1, 0, 1, 2].into());
    assert!(alone.summary.cross.is_empty());
}

#[test]
fn cross_traffic_is_deterministic_for_any_slices() {
    let path = handover_path(20, 1_000_000);
    let first = run(with_cross_traffic(12), &path).content_hash();
    assert_eq!(first, run(with_cross_traffic(12), &path).content_hash());
    assert_eq!(first, run_in_slices(with_cross_traffic(12), &path, Nanos::from_millis(37)).content_hash());
}

#[test]
fn invalid_cross_traffic_is_refused_with_its_field() {
    let error_of = |change: fn(&mut CrossTraffic)| {
        let mut e = with_cross_traffic(12);
        change(&mut e.cross[0]);
        Simulation::new(e, vec![handover_path(20, 0)]).err().expect("must be refused").to_string()
    };
    assert!(error_of(|c| c.profile = "elsewhere".to_owned()).starts_with("experiment: cross[0].profile: elsewhere"));
    assert!(error_of(|c| c.offered_bps = Rate(u64::MAX)).contains("a million"));
    assert!(error_of(|c| c.sizes.least_bytes = Bytes(0)).contains("cross[0].sizes"));
    assert!(error_of(|c| c.controller = "qubic".to_owned()).contains("did you mean `cubic`"));
}

/// The network of one Profile, whose path has the role that the Experiment names.
fn network(profile: &Profile, role: &str) -> NetworkSpec {
    let network = NetworkSpec::from_profiles(&[profile]).unwrap();
    let paths = vec![bentpipe_profile::Path { name: role.to_owned(), ..network.paths()[0].clone() }];
    let (start, duration, provenance) = (network.start(), network.duration(), network.provenance().clone());
    NetworkSpec::new("n".to_owned(), start, duration, network.basis(), provenance, network.topology().clone(), paths).unwrap()
}

#[test]
fn a_network_of_one_path_gives_the_run_of_its_profile() {
    let path = handover_path(20, 1_000_000);
    let mut simulation =
        Simulation::over_network(experiment(20, 3, three_flows()), &network(&path, "path"), &Controllers::default(), &|_, _| None).unwrap();
    assert!(!simulation.run_until(Nanos::from_secs(20)).unwrap());
    assert_eq!(simulation.finish().content_hash(), run(experiment(20, 3, three_flows()), &path).content_hash());
}

#[test]
fn an_experiment_that_does_not_fit_the_network_is_refused() {
    let path = handover_path(20, 0);
    let error_of = |experiment, role| {
        Simulation::over_network(experiment, &network(&path, role), &Controllers::default(), &|_, _| None)
            .err()
            .expect("must be refused")
            .to_string()
    };
    let error = error_of(experiment(10, 1, three_flows()), "elsewhere");
    assert!(error.starts_with("experiment: profiles[0].role: path; expected elsewhere"), "{error}");
    let mut ruled = experiment(10, 1, three_flows());
    ruled.queues = vec![QueueRule { profile: None, hop: None, direction: None, discipline: QueueDiscipline::DropTail, limit: None }];
    assert!(error_of(ruled, "path").starts_with("experiment: queues: 1 rules; expected none"));
}

#[test]
fn ideal_hosts_take_twenty_microseconds_less_per_rtt_than_the_default() {
    let path = handover_path(10, 2_000_000);
    let app = || AppSpec::Paced { write_bytes: Bytes(500), every_ns: Nanos::from_millis(20) };
    let run_with = |host_timing: Option<HostTiming>| {
        let experiment = experiment(4, 7, vec![flow("cubic", Direction::Down, app())]);
        let host_timing = host_timing.unwrap_or(experiment.host_timing);
        run(Experiment { host_timing, ..experiment }, &path)
    };
    let [default, linux, ideal] = [None, Some(HostTiming::LinuxVm), Some(HostTiming::Ideal)].map(run_with);
    assert_eq!(default.content_hash(), linux.content_hash());
    let mean_us = |data: &RunData| {
        let rtts: Vec<f64> = data.tables.samples.rtt_latest_ms.iter().copied().filter(|rtt| rtt.is_finite()).collect();
        rtts.iter().sum::<f64>() * 1e3 / rtts.len() as f64
    };
    let added_us = mean_us(&linux) - mean_us(&ideal);
    assert!((10.0..30.0).contains(&added_us), "{added_us}");
}
