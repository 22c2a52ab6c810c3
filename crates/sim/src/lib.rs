//! The simulator: a virtual clock over the same link elements that the emulator drives, with transports at both ends.
//!
//! | module | holds |
//! |---|---|
//! | [`simulation`] | the event loop |
//! | [`batches`] | the packets that arrive at one instant, by endpoint |
//! | [`flow`] | a flow: its application and the two ends of its connection |
//! | [`cross_traffic`] | sources of cross traffic and their transfers |
//! | [`payloads`] | payloads of the packets in the network |
//! | [`pings`] | echo requests over a Profile, without flows |

pub mod batches;
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
