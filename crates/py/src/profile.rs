//! `bentpipe._native.Profile`.

use crate::error::user_error;
use bentpipe_profile::table::Table;
use bentpipe_profile::{Direction, Profile, QueueRule};
use numpy::{IntoPyArray, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::Arc;

/// A validated, immutable time-varying path.
#[pyclass(name = "Profile", module = "bentpipe._native", frozen)]
#[derive(Clone)]
pub struct PyProfile(pub Arc<Profile>);

#[pymethods]
impl PyProfile {
    #[staticmethod]
    #[allow(clippy::too_many_arguments)] // the table's columns
    fn from_table(
        py: Python<'_>,
        metadata: &str,
        t_s: PyReadonlyArray1<'_, f64>,
        hop: PyReadonlyArray1<'_, u32>,
        direction: PyReadonlyArray1<'_, u8>,
        kind: PyReadonlyArray1<'_, u8>,
        value: PyReadonlyArray1<'_, f64>,
        valid: PyReadonlyArray1<'_, bool>,
    ) -> PyResult<Self> {
        let table = Table {
            t_s: t_s.as_array().to_vec(),
            hop: hop.as_array().to_vec(),
            direction: direction.as_array().to_vec(),
            kind: kind.as_array().to_vec(),
            value: value.as_array().to_vec(),
            valid: valid.as_array().to_vec(),
        };
        let profile = py.detach(|| Profile::from_table(metadata, &table)).map_err(user_error)?;
        Ok(Self(Arc::new(profile)))
    }

    fn metadata_json(&self) -> String {
        self.0.metadata_json()
    }

    fn table<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let table = py.detach(|| self.0.to_table());
        let columns = PyDict::new(py);
        columns.set_item("t_s", table.t_s.into_pyarray(py))?;
        columns.set_item("hop", table.hop.into_pyarray(py))?;
        columns.set_item("direction", table.direction.into_pyarray(py))?;
        columns.set_item("kind", table.kind.into_pyarray(py))?;
        columns.set_item("value", table.value.into_pyarray(py))?;
        columns.set_item("valid", table.valid.into_pyarray(py))?;
        Ok(columns)
    }

    fn content_hash(&self, py: Python<'_>) -> String {
        py.detach(|| self.0.content_hash())
    }

    #[getter]
    fn name(&self) -> &str {
        self.0.name()
    }

    #[getter]
    fn duration_s(&self) -> f64 {
        self.0.duration().as_secs_f64()
    }

    #[getter]
    fn start_unix_ns(&self) -> i64 {
        self.0.start().0
    }

    #[getter]
    fn seed(&self) -> Option<u64> {
        self.0.provenance().seed
    }

    /// Draw the random processes with another seed. A Profile without random processes (a preset, a measurement) stays unchanged.
    fn reseed(&self, py: Python<'_>, seed: u64) -> PyResult<Self> {
        if self.0.provenance().seed.is_none_or(|current| current == seed) {
            return Ok(self.clone());
        }
        let profile = py.detach(|| bentpipe_orbit::access::reseed(&self.0, seed)).map_err(user_error)?;
        Ok(Self(Arc::new(profile)))
    }

    /// Return the same path with its queues replaced. `rules_json`: list of `QueueRule`. `role`: role of the Profile in the Experiment.
    fn with_queues(&self, py: Python<'_>, role: &str, rules_json: &str) -> PyResult<Self> {
        let rules: Vec<QueueRule> = serde_json::from_str(rules_json).map_err(user_error)?;
        let profile = py.detach(|| self.0.with_queues(role, &rules)).map_err(user_error)?;
        Ok(Self(Arc::new(profile)))
    }

    fn delay_ms<'py>(
        &self,
        py: Python<'py>,
        direction: &str,
        t_s: PyReadonlyArray1<'_, f64>,
    ) -> PyResult<Bound<'py, numpy::PyArray1<f64>>> {
        let direction = direction_of(direction)?;
        let times = t_s.as_array().to_vec();
        let delays = py.detach(|| self.0.lone_packet_delays_ms(direction, &times)).map_err(user_error)?;
        Ok(delays.into_pyarray(py))
    }
}

/// Parse `up` or `down`.
fn direction_of(name: &str) -> PyResult<Direction> {
    match name {
        "up" => Ok(Direction::Up),
        "down" => Ok(Direction::Down),
        other => Err(user_error(format!("direction: {other:?}; expected up or down"))),
    }
}
