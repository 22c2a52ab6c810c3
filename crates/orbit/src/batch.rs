//! Look angles of many satellites at many times for one site. Runs SGP4 at every time, without interpolation, on every core and without allocation per
//! satellite.
//!
//! Values that depend only on time (sidereal time, the direction of the local meridian) are computed once for all satellites. Each satellite is then
//! processed in blocks of [`BLOCK`] times, which fit in the first-level cache. A block is a few loops of vector instructions.

use crate::error::OrbitError;
use crate::frames::{gmst_rad, site_meridian_km};
use crate::propagate::trig::atan2;
use crate::propagate::{BLOCK, BlockKm, Propagator};
use crate::simd::widest;
use crate::site::Site;
use bentpipe_profile::Utc;
use rayon::prelude::*;

/// The requested times at one site, with the values that depend only on them.
#[derive(Clone, Debug)]
pub struct SiteTimes {
    len: usize,
    origin: Utc,
    /// Minutes from `origin`, padded with the last time to whole blocks.
    minutes: Vec<f64>,
    /// Sine and cosine of the local sidereal time, padded in the same way.
    sin_lst: Vec<f64>,
    cos_lst: Vec<f64>,
    sin_lat: f64,
    cos_lat: f64,
    /// Distance from the axis and height above the equator [km].
    rho_km: f64,
    z_km: f64,
}

/// Output arrays: one value for each satellite and time, satellite by satellite.
#[derive(Debug)]
pub struct LookAnglesOut<'a> {
    /// Azimuth, clockwise from north [deg], 0 to 360; NaN: the satellite cannot be propagated.
    pub azimuth_deg: &'a mut [f64],
    /// Elevation above the plane normal to the ellipsoid [deg]; NaN as above.
    pub elevation_deg: &'a mut [f64],
    /// Straight-line distance [km]; NaN as above.
    pub range_km: &'a mut [f64],
}

impl SiteTimes {
    /// Prepare `times` at `site`.
    #[must_use]
    pub fn new(site: Site, times: &[Utc]) -> Self {
        let origin = times.first().copied().unwrap_or_default();
        let last = times.last().copied().unwrap_or_default();
        let padded = times.len().div_ceil(BLOCK) * BLOCK;
        let all = || times.iter().copied().chain(std::iter::repeat(last)).take(padded);
        let lon = site.lon_deg.to_radians();
        let (sin_lat, cos_lat) = site.lat_deg.to_radians().sin_cos();
        let (rho_km, z_km) = site_meridian_km(site);
        let (sin_lst, cos_lst) = all().map(|t| (gmst_rad(t) + lon).sin_cos()).unzip();
        Self {
            len: times.len(),
            origin,
            minutes: all().map(|t| (i128::from(t.0) - i128::from(origin.0)) as f64 / 60e9).collect(),
            sin_lst,
            cos_lst,
            sin_lat,
            cos_lat,
            rho_km,
            z_km,
        }
    }

    /// Return the number of times.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Return whether there are no times.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Compute the look angles of one satellite. Each slice holds [`Self::len`] values.
    fn satellite_angles(&self, satellite: &Propagator, azimuth: &mut [f64], elevation: &mut [f64], range: &mut [f64]) {
        let offset = satellite.minutes(self.origin);
        let mut minutes = [0.0; BLOCK];
        let mut position = BlockKm::default();
        let mut angles = [[0.0; BLOCK]; 3];
        for start in (0..self.len).step_by(BLOCK) {
            for (m, t) in minutes.iter_mut().zip(&self.minutes[start..start + BLOCK]) {
                *m = offset + t;
            }
            satellite.positions(&minutes, &mut position);
            widest(Look { times: self, start, position: &position, out: &mut angles });
            let n = BLOCK.min(self.len - start);
            azimuth[start..start + n].copy_from_slice(&angles[0][..n]);
            elevation[start..start + n].copy_from_slice(&angles[1][..n]);
            range[start..start + n].copy_from_slice(&angles[2][..n]);
        }
    }

    /// Compute azimuth, elevation and range of a block of positions.
    ///
    /// A rotation by local instead of Greenwich sidereal time brings the site's meridian to the x axis: the site then has no y coordinate.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "see simd.rs")]
    fn look(&self, start: usize, p: &BlockKm, out: &mut [[f64; BLOCK]; 3]) {
        const DEG: f64 = 180.0 / std::f64::consts::PI;
        let sin_lst = &self.sin_lst[start..start + BLOCK];
        let cos_lst = &self.cos_lst[start..start + BLOCK];
        let [azimuth, elevation, range] = out;
        for i in 0..BLOCK {
            let outward = cos_lst[i] * p.x[i] + sin_lst[i] * p.y[i] - self.rho_km;
            let east = cos_lst[i] * p.y[i] - sin_lst[i] * p.x[i];
            let axial = p.z[i] - self.z_km;
            let north = self.cos_lat * axial - self.sin_lat * outward;
            let up = self.cos_lat * outward + self.sin_lat * axial;
            let horizontal_2 = east * east + north * north;
            let turn = DEG * atan2(east, north);
            azimuth[i] = if turn < 0.0 { turn + 360.0 } else { turn };
            elevation[i] = DEG * atan2(up, horizontal_2.sqrt());
            range[i] = (horizontal_2 + up * up).sqrt();
        }
    }
}

/// [`SiteTimes::look`] as a closure for [`widest`].
struct Look<'a> {
    times: &'a SiteTimes,
    start: usize,
    position: &'a BlockKm,
    out: &'a mut [[f64; BLOCK]; 3],
}

impl pulp::NullaryFnOnce for Look<'_> {
    type Output = ();

    #[inline(always)]
    #[allow(clippy::inline_always, reason = "see simd.rs")]
    fn call(self) {
        self.times.look(self.start, self.position, self.out);
    }
}

/// Compute the look angles of every satellite at every time, on every core.
///
/// If the result does not fit in memory, call it for parts of the satellites with the same `times`.
///
/// # Errors
/// [`OrbitError::OutOfRange`] if an output array does not have one value for each satellite and time.
pub fn look_angles(satellites: &[Propagator], times: &SiteTimes, out: LookAnglesOut<'_>) -> Result<(), OrbitError> {
    let LookAnglesOut { azimuth_deg, elevation_deg, range_km } = out;
    let expected = satellites.len() * times.len();
    for length in [azimuth_deg.len(), elevation_deg.len(), range_km.len()] {
        if length != expected {
            return Err(OrbitError::OutOfRange {
                name: "length of an output array",
                value: length as f64,
                expected: "one value for each satellite and time",
            });
        }
    }
    if times.is_empty() {
        return Ok(());
    }
    let n = times.len();
    satellites.par_iter().zip(azimuth_deg.par_chunks_mut(n)).zip(elevation_deg.par_chunks_mut(n)).zip(range_km.par_chunks_mut(n)).for_each(
        |(((satellite, azimuth), elevation), range)| {
            times.satellite_angles(satellite, azimuth, elevation, range);
        },
    );
    Ok(())
}
