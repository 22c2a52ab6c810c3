//! The data of a Run: rows, tables and summary, the same in every world.

pub mod latency;
pub mod rows;
pub mod sinks;
pub mod summary;
pub mod tables;

pub use latency::{LoadSummary, Ping, PingFate, PingSummary};
pub use rows::{FlowRow, Header, PathHeader, ROW_FORMAT, Row, RunSink};
pub use sinks::{PendingEvents, RunTables};
pub use summary::{AppSummary, CrossSummary, FlowFacts, FlowSummary, NoRoute, RecoverySummary, Summary};
pub use tables::{ApplicationRow, Applications, CA_STATES, Column, EventRow, Events, LinkRow, Links, NO_ROUTE, SampleRow, Samples};
