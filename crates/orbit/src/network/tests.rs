use super::*;
use crate::access::params::LossParams;
use crate::isl::PlusGrid;
use crate::schedule::SlotGrid;
use crate::site::Site;
use crate::walker::WalkerShell;
use bentpipe_profile::{EventKind, InFlightFate, Nanos, QueueFate, Utc};

const START: Utc = Utc(1_778_403_612_000_000_000); // 2026-05-10T09:00:12Z, the edge of a slot

fn shell() -> WalkerShell {
    WalkerShell {
        name: "S".to_owned(),
        raan_spread_deg: 360.0,
        altitude_km: 550.0,
        inclination_deg: 53.0,
        planes: 72,
        per_plane: 22,
        phasing: 39.0,
        first_raan_deg: 0.0,
        first_norad_id: 1,
    }
}

fn settings(policy: &str, duration_s: u64) -> NetworkSettings {
    let place = |name: &str, lat, lon| NetworkPlace { name: name.to_owned(), site: Site::new(lat, lon, 0.0).unwrap() };
    NetworkSettings {
        name: "n".to_owned(),
        places: vec![place("SYD", -33.87, 151.21), place("NYC", 40.71, -74.01), place("LON", 51.51, -0.13), place("JNB", -26.2, 28.05)],
        pairs: vec![[0, 1], [2, 3], [3, 1]],
        start_unix_ns: START,
        duration_ns: Nanos::from_secs(duration_s),
        slots: SlotGrid::default(),
        policy: policy.to_owned(),
        min_elevation_deg: 25.0,
        gso_exclusion_deg: 0.0,
        isl: LinkCapacity { rate_bps: 1_000_000_000, queue_bytes: 1_650_000 },
        ground: LinkCapacity { rate_bps: 1_000_000_000, queue_bytes: 1_650_000 },
        gap_ns: Nanos::from_millis(50),
        loss: Some(LossParams::default()),
        isl_loss: 0.0,
        origin: serde_json::Value::Null,
    }
}

fn made(settings: &NetworkSettings, seed: u64) -> NetworkSpec {
    let shell = shell();
    let elements = shell.elements(START).unwrap();
    let links = LinkGraph::new(&[shell.nearest_grid().unwrap()], elements.len());
    make(settings, &elements, &links, seed).unwrap()
}

#[test]
fn every_path_leads_from_its_terminal_over_satellites_to_its_station() {
    let network = made(&settings("nearest", 300), 1);
    let names: Vec<_> = network.paths().iter().map(|path| path.name.as_str()).collect();
    assert_eq!(names, ["SYD-NYC", "LON-JNB", "JNB-NYC"]);
    for (path, [from, to]) in network.paths().iter().zip([["SYD", "NYC"], ["LON", "JNB"], ["JNB", "NYC"]]) {
        let topology = network.topology();
        assert_eq!(path.ends.map(|node| topology.nodes[node].as_str()), [format!("terminal:{from}"), format!("gateway:{to}")]);
        for route in &path.routes {
            let links: Vec<_> = route.hops.iter().map(|&hop| topology.links[path.hops[hop].link].name.as_str()).collect();
            assert!(links[0].starts_with(&format!("user:{from}-")), "{links:?}");
            assert!(links[links.len() - 1].ends_with(&format!("-{to}")), "{links:?}");
            assert!(links[1..links.len() - 1].iter().all(|link| link.starts_with("isl:")), "{links:?}");
            assert!(links.len() > 5, "{links:?}");
        }
    }
}

#[test]
fn delays_are_those_of_light_over_the_route() {
    let network = made(&settings("least-delay", 60), 1);
    let profile = network.profile(0).unwrap();
    let delay_ms = profile.lone_packet_delays_ms(bentpipe_profile::Direction::Up, &[30.0]).unwrap()[0];
    // 15,989 km along the ground: 53 ms at the speed of light, and the detour over the grid.
    assert!((54.0..75.0).contains(&delay_ms), "{delay_ms}");
}

#[test]
fn handovers_change_one_end_and_take_the_gap() {
    let network = made(&settings("nearest", 300), 1);
    let mut ends = [0, 0];
    for path in network.paths() {
        for event in &path.events {
            let EventKind::Handover { to_hop, from_gateway, .. } = &event.kind else { panic!("{event:?}") };
            let [left, taken] = [event.hop, *to_hop].map(|hop| &network.topology().links[path.hops[hop].link]);
            assert_eq!(event.interruption_ns, Nanos::from_millis(50));
            let at_station = usize::from(from_gateway.is_some());
            ends[at_station] += 1;
            let place = network.topology().nodes[left.ends[at_station]].clone();
            assert_eq!(place, network.topology().nodes[taken.ends[at_station]]);
            let (to_place, from_place) = if at_station == 0 { (&event.down, &event.up) } else { (&event.up, &event.down) };
            assert_eq!((to_place.in_flight, from_place.in_flight), (InFlightFate::Drop, InFlightFate::Deliver));
            let QueueFate::Migrate(migration) = to_place.queue else { panic!("{event:?}") };
            assert!((1_000_000..200_000_000).contains(&migration.delay_ns.0), "{migration:?}");
        }
    }
    assert!(ends[0] > 3 && ends[1] > 3, "{ends:?}");
}

#[test]
fn a_link_exists_once_and_carries_what_crosses_it() {
    let settings = settings("nearest", 300);
    let network = made(&settings, 1);
    let links = &network.topology().links;
    assert!(links.len() < 400, "{}", links.len());
    let users = |link: usize| network.paths().iter().filter(|path| path.hops.iter().any(|hop| hop.link == link)).count();
    let shared = (0..links.len()).filter(|&link| users(link) > 1).count();
    assert!((0..links.len()).all(|link| users(link) > 0));
    assert!(shared > 0, "NYC has one link for both of its paths");
    let lossy = |link: &bentpipe_profile::LinkSpec| link.hop.up.loss.is_some() || link.hop.down.loss.is_some();
    assert!(links.iter().all(|link| lossy(link) == link.name.starts_with("user:")));
}

#[test]
fn a_network_is_redrawn_without_its_satellites() {
    let first = made(&settings("nearest", 120), 1);
    let second = reseed(&first, 2).unwrap();
    assert_eq!(reseed(&second, 1).unwrap(), first);
    assert_ne!(second.topology(), first.topology());
    assert_eq!(second.paths(), first.paths());
    assert_eq!(second, made(&settings("nearest", 120), 2));
}

#[test]
fn loss_of_a_terminal_does_not_depend_on_the_other_places() {
    let all = settings("nearest", 120);
    let alone = NetworkSettings { pairs: vec![[0, 1]], ..all.clone() };
    let (all, alone) = (made(&all, 3), made(&alone, 3));
    let losses = |network: &NetworkSpec| -> Vec<_> {
        network.profile(0).unwrap().hops().iter().map(|hop| (hop.name.clone(), hop.up.loss.clone(), hop.down.loss.clone())).collect()
    };
    assert!(losses(&all) == losses(&alone), "the same hops with the same episodes");
}

#[test]
fn impossible_networks_are_refused_in_one_line() {
    let shell = shell();
    let elements = shell.elements(START).unwrap();
    let links = LinkGraph::new(&[shell.nearest_grid().unwrap()], elements.len());
    let refused = |change: &dyn Fn(&mut NetworkSettings)| {
        let mut settings = settings("nearest", 30);
        change(&mut settings);
        make(&settings, &elements, &links, 1).unwrap_err().to_string()
    };
    assert_eq!(refused(&|s| s.pairs.clear()), "network \"n\": it has no pair of places; expected at least one");
    assert_eq!(refused(&|s| s.pairs[0] = [1, 1]), "network \"n\": a pair joins places 1 and 1; expected two of 4 places");
    assert_eq!(refused(&|s| s.pairs[0] = [1, 9]), "network \"n\": a pair joins places 1 and 9; expected two of 4 places");
    assert!(refused(&|s| s.policy = "far".to_owned()).starts_with("no scheduling policy \"far\""));
    assert_eq!(refused(&|s| s.isl.queue_bytes = 0), "queue in bytes is 0; expected at least one packet of 1500 bytes");
    assert!(refused(&|s| s.gap_ns = Nanos::from_secs(9)).contains("0 to 5 s"));
    assert!(refused(&|s| s.places[0].site = Site::new(89.0, 0.0, 0.0).unwrap()).contains("SYD-NYC has no route at any time"));
    let few = PlusGrid::new(6, 4, 24).unwrap();
    let sparse = WalkerShell { planes: 6, per_plane: 4, phasing: 1.0, ..shell };
    let elements = sparse.elements(START).unwrap();
    let error = make(&settings("nearest", 30), &elements, &LinkGraph::new(&[few], 24), 1).unwrap_err().to_string();
    assert!(error.contains("km above the Earth's surface"), "{error}");
}
