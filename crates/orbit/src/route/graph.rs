//! Shortest paths over inter-satellite links, for several sources at once.
//!
//! A +Grid is a torus, and shortest paths on it rarely turn back. Distances are therefore relaxed in sweeps over the grid in its four diagonal directions
//! (fast sweeping: Zhao, Math. Comp. 74, 2005, on the Gauss–Seidel form of Bellman–Ford). A sweep computes every path along its direction from end to end,
//! and after about two rounds nothing changes. A sweep without a change proves that no link shortens any path, so the result is exact, as with Dijkstra's
//! algorithm. A sweep has no branches to mispredict and processes the sources of [`Distances`] as lanes of a vector. For a hundred sources on 1584
//! satellites it is five times as fast as Dijkstra with distance buckets (1.0 against 5.9 ms, measured when this was written).

use crate::frames::{norm, sub};
use crate::isl::{PlusGrid, lowest_point_km};
use crate::simd::widest;

/// Number of links of a satellite in a +Grid.
const DEGREE: usize = 4;

/// The links between satellites, with their current lengths.
#[derive(Clone, Debug)]
pub struct LinkGraph {
    neighbours: Vec<[u32; DEGREE]>,
    length_km: Vec<[f64; DEGREE]>,
    /// Linked satellites in the order of each sweep.
    sweeps: [Vec<u32>; 4],
    cuts_low_links: bool,
}

/// Distances from `L` sources to every satellite. Reuses its memory.
#[derive(Clone, Debug, Default)]
pub struct Distances<const L: usize> {
    km: Vec<[f64; L]>,
}

impl LinkGraph {
    /// Create the graph of the links of `grids`. A satellite in no grid has no links, and paths over it are bent pipes.
    ///
    /// # Panics
    /// With over four billion satellites.
    #[must_use]
    pub fn new(grids: &[PlusGrid], satellites: usize) -> Self {
        let id = |n: usize| u32::try_from(n).expect("fewer satellites than 2^32");
        let mut neighbours: Vec<_> = (0..satellites).map(|s| [id(s); DEGREE]).collect();
        for grid in grids {
            for satellite in grid.satellites() {
                neighbours[satellite] = grid.neighbours(satellite).map(id);
            }
        }
        let order = |plane_down: bool, slot_down: bool| -> Vec<u32> {
            let turned = |all: &mut dyn DoubleEndedIterator<Item = usize>, down: bool| -> Vec<usize> {
                if down { all.rev().collect() } else { all.collect() }
            };
            let of_grid =
                |grid: &PlusGrid| turned(&mut (0..grid.planes()), plane_down).into_iter().map(|plane| (*grid, plane)).collect::<Vec<_>>();
            let planes = grids.iter().flat_map(of_grid);
            planes.flat_map(|(grid, plane)| turned(&mut grid.plane(plane), slot_down)).map(id).collect()
        };
        let sweeps =
            [(false, false), (true, true), (false, true), (true, false)].map(|(plane_down, slot_down)| order(plane_down, slot_down));
        Self { neighbours, length_km: vec![[f64::INFINITY; DEGREE]; satellites], sweeps, cuts_low_links: false }
    }

    /// Create the graph of given links: for each satellite its neighbours, itself where there is none. `orders`: the linked satellites in two orders in which
    /// paths lead over them, for the sweeps. Links that pass too low are cut ([`LinkGraph::cut_low_links`]) instead of refused.
    #[must_use]
    pub fn of_neighbours(neighbours: Vec<[u32; DEGREE]>, orders: [&[u32]; 2]) -> Self {
        let reversed = |order: &[u32]| order.iter().rev().copied().collect();
        let sweeps = [orders[0].to_vec(), reversed(orders[0]), orders[1].to_vec(), reversed(orders[1])];
        Self { length_km: vec![[f64::INFINITY; DEGREE]; neighbours.len()], neighbours, sweeps, cuts_low_links: true }
    }

    /// Return whether links that pass too low are to be cut.
    #[must_use]
    pub const fn cuts_low_links(&self) -> bool {
        self.cuts_low_links
    }

    /// Make links that pass below `lowest_km` at these positions unusable until the next [`LinkGraph::measure`].
    pub fn cut_low_links(&mut self, positions_km: &[[f64; 3]], lowest_km: f64) {
        for ((lengths, neighbours), &a) in self.length_km.iter_mut().zip(&self.neighbours).zip(positions_km) {
            for (length, &n) in lengths.iter_mut().zip(neighbours) {
                if lowest_point_km(a, positions_km[n as usize]) < lowest_km {
                    *length = f64::INFINITY;
                }
            }
        }
    }

    /// Return every link once, the smaller index first, in order.
    #[must_use]
    pub fn links(&self) -> Vec<(usize, usize)> {
        let ends = self.neighbours.iter().enumerate();
        let mut links: Vec<_> = ends.flat_map(|(a, to)| to.iter().map(move |&b| (a, b as usize)).filter(|&(a, b)| a < b)).collect();
        links.sort_unstable();
        links.dedup();
        links
    }

    /// Compute the length of every link at these positions. A link to a satellite without a position (NaN) is never used.
    pub fn measure(&mut self, positions_km: &[[f64; 3]]) {
        for ((lengths, neighbours), a) in self.length_km.iter_mut().zip(&self.neighbours).zip(positions_km) {
            for (length, &n) in lengths.iter_mut().zip(neighbours) {
                let b = positions_km[n as usize];
                *length = norm(sub(*a, b));
            }
        }
    }
}

/// Sweeps until nothing changes, as a closure for [`widest`].
struct Sweeps<'a, const L: usize> {
    distances: &'a mut Distances<L>,
    graph: &'a LinkGraph,
}

impl<const L: usize> pulp::NullaryFnOnce for Sweeps<'_, L> {
    type Output = ();

    #[inline(always)]
    #[allow(clippy::inline_always, reason = "see simd.rs")]
    fn call(self) {
        for order in self.graph.sweeps.iter().cycle() {
            if !self.distances.sweep(self.graph, order) {
                return;
            }
        }
    }
}

impl<const L: usize> Distances<L> {
    /// Compute the distances from the sources. `entries`: for each source, the satellites that it reaches directly and their ranges [km].
    pub fn run(&mut self, graph: &LinkGraph, entries: [&[(u32, f64)]; L]) {
        self.km.clear();
        self.km.resize(graph.neighbours.len(), [f64::INFINITY; L]);
        for (lane, direct) in entries.into_iter().enumerate() {
            for &(satellite, km) in direct {
                self.km[satellite as usize][lane] = km;
            }
        }
        widest(Sweeps { distances: self, graph });
    }

    /// Relax every satellite once. Returns whether any distance changed.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "see simd.rs")]
    fn sweep(&mut self, graph: &LinkGraph, order: &[u32]) -> bool {
        let mut changed = [0_u64; L];
        for &satellite in order {
            let old = self.km[satellite as usize];
            let mut best = old;
            for (&n, &length) in graph.neighbours[satellite as usize].iter().zip(&graph.length_km[satellite as usize]) {
                let there = &self.km[n as usize];
                for lane in 0..L {
                    let through = there[lane] + length;
                    best[lane] = if through < best[lane] { through } else { best[lane] };
                }
            }
            for lane in 0..L {
                changed[lane] |= best[lane].to_bits() ^ old[lane].to_bits();
            }
            self.km[satellite as usize] = best;
        }
        changed.iter().any(|&c| c != 0)
    }

    /// Return the distance from source `lane` to a satellite [km]; infinite: there is no path.
    #[must_use]
    pub fn km(&self, lane: usize, satellite: u32) -> f64 {
        self.km[satellite as usize][lane]
    }

    /// Return the satellite before `satellite` on the path from source `lane`: the neighbour whose distance and link add up to this one's distance, bit
    /// for bit, as when it was set. Of several, the first in the order fore, aft, east, west. `None`: the source reaches the satellite directly.
    fn before(&self, graph: &LinkGraph, lane: usize, satellite: u32) -> Option<u32> {
        let km = self.km(lane, satellite);
        let links = graph.neighbours[satellite as usize].iter().zip(&graph.length_km[satellite as usize]);
        links
            .map(|(&n, &length)| (n, self.km(lane, n), length))
            .find(|&(_, there, length)| there < km && (there + length).to_bits() == km.to_bits())
            .map(|(n, ..)| n)
    }

    /// Return the number of links from ground to ground if `satellite` is the last one of the path from source `lane`.
    #[must_use]
    pub fn hops(&self, graph: &LinkGraph, lane: usize, satellite: u32) -> u32 {
        let (mut hops, mut at) = (2, satellite);
        while let Some(before) = self.before(graph, lane, at) {
            at = before;
            hops += 1;
        }
        hops
    }

    /// Return the path's satellites, from the first one that source `lane` reaches to `satellite`.
    #[must_use]
    pub fn path(&self, graph: &LinkGraph, lane: usize, satellite: u32) -> Vec<u32> {
        let mut path = vec![satellite];
        while let Some(before) = self.before(graph, lane, path[path.len() - 1]) {
            path.push(before);
        }
        path.reverse();
        path
    }
}
