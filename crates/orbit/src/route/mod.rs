//! Shortest routes over satellites: ground station – satellite – (inter-satellite links) – satellite – ground station.
//!
//! Conventions: WGS84 ellipsoid, UTC as UT1, IAU 1982 sidereal time, no polar motion, SGP4 with WGS72; a station sees satellites above the elevation mask,
//! measured from the ellipsoid's horizontal plane; light travels straight at c in vacuum; processing takes no time. Ground stations do not relay.

mod constellation;
mod graph;
mod stations;

use crate::ephemeris::{EcefBlock, TIMES_PER_BLOCK};
use crate::error::{OrbitError, in_range};
use crate::frames::LIGHT_KM_S;
use crate::isl::{DEFAULT_LOWEST_LINK_KM, PlusGrid, check_links};
use crate::propagate::Propagator;
use crate::site::Site;
use bentpipe_profile::Utc;
use rayon::prelude::*;

pub use constellation::{AllPairs, all_pairs};
pub use graph::{Distances, LinkGraph};
pub use stations::Stations;

/// Satellites and the links between them.
#[derive(Clone, Copy, Debug)]
pub struct Network<'a> {
    satellites: &'a [Propagator],
    grids: &'a [PlusGrid],
    min_elevation_deg: f64,
    lowest_link_km: f64,
}

impl<'a> Network<'a> {
    /// Create a network. Without grids a path has one satellite (bent pipe). The minimum height of links is [`DEFAULT_LOWEST_LINK_KM`].
    ///
    /// # Errors
    /// [`OrbitError::OutOfRange`] for an elevation outside 0…90°, [`OrbitError::GridSize`] for a grid beyond the satellites.
    pub fn new(satellites: &'a [Propagator], grids: &'a [PlusGrid], min_elevation_deg: f64) -> Result<Self, OrbitError> {
        in_range("lowest elevation", min_elevation_deg, 0.0..=90.0, "0 to 90 degrees")?;
        if let Some(grid) = grids.iter().find(|g| g.satellites().end > satellites.len()) {
            return Err(OrbitError::GridSize {
                planes: grid.planes(),
                per_plane: grid.per_plane(),
                grid_satellites: grid.satellites().len(),
                satellites: satellites.len(),
            });
        }
        Ok(Self { satellites, grids, min_elevation_deg, lowest_link_km: DEFAULT_LOWEST_LINK_KM })
    }

    /// Return every link once.
    fn links(&self) -> Vec<(usize, usize)> {
        self.grids.iter().flat_map(PlusGrid::links).collect()
    }
}

/// The shortest path at one time.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// Length from ground to ground, one way [km].
    pub path_km: f64,
    /// The satellites in order, as indices in the elements.
    pub satellites: Vec<u32>,
}

impl Route {
    /// Return the RTT: twice the path at the speed of light [ms].
    #[must_use]
    pub fn rtt_ms(&self) -> f64 {
        2.0 * self.path_km / LIGHT_KM_S * 1000.0
    }

    /// Return the number of links one way: up, between satellites, down; 0 if both ends are the same site.
    #[must_use]
    pub fn hops(&self) -> usize {
        if self.satellites.is_empty() { 0 } else { self.satellites.len() + 1 }
    }
}

/// Compute the shortest routes between two sites at each of `times`, on every core; `None`: there is no route. A route from a site to itself has no
/// satellite, no link and zero kilometres.
///
/// # Errors
/// [`OrbitError::LinkThroughEarth`] at the first time when a link passes too low.
pub fn routes(network: &Network<'_>, from: Site, to: Site, times: &[Utc]) -> Result<Vec<Option<Route>>, OrbitError> {
    if from == to {
        return Ok(vec![Some(Route { path_km: 0.0, satellites: Vec::new() }); times.len()]);
    }
    let stations = Stations::new(&[from, to], network.min_elevation_deg);
    let links = network.links();
    let graph = LinkGraph::new(network.grids, network.satellites.len());
    let blocks: Vec<Vec<Option<Route>>> = times
        .par_chunks(TIMES_PER_BLOCK)
        .map_init(
            || (graph.clone(), EcefBlock::default(), Distances::<1>::default(), Vec::new(), Vec::new()),
            |(graph, block, distances, up, down), times| {
                block.fill(network.satellites, times);
                (0..times.len())
                    .map(|time| {
                        let positions = block.at(time);
                        check_links(&links, positions, network.satellites, network.lowest_link_km)?;
                        stations.visible(0, positions, up);
                        stations.visible(1, positions, down);
                        graph.measure(positions);
                        distances.run(graph, [up]);
                        Ok(nearest(distances, 0, down)
                            .map(|(satellite, path_km)| Route { path_km, satellites: distances.path(graph, 0, satellite) }))
                    })
                    .collect::<Result<_, OrbitError>>()
            },
        )
        .collect::<Result<_, OrbitError>>()?;
    Ok(blocks.into_iter().flatten().collect())
}

/// Return the last satellite of the shortest path to a station that sees `down`, and the path's length [km].
fn nearest<const L: usize>(distances: &Distances<L>, lane: usize, down: &[(u32, f64)]) -> Option<(u32, f64)> {
    down.iter()
        .map(|&(satellite, range)| (satellite, distances.km(lane, satellite) + range))
        .filter(|(_, km)| km.is_finite())
        .min_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)))
}

#[cfg(test)]
mod tests;
