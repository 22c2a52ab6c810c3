//! Reader of OMM as CSV: a header of CCSDS keywords, one satellite per row.

use super::omm::{OmmFields, slot};
use super::{Elements, check_count};
use crate::error::{OrbitError, Place};

/// Read every satellite of the file.
pub(super) fn read(bytes: &[u8], file: &str) -> Result<Vec<Elements>, OrbitError> {
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(bytes);
    let place = |line: Option<u64>, record: Option<usize>| Place { file: file.to_owned(), line, record };
    let syntax = |error: &csv::Error| OrbitError::Syntax {
        place: place(error.position().map(csv::Position::line), None),
        format: "CSV",
        reason: error.to_string(),
    };
    let columns: Vec<Option<usize>> = reader.headers().map_err(|e| syntax(&e))?.iter().map(slot).collect();
    let mut elements = Vec::new();
    for row in reader.records() {
        let row = row.map_err(|e| syntax(&e))?;
        check_count(elements.len(), file)?;
        let here = place(row.position().map(csv::Position::line), Some(elements.len() + 1));
        let mut fields = OmmFields::default();
        for (value, slot) in row.iter().zip(&columns) {
            if let Some(slot) = *slot {
                fields.set(slot, value, &here)?;
            }
        }
        elements.push(fields.elements(&here)?);
    }
    Ok(elements)
}
