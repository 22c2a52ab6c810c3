//! Which satellites ground stations see, and how far those are.

use crate::frames::{Observer, dot, norm, sub};
use crate::site::Site;

/// Ground stations with a true elevation mask.
#[derive(Clone, Debug)]
pub struct Stations {
    observers: Vec<Observer>,
    sin_min_elevation: f64,
}

impl Stations {
    /// Stations at `sites`, all with the same mask.
    #[must_use]
    pub fn new(sites: &[Site], min_elevation_deg: f64) -> Self {
        Self { observers: sites.iter().map(|&s| Observer::new(s)).collect(), sin_min_elevation: min_elevation_deg.to_radians().sin() }
    }

    /// Number of stations.
    #[must_use]
    pub fn len(&self) -> usize {
        self.observers.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.observers.is_empty()
    }

    /// The satellites above the mask of one station, with their range [km], in the elements' order. One without a position (NaN) is never seen.
    pub fn visible(&self, station: usize, positions_km: &[[f64; 3]], out: &mut Vec<(u32, f64)>) {
        out.clear();
        let observer = &self.observers[station];
        let (from, up) = (observer.position_km(), observer.up());
        let floor = dot(from, up);
        for (satellite, &position) in (0_u32..).zip(positions_km) {
            // Below the horizon plane, which most are: one scalar product.
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
