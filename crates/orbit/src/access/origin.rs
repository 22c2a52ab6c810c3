//! Where the satellites of a Profile come from and by which rules they were chosen. Kept in the provenance; nothing is computed from it.

use serde::{Deserialize, Serialize};

/// What [`crate::schedule::ServingSchedule`] does not say about itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Origin {
    /// The orbits.
    pub satellites: SatelliteSource,
    /// A gateway list of the user's own; `None` for the packaged one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateways: Option<GatewaySource>,
    /// Lowest elevation at which a gateway may use a satellite [deg].
    pub gateway_min_elevation_deg: f64,
    /// Smallest angle to the geostationary arc at the terminal [deg].
    pub gso_exclusion_deg: f64,
    /// Seed of the scheduling policy's draws. A Profile that is drawn again keeps its schedule, and so this seed.
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
        /// SHA-256 of its bytes as they lay on the disk.
        sha256: String,
        /// How many satellites were used.
        satellites: usize,
        /// Element sets left out because the file holds one of the same satellite nearer to the asked time.
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
        /// Where the shells are published.
        source: String,
        /// How many satellites.
        satellites: usize,
        /// When plane 0 of each shell stands at right ascension 0, or a geostationary satellite at its longitude [ns since 1970].
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
    /// Where the file says its gateways are from.
    pub source: String,
    /// How many gateways the file lists.
    pub listed: usize,
    /// Those in reach of the terminal's satellites.
    pub in_reach: Vec<GatewayPlace>,
}

/// A gateway and its position.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GatewayPlace {
    /// Its name, as the schedule and the ground legs have it.
    pub name: String,
    /// Geodetic latitude [deg].
    pub lat_deg: f64,
    /// Longitude [deg].
    pub lon_deg: f64,
}

/// A shell as its filing has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShellSource {
    /// Its name.
    pub name: String,
    /// Above WGS72's equatorial radius [km].
    pub altitude_km: f64,
    /// Inclination [deg].
    pub inclination_deg: f64,
    /// Planes.
    pub planes: u32,
    /// Satellites in each.
    pub satellites_per_plane: u32,
    /// Walker's F.
    pub phasing: u32,
    /// `filing`, or `chosen` where the filing does not give F.
    pub phasing_basis: String,
}
