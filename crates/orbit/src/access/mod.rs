//! The access model: builds a [`bentpipe_profile::Profile`] from the serving satellite of each slot.
//!
//! The *geometry* ([`crate::schedule::ServingSchedule`], [`Ground`]) is the input. The random processes are drawn from named streams of one seed. The
//! Profile's provenance stores the geometry, the parameters and the seed, so that [`reseed`] can draw the processes with another seed over the same passes.
//!
//! | file | holds |
//! |---|---|
//! | [`params`] | every constant with its unit and its source |
//! | [`load`] | load of the cell: hour of the day, this Profile, this slot |
//! | [`slots`] | draws of a slot: load, grant period, interruption, offset |
//! | [`grants`] | the grant schedule: jitter as a function of time |
//! | [`wait_factor`] | variation of the waiting time within a slot and after a reconfiguration |
//! | [`queueing`] | delay behind cross traffic: slot offsets and humps |
//! | [`capacity`] | bit/s from elevation, load and in-slot variation |
//! | [`loss`] | loss episodes in continuous time |
//! | [`ground`] | gateway to `PoP` to server |
//! | [`origin`] | which satellites, by which rules: for the provenance |
//! | [`legs`] | propagation over radio legs and lasers |
//! | `chain` | satellites and gateway of a slot, and the hops between them |
//! | `space` | the hop of one serving satellite, with the whole access |
//! | [`mod@build`] | hops, routes and events put together |
//!
//! Each slot draws from streams named after its number since 1970, so what happens at 09:00:12 UTC does not depend on when the Profile began or
//! how long it lasts.

pub mod build;
pub mod capacity;
mod chain;
mod error;
pub mod grants;
pub mod ground;
pub mod legs;
pub mod load;
pub mod loss;
pub mod origin;
pub mod params;
pub mod queueing;
pub mod slots;
mod space;
pub mod wait_factor;

pub use build::{build, reseed};
pub use error::AccessError;
pub use ground::{Fibre, Ground, GroundLeg};
pub use origin::Origin;
pub use params::AccessParams;
