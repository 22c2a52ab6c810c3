//! Replay of a hook trace against a controller without a network.

use super::format::{Call, Header, State, TraceError, read_call};
use crate::Controller;
use std::fmt;

/// The first call after which a controller differs from the trace.
#[derive(Clone, Debug)]
pub struct Difference {
    /// Number of the call, from 0.
    pub number: u64,
    /// The call.
    pub call: Call,
    /// The state in the trace.
    pub recorded: State,
    /// The controller's state.
    pub replayed: State,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "call {}, {}", self.number, self.call.name())?;
        if let Some(at) = self.call.at() {
            write!(f, " at {:.9} s", at.as_secs_f64())?;
        }
        let rate = |state: &State| state.pacing_rate.map_or(u64::MAX, |rate| rate.0);
        let (was, is) = (&self.recorded, &self.replayed);
        for (name, unit, was, is) in [
            ("cwnd", "bytes", was.cwnd.0, is.cwnd.0),
            ("ssthresh", "bytes", was.ssthresh.0, is.ssthresh.0),
            ("pacing rate", "bit/s", rate(was), rate(is)),
        ] {
            if was != is {
                let text = |value: u64| if value == u64::MAX { "none".to_owned() } else { format!("{value} {unit}") };
                write!(f, "; {name}: {} in the trace, {} now", text(was), text(is))?;
            }
        }
        Ok(())
    }
}

/// Builds the controller that a trace is replayed on, from the trace's header.
pub type Build<'a, E> = dyn Fn(&Header) -> Result<Box<dyn Controller>, E> + 'a;

/// A replay in progress. The trace comes in parts of any size.
#[derive(Default)]
pub struct Replay {
    controller: Option<Box<dyn Controller>>,
    /// The part of the trace that is not a whole record yet.
    pending: Vec<u8>,
    calls: u64,
}

impl Replay {
    /// Replays the next part of a trace; returns the first difference. The first part with a whole header builds the controller with `build`.
    ///
    /// # Errors
    /// The trace is damaged (`TraceError`), or `build` fails.
    pub fn feed<E: From<TraceError>>(&mut self, part: &[u8], build: &Build<'_, E>) -> Result<Option<Difference>, E> {
        self.pending.extend_from_slice(part);
        let mut used = 0;
        if self.controller.is_none() {
            let Some((header, length)) = Header::read(&self.pending)? else { return Ok(None) };
            self.controller = Some(build(&header)?);
            used = length;
        }
        let Some(controller) = self.controller.as_deref_mut() else { return Ok(None) };
        let difference = loop {
            let Some((call, recorded, size)) = read_call(&self.pending[used..], self.calls)? else { break None };
            used += size;
            call.make(controller);
            let replayed = State::of(controller);
            self.calls += 1;
            if replayed != recorded {
                break Some(Difference { number: self.calls - 1, call, recorded, replayed });
            }
        };
        self.pending.drain(..used);
        Ok(difference)
    }

    /// Ends the replay; returns the number of calls.
    ///
    /// # Errors
    /// The trace ends within its header or a record.
    pub fn finish(&self) -> Result<u64, TraceError> {
        if self.controller.is_none() {
            return Err(TraceError::Header("the trace ends within it".to_owned()));
        }
        if self.pending.is_empty() {
            Ok(self.calls)
        } else {
            Err(TraceError::Record { call: self.calls, problem: "the trace ends within it" })
        }
    }
}
