//! Conversion between a Profile and one long table with JSON metadata, and the hash of its content.
//!
//! Columns: `t_s, hop, direction, kind, value, valid`. Units of `value` follow `kind`: [`Kind`]. Everything that is not a series (routes, events,
//! queues, provenance) is in the metadata.

use crate::direction::Direction;
use crate::error::ProfileError;
use crate::event::Event;
use crate::hop::{Hop, HopDirection, LOSS_ONE};
use crate::profile::{Basis, Profile, Provenance, RouteEntry};
use crate::queue::{QueueDiscipline, QueueSpec};
use crate::series::{Interpolation, JitterSeries, Series};
use crate::units::{Nanos, Time, Utc};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt::Write as _;

/// Newest metadata format that this build writes and reads. A Profile whose queues are all drop-tail is written as format 1.
pub const FORMAT: u32 = 2;

/// The quantity in a row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    /// One-way delay [s], linear between rows.
    DelayS = 0,
    /// Capacity [bit/s], stepped.
    CapacityBps = 1,
    /// Loss probability [0–1], stepped.
    LossProbability = 2,
    /// Start of a closure of the grant schedule; the value is its length [s].
    JitterS = 3,
}

impl Kind {
    /// All kinds, in the order of their codes.
    pub const ALL: [Self; 4] = [Self::DelayS, Self::CapacityBps, Self::LossProbability, Self::JitterS];

    /// Return the name as written in the file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::DelayS => "delay_s",
            Self::CapacityBps => "capacity_bps",
            Self::LossProbability => "loss_probability",
            Self::JitterS => "jitter_s",
        }
    }

    /// Return the number of integer steps per unit on disk.
    const fn scale(self) -> f64 {
        match self {
            Self::DelayS | Self::JitterS => 1e9,
            Self::CapacityBps => 1.0,
            Self::LossProbability => LOSS_ONE as f64,
        }
    }

    /// Return the accepted values, for error messages.
    const fn accepted(self) -> &'static str {
        match self {
            Self::DelayS | Self::JitterS => "seconds from 0 to 3600",
            Self::CapacityBps => "bit/s from 0 to 1e15",
            Self::LossProbability => "a probability from 0 to 1",
        }
    }

    /// Return the largest accepted value.
    const fn largest(self) -> f64 {
        match self {
            Self::DelayS | Self::JitterS => 3600.0,
            Self::CapacityBps => 1e15,
            Self::LossProbability => 1.0,
        }
    }
}

/// The columns, of equal length, sorted by hop, direction, kind and time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// Time since the Profile's start [s].
    pub t_s: Vec<f64>,
    /// Index into the metadata's hops.
    pub hop: Vec<u32>,
    /// 0: up; 1: down.
    pub direction: Vec<u8>,
    /// Code of the [`Kind`].
    pub kind: Vec<u8>,
    /// Value in the unit of the kind.
    pub value: Vec<f64>,
    /// Whether the value is known from here to the next row.
    pub valid: Vec<bool>,
}

impl Table {
    /// Return the series of hops.
    pub(crate) fn of<'a>(hops: impl IntoIterator<Item = &'a Hop>) -> Self {
        let mut table = Self::default();
        for (hop, data) in hops.into_iter().enumerate() {
            for direction in Direction::BOTH {
                let side = data.side(direction);
                let mut put = |kind: Kind, at: Time, value: u64, valid: bool| {
                    table.t_s.push(at.as_secs_f64());
                    table.hop.push(u32::try_from(hop).unwrap_or(u32::MAX));
                    table.direction.push(direction as u8);
                    table.kind.push(kind as u8);
                    table.value.push(value as f64 / kind.scale());
                    table.valid.push(valid);
                };
                side.delay.points().for_each(|(at, v, ok)| put(Kind::DelayS, at, v, ok));
                side.capacity.iter().flat_map(Series::points).for_each(|(at, v, ok)| put(Kind::CapacityBps, at, v, ok));
                side.loss.iter().flat_map(Series::points).for_each(|(at, v, ok)| put(Kind::LossProbability, at, v, ok));
                side.jitter.iter().flat_map(JitterSeries::closures).for_each(|(at, len)| put(Kind::JitterS, at, len.0, true));
            }
        }
        table
    }
}

#[derive(Serialize, Deserialize)]
struct HopMeta {
    name: String,
    shared_id: Option<String>,
    up_queue: QueueSpec,
    down_queue: QueueSpec,
}

#[derive(Serialize, Deserialize)]
struct Metadata {
    format: u32,
    name: String,
    start_unix_ns: Utc,
    duration_ns: Nanos,
    basis: Basis,
    provenance: Provenance,
    hops: Vec<HopMeta>,
    routes: Vec<RouteEntry>,
    events: Vec<Event>,
}

/// Only the format number, to distinguish a newer file from a damaged one.
#[derive(Deserialize)]
struct FormatOnly {
    format: u32,
}

impl Profile {
    /// Return all series as one long table.
    #[must_use]
    pub fn to_table(&self) -> Table {
        Table::of(self.hops())
    }

    /// Return everything that is not a series, as JSON with a fixed order of keys.
    ///
    /// # Panics
    /// Never: the record holds nothing that JSON cannot.
    #[must_use]
    pub fn metadata_json(&self) -> String {
        // Older builds read format 1. A file has format 2 only if it contains a queue discipline that they do not know.
        let drop_tail = self.hops().iter().flat_map(|h| [h.up.queue, h.down.queue]).all(|q| q.discipline == QueueDiscipline::DropTail);
        let meta = Metadata {
            format: if drop_tail { 1 } else { FORMAT },
            name: self.name().to_owned(),
            start_unix_ns: self.start(),
            duration_ns: self.duration(),
            basis: self.basis(),
            provenance: self.provenance().clone(),
            hops: self
                .hops()
                .iter()
                .map(|h| HopMeta { name: h.name.clone(), shared_id: h.shared_id.clone(), up_queue: h.up.queue, down_queue: h.down.queue })
                .collect(),
            routes: self.routes().to_vec(),
            events: self.events().to_vec(),
        };
        serde_json::to_string(&meta).expect("metadata is plain data")
    }

    /// Return the hex SHA-256 of metadata and table: two Profiles with one hash are the same path.
    #[must_use]
    pub fn content_hash(&self) -> String {
        content_hash(&self.metadata_json(), &self.to_table())
    }

    /// Create a Profile from its table and metadata. Rows of one series must be in order of time; series may come in any order.
    ///
    /// # Errors
    /// A newer format, unreadable metadata, unknown codes, columns of different length, values that are NaN, negative or out of range, and everything
    /// that [`Profile::new`] refuses.
    pub fn from_table(metadata: &str, table: &Table) -> Result<Self, ProfileError> {
        let metadata_error = |e: serde_json::Error| ProfileError::Metadata { reason: e.to_string() };
        let FormatOnly { format } = serde_json::from_str(metadata).map_err(metadata_error)?;
        if format > FORMAT {
            return Err(ProfileError::NewerFormat { format, known: FORMAT });
        }
        let meta: Metadata = serde_json::from_str(metadata).map_err(metadata_error)?;
        let names: Vec<&str> = meta.hops.iter().map(|hop| hop.name.as_str()).collect();
        let columns = Columns::split(&names, meta.duration_ns, table)?;
        let hops = meta
            .hops
            .iter()
            .enumerate()
            .map(|(i, h)| {
                Ok(Hop {
                    name: h.name.clone(),
                    shared_id: h.shared_id.clone(),
                    up: columns.side(i, &h.name, Direction::Up, h.up_queue)?,
                    down: columns.side(i, &h.name, Direction::Down, h.down_queue)?,
                })
            })
            .collect::<Result<Vec<_>, ProfileError>>()?;
        Profile::new(meta.name, meta.start_unix_ns, meta.duration_ns, meta.basis, meta.provenance, hops, meta.routes, meta.events)
    }
}

/// Return the hex SHA-256 over the metadata and the columns, little-endian.
#[must_use]
pub fn content_hash(metadata: &str, table: &Table) -> String {
    let mut hash = Sha256::new();
    hash.update((metadata.len() as u64).to_le_bytes());
    hash.update(metadata.as_bytes());
    hash.update((table.t_s.len() as u64).to_le_bytes());
    table.t_s.iter().for_each(|v| hash.update(v.to_bits().to_le_bytes()));
    table.hop.iter().for_each(|v| hash.update(v.to_le_bytes()));
    hash.update(&table.direction);
    hash.update(&table.kind);
    table.value.iter().for_each(|v| hash.update(v.to_bits().to_le_bytes()));
    table.valid.iter().for_each(|&v| hash.update([u8::from(v)]));
    hash.finalize().iter().fold(String::with_capacity(64), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}"); // writing to a String cannot fail
        hex
    })
}

/// Points of one series: time, integer value, valid.
type Points = Vec<(Time, u64, bool)>;

/// Rows sorted into one list per series.
pub(crate) struct Columns {
    /// `[hop][direction][kind]` → points.
    points: Vec<[[Points; 4]; 2]>,
}

impl Columns {
    /// Sort the rows. `names`: of the hops.
    pub(crate) fn split(names: &[&str], duration: Nanos, table: &Table) -> Result<Self, ProfileError> {
        let rows = table.t_s.len();
        let lengths = [
            ("hop", table.hop.len()),
            ("direction", table.direction.len()),
            ("kind", table.kind.len()),
            ("value", table.value.len()),
            ("valid", table.valid.len()),
        ];
        if let Some(&(column, length)) = lengths.iter().find(|(_, n)| *n != rows) {
            return Err(ProfileError::UnequalColumns { column, rows: length, expected: rows });
        }
        let mut points: Vec<[[Points; 4]; 2]> = names.iter().map(|_| Default::default()).collect();
        for row in 0..rows {
            let unknown = |column, code| ProfileError::UnknownCode { row, column, code };
            let hop = table.hop[row] as usize;
            let hop_name = names.get(hop).ok_or_else(|| unknown("hop", u64::from(table.hop[row])))?;
            let direction =
                *Direction::BOTH.get(table.direction[row] as usize).ok_or_else(|| unknown("direction", u64::from(table.direction[row])))?;
            let kind = *Kind::ALL.get(table.kind[row] as usize).ok_or_else(|| unknown("kind", u64::from(table.kind[row])))?;
            let series = || format!("{hop_name}/{}/{}", direction.name(), kind.name());
            let at = Time::from_secs_f64(table.t_s[row]).ok_or_else(|| ProfileError::OutsideSpan {
                item: series(),
                at_s: table.t_s[row],
                span_s: duration.as_secs_f64(),
            })?;
            let value = table.value[row];
            if !(value >= 0.0 && value <= kind.largest()) {
                return Err(ProfileError::BadValue { series: series(), at_s: table.t_s[row], value, expected: kind.accepted() });
            }
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // 0 ≤ value ≤ 1e15 · scale, checked above
            let integer = (value * kind.scale()).round() as u64;
            points[hop][direction as usize][kind as usize].push((at, integer, table.valid[row]));
        }
        Ok(Self { points })
    }

    /// Build one direction of a hop.
    pub(crate) fn side(&self, hop: usize, hop_name: &str, direction: Direction, queue: QueueSpec) -> Result<HopDirection, ProfileError> {
        let of = |kind: Kind| &self.points[hop][direction as usize][kind as usize];
        let name = |kind: Kind| format!("{hop_name}/{}/{}", direction.name(), kind.name());
        let series = |kind: Kind, interpolation| -> Result<Series, ProfileError> {
            let rows = of(kind);
            Series::new(
                &name(kind),
                interpolation,
                rows.iter().map(|r| r.0).collect(),
                rows.iter().map(|r| r.1).collect(),
                rows.iter().map(|r| r.2).collect(),
            )
        };
        let optional = |kind: Kind| -> Result<Option<Series>, ProfileError> {
            if of(kind).is_empty() { Ok(None) } else { series(kind, Interpolation::Step).map(Some) }
        };
        let closures: Vec<_> = of(Kind::JitterS).iter().map(|r| (r.0, Nanos(r.1))).collect();
        Ok(HopDirection {
            delay: series(Kind::DelayS, Interpolation::Linear)?,
            capacity: optional(Kind::CapacityBps)?,
            loss: optional(Kind::LossProbability)?,
            jitter: if closures.is_empty() { None } else { Some(JitterSeries::new(&name(Kind::JitterS), &closures)?) },
            queue,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::{Codel, FqCodel, QueueLimit, Red, Step};
    use crate::queue_rule::QueueRule;
    use crate::testing::{hop, provenance};
    use crate::units::Bytes;
    use proptest::prelude::*;

    fn sample() -> Profile {
        let mut h = hop("sat:1");
        h.up.delay = Series::linear("d", &[(Time(0), 3_000_001), (Time(999_999_999), 4_123_457)]).unwrap();
        h.up.loss = Some(Series::steps("l", &[(Time(0), 0), (Time(5), 123_456_789)]).unwrap());
        h.down.jitter = Some(JitterSeries::new("j", &[(Time(1_333_333), Nanos(77)), (Time(2_666_666), Nanos(1_000_003))]).unwrap());
        h.down.capacity = Some(Series::new("c", Interpolation::Step, vec![Time(0), Time(9)], vec![5, 6], vec![true, false]).unwrap());
        let routes = vec![RouteEntry { at_ns: Time::ZERO, hops: vec![0] }];
        Profile::new(
            "p".to_owned(),
            Utc(1_700_000_000_123_456_789),
            Nanos::from_secs(60),
            Basis::OneWay,
            provenance(),
            vec![h],
            routes,
            vec![],
        )
        .unwrap()
    }

    #[test]
    fn a_profile_read_from_its_table_is_equal() {
        let profile = sample();
        let back = Profile::from_table(&profile.metadata_json(), &profile.to_table()).unwrap();
        assert_eq!(profile, back);
        assert_eq!(profile.content_hash(), back.content_hash());
    }

    #[test]
    fn a_queue_discipline_is_stored_and_raises_the_format() {
        let red =
            Red { min: QueueLimit::Bytes(Bytes(1)), max: QueueLimit::Bytes(Bytes(2)), max_probability_ppb: 7, weight_log: 9, ecn: false };
        let codel = Codel { target_ns: Nanos(5), interval_ns: Nanos(100), ecn: true };
        for discipline in [
            QueueDiscipline::Codel(codel),
            QueueDiscipline::FqCodel(FqCodel { codel, flows: 3, quantum_bytes: 1514 }),
            QueueDiscipline::Red(red),
            QueueDiscipline::Step(Step { threshold: QueueLimit::TimeNs(Nanos(4)) }),
        ] {
            let rule = QueueRule { profile: None, hop: None, direction: None, discipline, limit: Some(QueueLimit::Packets(9)) };
            let profile = sample().with_queues("path", &[QueueRule { direction: Some(Direction::Down), ..rule }]).unwrap();
            assert!(profile.metadata_json().starts_with("{\"format\":2,") && sample().metadata_json().starts_with("{\"format\":1,"));
            assert_eq!(Profile::from_table(&profile.metadata_json(), &profile.to_table()).unwrap(), profile);
        }
    }

    #[test]
    fn a_newer_format_is_refused_with_its_number() {
        let newer = sample().metadata_json().replacen("\"format\":1", "\"format\":3,\"surprise\":true", 1);
        let error = Profile::from_table(&newer, &sample().to_table()).unwrap_err();
        assert_eq!(error, ProfileError::NewerFormat { format: 3, known: FORMAT });
    }

    #[test]
    fn nan_negative_and_out_of_range_values_are_refused() {
        for bad in [f64::NAN, -1e-9, f64::INFINITY, 1e300] {
            let mut table = sample().to_table();
            table.value[0] = bad;
            assert!(matches!(Profile::from_table(&sample().metadata_json(), &table), Err(ProfileError::BadValue { .. })), "{bad}");
            let mut table = sample().to_table();
            table.t_s[1] = bad;
            assert!(Profile::from_table(&sample().metadata_json(), &table).is_err(), "{bad}");
        }
    }

    proptest! {
        /// Any bytes as metadata and any codes in the table give an error, never a panic.
        #[test]
        fn foreign_tables_never_panic(
            cut in 0_usize..400,
            row in 0_usize..8,
            code in any::<u8>(),
            t in any::<f64>(),
            value in any::<f64>(),
        ) {
            let profile = sample();
            let meta = profile.metadata_json();
            let _ = Profile::from_table(&meta[..cut.min(meta.len())], &profile.to_table());
            let mut table = profile.to_table();
            let row = row % table.t_s.len();
            table.kind[row] = code;
            table.t_s[row] = t;
            table.value[row] = value;
            let _ = Profile::from_table(&meta, &table);
        }
    }
}
