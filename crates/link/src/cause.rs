//! Why packets are dropped or marked, and how many were.

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
