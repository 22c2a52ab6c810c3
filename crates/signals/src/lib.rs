//! Features of a measured signal, such as the RTT or the throughput of each second, for predictors.
//!
//! [`FeatureStream`] takes one sample at a time and returns the row of features at that time; [`table`] runs it over arrays, so that a model is trained on
//! exactly the values that it sees when it follows a terminal. A row depends only on its sample and earlier ones.
//!
//! - [`spec`]: which features there are, and their names
//! - [`slots`]: the features of a clock of reconfigurations
//! - [`windows`]: statistics of trailing windows
//! - [`models`]: forward passes of trained models

mod error;
pub mod models;
pub mod slots;
pub mod spec;
mod stream;
pub mod windows;

pub use error::SignalError;
pub use models::{Model, ModelError};
pub use slots::SlotClock;
pub use spec::FeatureSpec;
pub use stream::{FeatureStream, FeatureTable, table};
