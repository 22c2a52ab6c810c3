//! Properties that hold for any network and any traffic.

mod ahead;
mod ends;
mod gateways;
mod outages;
mod recovery;
mod sent;
mod shared;
mod stops;

use crate::*;
use bentpipe_profile::*;
use proptest::prelude::*;

const MS: u64 = 1_000_000;

fn tail(limit: QueueLimit) -> QueueSpec {
    QueueSpec { discipline: QueueDiscipline::DropTail, limit }
}

fn side(delay_ms: &[u64], mbps: &[u64], loss: u64, jitter: bool, queue: QueueSpec) -> HopDirection {
    let points =
        |scale: u64, values: &[u64]| values.iter().enumerate().map(|(i, v)| (Time(i as u64 * 40 * MS), v * scale)).collect::<Vec<_>>();
    let closures: Vec<_> = (1..200).map(|k| (Time(k * 4 * MS), Nanos((k * 7919) % (4 * MS)))).collect();
    HopDirection {
        delay: Series::linear("d", &points(MS, delay_ms)).unwrap(),
        capacity: (!mbps.is_empty()).then(|| Series::steps("c", &points(1_000_000, mbps)).unwrap()),
        loss: (loss > 0).then(|| Series::constant(loss)),
        jitter: jitter.then(|| JitterSeries::new("j", &closures).unwrap()),
        queue,
    }
}

fn profile(hops: Vec<Hop>, routes: Vec<RouteEntry>, events: Vec<Event>) -> Profile {
    let provenance = Provenance {
        kind: "preset".to_owned(),
        description: String::new(),
        made_by: String::new(),
        seed: None,
        includes: vec![],
        recipe: ().into(),
    };
    Profile::new("p".to_owned(), Utc(0), Nanos::from_secs(10), Basis::OneWay, provenance, hops, routes, events).unwrap()
}

/// Build the network of these Profiles.
fn network_of(profiles: &[&Profile]) -> Network {
    Network::new(&NetworkSpec::from_profiles(profiles).unwrap(), Streams::new(1)).unwrap()
}

fn hop(name: &str, side: &HopDirection) -> Hop {
    Hop { name: name.to_owned(), shared_id: None, up: side.clone(), down: side.clone() }
}

/// Return whether the packet's transport supports ECN: every other pair of packets.
const fn supports_ecn(body: u32) -> bool {
    (body / 2).is_multiple_of(2)
}

/// Send `(time, bytes)` in both directions and run the network until it is empty, waking `late` after each due time.
fn drive(network: &mut Network, sends: &[(u64, u32)], late: u64) -> Vec<(Outcome, Packet)> {
    let mut out = Vec::new();
    let mut sends: Vec<_> = sends.to_vec();
    sends.sort_unstable();
    for (body, &(at, bytes)) in sends.iter().enumerate() {
        network.run_until(Time(at), &mut out);
        let direction = if body % 3 == 0 { Direction::Up } else { Direction::Down };
        let mut packet = Packet::new(Time(at), 0, direction, u32::try_from(body % 2).unwrap(), bytes, u32::try_from(body).unwrap());
        packet.ecn = if supports_ecn(packet.body) { Ecn::Ect } else { Ecn::NotEct };
        if let Err(packet) = network.send(packet) {
            out.push((Outcome::Dropped(DropCause::NoRoute), packet));
        }
    }
    while let Some(at) = network.wake_at() {
        network.run_until(Time(at.0 + late), &mut out);
    }
    out
}

fn two_hop_handover(fate: Fate, interruption_ms: u64, limit: QueueSpec, loss: u64) -> Profile {
    let near = side(&[5, 9, 3, 8], &[10, 2, 0, 20], loss, true, limit);
    let far = side(&[2, 1], &[8, 30], 0, false, limit);
    let wire = side(&[10], &[], 0, false, limit);
    let at = 100 * MS;
    let handover = Event {
        at_ns: Time(at),
        interruption_ns: Nanos::from_millis(interruption_ms),
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
    let outage = Event {
        at_ns: Time(at + 60 * MS),
        interruption_ns: Nanos::from_millis(20),
        hop: 1,
        kind: EventKind::Outage,
        up: Fate { queue: QueueFate::Keep, ..fate },
        down: Fate { queue: QueueFate::Keep, ..fate },
    };
    profile(
        vec![hop("sat:a", &near), hop("sat:b", &far), hop("wire", &wire)],
        vec![RouteEntry { at_ns: Time(0), hops: vec![0, 2] }, RouteEntry { at_ns: Time(at), hops: vec![1, 2] }],
        vec![handover, outage],
    )
}

/// Build handovers between two satellites of 10 Mbit/s and different delay. `gaps`: time to the next handover and its interruption [ms].
fn back_and_forth(gaps: &[(u64, u64)], migrates: bool, limit: QueueSpec) -> Profile {
    let (near, far) = (side(&[4], &[10], 0, true, limit), side(&[25], &[10], 0, true, limit));
    let (mut routes, mut events) = (vec![RouteEntry { at_ns: Time(0), hops: vec![0] }], Vec::new());
    let (mut at, mut hop) = (0, 0);
    for &(gap, interruption_ms) in gaps {
        at += gap * MS;
        let to_hop = 1 - hop;
        let migration = Migration { to_hop, delay_ns: Nanos::ZERO, rate_bps: Rate::from_mbps(100_000) };
        let queue = if migrates { QueueFate::Migrate(migration) } else { QueueFate::Keep };
        let fate = Fate { queue, in_flight: InFlightFate::Deliver, order: OrderFate::Clamp };
        events.push(Event {
            at_ns: Time(at),
            // A queue that is kept drains as predicted at the handover: no interruption comes after it.
            interruption_ns: Nanos::from_millis(if migrates { interruption_ms } else { 0 }),
            hop,
            kind: EventKind::Handover { from_satellite: None, to_satellite: None, from_gateway: None, to_gateway: None, to_hop },
            up: fate,
            down: fate,
        });
        routes.push(RouteEntry { at_ns: Time(at), hops: vec![to_hop] });
        hop = to_hop;
    }
    profile(vec![crate::properties::hop("sat:a", &near), crate::properties::hop("sat:b", &far)], routes, events)
}

/// The transmission of one packet ends at the handover; another waits behind it and migrates. It must not overtake on the shorter path.
#[test]
fn a_packet_sent_at_the_instant_of_a_handover_is_not_overtaken() {
    let p = back_and_forth(&[(10, 5), (100, 5)], true, tail(QueueLimit::Packets(10)));
    let mut network = network_of(&[&p]);
    let mut out = Vec::new();
    for (body, at) in [(0, 109 * MS), (1, 109 * MS + MS / 2)] {
        network.run_until(Time(at), &mut out);
        network.send(Packet::new(Time(at), 0, Direction::Down, 0, 1250, body)).unwrap();
    }
    while let Some(at) = network.wake_at() {
        network.run_until(at, &mut out);
    }
    let order: Vec<_> = out.iter().map(|(outcome, packet)| (*outcome, packet.body)).collect();
    assert_eq!(order, [(Outcome::Delivered, 0), (Outcome::Delivered, 1)]);
}

fn any_fate() -> impl Strategy<Value = Fate> {
    let queue = prop_oneof![
        Just(QueueFate::Keep),
        Just(QueueFate::Drop),
        Just(QueueFate::Migrate(Migration { to_hop: 1, delay_ns: Nanos::from_millis(7), rate_bps: Rate::from_mbps(50) })),
    ];
    let flight = prop_oneof![Just(InFlightFate::Deliver), Just(InFlightFate::Drop)];
    let order = prop_oneof![Just(OrderFate::Allow), Just(OrderFate::Clamp)];
    (queue, flight, order).prop_map(|(queue, in_flight, order)| Fate { queue, in_flight, order })
}

fn limits() -> impl Strategy<Value = QueueLimit> {
    prop_oneof![
        (1_u64..50).prop_map(QueueLimit::Packets),
        (1500_u64..60_000).prop_map(|b| QueueLimit::Bytes(Bytes(b))),
        (1_u64..80).prop_map(|ms| QueueLimit::TimeNs(Nanos::from_millis(ms))),
    ]
}

/// Return the groups of packets that keep their order: all of a direction, or those of each flow if flows have separate queues.
fn ordered_groups(queue: QueueSpec) -> Vec<(Direction, Option<u32>)> {
    let flows = if matches!(queue.discipline, QueueDiscipline::FqCodel(_)) { vec![Some(0), Some(1)] } else { vec![None] };
    Direction::BOTH.into_iter().flat_map(|direction| flows.iter().map(move |&flow| (direction, flow))).collect()
}

/// Generate queues of any discipline. A few hundred packets reach their limits, thresholds and waiting times.
fn queues() -> impl Strategy<Value = QueueSpec> {
    let codel = || {
        (1_u64..20, 0_u64..40, any::<bool>()).prop_map(|(target_ms, more_ms, ecn)| Codel {
            target_ns: Nanos::from_millis(target_ms),
            interval_ns: Nanos::from_millis(target_ms + more_ms),
            ecn,
        })
    };
    let red = (1_u64..20, 1_u64..40, 1_u64..1_000_000_000, 0_u32..10, any::<bool>(), any::<bool>()).prop_map(
        |(min, more, max_probability_ppb, weight_log, ecn, in_time)| {
            let at = |n: u64| if in_time { QueueLimit::TimeNs(Nanos::from_millis(n)) } else { QueueLimit::Bytes(Bytes(n * 1500)) };
            Red { min: at(min), max: at(min + more), max_probability_ppb, weight_log, ecn }
        },
    );
    let discipline = prop_oneof![
        2 => Just(QueueDiscipline::DropTail),
        2 => codel().prop_map(QueueDiscipline::Codel),
        2 => (codel(), 1_u32..4, 64_u32..4000).prop_map(|(codel, flows, quantum_bytes)| QueueDiscipline::FqCodel(FqCodel { codel, flows, quantum_bytes })),
        1 => red.prop_map(QueueDiscipline::Red),
        1 => limits().prop_map(|threshold| QueueDiscipline::Step(Step { threshold })),
    ];
    (discipline, limits()).prop_map(|(discipline, limit)| QueueSpec { discipline, limit })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_packet_leaves_exactly_once(
        fate in any_fate(), limit in queues(), loss in 0_u64..200_000_000, gap in 0_u64..60,
        sends in prop::collection::vec((0_u64..300 * MS, 60_u32..1500), 1..400),
    ) {
        let p = two_hop_handover(fate, gap, limit, loss);
        let mut network = network_of(&[&p]);
        let out = drive(&mut network, &sends, 0);
        let mut bodies: Vec<_> = out.iter().map(|(_, p)| p.body).collect();
        bodies.sort_unstable();
        prop_assert_eq!(bodies, (0..u32::try_from(sends.len()).unwrap()).collect::<Vec<_>>());
        prop_assert_eq!(network.packets(), 0);
        prop_assert!(out.iter().all(|(_, p)| p.at >= p.entered));
    }

    /// No packet overtakes another of its flow within a hop, and with `Clamp` none does across a handover.
    #[test]
    fn clamped_paths_never_reorder(
        limit in queues(), in_flight in prop_oneof![Just(InFlightFate::Deliver), Just(InFlightFate::Drop)], gap in 0_u64..60,
        sends in prop::collection::vec((0_u64..300 * MS, 60_u32..1500), 1..400),
    ) {
        let fate = Fate { queue: QueueFate::Keep, in_flight, order: OrderFate::Clamp };
        let p = two_hop_handover(fate, gap, limit, 0);
        let mut network = network_of(&[&p]);
        let out = drive(&mut network, &sends, 0);
        for (direction, flow) in ordered_groups(limit) {
            let mine = |p: &Packet| p.direction == direction && flow.is_none_or(|flow| flow == p.flow);
            let order: Vec<_> = out.iter().filter(|(o, p)| *o == Outcome::Delivered && mine(p)).map(|(_, p)| p.body).collect();
            prop_assert!(order.is_sorted(), "{order:?}");
        }
    }

    /// The same for any sequence of handovers, and no packet stays inside.
    #[test]
    fn any_sequence_of_clamped_handovers_keeps_order(
        gaps in prop::collection::vec((1_u64..120, 0_u64..90), 1..8), migrates in any::<bool>(), limit in queues(),
        sends in prop::collection::vec((0_u64..300 * MS, 60_u32..1500), 1..400),
    ) {
        let p = back_and_forth(&gaps, migrates, limit);
        let mut network = network_of(&[&p]);
        let out = drive(&mut network, &sends, 0);
        prop_assert_eq!(network.packets(), 0);
        prop_assert_eq!(out.len(), sends.len());
        for (direction, flow) in ordered_groups(limit) {
            let mine = |p: &Packet| p.direction == direction && flow.is_none_or(|flow| flow == p.flow);
            let order: Vec<_> = out.iter().filter(|(o, p)| *o == Outcome::Delivered && mine(p)).map(|(_, p)| p.body).collect();
            prop_assert!(order.is_sorted(), "{order:?}");
        }
    }

    /// Over handovers that migrate the queue, the hops in use send no more than their capacity outside interruptions.
    #[test]
    fn handovers_do_not_add_capacity(gaps in prop::collection::vec((20_u64..120, 5_u64..90), 1..8), n in 100_u64..600) {
        let p = back_and_forth(&gaps, true, tail(QueueLimit::Packets(10_000)));
        let mut network = network_of(&[&p]);
        for body in 0..n {
            network.send(Packet::new(Time(0), 0, Direction::Down, 0, 1500, u32::try_from(body).unwrap())).unwrap();
        }
        let mut out = Vec::new();
        while let Some(at) = network.wake_at() {
            network.run_until(at, &mut out);
        }
        prop_assert_eq!(out.iter().filter(|(o, _)| *o == Outcome::Delivered).count() as u64, n);
        let closed: u64 = gaps.iter().map(|g| g.1).sum();
        let last = out.iter().map(|(_, p)| p.at.0).max().unwrap();
        // Both hops send 10 Mbit/s: 1.2 ms a packet. Interruptions that end before the last packet delay it; an overlap counts once.
        prop_assert!(last >= n * 1_200_000, "{last}");
        prop_assert!(last <= n * 1_200_000 + (closed + 30) * MS + 8 * 1_200_000, "{last}");
    }

    /// A driver that wakes up late changes no result: decisions depend on logical time alone.
    #[test]
    fn lateness_changes_nothing(
        fate in any_fate(), limit in queues(), late in 1_u64..5 * MS,
        sends in prop::collection::vec((0_u64..90 * MS, 60_u32..1500), 1..200),
    ) {
        let p = two_hop_handover(fate, 10, limit, 50_000_000);
        let run = |late| {
            let mut network = network_of(&[&p]);
            let mut out = drive(&mut network, &sends, late);
            out.sort_by_key(|(_, p)| p.body);
            out
        };
        prop_assert_eq!(run(0), run(late));
    }

    /// Only ECT packets are marked, each at most once. Every mark is counted for its flow at the hop that made it.
    #[test]
    fn marks_are_counted_once_and_only_on_ect_packets(
        fate in any_fate(), queue in queues(), sends in prop::collection::vec((0_u64..300 * MS, 60_u32..1500), 1..400),
    ) {
        let p = two_hop_handover(fate, 10, queue, 50_000_000);
        let mut network = network_of(&[&p]);
        let out = drive(&mut network, &sends, 0);
        for flow in 0..2 {
            let marked = out.iter().filter(|(_, p)| p.flow == flow && p.ecn == Ecn::Ce).count() as u64;
            let mut counted = 0;
            for (hop, direction) in (0..3).flat_map(|hop| Direction::BOTH.map(|d| (hop, d))) {
                let marks = network.stats_mut(0, hop, direction).flows().find(|(number, _)| *number == flow).map(|(_, stats)| stats.marks).unwrap_or_default();
                counted += MarkCause::ALL.iter().map(|&cause| marks.of(cause)).sum::<u64>();
            }
            prop_assert_eq!(marked, counted);
        }
        prop_assert!(out.iter().all(|(_, p)| p.ecn == Ecn::NotEct || supports_ecn(p.body)));
    }

    /// The stages of a packet add up to its time in the network, and recording them changes no result.
    #[test]
    fn stages_add_up_to_the_time_inside(
        fate in any_fate(), limit in queues(), gap in 0_u64..60, late in 0_u64..5 * MS,
        sends in prop::collection::vec((0_u64..300 * MS, 60_u32..1500), 1..300),
    ) {
        let p = two_hop_handover(fate, gap, limit, 50_000_000);
        let unrecorded = drive(&mut network_of(&[&p]), &sends, late);
        let mut network = network_of(&[&p]);
        network.record_stages();
        let out = drive(&mut network, &sends, late);
        prop_assert_eq!(&unrecorded, &out);
        let stages: Vec<_> = network.take_stages().collect();
        for (outcome, packet) in &out {
            let mine: Vec<_> = stages.iter().filter(|stage| stage.body == packet.body).collect();
            let last = mine.last().map_or(packet.entered, |stage| stage.until);
            prop_assert_eq!(last, packet.at, "{:?} {:?}", outcome, mine);
            prop_assert!(mine.iter().all(|stage| stage.until >= packet.entered));
            prop_assert!(mine.is_sorted_by_key(|stage| stage.until), "{:?}", mine);
        }
        prop_assert_eq!(network.take_stages().count(), 0);
    }

    /// While a hop is busy it sends exactly at its capacity.
    #[test]
    fn a_busy_hop_sends_exactly_at_its_capacity(bytes in 60_u32..1500, n in 50_u64..400) {
        let only = side(&[0], &[7], 0, false, tail(QueueLimit::Packets(10_000)));
        let p = profile(vec![hop("h", &only)], vec![RouteEntry { at_ns: Time(0), hops: vec![0] }], vec![]);
        let mut network = network_of(&[&p]);
        let mut out = Vec::new();
        for body in 0..n {
            network.send(Packet::new(Time(0), 0, Direction::Down, 0, bytes, u32::try_from(body).unwrap())).unwrap();
        }
        while let Some(at) = network.wake_at() {
            network.run_until(at, &mut out);
        }
        let last = out.last().unwrap().1.at.0;
        let exact = n * u64::from(bytes) * 8 * 1_000_000_000 / 7_000_000;
        prop_assert!(last.abs_diff(exact) <= 1, "{last} {exact}");
    }
}

#[test]
fn profiles_that_share_a_hop_share_its_queue() {
    let fast = side(&[1], &[10], 0, false, tail(QueueLimit::Packets(5)));
    let mut slow = fast.clone();
    slow.delay = Series::constant(50 * MS);
    let shared = |s: &HopDirection| Hop { shared_id: Some("beam".to_owned()), ..hop("h", s) };
    let route = || vec![RouteEntry { at_ns: Time(0), hops: vec![0] }];
    let (a, b) = (profile(vec![shared(&fast)], route(), vec![]), profile(vec![shared(&slow)], route(), vec![]));
    let mut network = network_of(&[&a, &b]);
    for body in 0..20 {
        network.send(Packet::new(Time(0), body % 2, Direction::Down, 0, 1500, body)).unwrap();
    }
    let mut out = Vec::new();
    while let Some(at) = network.wake_at() {
        network.run_until(at, &mut out);
    }
    let delivered: Vec<_> = out.iter().filter(|(o, _)| *o == Outcome::Delivered).collect();
    // One packet in transmission and five waiting, of either Profile. Each Profile keeps its own delay.
    assert_eq!(delivered.len(), 6);
    for (_, p) in delivered {
        let sent = 1_200_000 * (u64::from(p.body) + 1);
        assert_eq!(p.at.0, sent + if p.path == 0 { MS } else { 50 * MS });
    }
}

/// Two packets arrive at once and take 1 ms each at 12 Mbit/s. The second waits for the first. Both propagate 10 ms, then over a wire without a queue.
#[test]
fn stages_separate_queueing_transmission_and_propagation() {
    use crate::stages::Part::{Propagation, Queue, Transmission};
    let (air, wire) = (side(&[10], &[12], 0, false, tail(QueueLimit::Packets(9))), side(&[3], &[], 0, false, tail(QueueLimit::Packets(9))));
    let p = profile(vec![hop("air", &air), hop("wire", &wire)], vec![RouteEntry { at_ns: Time(0), hops: vec![0, 1] }], vec![]);
    let mut network = network_of(&[&p]);
    network.record_stages();
    for body in 0..2 {
        network.send(Packet::new(Time(0), 0, Direction::Up, 0, 1500, body)).unwrap();
    }
    let mut out = Vec::new();
    while let Some(at) = network.wake_at() {
        network.run_until(at, &mut out);
    }
    let second: Vec<_> = network.take_stages().filter(|s| s.body == 1).map(|s| (s.position, s.part, s.until.0 / MS)).collect();
    assert_eq!(second, [(0, Queue, 1), (0, Transmission, 2), (0, Propagation, 12), (1, Propagation, 15)]);
}

/// A burst that begins and ends within a window appears in its peak backlog, and in no other window's.
#[test]
fn the_peak_backlog_of_each_window_is_recorded() {
    let air = side(&[10], &[12], 0, false, tail(QueueLimit::Packets(9)));
    let p = profile(vec![hop("air", &air)], vec![RouteEntry { at_ns: Time(0), hops: vec![0] }], vec![]);
    let mut network = network_of(&[&p]);
    let (mut out, mut links) = (Vec::new(), bentpipe_profile::run::Links::default());
    for body in 0..6 {
        network.send(Packet::new(Time(0), 0, Direction::Up, 0, 1500, body)).unwrap();
    }
    for window in 1..=3 {
        let at = Time(window * windows::LINK_WINDOW.0);
        if window == 3 {
            network.run_until(Time(at.0 - 3 * MS / 2), &mut out);
            (0..3).for_each(|body| network.send(Packet::new(Time(at.0 - 3 * MS / 2), 0, Direction::Up, 0, 1500, body)).unwrap());
        }
        network.run_until(at, &mut out);
        windows::record_window(&mut network, 0, &p, "path", at, window as f64, &mut links);
        network.begin_window();
    }
    let up: Vec<_> = (0..links.t_s.len()).filter(|&i| links.direction[i] == "up" && links.flow[i] < 0).collect();
    // One packet is in transmission. At the end of the third window one of three has left and one is in transmission.
    assert_eq!(up.iter().map(|&i| links.backlog_max_bytes[i]).collect::<Vec<_>>(), [5 * 1500, 0, 2 * 1500]);
    assert_eq!(up.iter().map(|&i| links.backlog_bytes[i]).collect::<Vec<_>>(), [0, 0, 1500]);
}

#[test]
fn packets_sent_without_a_route_are_dropped_and_counted() {
    let only = side(&[1], &[], 0, false, tail(QueueLimit::Packets(5)));
    let routes = vec![RouteEntry { at_ns: Time(0), hops: vec![] }, RouteEntry { at_ns: Time(MS), hops: vec![0] }];
    let p = profile(vec![hop("h", &only)], routes, vec![]);
    let mut network = network_of(&[&p]);
    let out = drive(&mut network, &[(0, 100), (2 * MS, 100)], 0);
    assert_eq!(out.iter().map(|(o, _)| *o).collect::<Vec<_>>(), [Outcome::Dropped(DropCause::NoRoute), Outcome::Delivered]);
    assert_eq!(network.no_route_drops(0, Direction::Up), 1);
    let mut links = bentpipe_profile::run::Links::default();
    windows::record_window(&mut network, 0, &p, "path", Time(windows::LINK_WINDOW.0), 1.0, &mut links);
    let row = links.hop.iter().position(|hop| hop == bentpipe_profile::run::NO_ROUTE).unwrap();
    assert_eq!((links.direction[row].as_str(), links.drops_no_route[row]), ("up", 1));
    assert_eq!(links.drops_no_route.iter().sum::<u64>(), 1);
    for (name, column) in links.columns() {
        use bentpipe_profile::run::Column;
        let rows = match column {
            Column::F64(values) => values.len(),
            Column::U64(values) => values.len(),
            Column::I64(values) => values.len(),
            Column::Text(values) => values.len(),
        };
        assert_eq!(rows, links.t_s.len(), "{name}");
    }
}

#[test]
fn a_migrating_queue_is_not_tail_dropped() {
    for limit in [QueueLimit::Packets(20), QueueLimit::Bytes(Bytes(30_000)), QueueLimit::TimeNs(Nanos::from_millis(24))] {
        let p = back_and_forth(&[(5, 50)], true, tail(limit));
        let mut network = network_of(&[&p]);
        // One packet in transmission and twenty waiting before the handover; twenty more arrive after it at the new hop's queue.
        let sends: Vec<_> = (0..21).map(|i| (i, 1500)).chain((0..20).map(|i| (6 * MS + i, 1500))).collect();
        let mut out = Vec::new();
        for (body, &(at, bytes)) in sends.iter().enumerate() {
            network.run_until(Time(at), &mut out);
            network.send(Packet::new(Time(at), 0, Direction::Down, 0, bytes, u32::try_from(body).unwrap())).unwrap();
        }
        while let Some(at) = network.wake_at() {
            network.run_until(at, &mut out);
        }
        let lost: Vec<_> = out.iter().filter(|(o, _)| *o != Outcome::Delivered).map(|(o, p)| (*o, p.body)).collect();
        assert!(lost.iter().all(|(_, body)| *body >= 21), "{lost:?}");
    }
}
