//! Something packets pass through.

use crate::packet::Packet;
use crate::queue::Queue;
use crate::stages::Part;
use bentpipe_profile::{Fate, Time};

/// Where a packet enters an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Port {
    /// From upstream.
    In,
    /// Moved here from another hop's queue.
    Migrated,
}

/// How a packet leaves an element. Every packet that was pushed leaves exactly once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Downstream.
    Out,
    /// To the hop that a handover moved this queue to.
    Migrate,
    /// Not at all.
    Dropped(DropCause),
}

/// Why a packet was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum DropCause {
    /// The queue was full.
    QueueFull = 0,
    /// A loss episode.
    Loss = 1,
    /// An event (handover, outage, obstruction, rain) took it.
    Event = 2,
    /// There was no path.
    NoRoute = 3,
    /// The queue's discipline gave it up before the queue was full.
    Aqm = 4,
}

impl DropCause {
    /// All, in the order of their codes.
    pub const ALL: [Self; 5] = [Self::QueueFull, Self::Loss, Self::Event, Self::NoRoute, Self::Aqm];

    /// For tables: `queue`, `loss`, `event`, `no_route`, `aqm`.
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

/// Packets lost so far, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DropCounts([u64; 5]);

impl DropCounts {
    /// One more.
    pub fn count(&mut self, cause: DropCause) {
        self.0[cause as usize] += 1;
    }

    /// How many for this cause.
    #[must_use]
    pub const fn of(&self, cause: DropCause) -> u64 {
        self.0[cause as usize]
    }

    /// For all causes.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The sum of two.
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
    /// A control law that would have dropped it (`CoDel`, FQ-CoDel, RED).
    Law = 0,
    /// It was beyond a threshold (step).
    Threshold = 1,
}

impl MarkCause {
    /// All, in the order of their codes.
    pub const ALL: [Self; 2] = [Self::Law, Self::Threshold];
}

/// Packets marked so far, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MarkCounts([u64; 2]);

impl MarkCounts {
    /// One more.
    pub fn count(&mut self, cause: MarkCause) {
        self.0[cause as usize] += 1;
    }

    /// How many for this cause.
    #[must_use]
    pub const fn of(&self, cause: MarkCause) -> u64 {
        self.0[cause as usize]
    }

    /// The sum of two.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let mut sum = *self;
        sum.0.iter_mut().zip(other.0).for_each(|(a, b)| *a += b);
        sum
    }
}

/// What an element hears of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathEvent {
    /// The path moved to another hop; this one keeps, loses or hands over what it holds, and what still arrives.
    Leave {
        /// When.
        at: Time,
        /// What becomes of the packets.
        fate: Fate,
    },
    /// The hop sends nothing until `until`.
    Close {
        /// When.
        at: Time,
        /// When it retransmits.
        until: Time,
        /// What becomes of the packets.
        fate: Fate,
    },
    /// The path uses the hop, again perhaps: what arrives is served here.
    Join,
    /// A queue moves here: what comes over the path itself is not served before `until`, when the last packet of it will be here.
    Await {
        /// When.
        until: Time,
    },
    /// What follows route number `route` or a newer one may not leave before `floor`: the last packet of the old route.
    NotBefore {
        /// Number of the new route.
        route: u16,
        /// When the hops of the old route are empty, as known then (a later closing of one of them is not foreseen).
        floor: Time,
    },
}

/// Something packets pass through. It never sleeps and never reads a clock.
pub trait Element: Send {
    /// Takes a packet whose logical time of arrival is `packet.at`. Arrivals come in order of time.
    fn push(&mut self, port: Port, packet: Packet);
    /// The next packet whose time has come, in order of time; its `at` is when it left, not when it was asked for.
    fn pop(&mut self, now: Time) -> Option<(Exit, Packet)>;
    /// When to call `pop` again; `None`: idle until the next `push` or event.
    fn wake_at(&self) -> Option<Time>;
    /// What is inside, and then `arrivals` (in order of time), as it will leave downstream if nothing else happens. What would be lost or never leave is
    /// not in it.
    fn departures(&self, arrivals: Vec<Packet>) -> Vec<Packet>;
    /// What is on its way to another hop's queue, and then `arrivals` if they follow it, as it will arrive there.
    fn migrating(&self, _arrivals: &[Packet]) -> Vec<Packet> {
        Vec::new()
    }
    /// What the packet that `pop` gave last, which left at `left`, spent its time on in here: parts in order, each with its end.
    fn stages(&self, _left: Time) -> [Option<(Part, Time)>; 2] {
        [None; 2]
    }
    /// Hears what happens to the path.
    fn on_event(&mut self, _event: &PathEvent) {}
    /// Its queue for capacity, if it has one.
    fn queue(&self) -> Option<&Queue> {
        None
    }
    /// Its queue goes on where another's is, whose packets a handover moved here.
    fn adopt_aqm_state(&mut self, _queue: &Queue) {}
    /// What it has lost, by cause.
    fn drops(&self) -> &DropCounts;
    /// Bytes that wait for capacity.
    fn backlog_bytes(&self) -> u64 {
        0
    }
    /// The most that [`Element::backlog_bytes`] was since it was last forgotten.
    fn peak_backlog_bytes(&self) -> u64 {
        0
    }
    /// Begins anew with what it is now.
    fn reset_peak_backlog(&mut self) {}
    /// Packets inside.
    fn packets(&self) -> usize;
}
