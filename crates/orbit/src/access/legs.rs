//! Propagation delay over both radio legs of a slot.

use super::error::AccessError;
use crate::frames::LIGHT_KM_S;
use crate::schedule::{Serving, ServingSlot};

/// Longest accepted leg [km]: twice a geostationary satellite's range. A longer one means that the schedule is wrong.
const LONGEST_LEG_KM: f64 = 90_000.0;

/// Return the one-way propagation delay terminal – satellite – gateway over a slot, from its start to its end: `(time since the Profile's start [ns],
/// delay [ns])`. At the speed of light in vacuum: the atmosphere adds under 10 ns to a leg above 25°.
///
/// # Errors
/// [`AccessError::Geometry`]: series of different lengths, fewer than two samples, samples beyond the slot, an invalid range.
pub fn propagation(number: usize, slot: &ServingSlot, serving: &Serving) -> Result<Vec<(u64, f64)>, AccessError> {
    let error = |problem: String| AccessError::Geometry { slot: number, norad_id: serving.norad_id, problem };
    let n = serving.user_leg_km.len();
    if n < 2 || serving.gateway_leg_km.len() != n || serving.elevation_deg.len() != n {
        return Err(error(format!(
            "{n} terminal ranges, {} gateway ranges, {} elevations; expected the same number of each, at least two",
            serving.gateway_leg_km.len(),
            serving.elevation_deg.len()
        )));
    }
    if let Some(&bad) = serving.elevation_deg.iter().find(|deg| !(-90.0..=90.0).contains(*deg)) {
        return Err(error(format!("elevation {bad}°; expected -90 to 90")));
    }
    let last_step = serving.sample_step_ns.checked_mul(n as u64 - 2).and_then(|t| t.checked_add(slot.start_ns));
    if serving.sample_step_ns == 0 || last_step.is_none_or(|t| t >= slot.end_ns) {
        return Err(error(format!("{n} samples every {} ns do not fit the slot; expected them within it", serving.sample_step_ns)));
    }
    serving
        .user_leg_km
        .iter()
        .zip(&serving.gateway_leg_km)
        .enumerate()
        .map(|(i, (&user_km, &gateway_km))| {
            let at_ns = if i + 1 == n { slot.end_ns } else { slot.start_ns + serving.sample_step_ns * i as u64 };
            let total_km = user_km + gateway_km;
            if user_km > 0.0 && gateway_km > 0.0 && total_km < 2.0 * LONGEST_LEG_KM {
                Ok((at_ns, total_km / LIGHT_KM_S * 1e9))
            } else {
                Err(error(format!("legs of {user_km} and {gateway_km} km; expected ranges above 0")))
            }
        })
        .collect()
}

/// Return the value of a polyline at `at`: linear between points, the end values beyond them. `points` must not be empty.
pub(super) fn interpolate(points: &[(u64, f64)], at: u64) -> f64 {
    let i = points.partition_point(|p| p.0 <= at);
    if i == 0 {
        return points[0].1;
    }
    let (t0, y0) = points[i - 1];
    points.get(i).map_or(y0, |&(t1, y1)| y0 + (y1 - y0) * ((at - t0) as f64 / (t1 - t0) as f64))
}
