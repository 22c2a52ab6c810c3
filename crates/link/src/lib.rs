//! Link elements and the network they form. The simulator drives them with a virtual clock, the emulator with the real one.
//!
//! The crate does no I/O, reads no clock and holds no ambient randomness. Every decision is a function of *logical* time: the time at which the
//! packet should have been there. A driver that wakes up late therefore changes nothing but its own lateness.
//!
//! | module | holds |
//! |---|---|
//! | [`packet`] | a packet's header fields and position, without its content |
//! | [`cause`] | why packets are dropped or marked |
//! | [`event`] | changes of the path |
//! | [`element`] | the `Element` trait and its ports |
//! | [`migration`] | queues that migrate to another link |
//! | [`server`] | a queue in front of a capacity ([`rate`], [`gate`]) |
//! | [`queue`] | queue disciplines: drop-tail, `CoDel`, FQ-CoDel, RED, step |
//! | [`jitter`] | the grant schedule |
//! | [`delay`] | propagation |
//! | [`loss`] | loss episodes |
//! | [`chain`] | one direction of a link: its elements in order |
//! | [`link`] | both directions of a link, and the elements at its ends |
//! | [`network`] | links, the paths over them and their events |
//! | [`stats`] | counters and delay distributions, the same in both worlds |
//! | [`stages`] | time that a packet spent in each part of a hop (optional) |
//! | [`windows`] | rows of the Run's `links` table |

pub mod cause;
pub mod chain;
pub mod delay;
pub mod element;
pub mod error;
pub mod event;
pub mod gate;
pub mod jitter;
pub mod link;
pub mod loss;
pub mod migration;
pub mod network;
pub mod packet;
pub mod queue;
pub mod rate;
pub mod server;
pub mod stages;
pub mod stats;
pub mod windows;

#[cfg(test)]
mod properties;

pub use cause::{DropCause, DropCounts, MarkCause, MarkCounts};
pub use element::{Element, Port};
pub use error::NetworkError;
pub use event::PathEvent;
pub use link::Link;
pub use migration::Migrate;
pub use network::{Network, Outcome};
pub use packet::{Ecn, Packet, Role};
