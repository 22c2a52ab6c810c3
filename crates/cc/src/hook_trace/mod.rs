//! Hook traces: every call of a controller in a Run, with its arguments and the window, threshold and rate after it.
//!
//! A trace is recorded by [`Traces`] while a Run goes on, and replayed by [`Replay`] against a controller without a network: the same calls must give the same
//! window, threshold and rate. So a change of a controller, or its twin in another language, is compared call by call. Random draws do not disturb that: a
//! controller draws from named streams of its connection's seed, which the trace stores.
//!
//! | module | content |
//! |---|---|
//! | `as_calls` | methods of a controller as calls |
//! | `format` | the file: header and records |
//! | `fields` | the arguments of each call in a record |
//! | `record` | recording |
//! | `replay` | replay |
//!
//! `docs/reference/hook-trace.md` describes the file, `crates/cc/hook_trace.h` declares it for C.

mod as_calls;
mod fields;
mod format;
mod record;
mod replay;
#[cfg(test)]
mod tests;

pub use format::{Call, Header, MAGIC, State, TraceError};
pub use record::{Trace, Traces};
pub use replay::{Difference, Replay};
