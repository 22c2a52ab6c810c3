//! `bentpipe._native.PredictorModel`: forward passes of trained models.

use crate::error::user_error;
use bentpipe_signals::models::{Linear, Lstm, LstmArrays, Model, TreeArrays, Trees};
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// The arrays of `bentpipe.predict.arrays.TreeArrays`.
#[derive(FromPyObject)]
pub struct Arrays<'py> {
    columns: usize,
    feature: PyReadonlyArray1<'py, u32>,
    threshold: PyReadonlyArray1<'py, f32>,
    left: PyReadonlyArray1<'py, u32>,
    right: PyReadonlyArray1<'py, u32>,
    missing_left: PyReadonlyArray1<'py, u8>,
    root: PyReadonlyArray1<'py, u32>,
    output: PyReadonlyArray1<'py, u32>,
    base: PyReadonlyArray1<'py, f32>,
}

/// The arrays of `bentpipe.predict.arrays.MemoryArrays`.
#[derive(FromPyObject)]
pub struct MemoryArrays<'py> {
    lags: usize,
    units: usize,
    mean: PyReadonlyArray1<'py, f64>,
    scale: PyReadonlyArray1<'py, f64>,
    target: PyReadonlyArray1<'py, f64>,
    gates: PyReadonlyArray1<'py, f64>,
    head: PyReadonlyArray1<'py, f64>,
}

/// A trained model; see `bentpipe.predict.arrays`.
#[pyclass(name = "PredictorModel", module = "bentpipe._native", frozen)]
pub struct PyPredictorModel(Model);

#[pymethods]
impl PyPredictorModel {
    #[staticmethod]
    fn linear(
        columns: usize,
        quantiles: usize,
        phase_column: Option<usize>,
        weights: PyReadonlyArray1<'_, f64>,
        errors: PyReadonlyArray1<'_, f64>,
    ) -> PyResult<Self> {
        let (weights, errors) = (weights.as_slice()?.to_vec(), errors.as_slice()?.to_vec());
        Linear::new(columns, quantiles, phase_column, weights, errors).map(|model| Self(Model::Linear(model))).map_err(user_error)
    }

    #[staticmethod]
    fn trees(arrays: Arrays<'_>) -> PyResult<Self> {
        let arrays = TreeArrays {
            columns: arrays.columns,
            feature: arrays.feature.as_slice()?.to_vec(),
            threshold: arrays.threshold.as_slice()?.to_vec(),
            left: arrays.left.as_slice()?.to_vec(),
            right: arrays.right.as_slice()?.to_vec(),
            missing_left: arrays.missing_left.as_slice()?.to_vec(),
            root: arrays.root.as_slice()?.to_vec(),
            output: arrays.output.as_slice()?.to_vec(),
            base: arrays.base.as_slice()?.to_vec(),
        };
        Trees::new(&arrays).map(|model| Self(Model::Trees(model))).map_err(user_error)
    }

    #[staticmethod]
    fn lstm(quantiles: usize, arrays: MemoryArrays<'_>) -> PyResult<Self> {
        let arrays = LstmArrays {
            lags: arrays.lags,
            units: arrays.units,
            mean: arrays.mean.as_slice()?.to_vec(),
            scale: arrays.scale.as_slice()?.to_vec(),
            target: arrays.target.as_slice()?.to_vec(),
            gates: arrays.gates.as_slice()?.to_vec(),
            head: arrays.head.as_slice()?.to_vec(),
        };
        Lstm::new(quantiles, arrays).map(|model| Self(Model::Lstm(model))).map_err(user_error)
    }

    #[staticmethod]
    fn mean(members: Vec<PyRef<'_, Self>>, weights: Vec<f64>) -> PyResult<Self> {
        Model::mean(members.iter().map(|member| member.0.clone()).collect(), &weights).map(Self).map_err(user_error)
    }

    #[getter]
    fn columns(&self) -> usize {
        self.0.columns()
    }

    #[getter]
    fn quantiles(&self) -> usize {
        self.0.quantiles()
    }

    /// Return the quantiles of rows that stand one after the other. Releases the GIL.
    fn predict<'py>(&self, py: Python<'py>, rows: PyReadonlyArray1<'py, f64>) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let (rows, columns) = (rows.as_slice()?, self.0.columns());
        if columns == 0 || !rows.len().is_multiple_of(columns) {
            return Err(PyValueError::new_err(format!("{} numbers; expected rows of {columns}", rows.len())));
        }
        let quantiles: Vec<f64> = py.detach(|| rows.chunks_exact(columns).flat_map(|row| self.0.predict(row)).collect());
        Ok(quantiles.into_pyarray(py))
    }
}
