//! Reader of OMM as JSON: an array of objects with CCSDS keywords, or one object. Values may be numbers (Celestrak) or strings (Space-Track).

use super::omm::{OmmFields, slot};
use super::{Elements, check_count};
use crate::error::{OrbitError, Place};
use serde_json::{Map, Value};

/// Read every satellite of the file.
pub(super) fn read(bytes: &[u8], file: &str) -> Result<Vec<Elements>, OrbitError> {
    let syntax = |line: Option<u64>, reason: String| OrbitError::Syntax {
        place: Place { file: file.to_owned(), line, record: None },
        format: "JSON",
        reason,
    };
    let value: Value = serde_json::from_slice(bytes).map_err(|e| syntax(Some(e.line() as u64), e.to_string()))?;
    let records = match value {
        Value::Array(records) => records,
        one @ Value::Object(_) => vec![one],
        _ => return Err(syntax(None, "expected an array of objects".to_owned())),
    };
    let mut elements = Vec::with_capacity(records.len());
    for record in &records {
        check_count(elements.len(), file)?;
        let place = Place { file: file.to_owned(), line: None, record: Some(elements.len() + 1) };
        let Value::Object(map) = record else {
            return Err(OrbitError::Syntax { place, format: "JSON", reason: "expected an object with OMM keywords".to_owned() });
        };
        elements.push(fields(map, &place)?.elements(&place)?);
    }
    Ok(elements)
}

fn fields(map: &Map<String, Value>, place: &Place) -> Result<OmmFields, OrbitError> {
    let mut fields = OmmFields::default();
    for (keyword, value) in map {
        let Some(slot) = slot(keyword) else { continue };
        match value {
            Value::Null => {}
            Value::String(text) => fields.set(slot, text, place)?,
            // serde_json writes the shortest text that parses to the same number.
            other => fields.set(slot, &other.to_string(), place)?,
        }
    }
    Ok(fields)
}
