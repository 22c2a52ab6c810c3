//! `bentpipe._native.Network`.

use crate::error::user_error;
use crate::profile::PyProfile;
use bentpipe_profile::NetworkSpec;
use bentpipe_profile::table::Table;
use numpy::{IntoPyArray, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::Arc;

/// A validated, immutable network: a Topology and the paths over it.
#[pyclass(name = "Network", module = "bentpipe._native", frozen)]
#[derive(Clone)]
pub struct PyNetwork(pub Arc<NetworkSpec>);

#[pymethods]
impl PyNetwork {
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
        let network = py.detach(|| NetworkSpec::from_table(metadata, &table)).map_err(user_error)?;
        Ok(Self(Arc::new(network)))
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

    /// Names of the paths, in order.
    #[getter]
    fn path_names(&self) -> Vec<&str> {
        self.0.paths().iter().map(|path| path.name.as_str()).collect()
    }

    /// Return the paths as Profiles, in order.
    fn profiles(&self, py: Python<'_>) -> PyResult<Vec<PyProfile>> {
        let profiles = py.detach(|| (0..self.0.paths().len()).map(|path| self.0.profile(path)).collect::<Result<Vec<_>, _>>());
        Ok(profiles.map_err(user_error)?.into_iter().map(|profile| PyProfile(Arc::new(profile))).collect())
    }

    /// Draw the loss with another seed. A network without random processes stays unchanged.
    fn reseed(&self, py: Python<'_>, seed: u64) -> PyResult<Self> {
        if self.0.provenance().seed.is_none_or(|current| current == seed) {
            return Ok(self.clone());
        }
        let network = py.detach(|| bentpipe_orbit::network::reseed(&self.0, seed)).map_err(user_error)?;
        Ok(Self(Arc::new(network)))
    }
}
