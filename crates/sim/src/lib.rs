//! The simulator: a virtual clock over the same link elements that the emulator drives, with transports at both ends.
//!
//! | module | holds |
//! |---|---|
//! | [`simulation`] | the event loop |
//! | [`flow`] | a flow: application, sender, receiver |
//! | [`cross_traffic`] | flows of cross traffic, which come and go |
//! | [`bodies`] | contents of the packets under way |
//! | [`pings`] | echo requests instead of flows |

pub mod bodies;
pub mod cross_traffic;
mod error;
pub mod flow;
pub mod pings;
pub mod simulation;

#[cfg(test)]
mod behaviour;
#[cfg(test)]
mod testing;

pub use error::SimError;
pub use pings::ping;
pub use simulation::{RunData, Simulation};
