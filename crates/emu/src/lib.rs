//! The emulator: real programs on a real kernel behind a Profile. It drives the simulator's link elements in real time.
//!
//! | module | contents |
//! |---|---|
//! | [`isolation`] | user, mount and PID namespaces |
//! | [`host`] | a network namespace with one end of the path's device, and the thread that runs jobs in it |
//! | [`interface`], [`netlink`], [`sysctl`] | the device as the kernel's interface, requests to the kernel, settings of the namespace |
//! | [`address`] | addresses of the path's ends |
//! | [`header`], [`packets`] | IP headers read, packets built |
//! | [`device`] | a TUN device or a [`veth`] pair ([`ring`], [`offload`]); segmentation ([`segments`]) and coalescing ([`gro`]) |
//! | [`relay`] | the event loop between the two devices ([`clock`], [`flows`], [`fragments`], [`lateness`]) |
//! | `scheduling` | real-time priority and timer precision of the relay's thread |
//! | `passages` | the Profile's passages: the current one, and earlier ones that still hold packets |
//! | [`ecn`] | ECN bits in an IP header |
//! | [`gateway`] | forwarding between the server's end of the path and the Internet |
//! | [`diag`], [`close_events`] | the kernel's socket table, and its record of each closed socket |
//! | [`sampler`], [`endpoint`], `connections`, [`grouping`] | TCP state as rows of the Run's `samples` |
//! | [`programs`], [`server`], [`race`] | the traffic's sources: a user's program and its server, or the flows of a race |
//! | [`names`] | the host name `server` |
//! | [`descriptors`] | the limit of file descriptors |
//! | [`capture`] | packets at both ends of the path, as pcapng |
//! | [`result`], [`observation`] | the outcome of each flow |
//! | [`nodes`] | terminal, satellites and ground station as processes that exchange real packets |
//! | [`spec`], [`messages`] | the request from the parent process, and the messages to it |
//! | [`session`] | one emulation from start to end |

pub mod address;
pub mod capture;
pub mod clock;
pub mod close_events;
mod connections;
pub mod descriptors;
pub mod device;
pub mod diag;
pub mod ecn;
pub mod endpoint;
mod error;
pub mod flows;
pub mod fragments;
pub mod gateway;
pub mod gro;
pub mod grouping;
pub mod header;
pub mod host;
pub mod interface;
pub mod isolation;
pub mod lateness;
pub mod messages;
pub mod names;
pub mod netlink;
pub mod nodes;
pub mod observation;
pub mod offload;
pub mod packets;
mod passages;
pub mod programs;
pub mod race;
pub mod relay;
pub mod result;
pub mod ring;
pub mod sampler;
mod scheduling;
pub mod segments;
pub mod server;
pub mod session;
pub mod spec;
pub mod sysctl;
pub mod veth;

pub use error::EmuError;

/// Version of the emulator's code: the first 16 hexadecimal digits of the SHA-256 of this crate's sources and its dependencies' (`build.rs`).
pub const BUILD: &str = env!("BENTPIPE_EMULATOR");
