//! The track of a moving terminal: positions over time.

use crate::error::OrbitError;
use crate::frames::{dot, norm};
use crate::site::Site;
use bentpipe_profile::Utc;
use serde::{Deserialize, Serialize};

/// Highest speed between two points of a track [m/s]. Chosen here: airliners fly at 250 to 300 m/s with tail wind, and a higher speed is a typing error.
pub const MAX_SPEED_M_S: f64 = 400.0;
/// Radius of the sphere on which speeds and great circles are computed [km] (mean radius, IUGG).
const EARTH_KM: f64 = 6371.0;

/// A position at a time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrackPoint {
    /// The time [ns since 1970].
    pub at_unix_ns: i64,
    /// The position.
    #[serde(flatten)]
    pub site: Site,
}

/// Positions of a moving terminal in order of time. It moves along great circles at constant speed between them.
#[derive(Clone, Debug, PartialEq)]
pub struct Track {
    points: Vec<TrackPoint>,
}

impl Track {
    /// Create a track.
    ///
    /// # Errors
    /// [`OrbitError::Track`]: fewer than two points, times that do not increase, a speed above [`MAX_SPEED_M_S`]; [`OrbitError::OutOfRange`] for an invalid
    /// position.
    pub fn new(points: Vec<TrackPoint>) -> Result<Self, OrbitError> {
        let error = |point: usize, problem: String, expected: &'static str| OrbitError::Track { point, problem, expected };
        if points.len() < 2 {
            return Err(error(points.len(), "the track ends".to_owned(), "at least two points"));
        }
        for point in &points {
            Site::new(point.site.lat_deg, point.site.lon_deg, point.site.alt_m)?;
        }
        for (number, pair) in (2..).zip(points.windows(2)) {
            let seconds = (i128::from(pair[1].at_unix_ns) - i128::from(pair[0].at_unix_ns)) as f64 / 1e9;
            if seconds <= 0.0 {
                return Err(error(number, format!("its time is {seconds} s after the point before"), "times that increase"));
            }
            let speed = angle_rad(unit(pair[0].site), unit(pair[1].site)) * EARTH_KM * 1000.0 / seconds;
            if speed > MAX_SPEED_M_S {
                return Err(error(number, format!("{speed:.0} m/s from the point before"), "at most 400 m/s"));
            }
        }
        Ok(Self { points })
    }

    /// Check that the track covers the time from `start` to `end`.
    ///
    /// # Errors
    /// [`OrbitError::TrackSpan`].
    pub fn check_span(&self, start: Utc, end: Utc) -> Result<(), OrbitError> {
        let seconds = |from: i64, to: i64| (i128::from(to) - i128::from(from)) as f64 / 1e9;
        let (first, last) = (self.points[0].at_unix_ns, self.points[self.points.len() - 1].at_unix_ns);
        let (late_s, short_s) = (seconds(start.0, first), seconds(last, end.0));
        if late_s > 0.0 || short_s > 0.0 {
            return Err(OrbitError::TrackSpan { late_s: late_s.max(0.0), short_s: short_s.max(0.0) });
        }
        Ok(())
    }

    /// Return the points.
    #[must_use]
    pub fn points(&self) -> &[TrackPoint] {
        &self.points
    }

    /// Return the position at a time: on the great circle between two points, and at the end points before and after the track.
    #[must_use]
    pub fn at(&self, at: Utc) -> Site {
        position(&self.points, at)
    }
}

/// Return the position at a time on a track that was checked.
pub(crate) fn position(points: &[TrackPoint], at: Utc) -> Site {
    let next = points.partition_point(|point| point.at_unix_ns <= at.0);
    if next == 0 || next == points.len() {
        return points[next.saturating_sub(1)].site;
    }
    let (a, b) = (points[next - 1], points[next]);
    let share = (at.0 - a.at_unix_ns) as f64 / (b.at_unix_ns - a.at_unix_ns) as f64;
    let (from, to) = (unit(a.site), unit(b.site));
    let alt_m = a.site.alt_m + share * (b.site.alt_m - a.site.alt_m);
    let angle = angle_rad(from, to);
    if angle < 1e-12 {
        return Site { alt_m, ..a.site };
    }
    // Spherical linear interpolation (Shoemake, SIGGRAPH 1985).
    let [wa, wb] = [((1.0 - share) * angle).sin() / angle.sin(), (share * angle).sin() / angle.sin()];
    let p: [f64; 3] = std::array::from_fn(|i| wa * from[i] + wb * to[i]);
    Site { lat_deg: p[2].atan2(p[0].hypot(p[1])).to_degrees(), lon_deg: p[1].atan2(p[0]).to_degrees(), alt_m }
}

/// Return the unit vector of a latitude and longitude.
fn unit(site: Site) -> [f64; 3] {
    let (sin_lat, cos_lat) = site.lat_deg.to_radians().sin_cos();
    let (sin_lon, cos_lon) = site.lon_deg.to_radians().sin_cos();
    [cos_lat * cos_lon, cos_lat * sin_lon, sin_lat]
}

fn angle_rad(a: [f64; 3], b: [f64; 3]) -> f64 {
    let cross = [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
    norm(cross).atan2(dot(a, b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn point(at_s: i64, lat_deg: f64, lon_deg: f64) -> TrackPoint {
        TrackPoint { at_unix_ns: at_s * 1_000_000_000, site: Site { lat_deg, lon_deg, alt_m: 0.0 } }
    }

    #[test]
    fn a_ship_crosses_the_date_line_on_a_great_circle() {
        let track = Track::new(vec![point(0, 0.0, 179.0), point(100_000, 0.0, -179.0)]).unwrap();
        let middle = track.at(Utc(50_000_000_000_000));
        assert!((middle.lon_deg.abs() - 180.0).abs() < 1e-9 && middle.lat_deg.abs() < 1e-12, "{middle:?}");
        assert_eq!(track.at(Utc(-1)).lon_deg.to_bits(), 179.0_f64.to_bits());
        assert_eq!(track.at(Utc(i64::MAX)).lon_deg.to_bits(), (-179.0_f64).to_bits());
    }

    #[test]
    fn a_track_must_cover_the_profile() {
        let track = Track::new(vec![point(10, 0.0, 0.0), point(100, 0.0, 0.0)]).unwrap();
        let check = |from_s: i64, to_s: i64| track.check_span(Utc(from_s * 1_000_000_000), Utc(to_s * 1_000_000_000));
        assert_eq!(check(10, 100), Ok(()));
        assert_eq!(check(7, 90), Err(OrbitError::TrackSpan { late_s: 3.0, short_s: 0.0 }));
        assert!(check(20, 105).unwrap_err().to_string().contains("ends 5 s before the Profile"));
    }

    #[test]
    fn invalid_tracks_are_refused_with_the_point() {
        let refused = |points: Vec<TrackPoint>| Track::new(points).unwrap_err().to_string();
        assert!(refused(vec![point(0, 0.0, 0.0)]).contains("at least two points"));
        assert!(refused(vec![point(0, 0.0, 0.0), point(0, 0.0, 0.0)]).starts_with("track: point 2"));
        assert!(refused(vec![point(0, 0.0, 0.0), point(60, 10.0, 0.0)]).contains("at most 400 m/s"));
        assert!(refused(vec![point(0, 0.0, 0.0), point(60, 91.0, 0.0)]).contains("-90 to 90"));
        assert!(refused(vec![point(0, f64::NAN, 0.0), point(60, 1.0, 0.0)]).contains("NaN"));
    }

    proptest! {
        #[test]
        fn positions_lie_between_their_points(lat in -80.0_f64..80.0, lon in -180.0_f64..180.0, dlat in -1.0_f64..1.0, dlon in -1.0_f64..1.0, share in 0.0_f64..1.0) {
            let (a, b) = (point(0, lat, lon), point(1000, lat + dlat, lon + dlon));
            let track = Track::new(vec![a, b]).unwrap();
            #[allow(clippy::cast_possible_truncation)]
            let at = track.at(Utc((share * 1e12) as i64));
            let (whole, part) = (angle_rad(unit(a.site), unit(b.site)), angle_rad(unit(a.site), unit(at)));
            prop_assert!((part - share * whole).abs() < 1e-9);
            prop_assert!((part + angle_rad(unit(at), unit(b.site)) - whole).abs() < 1e-9);
        }
    }
}
