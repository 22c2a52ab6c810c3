//! Reader of two-line elements, with or without a name line.
//!
//! Layout: <https://celestrak.org/NORAD/documentation/tle-fmt.php>. The `sgp4` crate parses the fields. This module first checks layout,
//! order and checksums, because the crate reports a position within a line but not the line of the file.

use super::{Elements, check_count, clean_name, excerpt, validated};
use crate::error::{OrbitError, Place};
use bentpipe_profile::Utc;

/// Columns of a TLE line, checksum included.
const COLUMNS: usize = 69;
/// Column of the checksum, from 0.
const CHECKSUM: usize = 68;
/// Longest name line. Chosen here, because Celestrak's are padded to 24 characters and the longest catalogue names are below 40.
const MAX_NAME: usize = 120;

/// A line with its number in the file.
struct Line<'a> {
    number: u64,
    text: &'a [u8],
}

/// Read every satellite of the file.
pub(super) fn read(bytes: &[u8], file: &str) -> Result<Vec<Elements>, OrbitError> {
    let mut elements = Vec::new();
    let mut name: Option<Line<'_>> = None;
    let mut lines = (1_u64..)
        .zip(bytes.split(|&b| b == b'\n'))
        .map(|(number, text)| Line { number, text: text.trim_ascii_end() })
        .filter(|line| !line.text.is_empty() && line.text[0] != b'#');
    while let Some(line) = lines.next() {
        let place = |number: u64| Place { file: file.to_owned(), line: Some(number), record: Some(elements.len() + 1) };
        if line.text.starts_with(b"2 ") {
            return Err(OrbitError::TleLayout {
                place: place(line.number),
                problem: format!("a line 2 without its line 1: {:?}", excerpt(line.text)),
                expected: "a name or a line 1",
            });
        }
        if !line.text.starts_with(b"1 ") {
            if let Some(earlier) = name {
                return Err(OrbitError::TleLayout {
                    place: place(earlier.number),
                    problem: format!("{:?} is not followed by a line 1", excerpt(earlier.text)),
                    expected: "a line that begins with \"1 \" after a name",
                });
            }
            if line.text.len() > MAX_NAME || !line.text.iter().all(|b| (b' '..0x7f).contains(b)) {
                return Err(OrbitError::TleLayout {
                    place: place(line.number),
                    problem: format!("{:?}", excerpt(line.text)),
                    expected: "a name of at most 120 ASCII characters, or a line that begins with \"1 \" or \"2 \"",
                });
            }
            name = Some(line);
            continue;
        }
        check_count(elements.len(), file)?;
        let Some(second) = lines.next() else {
            return Err(OrbitError::TleLayout {
                place: place(line.number),
                problem: "the file ends after a line 1".to_owned(),
                expected: "a line 2 after it; the file is truncated",
            });
        };
        if !second.text.starts_with(b"2 ") {
            return Err(OrbitError::TleLayout {
                place: place(second.number),
                problem: format!("{:?}", excerpt(second.text)),
                expected: "the line 2 that belongs to the line 1 before",
            });
        }
        let line1 = checked(&line, 1, place(line.number))?;
        let line2 = checked(&second, 2, place(second.number))?;
        elements.push(parse(line1, &line2, name.take(), &place(line.number))?);
    }
    if let Some(name) = name {
        return Err(OrbitError::TleLayout {
            place: Place { file: file.to_owned(), line: Some(name.number), record: Some(elements.len() + 1) },
            problem: format!("the file ends after the name {:?}", excerpt(name.text)),
            expected: "lines 1 and 2 after it; the file is truncated",
        });
    }
    Ok(elements)
}

/// Return the line as 69 ASCII columns with a valid checksum. Text after column 69 must follow a space (some test files have propagation times
/// there).
fn checked(line: &Line<'_>, tle_line: u8, place: Place) -> Result<[u8; COLUMNS], OrbitError> {
    let text = line.text;
    let layout = |problem: String, expected| Err(OrbitError::TleLayout { place: place.clone(), problem, expected });
    if !text.iter().all(|b| (b' '..0x7f).contains(b)) {
        return layout("a character that is not printable ASCII".to_owned(), "ASCII only in TLE lines");
    }
    let Some(columns) = text.first_chunk::<COLUMNS>() else {
        return layout(
            format!("TLE line {tle_line} has {} characters: {:?}", text.len(), excerpt(text)),
            "69 characters; the line is truncated",
        );
    };
    if text.get(COLUMNS).is_some_and(|&b| b != b' ') {
        return layout(format!("TLE line {tle_line} has {} characters", text.len()), "69 characters, the last one a checksum");
    }
    let computed = checksum(&columns[..CHECKSUM]);
    if columns[CHECKSUM] != b'0' + computed {
        return Err(OrbitError::TleChecksum { place, tle_line, stored: char::from(columns[CHECKSUM]), computed });
    }
    Ok(*columns)
}

/// Return the sum of the digits modulo 10; a minus counts as 1.
fn checksum(columns: &[u8]) -> u8 {
    columns.iter().fold(0, |sum, &b| match b {
        b'0'..=b'9' => (sum + (b - b'0')) % 10,
        b'-' => (sum + 1) % 10,
        _ => sum,
    })
}

/// Parse the two checked lines of a satellite.
fn parse(mut line1: [u8; COLUMNS], line2: &[u8; COLUMNS], name: Option<Line<'_>>, place: &Place) -> Result<Elements, OrbitError> {
    let id = |line: &[u8; COLUMNS]| String::from_utf8_lossy(&line[2..7]).into_owned();
    let (line1_id, line2_id) = (id(&line1), id(line2));
    if line1_id != line2_id {
        return Err(OrbitError::TleMixedUp { place: place.clone(), line1_id, line2_id });
    }
    // Old files leave the ephemeris type and the element set's number blank; the crate requires digits, and the values are not used.
    for column in [62, 67] {
        if line1[column] == b' ' {
            line1[column] = b'0';
        }
    }
    // A zero does not change the checksum.
    let raw = sgp4::Elements::from_tle(None, &line1, line2).map_err(|reason| OrbitError::TleField { place: place.clone(), reason })?;
    // The crate computes the fraction of a day as a double, with errors of tens of nanoseconds. The format's last digit is 864 µs.
    let epoch = raw.datetime.and_utc().timestamp_micros() * 1000;
    let name = name.map_or(String::new(), |n| String::from_utf8_lossy(n.text).into_owned());
    validated(
        Elements {
            name: clean_name(&name, raw.norad_id),
            norad_id: raw.norad_id,
            designator: raw.international_designator,
            epoch: Utc(epoch),
            mean_motion_rev_day: raw.mean_motion,
            eccentricity: raw.eccentricity,
            inclination_deg: raw.inclination,
            raan_deg: raw.right_ascension,
            arg_perigee_deg: raw.argument_of_perigee,
            mean_anomaly_deg: raw.mean_anomaly,
            bstar_per_er: raw.drag_term,
        },
        place,
    )
}
