//! `bentpipe._native.ping_replies` and `table_rows`: fast parsers for the most frequent lines of long logs.

use bentpipe_logs::table::{Column, Kind};
use bentpipe_logs::{UnparsedLines, ping, table};
use numpy::{IntoPyArray, PyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

type Array<'py, T> = Bound<'py, PyArray1<T>>;

/// Numbers of the unparsed lines, and their bytes.
type UnparsedColumns<'py> = (Array<'py, u32>, Bound<'py, PyBytes>);

/// Line numbers, times [ns], sequence numbers, RTTs [ms], unparsed lines.
type ReplyColumns<'py> = (Array<'py, u32>, Array<'py, i64>, Array<'py, u32>, Array<'py, f64>, UnparsedColumns<'py>);

fn unparsed_columns(py: Python<'_>, unparsed: UnparsedLines) -> UnparsedColumns<'_> {
    (unparsed.lines.into_pyarray(py), PyBytes::new(py, &unparsed.text))
}

/// Parse the replies in a block of ping's output. Releases the GIL.
#[pyfunction]
pub fn ping_replies<'py>(py: Python<'py>, block: &[u8], first_line: u32) -> ReplyColumns<'py> {
    let parsed = py.detach(|| ping::replies(block, first_line));
    (
        parsed.line.into_pyarray(py),
        parsed.stamp_ns.into_pyarray(py),
        parsed.seq.into_pyarray(py),
        parsed.rtt_ms.into_pyarray(py),
        unparsed_columns(py, parsed.unparsed),
    )
}

/// Parse the rows of plain numbers in a block of a table. Releases the GIL. `kinds`: for each column `passed` (skipped), `number`, `rtt`, or the unit of a
/// time: `s`, `ms`, `us`, `ns`.
#[pyfunction]
pub fn table_rows<'py>(
    py: Python<'py>,
    block: &[u8],
    first_line: u32,
    separator: char,
    kinds: Vec<String>,
) -> PyResult<(Array<'py, u32>, Bound<'py, PyList>, UnparsedColumns<'py>)> {
    let kinds = kinds
        .iter()
        .map(|kind| match kind.as_str() {
            "passed" => Ok(Kind::Skipped),
            "number" => Ok(Kind::Number),
            "rtt" => Ok(Kind::Rtt),
            "s" => Ok(Kind::Time(1_000_000_000)),
            "ms" => Ok(Kind::Time(1_000_000)),
            "us" => Ok(Kind::Time(1_000)),
            "ns" => Ok(Kind::Time(1)),
            _ => Err(PyValueError::new_err(format!("kinds: {kind:?}; expected passed, number, rtt, s, ms, us or ns"))),
        })
        .collect::<PyResult<Vec<_>>>()?;
    let separator = u8::try_from(separator).map_err(|_| PyValueError::new_err("separator: not ASCII; expected one byte"))?;
    let parsed = py.detach(|| table::rows(block, first_line, separator, &kinds));
    let columns = PyList::empty(py);
    for column in parsed.columns {
        match column {
            Column::Time(times) => columns.append(times.into_pyarray(py))?,
            Column::Number(numbers) => columns.append(numbers.into_pyarray(py))?,
        }
    }
    Ok((parsed.line.into_pyarray(py), columns, unparsed_columns(py, parsed.unparsed)))
}
