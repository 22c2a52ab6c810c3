//! Scheduling policies: the trait and the list. To add a policy, write a file and add it to [`POLICIES`].

use super::{highest_elevation, least_delay, longest_visibility, nearest, starlink_like};
use crate::error::OrbitError;
use bentpipe_profile::keyed_u64;

/// A satellite that can serve in a slot: above the mask at the slot's start and end, outside the exclusion around the geostationary arc, and with a path to
/// a gateway: one that sees it throughout, or one at the end of inter-satellite links.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// Index in the elements.
    pub index: usize,
    /// NORAD catalogue number.
    pub norad_id: u64,
    /// Elevation at the slot's start [deg].
    pub elevation_deg: f64,
    /// Azimuth at the slot's start [deg].
    pub azimuth_deg: f64,
    /// Distance at the slot's start [km].
    pub range_km: f64,
    /// Delay of the path over it from the terminal to the point of presence at the slot's start [ms].
    pub path_ms: f64,
    /// Whether it is sunlit at the slot's start.
    pub sunlit: bool,
    /// Rank of its launch in the constellation: 0: oldest; 1: newest; `None`: unknown.
    pub launch_rank: Option<f64>,
    /// Time from the slot's start until it goes below the mask [s], at most [`MAX_LOOK_AHEAD_S`]. Computed only if the policy needs it, else zero.
    pub remaining_s: f64,
}

/// Limit of the visibility computed ahead [s]. Chosen here, because a pass of a satellite at 1,200 km above 25° lasts 9 minutes. A longer visibility (medium
/// and geostationary orbits) counts as this limit.
pub const MAX_LOOK_AHEAD_S: f64 = 3600.0;

/// The slot for which a policy chooses.
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
    /// Draw uniformly from (0, 1]. The draw depends only on the seed, the slot and the satellite, not on the other candidates or their order.
    #[must_use]
    pub fn draw(&self, norad_id: u64) -> f64 {
        let bits = keyed_u64(keyed_u64(self.key, self.slot.cast_unsigned()), norad_id);
        1.0 - bentpipe_profile::rng::unit_f64(bits)
    }
}

/// Chooses among candidates.
pub trait Policy: Send + Sync {
    /// Return the index of the chosen candidate. The list is never empty. The choice must not depend on its order.
    fn choose(&self, context: &SlotContext, candidates: &[Candidate]) -> usize;

    /// Return whether the policy needs [`Candidate::remaining_s`], whose computation takes most of the time.
    fn needs_remaining(&self) -> bool {
        false
    }
}

/// An entry in the list of policies.
#[derive(Clone, Copy)]
pub struct PolicyEntry {
    /// Name on the command line.
    pub name: &'static str,
    /// One-line description, with the source.
    pub description: &'static str,
    /// The policy.
    pub policy: &'static dyn Policy,
}

/// All policies.
pub const POLICIES: [PolicyEntry; 5] = [
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
    PolicyEntry {
        name: "least-delay",
        description: "the candidate with the shortest path from the terminal to the point of presence",
        policy: &least_delay::LeastDelay,
    },
];

/// Return the policy called `name`.
///
/// # Errors
/// [`OrbitError::UnknownPolicy`] with the existing names.
pub fn policy(name: &str) -> Result<PolicyEntry, OrbitError> {
    POLICIES
        .into_iter()
        .find(|p| p.name == name)
        .ok_or_else(|| OrbitError::UnknownPolicy { name: name.to_owned(), known: POLICIES.map(|p| p.name).join(", ") })
}

/// Return the index of the candidate with the largest score; of equal ones, that with the smallest catalogue number.
pub(super) fn largest(candidates: &[Candidate], score: impl Fn(&Candidate) -> f64) -> usize {
    let better = |a: &usize, b: &usize| {
        score(&candidates[*a]).total_cmp(&score(&candidates[*b])).then(candidates[*b].norad_id.cmp(&candidates[*a].norad_id))
    };
    (0..candidates.len()).max_by(better).unwrap_or(0)
}
