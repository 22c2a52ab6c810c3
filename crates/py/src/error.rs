//! Conversion of the crates' errors to Python exceptions. An error that the user can fix becomes `bentpipe.errors.UserError` (a `ValueError`).

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyType;

/// Create a `UserError`: the cause is the user's input.
pub fn user_error(error: impl std::fmt::Display) -> PyErr {
    bentpipe_error("UserError", &error)
}

/// Create a `ControllerError`: a Python controller or application failed.
pub fn controller_error(error: impl std::fmt::Display) -> PyErr {
    bentpipe_error("ControllerError", &error)
}

fn bentpipe_error(class: &str, error: &dyn std::fmt::Display) -> PyErr {
    let message = error.to_string();
    Python::attach(|py| {
        let class = py.import("bentpipe.errors").and_then(|m| m.getattr(class)).and_then(|c| Ok(c.cast_into::<PyType>()?));
        class.map_or_else(|_| PyValueError::new_err(message.clone()), |class| PyErr::from_type(class, message.clone()))
    })
}
