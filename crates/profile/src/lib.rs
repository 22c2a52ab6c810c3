//! Units, seeded random streams, the Profile and the Experiment.
//!
//! A *Profile* is a time-varying path between two hosts; an *Experiment* says what is done on it. This crate is a leaf: no I/O, no clock, no
//! ambient randomness. Everything that simulates, emulates or computes a path stands on these types.
//!
//! | module | holds |
//! |---|---|
//! | [`units`] | time, spans, rates, bytes, angles, wall clock: integers, so that the same Run comes out everywhere |
//! | [`rng`] | named random streams from one seed, and draws keyed by place and time |
//! | [`series`] | a value over time: linear or stepped, with the intervals in which it is valid |
//! | [`path`] | hops, queues, routes, events: the Profile |
//! | [`table`] | the Profile as one long table and back, with its content hash |
//! | [`experiment`] | flows, hosts, seeds |
//! | [`cross`] | cross traffic on the same path |
//! | [`run`] | what a Run leaves: samples, links, events, summary |

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
