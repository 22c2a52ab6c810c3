//! Why a schedule, a table of parameters or a Profile cannot be used. Elements and positions have their own errors ([`crate::OrbitError`]); by the
//! time a schedule exists, those are behind us.

/// What was found, and what was wanted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AccessError {
    /// A parameter is outside its range.
    #[error("access parameter {name} is {found}; wanted {wanted}")]
    Parameter {
        /// Its name.
        name: &'static str,
        /// Its value.
        found: f64,
        /// Its range.
        wanted: &'static str,
    },
    /// The slots do not cover the span from end to end, in order.
    #[error("schedule: slot {slot} is from {from_s} to {to_s} s; wanted slots in order, without gaps, from 0 to {span_s} s")]
    Slots {
        /// Number of the slot in the schedule, from 0.
        slot: usize,
        /// Its begin [s].
        from_s: f64,
        /// Its end [s].
        to_s: f64,
        /// Length of the Profile [s].
        span_s: f64,
    },
    /// A slot's geometry is incomplete or impossible.
    #[error("schedule: slot {slot}, satellite {norad_id}: {what}")]
    Geometry {
        /// Number of the slot in the schedule, from 0.
        slot: usize,
        /// NORAD catalogue number.
        norad_id: u64,
        /// What is wrong and what was wanted.
        what: String,
    },
    /// A gateway of the schedule has no way to the server.
    #[error("no ground leg for gateway {gateway:?}; the schedule uses it, so `ground` must name its PoP and delays")]
    NoGroundLeg {
        /// Its name.
        gateway: String,
    },
    /// Two gateways disagree on the way from one `PoP` to the server.
    #[error("PoP {pop:?} is {first_ns} ns from the server by one gateway and {second_ns} ns by another; wanted one delay a PoP")]
    PopDelay {
        /// Its name.
        pop: String,
        /// One delay [ns].
        first_ns: u64,
        /// The other [ns].
        second_ns: u64,
    },
    /// A Profile whose processes cannot be drawn again.
    #[error("profile {name:?} was not made by the access model ({reason}); only such Profiles can be drawn again with another seed")]
    NoRecipe {
        /// The Profile's name.
        name: String,
        /// What is missing.
        reason: String,
    },
    /// The grid of slots is out of range.
    #[error(transparent)]
    Orbit(#[from] crate::error::OrbitError),
    /// The Profile refuses what was built.
    #[error(transparent)]
    Profile(#[from] bentpipe_profile::ProfileError),
}
