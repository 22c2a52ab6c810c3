//! Where the proxies of a network stand, and when their state moves.

use super::Options;
use crate::links::lossy_links;
use bentpipe_link::{Network, NetworkError};
use bentpipe_profile::{NetworkSpec, Path, Time};
use std::collections::BTreeSet;

/// The proxies of every path.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The scheme's options.
    pub options: Options,
    /// For each path.
    pub paths: Vec<PathPlan>,
}

/// The proxies of one path, counted from the terminal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathPlan {
    /// For each route, the number of hops between the terminal and each proxy.
    pub places: Vec<Vec<u16>>,
    /// Which proxy is on the terminal's satellite; `None`: none is.
    pub satellite: Option<usize>,
    /// When the path leaves that satellite for the next, in order.
    pub moves: Vec<Time>,
}

impl PathPlan {
    /// Return the number of proxies.
    #[must_use]
    pub fn proxies(&self) -> usize {
        self.places.iter().map(Vec::len).max().unwrap_or_default()
    }
}

impl Plan {
    /// Plan the proxies of a network. A path's satellite links are those that can lose packets; a proxy stands before the first (at the dish), behind the first
    /// (on the satellite), and behind the last (at the ground station), where the path goes on there on all its routes.
    #[must_use]
    pub fn new(spec: &NetworkSpec, options: Options) -> Self {
        let lossy = lossy_links(spec);
        Self { options, paths: spec.paths().iter().map(|path| plan_of(path, &lossy)).collect() }
    }

    /// Let the packets of each path leave the network at its proxies.
    ///
    /// # Errors
    /// A network that carries packets or has stops already.
    pub fn set_stops(&self, network: &mut Network) -> Result<(), NetworkError> {
        let mut with_proxies = self.paths.iter().enumerate().filter(|(_, path)| path.proxies() > 0);
        with_proxies.try_for_each(|(number, path)| network.set_stops(number, &path.places))
    }
}

#[allow(clippy::cast_possible_truncation)] // the network refuses more than 2^16 hops
fn plan_of(path: &Path, lossy: &BTreeSet<usize>) -> PathPlan {
    let is_lossy = |hop: &usize| lossy.contains(&path.hops[*hop].link);
    // On each route: the place before the first satellite link, behind it, and behind the last one.
    let candidates: Vec<Option<[usize; 3]>> = path
        .routes
        .iter()
        .map(|route| {
            let first = route.hops.iter().position(is_lossy)?;
            let last = route.hops.iter().rposition(is_lossy)?;
            Some([first, first + 1, last + 1])
        })
        .collect();
    let routes = || path.routes.iter().zip(&candidates).filter(|(route, _)| !route.hops.is_empty());
    let mut kept: Vec<usize> = Vec::new();
    for candidate in 0..3 {
        let is_place = routes().all(|(route, places)| {
            places.is_some_and(|places| {
                let place = places[candidate];
                place > 0 && place < route.hops.len() && kept.iter().all(|&other| places[other] < place)
            })
        });
        if is_place {
            kept.push(candidate);
        }
    }
    let places_of = |places: &Option<[usize; 3]>| {
        places.map_or_else(Vec::new, |places| kept.iter().map(|&candidate| places[candidate] as u16).collect())
    };
    let places = candidates.iter().map(places_of).collect();
    let satellite = kept.iter().position(|&candidate| candidate == 1);
    let first_links = routes().filter_map(|(route, places)| places.map(|places| (route.at_ns, route.hops[places[0]])));
    let first_links: Vec<_> = first_links.collect();
    let changes = first_links.windows(2).filter(|pair| pair[0].1 != pair[1].1).map(|pair| pair[1].0);
    PathPlan { places, satellite, moves: if satellite.is_some() { changes.collect() } else { Vec::new() } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mpep::ENTRY;
    use crate::testing::{MS, migrating, two_satellites};
    use bentpipe_profile::Streams;
    use bentpipe_profile::options::OptionValues;
    use bentpipe_profile::tunables::OptionSet;

    fn plan(spec: &NetworkSpec) -> Plan {
        Plan::new(spec, Options::read(&ENTRY.declared().check(&OptionValues::new()).unwrap()))
    }

    #[test]
    fn proxies_stand_on_the_satellite_and_at_the_ground_station_and_move_at_handovers() {
        let spec = two_satellites(0, &[(30, 5), (20, 5)], migrating, false);
        let plan = plan(&spec);
        let expected = PathPlan { places: vec![vec![1, 2]; 3], satellite: Some(0), moves: vec![Time(30 * MS), Time(50 * MS)] };
        assert_eq!(plan.paths, [expected]);
        let mut network = Network::new(&spec, Streams::new(1)).unwrap();
        plan.set_stops(&mut network).unwrap();
        let error = plan.set_stops(&mut network).unwrap_err().to_string();
        assert_eq!(error, "stops of path 0: it has stops already; expected stops that are set once");
    }

    #[test]
    fn a_path_that_loses_nothing_has_no_proxies() {
        assert_eq!(plan(&two_satellites(0, &[], migrating, false)).paths[0].proxies(), 0);
    }
}
