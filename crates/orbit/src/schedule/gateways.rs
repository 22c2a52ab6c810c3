//! Gateways: the ones that a satellite can use, and the best of them.

use crate::frames::{LIGHT_KM_S, Observer};
use crate::site::Site;
use serde::{Deserialize, Serialize};

/// A ground station that connects satellites to the Internet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gateway {
    /// Name.
    pub name: String,
    /// Its position.
    pub site: Site,
    /// Lowest elevation at which it uses a satellite [deg].
    pub min_elevation_deg: f64,
    /// One-way delay from the gateway to the point of presence [ms].
    pub to_pop_ms: f64,
}

/// Gateways with their precomputed observers.
pub(super) struct Gateways<'a> {
    all: &'a [Gateway],
    observers: Vec<(Observer, f64)>,
}

impl<'a> Gateways<'a> {
    pub(super) fn new(all: &'a [Gateway]) -> Self {
        let observers = all.iter().map(|g| (Observer::new(g.site), g.min_elevation_deg.to_radians().sin())).collect();
        Self { all, observers }
    }

    pub(super) fn name(&self, gateway: usize) -> &str {
        &self.all[gateway].name
    }

    /// Return the distance from a gateway to an Earth-fixed position [km].
    pub(super) fn range_km(&self, gateway: usize, position_km: [f64; 3]) -> f64 {
        self.observers[gateway].0.sin_elevation_and_range(position_km).1
    }

    /// Return the index of the best gateway and its delay [ms]: of those that see both positions, the one with the smallest delay from the satellite at the
    /// first position to the point of presence. A gateway that sees both ends of a pass's part also sees the positions in between.
    pub(super) fn best(&self, begin_km: [f64; 3], end_km: [f64; 3]) -> Option<(usize, f64)> {
        let delay_ms = |(index, (observer, sin_min)): (usize, &(Observer, f64))| {
            let (sin_begin, range) = observer.sin_elevation_and_range(begin_km);
            let (sin_end, _) = observer.sin_elevation_and_range(end_km);
            (sin_begin >= *sin_min && sin_end >= *sin_min).then(|| (index, range / LIGHT_KM_S * 1000.0 + self.all[index].to_pop_ms))
        };
        self.observers.iter().enumerate().filter_map(delay_ms).min_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)))
    }
}
