//! Errors of the access model: invalid schedules, parameters and Profiles. Elements and positions have their own error, [`crate::OrbitError`].

/// Why the access model cannot build a Profile.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AccessError {
    /// A parameter is outside its range.
    #[error("access parameter {name} is {value}; expected {expected}")]
    Parameter {
        /// Its name.
        name: &'static str,
        /// Its value.
        value: f64,
        /// Its range.
        expected: &'static str,
    },
    /// The slots do not cover the span from end to end, in order.
    #[error("schedule: slot {slot} is from {from_s} to {to_s} s; expected slots in order, without gaps, from 0 to {span_s} s")]
    Slots {
        /// Number of the slot in the schedule, from 0.
        slot: usize,
        /// Its start [s].
        from_s: f64,
        /// Its end [s].
        to_s: f64,
        /// Duration of the Profile [s].
        span_s: f64,
    },
    /// A slot's geometry is incomplete or impossible.
    #[error("schedule: slot {slot}, satellite {norad_id}: {problem}")]
    Geometry {
        /// Number of the slot in the schedule, from 0.
        slot: usize,
        /// NORAD catalogue number.
        norad_id: u64,
        /// The problem and the expected value.
        problem: String,
    },
    /// A gateway of the schedule has no leg to the server.
    #[error("no ground leg for gateway {gateway:?}; expected its PoP and delays in `ground`, since the schedule uses it")]
    NoGroundLeg {
        /// Its name.
        gateway: String,
    },
    /// Two gateways give different delays from one `PoP` to the server.
    #[error("PoP {pop:?} is {first_ns} ns from the server by one gateway and {second_ns} ns by another; expected one delay per PoP")]
    PopDelay {
        /// Its name.
        pop: String,
        /// One delay [ns].
        first_ns: u64,
        /// The other [ns].
        second_ns: u64,
    },
    /// A Profile that cannot be drawn with another seed.
    #[error(
        "profile {name:?} was not made by the access model ({reason}); expected one that was, since only those can be drawn with another seed"
    )]
    NoRecipe {
        /// The Profile's name.
        name: String,
        /// What is missing.
        reason: String,
    },
    /// The grid of slots is out of range.
    #[error(transparent)]
    Orbit(#[from] crate::error::OrbitError),
    /// The built Profile is invalid.
    #[error(transparent)]
    Profile(#[from] bentpipe_profile::ProfileError),
}
