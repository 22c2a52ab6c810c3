//! `bentpipe._native.VideoChoices`: a policy for a player outside the simulator.

use crate::error::user_error;
use bentpipe_apps::video::{Choices, Download};
use bentpipe_profile::video::VideoSpec;
use pyo3::prelude::*;
use std::sync::{Mutex, PoisonError};

/// A policy and what its player reported; see `bentpipe.execution.browser_player`.
#[pyclass(name = "VideoChoices", module = "bentpipe._native", frozen)]
pub struct PyVideoChoices(Mutex<Choices>);

#[pymethods]
impl PyVideoChoices {
    #[new]
    fn new(spec: &str) -> PyResult<Self> {
        let spec: VideoSpec = serde_json::from_str(spec).map_err(user_error)?;
        if let Some((field, expected)) = spec.problem() {
            return Err(user_error(format!("{field}: expected {expected}")));
        }
        Ok(Self(Mutex::new(Choices::new(&spec))))
    }

    fn arrived(&self, size_bytes: f64, first_byte_s: f64, took_s: f64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).arrived(Download { bytes: size_bytes, first_byte_s, took_s });
    }

    fn choose(&self, py: Python<'_>, now_s: f64, buffer_s: f64) -> usize {
        py.detach(|| self.0.lock().unwrap_or_else(PoisonError::into_inner).choose(now_s, buffer_s))
    }
}
