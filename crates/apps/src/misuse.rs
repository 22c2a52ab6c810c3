//! What an application must not do. All drivers refuse it with the same line.

use crate::message::StreamId;
use crate::timers::MAX_AT_ONCE;
use bentpipe_profile::Time;
use bentpipe_profile::app::AppSpec;

/// Something impossible that an application asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// It uses a stream that it has neither opened nor accepted.
    UnknownStream(StreamId),
    /// It writes to a stream that it has closed.
    ClosedStream(StreamId),
    /// Its timers are due again and again without getting later.
    Spinning,
}

impl Mistake {
    fn problem(self) -> String {
        match self {
            Self::UnknownStream(stream) => format!("it uses stream {}, which does not exist,", stream.0),
            Self::ClosedStream(stream) => format!("it writes to stream {}, which it has closed,", stream.0),
            Self::Spinning => format!("more than {MAX_AT_ONCE} of its timers are due"),
        }
    }

    const fn expected(self) -> &'static str {
        match self {
            Self::UnknownStream(_) => "a stream that it opened or accepted",
            Self::ClosedStream(_) => "an open stream",
            Self::Spinning => "a timer that it sets to be later than now",
        }
    }
}

/// The error of a flow whose application made a mistake.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "flows[{flow}].app: {app}: {} at {:.6} s; expected {}", .mistake.problem(), .at.since(Time::ZERO).as_secs_f64(), .mistake.expected()
)]
pub struct Misuse {
    /// Number of the flow.
    pub flow: usize,
    /// Name of the application.
    pub app: String,
    /// Time since the start of the run.
    pub at: Time,
    /// The mistake.
    pub mistake: Mistake,
}

impl Misuse {
    /// Create the error of flow number `flow`, whose application `app` made a mistake at `at`, a time since the start of the run.
    #[must_use]
    pub fn new(flow: usize, app: &AppSpec, at: Time, mistake: Mistake) -> Self {
        Self { flow, app: name_of(app), at, mistake }
    }
}

/// Return the name of an application in errors.
#[must_use]
pub fn name_of(app: &AppSpec) -> String {
    if let AppSpec::Plugin { name, .. } = app { name.clone() } else { format!("{app:?}") }
}
