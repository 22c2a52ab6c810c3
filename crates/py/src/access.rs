//! The access model: Profiles from a serving schedule, and its table of parameters.

use crate::error::user_error;
use crate::profile::PyProfile;
use bentpipe_orbit::access::{self, AccessParams, Origin};
use bentpipe_profile::shown_message;
use pyo3::prelude::*;
use std::sync::Arc;

/// Build a Profile from a serving schedule, ground legs, parameters and the origin of the schedule, all as JSON. `params`: `{}` leaves every parameter at
/// its default. `origin`: `null` if unknown.
#[pyfunction]
pub fn build_profile(
    py: Python<'_>,
    name: &str,
    schedule: &str,
    ground: &str,
    params: &str,
    origin: &str,
    seed: u64,
) -> PyResult<PyProfile> {
    let bad = |argument| move |e: serde_json::Error| user_error(format!("{argument}: {}", shown_message(&e.to_string())));
    let schedule = serde_json::from_str(schedule).map_err(bad("schedule"))?;
    let ground = serde_json::from_str(ground).map_err(bad("ground legs"))?;
    let params = serde_json::from_str(params).map_err(bad("access parameters"))?;
    let origin: Option<Origin> = serde_json::from_str(origin).map_err(bad("origin"))?;
    let profile = py.detach(|| access::build(name, &schedule, &ground, &params, origin.as_ref(), seed)).map_err(user_error)?;
    Ok(PyProfile(Arc::new(profile)))
}

/// Return the default parameters of the access model as JSON.
#[pyfunction]
pub fn access_parameters() -> PyResult<String> {
    serde_json::to_string(&AccessParams::default()).map_err(user_error)
}
