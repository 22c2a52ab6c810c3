//! A TCP as a modern kernel has it, and its congestion controllers. Sans I/O: time and random streams are arguments.
//!
//! | module | holds |
//! |---|---|
//! | [`wire`] | segments and acknowledgements, with their size on the wire |
//! | [`cc`] | one controller per file or folder, behind one trait and one registry |

pub mod cc;
pub mod wire;

pub use wire::{Ack, SackBlocks, Segment};
