//! The fields of an Orbit Mean-Elements Message in any syntax (CCSDS 502.0-B-3, §4).

use super::{Elements, clean_name, validated};
use crate::error::{OrbitError, Place};
use bentpipe_profile::Utc;
use sgp4::chrono::NaiveDateTime;

/// The keywords that are read, in the order of [`OmmFields`]' slots.
const KEYWORDS: [&str; 15] = [
    "OBJECT_NAME",
    "OBJECT_ID",
    "EPOCH",
    "MEAN_MOTION",
    "ECCENTRICITY",
    "INCLINATION",
    "RA_OF_ASC_NODE",
    "ARG_OF_PERICENTER",
    "MEAN_ANOMALY",
    "NORAD_CAT_ID",
    "BSTAR",
    "CENTER_NAME",
    "REF_FRAME",
    "TIME_SYSTEM",
    "MEAN_ELEMENT_THEORY",
];

/// Longest value of a field. Chosen here, because longer real ones are only comments, which are not read.
const MAX_VALUE: usize = 256;

/// The raw values of one record, by keyword.
#[derive(Clone, Debug, Default)]
pub(super) struct OmmFields {
    values: [Option<String>; KEYWORDS.len()],
}

/// Return the slot of a keyword; `None`: it is not read.
pub(super) fn slot(keyword: &str) -> Option<usize> {
    KEYWORDS.iter().position(|k| *k == keyword)
}

impl OmmFields {
    /// Set the value of a slot.
    pub(super) fn set(&mut self, slot: usize, value: &str, place: &Place) -> Result<(), OrbitError> {
        let value = value.trim();
        if value.len() > MAX_VALUE {
            return Err(OrbitError::BadField {
                place: place.clone(),
                field: KEYWORDS[slot],
                value: value.to_owned(),
                expected: "at most 256 characters",
            });
        }
        if !value.is_empty() {
            self.values[slot] = Some(value.to_owned());
        }
        Ok(())
    }

    fn text(&self, keyword: &'static str) -> Option<&str> {
        self.values[slot(keyword)?].as_deref()
    }

    /// Return a required field.
    fn required(&self, keyword: &'static str, place: &Place) -> Result<&str, OrbitError> {
        self.text(keyword).ok_or_else(|| OrbitError::MissingField { place: place.clone(), field: keyword })
    }

    fn number(&self, keyword: &'static str, place: &Place) -> Result<f64, OrbitError> {
        let text = self.required(keyword, place)?;
        text.parse().map_err(|_| OrbitError::BadField {
            place: place.clone(),
            field: keyword,
            value: text.to_owned(),
            expected: "a number",
        })
    }

    /// Check that centre, frame, time scale and theory are those of SGP4, if the message states them.
    fn check_conventions(&self, place: &Place) -> Result<(), OrbitError> {
        let conventions = [
            ("CENTER_NAME", &["EARTH"] as &[&str], "EARTH"),
            ("REF_FRAME", &["TEME"], "TEME"),
            ("TIME_SYSTEM", &["UTC"], "UTC"),
            ("MEAN_ELEMENT_THEORY", &["SGP4", "SGP/SGP4"], "SGP4"),
        ];
        for (field, allowed, expected) in conventions {
            if let Some(value) = self.text(field)
                && !allowed.iter().any(|a| a.eq_ignore_ascii_case(value))
            {
                return Err(OrbitError::BadField { place: place.clone(), field, value: value.to_owned(), expected });
            }
        }
        Ok(())
    }

    /// Convert the record to elements.
    pub(super) fn elements(&self, place: &Place) -> Result<Elements, OrbitError> {
        self.check_conventions(place)?;
        let id = self.required("NORAD_CAT_ID", place)?;
        let norad_id = id.parse().map_err(|_| OrbitError::BadField {
            place: place.clone(),
            field: "NORAD_CAT_ID",
            value: id.to_owned(),
            expected: "a catalogue number",
        })?;
        validated(
            Elements {
                name: clean_name(self.text("OBJECT_NAME").unwrap_or_default(), norad_id),
                norad_id,
                designator: self.text("OBJECT_ID").map(str::to_owned),
                epoch: epoch(self.required("EPOCH", place)?, place)?,
                mean_motion_rev_day: self.number("MEAN_MOTION", place)?,
                eccentricity: self.number("ECCENTRICITY", place)?,
                inclination_deg: self.number("INCLINATION", place)?,
                raan_deg: self.number("RA_OF_ASC_NODE", place)?,
                arg_perigee_deg: self.number("ARG_OF_PERICENTER", place)?,
                mean_anomaly_deg: self.number("MEAN_ANOMALY", place)?,
                bstar_per_er: self.number("BSTAR", place)?,
            },
            place,
        )
    }
}

/// Parse an epoch in one of the two forms of CCSDS: calendar date or day of year, with an optional `Z`.
fn epoch(text: &str, place: &Place) -> Result<Utc, OrbitError> {
    let bare = text.strip_suffix('Z').unwrap_or(text);
    ["%Y-%m-%dT%H:%M:%S%.f", "%Y-%jT%H:%M:%S%.f", "%Y-%m-%d %H:%M:%S%.f"]
        .iter()
        .find_map(|format| NaiveDateTime::parse_from_str(bare, format).ok())
        .and_then(|t| t.and_utc().timestamp_nanos_opt())
        .map(Utc)
        .ok_or_else(|| OrbitError::BadField {
            place: place.clone(),
            field: "EPOCH",
            value: text.to_owned(),
            expected: "UTC such as 2026-05-10T09:00:00.000000, years 1678 to 2261",
        })
}
