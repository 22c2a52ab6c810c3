//! Whole runs, small ones: what must hold of any of them.

use crate::testing::{experiment, flow, handover_path};
use crate::{RunData, SimError, Simulation};
use bentpipe_profile::cross::{CrossTraffic, TransferSizes};
use bentpipe_profile::experiment::{Application, Experiment};
use bentpipe_profile::{Bytes, Direction, Event, EventKind, Fate, Nanos, Profile, Rate, RouteEntry, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

fn run(experiment: Experiment, profile: &Arc<Profile>) -> RunData {
    run_in_slices(experiment, profile, Nanos::from_secs(3600))
}

fn run_in_slices(experiment: Experiment, profile: &Arc<Profile>, slice: Nanos) -> RunData {
    let mut simulation = Simulation::new(experiment, vec![profile.clone()]).expect("a valid experiment");
    let mut until = slice;
    while simulation.run_until(until) {
        until += slice;
    }
    simulation.finish()
}

fn three() -> Vec<bentpipe_profile::experiment::FlowSpec> {
    vec![
        flow("cubic", Direction::Down, Application::Bulk),
        flow("bbr", Direction::Down, Application::Bulk),
        flow("reno", Direction::Up, Application::Bulk),
    ]
}

#[test]
fn the_same_seed_gives_the_same_run_bit_for_bit() {
    let path = handover_path(10, 2_000_000);
    let once = run(experiment(10, 7, three()), &path);
    let again = run(experiment(10, 7, three()), &path);
    assert_eq!(once.content_hash(), again.content_hash());
    assert_ne!(once.content_hash(), run(experiment(10, 8, three()), &path).content_hash());
}

#[test]
fn how_the_run_is_sliced_does_not_matter() {
    let path = handover_path(10, 2_000_000);
    let whole = run(experiment(10, 7, three()), &path);
    let sliced = run_in_slices(experiment(10, 7, three()), &path, Nanos::from_millis(37));
    assert_eq!(whole.content_hash(), sliced.content_hash());
}

#[test]
fn two_flows_share_what_there_is_and_no_more() {
    let path = handover_path(20, 0);
    let data = run(experiment(20, 1, three()), &path);
    let down: f64 = data.summary.flows[..2].iter().map(|f| f.goodput_bps).sum();
    // 20 Mbit/s for 5 s and 30 for 15: 27.5, less headers.
    assert!(down < 27.5e6 * 1448.0 / 1500.0, "{down}");
    assert!(down > 0.8 * 27.5e6, "{down}");
    assert!(data.summary.flows[2].goodput_bps > 5e6);
}

#[test]
fn a_flow_of_a_given_size_ends_when_everything_arrived() {
    let path = handover_path(10, 5_000_000);
    let data = run(experiment(10, 1, vec![flow("cubic", Direction::Down, Application::Bytes(Bytes(500_000)))]), &path);
    let summary = &data.summary.flows[0];
    let took = summary.completed_s.expect("half a megabyte fits into ten seconds");
    assert_eq!(data.tables.samples.goodput_bytes.last(), Some(&500_000));
    assert!((summary.goodput_bps - 500_000.0 * 8.0 / took).abs() < 1.0);
}

#[test]
fn an_application_limited_flow_gets_what_it_asks_for() {
    let path = handover_path(10, 0);
    let paced = Application::Paced { write_bytes: Bytes(10_000), every_ns: Nanos::from_millis(20) };
    let data = run(experiment(10, 1, vec![flow("bbr", Direction::Down, paced)]), &path);
    let goodput = data.summary.flows[0].goodput_bps;
    assert!((goodput / 4e6 - 1.0).abs() < 0.02, "{goodput}");
    assert!(data.tables.samples.sender_limited_s.last().is_some_and(|&s| s > 5.0));
}

#[test]
fn flows_start_and_stop_when_they_are_told() {
    let path = handover_path(10, 0);
    let mut late = flow("cubic", Direction::Down, Application::Bulk);
    late.start_ns = Time(2_000_000_000);
    late.stop_ns = Some(Time(4_000_000_000));
    let data = run(experiment(10, 1, vec![late]), &path);
    assert!(data.tables.samples.t_s.iter().all(|&t| t >= 2.0));
    let at = |t: f64| data.tables.samples.t_s.iter().position(|&s| s >= t).map(|i| data.tables.samples.goodput_bytes[i]);
    assert_eq!(at(5.0), at(9.9));
    assert!(at(3.9) > at(2.5));
}

#[test]
fn the_handover_is_seen_in_the_events_and_in_the_drops() {
    let path = handover_path(10, 0);
    let data = run(experiment(10, 1, three()), &path);
    let handover = data.tables.events.kind.iter().position(|k| k == "handover").expect("there is one");
    assert!((data.tables.events.t_s[handover] - 5.0).abs() < 1e-9);
    assert!(data.tables.links.drops_event.iter().any(|&n| n > 0));
    assert!(data.tables.events.t_s.is_sorted());
}

#[test]
fn an_offset_begins_later_in_the_profile() {
    let path = handover_path(20, 0);
    let mut later = experiment(10, 1, three());
    later.offset_ns = Nanos::from_secs(6);
    let data = run(later, &path);
    assert!(!data.tables.events.kind.iter().any(|k| k == "handover"));
    // The second satellite's 30 Mbit/s from the beginning.
    assert!(data.summary.flows[..2].iter().map(|f| f.goodput_bps).sum::<f64>() > 22e6);
}

/// A path that is there for its first and last three seconds only.
fn interrupted_path() -> Arc<Profile> {
    let wired = handover_path(10, 0);
    let routes = [(0, vec![0, 2]), (3, vec![]), (7, vec![0, 2])];
    let path = Profile::new(
        "interrupted".to_owned(),
        wired.start(),
        wired.duration(),
        wired.basis(),
        wired.provenance().clone(),
        wired.hops().to_vec(),
        routes.map(|(s, hops)| RouteEntry { at_ns: Time(s * 1_000_000_000), hops }).to_vec(),
        Vec::new(),
    );
    Arc::new(path.unwrap())
}

#[test]
fn packets_that_find_no_route_are_counted_in_the_links_and_in_the_summary() {
    let data = run(experiment(10, 1, vec![flow("cubic", Direction::Down, Application::Bulk)]), &interrupted_path());
    let l = &data.tables.links;
    let rows: Vec<_> = (0..l.t_s.len()).filter(|&i| l.hop[i] == "no_route" && l.direction[i] == "down").collect();
    let counts: Vec<_> = rows.iter().map(|&i| l.drops_no_route[i]).collect();
    assert!(counts.is_sorted() && rows.iter().all(|&i| l.t_s[i] > 3.0), "{counts:?}");
    assert_eq!(counts.last(), Some(&data.summary.no_route.down));
    // A window's worth of segments finds no route, until the sender hears nothing any more, and each of its time-outs finds none.
    assert!(data.summary.no_route.down > 10, "{:?}", data.summary.no_route);
    assert!(l.drops_no_route.iter().zip(&l.hop).all(|(&n, hop)| n == 0 || hop == "no_route"));
}

/// Half of the run without a path, from before its beginning: an outage all the same, and one.
#[test]
fn an_outage_that_began_before_the_run_is_among_its_events() {
    let wired = handover_path(10, 0);
    let out = Event {
        at_ns: Time(2_000_000_000),
        interruption_ns: Nanos::from_secs(4),
        hop: 0,
        kind: EventKind::Outage,
        up: Fate::GENTLE,
        down: Fate::GENTLE,
    };
    let routes = [(0, vec![0, 2]), (2, vec![]), (6, vec![0, 2])];
    let path = Profile::new(
        "outage".to_owned(),
        wired.start(),
        wired.duration(),
        wired.basis(),
        wired.provenance().clone(),
        wired.hops().to_vec(),
        routes.map(|(s, hops)| RouteEntry { at_ns: Time(s * 1_000_000_000), hops }).to_vec(),
        vec![out],
    );
    let path = Arc::new(path.unwrap());
    for (offset_s, seen) in [(1, Some(1.0)), (2, Some(0.0)), (4, Some(0.0)), (6, None)] {
        let mut later = experiment(4, 1, three());
        later.offset_ns = Nanos::from_secs(offset_s);
        let events = run(later, &path).tables.events;
        let outages: Vec<f64> = (0..events.kind.len()).filter(|&i| events.kind[i] == "outage").map(|i| events.t_s[i]).collect();
        assert_eq!(outages, Vec::from_iter(seen), "{offset_s} s");
    }
}

#[test]
fn the_links_table_accounts_for_what_arrived() {
    let path = handover_path(10, 0);
    let data = run(experiment(10, 1, vec![flow("cubic", Direction::Down, Application::Bulk)]), &path);
    let l = &data.tables.links;
    let last = |hop: &str| (0..l.t_s.len()).rev().find(|&i| l.hop[i] == hop && l.direction[i] == "down" && l.flow[i] == -1);
    let carried: u64 = ["sat:a", "sat:b"].iter().filter_map(|hop| last(hop)).map(|i| l.delivered_bytes[i]).sum();
    let goodput = *data.tables.samples.goodput_bytes.last().unwrap();
    assert!(carried > goodput && carried < goodput + goodput / 10, "{carried} {goodput}");
    let i = last("sat:b").unwrap();
    assert!(l.delay_p50_ms[i] >= 9.0 && l.delay_p50_ms[i] <= l.delay_p95_ms[i] && l.delay_p95_ms[i] <= l.delay_max_ms[i] + 1e-9);
}

#[test]
fn what_cannot_run_is_refused_before_it_runs() {
    let path = handover_path(10, 0);
    let fails = |e: Experiment, p: Vec<Arc<Profile>>| Simulation::new(e, p).err().expect("must be refused");
    assert!(matches!(fails(experiment(11, 1, three()), vec![path.clone()]), SimError::TooLong { .. }));
    assert!(matches!(fails(experiment(10, 1, three()), vec![]), SimError::ProfileCount { .. }));
    let unknown = experiment(10, 1, vec![flow("qubic", Direction::Down, Application::Bulk)]);
    assert!(fails(unknown, vec![path]).to_string().contains("did you mean `cubic`"));
}

#[test]
fn the_warm_up_of_a_late_flow_begins_when_it_starts() {
    let path = handover_path(10, 0);
    let mut late = flow("cubic", Direction::Down, Application::Bulk);
    late.start_ns = Time(6_000_000_000);
    let summary = &run(experiment(10, 1, vec![late]), &path).summary.flows[0];
    assert!(summary.goodput_bps > 15e6, "{}", summary.goodput_bps);
    let mut short = flow("cubic", Direction::Down, Application::Bulk);
    short.start_ns = Time(9_500_000_000);
    let summary = &run(experiment(10, 1, vec![short]), &path).summary.flows[0];
    assert_eq!(summary.goodput_bps.to_bits(), summary.whole_run_bps.to_bits());
}

/// When a flow's controller enters and leaves the state `handover` [s], with these options.
fn flagged(options: &[(&str, f64)]) -> Vec<f64> {
    let mut spec = flow("satcp", Direction::Down, Application::Bulk);
    spec.options = options.iter().map(|&(name, value)| (name.to_owned(), value)).collect();
    let events = run(experiment(10, 3, vec![spec]), &handover_path(10, 0)).tables.events;
    let states: Vec<_> =
        (0..events.kind.len()).filter(|&i| events.kind[i] == "state").map(|i| (events.t_s[i], &events.detail[i])).collect();
    let begun = states.iter().position(|s| s.1 == "handover");
    begun.map_or_else(Vec::new, |i| states[i..].iter().take(2).map(|s| s.0).collect())
}

#[test]
fn a_controller_that_needs_the_schedule_is_told_the_handover_with_the_error_it_states() {
    // At 5 s: from 0.5 s before it for 2.3 s, by the next ACK.
    for (options, begin) in [(vec![], 4.5), (vec![("hint_offset_ms", -2000.0)], 2.5), (vec![("hint_offset_ms", 1000.0)], 5.5)] {
        let found = flagged(&options);
        assert!(
            found.len() == 2 && (begin..begin + 0.2).contains(&found[0]) && (begin + 2.3..begin + 2.6).contains(&found[1]),
            "{found:?}"
        );
    }
    assert!(flagged(&[("hint_missing", 1.0)]).is_empty());
}

#[test]
fn every_controller_fills_a_path_with_a_handover_and_is_the_same_twice() {
    for entry in bentpipe_cc::registry::CONTROLLERS {
        let once = || run(experiment(15, 5, vec![flow(entry.name, Direction::Down, Application::Bulk)]), &handover_path(15, 100_000));
        let (first, second) = (once(), once());
        assert_eq!(first.content_hash(), second.content_hash(), "{}", entry.name);
        // 20 and 30 Mbit/s, one packet in 10,000 lost.
        assert!(first.summary.flows[0].goodput_bps > 15e6, "{}: {}", entry.name, first.summary.flows[0].goodput_bps);
    }
}

/// Three flows of twenty seconds among cross traffic of 20 kB to 2 MB.
fn crowded(mbps: u64) -> Experiment {
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
    Experiment { cross: vec![cross], ..experiment(20, 7, three()) }
}

#[test]
fn cross_traffic_takes_its_part_of_the_path_and_is_accounted_for() {
    let path = handover_path(20, 0);
    let (alone, among) = (run(experiment(20, 7, three()), &path), run(crowded(12), &path));
    let down = |data: &RunData| data.summary.flows[..2].iter().map(|f| f.whole_run_bps).sum::<f64>();
    let cross = &among.summary.cross[0];
    assert!(cross.transfers > 100 && cross.completed > 8 * cross.transfers / 10, "{cross:?}");
    assert!(cross.delivered_bytes <= cross.offered_bytes && cross.mean_s.is_some_and(|s| s > 0.05), "{cross:?}");
    let (lost, gained) = (down(&alone) - down(&among), cross.goodput_bps);
    assert!((lost / gained - 1.0).abs() < 0.3, "{lost} {gained}");
    // Only the Experiment's own flows have rows of their own.
    assert!(among.tables.samples.flow.iter().all(|&flow| flow < 3));
    assert!(among.tables.events.flow.iter().all(|&flow| flow < 3));
    let links: BTreeSet<i64> = among.tables.links.flow.iter().copied().collect();
    assert_eq!(links, [-2, -1, 0, 1, 2].into());
    assert!(alone.summary.cross.is_empty());
}

#[test]
fn cross_traffic_is_the_same_twice_and_however_the_run_is_sliced() {
    let path = handover_path(20, 1_000_000);
    let once = run(crowded(12), &path).content_hash();
    assert_eq!(once, run(crowded(12), &path).content_hash());
    assert_eq!(once, run_in_slices(crowded(12), &path, Nanos::from_millis(37)).content_hash());
}

#[test]
fn cross_traffic_that_cannot_be_is_refused_with_its_field() {
    let refused = |change: fn(&mut CrossTraffic)| {
        let mut e = crowded(12);
        change(&mut e.cross[0]);
        Simulation::new(e, vec![handover_path(20, 0)]).err().expect("must be refused").to_string()
    };
    assert!(refused(|c| c.profile = "elsewhere".to_owned()).starts_with("experiment: cross[0].profile: elsewhere"));
    assert!(refused(|c| c.offered_bps = Rate(u64::MAX)).contains("a million"));
    assert!(refused(|c| c.sizes.least_bytes = Bytes(0)).contains("cross[0].sizes"));
    assert!(refused(|c| c.controller = "qubic".to_owned()).contains("did you mean `cubic`"));
}
