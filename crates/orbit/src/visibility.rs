//! Satellites above a terminal: true elevation mask, angle to the geostationary arc, sunlight.

use crate::elements::Elements;
use crate::error::{OrbitError, in_range};
use crate::frames::{LookAngle, Observer, dot, gmst_rad, norm, site_ecef_km, sub, teme_to_ecef};
use crate::propagate::Propagator;
use crate::site::Site;
use crate::sun::{is_sunlit, sun_position_km};
use bentpipe_profile::Utc;
use rayon::prelude::*;

/// Radius of the geostationary orbit [km] (ITU-R S.484 defines the arc; the radius follows from one sidereal day and WGS84's gravity).
const GSO_RADIUS_KM: f64 = 42_164.17;

/// Spacing of the points that approximate the arc [deg of longitude]. At 18° from the arc the error is below 0.01°.
const GSO_STEP_DEG: f64 = 0.5;

/// A satellite above a terminal.
#[derive(Clone, Debug, PartialEq)]
pub struct Visible {
    /// Index in the elements.
    pub index: usize,
    /// NORAD catalogue number.
    pub norad_id: u64,
    /// Name.
    pub name: String,
    /// Look angles.
    pub look: LookAngle,
    /// Whether it is sunlit.
    pub sunlit: bool,
    /// Angle between the directions to it and to the nearest point of the geostationary arc that is above the horizon [deg]; 180: none is.
    pub gso_separation_deg: f64,
}

/// The sky above a site at one time.
#[derive(Clone, Debug, PartialEq)]
pub struct Sky {
    /// Satellites above the mask, highest first.
    pub visible: Vec<Visible>,
    /// Satellites that could not be propagated to that time: decayed, or beyond SGP4.
    pub failed: Vec<OrbitError>,
}

/// The geostationary arc as seen from a terminal.
#[derive(Clone, Debug)]
pub struct GsoArc {
    directions: Vec<[f64; 3]>,
}

impl GsoArc {
    /// Compute the part of the arc above the horizon of `site`; empty beyond about 81° of latitude.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, reason = "a few hundred points")]
    pub fn new(site: Site) -> Self {
        let from = site_ecef_km(site);
        let observer = Observer::new(site);
        let points = (360.0 / GSO_STEP_DEG) as i32;
        let directions = (0..points)
            .filter_map(|i| {
                let (s, c) = (f64::from(i) * GSO_STEP_DEG).to_radians().sin_cos();
                let point = [GSO_RADIUS_KM * c, GSO_RADIUS_KM * s, 0.0];
                let (sin_elevation, range) = observer.sin_elevation_and_range(point);
                (sin_elevation >= 0.0).then(|| sub(point, from).map(|v| v / range))
            })
            .collect();
        Self { directions }
    }

    /// Return the angle between the direction from `from_km` to `to_km` (Earth-fixed) and the arc [deg]; 180: no part of the arc is above the horizon.
    #[must_use]
    pub fn separation_deg(&self, from_km: [f64; 3], to_km: [f64; 3]) -> f64 {
        let d = sub(to_km, from_km);
        let largest = self.directions.iter().map(|&g| dot(d, g)).fold(f64::NEG_INFINITY, f64::max);
        if largest == f64::NEG_INFINITY { 180.0 } else { (largest / norm(d)).clamp(-1.0, 1.0).acos().to_degrees() }
    }
}

/// Return the satellites above `min_elevation_deg` at `site`, highest first.
///
/// A satellite that cannot be propagated is listed in [`Sky::failed`] and is not an error.
///
/// # Errors
/// [`OrbitError::OutOfRange`] for an elevation outside −90…90°.
pub fn sky(site: Site, at: Utc, satellites: &[Propagator], min_elevation_deg: f64) -> Result<Sky, OrbitError> {
    in_range("lowest elevation", min_elevation_deg, -90.0..=90.0, "-90 to 90 degrees")?;
    let observer = Observer::new(site);
    let arc = GsoArc::new(site);
    let gmst = gmst_rad(at);
    let sun = sun_position_km(at);
    let visible_satellite = |(index, satellite): (usize, &Propagator)| match satellite.state(at) {
        Err(error) => Some(Err(error)),
        Ok(state) => {
            let ecef = teme_to_ecef(state.position_km, gmst);
            let look = observer.look(ecef);
            (look.elevation_deg >= min_elevation_deg).then(|| {
                Ok(Visible {
                    index,
                    norad_id: satellite.norad_id(),
                    name: satellite.name().to_owned(),
                    look,
                    sunlit: is_sunlit(state.position_km, sun),
                    gso_separation_deg: arc.separation_deg(observer.position_km(), ecef),
                })
            })
        }
    };
    let (mut visible, mut failed) = (Vec::new(), Vec::new());
    for result in satellites.par_iter().enumerate().filter_map(visible_satellite).collect::<Vec<_>>() {
        match result {
            Ok(satellite) => visible.push(satellite),
            Err(error) => failed.push(error),
        }
    }
    visible.sort_by(|a, b| b.look.elevation_deg.total_cmp(&a.look.elevation_deg).then(a.index.cmp(&b.index)));
    Ok(Sky { visible, failed })
}

/// Return the rank in time of each satellite's launch: 0 for the oldest launch, 1 for the newest; `None`: it has no designator.
///
/// Launches are ordered by the first eight characters of the international designator (year and number of the launch).
#[must_use]
pub fn launch_ranks(elements: &[Elements]) -> Vec<Option<f64>> {
    let launch = |e: &Elements| e.designator.as_ref().and_then(|d| d.get(..8)).map(str::to_owned);
    let mut launches: Vec<String> = elements.iter().filter_map(launch).collect();
    launches.sort();
    launches.dedup();
    let last = launches.len().saturating_sub(1).max(1) as f64;
    elements.iter().map(|e| launch(e).and_then(|l| launches.binary_search(&l).ok()).map(|rank| rank as f64 / last)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::walker::{WalkerShell, geostationary};

    const AT: Utc = Utc(1_778_403_600_000_000_000);

    #[test]
    fn a_geostationary_satellite_is_on_the_arc() {
        let site = Site::new(-37.8, 144.9, 0.0).unwrap();
        let geo = geostationary("GEO", 1, 150.0, AT).unwrap();
        let low = WalkerShell {
            name: "S".to_owned(),
            raan_spread_deg: 360.0,
            altitude_km: 550.0,
            inclination_deg: 53.0,
            planes: 72,
            per_plane: 22,
            phasing: 1.0,
            first_raan_deg: 0.0,
            first_norad_id: 2,
        };
        let elements = [vec![geo], low.elements(AT).unwrap()].concat();
        let satellites = Propagator::all(&elements).unwrap();
        let sky = sky(site, AT, &satellites, 25.0).unwrap();
        assert!(sky.failed.is_empty());
        let geo = sky.visible.iter().find(|v| v.index == 0).expect("46° up");
        assert!(geo.gso_separation_deg < 0.3, "{geo:?}");
        // From Melbourne the arc is to the north; the satellite is at about 46° of elevation.
        assert!((geo.look.elevation_deg - 45.9).abs() < 1.0, "{geo:?}");
        assert!(sky.visible.iter().all(|v| v.look.elevation_deg >= 25.0));
        assert!(sky.visible.windows(2).all(|w| w[0].look.elevation_deg >= w[1].look.elevation_deg));
        assert!((10..40).contains(&sky.visible.len()), "{}", sky.visible.len());
        assert!(sky.visible.iter().any(|v| v.gso_separation_deg > 22.0));
    }

    #[test]
    fn from_the_pole_the_arc_is_below_the_horizon() {
        let site = Site::new(90.0, 0.0, 0.0).unwrap();
        let arc = GsoArc::new(site);
        assert!((arc.separation_deg(site_ecef_km(site), [0.0, 0.0, 7000.0]) - 180.0).abs() < 1e-12);
        assert!(sky(site, AT, &[], 25.0).unwrap().visible.is_empty());
        assert!(sky(site, AT, &[], f64::NAN).is_err());
    }
}
