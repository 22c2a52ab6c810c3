use super::*;
use crate::testing::{hop, provenance};
use crate::{Event, Fate, InFlightFate, Migration, OrderFate, QueueFate, Rate, RouteEntry, Time};
use proptest::prelude::*;

const SECOND: u64 = 1_000_000_000;

fn route(at_s: u64, hops: &[usize]) -> RouteEntry {
    RouteEntry { at_ns: Time(at_s * SECOND), hops: hops.to_vec() }
}

fn event(at_s: u64, hop: usize, to_hop: Option<usize>, up: QueueFate) -> Event {
    let fate = |queue| Fate { queue, in_flight: InFlightFate::Deliver, order: OrderFate::Clamp };
    let handover = |to_hop| EventKind::Handover { from_satellite: None, to_satellite: None, from_gateway: None, to_gateway: None, to_hop };
    let kind = to_hop.map_or(EventKind::Outage, handover);
    Event { at_ns: Time(at_s * SECOND), interruption_ns: Nanos::from_millis(50), hop, kind, up: fate(up), down: fate(QueueFate::Keep) }
}

/// Two satellites and a wire, with an outage of the first satellite and a handover to the second.
fn profile() -> Profile {
    let migrate = QueueFate::Migrate(Migration { to_hop: 1, delay_ns: Nanos(7), rate_bps: Rate(9) });
    let hops = vec![hop("sat:1"), hop("sat:2"), hop("wire")];
    let events = vec![event(2, 0, None, migrate), event(5, 0, Some(1), migrate)];
    let routes = vec![route(0, &[0, 2]), route(5, &[1, 2])];
    Profile::new("p".to_owned(), Utc(3), Nanos::from_secs(60), Basis::OneWay, provenance(), hops, routes, events).unwrap()
}

fn network(topology: Topology, paths: Vec<Path>) -> Result<NetworkSpec, ProfileError> {
    NetworkSpec::new("n".to_owned(), Utc(0), Nanos::from_secs(60), Basis::OneWay, provenance(), topology, paths)
}

/// Two terminals, one satellite and one gateway.
fn two_users() -> (Topology, Vec<Path>) {
    let link = |name: &str, ends| LinkSpec { name: name.to_owned(), ends, hop: hop(name) };
    let topology = Topology {
        nodes: ["terminal:a", "terminal:b", "sat:1", "gateway:x"].map(str::to_owned).to_vec(),
        links: vec![link("user:a", [0, 2]), link("user:b", [1, 2]), link("feeder", [3, 2])],
        events: vec![event(4, 2, None, QueueFate::Drop)],
    };
    let path = |name: &str, user: usize| Path {
        name: name.to_owned(),
        ends: [user, 3],
        hops: vec![PathHop { link: user, reversed: false }, PathHop { link: 2, reversed: true }],
        routes: vec![route(0, &[0, 1])],
        events: vec![],
    };
    (topology, vec![path("a", 0), path("b", 1)])
}

#[test]
fn a_profile_is_a_network_of_one_path() {
    let network = NetworkSpec::from_profiles(&[&profile()]).unwrap();
    assert_eq!(network.profile(0).unwrap(), profile());
    // Links leave the same node and meet at the same node.
    let ends: Vec<_> = network.topology().links.iter().map(|link| link.ends.map(|node| network.topology().nodes[node].as_str())).collect();
    assert_eq!(ends, [["terminal", "far end of sat:1"], ["terminal", "far end of sat:1"], ["far end of sat:1", "server"]]);
    assert_eq!((network.topology().events.len(), network.paths()[0].events.len()), (1, 1));
}

/// The links of two Profiles have names of their own. The names in the Profiles, by which draws are keyed, stay.
#[test]
fn links_of_several_profiles_have_unique_names() {
    let network = NetworkSpec::from_profiles(&[&profile(), &profile()]).unwrap();
    let names: Vec<_> = network.topology().links.iter().map(|link| (link.name.as_str(), link.hop.name.as_str())).collect();
    assert_eq!(names[..2], [("0:sat:1", "sat:1"), ("0:sat:2", "sat:2")]);
    assert_eq!(names[3..5], [("1:sat:1", "sat:1"), ("1:sat:2", "sat:2")]);
    assert_eq!(network.profile(1).unwrap().hops(), profile().hops());
}

/// An event of a link has one row for all paths that use it; events of paths have one each.
#[test]
fn an_event_of_a_link_is_recorded_once() {
    let (topology, mut paths) = two_users();
    paths[1].events = vec![event(3, 0, None, QueueFate::Keep)];
    let events = crate::run::Events::of_network(&network(topology, paths).unwrap(), Time::ZERO, Time(60 * SECOND));
    let rows: Vec<_> = events.t_s.iter().zip(&events.detail).map(|(t_s, detail)| (*t_s, detail.as_str())).collect();
    assert_eq!(rows, [(4.0, "feeder, 50 ms"), (3.0, "user:b, 50 ms")]);
}

#[test]
fn events_of_a_shared_queue_strike_one_profile() {
    let mut shared = profile();
    shared.hops_mut()[0].shared_id = Some("beam".to_owned());
    let network = NetworkSpec::from_profiles(&[&shared, &shared]).unwrap();
    assert!(network.topology().events.is_empty() && network.paths().iter().all(|path| path.events.len() == 2));
    let mut other = shared.clone();
    other.hops_mut()[0].down.capacity = None;
    let error = NetworkSpec::from_profiles(&[&shared, &other]).unwrap_err();
    assert!(error.to_string().starts_with("shared id \"beam\": hops differ in capacity or queue (down); expected the same"), "{error}");
}

#[test]
fn a_reversed_link_swaps_its_directions_and_the_fates_of_its_events() {
    let (mut topology, paths) = two_users();
    topology.links[2].hop.up.capacity = None;
    let view = network(topology, paths).unwrap().profile(1).unwrap();
    assert_eq!(view.hops().iter().map(|hop| hop.name.as_str()).collect::<Vec<_>>(), ["user:b", "feeder"]);
    assert!(view.hops()[1].down.capacity.is_none() && view.hops()[1].up.capacity.is_some());
    assert_eq!((view.events()[0].hop, view.events()[0].down.queue, view.events()[0].up.queue), (1, QueueFate::Drop, QueueFate::Keep));
}

#[test]
fn an_invalid_network_is_refused_in_one_line() {
    type Damage = fn(&mut Topology, &mut Vec<Path>);
    let cases: [(Damage, &str); 10] = [
        (|_, paths| paths.clear(), "no path"),
        (|_, paths| paths[1].name = "a".to_owned(), "the list of paths: a occurs twice"),
        (|topology, _| topology.nodes[1] = "terminal:a".to_owned(), "the list of nodes: terminal:a occurs twice"),
        (|topology, _| topology.links[1].name = "user:a".to_owned(), "the list of links: user:a occurs twice"),
        (|topology, _| topology.links[0].ends[1] = 9, "user:a: node 9 does not exist; expected 0 to 3"),
        (|topology, _| topology.events[0].kind = event(0, 0, Some(1), QueueFate::Keep).kind, "event 0 of the links: it is a handover"),
        (|_, paths| paths[0].hops[1].link = 7, "a: hop 7 does not exist"),
        (|_, paths| paths[0].hops[1] = paths[0].hops[0], "path a: user:a occurs twice"),
        (|_, paths| paths[0].hops[1].reversed = false, "a: the route at 0 s, feeder: it reaches node sat:1 and continues at gateway:x"),
        (|_, paths| paths[0].ends[1] = 2, "a: the route at 0 s, its end: it reaches node gateway:x and continues at sat:1"),
    ];
    for (damage, expected) in cases {
        let (mut topology, mut paths) = two_users();
        damage(&mut topology, &mut paths);
        let message = network(topology, paths).unwrap_err().to_string();
        assert!(message.contains(expected) && message.contains("expected"), "{message}");
    }
}

proptest! {
    /// Any valid Profile is a network, whatever order its routes pass the hops in.
    #[test]
    fn any_routes_make_a_network(routes in prop::collection::vec(prop::sample::subsequence(vec![0_usize, 1, 2, 3], 0..=4).prop_shuffle(), 1..6)) {
        let hops = ["a", "b", "c", "d"].map(hop).to_vec();
        let routes = routes.into_iter().zip(0..).map(|(hops, at_s)| route(at_s, &hops)).collect();
        let profile = Profile::new("p".to_owned(), Utc(0), Nanos::from_secs(60), Basis::OneWay, provenance(), hops, routes, vec![]).unwrap();
        prop_assert_eq!(NetworkSpec::from_profiles(&[&profile]).unwrap().profile(0).unwrap(), profile);
    }
}
