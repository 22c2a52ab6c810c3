//! Points on the ground.

use crate::error::{OrbitError, in_range};
use serde::{Deserialize, Serialize};

/// A point on the ground: WGS84 geodetic latitude and longitude, height above the ellipsoid.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Site {
    /// Geodetic latitude, north positive [deg].
    pub lat_deg: f64,
    /// Longitude, east positive [deg].
    pub lon_deg: f64,
    /// Height above the WGS84 ellipsoid [m].
    pub alt_m: f64,
}

impl Site {
    /// Create a site at `lat_deg`, `lon_deg` and `alt_m`. The poles are allowed.
    ///
    /// # Errors
    /// [`OrbitError::OutOfRange`] outside −90…90°, −360…360° and −1,000…100,000 m (an aircraft or a balloon is a site, a satellite is not).
    pub fn new(lat_deg: f64, lon_deg: f64, alt_m: f64) -> Result<Self, OrbitError> {
        Ok(Self {
            lat_deg: in_range("latitude", lat_deg, -90.0..=90.0, "-90 to 90 degrees")?,
            lon_deg: in_range("longitude", lon_deg, -360.0..=360.0, "-360 to 360 degrees")?,
            alt_m: in_range("altitude", alt_m, -1000.0..=100_000.0, "-1000 to 100000 m")?,
        })
    }
}
