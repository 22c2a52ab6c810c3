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

impl Role {
    /// Return the role of a packet that a link's end sends through a queue in front of the link. A host's packet is already inside, so it is a copy.
    pub(crate) const fn of_sent_ahead(self) -> Self {
        match self {
            Self::Host | Self::Copy => Self::Copy,
            Self::Control => Self::Control,
        }
    }
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
    /// Index of the path that it travels on.
    pub path: u32,
    /// Number that the ends of the current link gave it.
    pub sequence: u32,
    /// Header fields that elements at the ends of links and of the path write and read. Links ignore them.
    pub header: [u16; 4],
    /// Size on the wire, IP header included [bytes].
    pub bytes: u16,
    /// Index of the route that it follows, in that path.
    pub route: u16,
    /// Index of its hop in that route, counted from the terminal.
    pub position: u16,
    /// The hop that it is in, as an index into the hops of its path.
    pub hop: u16,
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
    /// Create a packet that enters the path at `at`. Its flow shares its index in the statistics with no other. `bytes` is at most 65,535, as in an IP header.
    #[must_use]
    #[allow(clippy::cast_possible_truncation)] // what an IP packet cannot be counts as the largest
    pub const fn new(at: Time, path: u32, direction: Direction, flow: u32, bytes: u32, body: u32) -> Self {
        Self {
            at,
            hop_entered: at,
            entered: at,
            body,
            flow,
            flow_hash: flow,
            path,
            sequence: 0,
            header: [0; 4],
            bytes: if bytes > u16::MAX as u32 { u16::MAX } else { bytes as u16 },
            route: 0,
            position: 0,
            hop: 0,
            direction,
            role: Role::Host,
            ecn: Ecn::NotEct,
            marked: None,
        }
    }
    /// Return the path and the hop that it is in.
    #[must_use]
    pub const fn crossing(&self) -> Crossing {
        Crossing { path: self.path, hop: self.hop }
    }
}

/// A path and one of its hops. A path that uses two links with one queue has two crossings of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Crossing {
    /// Index of the path.
    pub path: u32,
    /// Index into its hops.
    pub hop: u16,
}
