//! The Run's own data: tables and summary, the same whichever world it happened in.

pub mod summary;
pub mod tables;

pub use summary::{CrossSummary, FlowFacts, FlowSummary, NoRoute, Summary};
pub use tables::{CA_STATES, Column, Events, Links, NO_ROUTE, RunTables, Samples};
