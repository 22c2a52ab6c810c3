//! Where a packet's time in the path went. Kept only where it is asked for ([`crate::Network::keep_stages`]).

use bentpipe_profile::Time;

/// A part of the time in a hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// In the queue, until its transmission began: behind other packets, or while the hop was interrupted. Also the move to another hop's queue.
    Queue,
    /// In transmission, at the capacity of the moment.
    Transmission,
    /// Until the grant schedule let it go (the Profile's jitter).
    Grant,
    /// Propagation; also what it was held back there, so that it overtakes nothing at a handover.
    Propagation,
}

impl Part {
    /// In words.
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

/// A packet was done with one part of its way. Of one packet they come in order, from when it entered to when it left: none of its time is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stage {
    /// The driver's handle to the packet's content.
    pub body: u32,
    /// The Profile's route that it followed …
    pub route: u16,
    /// … and its place there: the hop.
    pub position: u16,
    /// What it was.
    pub part: Part,
    /// When it ended; it began when the one before did, or when the packet entered.
    pub until: Time,
}
