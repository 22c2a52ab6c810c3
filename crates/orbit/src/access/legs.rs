//! Propagation delay over the radio legs of a slot, and over the links between satellites.

use super::error::AccessError;
use crate::frames::LIGHT_KM_S;
use crate::schedule::{Serving, ServingSlot};

/// Longest accepted leg [km]: twice a geostationary satellite's range. A longer one means that the schedule is wrong.
const LONGEST_LEG_KM: f64 = 90_000.0;

/// Return the one-way propagation delay of the access over a slot, from its start to its end: `(time since the Profile's start [ns], delay [ns])`. It is terminal –
/// satellite – gateway in a bent pipe, and terminal – satellite if inter-satellite links follow. At the speed of light in vacuum: the atmosphere adds under 10
/// ns to a leg above 25°.
///
/// # Errors
/// [`AccessError::Geometry`]: series of different lengths, fewer than two samples, samples beyond the slot, an invalid range.
pub fn propagation(number: usize, slot: &ServingSlot, serving: &Serving) -> Result<Vec<(u64, f64)>, AccessError> {
    let n = serving.user_leg_km.len();
    if n < 2 || serving.gateway_leg_km.len() != n || serving.elevation_deg.len() != n {
        return Err(error(
            number,
            serving,
            format!(
                "{n} terminal ranges, {} gateway ranges, {} elevations; expected the same number of each, at least two",
                serving.gateway_leg_km.len(),
                serving.elevation_deg.len()
            ),
        ));
    }
    if let Some(&bad) = serving.elevation_deg.iter().find(|deg| !(-90.0..=90.0).contains(*deg)) {
        return Err(error(number, serving, format!("elevation {bad}°; expected -90 to 90")));
    }
    let last_step = serving.sample_step_ns.checked_mul(n as u64 - 2).and_then(|t| t.checked_add(slot.start_ns));
    if serving.sample_step_ns == 0 || last_step.is_none_or(|t| t >= slot.end_ns) {
        return Err(error(
            number,
            serving,
            format!("{n} samples every {} ns do not fit the slot; expected them within it", serving.sample_step_ns),
        ));
    }
    if serving.relays.is_empty() {
        delays(number, slot, serving, [&serving.user_leg_km, &serving.gateway_leg_km])
    } else {
        delays(number, slot, serving, [&serving.user_leg_km])
    }
}

/// Return the delay over legs in a row. Their samples are those of the user leg.
pub(super) fn delays<const N: usize>(
    number: usize,
    slot: &ServingSlot,
    serving: &Serving,
    legs_km: [&Vec<f64>; N],
) -> Result<Vec<(u64, f64)>, AccessError> {
    let n = serving.user_leg_km.len();
    if let Some(other) = legs_km.iter().find(|leg| leg.len() != n) {
        return Err(error(number, serving, format!("{} lengths of a link and {n} terminal ranges; expected the same number", other.len())));
    }
    (0..n)
        .map(|i| {
            let at_ns = if i + 1 == n { slot.end_ns } else { slot.start_ns + serving.sample_step_ns * i as u64 };
            let legs = legs_km.map(|leg| leg[i]);
            let total_km: f64 = legs.iter().sum();
            if legs.iter().all(|&km| km > 0.0) && total_km < N as f64 * LONGEST_LEG_KM {
                Ok((at_ns, total_km / LIGHT_KM_S * 1e9))
            } else {
                let legs = legs.map(|km| km.to_string()).join(" and ");
                Err(error(number, serving, format!("legs of {legs} km; expected ranges above 0")))
            }
        })
        .collect()
}

fn error(slot: usize, serving: &Serving, problem: String) -> AccessError {
    AccessError::Geometry { slot, norad_id: serving.norad_id, problem }
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
