//! The simulator: a virtual clock over the same link elements that the emulator drives, with transports at both ends.
//!
//! | module | holds |
//! |---|---|
//! | [`simulation`] | the event loop |
//! | [`flow`] | a flow: application, sender, receiver |
//! | [`bodies`] | contents of the packets under way |
//! | [`record`] | samples, links and events as columns |
//! | [`summary`] | what a Run comes to: goodput, round-trip times, start-up apart |

pub mod bodies;
mod error;
pub mod flow;
pub mod record;
pub mod simulation;
pub mod summary;

#[cfg(test)]
mod behaviour;
#[cfg(test)]
mod testing;

pub use error::SimError;
pub use record::{Events, Links, Samples};
pub use simulation::{RunData, Simulation};
pub use summary::Summary;
