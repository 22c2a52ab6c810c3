//! The simulator: a virtual clock over the same link elements that the emulator drives, with transports at both ends.
//!
//! | module | holds |
//! |---|---|
//! | [`simulation`] | the event loop |
//! | [`batches`] | the packets that arrive at one instant, by endpoint |
//! | [`flow`] | a flow: the applications at its ends |
//! | [`connection`] | a connection: its transports, and the events of its streams |
//! | `quic` | the same over QUIC |
//! | [`data_ends`] | what a flow's tables need of a connection |
//! | [`transports`] | how the connections of a flow are made |
//! | `hosts` | the part of the event loop that runs the applications |
//! | [`output`] | where its rows go: the tables, and another sink |
//! | [`cross_traffic`] | sources of cross traffic and their transfers |
//! | [`payloads`] | payloads of the packets in the network |
//! | [`multipath`] | a connection over several paths |
//! | [`pings`] | echo requests over a Profile, without flows |
//! | [`probes`] | datagrams over a Profile, without flows, with recovery |

pub mod batches;
pub mod connection;
pub mod cross_traffic;
pub mod data_ends;
mod error;
pub mod flow;
mod hosts;
pub mod multipath;
mod one_way;
pub mod output;
pub mod payloads;
pub mod pings;
pub mod probes;
mod proxy;
mod quic;
pub mod simulation;
pub mod transports;

#[cfg(test)]
mod row_tests;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use error::SimError;
pub use pings::ping;
pub use probes::one_way_delays;
pub use simulation::{AppPlugins, RunData, Simulation};
