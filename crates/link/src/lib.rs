//! Elements that packets pass through, and the network they form: written once, driven by the simulator's virtual clock and by the emulator's real
//! one. No I/O, no clock, no ambient randomness; every decision is a function of *logical* time (when the packet should have been there), so a
//! driver that wakes up late changes nothing but its own lateness.
//!
//! | module | holds |
//! |---|---|
//! | [`packet`] | what elements see of a packet |
//! | [`element`] | the trait: ports, exits, events, drops by cause |
//! | [`server`] | a queue in front of a capacity ([`rate`], [`gate`]) |
//! | [`queue`] | what waits there: drop-tail, `CoDel`, FQ-CoDel, RED, step |
//! | [`jitter`] | a grant schedule |
//! | [`delay`] | propagation |
//! | [`loss`] | loss episodes |
//! | [`chain`] | one direction of a hop: its elements in order |
//! | [`shared`] | which hops of several Profiles are one |
//! | [`network`] | chains, routes and events of one or more Profiles |
//! | [`stats`] | counters and delay distributions, the same in both worlds |
//! | [`stages`] | where a packet's time went, where that is asked for |
//! | [`windows`] | rows of the Run's `links` table |

pub mod chain;
pub mod delay;
pub mod element;
pub mod gate;
pub mod jitter;
pub mod loss;
pub mod network;
pub mod packet;
pub mod queue;
pub mod rate;
pub mod server;
pub mod shared;
pub mod stages;
pub mod stats;
pub mod windows;

#[cfg(test)]
mod laws;

pub use element::{DropCause, DropCounts, Element, Exit, MarkCause, MarkCounts, PathEvent, Port};
pub use network::{Network, NetworkError, Outcome};
pub use packet::{Ecn, Packet};
