//! The series and queues of a hop.

use crate::direction::Direction;
use crate::queue::QueueSpec;
use crate::series::{JitterSeries, Series};

/// Loss probabilities are integers in units of 1e-9.
pub const LOSS_ONE: u64 = 1_000_000_000;

/// One direction of a hop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HopDirection {
    /// One-way delay [ns], linear between points.
    pub delay: Series,
    /// Capacity [bit/s], stepped; `None`: unlimited.
    pub capacity: Option<Series>,
    /// Loss probability of a packet that passes at this moment [1e-9], stepped. Loss is a process in continuous time: an episode is an interval
    /// with a probability above zero, drawn when the Profile is made.
    pub loss: Option<Series>,
    /// Grant schedule.
    pub jitter: Option<JitterSeries>,
    /// The queue in front of the capacity.
    pub queue: QueueSpec,
}

/// A link of the path, with both directions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hop {
    /// Name: `sat:44713`, `fibre:gateway-pop`, …
    pub name: String,
    /// Hops of several Profiles with the same id share one queue and capacity.
    pub shared_id: Option<String>,
    /// Terminal to Internet.
    pub up: HopDirection,
    /// Internet to terminal.
    pub down: HopDirection,
}

impl Hop {
    /// Return one direction of the hop.
    #[must_use]
    pub const fn side(&self, direction: Direction) -> &HopDirection {
        match direction {
            Direction::Up => &self.up,
            Direction::Down => &self.down,
        }
    }

    /// Return one direction of the hop, mutable.
    pub const fn side_mut(&mut self, direction: Direction) -> &mut HopDirection {
        match direction {
            Direction::Up => &mut self.up,
            Direction::Down => &mut self.down,
        }
    }
}
