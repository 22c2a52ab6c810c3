//! Inter-satellite links as a +Grid, and the check that none passes through the Earth.

use crate::error::OrbitError;
use crate::frames::{WGS84_RADIUS_KM, dot, sub};
use crate::propagate::Propagator;

/// Lowest height at which a link may pass [km]: below it water vapour and clouds absorb light.
///
/// Source: Hypatia (Kassing et al., "Exploring the 'Internet from space' with Hypatia", IMC 2020), whose generators use 80 km.
pub const DEFAULT_LOWEST_LINK_KM: f64 = 80.0;

/// A +Grid over satellites in plane-major order: satellite s of plane p is linked to s ± 1 of its own plane and to s of planes p ± 1, both wrapping
/// around. Several grids make a constellation of several shells, each linked within itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlusGrid {
    first: usize,
    planes: usize,
    per_plane: usize,
}

impl PlusGrid {
    /// A grid of `planes` × `per_plane` over all of `satellites`.
    ///
    /// # Errors
    /// [`OrbitError::GridSize`] where the product is another number, or none.
    pub fn new(planes: usize, per_plane: usize, satellites: usize) -> Result<Self, OrbitError> {
        let wanted = planes.saturating_mul(per_plane);
        if wanted != satellites || wanted == 0 {
            return Err(OrbitError::GridSize { planes, per_plane, wanted, found: satellites });
        }
        Ok(Self { first: 0, planes, per_plane })
    }

    /// The same grid over the satellites from `first` on.
    #[must_use]
    pub fn starting_at(self, first: usize) -> Self {
        Self { first, ..self }
    }

    /// The four neighbours of a satellite of the grid: fore, aft, east, west. In a grid of one or two planes or slots some are the same or the
    /// satellite itself.
    #[must_use]
    pub fn neighbours(&self, satellite: usize) -> [usize; 4] {
        let (planes, slots) = (self.planes, self.per_plane);
        let (p, s) = ((satellite - self.first) / slots, (satellite - self.first) % slots);
        let at = |plane: usize, slot: usize| self.first + plane * slots + slot;
        [at(p, (s + 1) % slots), at(p, (s + slots - 1) % slots), at((p + 1) % planes, s), at((p + planes - 1) % planes, s)]
    }

    /// Number of planes.
    #[must_use]
    pub fn planes(&self) -> usize {
        self.planes
    }

    /// Satellites in a plane.
    #[must_use]
    pub fn per_plane(&self) -> usize {
        self.per_plane
    }

    /// The satellites of the grid.
    #[must_use]
    pub fn satellites(&self) -> std::ops::Range<usize> {
        self.first..self.first + self.planes * self.per_plane
    }

    /// Every link once, the smaller number first, in order.
    #[must_use]
    pub fn links(&self) -> Vec<(usize, usize)> {
        let mut links: Vec<(usize, usize)> =
            self.satellites().flat_map(|a| self.neighbours(a).into_iter().filter(move |&b| a < b).map(move |b| (a, b))).collect();
        links.sort_unstable();
        links.dedup();
        links
    }
}

/// Lowest height of the straight line between two positions above the sphere of equatorial radius [km].
#[must_use]
pub fn lowest_point_km(a_km: [f64; 3], b_km: [f64; 3]) -> f64 {
    let d = sub(b_km, a_km);
    let length_2 = dot(d, d);
    let t = if length_2 > 0.0 { (-dot(a_km, d) / length_2).clamp(0.0, 1.0) } else { 0.0 };
    let p = [a_km[0] + t * d[0], a_km[1] + t * d[1], a_km[2] + t * d[2]];
    dot(p, p).sqrt() - WGS84_RADIUS_KM
}

/// Refuses links that pass below `lowest_km` at the given positions. A satellite without a position (NaN) has no links.
///
/// # Errors
/// [`OrbitError::LinkThroughEarth`] for the first such link.
pub fn check_links(
    links: &[(usize, usize)],
    positions_km: &[[f64; 3]],
    satellites: &[Propagator],
    lowest_km: f64,
) -> Result<(), OrbitError> {
    for &(a, b) in links {
        let height = lowest_point_km(positions_km[a], positions_km[b]);
        if height < lowest_km {
            return Err(OrbitError::LinkThroughEarth {
                from: satellites[a].name().to_owned(),
                to: satellites[b].name().to_owned(),
                lowest_km: height,
                wanted_km: lowest_km,
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn wraps_with_the_same_slot() {
        let grid = PlusGrid::new(72, 22, 1584).unwrap();
        assert_eq!(grid.neighbours(0), [1, 21, 22, 71 * 22]);
        assert_eq!(grid.neighbours(71 * 22 + 3), [71 * 22 + 4, 71 * 22 + 2, 3, 70 * 22 + 3]);
        assert_eq!(grid.links().len(), 2 * 1584);
        assert!(matches!(PlusGrid::new(72, 22, 1583), Err(OrbitError::GridSize { wanted: 1584, found: 1583, .. })));
    }

    #[test]
    fn the_far_side_is_through_the_earth() {
        assert!((lowest_point_km([7000.0, 0.0, 0.0], [-7000.0, 1.0, 0.0]) + WGS84_RADIUS_KM).abs() < 1.0);
        assert!((lowest_point_km([7000.0, 0.0, 0.0], [7000.0, 0.0, 0.0]) - (7000.0 - WGS84_RADIUS_KM)).abs() < 1e-9);
    }

    proptest! {
        #[test]
        fn links_are_symmetric(planes in 1_usize..15, per_plane in 1_usize..15, first in 0_usize..20) {
            let grid = PlusGrid::new(planes, per_plane, planes * per_plane).unwrap().starting_at(first);
            for a in grid.satellites() {
                for b in grid.neighbours(a) {
                    prop_assert!(grid.neighbours(b).contains(&a), "{} {}", a, b);
                }
            }
        }
    }
}
