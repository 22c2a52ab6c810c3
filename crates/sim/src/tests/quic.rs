//! Pages over QUIC.

use super::{experiment, flow, handover_path, interrupted_path, outage, run};
use bentpipe_profile::app::{AppSpec, HttpVersion, WebObject};
use bentpipe_profile::experiment::{Experiment, FlowSpec, RecoverySpec};
use bentpipe_profile::{Bytes, Direction, Nanos};
use std::collections::BTreeMap;

fn object(host: u32, bytes: u64, after: Option<usize>) -> WebObject {
    WebObject { host, request_bytes: Bytes(400), response_bytes: Bytes(bytes), after, compute_ns: Nanos(0) }
}

/// A document, and twelve objects of two hosts that it leads to; loaded `loads` times.
fn page(http: HttpVersion, loads: u64) -> FlowSpec {
    let objects = (0..12).map(|number| object(number % 2, 40_000, Some(0)));
    let objects = std::iter::once(object(0, 20_000, None)).chain(objects).collect();
    flow("cubic", Direction::Down, AppSpec::Web { objects, http, loads: Some(loads), pause_ns: Nanos::from_millis(100) })
}

fn of_page(seconds: u64, loads: u64) -> Experiment {
    experiment(seconds, 1, vec![page(HttpVersion::Three, loads)])
}

#[test]
fn a_page_over_http_3_needs_one_rtt_less_than_over_http_2() {
    let path = handover_path(10, 0);
    let [two, three] = [HttpVersion::Two, HttpVersion::Three].map(|http| {
        // One object alone: the connection, the request, the answer.
        let object = AppSpec::Web { objects: vec![object(0, 900, None)], http, loads: Some(1), pause_ns: Nanos(0) };
        let data = run(experiment(4, 1, vec![flow("cubic", Direction::Down, object)]), &path);
        data.summary.flows[0].completed_s.expect("the page is loaded")
    });
    // The RTT is 30 ms: TCP's handshake, TLS's and the request; QUIC's handshake and the request.
    assert!((0.090..0.096).contains(&two), "{two}");
    assert!((0.060..0.066).contains(&three), "{three}");
}

#[test]
fn losses_are_visible_in_the_tables_and_every_object_arrives() {
    let path = handover_path(20, 20_000_000);
    let data = run(of_page(20, 20), &path);
    let flow = &data.summary.flows[0];
    assert!(flow.completed_s.is_some(), "all loads are complete");
    let bytes = 20 * (20_000 + 12 * 40_000);
    assert_eq!(data.tables.samples.goodput_bytes.last().copied(), Some(bytes), "each byte once");
    assert!(flow.losses > 50 && flow.retransmits > 50, "{flow:?}");
    let table = &data.tables.applications;
    assert_eq!(table.flow.len(), 20 * 14);
    let kinds: Vec<&str> = data.tables.events.kind.iter().map(AsRef::as_ref).collect();
    assert!(kinds.contains(&"established") && kinds.contains(&"recovery_entered"));
}

#[test]
fn the_same_page_gives_the_same_run_and_another_seed_another() {
    let path = handover_path(8, 20_000_000);
    let hash = |seed| run(experiment(8, seed, vec![page(HttpVersion::Three, 5)]), &path).content_hash();
    assert_eq!(hash(1), hash(1));
    assert_ne!(hash(1), hash(2));
}

#[test]
fn pages_share_a_path_with_a_bulk_flow_and_survive_an_outage() {
    let path = interrupted_path(12, [10, 11], vec![outage([1, 2])]);
    let flows = vec![flow("bbr", Direction::Down, AppSpec::Bulk), page(HttpVersion::Three, 3)];
    let data = run(experiment(12, 1, flows), &path);
    assert!(data.summary.flows[1].completed_s.is_some());
    let down = data.summary.flows.iter().map(|flow| flow.goodput_bps).sum::<f64>();
    assert!(down < 20e6, "{down}");
}

#[test]
fn recovery_inside_the_network_takes_packets_of_quic_like_any_others() {
    let path = handover_path(20, 20_000_000);
    let [none, satguard, tambur, mpep] = ["none", "satguard", "tambur", "mpep"].map(|scheme| {
        let recovery = Some(RecoverySpec { scheme: scheme.to_owned(), options: BTreeMap::new() });
        let data = run(Experiment { recovery, ..of_page(20, 20) }, &path);
        let flow = data.summary.flows[0].clone();
        assert!(flow.completed_s.is_some(), "{scheme}: all loads are complete");
        let [p50, p99] = [flow.owd_p50_ms, flow.owd_p99_ms].map(|ms| ms.expect("data arrived"));
        assert!((15.0..60.0).contains(&p50) && p50 <= p99, "{scheme}: {p50}, {p99}");
        (flow.losses, data.summary.recovery.expect("a Run with recovery").overhead)
    });
    assert!(satguard.0 < none.0 / 4, "it repairs what QUIC would: {} of {}", satguard.0, none.0);
    let decoded = tambur.1.iter().find(|(name, _)| *name == "decoded").expect("this counter exists").1;
    assert!(*decoded > 20, "{decoded}");
    assert!(mpep.0 > none.0 / 2, "proxies cannot split it: {} of {}", mpep.0, none.0);
}
