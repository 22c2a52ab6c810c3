//! What elements see of a packet.

use crate::element::MarkCause;
use bentpipe_profile::{Direction, Time};

/// Explicit congestion notification, RFC 3168 §5.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ecn {
    /// The transport does not take part.
    #[default]
    NotEct,
    /// It does, and nothing has marked the packet.
    Ect,
    /// Congestion experienced.
    Ce,
}

/// A packet on its way. The content stays with the driver, which knows it by `body`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Logical time at which it stands where it stands: its arrival when pushed, its departure when popped.
    pub at: Time,
    /// When it entered the hop it is in.
    pub hop_entered: Time,
    /// When it entered the path.
    pub entered: Time,
    /// Driver's handle to its content.
    pub body: u32,
    /// Its flow's place in the statistics; several flows may share one.
    pub flow: u32,
    /// What tells its flow from others where a queue has to: the same for all its packets.
    pub flow_hash: u32,
    /// Size on the wire, IP header included [bytes].
    pub bytes: u32,
    /// Which Profile of the network it travels on.
    pub path: u16,
    /// Which of that Profile's routes it follows.
    pub route: u16,
    /// Where in that route it stands, from the terminal.
    pub position: u16,
    /// Which way it goes.
    pub direction: Direction,
    /// Congestion notification.
    pub ecn: Ecn,
    /// Why it was marked in the hop it is in, if it was.
    pub marked: Option<MarkCause>,
}

impl Packet {
    /// A packet that enters the path at `at`, of a flow that has its place to itself.
    #[must_use]
    pub const fn new(at: Time, path: u16, direction: Direction, flow: u32, bytes: u32, body: u32) -> Self {
        Self {
            at,
            hop_entered: at,
            entered: at,
            body,
            flow,
            flow_hash: flow,
            bytes,
            path,
            route: 0,
            position: 0,
            direction,
            ecn: Ecn::NotEct,
            marked: None,
        }
    }
}
