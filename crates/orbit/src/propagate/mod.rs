//! Propagation of elements to positions, by SGP4 with WGS72 constants in the mode that agrees with the U.S. Space Force's code ("AFSPC compatibility").
//!
//! Positions are TEME (true equator, mean equinox of date). [`Propagator::state`] calls the `sgp4` crate. Batches use a vectorised evaluation of the
//! same equations (`near_earth.rs`), which a test compares with the crate.

mod near_earth;
pub(crate) mod trig;

use crate::elements::Elements;
use crate::error::OrbitError;
use bentpipe_profile::Utc;
pub(crate) use near_earth::{BLOCK, BlockKm, NearEarth};
use sgp4::chrono::DateTime;

/// Equatorial radius of WGS72 [km] (Vallado et al., AIAA 2006-6753, Table 1).
pub const WGS72_RADIUS_KM: f64 = 6378.135;

/// Gravitational parameter of WGS72 [km³/s²] (the same table).
const WGS72_MU_KM3_S2: f64 = 398_600.8;

/// Nanoseconds in a minute.
const NANOS_PER_MINUTE: f64 = 60e9;

/// Position and velocity in TEME.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TemeState {
    /// Position [km].
    pub position_km: [f64; 3],
    /// Velocity [km/s].
    pub velocity_km_s: [f64; 3],
}

/// A satellite with its SGP4 constants.
#[derive(Clone, Debug)]
pub struct Propagator {
    name: String,
    norad_id: u64,
    epoch: Utc,
    constants: sgp4::Constants,
    near_earth: Option<NearEarth>,
    /// Largest accepted distance from the Earth's centre [km] ([`farthest_km`]).
    farthest_km: f64,
}

/// Return the distance from the Earth's centre beyond which a position is invalid [km]: 1.5 times the elements' apogee plus 1000 km. Chosen here: in the
/// weeks for which SGP4 is valid, perturbations move the apogee by far less, while its drag terms, polynomials in time, diverge later.
/// The published vectors stay below, even 33333 with its eccentricity of 0.995, at 1.35 times its apogee after 20 min.
fn farthest_km(elements: &Elements) -> f64 {
    1.5 * semi_major_axis_km(elements) * (1.0 + elements.eccentricity) + 1000.0
}

/// Return the semi-major axis of elements, by Kepler's law [km].
pub(crate) fn semi_major_axis_km(elements: &Elements) -> f64 {
    let rad_s = elements.mean_motion_rev_day * std::f64::consts::TAU / 86_400.0;
    (WGS72_MU_KM3_S2 / (rad_s * rad_s)).cbrt()
}

impl Propagator {
    /// Compute SGP4's constants from elements.
    ///
    /// # Errors
    /// [`OrbitError::NotAnOrbit`] if SGP4 refuses the elements.
    pub fn new(elements: &Elements) -> Result<Self, OrbitError> {
        let not_an_orbit = |reason: String| OrbitError::NotAnOrbit { norad_id: elements.norad_id, name: elements.name.clone(), reason };
        let raw = sgp4::Elements {
            object_name: None,
            international_designator: None,
            norad_id: elements.norad_id,
            classification: sgp4::Classification::Unclassified,
            datetime: DateTime::from_timestamp_nanos(elements.epoch.0).naive_utc(),
            mean_motion_dot: 0.0, // SGP4 does not use the derivatives; drag is in B*
            mean_motion_ddot: 0.0,
            drag_term: elements.bstar_per_er,
            element_set_number: 0,
            inclination: elements.inclination_deg,
            right_ascension: elements.raan_deg,
            eccentricity: elements.eccentricity,
            argument_of_perigee: elements.arg_perigee_deg,
            mean_anomaly: elements.mean_anomaly_deg,
            mean_motion: elements.mean_motion_rev_day,
            revolution_number: 0,
            ephemeris_type: 0,
        };
        let constants = sgp4::Constants::from_elements_afspc_compatibility_mode(&raw).map_err(|e| not_an_orbit(e.to_string()))?;
        let farthest_km = farthest_km(elements);
        Ok(Self {
            name: elements.name.clone(),
            norad_id: elements.norad_id,
            epoch: elements.epoch,
            near_earth: NearEarth::new(&constants, farthest_km),
            constants,
            farthest_km,
        })
    }

    /// Create the propagators of many satellites, on every core.
    ///
    /// # Errors
    /// The first satellite that SGP4 refuses.
    pub fn all(elements: &[Elements]) -> Result<Vec<Self>, OrbitError> {
        use rayon::prelude::*;
        elements.par_iter().map(Self::new).collect()
    }

    /// Return the name of the satellite.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Return the NORAD catalogue number.
    #[must_use]
    pub fn norad_id(&self) -> u64 {
        self.norad_id
    }

    /// Return the epoch of the elements.
    #[must_use]
    pub fn epoch(&self) -> Utc {
        self.epoch
    }

    /// Return the minutes from the epoch to `at`.
    #[must_use]
    pub fn minutes(&self, at: Utc) -> f64 {
        // Both are i64 nanoseconds: their difference is exact as i128, and a double represents it to 1e-6 s over a century.
        (i128::from(at.0) - i128::from(self.epoch.0)) as f64 / NANOS_PER_MINUTE
    }

    /// Return position and velocity at `at`.
    ///
    /// # Errors
    /// [`OrbitError::Propagation`] if SGP4 fails, [`OrbitError::Decayed`] if the position is inside the Earth,
    /// [`OrbitError::Diverged`] if it is far beyond the elements' apogee.
    pub fn state(&self, at: Utc) -> Result<TemeState, OrbitError> {
        self.state_at_minutes(self.minutes(at))
    }

    /// Return position and velocity `minutes` after the epoch (negative: before it).
    ///
    /// # Errors
    /// As [`Self::state`].
    pub fn state_at_minutes(&self, minutes: f64) -> Result<TemeState, OrbitError> {
        let age_days = minutes / 1440.0;
        let prediction = self
            .constants
            .propagate_afspc_compatibility_mode(sgp4::MinutesSinceEpoch(minutes))
            .map_err(|e| OrbitError::Propagation { norad_id: self.norad_id, name: self.name.clone(), age_days, reason: e.to_string() })?;
        let [x, y, z] = prediction.position;
        let radius_km = (x * x + y * y + z * z).sqrt();
        if radius_km.is_nan() {
            return Err(OrbitError::Propagation {
                norad_id: self.norad_id,
                name: self.name.clone(),
                age_days,
                reason: "the position is not a number".to_owned(),
            });
        }
        if radius_km < WGS72_RADIUS_KM {
            return Err(OrbitError::Decayed { norad_id: self.norad_id, name: self.name.clone(), age_days, radius_km });
        }
        if radius_km > self.farthest_km {
            let (name, farthest_km) = (self.name.clone(), self.farthest_km);
            return Err(OrbitError::Diverged { norad_id: self.norad_id, name, age_days, radius_km, farthest_km });
        }
        Ok(TemeState { position_km: prediction.position, velocity_km_s: prediction.velocity })
    }

    /// Compute the positions at a block of times [km]; NaN: [`Self::state_at_minutes`] would return an error.
    pub(crate) fn positions(&self, minutes: &[f64; BLOCK], out: &mut BlockKm) {
        if let Some(near_earth) = &self.near_earth
            && near_earth.covers(minutes[0])
            && near_earth.covers(minutes[BLOCK - 1])
        {
            near_earth.positions(minutes, out);
            return;
        }
        for (i, &t) in minutes.iter().enumerate() {
            let state = self.state_at_minutes(t);
            [out.x[i], out.y[i], out.z[i]] = state.map_or([f64::NAN; 3], |s| s.position_km);
        }
    }
}

#[cfg(test)]
mod tests;
