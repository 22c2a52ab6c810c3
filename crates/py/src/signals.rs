//! `bentpipe._native.FeatureStream`, `features_table` and `feature_names`: features of a signal.

use crate::error::user_error;
use bentpipe_signals::{FeatureSpec, FeatureStream, SlotClock, table};
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// The attributes of `bentpipe.predict.features.SlotClock`.
#[derive(FromPyObject)]
pub struct Clock {
    period_s: f64,
    phase_s: f64,
}

/// The attributes of `bentpipe.predict.features.FeatureSpec`.
#[derive(FromPyObject)]
pub struct Spec {
    step_s: f64,
    lags: usize,
    windows_s: Vec<f64>,
    ewma: Vec<f64>,
    slot: Option<Clock>,
    earlier_slots: usize,
    time_of_day: bool,
    covariates: Vec<String>,
    floor: f64,
    relative: bool,
    reference_s: f64,
}

impl From<Spec> for FeatureSpec {
    fn from(spec: Spec) -> Self {
        Self {
            step_s: spec.step_s,
            lags: spec.lags,
            windows_s: spec.windows_s,
            ewma: spec.ewma,
            slot: spec.slot.map(|Clock { period_s, phase_s }| SlotClock { period_s, phase_s }),
            earlier_slots: spec.earlier_slots,
            time_of_day: spec.time_of_day,
            covariates: spec.covariates.len(),
            floor: spec.floor,
            relative: spec.relative,
            reference_s: spec.reference_s,
        }
    }
}

/// Return the names of the columns, and check the specification.
#[pyfunction]
pub fn feature_names(spec: Spec) -> PyResult<Vec<String>> {
    let names = spec.covariates.clone();
    let spec = FeatureSpec::from(spec);
    spec.check().map_err(user_error)?;
    let mut columns = spec.names();
    columns.truncate(spec.columns() - names.len());
    columns.extend(names);
    Ok(columns)
}

/// Rows, whether each has enough history, and references.
type Columns<'py> = (Bound<'py, PyArray1<f64>>, Bound<'py, PyArray1<bool>>, Bound<'py, PyArray1<f64>>);

/// Compute the rows of a signal, one after the other. Releases the GIL.
#[pyfunction]
pub fn features_table<'py>(
    py: Python<'py>,
    spec: Spec,
    t_s: PyReadonlyArray1<'py, f64>,
    values: PyReadonlyArray1<'py, f64>,
    covariates: PyReadonlyArray1<'py, f64>,
) -> PyResult<Columns<'py>> {
    let (t_s, values, covariates) = (t_s.as_slice()?, values.as_slice()?, covariates.as_slice()?);
    if t_s.len() != values.len() {
        return Err(PyValueError::new_err(format!("{} times of {} values", t_s.len(), values.len())));
    }
    let spec = FeatureSpec::from(spec);
    let table = py.detach(|| table(&spec, t_s, values, covariates)).map_err(user_error)?;
    Ok((table.rows.into_pyarray(py), table.is_ready.into_pyarray(py), table.reference.into_pyarray(py)))
}

/// A stream of samples; see `bentpipe.predict.features.FeatureStream`.
#[pyclass(name = "FeatureStream", module = "bentpipe._native")]
pub struct PyFeatureStream(FeatureStream);

#[pymethods]
impl PyFeatureStream {
    #[new]
    fn new(spec: Spec) -> PyResult<Self> {
        FeatureStream::new(spec.into()).map(Self).map_err(user_error)
    }

    fn push<'py>(&mut self, py: Python<'py>, t_s: f64, value: f64, covariates: Vec<f64>) -> PyResult<Bound<'py, PyArray1<f64>>> {
        Ok(PyArray1::from_slice(py, self.0.push(t_s, value, &covariates).map_err(user_error)?))
    }

    #[getter]
    const fn is_ready(&self) -> bool {
        self.0.is_ready()
    }

    #[getter]
    fn reference(&self) -> f64 {
        self.0.reference()
    }

    fn value_of(&self, prediction: f64) -> f64 {
        self.0.value_of(prediction)
    }
}
