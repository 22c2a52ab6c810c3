//! Mean orbital elements of a satellite, and readers of their formats: TLE and OMM (CSV, JSON, XML).

mod age;
mod omm;
mod omm_csv;
mod omm_json;
mod omm_xml;
mod sets;
mod tle;

use crate::error::{OrbitError, Place};
use bentpipe_profile::error::SHOWN_CHARS;
use bentpipe_profile::{Utc, shown};

pub use age::{AgeWarning, age_days, age_warning, expected_error_km};
pub use sets::nearest_of_each;

/// Largest file of elements that is read [bytes]. Chosen here, because the whole public catalogue (about 60,000 objects) takes 80 MB in its
/// longest format, XML.
pub const MAX_FILE_BYTES: usize = 256 << 20;

/// Largest number of satellites in one file. Chosen here, because it is over ten times the public catalogue.
pub const MAX_RECORDS: usize = 1_000_000;

/// Mean elements of one satellite in SGP4's sense (Kozai mean motion, TEME of epoch).
///
/// Source of the fields: CCSDS 502.0-B-3, §4 (OMM); Vallado et al., "Revisiting Spacetrack Report #3", AIAA 2006-6753.
#[derive(Clone, Debug, PartialEq)]
pub struct Elements {
    /// Name, without the prefix "0 " of some catalogues; `NORAD 12345` if the file has no name.
    pub name: String,
    /// NORAD catalogue number.
    pub norad_id: u64,
    /// International designator, `2019-074B`, if the file has one. Its first eight characters identify the launch.
    pub designator: Option<String>,
    /// Epoch of the elements.
    pub epoch: Utc,
    /// Kozai mean motion [revolutions per day].
    pub mean_motion_rev_day: f64,
    /// Eccentricity.
    pub eccentricity: f64,
    /// Inclination [deg].
    pub inclination_deg: f64,
    /// Right ascension of the ascending node, TEME [deg].
    pub raan_deg: f64,
    /// Argument of perigee [deg].
    pub arg_perigee_deg: f64,
    /// Mean anomaly [deg].
    pub mean_anomaly_deg: f64,
    /// SGP4's drag term B* [1 / Earth radii].
    pub bstar_per_er: f64,
}

/// The formats of element files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Two lines a satellite, or three with its name.
    Tle,
    /// Orbit Mean-Elements Message as CSV, one satellite a row.
    OmmCsv,
    /// Orbit Mean-Elements Message as JSON: an array of objects, or one object.
    OmmJson,
    /// Orbit Mean-Elements Message as XML.
    OmmXml,
}

/// Detect the format of `bytes`. XML begins with `<`, JSON with `[` or `{`, CSV with a header that names `MEAN_MOTION`; a TLE has a line that begins
/// with `1 ` followed by one that begins with `2 `, or at least one of them.
///
/// # Errors
/// [`OrbitError::Empty`], [`OrbitError::UnknownFormat`].
pub fn detect(bytes: &[u8], file: &str) -> Result<Format, OrbitError> {
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes).trim_ascii_start();
    match text.first() {
        None => return Err(OrbitError::Empty { file: file.to_owned() }),
        Some(b'<') => return Ok(Format::OmmXml),
        Some(b'[' | b'{') => return Ok(Format::OmmJson),
        Some(_) => {}
    }
    let first_line = text.split(|&b| b == b'\n').next().unwrap_or_default();
    if first_line.windows(11).any(|w| w == b"MEAN_MOTION") {
        return Ok(Format::OmmCsv);
    }
    let tle_line = |line: &[u8]| line.starts_with(b"1 ") || line.starts_with(b"2 ");
    if text.split(|&b| b == b'\n').take(TLE_LOOK_AHEAD_LINES).any(tle_line) {
        return Ok(Format::Tle);
    }
    Err(OrbitError::UnknownFormat { file: file.to_owned(), beginning: excerpt(first_line) })
}

/// Number of lines within which a TLE's line 1 or 2 must appear. Chosen here, because some files open with a comment.
const TLE_LOOK_AHEAD_LINES: usize = 20;

/// Read every satellite of a file, in order. `file`: name for error messages.
///
/// An invalid record is an error with its position. No satellite is silently left out.
///
/// # Errors
/// Every reading error of [`OrbitError`].
pub fn read_elements(bytes: &[u8], file: &str) -> Result<Vec<Elements>, OrbitError> {
    if bytes.len() > MAX_FILE_BYTES {
        return Err(OrbitError::TooLarge { file: file.to_owned(), size_bytes: bytes.len(), limit_bytes: MAX_FILE_BYTES });
    }
    let format = detect(bytes, file)?;
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let elements = match format {
        Format::Tle => tle::read(bytes, file),
        Format::OmmCsv => omm_csv::read(bytes, file),
        Format::OmmJson => omm_json::read(bytes, file),
        Format::OmmXml => omm_xml::read(bytes, file),
    }?;
    if elements.is_empty() {
        return Err(OrbitError::NoRecords { file: file.to_owned() });
    }
    Ok(elements)
}

/// Refuse a record beyond the limit.
fn check_count(count: usize, file: &str) -> Result<(), OrbitError> {
    if count >= MAX_RECORDS {
        return Err(OrbitError::TooManyRecords { file: file.to_owned(), limit: MAX_RECORDS });
    }
    Ok(())
}

/// Return the name without the catalogue's "0 " and without padding; the catalogue number if the name is empty.
fn clean_name(raw: &str, norad_id: u64) -> String {
    let name = raw.trim();
    let name = name.strip_prefix("0 ").unwrap_or(name).trim();
    if name.is_empty() { format!("NORAD {norad_id}") } else { name.to_owned() }
}

/// Return the start of a line for an error message. It is cut before decoding, since a line may be as long as the file.
fn excerpt(line: &[u8]) -> String {
    shown(String::from_utf8_lossy(&line[..line.len().min(4 * SHOWN_CHARS + 4)]).trim_end())
}

/// Check the ranges that apply to all formats.
fn validated(elements: Elements, place: &Place) -> Result<Elements, OrbitError> {
    let checks: [(&'static str, f64, std::ops::RangeInclusive<f64>, &'static str); 7] = [
        ("MEAN_MOTION", elements.mean_motion_rev_day, 1e-6..=20.0, "0.000001 to 20 revolutions a day"),
        ("ECCENTRICITY", elements.eccentricity, 0.0..=0.999_999_99, "0 to below 1"),
        ("INCLINATION", elements.inclination_deg, 0.0..=180.0, "0 to 180 degrees"),
        ("RA_OF_ASC_NODE", elements.raan_deg, -360.0..=360.0, "-360 to 360 degrees"),
        ("ARG_OF_PERICENTER", elements.arg_perigee_deg, -360.0..=360.0, "-360 to 360 degrees"),
        ("MEAN_ANOMALY", elements.mean_anomaly_deg, -360.0..=360.0, "-360 to 360 degrees"),
        ("BSTAR", elements.bstar_per_er, -100.0..=100.0, "-100 to 100 per Earth radius"),
    ];
    for (field, value, range, expected) in checks {
        if !range.contains(&value) {
            return Err(OrbitError::BadField { place: place.clone(), field, value: value.to_string(), expected });
        }
    }
    Ok(elements)
}

#[cfg(test)]
mod tests;
