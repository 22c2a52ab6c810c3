//! Pings: echo requests that a host at the terminal sends beside the flows, at a constant rate.

use crate::error::ProfileError;
use crate::units::{Nanos, Time};
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;

/// Sizes of an echo request [bytes]: from the headers of IPv4 and ICMP alone to one packet.
pub const PING_BYTES: RangeInclusive<u32> = 28..=1500;

/// Limit of the requests of one sender. Chosen here: each has a row, so ten million take a gigabyte.
pub const MAX_PINGS: u64 = 10_000_000;

/// Echo requests over one path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PingSpec {
    /// Role of the Profile that they run on.
    pub profile: String,
    /// Time between two requests [ns].
    pub every_ns: Nanos,
    /// Size of a request and of its reply, IP header included [bytes].
    pub bytes: u32,
    /// When the first is sent [ns since the start of the run].
    #[serde(default)]
    pub start_ns: Time,
    /// Time from which none is sent [ns]; `None`: the end of the run.
    #[serde(default)]
    pub stop_ns: Option<Time>,
}

impl PingSpec {
    /// Check that the pings can be sent in a run of this duration.
    ///
    /// # Errors
    /// The first invalid field. `index`: position of the pings in the Experiment.
    pub fn check(&self, index: usize, duration: Nanos) -> Result<(), ProfileError> {
        let bad = |name: &str, value: String, expected: &str| {
            Err(ProfileError::Experiment { field: format!("pings[{index}].{name}"), value, expected: expected.to_owned() })
        };
        if !PING_BYTES.contains(&self.bytes) {
            return bad("bytes", self.bytes.to_string(), "28 to 1500, one packet with its headers");
        }
        if self.start_ns.0 >= duration.0 {
            return bad("start_ns", self.start_ns.0.to_string(), "a time before the end of the run");
        }
        if self.stop_ns.is_some_and(|stop| stop <= self.start_ns) {
            return bad("stop_ns", format!("{:?}", self.stop_ns), "a time after start_ns");
        }
        if self.every_ns == Nanos::ZERO || duration.0 / self.every_ns.0 > MAX_PINGS {
            return bad("every_ns", self.every_ns.0.to_string(), "a time above zero, for at most ten million requests in a run");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_pings_are_refused_with_their_field() {
        let pings = PingSpec {
            profile: "path".to_owned(),
            every_ns: Nanos::from_millis(50),
            bytes: 84,
            start_ns: Time(1_000_000_000),
            stop_ns: None,
        };
        let error_of = |changed: PingSpec| changed.check(2, Nanos::from_secs(10)).unwrap_err().to_string();
        assert!(pings.check(2, Nanos::from_secs(10)).is_ok());
        assert!(error_of(PingSpec { bytes: 27, ..pings.clone() }).starts_with("experiment: pings[2].bytes: 27; expected 28 to 1500"));
        assert!(error_of(PingSpec { start_ns: Time(10_000_000_000), ..pings.clone() }).contains("pings[2].start_ns"));
        assert!(error_of(PingSpec { stop_ns: Some(Time(1_000_000_000)), ..pings.clone() }).contains("pings[2].stop_ns"));
        assert!(error_of(PingSpec { every_ns: Nanos::ZERO, ..pings.clone() }).contains("pings[2].every_ns: 0"));
        assert!(error_of(PingSpec { every_ns: Nanos(999), ..pings }).contains("ten million"));
    }
}
