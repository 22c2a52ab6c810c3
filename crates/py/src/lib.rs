//! Python bindings: one file per Python-visible object, one error bridge, no logic. Defaults and docstrings live in Python.

mod error;
mod profile;

use pyo3::prelude::*;

/// The native half of `bentpipe`.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<profile::PyProfile>()?;
    Ok(())
}
