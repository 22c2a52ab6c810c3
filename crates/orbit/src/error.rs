//! The one error of this crate: where, what was found, what was wanted.

use bentpipe_profile::{shown, shown_message};
use std::fmt;

/// Why elements cannot be read, propagated or used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum OrbitError {
    /// The file is empty or holds nothing but white space.
    #[error("{file}: the file is empty; wanted TLE (2 or 3 lines a satellite), OMM CSV, OMM JSON or OMM XML")]
    Empty {
        /// Name of the file.
        file: String,
    },
    /// The first characters fit no format we read.
    #[error(
        "{file}: not a format of orbital elements: it begins with {found:?}; wanted TLE (2 or 3 lines a satellite), OMM CSV, OMM JSON or OMM XML"
    )]
    UnknownFormat {
        /// Name of the file.
        file: String,
        /// How it begins.
        found: String,
    },
    /// The file is beyond the size we accept.
    #[error("{file}: {found_bytes} bytes of elements; at most {limit_bytes} are read (the whole public catalogue is about 80 MB as XML)")]
    TooLarge {
        /// Name of the file.
        file: String,
        /// Its size [bytes].
        found_bytes: usize,
        /// The limit [bytes].
        limit_bytes: usize,
    },
    /// The file holds more satellites than we accept.
    #[error("{file}: more than {limit} satellites; split the file")]
    TooManyRecords {
        /// Name of the file.
        file: String,
        /// The limit.
        limit: usize,
    },
    /// The file parses, but holds no satellite.
    #[error("{file}: no satellite in it; wanted at least one")]
    NoRecords {
        /// Name of the file.
        file: String,
    },
    /// The text is not JSON, CSV or XML as its kind demands.
    #[error("{place}: not valid {format}: {}", shown_message(reason))]
    Syntax {
        /// Where.
        place: Place,
        /// `JSON`, `CSV` or `XML`.
        format: &'static str,
        /// What the parser said.
        reason: String,
    },
    /// A TLE line is missing, doubled, out of order or of the wrong length.
    #[error("{place}: {found}; wanted {wanted}")]
    TleLayout {
        /// Where.
        place: Place,
        /// What stands there.
        found: String,
        /// What should stand there.
        wanted: &'static str,
    },
    /// A TLE line's last digit is not the sum of the others.
    #[error(
        "{place}: checksum {found} of TLE line {tle_line} does not match the line (computed {computed}); the line was altered or mixed with another"
    )]
    TleChecksum {
        /// Where.
        place: Place,
        /// 1 or 2.
        tle_line: u8,
        /// The digit in column 69.
        found: char,
        /// What the line's characters give.
        computed: u8,
    },
    /// The two lines of a TLE belong to different satellites.
    #[error("{place}: line 1 is of satellite {line1_id:?} and line 2 of {line2_id:?}; the file's lines are mixed up")]
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
        /// What the `sgp4` crate said.
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
    /// A field of an OMM is not what it should be.
    #[error("{place}: field {field} is {:?}; wanted {wanted}", shown(found))]
    BadField {
        /// Where.
        place: Place,
        /// Its CCSDS keyword.
        field: &'static str,
        /// What stands there.
        found: String,
        /// What should.
        wanted: &'static str,
    },
    /// The elements are outside SGP4's domain.
    #[error("satellite {norad_id} ({name}): SGP4 refuses its elements: {reason}", name = shown(name))]
    NotAnOrbit {
        /// NORAD catalogue number.
        norad_id: u64,
        /// Name.
        name: String,
        /// What SGP4 said.
        reason: String,
    },
    /// SGP4 fails at the asked time.
    #[error("satellite {norad_id} ({name}): SGP4 fails {age_days:.1} days from its elements' epoch: {reason}", name = shown(name))]
    Propagation {
        /// NORAD catalogue number.
        norad_id: u64,
        /// Name.
        name: String,
        /// Asked time minus epoch [days].
        age_days: f64,
        /// What SGP4 said.
        reason: String,
    },
    /// The orbit lies inside the Earth at the asked time.
    #[error(
        "satellite {norad_id} ({name}) has decayed: {age_days:.1} days from its elements' epoch it is {radius_km:.0} km from the Earth's centre (WGS72 radius 6378.135 km); use elements nearer to the time, or leave it out", name = shown(name)
    )]
    Decayed {
        /// NORAD catalogue number.
        norad_id: u64,
        /// Name.
        name: String,
        /// Asked time minus epoch [days].
        age_days: f64,
        /// Distance from the Earth's centre [km].
        radius_km: f64,
    },
    /// The state lies far beyond any orbit that the elements describe.
    #[error(
        "satellite {norad_id} ({name}): SGP4 diverges: {age_days:.1} days from its elements' epoch it is {radius_km:.0} km from the Earth's centre (wanted at most {farthest_km:.0} km, 1.5 times its apogee and 1000 km); use elements nearer to the time, or leave it out", name = shown(name)
    )]
    Diverged {
        /// NORAD catalogue number.
        norad_id: u64,
        /// Name.
        name: String,
        /// Asked time minus epoch [days].
        age_days: f64,
        /// Distance from the Earth's centre [km].
        radius_km: f64,
        /// The farthest believed [km].
        farthest_km: f64,
    },
    /// An argument is outside its range.
    #[error("{what} is {found}; wanted {wanted}")]
    OutOfRange {
        /// The argument.
        what: &'static str,
        /// Its value.
        found: f64,
        /// Its range.
        wanted: &'static str,
    },
    /// A grid does not fit the number of satellites.
    #[error(
        "grid:{planes}x{per_plane} has {wanted} satellites, the elements have {found}; wanted plane-major elements, {per_plane} for each of {planes} planes"
    )]
    GridSize {
        /// Planes.
        planes: usize,
        /// Satellites in a plane.
        per_plane: usize,
        /// Their product.
        wanted: usize,
        /// What was given.
        found: usize,
    },
    /// An inter-satellite link passes too low.
    #[error(
        "the link {from} – {to} passes {lowest_km:.1} km above the Earth's surface; wanted at least {wanted_km} km; is the file in plane-major order, and the grid the right one?"
    )]
    LinkThroughEarth {
        /// Name of one end.
        from: String,
        /// Name of the other.
        to: String,
        /// Lowest point of the link above the sphere of equatorial radius [km].
        lowest_km: f64,
        /// The lowest allowed [km].
        wanted_km: f64,
    },
    /// No policy has this name.
    #[error("no scheduling policy {:?}; there are {known}", shown(name))]
    UnknownPolicy {
        /// The asked name.
        name: String,
        /// The names there are.
        known: String,
    },
}

/// A place in a file of elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Name of the file.
    pub file: String,
    /// Line, from 1, where the format has lines.
    pub line: Option<u64>,
    /// Record (satellite), from 1, where it has begun.
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

/// `value` if it is finite and within `range`, else [`OrbitError::OutOfRange`].
pub(crate) fn in_range(
    what: &'static str,
    value: f64,
    range: std::ops::RangeInclusive<f64>,
    wanted: &'static str,
) -> Result<f64, OrbitError> {
    if range.contains(&value) { Ok(value) } else { Err(OrbitError::OutOfRange { what, found: value, wanted }) }
}
