//! Nodes: terminal, satellites and ground station as processes of their own, each in a network namespace, which exchange real packets over veth pairs.
//!
//! ```text
//!   client ── TUN ── bridge ── [terminal] ══ veth ══ [satellite] ══ veth ══ [ground] ── bridge ── TUN ── server
//!                                   ║                    ║ tunnel              ║
//!                                   ╚══════ veth ══ [satellite] ══ veth ═══════╝
//! ```
//! Each node runs the simulator's link elements for the hops that it sends on, and the recovery scheme's element at its ends of links. Hosts' packets cross the
//! veth pairs unchanged, in an IPv6 encapsulation with the option of [`bentpipe_recovery::wire`].
//!
//! | module | content |
//! |---|---|
//! | [`plan`] | the nodes of a Profile, and each node's part of it |
//! | [`envelope`] | the encapsulation on the wire |
//! | [`core`] | a node without I/O |
//! | `elements` | elements in place of those of other nodes |
//! | [`bodies`] | the packets' content while a node has them |
//! | [`wire`] | veth pairs and packet sockets between nodes |
//! | [`attachment`] | packets between the bridge and the nodes at the ends of the path |
//! | [`process`] | a node's process |
//! | [`bridge`] | the session's side: hosts' devices, flows, results |
//! | [`protocol`] | messages between the session and its nodes |
//! | [`recording`] | a node's frames as a capture file |

pub mod attachment;
pub mod bodies;
pub mod bridge;
pub mod core;
mod elements;
pub mod envelope;
pub mod plan;
pub mod process;
pub mod protocol;
pub mod recording;
#[cfg(test)]
mod tests;
pub mod wire;
