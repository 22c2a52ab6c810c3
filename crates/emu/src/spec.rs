//! The request from the parent process and its encoding: lengths, JSON, the Profile's table.

use crate::error::EmuError;
use crate::gateway::destinations::Reach;
use bentpipe_profile::experiment::{EcnMode, Experiment, FlowSpec, HostSpec, RecoverySpec};
use bentpipe_profile::table::Table;
use bentpipe_profile::{Nanos, Profile, ProfileError, QueueRule, Time, Utc};
use serde::Deserialize;
use std::ffi::OsString;
use std::io::Read;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Behaviour when the program runs longer than the Profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AtEnd {
    /// The Profile restarts.
    Loop,
    /// The Profile's last values hold.
    Hold,
    /// The program gets a signal to stop.
    Stop,
}

/// Where in the Profile the emulation starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Begin {
    /// At this Profile time.
    At(Time),
    /// At this Profile time, when the Profile's clock and the machine's agree modulo a period: within one period from now.
    AtSecond {
        /// The Profile time.
        at: Time,
        /// The period.
        period: Nanos,
    },
    /// Where the Profile's clock and the machine's agree modulo this period: reconfigurations happen at fixed seconds of the minute.
    WallClock(Nanos),
}

impl Begin {
    /// The Profile time at which to start, when the machine's clock reads `now`.
    #[must_use]
    pub fn resolve(self, profile_start: Utc, now: SystemTime) -> Time {
        match self {
            Self::At(at) | Self::AtSecond { at, .. } => at,
            Self::WallClock(period) => Time(remainder(unix_ns(now) - i128::from(profile_start.0), period)),
        }
    }

    /// How long to wait with the start, when the machine's clock reads `now`.
    #[must_use]
    pub fn wait(self, profile_start: Utc, now: SystemTime) -> Nanos {
        match self {
            Self::At(_) | Self::WallClock(_) => Nanos::ZERO,
            Self::AtSecond { at, period } => Nanos(remainder(i128::from(profile_start.0) + i128::from(at.0) - unix_ns(now), period)),
        }
    }

    /// The Profile time at which it restarts when it is over at `end`, in Profile time since the first start: where the clocks agree again, or 0.
    #[must_use]
    pub fn restart_at(self, end: Time) -> Time {
        match self {
            Self::At(_) | Self::AtSecond { .. } => Time::ZERO,
            Self::WallClock(period) => Time(end.0 % period.0.max(1)),
        }
    }
}

fn unix_ns(now: SystemTime) -> i128 {
    now.duration_since(UNIX_EPOCH).map_or(0, |d| i128::try_from(d.as_nanos()).unwrap_or(0))
}

fn remainder(value_ns: i128, period: Nanos) -> u64 {
    u64::try_from(value_ns.rem_euclid(i128::from(period.0.max(1)))).unwrap_or(0)
}

/// Source of the traffic.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Workload {
    /// A program in the client's namespace; it inherits the parent's output. Its words are bytes: an argument need not be UTF-8.
    Program {
        /// Program and arguments.
        command: Vec<OsString>,
        /// A server in the other namespace, run by `/bin/sh -c`.
        server: Option<OsString>,
        /// File for the server's output.
        server_log: Option<OsString>,
    },
    /// The flows of an Experiment, with the kernel's TCP at both ends.
    Race {
        /// The Experiment.
        experiment: Box<Experiment>,
    },
}

/// Request for one emulation.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// The path's name in the tables.
    pub role: String,
    /// Seed of the per-packet draws.
    pub seed: u64,
    /// See [`Begin`].
    pub begin: Begin,
    /// See [`AtEnd`].
    pub at_end: AtEnd,
    /// Largest IP packet [bytes].
    pub mtu: u16,
    /// Interval of socket samples.
    pub sample_step_ns: Nanos,
    /// Timeout for a server to listen.
    pub listen_within_ns: Nanos,
    /// Grace period between the signal to stop and the end.
    pub grace_ns: Nanos,
    /// Congestion controller of the gateway's TCP towards the client; `None`: the kernel's default.
    pub gateway_controller: Option<String>,
    /// Destinations that a program may reach behind the gateway; a race has no gateway.
    pub internet: Reach,
    /// Folder for packet captures of both ends ([`crate::capture`]); `None`: no capture.
    pub capture: Option<OsString>,
    /// Settings of both hosts; `None`: the kernel's defaults.
    pub hosts: Option<HostSpec>,
    /// Queues that replace the Profile's, for a program; a race's are in its Experiment.
    #[serde(default)]
    pub queues: Vec<QueueRule>,
    /// Loss recovery on the path, for a program; a race's is in its Experiment.
    #[serde(default)]
    pub recovery: Option<RecoverySpec>,
    /// Whether a second path lies beside this one: its Profile follows the first in the request ([`read_profile`]).
    #[serde(default)]
    pub beside: bool,
    /// Source of the traffic.
    pub workload: Workload,
}

impl Spec {
    /// The Profile with the requested queues.
    ///
    /// # Errors
    /// A rule that matches no hop, or with invalid parameters.
    pub fn path(&self, profile: Profile) -> Result<Arc<Profile>, EmuError> {
        let profile = Arc::new(profile);
        Ok(match &self.workload {
            Workload::Race { experiment } => experiment.path(&self.role, &profile)?,
            Workload::Program { .. } if self.queues.is_empty() => profile,
            Workload::Program { .. } => Arc::new(profile.with_queues(&self.role, &self.queues)?),
        })
    }

    /// Loss recovery on the path.
    #[must_use]
    pub const fn recovery(&self) -> Option<&RecoverySpec> {
        match &self.workload {
            Workload::Race { experiment } => experiment.recovery.as_ref(),
            Workload::Program { .. } => self.recovery.as_ref(),
        }
    }

    /// ECN mode that the flows of a race need; `None`: the kernel's default.
    #[must_use]
    pub fn ecn(&self) -> Option<EcnMode> {
        match &self.workload {
            Workload::Race { experiment } => experiment.flows.iter().map(|flow| flow.ecn).max(),
            Workload::Program { .. } => None,
        }
    }
}

/// Largest part of a request [bytes].
const MAX_PART_BYTES: u64 = 1 << 32;

/// Reads a request and its Profile: two parts, each a length (u64, little-endian) and that many bytes; the second is from [`encode_profile`].
///
/// # Errors
/// [`EmuError::Spec`] where it is truncated or malformed; [`EmuError::Profile`] where only the simulator can do what it requests.
pub fn read_spec(from: &mut impl Read) -> Result<(Spec, Profile), EmuError> {
    let json = read_part(from)?;
    let spec: Spec = serde_json::from_slice(&json).map_err(|e| EmuError::Spec(e.to_string()))?;
    if let Workload::Race { experiment } = &spec.workload {
        check(experiment)?;
    }
    let profile = decode_profile(&read_part(from)?)?;
    Ok((spec, profile))
}

/// Reads the Profile of the path beside, the third part of a request.
///
/// # Errors
/// As [`read_spec`].
pub fn read_profile(from: &mut impl Read) -> Result<Profile, EmuError> {
    decode_profile(&read_part(from)?)
}

/// Check that an Experiment requests nothing that only the simulator does.
fn check(experiment: &Experiment) -> Result<(), EmuError> {
    let options = |(number, flow): (usize, &FlowSpec)| (format!("flows[{number}].options"), flow.options.len());
    let lists = [("pings".to_owned(), experiment.pings.len()), ("cross".to_owned(), experiment.cross.len())];
    let mut given = lists.into_iter().chain(experiment.flows.iter().enumerate().map(options));
    given.find(|(_, count)| *count > 0).map_or(Ok(()), |(field, count)| {
        let expected = "none: only the simulator has them".to_owned();
        Err(ProfileError::Experiment { field, value: count.to_string(), expected }.into())
    })
}

fn read_part(from: &mut impl Read) -> Result<Vec<u8>, EmuError> {
    let short = |e: std::io::Error| EmuError::Spec(e.to_string());
    let mut length = [0; 8];
    from.read_exact(&mut length).map_err(short)?;
    let length = u64::from_le_bytes(length);
    if length > MAX_PART_BYTES {
        return Err(EmuError::Spec(format!("{length} bytes; expected at most {MAX_PART_BYTES}")));
    }
    let mut part = Vec::new();
    from.take(length).read_to_end(&mut part).map_err(short)?;
    if part.len() as u64 == length { Ok(part) } else { Err(EmuError::Spec("cut short".to_owned())) }
}

/// Encodes a Profile for a process of the same build: metadata and columns, each after its length.
#[must_use]
pub fn encode_profile(profile: &Profile) -> Vec<u8> {
    let table = profile.to_table();
    let mut bytes = Vec::new();
    let mut part = |data: &[u8]| {
        bytes.extend((data.len() as u64).to_le_bytes());
        bytes.extend(data);
    };
    part(profile.metadata_json().as_bytes());
    part(&table.t_s.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>());
    part(&table.hop.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>());
    part(&table.direction);
    part(&table.kind);
    part(&table.value.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>());
    part(&table.valid.iter().map(|&v| u8::from(v)).collect::<Vec<u8>>());
    bytes
}

/// Decodes a Profile from [`encode_profile`].
///
/// # Errors
/// [`EmuError::Spec`] where the bytes are truncated, [`EmuError::Profile`] where the Profile is not valid.
pub fn decode_profile(mut bytes: &[u8]) -> Result<Profile, EmuError> {
    let mut part = || read_part(&mut bytes);
    let metadata = String::from_utf8(part()?).map_err(|e| EmuError::Spec(e.to_string()))?;
    let floats = |data: Vec<u8>| data.as_chunks().0.iter().map(|c| f64::from_le_bytes(*c)).collect();
    let table = Table {
        t_s: floats(part()?),
        hop: part()?.as_chunks().0.iter().map(|c| u32::from_le_bytes(*c)).collect(),
        direction: part()?,
        kind: part()?,
        value: floats(part()?),
        valid: part()?.into_iter().map(|v| v != 0).collect(),
    };
    Ok(Profile::from_table(&metadata, &table)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    #[test]
    fn the_start_agrees_with_the_machines_second_of_the_minute() {
        // The Profile starts at :05 and the machine's clock reads :17.25, so 12.25 s into the Profile.
        let start = Utc(1_778_403_605_000_000_000);
        let now = UNIX_EPOCH + Duration::from_millis(1_800_000_017_250);
        let minute = Nanos::from_secs(60);
        assert_eq!(Begin::WallClock(minute).resolve(start, now), Time(12_250_000_000));
        // A clock before the Profile's start gives the same.
        let early = UNIX_EPOCH + Duration::from_millis(17_250);
        assert_eq!(Begin::WallClock(minute).resolve(start, early), Time(12_250_000_000));
    }

    #[test]
    fn a_given_start_waits_for_its_second() {
        // The Profile starts at :05, its second 22 is :27 or, modulo 15 s, :12; the machine's clock reads :17.25.
        let start = Utc(1_778_403_605_000_000_000);
        let now = UNIX_EPOCH + Duration::from_millis(1_800_000_017_250);
        let (at, slot) = (Time(22_000_000_000), Nanos::from_secs(15));
        let begin = Begin::AtSecond { at, period: slot };
        assert_eq!((begin.resolve(start, now), begin.wait(start, now)), (at, Nanos::from_millis(9750)));
        assert_eq!(begin.wait(start, now + Duration::from_millis(9750)), Nanos::ZERO);
        assert_eq!(Begin::At(at).wait(start, now), Nanos::ZERO);
        let read: Begin =
            serde_json::from_str(r#"{"at_second": {"at": 22000000000, "period": 15000000000}}"#).expect("as Python writes it");
        assert_eq!(read, begin);
    }

    #[test]
    fn every_restart_agrees_with_the_machines_second_of_the_minute() {
        let start = Utc(1_778_403_605_000_000_000);
        let begin = Begin::WallClock(Nanos::from_secs(15));
        let duration = Nanos::from_secs(20);
        let at = |seconds: f64| UNIX_EPOCH + Duration::from_secs(1_800_000_000) + Duration::from_secs_f64(seconds);
        let first = begin.resolve(start, at(3.0));
        assert_eq!(first, Time(13_000_000_000));
        // The first passage lasts 7 s, each later one 15 s.
        let (mut end, mut seconds) = (Time(duration.0), 10.0);
        for _ in 0..3 {
            let restart = begin.restart_at(end);
            assert_eq!(restart, begin.resolve(start, at(seconds)));
            let lasts = duration.0 - restart.0;
            assert_eq!(lasts, 15_000_000_000);
            (end, seconds) = (Time(end.0 + lasts), seconds + lasts as f64 / 1e9);
        }
        assert_eq!(Begin::At(Time(7)).restart_at(end), Time::ZERO, "a given offset restarts at 0");
    }

    /// The request of a race with one flow, whose Experiment has these fields besides.
    fn request(fields: &str) -> Vec<u8> {
        let flow = r#"{"profile": "path", "direction": "down", "controller": "cubic", "app": "bulk", "start_ns": 0}"#;
        let experiment = format!(
            r#"{{"name": "e", "seed": 1, "duration_ns": 1000000000, "warmup_ns": 0, "sample_step_ns": 100000000, "offset_ns": 0,
                "profiles": [{{"role": "path", "name": "p", "hash": ""}}], "hosts": {{}}, "flows": [{flow}] {fields}}}"#
        );
        let spec = format!(
            r#"{{"role": "path", "seed": 1, "begin": {{"at": 0}}, "at_end": "hold", "mtu": 1500, "sample_step_ns": 100000000, "listen_within_ns": 0,
                "grace_ns": 0, "gateway_controller": null, "internet": "none", "capture": null, "hosts": null,
                "workload": {{"race": {{"experiment": {experiment}}}}}}}"#
        );
        [&(spec.len() as u64).to_le_bytes()[..], spec.as_bytes()].concat()
    }

    #[test]
    fn what_only_the_simulator_does_is_refused_where_it_enters() {
        let error_of = |fields: &str| read_spec(&mut request(fields).as_slice()).unwrap_err();
        let pings = r#", "pings": [{"profile": "path", "every_ns": 1000000, "bytes": 84, "start_ns": 0, "stop_ns": null}]"#;
        let error = error_of(pings);
        assert_eq!(error.to_string(), "experiment: pings: 1; expected none: only the simulator has them");
        assert_eq!(error.kind(), "user");
        assert!(matches!(error_of(""), EmuError::Spec(_)), "only its Profile is missing");
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_are_rejected(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(read_spec(&mut bytes.as_slice()).is_err());
            prop_assert!(decode_profile(&bytes).is_err());
        }
    }
}
