//! What a multipath run consists of.

use bentpipe_profile::{Bytes, Direction, Nanos, ProfileError, Time};
use serde::{Deserialize, Serialize};

/// How the sender chooses the subflow of new data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SchedulerKind {
    /// The lowest smoothed RTT that has room in its window (MPTCP v0.9x).
    MinRtt,
    /// In turns, among those with room.
    RoundRobin,
    /// The shortest time to flush the send queue (Linux since 5.11).
    Linger,
    /// The earliest completion, by forecasts of RTT and interruptions.
    Forecast,
}

/// What the sender knows of a path to come. Times are the Profile's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathOutlook {
    /// Forecasts of the RTT without the sender's own queue, by when they are made, rising [ns]. Each holds until the next.
    #[serde(default)]
    pub rtts_ns: Vec<(Time, Nanos)>,
    /// Times at which the path is expected to carry nothing, rising, from and until [ns].
    #[serde(default)]
    pub interruptions_ns: Vec<(Time, Time)>,
}

/// Data that the application writes at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Write {
    /// When, since the start of the run [ns].
    pub at_ns: Nanos,
    /// How much.
    pub bytes: Bytes,
}

/// A multipath run: one connection with a subflow on each Profile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MultipathSpec {
    /// The scheduler.
    pub scheduler: SchedulerKind,
    /// Congestion controller of each subflow, by its name in the registry.
    pub controller: String,
    /// Seed of the per-packet draws.
    pub seed: u64,
    /// Direction of the data.
    pub direction: Direction,
    /// Start of the run within the Profiles [ns].
    pub start_ns: Time,
    /// Duration [ns].
    pub duration_ns: Nanos,
    /// What the application writes, in order of time; none: it is never out of data.
    pub writes: Vec<Write>,
    /// Receive window of the connection.
    pub receive_buffer_bytes: Bytes,
    /// Outlook of each path; `None`: nothing is known.
    pub outlooks: Vec<Option<PathOutlook>>,
}

impl MultipathSpec {
    /// Check it for this number of Profiles, the shortest of which lasts `shortest`.
    ///
    /// # Errors
    /// The first field that is out of range.
    pub fn check(&self, paths: usize, shortest: Nanos) -> Result<(), ProfileError> {
        let refuse =
            |field: &str, value: String, expected: String| Err(ProfileError::Experiment { field: field.to_owned(), value, expected });
        let end = self.start_ns + self.duration_ns;
        if paths == 0 {
            return refuse("profiles", "none".to_owned(), "one at least".to_owned());
        }
        if end.0 > shortest.0 || self.duration_ns == Nanos::ZERO {
            let span = format!("a run within the shortest Profile, which lasts {} s", shortest.as_secs_f64());
            return refuse("duration_ns", format!("{} s from {} s on", self.duration_ns.as_secs_f64(), self.start_ns.as_secs_f64()), span);
        }
        if self.outlooks.len() != paths {
            return refuse("outlooks", format!("{} of them", self.outlooks.len()), format!("{paths}, one for each Profile"));
        }
        if !self.writes.is_sorted_by_key(|write| write.at_ns) {
            return refuse("writes", "out of order".to_owned(), "rising times".to_owned());
        }
        for outlook in self.outlooks.iter().flatten() {
            let interruptions = outlook.interruptions_ns.iter().all(|(from, until)| from <= until) && outlook.interruptions_ns.is_sorted();
            if !interruptions || !outlook.rtts_ns.is_sorted_by_key(|(at, _)| *at) {
                return refuse(
                    "outlooks",
                    "out of order".to_owned(),
                    "rising times, and interruptions that end after they begin".to_owned(),
                );
            }
        }
        Ok(())
    }
}
