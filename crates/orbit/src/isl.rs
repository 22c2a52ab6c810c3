//! Inter-satellite links (ISLs) in a +Grid, and the check that none passes through the Earth.

use crate::error::OrbitError;
use crate::frames::{WGS84_RADIUS_KM, dot, sub};
use crate::propagate::Propagator;

/// Minimum height of a link above the Earth [km]: below it water vapour and clouds absorb light.
///
/// Source: Hypatia (Kassing et al., "Exploring the 'Internet from space' with Hypatia", IMC 2020), whose generators use 80 km.
pub const DEFAULT_LOWEST_LINK_KM: f64 = 80.0;

/// A +Grid over satellites in plane-major order. Satellite s of plane p has links to s ± 1 of its own plane and to one satellite each of planes p ± 1, both
/// wrapping around: to the same s, or shifted ([`PlusGrid::shifted`]). A constellation of several shells has one grid per shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlusGrid {
    first: usize,
    planes: usize,
    per_plane: usize,
    /// Satellite s has its eastern link to s plus this, modulo `per_plane`.
    shift: usize,
    /// The same from the last plane to the first.
    seam_shift: usize,
    /// Whether planes have no links between them.
    rings: bool,
}

impl PlusGrid {
    /// Create a grid of `planes` × `per_plane` over all of `satellites`.
    ///
    /// # Errors
    /// [`OrbitError::GridSize`] if the product is another number or zero.
    pub fn new(planes: usize, per_plane: usize, satellites: usize) -> Result<Self, OrbitError> {
        let grid_satellites = planes.saturating_mul(per_plane);
        if grid_satellites != satellites || grid_satellites == 0 {
            return Err(OrbitError::GridSize { planes, per_plane, grid_satellites, satellites });
        }
        Ok(Self { first: 0, planes, per_plane, shift: 0, seam_shift: 0, rings: false })
    }

    /// Return the same grid over the satellites from `first` on.
    #[must_use]
    pub fn starting_at(self, first: usize) -> Self {
        Self { first, ..self }
    }

    /// Return the same grid with its links between planes shifted: satellite s has its eastern link to s + `shift`, across the seam to s + `seam_shift`.
    #[must_use]
    #[allow(clippy::cast_possible_wrap, clippy::cast_sign_loss, clippy::cast_possible_truncation)] // a plane has far fewer than 2^63 satellites
    pub fn shifted(self, shift: i64, seam_shift: i64) -> Self {
        let slots = |shift: i64| shift.rem_euclid(self.per_plane as i64) as usize;
        Self { shift: slots(shift), seam_shift: slots(seam_shift), ..self }
    }

    /// Return the same grid without links between planes.
    #[must_use]
    pub fn in_rings(self) -> Self {
        Self { rings: true, ..self }
    }

    /// Return whether planes have no links between them.
    #[must_use]
    pub fn has_only_rings(&self) -> bool {
        self.rings
    }

    /// Return the four neighbours of a satellite of the grid: fore, aft, east, west. In a grid of one or two planes or slots, or of rings, some are equal or
    /// the satellite itself.
    #[must_use]
    pub fn neighbours(&self, satellite: usize) -> [usize; 4] {
        let (planes, slots) = (self.planes, self.per_plane);
        let (p, s) = ((satellite - self.first) / slots, (satellite - self.first) % slots);
        let at = |plane: usize, slot: usize| self.first + plane * slots + slot % slots;
        if self.rings {
            return [at(p, s + 1), at(p, s + slots - 1), satellite, satellite];
        }
        let east = if p + 1 == planes { self.seam_shift } else { self.shift };
        let west = if p == 0 { self.seam_shift } else { self.shift };
        [at(p, s + 1), at(p, s + slots - 1), at((p + 1) % planes, s + east), at((p + planes - 1) % planes, s + slots - west)]
    }

    /// Return the satellites of a plane in the order of their slots, from the one that links of the planes before connect to slot 0 of plane 0.
    pub(crate) fn plane(&self, plane: usize) -> impl DoubleEndedIterator<Item = usize> + use<> {
        let (first, slots, start) = (self.first + plane * self.per_plane, self.per_plane, plane * self.shift);
        (0..slots).map(move |slot| first + (start + slot) % slots)
    }

    /// Return the number of planes.
    #[must_use]
    pub fn planes(&self) -> usize {
        self.planes
    }

    /// Return the number of satellites in a plane.
    #[must_use]
    pub fn per_plane(&self) -> usize {
        self.per_plane
    }

    /// Return the satellites of the grid.
    #[must_use]
    pub fn satellites(&self) -> std::ops::Range<usize> {
        self.first..self.first + self.planes * self.per_plane
    }

    /// Return every link once, the smaller index first, in order.
    #[must_use]
    pub fn links(&self) -> Vec<(usize, usize)> {
        let mut links: Vec<(usize, usize)> =
            self.satellites().flat_map(|a| self.neighbours(a).into_iter().filter(move |&b| a < b).map(move |b| (a, b))).collect();
        links.sort_unstable();
        links.dedup();
        links
    }
}

/// Return the lowest height of the straight line between two positions above the sphere of equatorial radius [km].
#[must_use]
pub fn lowest_point_km(a_km: [f64; 3], b_km: [f64; 3]) -> f64 {
    let d = sub(b_km, a_km);
    let length_2 = dot(d, d);
    let t = if length_2 > 0.0 { (-dot(a_km, d) / length_2).clamp(0.0, 1.0) } else { 0.0 };
    let p = [a_km[0] + t * d[0], a_km[1] + t * d[1], a_km[2] + t * d[2]];
    dot(p, p).sqrt() - WGS84_RADIUS_KM
}

/// Check that no link passes below `lowest_km` at the given positions. A satellite without a position (NaN) has no links.
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
                min_km: lowest_km,
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
    fn the_grid_wraps_around_at_the_same_slot() {
        let grid = PlusGrid::new(72, 22, 1584).unwrap();
        assert_eq!(grid.neighbours(0), [1, 21, 22, 71 * 22]);
        assert_eq!(grid.neighbours(71 * 22 + 3), [71 * 22 + 4, 71 * 22 + 2, 3, 70 * 22 + 3]);
        assert_eq!(grid.links().len(), 2 * 1584);
        let shifted = grid.shifted(-1, 64);
        assert_eq!(shifted.neighbours(0), [1, 21, 22 + 21, 71 * 22 + 2]);
        assert_eq!(shifted.neighbours(71 * 22 + 2)[2], 0);
        assert!(matches!(PlusGrid::new(72, 22, 1583), Err(OrbitError::GridSize { grid_satellites: 1584, satellites: 1583, .. })));
    }

    #[test]
    fn a_link_to_the_far_side_passes_through_the_earth() {
        assert!((lowest_point_km([7000.0, 0.0, 0.0], [-7000.0, 1.0, 0.0]) + WGS84_RADIUS_KM).abs() < 1.0);
        assert!((lowest_point_km([7000.0, 0.0, 0.0], [7000.0, 0.0, 0.0]) - (7000.0 - WGS84_RADIUS_KM)).abs() < 1e-9);
    }

    proptest! {
        #[test]
        fn links_are_symmetric(planes in 1_usize..15, per_plane in 1_usize..15, first in 0_usize..20, shift in -20_i64..20, seam in -20_i64..20) {
            let grid = PlusGrid::new(planes, per_plane, planes * per_plane).unwrap().starting_at(first).shifted(shift, seam);
            for a in grid.satellites() {
                for b in grid.neighbours(a) {
                    prop_assert!(grid.neighbours(b).contains(&a), "{} {}", a, b);
                }
            }
        }
    }
}
