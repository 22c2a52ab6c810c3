//! Tests of routes against brute force, and their properties.

use super::*;
use crate::frames::{Observer, gmst_rad, norm, sub, teme_to_ecef};
use crate::walker::WalkerShell;
use proptest::prelude::*;

const START: Utc = Utc(1_778_403_600_000_000_000);

fn shell(planes: u32, per_plane: u32, altitude_km: f64) -> Vec<Propagator> {
    let shell = WalkerShell {
        name: "S".to_owned(),
        raan_spread_deg: 360.0,
        altitude_km,
        inclination_deg: 53.0,
        planes,
        per_plane,
        phasing: 1.0,
        first_raan_deg: 0.0,
        first_norad_id: 1,
    };
    Propagator::all(&shell.elements(START).unwrap()).unwrap()
}

/// Bellman–Ford over every node and link, from positions computed one by one: slow, and independent of the code above except for the conventions.
fn brute_force_km(network: &Network<'_>, from: Site, to: Site, at: Utc) -> Option<f64> {
    let n = network.satellites.len();
    let positions: Vec<[f64; 3]> =
        network.satellites.iter().map(|s| teme_to_ecef(s.state(at).unwrap().position_km, gmst_rad(at))).collect();
    let seen = |site: Site, p: [f64; 3]| {
        let look = Observer::new(site).look(p);
        (look.elevation_deg >= network.min_elevation_deg).then_some(look.range_km)
    };
    let mut km: Vec<f64> = positions.iter().map(|&p| seen(from, p).unwrap_or(f64::INFINITY)).collect();
    for _ in 0..n {
        for (a, b) in network.links() {
            let length = norm(sub(positions[a], positions[b]));
            km[a] = km[a].min(km[b] + length);
            km[b] = km[b].min(km[a] + length);
        }
    }
    let best = (0..n).filter_map(|s| seen(to, positions[s]).map(|r| r + km[s])).fold(f64::INFINITY, f64::min);
    best.is_finite().then_some(best)
}

fn site(lat: f64, lon: f64) -> Site {
    Site::new(lat, lon, 0.0).unwrap()
}

#[test]
fn saint_petersburg_to_rio_over_starlinks_first_shell() {
    let satellites = shell(72, 22, 550.0);
    let grids = [PlusGrid::new(72, 22, 1584).unwrap()];
    let network = Network::new(&satellites, &grids, 25.0).unwrap();
    let (from, to) = (site(59.93, 30.36), site(-22.90, -43.17));
    let times: Vec<Utc> = (0..130).map(|i| Utc(START.0 + i * 10_000_000_000)).collect();
    let routes = routes(&network, from, to, &times).unwrap();
    let great_circle_ms = 2.0 * 11_300.0 / LIGHT_KM_S * 1000.0;
    for (&at, route) in times.iter().zip(&routes).step_by(40) {
        let route = route.as_ref().expect("1584 satellites leave no gap there");
        let expected = brute_force_km(&network, from, to, at).unwrap();
        assert!((route.path_km - expected).abs() < 1e-6, "{} {expected}", route.path_km);
        assert!(route.rtt_ms() > great_circle_ms && route.rtt_ms() < 1.6 * great_circle_ms, "{}", route.rtt_ms());
        assert_eq!(route.hops(), route.satellites.len() + 1);
        let grid = network.grids[0];
        assert!(route.satellites.windows(2).all(|w| grid.neighbours(w[0] as usize).contains(&(w[1] as usize))));
    }
}

#[test]
fn all_pairs_equal_the_single_routes_in_both_directions() {
    let satellites = shell(24, 22, 800.0);
    let grids = [PlusGrid::new(24, 22, 528).unwrap()];
    let network = Network::new(&satellites, &grids, 25.0).unwrap();
    let sites = [site(-37.8, 144.9), site(51.5, -0.1), site(35.7, 139.7), site(0.0, 0.0), site(90.0, 0.0)];
    let times: Vec<Utc> = (0..3).map(|i| Utc(START.0 + i * 60_000_000_000)).collect();
    let all = all_pairs(&network, &sites, &times).unwrap();
    for (a, &from) in sites.iter().enumerate() {
        for (b, &to) in sites.iter().enumerate().filter(|&(b, _)| b != a) {
            let single = routes(&network, from, to, &times).unwrap();
            for (pairs, route) in all.iter().zip(&single) {
                let rtt_ms = pairs.rtt_ms()[a * sites.len() + b];
                match route {
                    Some(route) => {
                        assert!((rtt_ms - route.rtt_ms()).abs() < 1e-9);
                        assert_eq!(pairs.hops()[a * sites.len() + b] as usize, route.hops());
                    }
                    None => assert!(rtt_ms.is_infinite()),
                }
            }
        }
        assert!(all[0].rtt_ms()[a * sites.len() + a].abs() < 1e-12);
    }
}

#[test]
fn without_links_a_path_has_one_satellite() {
    let satellites = shell(72, 22, 550.0);
    let network = Network::new(&satellites, &[], 25.0).unwrap();
    let near = routes(&network, site(-37.8, 144.9), site(-33.9, 151.2), &[START]).unwrap();
    let route = near[0].as_ref().expect("700 km apart");
    assert_eq!((route.satellites.len(), route.hops()), (1, 2));
    assert!((route.path_km - brute_force_km(&network, site(-37.8, 144.9), site(-33.9, 151.2), START).unwrap()).abs() < 1e-6);
    assert_eq!(routes(&network, site(-37.8, 144.9), site(51.5, -0.1), &[START]).unwrap(), [None]);
}

#[test]
fn links_stay_within_a_shell() {
    let (low, high) = (shell(24, 22, 800.0), shell(12, 16, 1400.0));
    let satellites = [low.clone(), high.clone()].concat();
    let grids = [PlusGrid::new(24, 22, 528).unwrap(), PlusGrid::new(12, 16, 192).unwrap().starting_at(528)];
    let both = Network::new(&satellites, &grids, 25.0).unwrap();
    let (from, to) = (site(51.5, -0.1), site(35.7, 139.7));
    let times: Vec<Utc> = (0..20).map(|i| Utc(START.0 + i * 60_000_000_000)).collect();
    let alone = |satellites: &[Propagator], grid: PlusGrid| {
        let grids = [grid.starting_at(0)];
        routes(&Network::new(satellites, &grids, 25.0).unwrap(), from, to, &times).unwrap()
    };
    let (of_low, of_high) = (alone(&low, grids[0]), alone(&high, grids[1]));
    for ((both, low), high) in routes(&both, from, to, &times).unwrap().iter().zip(&of_low).zip(&of_high) {
        let km = |r: &Option<Route>| r.as_ref().map_or(f64::INFINITY, |r| r.path_km);
        assert!((km(both) - km(low).min(km(high))).abs() < 1e-9 || km(both).is_infinite());
    }
}

#[test]
fn a_grid_of_the_wrong_shape_is_refused_with_satellite_names() {
    let satellites = shell(72, 22, 550.0);
    let grids = [PlusGrid::new(22, 72, 1584).unwrap()];
    let network = Network::new(&satellites, &grids, 25.0).unwrap();
    let error = routes(&network, site(0.0, 0.0), site(10.0, 10.0), &[START]).expect_err("transposed");
    assert!(matches!(error, OrbitError::LinkThroughEarth { .. }), "{error}");
    assert!(error.to_string().contains("S-00-00"), "{error}");
    assert!(matches!(Network::new(&satellites[1..], &grids, 25.0), Err(OrbitError::GridSize { .. })));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn the_shortest_path_equals_brute_force(
        (lat_a, lon_a) in (-60.0..60.0_f64, -180.0..180.0_f64),
        (lat_b, lon_b) in (-60.0..60.0_f64, -180.0..180.0_f64),
        minutes in 0_i64..200,
        min_elevation in 0.0..40.0_f64,
    ) {
        let satellites = shell(12, 16, 1400.0);
        let grids = [PlusGrid::new(12, 16, 192).unwrap()];
        let network = Network::new(&satellites, &grids, min_elevation).unwrap();
        let at = Utc(START.0 + minutes * 60_000_000_000);
        let routes = routes(&network, site(lat_a, lon_a), site(lat_b, lon_b), &[at]).unwrap();
        match (&routes[0], brute_force_km(&network, site(lat_a, lon_a), site(lat_b, lon_b), at)) {
            (Some(route), Some(km)) => prop_assert!((route.path_km - km).abs() < 1e-6, "{} {}", route.path_km, km),
            (None, None) => {}
            other => prop_assert!(false, "{:?}", other),
        }
    }
}

#[test]
fn a_route_from_a_site_to_itself_has_no_links() {
    let satellites = shell(24, 22, 800.0);
    let grids = [PlusGrid::new(24, 22, 528).unwrap()];
    let network = Network::new(&satellites, &grids, 25.0).unwrap();
    let here = site(-37.8, 144.9);
    for route in routes(&network, here, here, &[START, Utc(START.0 + 1)]).unwrap() {
        let route = route.unwrap();
        assert_eq!((route.rtt_ms(), route.hops(), route.satellites.len()), (0.0, 0, 0));
    }
    let pairs = all_pairs(&network, &[here, site(51.5, -0.1), here], &[START]).unwrap().remove(0);
    for twin in [0, 2, 6, 8] {
        assert_eq!((pairs.rtt_ms()[twin], pairs.hops()[twin]), (0.0, 0));
    }
    assert!(pairs.rtt_ms()[1] > 0.0 && pairs.hops()[1] >= 2);
}
