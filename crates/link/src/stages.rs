//! The time that a packet spends in each part of a hop. Recorded only after [`crate::Network::record_stages`].

use bentpipe_profile::Time;

/// A part of a packet's time in a hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// In the queue, until its transmission begins: behind other packets, or during an interruption. Includes migration to another hop's queue.
    Queue,
    /// In transmission, at the current capacity.
    Transmission,
    /// Waiting for the grant schedule (the Profile's jitter).
    Grant,
    /// Propagation, including the delay that keeps it from overtaking other packets at a handover.
    Propagation,
}

impl Part {
    /// Name in packet captures and tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Transmission => "transmission",
            Self::Grant => "grant",
            Self::Propagation => "propagation",
        }
    }
}

/// One completed part of a packet's time in a hop. The stages of a packet are in order and cover all of its time from entry to exit. In a link with elements
/// at its ends they are those of all copies until the first of them leaves; control packets and later copies have none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stage {
    /// The driver's handle to the packet's content.
    pub body: u32,
    /// Index of the route that it followed.
    pub route: u16,
    /// Index of the hop in that route.
    pub position: u16,
    /// Which part.
    pub part: Part,
    /// When it ended. It began when the previous stage ended, or when the packet entered the path.
    pub until: Time,
}
