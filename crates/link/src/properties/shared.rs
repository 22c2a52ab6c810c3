//! Properties of links and queues that several paths use.

use super::{MS, hop, network_of, profile, queues, side, tail};
use crate::*;
use bentpipe_profile::*;
use proptest::prelude::*;

fn route(at_ms: u64, hops: &[usize]) -> RouteEntry {
    RouteEntry { at_ns: Time(at_ms * MS), hops: hops.to_vec() }
}

fn event(at_ms: u64, hop: usize, to_hop: Option<usize>, interruption_ms: u64, fate: Fate) -> Event {
    let handover = |to_hop| EventKind::Handover { from_satellite: None, to_satellite: None, from_gateway: None, to_gateway: None, to_hop };
    let interruption_ns = Nanos::from_millis(interruption_ms);
    Event { at_ns: Time(at_ms * MS), interruption_ns, hop, kind: to_hop.map_or(EventKind::Outage, handover), up: fate, down: fate }
}

fn fate(queue: QueueFate) -> Fate {
    Fate { queue, in_flight: InFlightFate::Deliver, order: OrderFate::Clamp }
}

fn migrate(to_hop: usize) -> Fate {
    fate(QueueFate::Migrate(Migration { to_hop, delay_ns: Nanos::from_millis(3), rate_bps: Rate::from_mbps(100) }))
}

/// Two terminals (a, b) and two satellites (0, 1), between which b is never handed over: terminal → satellite over a link of its own, satellite → gateway
/// over a link of 10 Mbit/s that both use. Path a takes satellite 1 from `at_ms` on. `link_events` strike the links satellite 0 → gateway and 1 → gateway.
fn two_users(at_ms: u64, handover: Fate, interruption_ms: u64, link_events: Vec<Event>, queue: QueueSpec) -> NetworkSpec {
    let (access, feeder) = (side(&[2], &[], 0, false, queue), side(&[5], &[10], 0, false, queue));
    let link = |name: &str, ends, side| LinkSpec { name: name.to_owned(), ends, hop: hop(name, side) };
    let topology = Topology {
        nodes: ["terminal:a", "terminal:b", "sat:0", "sat:1", "gateway"].map(str::to_owned).to_vec(),
        links: vec![
            link("feeder:0", [2, 4], &feeder),
            link("feeder:1", [3, 4], &feeder),
            link("a:0", [0, 2], &access),
            link("a:1", [0, 3], &access),
            link("b:0", [1, 2], &access),
            link("b:1", [1, 3], &access),
        ],
        events: link_events,
    };
    let path = |name: &str, end, links: [usize; 4], routes, events| Path {
        name: name.to_owned(),
        ends: [end, 4],
        hops: links.map(|link| PathHop { link, reversed: false }).to_vec(),
        routes,
        events,
    };
    let a = path(
        "a",
        0,
        [0, 1, 2, 3],
        vec![route(0, &[2, 0]), route(at_ms, &[3, 1])],
        vec![event(at_ms, 0, Some(1), interruption_ms, handover)],
    );
    let b = path("b", 1, [0, 1, 4, 5], vec![route(0, &[2, 0])], vec![]);
    let provenance = profile(vec![hop("h", &access)], vec![route(0, &[0])], vec![]).provenance().clone();
    NetworkSpec::new("n".to_owned(), Utc(0), Nanos::from_secs(10), Basis::OneWay, provenance, topology, vec![a, b]).unwrap()
}

/// Send `(time, path, direction)` packets of 1250 bytes (1 ms each at 10 Mbit/s), and run the network until it is empty.
fn outcomes(spec: &NetworkSpec, sends: &[(u64, u32, Direction)], late: u64) -> (Vec<(Outcome, Packet)>, Network) {
    let (mut network, mut out) = (Network::new(spec, Streams::new(1)).unwrap(), Vec::new());
    for (body, &(at, path, direction)) in (0..).zip(sends) {
        network.run_until(Time(at), &mut out);
        network.send(Packet::new(Time(at), path, direction, path, 1250, body)).unwrap();
    }
    while let Some(at) = network.wake_at() {
        network.run_until(Time(at.0 + late), &mut out);
    }
    (out, network)
}

/// Twenty packets at once from the gateway, alternately to a and b.
fn burst() -> Vec<(u64, u32, Direction)> {
    (0..20).map(|body| (0, body % 2, Direction::Down)).collect()
}

fn arrivals(out: &[(Outcome, Packet)], path: u32) -> Vec<(u32, u64)> {
    let mine = out.iter().filter(|(outcome, packet)| *outcome == Outcome::Delivered && packet.path == path);
    mine.map(|(_, packet)| (packet.body, packet.at.0 / MS)).collect()
}

#[test]
fn an_outage_of_a_shared_link_holds_the_packets_of_every_path() {
    let outage = event(4, 0, None, 100, fate(QueueFate::Keep));
    let spec = two_users(1000, fate(QueueFate::Keep), 0, vec![outage], tail(QueueLimit::Packets(100)));
    let (out, _) = outcomes(&spec, &burst(), 0);
    // Four packets leave before the outage, and one begins anew after it. All take 5 ms to the satellite and 2 ms to the terminal.
    assert_eq!(arrivals(&out, 0)[..3], [(0, 8), (2, 10), (4, 112)]);
    assert_eq!(arrivals(&out, 1)[..3], [(1, 9), (3, 11), (5, 113)]);
    assert_eq!(out.len(), 20);
}

#[test]
fn an_outage_of_a_shared_link_that_drops_its_queue_drops_the_packets_of_every_path() {
    let outage = event(4, 0, None, 100, fate(QueueFate::Drop));
    let spec = two_users(1000, fate(QueueFate::Keep), 0, vec![outage], tail(QueueLimit::Packets(100)));
    let (out, mut network) = outcomes(&spec, &burst(), 0);
    assert_eq!([0, 1].map(|path| arrivals(&out, path).len()), [2, 2]);
    assert_eq!([0, 1].map(|path| network.stats_mut(path, 0, Direction::Down).drops.of(DropCause::Event)), [8, 8]);
}

/// Return the network after changes to its links and paths.
fn changed(spec: &NetworkSpec, change: impl Fn(&mut Topology, &mut [Path])) -> NetworkSpec {
    let (mut topology, mut paths) = (spec.topology().clone(), spec.paths().to_vec());
    change(&mut topology, &mut paths);
    NetworkSpec::new("n".to_owned(), Utc(0), Nanos::from_secs(10), Basis::OneWay, spec.provenance().clone(), topology, paths).unwrap()
}

#[test]
fn an_outage_drops_packets_on_their_way_to_the_link_of_paths_without_a_route_alone() {
    let outage = event(4, 0, None, 100, fate(QueueFate::Drop));
    let spec = two_users(1000, fate(QueueFate::Keep), 0, vec![outage], tail(QueueLimit::Packets(100)));
    let spec = changed(&spec, |_, paths| {
        paths[0].events.clear();
        paths[0].routes = vec![route(0, &[2, 0]), route(4, &[]), route(104, &[2, 0])];
        paths[1].routes.push(route(4, &[3, 1]));
    });
    // Those of 2 ms are on their way to the satellite when its link to the gateway fails. Path b goes on over the other satellite.
    let sends = [(2, 0), (2, 1), (50, 1), (110, 0)].map(|(at_ms, path)| (at_ms * MS, path, Direction::Up));
    let (out, _) = outcomes(&spec, &sends, 0);
    let bodies = |outcome| out.iter().filter(|each| each.0 == outcome).map(|each| each.1.body).collect::<Vec<_>>();
    assert_eq!(bodies(Outcome::Dropped(DropCause::Event)), [0]);
    assert_eq!(bodies(Outcome::Delivered), [2, 1, 3]);
}

/// Return the packets that reach the terminals, in order of time.
fn all_arrivals(out: &[(Outcome, Packet)]) -> Vec<u32> {
    out.iter().filter(|(outcome, _)| *outcome == Outcome::Delivered).map(|(_, packet)| packet.body).collect()
}

/// The queue of a link migrates as a whole: packets of both paths arrive at the other satellite in their order. If a path cannot follow, its packets stay.
#[test]
fn a_queue_that_migrates_at_an_event_of_its_link_keeps_its_order() {
    let spec = two_users(4, fate(QueueFate::Keep), 0, vec![event(4, 0, None, 0, migrate(1))], tail(QueueLimit::Packets(100)));
    let follow = |b_follows: bool| {
        changed(&spec, |_, paths| {
            paths[0].events.clear();
            paths[1].routes.extend(b_follows.then(|| route(4, &[3, 1])));
        })
    };
    let (out, mut network) = outcomes(&follow(true), &burst(), 0);
    assert_eq!(all_arrivals(&out), (0..20).collect::<Vec<_>>());
    assert_eq!([0, 1].map(|path| network.stats_mut(path, 1, Direction::Down).delivered_packets), [8, 8]);
    let (_, mut network) = outcomes(&follow(false), &burst(), 0);
    assert_eq!([0, 1].map(|path| network.stats_mut(path, 1, Direction::Down).delivered_packets), [8, 0]);
    assert_eq!([0, 1].map(|path| network.stats_mut(path, 0, Direction::Down).delivered_packets), [2, 10]);
}

/// Two paths over one link of a beam: at an outage of the link their packets wait together, and keep their order.
#[test]
fn packets_of_one_link_of_a_beam_keep_their_order_over_an_outage() {
    let outage = event(4, 0, None, 100, fate(QueueFate::Keep));
    let spec = two_users(1000, fate(QueueFate::Keep), 0, vec![outage], tail(QueueLimit::Packets(100)));
    let beam = |topology: &mut Topology| topology.links[..2].iter_mut().for_each(|link| link.hop.shared_id = Some("beam".to_owned()));
    let (out, _) = outcomes(&changed(&spec, |topology, _| beam(topology)), &burst(), 0);
    assert_eq!(all_arrivals(&out), (0..20).collect::<Vec<_>>());
}

/// Path a's packets leave the shared queue and follow it to the other satellite. Those of b stay, and are sent without a's between them.
#[test]
fn one_user_of_a_shared_queue_is_handed_over_alone() {
    let spec = two_users(4, migrate(1), 0, vec![], tail(QueueLimit::Packets(100)));
    let (out, mut network) = outcomes(&spec, &burst(), 0);
    assert_eq!(arrivals(&out, 1), [(1, 9), (3, 11), (5, 12), (7, 13), (9, 14), (11, 15), (13, 16), (15, 17), (17, 18), (19, 19)]);
    // Numbers 0 and 2 left before; the others arrive 3 ms later, and the first of them takes its millisecond, 5 ms and 2 ms.
    let a = arrivals(&out, 0);
    assert_eq!(a[..4], [(0, 8), (2, 10), (4, 15), (6, 16)]);
    assert!(a.is_sorted() && a.len() == 10);
    assert_eq!([0, 1].map(|hop| network.stats_mut(0, hop, Direction::Down).delivered_packets), [2, 8]);
}

/// The interruption of a's handover does not interrupt b, whose packets the new satellite carries too.
#[test]
fn an_interruption_of_one_user_lets_the_others_pass() {
    let spec = two_users(4, migrate(1), 50, vec![], tail(QueueLimit::Packets(100)));
    let spec = changed(&spec, |_, paths| paths[1].routes = vec![route(0, &[3, 1])]);
    let sends: Vec<_> = (0..20).map(|body| (u64::from(body) * 2 * MS, body % 2, Direction::Down)).collect();
    let (out, _) = outcomes(&spec, &sends, 0);
    assert_eq!(arrivals(&out, 1), (0..10).map(|n| (2 * n + 1, u64::from(n) * 4 + 2 + 8)).collect::<Vec<_>>());
    let a = arrivals(&out, 0);
    assert!(a.is_sorted() && a.len() == 10 && a[1].1 == 54 + 8, "{a:?}");
}

/// A path that crosses a link from its far end meets the capacity and delay of the link's other direction.
#[test]
fn a_link_is_crossed_in_both_orientations() {
    let (up, down) = (side(&[30], &[], 0, false, tail(QueueLimit::Packets(9))), side(&[7], &[], 0, false, tail(QueueLimit::Packets(9))));
    let link = LinkSpec { name: "l".to_owned(), ends: [0, 1], hop: Hop { name: "l".to_owned(), shared_id: None, up, down } };
    let topology = Topology { nodes: vec!["x".to_owned(), "y".to_owned()], links: vec![link], events: vec![] };
    let path = |name: &str, ends, reversed| Path {
        name: name.to_owned(),
        ends,
        hops: vec![PathHop { link: 0, reversed }],
        routes: vec![route(0, &[0])],
        events: vec![],
    };
    let paths = vec![path("there", [0, 1], false), path("back", [1, 0], true)];
    let provenance = two_users(1, fate(QueueFate::Keep), 0, vec![], tail(QueueLimit::Packets(9))).provenance().clone();
    let spec = NetworkSpec::new("n".to_owned(), Utc(0), Nanos::from_secs(1), Basis::OneWay, provenance, topology, paths).unwrap();
    let sends: Vec<_> = [0, 1].into_iter().flat_map(|path| Direction::BOTH.map(|direction| (0, path, direction))).collect();
    let (mut out, _) = outcomes(&spec, &sends, 0);
    out.sort_by_key(|(_, packet)| packet.body);
    assert_eq!(out.iter().map(|(_, packet)| packet.at.0 / MS).collect::<Vec<_>>(), [30, 7, 7, 30]);
}

/// Users of one beam: the outage of one of them holds its packets alone.
#[test]
fn an_outage_of_one_user_of_a_beam_holds_its_packets_alone() {
    let air = side(&[5], &[10], 0, false, tail(QueueLimit::Packets(100)));
    let user = |events| profile(vec![Hop { shared_id: Some("beam".to_owned()), ..hop("sat:1", &air) }], vec![route(0, &[0])], events);
    let (a, b) = (user(vec![event(4, 0, None, 100, fate(QueueFate::Keep))]), user(vec![]));
    let mut network = network_of(&[&a, &b]);
    for body in 0..20 {
        network.send(Packet::new(Time(0), body % 2, Direction::Down, 0, 1250, body)).unwrap();
    }
    let mut out = Vec::new();
    while let Some(at) = network.wake_at() {
        network.run_until(at, &mut out);
    }
    assert_eq!(arrivals(&out, 1)[..4], [(1, 7), (3, 9), (5, 10), (7, 11)]);
    assert_eq!(arrivals(&out, 0)[..4], [(0, 6), (2, 8), (4, 110), (6, 111)]);
}

/// Users of a beam over two links of their own: one path that takes the second link at `at_ms`, or a path for each link. Each event strikes a path in a link,
/// or the link itself.
fn beam(is_one_path: bool, at_ms: u64, queue: QueueSpec, strikes: &[(u64, usize, u64, Fate, bool)]) -> NetworkSpec {
    let links = [7, 3].map(|delay_ms| side(&[delay_ms], &[10], 0, false, queue));
    let names = ["l:0", "l:1"];
    let link = |(name, side): (&&str, &HopDirection)| LinkSpec {
        name: (*name).to_owned(),
        ends: [0, 1],
        hop: Hop { shared_id: Some("beam".to_owned()), ..hop(name, side) },
    };
    let of_link = |is_of_link| strikes.iter().filter(move |strike| strike.4 == is_of_link);
    let topology = Topology {
        nodes: ["x", "y"].map(str::to_owned).to_vec(),
        links: names.iter().zip(&links).map(link).collect(),
        events: of_link(true).map(|&(at, link, interruption, fate, _)| event(at, link, None, interruption, fate)).collect(),
    };
    let path = |name: &str, links: &[usize], routes| Path {
        name: name.to_owned(),
        ends: [0, 1],
        hops: links.iter().map(|&link| PathHop { link, reversed: false }).collect(),
        routes,
        events: of_link(false)
            .filter_map(|&(at, link, interruption, fate, _)| {
                let hop = links.iter().position(|own| *own == link)?;
                Some(event(at, hop, None, interruption, fate))
            })
            .collect(),
    };
    let paths = if is_one_path {
        vec![path("a", &[0, 1], vec![route(0, &[0]), route(at_ms, &[1])])]
    } else {
        [0, 1].map(|link| path(names[link], &[link], vec![route(0, &[0])])).to_vec()
    };
    let provenance = two_users(1, fate(QueueFate::Keep), 0, vec![], queue).provenance().clone();
    NetworkSpec::new("n".to_owned(), Utc(0), Nanos::from_secs(10), Basis::OneWay, provenance, topology, paths).unwrap()
}

fn queue_fates() -> impl Strategy<Value = QueueFate> {
    prop_oneof![Just(QueueFate::Keep), Just(QueueFate::Drop), Just(migrate(1).queue)]
}

fn any_fate() -> impl Strategy<Value = Fate> {
    let flight = prop_oneof![Just(InFlightFate::Deliver), Just(InFlightFate::Drop)];
    let order = prop_oneof![Just(OrderFate::Allow), Just(OrderFate::Clamp)];
    (queue_fates(), flight, order).prop_map(|(queue, in_flight, order)| Fate { queue, in_flight, order })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever strikes a shared link, and whoever is handed over, each packet leaves once; and lateness changes nothing.
    #[test]
    fn every_packet_leaves_a_shared_link_once(
        handover in any_fate(), strike in any_fate(), at_ms in 1_u64..100, interruption_ms in 0_u64..60, queue in queues(), late in 1_u64..5 * MS,
        sends in prop::collection::vec((0_u64..150 * MS, 0_u32..2, prop::sample::select(Direction::BOTH.to_vec())), 1..300),
    ) {
        let mut sends = sends;
        sends.sort_unstable();
        let strikes = vec![event(20, 0, None, 15, strike), event(60, 1, None, 15, fate(QueueFate::Keep))];
        let spec = two_users(at_ms, handover, interruption_ms, strikes, queue);
        let run = |late| {
            let (mut out, network) = outcomes(&spec, &sends, late);
            out.sort_by_key(|(_, packet)| packet.body);
            (out, network.packets())
        };
        let (out, left) = run(0);
        prop_assert_eq!(left, 0);
        prop_assert_eq!(out.iter().map(|(_, packet)| packet.body as usize).collect::<Vec<_>>(), (0..sends.len()).collect::<Vec<_>>());
        prop_assert_eq!(out, run(late).0);
    }

    /// With first-in first-out queues, a user that is handed over alone keeps its order if the other user's packets are in the queue already.
    #[test]
    fn one_user_handed_over_alone_keeps_its_order(
        migrates in any::<bool>(), at_ms in 1_u64..40, interruption_ms in 0_u64..30,
        before in prop::collection::vec((0_u64..30 * MS, 0_u32..2), 1..60), after in prop::collection::vec(0_u64..60 * MS, 0..40),
    ) {
        let fate = if migrates { migrate(1) } else { fate(QueueFate::Keep) };
        let mut sends: Vec<_> = before.iter().map(|&(at, path)| (at.min((at_ms - 1) * MS), path, Direction::Down)).collect();
        sends.extend(after.iter().map(|&at| (at_ms * MS + at, 0, Direction::Down)));
        sends.sort_unstable();
        let spec = two_users(at_ms, fate, if migrates { interruption_ms } else { 0 }, vec![], tail(QueueLimit::Packets(10_000)));
        let (out, _) = outcomes(&spec, &sends, 0);
        prop_assert_eq!(out.len(), sends.len());
        prop_assert!(arrivals(&out, 0).is_sorted_by_key(|(body, _)| *body), "{:?}", arrivals(&out, 0));
    }

    /// An event of one link of a beam strikes the packets in that link, whichever paths they are of: one path over both links is as good as two.
    #[test]
    fn an_event_strikes_one_link_of_a_path_alone(
        at_ms in 1_u64..80, limit in 2_u64..60,
        strikes in prop::collection::vec((1_u64..100, 0_usize..2, 0_u64..40, any_fate(), any::<bool>()), 1..4),
        sends in prop::collection::vec((0_u64..120 * MS, prop::sample::select(Direction::BOTH.to_vec())), 1..200),
    ) {
        let (mut strikes, mut sends) = (strikes, sends);
        strikes.sort_by_key(|strike| strike.0);
        for fate in strikes.iter_mut().map(|strike| &mut strike.3) {
            if matches!(fate.queue, QueueFate::Migrate(_)) {
                fate.queue = QueueFate::Keep; // one of two paths has nowhere to go
            }
        }
        sends.sort_unstable();
        let run = |is_one_path| {
            let spec = beam(is_one_path, at_ms, tail(QueueLimit::Packets(limit)), &strikes);
            let path = |at: u64| u32::from(!is_one_path && at >= at_ms * MS);
            let sends: Vec<_> = sends.iter().map(|&(at, direction)| (at, path(at), direction)).collect();
            let (mut out, _) = outcomes(&spec, &sends, 0);
            out.sort_by_key(|(_, packet)| packet.body);
            out.into_iter().map(|(outcome, packet)| (outcome, packet.at)).collect::<Vec<_>>()
        };
        prop_assert_eq!(run(true), run(false));
    }
}
