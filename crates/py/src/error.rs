//! One bridge from the crates' errors to Python's: what the user can mend becomes `bentpipe.errors.UserError` (a `ValueError`).

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyType;

/// An error whose cause is the input.
pub fn user_error(error: impl std::fmt::Display) -> PyErr {
    ours("UserError", &error)
}

/// A controller of the user's that cannot go on.
pub fn controller_error(error: impl std::fmt::Display) -> PyErr {
    ours("ControllerError", &error)
}

fn ours(class: &str, error: &dyn std::fmt::Display) -> PyErr {
    let message = error.to_string();
    Python::attach(|py| {
        let class = py.import("bentpipe.errors").and_then(|m| m.getattr(class)).and_then(|c| Ok(c.cast_into::<PyType>()?));
        class.map_or_else(|_| PyValueError::new_err(message.clone()), |class| PyErr::from_type(class, message.clone()))
    })
}
