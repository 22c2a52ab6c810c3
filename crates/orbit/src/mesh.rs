//! Inter-satellite links of real satellites, found from their elements: real planes have gaps, and shells are unevenly filled.
//!
//! As in a +Grid a satellite has at most four links: ahead and behind in its plane, and one to each side. Links in a plane connect satellites that are each
//! other's next; links to the sides are given to the nearest pairs first. Which satellites carry lasers depends on their launch ([`LaserFleet`]).

use crate::elements::Elements;
use crate::frames::dot;
use crate::isl::DEFAULT_LOWEST_LINK_KM;
use crate::propagate::{Propagator, WGS72_RADIUS_KM, semi_major_axis_km};
use crate::route::LinkGraph;
use bentpipe_profile::Utc;
use serde::Deserialize;

/// Largest difference in inclination between linked satellites [deg]. Chosen here: shells at 53.0° and 53.2° stay apart.
const MAX_INCLINATION_DIFFERENCE_DEG: f64 = 0.1;
/// Largest difference in altitude [km]. Chosen here: satellites 5 km apart drift along the orbit by 6° in a day; shells are 10 km apart.
const MAX_ALTITUDE_DIFFERENCE_KM: f64 = 5.0;
/// Largest difference in right ascension within a plane [deg]. Chosen here: planes of Starlink's shells are 5° apart or more.
const PLANE_WIDTH_DEG: f64 = 1.0;
/// Longest link [km]: lasers have connected satellites more than 5,400 km apart (`SpaceX` at SPIE Photonics West, January 2024).
const LONGEST_LINK_KM: f64 = 5_400.0;
/// Number of the nearest satellites to each side that are considered.
const SIDE_CANDIDATES: usize = 16;

/// The satellites of an operator that carry lasers.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LaserFleet {
    /// Beginning of the satellites' names, in capital letters.
    pub name_prefix: String,
    /// The first launch since which all satellites have lasers: the first eight characters of the international designator.
    pub since: String,
    /// Earlier launches of satellites with lasers.
    pub also: Vec<String>,
}

impl LaserFleet {
    /// Return whether a satellite carries lasers. One without a designator counts as new.
    fn has(&self, satellite: &Elements) -> bool {
        let launch = satellite.designator.as_ref().and_then(|designator| designator.get(..8));
        satellite.name.to_uppercase().starts_with(&self.name_prefix)
            && launch.is_none_or(|launch| launch >= self.since.as_str() || self.also.iter().any(|also| also == launch))
    }
}

/// A satellite with lasers: its orbit at the reference time.
struct Orbit {
    index: usize,
    norad_id: u64,
    inclination_deg: f64,
    radius_km: f64,
    raan_deg: f64,
    /// Angle from the ascending node [deg].
    along_deg: f64,
}

impl Orbit {
    /// Compute the orbit of a satellite; `None`: it cannot be propagated.
    fn new(index: usize, elements: &Elements, satellite: &Propagator, at: Utc) -> Option<Self> {
        let state = satellite.state(at).ok()?;
        let ([x, y, z], [u, v, w]) = (state.position_km, state.velocity_km_s);
        let momentum = [y * w - z * v, z * u - x * w, x * v - y * u];
        let raan = momentum[0].atan2(-momentum[1]);
        let size = dot(momentum, momentum).sqrt();
        let node = [raan.cos(), raan.sin(), 0.0];
        let ahead = [-momentum[2] * node[1], momentum[2] * node[0], momentum[0] * node[1] - momentum[1] * node[0]].map(|part| part / size);
        Some(Self {
            index,
            norad_id: elements.norad_id,
            inclination_deg: elements.inclination_deg,
            radius_km: semi_major_axis_km(elements),
            raan_deg: raan.to_degrees(),
            along_deg: dot(state.position_km, ahead).atan2(dot(state.position_km, node)).to_degrees(),
        })
    }

    /// Return whether a link to another satellite can last: they stay together.
    fn stays_with(&self, other: &Self) -> bool {
        (self.inclination_deg - other.inclination_deg).abs() <= MAX_INCLINATION_DIFFERENCE_DEG
            && (self.radius_km - other.radius_km).abs() <= MAX_ALTITUDE_DIFFERENCE_KM
    }

    /// Return the largest angle between two linked satellites at the Earth's centre [deg].
    fn longest_deg(&self) -> f64 {
        let above_earth = 2.0 * ((WGS72_RADIUS_KM + DEFAULT_LOWEST_LINK_KM) / self.radius_km).min(1.0).acos();
        let in_range = 2.0 * (LONGEST_LINK_KM / 2.0 / self.radius_km).min(1.0).asin();
        above_earth.min(in_range).to_degrees()
    }

    /// Return the largest angle between two satellites over an orbit [deg], for small angles: the constant distance along the orbit, and the distance between the
    /// planes, which is largest at the equator.
    fn separation_deg(&self, east_deg: f64, other: &Self) -> f64 {
        let (sin, cos) = self.inclination_deg.to_radians().sin_cos();
        wrapped_deg(other.along_deg - self.along_deg + east_deg * cos).hypot(east_deg * sin)
    }
}

/// Return an angle in −180…180°.
fn wrapped_deg(deg: f64) -> f64 {
    (deg + 180.0).rem_euclid(360.0) - 180.0
}

/// Find the links between the satellites of the fleets, from their positions at the median of their epochs. So the links do not depend on the time for which
/// they are used.
#[must_use]
#[allow(clippy::cast_possible_truncation)] // a file has fewer satellites than 2^32
pub fn mesh(elements: &[Elements], satellites: &[Propagator], fleets: &[LaserFleet]) -> LinkGraph {
    let mut neighbours: Vec<[u32; 4]> = (0..elements.len() as u32).map(|own| [own; 4]).collect();
    let equipped: Vec<usize> = (0..elements.len()).filter(|&index| fleets.iter().any(|fleet| fleet.has(&elements[index]))).collect();
    let mut epochs: Vec<Utc> = equipped.iter().map(|&index| elements[index].epoch).collect();
    epochs.sort_unstable();
    let Some(&at) = epochs.get(epochs.len() / 2) else { return LinkGraph::of_neighbours(neighbours, [&[], &[]]) };
    let mut orbits: Vec<Orbit> = equipped.iter().filter_map(|&index| Orbit::new(index, &elements[index], &satellites[index], at)).collect();
    orbits.sort_by(|a, b| a.raan_deg.total_cmp(&b.raan_deg).then(a.along_deg.total_cmp(&b.along_deg)).then(a.norad_id.cmp(&b.norad_id)));
    let own = |orbit: usize| orbits[orbit].index;
    for (behind, ahead) in links_in_planes(&orbits) {
        neighbours[own(behind)][0] = own(ahead) as u32;
        neighbours[own(ahead)][1] = own(behind) as u32;
    }
    for (west, east) in links_to_the_sides(&orbits) {
        neighbours[own(west)][2] = own(east) as u32;
        neighbours[own(east)][3] = own(west) as u32;
    }
    let by_plane: Vec<u32> = orbits.iter().map(|orbit| orbit.index as u32).collect();
    orbits.sort_by(|a, b| a.along_deg.total_cmp(&b.along_deg).then(a.norad_id.cmp(&b.norad_id)));
    let along: Vec<u32> = orbits.iter().map(|orbit| orbit.index as u32).collect();
    LinkGraph::of_neighbours(neighbours, [&by_plane, &along])
}

/// Iterate over the satellites to the east of `orbits[from]` up to an angle, in order, with the difference in right ascension [deg].
fn eastward(orbits: &[Orbit], from: usize, up_to_deg: f64) -> impl Iterator<Item = (usize, f64)> {
    let count = orbits.len();
    (1..count)
        .map(move |step| (from + step) % count)
        .map(move |other| (other, (orbits[other].raan_deg - orbits[from].raan_deg).rem_euclid(360.0)))
        .take_while(move |&(_, east_deg)| east_deg <= up_to_deg)
}

/// Return the links in planes: pairs (behind, ahead) of satellites that are each other's next.
fn links_in_planes(orbits: &[Orbit]) -> Vec<(usize, usize)> {
    const NONE: (f64, u64, usize) = (f64::INFINITY, 0, 0);
    let (mut ahead, mut behind) = (vec![NONE; orbits.len()], vec![NONE; orbits.len()]);
    let mut offer = |from: usize, to: usize, east_deg: f64| {
        let (a, b) = (&orbits[from], &orbits[to]);
        // The distance along the orbit, as at the points where the planes are nearest.
        let deg = (b.along_deg - a.along_deg + east_deg * a.inclination_deg.to_radians().cos()).rem_euclid(360.0);
        if deg > 0.0 && deg <= a.longest_deg() {
            ahead[from] = nearer(ahead[from], (deg, b.norad_id, to));
            behind[to] = nearer(behind[to], (deg, a.norad_id, from));
        }
    };
    for from in 0..orbits.len() {
        for (to, east_deg) in eastward(orbits, from, PLANE_WIDTH_DEG) {
            if orbits[from].stays_with(&orbits[to]) {
                offer(from, to, east_deg);
                offer(to, from, -east_deg);
            }
        }
    }
    let next = |from: &usize| ahead[*from].0.is_finite() && behind[ahead[*from].2].2 == *from;
    (0..orbits.len()).filter(next).map(|from| (from, ahead[from].2)).collect()
}

/// Return the candidate (angle, number, index) with the smaller angle, of equal ones that with the smaller number.
fn nearer(a: (f64, u64, usize), b: (f64, u64, usize)) -> (f64, u64, usize) {
    if b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)).is_lt() { b } else { a }
}

/// Return the links between planes: pairs (west, east), the nearest first, each satellite once on each side.
fn links_to_the_sides(orbits: &[Orbit]) -> Vec<(usize, usize)> {
    let mut pairs: Vec<(f64, usize, usize)> = Vec::new();
    for (west, orbit) in orbits.iter().enumerate() {
        let longest_deg = orbit.longest_deg();
        let widest_deg = (longest_deg / orbit.inclination_deg.to_radians().sin().abs()).min(90.0);
        let mut near: Vec<(f64, usize, usize)> = eastward(orbits, west, widest_deg)
            .filter(|&(_, east_deg)| east_deg > PLANE_WIDTH_DEG)
            .filter(|&(east, _)| orbit.stays_with(&orbits[east]))
            .map(|(east, east_deg)| (orbit.separation_deg(east_deg, &orbits[east]), west, east))
            .filter(|&(deg, ..)| deg <= longest_deg)
            .collect();
        near.sort_by(|a, b| a.0.total_cmp(&b.0).then(orbits[a.2].norad_id.cmp(&orbits[b.2].norad_id)));
        near.truncate(SIDE_CANDIDATES);
        pairs.append(&mut near);
    }
    let names = |pair: &(f64, usize, usize)| (orbits[pair.1].norad_id, orbits[pair.2].norad_id);
    pairs.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| names(a).cmp(&names(b))));
    let (mut has_east, mut has_west) = (vec![false; orbits.len()], vec![false; orbits.len()]);
    pairs.retain(|&(_, west, east)| {
        let free = !has_east[west] && !has_west[east];
        if free {
            (has_east[west], has_west[east]) = (true, true);
        }
        free
    });
    pairs.into_iter().map(|(_, west, east)| (west, east)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elements::read_elements;
    use crate::shared_data::shared_data;
    use crate::walker::WalkerShell;

    const AT: Utc = Utc(1_778_403_600_000_000_000);

    fn fleet() -> Vec<LaserFleet> {
        vec![LaserFleet { name_prefix: "S".to_owned(), since: "2021-082".to_owned(), also: vec!["2021-006".to_owned()] }]
    }

    fn linked(elements: &[Elements]) -> Vec<(usize, usize)> {
        mesh(elements, &Propagator::all(elements).unwrap(), &fleet()).links()
    }

    /// The built-in shell, read as elements, has the links of its +Grid.
    #[test]
    fn a_whole_shell_has_the_grid_of_its_nearest_slots() {
        let shell = WalkerShell {
            name: "S".to_owned(),
            raan_spread_deg: 360.0,
            altitude_km: 550.0,
            inclination_deg: 53.0,
            planes: 72,
            per_plane: 22,
            phasing: 65.0,
            first_raan_deg: 0.0,
            first_norad_id: 1,
        };
        let elements = shell.elements(AT).unwrap();
        assert_eq!(linked(&elements), shell.nearest_grid().unwrap().links());
    }

    #[test]
    fn satellites_without_lasers_have_no_links() {
        let has = |name: &str, designator: Option<&str>| {
            let elements = Elements {
                name: name.to_owned(),
                norad_id: 1,
                designator: designator.map(str::to_owned),
                epoch: AT,
                mean_motion_rev_day: 15.0,
                eccentricity: 0.0,
                inclination_deg: 53.0,
                raan_deg: 0.0,
                arg_perigee_deg: 0.0,
                mean_anomaly_deg: 0.0,
                bstar_per_er: 0.0,
            };
            fleet()[0].has(&elements)
        };
        assert!(has("STARLINK-1", None) && has("starlink-3000", Some("2021-082A")) && has("S", Some("2024-001AB")));
        assert!(has("STARLINK-2000", Some("2021-006BG")));
        assert!(!has("STARLINK-2500", Some("2021-044C")) && !has("ONEWEB-1", Some("2024-001A")));
        assert_eq!(mesh(&[], &[], &fleet()).links(), []);
    }

    /// Links of Starlink's elements: four at most, symmetric, short enough, above the atmosphere, and nearly all satellites have some.
    #[test]
    fn real_satellites_are_linked_within_range() {
        let Some(path) = shared_data("serving_satellite_louvain/starlink_gp.tle") else { return };
        let elements = read_elements(&std::fs::read(path).unwrap(), "starlink_gp.tle").unwrap();
        let satellites = Propagator::all(&elements).unwrap();
        let fleets = [LaserFleet { name_prefix: "STARLINK".to_owned(), ..fleet()[0].clone() }];
        let links = mesh(&elements, &satellites, &fleets).links();
        let mut count = vec![0_usize; elements.len()];
        for &(a, b) in &links {
            let [p, q] = [a, b].map(|index| satellites[index].state(elements[a].epoch).unwrap().position_km);
            let (length, lowest) = (crate::frames::norm(crate::frames::sub(p, q)), crate::isl::lowest_point_km(p, q));
            // The satellites have hours between their epochs.
            assert!(
                length < LONGEST_LINK_KM + 500.0 && lowest > 0.0,
                "{} – {}: {length} km, {lowest} km up",
                elements[a].name,
                elements[b].name
            );
            count[a] += 1;
            count[b] += 1;
        }
        assert!(count.iter().all(|&links| links <= 4));
        let equipped = elements.iter().filter(|satellite| fleets[0].has(satellite)).count();
        let with_four = count.iter().filter(|&&links| links == 4).count();
        let alone = equipped - count.iter().filter(|&&links| links > 0).count();
        eprintln!("{equipped} of {} carry lasers: {} links, {with_four} satellites have four, {alone} none", elements.len(), links.len());
        assert!(with_four * 10 > equipped * 7 && alone * 20 < equipped, "{with_four} {alone} of {equipped}");
    }
}
