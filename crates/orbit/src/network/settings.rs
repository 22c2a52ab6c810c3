//! What a network is made from.

use crate::access::AccessParams;
use crate::access::params::LossParams;
use crate::error::{OrbitError, in_range};
use crate::schedule::{PolicyEntry, SlotGrid, policy};
use crate::site::Site;
use bentpipe_profile::{LOSS_ONE, Nanos, Utc};
use serde::{Deserialize, Serialize};

/// A place on the ground: a terminal, a ground station or both.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkPlace {
    /// Name, unique in the network.
    pub name: String,
    /// Its position.
    pub site: Site,
}

/// Capacity of a kind of links, per direction, and the limit of the queue in front of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkCapacity {
    /// Capacity [bit/s].
    pub rate_bps: u64,
    /// Limit of the queue [bytes].
    pub queue_bytes: u64,
}

/// Places, pairs and rules of a network. Satellites and the links between them are arguments of [`super::make`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkSettings {
    /// Name of the network.
    pub name: String,
    /// Terminals and ground stations.
    pub places: Vec<NetworkPlace>,
    /// The paths: for each its terminal and its ground station, as indices into `places`.
    pub pairs: Vec<[usize; 2]>,
    /// Start [ns since 1970].
    pub start_unix_ns: Utc,
    /// Duration [ns].
    pub duration_ns: Nanos,
    /// The slots at whose starts satellites and routes may change.
    pub slots: SlotGrid,
    /// Scheduling policy by name (`schedule::POLICIES`), for terminals and ground stations alike. `least-delay`: both ends of the shortest route of each path.
    pub policy: String,
    /// Lowest elevation at which a place uses a satellite [deg].
    pub min_elevation_deg: f64,
    /// Smallest angle to the geostationary arc at a place [deg]; zero: none.
    pub gso_exclusion_deg: f64,
    /// Links between satellites.
    pub isl: LinkCapacity,
    /// Links between places and satellites.
    pub ground: LinkCapacity,
    /// How long a place has no link at a handover [ns].
    pub gap_ns: Nanos,
    /// Loss episodes of the links of terminals; `None`: no loss.
    pub loss: Option<LossParams>,
    /// Probability that a packet is lost in a link between satellites, each for itself.
    pub isl_loss: f64,
    /// Origin of the satellites, for the provenance.
    pub origin: serde_json::Value,
}

/// Longest accepted gap at a handover [s]: below a slot.
const LONGEST_GAP_S: f64 = 5.0;

impl NetworkSettings {
    /// Check the settings, and return the policy.
    ///
    /// # Errors
    /// [`OrbitError::OutOfRange`], [`OrbitError::UnknownPolicy`], [`OrbitError::Network`].
    pub(super) fn check(&self) -> Result<PolicyEntry, OrbitError> {
        in_range("lowest elevation", self.min_elevation_deg, 0.0..=90.0, "0 to 90 degrees")?;
        in_range("exclusion of the geostationary arc", self.gso_exclusion_deg, 0.0..=90.0, "0 to 90 degrees")?;
        in_range("duration in seconds", self.duration_ns.as_secs_f64(), 1e-9..=366.0 * 86_400.0, "above 0 and at most a year")?;
        in_range("gap in seconds", self.gap_ns.as_secs_f64(), 0.0..=LONGEST_GAP_S, "0 to 5 s")?;
        in_range("loss between satellites", self.isl_loss, 0.0..=1.0, "a probability from 0 to 1")?;
        for (name, capacity) in [("capacity between satellites", self.isl), ("capacity to the ground", self.ground)] {
            in_range(name, capacity.rate_bps as f64, 1e3..=1e13, "1e3 to 1e13 bit/s")?;
            in_range("queue in bytes", capacity.queue_bytes as f64, 1500.0..=1e12, "at least one packet of 1500 bytes")?;
        }
        SlotGrid::new(self.slots.period_ns, self.slots.phase_ns)?;
        if let Some(loss) = &self.loss {
            let params = AccessParams { loss: loss.clone(), ..AccessParams::default() };
            params.check().map_err(|error| self.error(error.to_string(), "a loss environment whose values are in range".to_owned()))?;
        }
        if self.pairs.is_empty() {
            return Err(self.error("it has no pair of places".to_owned(), "at least one".to_owned()));
        }
        let count = self.places.len();
        if let Some([a, b]) = self.pairs.iter().find(|[a, b]| a == b || *a >= count || *b >= count) {
            return Err(self.error(format!("a pair joins places {a} and {b}"), format!("two of {count} places")));
        }
        policy(&self.policy)
    }

    /// Return an error about this network.
    pub(super) fn error(&self, problem: String, expected: String) -> OrbitError {
        OrbitError::Network { name: self.name.clone(), problem, expected }
    }

    /// Return the name of a path: its two places.
    pub(super) fn pair_name(&self, pair: [usize; 2]) -> String {
        pair.map(|place| self.places[place].name.as_str()).join("-")
    }

    /// Return the probability of a loss between satellites in units of 1e-9.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // checked to be a probability
    pub(super) fn isl_loss(&self) -> u64 {
        (self.isl_loss * LOSS_ONE as f64).round() as u64
    }
}
