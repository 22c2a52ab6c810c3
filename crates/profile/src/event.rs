//! Events of a path: handovers, outages, obstructions, rain; and the fate of the packets that they strike.

use crate::direction::Direction;
use crate::units::{Nanos, Rate, Time};
use serde::{Deserialize, Serialize};

/// Fate of the packets that wait in a hop's queue at an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueueFate {
    /// They stay, and leave after the interruption (after a handover: through the old hop).
    Keep,
    /// They are dropped.
    Drop,
    /// They migrate to another hop's queue.
    Migrate(Migration),
}

/// How a queue migrates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Migration {
    /// The hop whose queue the packets join.
    pub to_hop: usize,
    /// Time from the event until the first packet arrives there [ns].
    pub delay_ns: Nanos,
    /// Rate at which the packets migrate [bit/s].
    pub rate_bps: Rate,
}

/// Fate of the packets in flight at an event: those between the queue and the far end of the hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InFlightFate {
    /// They arrive.
    Deliver,
    /// They are dropped.
    Drop,
}

/// Whether packets of the new path may overtake those of the old one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OrderFate {
    /// They may: a shorter new path reorders packets.
    Allow,
    /// They may not: packets of the new path wait for those of the old one.
    Clamp,
}

/// Effect of an event on the packets of one direction of a hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fate {
    /// Packets in the queue.
    pub queue: QueueFate,
    /// Packets in flight.
    pub in_flight: InFlightFate,
    /// Order between packets of the old and the new path.
    pub order: OrderFate,
}

impl Fate {
    /// No packet is dropped and none overtakes another.
    pub const LOSSLESS: Self = Self { queue: QueueFate::Keep, in_flight: InFlightFate::Deliver, order: OrderFate::Clamp };
}

/// Kind of an event of the path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// A handover to another satellite, gateway or both. To the same hop: a reconfiguration.
    Handover {
        /// Satellite left, if any (its name or number).
        from_satellite: Option<String>,
        /// Satellite taken, if any.
        to_satellite: Option<String>,
        /// Gateway left.
        from_gateway: Option<String>,
        /// Gateway taken.
        to_gateway: Option<String>,
        /// The hop in use from now on.
        to_hop: usize,
    },
    /// Outage: the hop carries no packets.
    Outage,
    /// Obstruction of the line of sight.
    Obstruction,
    /// Rain fade.
    Rain,
}

/// An event that strikes a hop at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// When it happens [ns].
    pub at_ns: Time,
    /// Interruption: how long the hop (for a handover: the hop taken) sends nothing [ns]. May be zero.
    pub interruption_ns: Nanos,
    /// The hop it strikes (for a handover: the hop left).
    pub hop: usize,
    /// Kind of the event.
    pub kind: EventKind,
    /// Fate of packets from terminal to Internet.
    pub up: Fate,
    /// Fate of packets from Internet to terminal.
    pub down: Fate,
}

impl Event {
    /// Return the fate of one direction.
    #[must_use]
    pub const fn fate(&self, direction: Direction) -> &Fate {
        match direction {
            Direction::Up => &self.up,
            Direction::Down => &self.down,
        }
    }

    /// Return the fate of one direction, mutable.
    pub const fn fate_mut(&mut self, direction: Direction) -> &mut Fate {
        match direction {
            Direction::Up => &mut self.up,
            Direction::Down => &mut self.down,
        }
    }
}
