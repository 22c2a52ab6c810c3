//! The origin of a Profile's satellites, and the rules by which they were chosen. Stored in the provenance; not used in computations.

use serde::{Deserialize, Serialize};

/// Inputs of the schedule that [`crate::schedule::ServingSchedule`] does not contain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Origin {
    /// The orbits.
    pub satellites: SatelliteSource,
    /// The user's gateway list; `None`: the packaged one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateways: Option<GatewaySource>,
    /// Lowest elevation at which a gateway may use a satellite [deg].
    pub gateway_min_elevation_deg: f64,
    /// Smallest angle to the geostationary arc at the terminal [deg].
    pub gso_exclusion_deg: f64,
    /// Use of inter-satellite links (`auto`, `always`), if a slot has any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isl: Option<String>,
    /// Seed of the scheduling policy's draws. A Profile that is reseeded keeps its schedule, and so this seed.
    pub schedule_seed: u64,
}

/// A file of elements, or a built-in constellation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum SatelliteSource {
    /// A file of orbital elements.
    Elements {
        /// Its name, without the folder.
        file: String,
        /// SHA-256 of the file on disk.
        sha256: String,
        /// Number of satellites used.
        satellites: usize,
        /// Number of element sets left out, because the file has a set for the same satellite nearer to the requested time.
        superseded: usize,
        /// The oldest epoch [ns since 1970].
        first_epoch_unix_ns: i64,
        /// The newest epoch [ns since 1970].
        last_epoch_unix_ns: i64,
    },
    /// Shells from a filing.
    Constellation {
        /// Its name.
        name: String,
        /// Publication of the shells.
        source: String,
        /// Number of satellites.
        satellites: usize,
        /// When plane 0 of each shell is at right ascension 0, or a geostationary satellite at its longitude [ns since 1970].
        epoch_unix_ns: i64,
        /// The shells.
        shells: Vec<ShellSource>,
    },
}

/// A user's gateway list: its file, and the gateways that the scheduler chose from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GatewaySource {
    /// Its name, without the folder.
    pub file: String,
    /// SHA-256 of its bytes.
    pub sha256: String,
    /// Source of the gateways, as the file states it.
    pub source: String,
    /// Number of gateways in the file.
    pub listed: usize,
    /// Gateways in reach of the terminal's satellites.
    pub in_reach: Vec<GatewayPlace>,
}

/// A gateway and its position.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GatewayPlace {
    /// Name, as in the schedule and the ground legs.
    pub name: String,
    /// Geodetic latitude [deg].
    pub lat_deg: f64,
    /// Longitude [deg].
    pub lon_deg: f64,
}

/// A shell, as in its filing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShellSource {
    /// Its name.
    pub name: String,
    /// Altitude above WGS72's equatorial radius [km].
    pub altitude_km: f64,
    /// Inclination [deg].
    pub inclination_deg: f64,
    /// Planes.
    pub planes: u32,
    /// Satellites per plane.
    pub satellites_per_plane: u32,
    /// Walker's phasing factor F.
    pub phasing: u32,
    /// `filing`, or `chosen` if the filing does not give F.
    pub phasing_basis: String,
}
