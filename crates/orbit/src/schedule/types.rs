//! The serving schedule: satellite and gateway of a site in each slot, and the geometry of both legs.

use crate::site::Site;
use crate::track::TrackPoint;
use serde::{Deserialize, Serialize};

/// The serving satellite of a site, slot by slot. Stored in a Profile's provenance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServingSchedule {
    /// When the Profile starts [ns since 1970-01-01T00:00:00Z].
    pub start_unix_ns: i64,
    /// Duration [ns].
    pub duration_ns: u64,
    /// Duration of a slot [ns].
    pub slot_period_ns: u64,
    /// Start of slots past a multiple of the period [ns]: 12 s for :12/:27/:42/:57.
    pub slot_phase_ns: u64,
    /// The terminal; on a track, where it is at the start.
    pub site: Site,
    /// Positions of a moving terminal in order of time; empty: it stands still.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub track: Vec<TrackPoint>,
    /// Lowest elevation at which the terminal may use a satellite [deg].
    pub min_elevation_deg: f64,
    /// Name of the scheduling policy.
    pub policy: String,
    /// The slots in order; the first and the last are cut to the Profile's duration.
    pub slots: Vec<ServingSlot>,
}

/// One slot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServingSlot {
    /// Start, relative to the start of the Profile [ns].
    pub start_ns: u64,
    /// End, exclusive, relative to the start of the Profile [ns].
    pub end_ns: u64,
    /// The serving satellite; `None`: outage.
    pub serving: Option<Serving>,
    /// Number of candidate satellites.
    pub candidates: u32,
}

/// The satellites and the gateway of one slot. Sample `i` is at the slot's start plus `i * sample_step_ns`; the last sample is at the slot's end,
/// so its step may be shorter. All series have the same length, at least two.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Serving {
    /// NORAD catalogue number, or the number in a generated constellation.
    pub norad_id: u64,
    /// Name of the satellite.
    pub name: String,
    /// Name of the gateway.
    pub gateway: String,
    /// The satellites after this one, up to the one that the gateway sees. Empty: this one sees the gateway (bent pipe).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub relays: Vec<Relay>,
    /// Time between samples [ns].
    pub sample_step_ns: u64,
    /// Terminal to satellite [km].
    pub user_leg_km: Vec<f64>,
    /// Last satellite to gateway [km].
    pub gateway_leg_km: Vec<f64>,
    /// Elevation at the terminal [deg].
    pub elevation_deg: Vec<f64>,
    /// Azimuth at the terminal, clockwise from north [deg].
    pub azimuth_deg: Vec<f64>,
    /// Whether the satellite is in sunlight at the slot's start.
    pub sunlit: bool,
}

/// A satellite that a path reaches over an inter-satellite link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Relay {
    /// NORAD catalogue number, or the number in a generated constellation.
    pub norad_id: u64,
    /// Name of the satellite.
    pub name: String,
    /// Length of the link from the satellite before it [km], at the samples of the slot.
    pub link_km: Vec<f64>,
}
