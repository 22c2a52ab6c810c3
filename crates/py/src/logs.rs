//! `bentpipe._native.ping_replies` and `table_rows`: the usual lines of long logs.

use bentpipe_logs::table::{Column, Kind};
use bentpipe_logs::{Rest, ping, table};
use numpy::{IntoPyArray, PyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

type Array<'py, T> = Bound<'py, PyArray1<T>>;

/// Numbers of the lines that were not read, and their bytes.
type RestColumns<'py> = (Array<'py, u32>, Bound<'py, PyBytes>);

/// Lines, times [ns], sequence numbers, RTTs [ms], the rest.
type ReplyColumns<'py> = (Array<'py, u32>, Array<'py, i64>, Array<'py, u32>, Array<'py, f64>, RestColumns<'py>);

fn rest_columns(py: Python<'_>, rest: Rest) -> RestColumns<'_> {
    (rest.lines.into_pyarray(py), PyBytes::new(py, &rest.text))
}

/// The replies in a block of ping's text; the GIL is released.
#[pyfunction]
pub fn ping_replies<'py>(py: Python<'py>, block: &[u8], first_line: u32) -> ReplyColumns<'py> {
    let found = py.detach(|| ping::replies(block, first_line));
    (
        found.line.into_pyarray(py),
        found.stamp_ns.into_pyarray(py),
        found.seq.into_pyarray(py),
        found.rtt_ms.into_pyarray(py),
        rest_columns(py, found.rest),
    )
}

/// The rows of plain numbers in a block of a table; the GIL is released. A kind is `passed`, `number`, `rtt`, or a time's
/// unit: `s`, `ms`, `us`, `ns`.
#[pyfunction]
pub fn table_rows<'py>(
    py: Python<'py>,
    block: &[u8],
    first_line: u32,
    separator: char,
    kinds: Vec<String>,
) -> PyResult<(Array<'py, u32>, Bound<'py, PyList>, RestColumns<'py>)> {
    let kinds = kinds
        .iter()
        .map(|kind| match kind.as_str() {
            "passed" => Ok(Kind::Passed),
            "number" => Ok(Kind::Number),
            "rtt" => Ok(Kind::RoundTrip),
            "s" => Ok(Kind::Time(1_000_000_000)),
            "ms" => Ok(Kind::Time(1_000_000)),
            "us" => Ok(Kind::Time(1_000)),
            "ns" => Ok(Kind::Time(1)),
            _ => Err(PyValueError::new_err(format!("no kind {kind:?}"))),
        })
        .collect::<PyResult<Vec<_>>>()?;
    let separator = u8::try_from(separator).map_err(|_| PyValueError::new_err("a separator is one byte"))?;
    let found = py.detach(|| table::rows(block, first_line, separator, &kinds));
    let columns = PyList::empty(py);
    for column in found.columns {
        match column {
            Column::Time(times) => columns.append(times.into_pyarray(py))?,
            Column::Number(numbers) => columns.append(numbers.into_pyarray(py))?,
        }
    }
    Ok((found.line.into_pyarray(py), columns, rest_columns(py, found.rest)))
}
