//! `bentpipe._native.simulate_multipath`.

use crate::error::user_error;
use crate::profile::PyProfile;
use bentpipe_profile::Nanos;
use bentpipe_sim::multipath::{MultipathSpec, simulate};
use numpy::IntoPyArray;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

/// Simulate a connection over several paths. Returns columns: of each write, when it was complete [s] (NaN: it was not); at each sample, what had been delivered
/// and acknowledged [bytes]; totals of the subflows.
#[pyfunction]
pub fn simulate_multipath<'py>(py: Python<'py>, spec_json: &str, profiles: Vec<PyRef<'_, PyProfile>>) -> PyResult<Bound<'py, PyDict>> {
    let spec: MultipathSpec = serde_json::from_str(spec_json).map_err(user_error)?;
    let profiles: Vec<_> = profiles.iter().map(|profile| profile.0.clone()).collect();
    let data = py.detach(|| simulate(spec, &profiles)).map_err(user_error)?;
    let table = PyDict::new(py);
    let completed: Vec<f64> = data.completed.iter().map(|at| at.map_or(f64::NAN, Nanos::as_secs_f64)).collect();
    table.set_item("completed_s", completed.into_pyarray(py))?;
    let delivered: Vec<u64> = data.delivered.iter().map(|(bytes, _)| bytes.0).collect();
    table.set_item("delivered_bytes", delivered.into_pyarray(py))?;
    let subflows = PyList::empty(py);
    for (i, totals) in data.subflows.iter().enumerate() {
        let row = PyDict::new(py);
        let acked: Vec<u64> = data.delivered.iter().map(|(_, acked)| acked[i].0).collect();
        row.set_item("acked_bytes", acked.into_pyarray(py))?;
        row.set_item("segments", totals.segments)?;
        row.set_item("retransmits", totals.retransmits)?;
        row.set_item("timeouts", totals.timeouts)?;
        row.set_item("reinjected_bytes", totals.reinjected.0)?;
        subflows.append(row)?;
    }
    table.set_item("subflows", subflows)?;
    table.set_item("peak_reordering_bytes", data.peak_reordering.0)?;
    Ok(table)
}
