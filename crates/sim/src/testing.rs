//! Paths and Experiments for this crate's tests.

use bentpipe_profile::app::AppSpec;
use bentpipe_profile::experiment::{EcnMode, Experiment, FlowSpec, HostTiming, ProfileRef};
use bentpipe_profile::{
    Basis, Direction, Event, EventKind, Fate, Hop, HopDirection, InFlightFate, Nanos, OrderFate, Profile, Provenance, QueueDiscipline,
    QueueFate, QueueLimit, QueueSpec, RouteEntry, Series, Time, Utc,
};
use bentpipe_transport::{Segment, SegmentEcn};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A segment of MSS bytes at `seq`.
pub fn segment(seq: u64) -> Segment {
    Segment {
        seq,
        len: 1448,
        syn: false,
        fin: false,
        push: false,
        retransmission: false,
        tsval: Time::ZERO,
        ts_ecr: Time::ZERO,
        ecn: SegmentEcn::default(),
    }
}

/// One direction of a hop: one-way delay [ms], rate [Mbit/s], a queue of 100 packets, loss [1e-9].
pub fn side(delay_ms: u64, mbps: u64, loss: u64) -> HopDirection {
    HopDirection {
        delay: Series::constant(delay_ms * 1_000_000),
        capacity: Some(Series::constant(mbps * 1_000_000)),
        loss: (loss > 0).then(|| Series::constant(loss)),
        jitter: None,
        queue: QueueSpec { discipline: QueueDiscipline::DropTail, limit: QueueLimit::Packets(100) },
    }
}

/// Two satellites and a wire, with a handover at 5 s: a 50 ms interruption that drops packets in flight.
pub fn handover_path(duration_s: u64, loss: u64) -> Arc<Profile> {
    let hop = |name: &str, s: &HopDirection| Hop { name: name.to_owned(), shared_id: None, up: s.clone(), down: s.clone() };
    let fate = Fate { queue: QueueFate::Keep, in_flight: InFlightFate::Drop, order: OrderFate::Allow };
    let at_ns = Time(5_000_000_000);
    let handover = Event {
        at_ns,
        interruption_ns: Nanos::from_millis(50),
        hop: 0,
        kind: EventKind::Handover {
            from_satellite: Some("a".to_owned()),
            to_satellite: Some("b".to_owned()),
            from_gateway: None,
            to_gateway: None,
            to_hop: 1,
        },
        up: fate,
        down: fate,
    };
    let provenance = Provenance {
        kind: "preset".to_owned(),
        description: "test".to_owned(),
        made_by: "test".to_owned(),
        seed: None,
        includes: Vec::new(),
        recipe: serde_json::Value::Null,
    };
    let wire = HopDirection { capacity: None, ..side(10, 1, 0) };
    let profile = Profile::new(
        "handover".to_owned(),
        Utc(0),
        Nanos::from_secs(duration_s),
        Basis::OneWay,
        provenance,
        vec![hop("sat:a", &side(5, 20, loss)), hop("sat:b", &side(9, 30, loss)), hop("wire", &wire)],
        vec![RouteEntry { at_ns: Time::ZERO, hops: vec![0, 2] }, RouteEntry { at_ns, hops: vec![1, 2] }],
        vec![handover],
    );
    Arc::new(profile.expect("the test path is valid"))
}

/// The first satellite and the wire of [`handover_path`], without a route from `from_s` to `to_s`, and with these events.
pub fn interrupted_path(duration_s: u64, [from_s, to_s]: [u64; 2], events: Vec<Event>) -> Arc<Profile> {
    let path = handover_path(duration_s, 0);
    let routes = [(0, vec![0, 2]), (from_s, vec![]), (to_s, vec![0, 2])];
    let interrupted = Profile::new(
        "interrupted".to_owned(),
        path.start(),
        path.duration(),
        path.basis(),
        path.provenance().clone(),
        path.hops().to_vec(),
        routes.map(|(s, hops)| RouteEntry { at_ns: Time(s * 1_000_000_000), hops }).to_vec(),
        events,
    );
    Arc::new(interrupted.expect("the test path is valid"))
}

/// An outage of the first hop from `from_s` to `to_s`.
pub fn outage([from_s, to_s]: [u64; 2]) -> Event {
    Event {
        at_ns: Time(from_s * 1_000_000_000),
        interruption_ns: Nanos::from_secs(to_s - from_s),
        hop: 0,
        kind: EventKind::Outage,
        up: Fate::LOSSLESS,
        down: Fate::LOSSLESS,
    }
}

/// A flow with default hosts, from the start of the run to its end.
pub fn flow(controller: &str, direction: Direction, app: AppSpec) -> FlowSpec {
    FlowSpec {
        profile: "path".to_owned(),
        direction,
        controller: controller.to_owned(),
        options: BTreeMap::new(),
        start_ns: Time::ZERO,
        stop_ns: None,
        app,
        sender: None,
        receiver: None,
        ecn: EcnMode::Off,
    }
}

/// An Experiment with these flows on one path.
pub fn experiment(duration_s: u64, seed: u64, flows: Vec<FlowSpec>) -> Experiment {
    Experiment {
        name: "test".to_owned(),
        seed,
        duration_ns: Nanos::from_secs(duration_s),
        warmup_ns: Nanos::from_secs(1),
        sample_step_ns: Nanos::from_millis(100),
        offset_ns: Nanos::ZERO,
        profiles: vec![ProfileRef { role: "path".to_owned(), name: "handover".to_owned(), hash: String::new(), network: None }],
        host_timing: HostTiming::default(),
        hosts: BTreeMap::new(),
        flows,
        queues: Vec::new(),
        cross: Vec::new(),
        pings: Vec::new(),
        test: None,
        recovery: None,
    }
}
