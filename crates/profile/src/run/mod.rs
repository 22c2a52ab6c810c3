//! The data of a Run: tables and summary, the same in every world.

pub mod summary;
pub mod tables;

pub use summary::{AppSummary, CrossSummary, FlowFacts, FlowSummary, NoRoute, Summary};
pub use tables::{Applications, CA_STATES, Column, Events, Links, NO_ROUTE, RunTables, Samples};
