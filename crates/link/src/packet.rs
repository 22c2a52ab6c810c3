//! A packet as elements see it: header fields, size and position, without its content.

use crate::cause::MarkCause;
use bentpipe_profile::{Direction, Time};

/// Explicit congestion notification, RFC 3168 §5.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ecn {
    /// Not-ECT: the transport does not support ECN.
    #[default]
    NotEct,
    /// ECT: the transport supports ECN, and the packet is not marked.
    Ect,
    /// CE: congestion experienced.
    Ce,
}

/// The maker of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// A host sent it. It leaves the network once: delivered, or dropped with a cause.
    #[default]
    Host,
    /// A link end sent it over the link and keeps the host's packet. Its loss is no drop of the host's packet.
    Copy,
    /// A link end made it for the other end. It never leaves the link.
    Control,
}

/// A packet in the network. The driver keeps the content and identifies it by `body`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Logical time: of its arrival when pushed into an element, of its departure when popped.
    pub at: Time,
    /// When it entered the hop it is in.
    pub hop_entered: Time,
    /// When it entered the path.
    pub entered: Time,
    /// Driver's handle to its content.
    pub body: u32,
    /// Index of its flow in the statistics. Several flows may share one.
    pub flow: u32,
    /// Identifies its flow to queues that separate flows. The same for all packets of a flow.
    pub flow_hash: u32,
    /// Size on the wire, IP header included [bytes].
    pub bytes: u32,
    /// Index of the path that it travels on.
    pub path: u32,
    /// Number that the ends of the current link gave it.
    pub sequence: u32,
    /// Index of the route that it follows, in that path.
    pub route: u16,
    /// Index of its hop in that route, counted from the terminal.
    pub position: u16,
    /// Direction of travel.
    pub direction: Direction,
    /// Who made it.
    pub role: Role,
    /// ECN codepoint.
    pub ecn: Ecn,
    /// Why the current hop marked it; `None`: it did not.
    pub marked: Option<MarkCause>,
}

impl Packet {
    /// Create a packet that enters the path at `at`. Its flow shares its index in the statistics with no other.
    #[must_use]
    pub const fn new(at: Time, path: u32, direction: Direction, flow: u32, bytes: u32, body: u32) -> Self {
        Self {
            at,
            hop_entered: at,
            entered: at,
            body,
            flow,
            flow_hash: flow,
            bytes,
            path,
            sequence: 0,
            route: 0,
            position: 0,
            direction,
            role: Role::Host,
            ecn: Ecn::NotEct,
            marked: None,
        }
    }
}
