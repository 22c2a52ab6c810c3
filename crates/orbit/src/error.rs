//! The error of this crate: where, the value, and what is expected.

use bentpipe_profile::{shown, shown_message};
use std::fmt;

/// Why elements cannot be read, propagated or used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum OrbitError {
    /// The file is empty or contains only white space.
    #[error("{file}: the file is empty; expected TLE (2 or 3 lines a satellite), OMM CSV, OMM JSON or OMM XML")]
    Empty {
        /// Name of the file.
        file: String,
    },
    /// The first characters match no supported format.
    #[error(
        "{file}: not a format of orbital elements: it begins with {beginning:?}; expected TLE (2 or 3 lines a satellite), OMM CSV, OMM JSON or OMM XML"
    )]
    UnknownFormat {
        /// Name of the file.
        file: String,
        /// Beginning of the file.
        beginning: String,
    },
    /// The file is too large.
    #[error("{file}: {size_bytes} bytes of elements; expected at most {limit_bytes} (the whole public catalogue is about 80 MB as XML)")]
    TooLarge {
        /// Name of the file.
        file: String,
        /// Its size [bytes].
        size_bytes: usize,
        /// The limit [bytes].
        limit_bytes: usize,
    },
    /// The file contains too many satellites.
    #[error("{file}: more than {limit} satellites; expected at most that; split the file")]
    TooManyRecords {
        /// Name of the file.
        file: String,
        /// The limit.
        limit: usize,
    },
    /// The file contains no satellite.
    #[error("{file}: no satellite in it; expected at least one")]
    NoRecords {
        /// Name of the file.
        file: String,
    },
    /// The text is not valid JSON, CSV or XML.
    #[error("{place}: not valid {format}: {}", shown_message(reason))]
    Syntax {
        /// Where.
        place: Place,
        /// `JSON`, `CSV` or `XML`.
        format: &'static str,
        /// Message of the parser.
        reason: String,
    },
    /// A TLE line is missing, doubled, out of order or of the wrong length.
    #[error("{place}: {problem}; expected {expected}")]
    TleLayout {
        /// Where.
        place: Place,
        /// The problem.
        problem: String,
        /// Expected content.
        expected: &'static str,
    },
    /// A TLE line's last digit is not the sum of the others.
    #[error(
        "{place}: checksum {stored} of TLE line {tle_line} does not match the line (computed {computed}); the line was altered or mixed with another"
    )]
    TleChecksum {
        /// Where.
        place: Place,
        /// 1 or 2.
        tle_line: u8,
        /// The digit in column 69.
        stored: char,
        /// Checksum of the line's characters.
        computed: u8,
    },
    /// The two lines of a TLE belong to different satellites.
    #[error(
        "{place}: line 1 is of satellite {line1_id:?} and line 2 of {line2_id:?}; expected the same satellite in both; the file's lines are mixed up"
    )]
    TleMixedUp {
        /// Where.
        place: Place,
        /// Columns 3–7 of line 1.
        line1_id: String,
        /// Columns 3–7 of line 2.
        line2_id: String,
    },
    /// A TLE field does not parse.
    #[error("{place}: {reason}")]
    TleField {
        /// Where.
        place: Place,
        /// Error of the `sgp4` crate.
        reason: sgp4::TleError,
    },
    /// A field of an OMM is missing.
    #[error("{place}: field {field} is missing")]
    MissingField {
        /// Where.
        place: Place,
        /// Its CCSDS keyword.
        field: &'static str,
    },
    /// A field of an OMM has an invalid value.
    #[error("{place}: field {field} is {:?}; expected {expected}", shown(value))]
    BadField {
        /// Where.
        place: Place,
        /// Its CCSDS keyword.
        field: &'static str,
        /// Its value.
        value: String,
        /// Accepted values.
        expected: &'static str,
    },
    /// The elements are outside the domain of SGP4.
    #[error("satellite {norad_id} ({name}): SGP4 refuses its elements: {reason}", name = shown(name))]
    NotAnOrbit {
        /// NORAD catalogue number.
        norad_id: u64,
        /// Name.
        name: String,
        /// Error of SGP4.
        reason: String,
    },
    /// SGP4 fails at the requested time.
    #[error("satellite {norad_id} ({name}): SGP4 fails {age_days:.1} days from its elements' epoch: {reason}", name = shown(name))]
    Propagation {
        /// NORAD catalogue number.
        norad_id: u64,
        /// Name.
        name: String,
        /// Requested time minus epoch [days].
        age_days: f64,
        /// Error of SGP4.
        reason: String,
    },
    /// The orbit is inside the Earth at the requested time.
    #[error(
        "satellite {norad_id} ({name}) has decayed: {age_days:.1} days from its elements' epoch it is {radius_km:.0} km from the Earth's centre (WGS72 radius 6378.135 km); use elements nearer to the time, or leave it out", name = shown(name)
    )]
    Decayed {
        /// NORAD catalogue number.
        norad_id: u64,
        /// Name.
        name: String,
        /// Requested time minus epoch [days].
        age_days: f64,
        /// Distance from the Earth's centre [km].
        radius_km: f64,
    },
    /// The position is far beyond any orbit that the elements describe.
    #[error(
        "satellite {norad_id} ({name}): SGP4 diverges: {age_days:.1} days from its elements' epoch it is {radius_km:.0} km from the Earth's centre (expected at most {farthest_km:.0} km, 1.5 times its apogee and 1000 km); use elements nearer to the time, or leave it out", name = shown(name)
    )]
    Diverged {
        /// NORAD catalogue number.
        norad_id: u64,
        /// Name.
        name: String,
        /// Requested time minus epoch [days].
        age_days: f64,
        /// Distance from the Earth's centre [km].
        radius_km: f64,
        /// Largest accepted distance [km].
        farthest_km: f64,
    },
    /// An argument is outside its range.
    #[error("{name} is {value}; expected {expected}")]
    OutOfRange {
        /// Name of the argument.
        name: &'static str,
        /// Its value.
        value: f64,
        /// Its range.
        expected: &'static str,
    },
    /// A grid does not fit the number of satellites.
    #[error(
        "grid:{planes}x{per_plane} has {grid_satellites} satellites, the elements have {satellites}; expected plane-major elements, {per_plane} for each of {planes} planes"
    )]
    GridSize {
        /// Planes.
        planes: usize,
        /// Satellites in a plane.
        per_plane: usize,
        /// Their product.
        grid_satellites: usize,
        /// Number of satellites in the elements.
        satellites: usize,
    },
    /// An inter-satellite link passes too low.
    #[error(
        "the link {from} – {to} passes {lowest_km:.1} km above the Earth's surface; expected at least {min_km} km; is the file in plane-major order, and the grid the right one?"
    )]
    LinkThroughEarth {
        /// Name of one end.
        from: String,
        /// Name of the other.
        to: String,
        /// Lowest point of the link above the sphere of equatorial radius [km].
        lowest_km: f64,
        /// Lowest accepted height [km].
        min_km: f64,
    },
    /// A track is invalid.
    #[error("track: point {point}: {problem}; expected {expected}")]
    Track {
        /// Number of the point, from 1.
        point: usize,
        /// The problem.
        problem: String,
        /// Expected content.
        expected: &'static str,
    },
    /// A track does not cover the whole time.
    #[error("track: {}; expected points that cover all of the Profile", uncovered(*late_s, *short_s))]
    TrackSpan {
        /// Time from the start of the Profile to the first point [s], or 0.
        late_s: f64,
        /// Time from the last point to the end of the Profile [s], or 0.
        short_s: f64,
    },
    /// There is no use of inter-satellite links with this name.
    #[error("isl: {:?}; expected never, auto or always", shown(name))]
    UnknownIsl {
        /// The requested name.
        name: String,
    },
    /// A network cannot be made as asked.
    #[error("network {:?}: {problem}; expected {expected}", shown(name))]
    Network {
        /// Its name.
        name: String,
        /// The problem.
        problem: String,
        /// What is expected.
        expected: String,
    },
    /// There is no policy with this name.
    #[error("no scheduling policy {:?}; there are {known}", shown(name))]
    UnknownPolicy {
        /// The requested name.
        name: String,
        /// The existing names.
        known: String,
    },
}

/// A place in a file of elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Name of the file.
    pub file: String,
    /// Line, from 1; `None`: the format has no lines.
    pub line: Option<u64>,
    /// Record (satellite), from 1; `None`: outside the records.
    pub record: Option<usize>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if let Some(record) = self.record {
            write!(f, ": satellite {record} of the file")?;
        }
        Ok(())
    }
}

/// Return `value` if it is within `range`, else [`OrbitError::OutOfRange`].
pub(crate) fn in_range(
    name: &'static str,
    value: f64,
    range: std::ops::RangeInclusive<f64>,
    expected: &'static str,
) -> Result<f64, OrbitError> {
    if range.contains(&value) { Ok(value) } else { Err(OrbitError::OutOfRange { name, value, expected }) }
}

/// What of a Profile a track does not cover, as text.
fn uncovered(late_s: f64, short_s: f64) -> String {
    let begin = (late_s > 0.0).then(|| format!("begins {late_s} s after the Profile"));
    let end = (short_s > 0.0).then(|| format!("ends {short_s} s before the Profile ends"));
    begin.into_iter().chain(end).collect::<Vec<_>>().join(" and ")
}
