//! `bentpipe._native.recovery_schemes` and `read_recovery_tunable`.

use crate::error::user_error;
use crate::sim::tunable;
use bentpipe_profile::options::OptionValue;
use bentpipe_recovery::registry::{SCHEMES, SchemeError, find};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

/// Return every scheme of loss recovery inside the network: name, status, description, source, tunables.
#[pyfunction]
pub fn recovery_schemes(py: Python<'_>) -> PyResult<Bound<'_, PyList>> {
    let list = PyList::empty(py);
    for entry in SCHEMES {
        let tunables = PyList::empty(py);
        for option in entry.options {
            tunables.append(tunable(py, option)?)?;
        }
        let row = PyDict::new(py);
        row.set_item("name", entry.name)?;
        row.set_item("status", entry.status)?;
        row.set_item("description", entry.description)?;
        row.set_item("source", entry.citation)?;
        row.set_item("at_hosts", entry.at_hosts)?;
        row.set_item("tunables", tunables)?;
        list.append(row)?;
    }
    Ok(list)
}

/// Parse the value of a scheme's tunable from a user's `text`. Without a `name` only the scheme is checked.
#[pyfunction]
pub fn read_recovery_tunable(py: Python<'_>, scheme: &str, name: Option<&str>, text: &str) -> PyResult<Py<PyAny>> {
    let read = || -> Result<Option<OptionValue>, SchemeError> {
        let declared = find(scheme)?.declared();
        Ok(name.map(|name| declared.read(name, text)).transpose()?)
    };
    Ok(match read().map_err(user_error)? {
        None => py.None(),
        Some(OptionValue::Number(number)) => number.into_pyobject(py)?.into_any().unbind(),
        Some(OptionValue::Name(name)) => name.into_pyobject(py)?.into_any().unbind(),
    })
}
