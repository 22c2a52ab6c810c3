//! The simulator: a virtual clock over the same link elements that the emulator drives, with transports at both ends.
//!
//! | module | holds |
//! |---|---|
//! | [`simulation`] | the event loop |
//! | [`flow`] | a flow: application, sender, receiver |
//! | [`cross_traffic`] | sources of cross traffic and their transfers |
//! | [`payloads`] | payloads of the packets in the network |
//! | [`pings`] | echo requests over a Profile, without flows |

pub mod cross_traffic;
mod error;
pub mod flow;
pub mod payloads;
pub mod pings;
pub mod simulation;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use error::SimError;
pub use pings::ping;
pub use simulation::{RunData, Simulation};
