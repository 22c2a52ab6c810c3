//! Shortest paths between all pairs of ground stations over a constellation.

use super::{Distances, LinkGraph, Network, Stations};
use crate::ephemeris::{EcefBlock, TIMES_PER_BLOCK};
use crate::error::OrbitError;
use crate::frames::LIGHT_KM_S;
use crate::isl::check_links;
use crate::site::Site;
use bentpipe_profile::Utc;
use rayon::prelude::*;

/// Number of sources whose distances are computed together: eight doubles are one to four vector registers.
const LANES: usize = 8;

/// Shortest paths between all pairs of stations at one time.
#[derive(Clone, Debug, PartialEq)]
pub struct AllPairs {
    stations: usize,
    rtt_ms: Vec<f64>,
    hops: Vec<u32>,
}

impl AllPairs {
    /// Return the number of stations.
    #[must_use]
    pub fn stations(&self) -> usize {
        self.stations
    }

    /// Return the RTTs [ms] as a matrix (row `from`, column `to`); infinite: unreachable; zero from a site to itself.
    #[must_use]
    pub fn rtt_ms(&self) -> &[f64] {
        &self.rtt_ms
    }

    /// Return the number of links one way, as a matrix in the same order; zero if unreachable and from a site to itself.
    #[must_use]
    pub fn hops(&self) -> &[u32] {
        &self.hops
    }
}

/// Buffers of one worker thread, reused for each time.
struct Worker {
    graph: LinkGraph,
    block: EcefBlock,
    distances: Distances<LANES>,
    visible: Vec<Vec<(u32, f64)>>,
}

/// Compute all pairs of `sites` at each of `times`, on every core of the current pool.
///
/// # Errors
/// [`OrbitError::LinkThroughEarth`] at the first time when a link passes too low.
pub fn all_pairs(network: &Network<'_>, sites: &[Site], times: &[Utc]) -> Result<Vec<AllPairs>, OrbitError> {
    let stations = Stations::new(sites, network.min_elevation_deg);
    let links = network.links();
    let graph = LinkGraph::new(network.grids, network.satellites.len());
    let new_worker = || Worker {
        graph: graph.clone(),
        block: EcefBlock::default(),
        distances: Distances::default(),
        visible: vec![Vec::new(); stations.len()],
    };
    let blocks: Vec<Vec<AllPairs>> = times
        .par_chunks(TIMES_PER_BLOCK)
        .map_init(new_worker, |worker, times| {
            worker.block.fill(network.satellites, times);
            (0..times.len())
                .map(|time| {
                    check_links(&links, worker.block.at(time), network.satellites, network.lowest_link_km)?;
                    Ok(worker.step(&stations, sites, time))
                })
                .collect::<Result<_, OrbitError>>()
        })
        .collect::<Result<_, OrbitError>>()?;
    Ok(blocks.into_iter().flatten().collect())
}

impl Worker {
    /// Compute all pairs at one time of the block.
    fn step(&mut self, stations: &Stations, sites: &[Site], time: usize) -> AllPairs {
        let n = stations.len();
        let positions = self.block.at(time);
        self.graph.measure(positions);
        for (station, visible) in self.visible.iter_mut().enumerate() {
            stations.visible(station, positions, visible);
        }
        let mut pairs = AllPairs { stations: n, rtt_ms: vec![f64::INFINITY; n * n], hops: vec![0; n * n] };
        for first in (0..n).step_by(LANES) {
            let sources = std::array::from_fn(|lane| self.visible.get(first + lane).map_or(&[] as &[_], Vec::as_slice));
            self.distances.run(&self.graph, sources);
            for from in first..(first + LANES).min(n) {
                pairs.rtt_ms[from * n + from] = 0.0;
                // Paths are symmetric, so only the upper triangle is computed.
                for to in from + 1..n {
                    if sites[from] == sites[to] {
                        pairs.rtt_ms[from * n + to] = 0.0;
                        pairs.rtt_ms[to * n + from] = 0.0;
                    } else if let Some((satellite, km)) = super::nearest(&self.distances, from - first, &self.visible[to]) {
                        let hops = self.distances.hops(&self.graph, from - first, satellite);
                        for at in [from * n + to, to * n + from] {
                            pairs.rtt_ms[at] = 2.0 * km / LIGHT_KM_S * 1000.0;
                            pairs.hops[at] = hops;
                        }
                    }
                }
            }
        }
        pairs
    }
}
