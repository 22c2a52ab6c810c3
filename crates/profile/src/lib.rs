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
//! | [`path`] | hops, queues, routes, events: the Profile |
//! | [`table`] | conversion of the Profile to one long table and back, and its content hash |
//! | [`experiment`] | flows, hosts, seeds |
//! | [`cross`] | cross traffic on the same path |
//! | [`run`] | tables and summary of a Run: samples, links, events |

pub mod cross;
pub mod error;
pub mod experiment;
mod lone;
pub mod path;
pub mod queue;
pub mod rng;
pub mod run;
pub mod series;
pub mod table;
pub mod units;

pub use error::{ProfileError, shown, shown_message};
pub use path::{
    Basis, Direction, Event, EventKind, Fate, Hop, HopDirection, InFlightFate, Migration, OrderFate, Profile, Provenance, QueueFate,
    RouteEntry,
};
pub use queue::{Codel, FqCodel, QueueDiscipline, QueueLimit, QueueRule, QueueSpec, Red, Step};
pub use rng::{Streams, keyed_u64, unit_f64};
pub use series::{Interpolation, JitterSeries, Series};
pub use units::{Angle, Bytes, Nanos, Rate, Time, Utc};
