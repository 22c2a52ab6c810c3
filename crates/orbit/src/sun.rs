//! Position of the Sun, and whether a satellite is sunlit.

use crate::frames::{dot, norm};
use bentpipe_profile::Utc;

/// Astronomical unit [km] (IAU 2012 Resolution B2).
const AU_KM: f64 = 149_597_870.7;
/// Radius of the Sun [km] (IAU 2015 Resolution B3, nominal).
const SUN_RADIUS_KM: f64 = 695_700.0;
/// Equatorial radius of the Earth [km]; the shadow of a sphere of this radius is at most 21 km too wide at the poles.
const EARTH_RADIUS_KM: f64 = crate::frames::WGS84_RADIUS_KM;

/// Return the position of the Sun in the mean equator and equinox of date [km], accurate to 0.01° from 1950 to 2050.
///
/// Source: The Astronomical Almanac, section C, "Low precision formulas for the Sun's coordinates". The frame differs from TEME by the nutation in
/// longitude, at most 0.005°.
#[must_use]
pub fn sun_position_km(at: Utc) -> [f64; 3] {
    let days = at.as_secs_f64() / 86_400.0 - 10_957.5; // from J2000.0 = 1970-01-01 + 10957.5 days
    let mean_longitude_deg = 280.460 + 0.985_647_4 * days;
    let anomaly = (357.528 + 0.985_600_3 * days).to_radians();
    let longitude = (mean_longitude_deg + 1.915 * anomaly.sin() + 0.020 * (2.0 * anomaly).sin()).to_radians();
    let obliquity = (23.439 - 4.0e-7 * days).to_radians();
    let distance_km = AU_KM * (1.000_14 - 0.016_71 * anomaly.cos() - 1.4e-4 * (2.0 * anomaly).cos());
    let (sin_longitude, cos_longitude) = longitude.sin_cos();
    [distance_km * cos_longitude, distance_km * obliquity.cos() * sin_longitude, distance_km * obliquity.sin() * sin_longitude]
}

/// Return whether a satellite is outside the Earth's umbra. Both positions are in the same frame [km].
///
/// The umbra is the cone that touches the Sun and a spherical Earth (Vallado, Fundamentals of Astrodynamics, 4th ed., §5.3); in the penumbra a
/// satellite counts as sunlit, since part of the Sun's disc is visible.
#[must_use]
pub fn is_sunlit(satellite_km: [f64; 3], sun_km: [f64; 3]) -> bool {
    let sun_distance = norm(sun_km);
    let towards_sun = dot(satellite_km, sun_km) / sun_distance;
    if towards_sun >= 0.0 {
        return true;
    }
    let behind_km = -towards_sun;
    let from_axis_km = (dot(satellite_km, satellite_km) - behind_km * behind_km).max(0.0).sqrt();
    let umbra_radius_km = EARTH_RADIUS_KM - behind_km * (SUN_RADIUS_KM - EARTH_RADIUS_KM) / sun_distance;
    from_axis_km > umbra_radius_km
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_suns_position_equals_the_example_of_meeus() {
        // Meeus, Astronomical Algorithms, 2nd ed., example 25.a: 1992 October 13.0 TD, apparent right ascension 198.38083°, declination −7.78507°,
        // distance 0.99766 au.
        let [x, y, z] = sun_position_km(Utc(718_934_400_000_000_000));
        let right_ascension = y.atan2(x).to_degrees().rem_euclid(360.0);
        let declination = z.atan2(x.hypot(y)).to_degrees();
        assert!((right_ascension - 198.380_83).abs() < 0.015, "{right_ascension}");
        assert!((declination + 7.785_07).abs() < 0.01, "{declination}");
        assert!((norm([x, y, z]) / AU_KM - 0.997_66).abs() < 1e-4);
    }

    #[test]
    fn the_day_side_is_sunlit_and_the_shadow_is_as_wide_as_the_earth() {
        let sun = [AU_KM, 0.0, 0.0];
        assert!(is_sunlit([7000.0, 0.0, 0.0], sun));
        assert!(!is_sunlit([-7000.0, 0.0, 0.0], sun));
        assert!(!is_sunlit([-3000.0, 6300.0, 0.0], sun));
        assert!(is_sunlit([-3000.0, 6400.0, 0.0], sun));
        // The cone's tip is 1.38 million kilometres out (Vallado, §5.3).
        assert!(is_sunlit([-1.39e6, 0.0, 0.0], sun) && !is_sunlit([-1.37e6, 0.0, 0.0], sun));
    }
}
