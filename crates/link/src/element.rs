//! The link element: a queue, a delay, a loss process or anything else that packets pass through.

use crate::packet::Packet;
use crate::queue::Queue;
use crate::stages::Part;
use bentpipe_profile::{Fate, Time};

/// Where a packet enters an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Port {
    /// From upstream.
    In,
    /// From another hop's queue, which migrates to this one.
    Migrated,
}

/// How a packet leaves an element. Every pushed packet leaves exactly once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Downstream.
    Out,
    /// To the hop that the queue migrates to at a handover.
    Migrate,
    /// Dropped.
    Dropped(DropCause),
}

/// Why a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum DropCause {
    /// Tail drop: the queue was full.
    QueueFull = 0,
    /// Random loss in a loss episode.
    Loss = 1,
    /// An event (handover, outage, obstruction, rain) struck the hop.
    Event = 2,
    /// No route: there was no path.
    NoRoute = 3,
    /// AQM drop: the queue's control law dropped it before the queue was full.
    Aqm = 4,
}

impl DropCause {
    /// All causes, in the order of their codes.
    pub const ALL: [Self; 5] = [Self::QueueFull, Self::Loss, Self::Event, Self::NoRoute, Self::Aqm];

    /// Name in tables: `queue`, `loss`, `event`, `no_route`, `aqm`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::QueueFull => "queue",
            Self::Loss => "loss",
            Self::Event => "event",
            Self::NoRoute => "no_route",
            Self::Aqm => "aqm",
        }
    }
}

/// Packets dropped so far, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DropCounts([u64; 5]);

impl DropCounts {
    /// Count one packet.
    pub fn count(&mut self, cause: DropCause) {
        self.0[cause as usize] += 1;
    }

    /// Number of packets dropped for this cause.
    #[must_use]
    pub const fn of(&self, cause: DropCause) -> u64 {
        self.0[cause as usize]
    }

    /// Number of packets dropped for any cause.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Sum of two counts, cause by cause.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let mut sum = *self;
        sum.0.iter_mut().zip(other.0).for_each(|(a, b)| *a += b);
        sum
    }
}

/// Why a packet was marked (`CE`, RFC 3168).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum MarkCause {
    /// The queue's control law would have dropped it (`CoDel`, FQ-CoDel, RED).
    Law = 0,
    /// The queue or the wait exceeded a threshold (step).
    Threshold = 1,
}

impl MarkCause {
    /// All causes, in the order of their codes.
    pub const ALL: [Self; 2] = [Self::Law, Self::Threshold];
}

/// Packets marked so far, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MarkCounts([u64; 2]);

impl MarkCounts {
    /// Count one packet.
    pub fn count(&mut self, cause: MarkCause) {
        self.0[cause as usize] += 1;
    }

    /// Number of packets marked for this cause.
    #[must_use]
    pub const fn of(&self, cause: MarkCause) -> u64 {
        self.0[cause as usize]
    }

    /// Sum of two counts, cause by cause.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let mut sum = *self;
        sum.0.iter_mut().zip(other.0).for_each(|(a, b)| *a += b);
        sum
    }
}

/// A change of the path that an element has to react to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathEvent {
    /// The path leaves this hop at a handover. The fate applies to packets inside and to packets that still arrive.
    Leave {
        /// When.
        at: Time,
        /// Fate of the packets.
        fate: Fate,
    },
    /// An interruption: the hop sends nothing from `at` to `until`.
    Close {
        /// When the interruption begins.
        at: Time,
        /// When it ends.
        until: Time,
        /// Fate of the packets inside.
        fate: Fate,
    },
    /// The path uses the hop (possibly once more): the hop serves arrivals itself.
    Join,
    /// Another hop's queue migrates to this hop. The hop serves packets from its own route only from `until` on.
    Await {
        /// When the last migrated packet has arrived.
        until: Time,
    },
    /// Packets on route number `route` or a newer one may not leave before `floor`, so that they do not overtake packets of the old route.
    NotBefore {
        /// Number of the new route.
        route: u16,
        /// When the old route's hops are empty, as predicted at the handover. A later interruption of one of them is not foreseen.
        floor: Time,
    },
}

/// A link element. It never sleeps and never reads a clock: the driver calls it.
pub trait Element: Send {
    /// Accept a packet that arrives at logical time `packet.at`. The driver pushes arrivals in order of time.
    fn push(&mut self, port: Port, packet: Packet);
    /// Remove and return the next packet that is due by `now`, in order of time. Its `at` is the logical time at which it left.
    fn pop(&mut self, now: Time) -> Option<(Exit, Packet)>;
    /// Return when to call `pop` again. `None`: nothing is due before the next `push` or event.
    fn wake_at(&self) -> Option<Time>;
    /// Predict when the packets inside, followed by `arrivals` (in order of time), leave downstream if no further event happens. Leaves out packets
    /// that would be dropped or would never leave.
    fn departures(&self, arrivals: Vec<Packet>) -> Vec<Packet>;
    /// Predict when the packets that migrate to another hop's queue arrive there. Includes `arrivals` if this hop forwards them to that queue.
    fn migrating(&self, _arrivals: &[Packet]) -> Vec<Packet> {
        Vec::new()
    }
    /// Return how the packet that `pop` returned last spent its time in this element: parts in order, each with its end. `left`: when it left.
    fn stages(&self, _left: Time) -> [Option<(Part, Time)>; 2] {
        [None; 2]
    }
    /// React to a change of the path.
    fn on_event(&mut self, _event: &PathEvent) {}
    /// Return the queue in front of the capacity, if this element has one.
    fn queue(&self) -> Option<&Queue> {
        None
    }
    /// Adopt the AQM state of another hop's queue, whose packets migrate to this element at a handover.
    fn adopt_aqm_state(&mut self, _queue: &Queue) {}
    /// Return the packets dropped so far, by cause.
    fn drops(&self) -> &DropCounts;
    /// Return the bytes that wait for capacity.
    fn backlog_bytes(&self) -> u64 {
        0
    }
    /// Return the largest [`Element::backlog_bytes`] since [`Element::reset_peak_backlog`].
    fn peak_backlog_bytes(&self) -> u64 {
        0
    }
    /// Set the peak backlog to the current backlog: a new window begins.
    fn reset_peak_backlog(&mut self) {}
    /// Return the number of packets inside.
    fn packets(&self) -> usize;
}
