//! What a scheduling policy is, and the list of them. A policy is a file: write it, add it to [`POLICIES`].

use super::{highest_elevation, longest_visibility, nearest, starlink_like};
use crate::error::OrbitError;
use bentpipe_profile::keyed_u64;

/// A satellite that could serve in a slot: above the mask at the slot's begin and end, clear of the geostationary arc, and seen by a gateway throughout.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// Place among the elements.
    pub index: usize,
    /// NORAD catalogue number.
    pub norad_id: u64,
    /// Elevation at the slot's begin [deg].
    pub elevation_deg: f64,
    /// Azimuth at the slot's begin [deg].
    pub azimuth_deg: f64,
    /// Distance at the slot's begin [km].
    pub range_km: f64,
    /// Whether the Sun shines on it at the slot's begin.
    pub sunlit: bool,
    /// Where its launch stands in time among the constellation's: 0 oldest, 1 newest; `None` where elements do not say.
    pub launch_rank: Option<f64>,
    /// Time from the slot's begin until it sinks below the mask [s], at most [`MAX_LOOK_AHEAD_S`]. Computed only where the policy wants it, else zero.
    pub remaining_s: f64,
}

/// How far ahead visibility is followed [s]. Chosen here, because a pass of a satellite 1,200 km up above 25° lasts 9 minutes; what stays longer
/// (medium and geostationary orbits) counts as staying.
pub const MAX_LOOK_AHEAD_S: f64 = 3600.0;

/// The slot in which a policy chooses.
#[derive(Clone, Copy, Debug)]
pub struct SlotContext {
    /// Key of the seed's random draws.
    pub key: u64,
    /// Number of the slot.
    pub slot: i64,
    /// Latitude of the terminal [deg].
    pub site_lat_deg: f64,
}

impl SlotContext {
    /// A uniform draw in (0, 1] that depends on the seed, the slot and the satellite alone: not on who else is a candidate, nor on their order.
    #[must_use]
    pub fn draw(&self, norad_id: u64) -> f64 {
        let bits = keyed_u64(keyed_u64(self.key, self.slot.cast_unsigned()), norad_id);
        1.0 - bentpipe_profile::rng::unit_f64(bits)
    }
}

/// Chooses among candidates.
pub trait Policy: Send + Sync {
    /// The chosen candidate's place in the list, which is never empty. The choice must not depend on the list's order.
    fn choose(&self, context: &SlotContext, candidates: &[Candidate]) -> usize;

    /// Whether [`Candidate::remaining_s`] is looked at: following every candidate to its setting takes most of the time.
    fn needs_remaining(&self) -> bool {
        false
    }
}

/// A policy by name.
#[derive(Clone, Copy)]
pub struct PolicyEntry {
    /// Name for the command line.
    pub name: &'static str,
    /// One line, with the source.
    pub description: &'static str,
    /// The policy.
    pub policy: &'static dyn Policy,
}

/// Every policy there is.
pub const POLICIES: [PolicyEntry; 4] = [
    PolicyEntry {
        name: "starlink-like",
        description: "drawn with weights for elevation, poleward bias, sunlight and newer launches (arXiv 2307.00402)",
        policy: &starlink_like::StarlinkLike,
    },
    PolicyEntry {
        name: "highest-elevation",
        description: "the candidate highest in the sky",
        policy: &highest_elevation::HighestElevation,
    },
    PolicyEntry { name: "nearest", description: "the candidate at the shortest distance", policy: &nearest::Nearest },
    PolicyEntry {
        name: "longest-visibility",
        description: "the candidate that stays above the mask longest: fewest handovers",
        policy: &longest_visibility::LongestVisibility,
    },
];

/// The policy called `name`.
///
/// # Errors
/// [`OrbitError::UnknownPolicy`] with the names there are.
pub fn policy(name: &str) -> Result<PolicyEntry, OrbitError> {
    POLICIES
        .into_iter()
        .find(|p| p.name == name)
        .ok_or_else(|| OrbitError::UnknownPolicy { name: name.to_owned(), known: POLICIES.map(|p| p.name).join(", ") })
}

/// The place of the candidate with the largest score; of equals, the smallest catalogue number.
pub(super) fn largest(candidates: &[Candidate], score: impl Fn(&Candidate) -> f64) -> usize {
    let better = |a: &usize, b: &usize| {
        score(&candidates[*a]).total_cmp(&score(&candidates[*b])).then(candidates[*b].norad_id.cmp(&candidates[*a].norad_id))
    };
    (0..candidates.len()).max_by(better).unwrap_or(0)
}
