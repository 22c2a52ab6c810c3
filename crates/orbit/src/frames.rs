//! Reference frames: TEME to Earth-fixed coordinates and to an observer's look angles.
//!
//! Conventions, and the error of each against the full theory (measured in `validation/look_angles`, described in `docs/concepts/geometry.md`):
//!
//! - Sidereal time is GMST of IAU 1982, with UTC in place of UT1. |UT1 − UTC| < 0.9 s rotates the Earth by at most 13.5″, 418 m at the equator on
//!   the ground; since 2017 it has stayed below 0.25 s (116 m), and in 2026 below 0.1 s.
//! - No polar motion: at most 0.6″, 18 m on the ground.
//! - The Earth is the WGS84 ellipsoid, elevation is measured from the plane normal to it, without refraction.

use crate::site::Site;
use bentpipe_profile::Utc;
use std::f64::consts::TAU;

/// Equatorial radius of WGS84 [km] (NGA.STND.0036, Table 3.1).
pub const WGS84_RADIUS_KM: f64 = 6378.137;
/// Flattening of WGS84 (NGA.STND.0036, Table 3.1).
pub const WGS84_FLATTENING: f64 = 1.0 / 298.257_223_563;
/// Speed of light in vacuum [km/s] (exact, SI).
pub const LIGHT_KM_S: f64 = 299_792.458;

/// Square of the first eccentricity of WGS84.
const E2: f64 = WGS84_FLATTENING * (2.0 - WGS84_FLATTENING);

/// 2000-01-01T12:00:00Z [ns since 1970].
const J2000_UNIX_NS: i64 = 946_728_000_000_000_000;
const NANOS_PER_DAY: i64 = 86_400_000_000_000;

/// Return the Greenwich mean sidereal time [rad], 0 to 2π.
///
/// IAU 1982 (Aoki et al., Astron. Astrophys. 105, 359, eq. 13–14):
/// `GMST = 67310.54841 s + (876600 h + 8640184.812866 s) T + 0.093104 s T² − 6.2e-6 s T³`, T in Julian centuries of UT1 from J2000.
///
/// Whole rotations are first removed in integers, to avoid rounding errors.
#[must_use]
#[allow(clippy::cast_precision_loss)]
pub fn gmst_rad(at: Utc) -> f64 {
    let since = i128::from(at.0) - i128::from(J2000_UNIX_NS);
    let day = i128::from(NANOS_PER_DAY);
    let centuries = since as f64 / (NANOS_PER_DAY as f64 * 36_525.0);
    // 876600 h per century is one turn a day: only the fraction of the day matters.
    let day_fraction = since.rem_euclid(day) as f64 / NANOS_PER_DAY as f64;
    let seconds = 67_310.548_41 + centuries * (8_640_184.812_866 + centuries * (0.093_104 - 6.2e-6 * centuries));
    ((seconds / 86_400.0 + day_fraction).rem_euclid(1.0)) * TAU
}

/// Convert TEME to Earth-fixed coordinates: a rotation by GMST about the axis.
#[must_use]
pub fn teme_to_ecef(position: [f64; 3], gmst_rad: f64) -> [f64; 3] {
    let (s, c) = gmst_rad.sin_cos();
    let [x, y, z] = position;
    [c * x + s * y, c * y - s * x, z]
}

/// Return the Earth-fixed position of a site [km].
#[must_use]
pub fn site_ecef_km(site: Site) -> [f64; 3] {
    let (rho_km, z_km) = site_meridian_km(site);
    let (s, c) = site.lon_deg.to_radians().sin_cos();
    [rho_km * c, rho_km * s, z_km]
}

/// Return the distance of a site from the axis, and its height above the equatorial plane [km].
pub(crate) fn site_meridian_km(site: Site) -> (f64, f64) {
    let (s, c) = site.lat_deg.to_radians().sin_cos();
    let alt_km = site.alt_m / 1000.0;
    let normal_km = WGS84_RADIUS_KM / (1.0 - E2 * s * s).sqrt();
    ((normal_km + alt_km) * c, (normal_km * (1.0 - E2) + alt_km) * s)
}

/// Return the point on the ellipsoid below an Earth-fixed position, and the height above it.
///
/// Bowring's iteration (Survey Review 23, 202, 1976), five times: the error is below a micrometre for any satellite.
#[must_use]
pub fn ecef_to_geodetic(position_km: [f64; 3]) -> Site {
    let [x, y, z] = position_km;
    let rho = x.hypot(y);
    let b = WGS84_RADIUS_KM * (1.0 - WGS84_FLATTENING);
    let second_e2 = E2 / (1.0 - E2);
    let mut reduced = (z * WGS84_RADIUS_KM).atan2(rho * b);
    let mut lat = 0.0;
    for _ in 0..5 {
        let (s, c) = reduced.sin_cos();
        lat = (z + second_e2 * b * s * s * s).atan2(rho - E2 * WGS84_RADIUS_KM * c * c * c);
        reduced = ((1.0 - WGS84_FLATTENING) * lat.sin()).atan2(lat.cos());
    }
    let (s, c) = lat.sin_cos();
    let normal = WGS84_RADIUS_KM / (1.0 - E2 * s * s).sqrt();
    // Use the better conditioned of the two formulas: near a pole rho says little about the height.
    let alt_km = if c > 0.5 { rho / c - normal } else { z / s - normal * (1.0 - E2) };
    Site { lat_deg: lat.to_degrees(), lon_deg: y.atan2(x).to_degrees(), alt_m: alt_km * 1000.0 }
}

/// Direction and distance of a satellite from an observer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LookAngle {
    /// Azimuth, clockwise from north [deg], 0 to 360.
    pub azimuth_deg: f64,
    /// Elevation above the plane normal to the ellipsoid [deg].
    pub elevation_deg: f64,
    /// Straight-line distance [km].
    pub range_km: f64,
}

/// An observer with its local directions, Earth-fixed.
#[derive(Clone, Copy, Debug)]
pub struct Observer {
    position_km: [f64; 3],
    east: [f64; 3],
    north: [f64; 3],
    up: [f64; 3],
}

impl Observer {
    /// Create the observer at `site`.
    #[must_use]
    pub fn new(site: Site) -> Self {
        let (sin_lat, cos_lat) = site.lat_deg.to_radians().sin_cos();
        let (sin_lon, cos_lon) = site.lon_deg.to_radians().sin_cos();
        Self {
            position_km: site_ecef_km(site),
            east: [-sin_lon, cos_lon, 0.0],
            north: [-sin_lat * cos_lon, -sin_lat * sin_lon, cos_lat],
            up: [cos_lat * cos_lon, cos_lat * sin_lon, sin_lat],
        }
    }

    /// Return the Earth-fixed position [km].
    #[must_use]
    pub fn position_km(&self) -> [f64; 3] {
        self.position_km
    }

    /// Return the unit vector away from the Earth, normal to the ellipsoid.
    #[must_use]
    pub fn up(&self) -> [f64; 3] {
        self.up
    }

    /// Return the Earth-fixed position at `east`, `north` and `up` from the observer [km].
    #[must_use]
    pub fn from_directions(&self, [east, north, up]: [f64; 3]) -> [f64; 3] {
        std::array::from_fn(|i| self.position_km[i] + east * self.east[i] + north * self.north[i] + up * self.up[i])
    }

    /// Return azimuth, elevation and range of an Earth-fixed position.
    #[must_use]
    pub fn look(&self, target_km: [f64; 3]) -> LookAngle {
        let d = sub(target_km, self.position_km);
        let (e, n, u) = (dot(d, self.east), dot(d, self.north), dot(d, self.up));
        LookAngle {
            azimuth_deg: e.atan2(n).to_degrees().rem_euclid(360.0),
            elevation_deg: u.atan2(e.hypot(n)).to_degrees(),
            range_km: norm(d),
        }
    }

    /// Return the sine of the elevation, and the range [km]: enough for a visibility test, without a trigonometric function.
    #[must_use]
    pub fn sin_elevation_and_range(&self, target_km: [f64; 3]) -> (f64, f64) {
        let d = sub(target_km, self.position_km);
        let range = norm(d);
        (dot(d, self.up) / range, range)
    }
}

/// Return `a − b`.
#[must_use]
pub fn sub(a: [f64; 3], b: [f64; 3]) -> [f64; 3] {
    [a[0] - b[0], a[1] - b[1], a[2] - b[2]]
}

/// Return the scalar product.
#[must_use]
pub fn dot(a: [f64; 3], b: [f64; 3]) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

/// Return the length.
#[must_use]
pub fn norm(a: [f64; 3]) -> f64 {
    dot(a, a).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn gmst_equals_vallados_example() {
        // Vallado, Fundamentals of Astrodynamics and Applications, 4th ed., example 3-5: 20 August 1992, 12:14 UT1, 152.578787810°; the book's Julian date is accurate to 1e-7°.
        let gmst = gmst_rad(Utc(714_312_840_000_000_000)).to_degrees();
        assert!((gmst - 152.578_787_810).abs() < 1e-7, "{gmst}");
    }

    #[test]
    fn a_satellite_overhead_has_an_elevation_of_ninety_degrees() {
        let site = Site::new(-37.8, 144.9, 30.0).unwrap();
        let above = site_ecef_km(Site { alt_m: 550_030.0, ..site });
        let look = Observer::new(site).look(above);
        assert!((look.elevation_deg - 90.0).abs() < 1e-6 && (look.range_km - 550.0).abs() < 1e-9, "{look:?}");
    }

    #[test]
    fn azimuth_is_clockwise_from_north() {
        let site = Site::new(10.0, 20.0, 0.0).unwrap();
        let look = |lat, lon| Observer::new(site).look(site_ecef_km(Site { lat_deg: lat, lon_deg: lon, alt_m: 1e5 }));
        assert!(look(11.0, 20.0).azimuth_deg.min(360.0 - look(11.0, 20.0).azimuth_deg) < 1e-9);
        assert!((look(9.0, 20.0).azimuth_deg - 180.0).abs() < 1e-9);
        assert!((look(10.0, 20.5).azimuth_deg - 90.0).abs() < 0.1);
        assert!((look(10.0, 19.5).azimuth_deg - 270.0).abs() < 0.1);
    }

    #[test]
    fn a_site_may_be_at_the_pole() {
        let look = Observer::new(Site::new(90.0, 0.0, 0.0).unwrap()).look([0.0, 0.0, 7000.0]);
        assert!((look.elevation_deg - 90.0).abs() < 1e-9 && look.azimuth_deg.is_finite());
    }

    proptest! {
        #[test]
        fn geodetic_conversion_and_its_inverse_agree(lat in -90.0_f64..=90.0, lon in -180.0_f64..=180.0, alt in -1e3_f64..4e7) {
            let site = Site { lat_deg: lat, lon_deg: lon, alt_m: alt };
            let there = site_ecef_km(site);
            let back = site_ecef_km(ecef_to_geodetic(there));
            prop_assert!(norm(sub(there, back)) < 1e-8, "{site:?}");
            prop_assert!((ecef_to_geodetic(there).alt_m - alt).abs() < 1e-4);
        }

        #[test]
        fn look_angles_reproduce_the_position(lat in -90.0_f64..=90.0, lon in -180.0_f64..=180.0, x in -9e3_f64..9e3, y in -9e3_f64..9e3, z in -9e3_f64..9e3) {
            let observer = Observer::new(Site { lat_deg: lat, lon_deg: lon, alt_m: 0.0 });
            let look = observer.look([x, y, z]);
            let (se, ce) = look.elevation_deg.to_radians().sin_cos();
            let (sa, ca) = look.azimuth_deg.to_radians().sin_cos();
            let rebuilt = observer.from_directions([ce * sa, ce * ca, se].map(|v| v * look.range_km));
            prop_assert!((rebuilt[0] - x).abs() < 1e-6 && (rebuilt[1] - y).abs() < 1e-6 && (rebuilt[2] - z).abs() < 1e-6);
            let (sin_elevation, range) = observer.sin_elevation_and_range([x, y, z]);
            prop_assert!((sin_elevation - se).abs() < 1e-9 && (range - look.range_km).abs() < 1e-9);
        }
    }
}
