//! Units, seeded random streams, the Profile and the Experiment.
//!
//! A *Profile* is a time-varying path between two hosts. An *Experiment* describes the traffic on it. This crate does no I/O, reads no clock and holds
//! no ambient randomness. Every crate that simulates, emulates or computes a path uses these types.
//!
//! | module | holds |
//! |---|---|
//! | [`units`] | time, spans, rates, bytes, angles, wall clock: integers, so that a Run is the same on every machine |
//! | [`rng`] | named random streams from one seed, and draws keyed by hop and time |
//! | [`series`] | a value over time, linear or stepped, with its valid intervals |
//! | [`direction`] | direction of a packet |
//! | [`queue`] | size and discipline of a queue |
//! | [`hop`] | series and queues of a hop |
//! | [`event`] | handovers, outages and the fate of packets |
//! | [`profile`] | hops, routes and events: the Profile |
//! | [`topology`] | nodes and links, each once |
//! | [`path`] | routes of one pair of hosts over these links |
//! | [`network`] | a Topology and the Paths over it |
//! | [`queue_rule`] | rules that replace a Profile's queues |
//! | [`table`] | conversion of the Profile to one long table and back, and its content hash |
//! | [`experiment`] | flows, hosts, seeds |
//! | [`options`] | values of options in an Experiment |
//! | [`tunables`] | options as typed values; how a controller or recovery scheme declares its own |
//! | [`names`] | names that users misspell |
//! | [`app`] | applications of flows |
//! | [`video`] | a video and its player, one of them |
//! | [`cross`] | cross traffic on the same path |
//! | [`pings`] | echo requests beside the flows |
//! | [`run`] | rows, tables and summary of a Run: samples, links, events |

pub mod app;
pub mod cross;
pub mod direction;
pub mod error;
pub mod event;
pub mod experiment;
pub mod hop;
mod lone;
pub mod names;
pub mod network;
pub mod options;
pub mod path;
pub mod pings;
pub mod profile;
pub mod queue;
pub mod queue_rule;
pub mod rng;
pub mod run;
mod sender_capacity;
pub mod series;
pub mod table;
#[cfg(test)]
mod testing;
pub mod topology;
pub mod tunables;
pub mod units;
mod validation;
pub mod video;

pub use direction::Direction;
pub use error::{ProfileError, shown, shown_message};
pub use event::{Event, EventKind, Fate, InFlightFate, Migration, OrderFate, QueueFate};
pub use hop::{Hop, HopDirection, LOSS_ONE};
pub use network::NetworkSpec;
pub use path::{Path, PathHop};
pub use profile::{Basis, Profile, Provenance, RouteEntry};
pub use queue::{Codel, FqCodel, QueueDiscipline, QueueLimit, QueueSpec, Red, Step};
pub use queue_rule::QueueRule;
pub use rng::{Streams, keyed_u64, unit_f64};
pub use series::{Interpolation, JitterSeries, Series};
pub use topology::{LinkSpec, Topology};
pub use units::{Angle, Bytes, Nanos, Rate, Time, Utc};
