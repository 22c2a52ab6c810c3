//! Satellites in view of ground stations, and their ranges.

use crate::frames::{Observer, dot, norm, sub};
use crate::site::Site;

/// Ground stations with a true elevation mask.
#[derive(Clone, Debug)]
pub struct Stations {
    observers: Vec<Observer>,
    sin_min_elevation: f64,
}

impl Stations {
    /// Create stations at `sites`, all with the same mask.
    #[must_use]
    pub fn new(sites: &[Site], min_elevation_deg: f64) -> Self {
        Self { observers: sites.iter().map(|&s| Observer::new(s)).collect(), sin_min_elevation: min_elevation_deg.to_radians().sin() }
    }

    /// Return the number of stations.
    #[must_use]
    pub fn len(&self) -> usize {
        self.observers.len()
    }

    /// Return whether there are no stations.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.observers.is_empty()
    }

    /// Find the satellites above the mask of one station, with their ranges [km], in the order of the elements. A satellite without a position (NaN) is
    /// never visible.
    pub fn visible(&self, station: usize, positions_km: &[[f64; 3]], out: &mut Vec<(u32, f64)>) {
        out.clear();
        let observer = &self.observers[station];
        let (from, up) = (observer.position_km(), observer.up());
        let floor = dot(from, up);
        for (satellite, &position) in (0_u32..).zip(positions_km) {
            // Most satellites are below the horizon plane, which needs one scalar product.
            if dot(position, up) >= floor {
                let d = sub(position, from);
                let range = norm(d);
                if dot(d, up) >= self.sin_min_elevation * range {
                    out.push((satellite, range));
                }
            }
        }
    }
}
