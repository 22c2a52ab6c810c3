//! The emulator: real programs, on a real kernel, behind a Profile. Drives the same link elements as the simulator, in real time.
//!
//! | module | holds |
//! |---|---|
//! | [`isolation`] | user, mount and PID namespaces |
//! | [`host`] | a network namespace with a device of the relay's, and what runs in it ([`interface`]) |
//! | [`device`] | a TUN device, or a [`veth`] pair ([`ring`], [`offload`]); its packets ([`segments`]) |
//! | [`relay`] | the event loop between the two devices ([`clock`], [`flows`], [`fragments`], [`lateness`]) |
//! | `passages` | the Profile's passages: the current one, and earlier ones that still hold packets |
//! | [`ecn`] | congestion notification in a packet's header |
//! | [`gateway`] | the way from the server's end of the path to the Internet |
//! | [`diag`] | the kernel's view of every TCP socket inside |
//! | [`sampler`] | … as rows of the Run's `samples` |
//! | [`programs`], [`server`], [`bulk`] | who makes the traffic: a user's program and its server, or the flows of a race |
//! | [`names`] | the name `server` |
//! | [`descriptors`] | how many of them there may be |
//! | [`capture`] | what passes the two ends, as pcapng |
//! | [`account`] | what a run comes to |
//! | [`spec`], [`lines`] | what is asked for, and what is said |
//! | [`session`] | one emulation from beginning to end |

pub mod account;
pub mod bulk;
pub mod capture;
pub mod clock;
pub mod closes;
pub mod connection;
pub mod descriptors;
pub mod device;
pub mod diag;
pub mod ecn;
mod error;
pub mod flows;
pub mod fragments;
pub mod gateway;
pub mod host;
pub mod interface;
pub mod isolation;
pub mod lateness;
pub mod lines;
pub mod merge;
pub mod names;
pub mod observation;
pub mod offload;
mod passages;
mod priority;
pub mod programs;
pub mod relay;
pub mod ring;
pub mod sampler;
pub mod segments;
pub mod server;
pub mod session;
pub mod spec;
pub mod veth;

pub use error::EmuError;

/// Which code an emulation runs: the start of the SHA-256 of the sources of this crate and of those it stands on (`build.rs`), as 16 hexadecimal digits.
pub const BUILD: &str = env!("BENTPIPE_EMULATOR");
