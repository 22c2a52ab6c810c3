//! What the parent process asks for, and how it arrives: lengths, JSON, the Profile's table.

use crate::error::EmuError;
use crate::gateway::destinations::Reach;
use bentpipe_profile::experiment::{EcnMode, Experiment, HostSpec};
use bentpipe_profile::table::Table;
use bentpipe_profile::{Nanos, Profile, QueueRule, Time, Utc};
use serde::Deserialize;
use std::ffi::OsString;
use std::io::Read;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// What happens when the program runs longer than the Profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AtEnd {
    /// The Profile begins anew.
    Loop,
    /// Its last values stay.
    Hold,
    /// The program is asked to stop.
    Stop,
}

/// Where in the Profile it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Begin {
    /// Here.
    At(Time),
    /// Where the Profile's clock and the machine's agree modulo so many nanoseconds: reconfigurations come at fixed seconds of the minute.
    WallClock(Nanos),
}

impl Begin {
    /// The Profile's time to begin at, when the machine's clock reads `now`.
    #[must_use]
    pub fn resolve(self, profile_start: Utc, now: SystemTime) -> Time {
        match self {
            Self::At(at) => at,
            Self::WallClock(period) => {
                let unix_ns = now.duration_since(UNIX_EPOCH).map_or(0, |d| i128::try_from(d.as_nanos()).unwrap_or(0));
                let period = i128::from(period.0.max(1));
                Time(u64::try_from((unix_ns - i128::from(profile_start.0)).rem_euclid(period)).unwrap_or(0))
            }
        }
    }
}

impl Begin {
    /// The Profile's time at which it begins anew when it is over at `end`, which is the time since its first beginning: where the clocks agree again, or
    /// at its own beginning.
    #[must_use]
    pub fn restart_at(self, end: Time) -> Time {
        match self {
            Self::At(_) => Time::ZERO,
            Self::WallClock(period) => Time(end.0 % period.0.max(1)),
        }
    }
}

/// Who makes the traffic.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Workload {
    /// A program in the client's namespace; what it prints goes where the parent's goes. Bytes, as the parent got them: an argument need be no UTF-8.
    Program {
        /// Program and arguments.
        command: Vec<OsString>,
        /// A server in the other namespace, run by `/bin/sh -c`.
        server: Option<OsString>,
        /// File for what the server prints.
        server_log: Option<OsString>,
    },
    /// The flows of an Experiment, with the kernel's own TCP at both ends.
    Race {
        /// Which.
        experiment: Box<Experiment>,
    },
}

/// One emulation.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// What the path is called in the tables.
    pub role: String,
    /// Seed of the per-packet draws.
    pub seed: u64,
    /// See [`Begin`].
    pub begin: Begin,
    /// See [`AtEnd`].
    pub at_end: AtEnd,
    /// Largest IP packet [bytes].
    pub mtu: u16,
    /// Time between samples of the sockets.
    pub sample_step_ns: Nanos,
    /// How long a server may take until it listens.
    pub listen_within_ns: Nanos,
    /// How long a program may take to end after it was asked to.
    pub grace_ns: Nanos,
    /// Congestion controller of the gateway's TCP towards the client; `None`: the kernel's default.
    pub gateway_controller: Option<String>,
    /// Which destinations a program reaches behind the gateway; a race has no gateway.
    pub internet: Reach,
    /// Folder for what passes the two ends ([`crate::capture`]); `None`: not captured.
    pub capture: Option<OsString>,
    /// Settings of both hosts; `None`: the kernel's own.
    pub hosts: Option<HostSpec>,
    /// Other queues than the Profile's own, where a program makes the traffic; a race's are in its Experiment.
    #[serde(default)]
    pub queues: Vec<QueueRule>,
    /// Who makes the traffic.
    pub workload: Workload,
}

impl Spec {
    /// The Profile with the queues that are asked for.
    ///
    /// # Errors
    /// A rule that no hop answers to, or whose parameters cannot be.
    pub fn path(&self, profile: Profile) -> Result<Arc<Profile>, EmuError> {
        let profile = Arc::new(profile);
        Ok(match &self.workload {
            Workload::Race { experiment } => experiment.path(&self.role, &profile)?,
            Workload::Program { .. } if self.queues.is_empty() => profile,
            Workload::Program { .. } => Arc::new(profile.with_queues(&self.role, &self.queues)?),
        })
    }

    /// Congestion notification as the flows of a race ask for it; `None`: as the kernel has it.
    #[must_use]
    pub fn ecn(&self) -> Option<EcnMode> {
        match &self.workload {
            Workload::Race { experiment } => experiment.flows.iter().map(|flow| flow.ecn).max(),
            Workload::Program { .. } => None,
        }
    }
}

/// More than this is no specification [bytes].
const MAX_PART_BYTES: u64 = 1 << 32;

/// Reads a specification and its Profile: twice a length (u64, little-endian) and as many bytes; the second is [`encode_profile`]'s.
///
/// # Errors
/// [`EmuError::Spec`] where it is cut short or is not one.
pub fn read_spec(from: &mut impl Read) -> Result<(Spec, Profile), EmuError> {
    let json = read_part(from)?;
    let spec = serde_json::from_slice(&json).map_err(|e| EmuError::Spec(e.to_string()))?;
    let profile = decode_profile(&read_part(from)?)?;
    Ok((spec, profile))
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

/// A Profile as bytes, for a process of the same build: metadata and columns, each behind its length.
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

/// Back from [`encode_profile`].
///
/// # Errors
/// [`EmuError::Spec`] where the bytes are cut short, [`EmuError::Profile`] where they are no valid Profile.
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
    fn seconds_of_the_minute_agree() {
        // The Profile starts at :05, the machine reads :17.25: 12.25 s into it.
        let start = Utc(1_778_403_605_000_000_000);
        let now = UNIX_EPOCH + Duration::from_millis(1_800_000_017_250);
        let minute = Nanos::from_secs(60);
        assert_eq!(Begin::WallClock(minute).resolve(start, now), Time(12_250_000_000));
        // Also before the Profile's own time.
        let early = UNIX_EPOCH + Duration::from_millis(17_250);
        assert_eq!(Begin::WallClock(minute).resolve(start, early), Time(12_250_000_000));
    }

    #[test]
    fn seconds_of_the_minute_agree_in_every_passage() {
        let start = Utc(1_778_403_605_000_000_000);
        let begin = Begin::WallClock(Nanos::from_secs(15));
        let duration = Nanos::from_secs(20);
        let at = |seconds: f64| UNIX_EPOCH + Duration::from_secs(1_800_000_000) + Duration::from_secs_f64(seconds);
        let first = begin.resolve(start, at(3.0));
        assert_eq!(first, Time(13_000_000_000));
        // It is over after 7 s, and then after every 15.
        let (mut end, mut seconds) = (Time(duration.0), 10.0);
        for _ in 0..3 {
            let restart = begin.restart_at(end);
            assert_eq!(restart, begin.resolve(start, at(seconds)));
            let lasts = duration.0 - restart.0;
            assert_eq!(lasts, 15_000_000_000);
            (end, seconds) = (Time(end.0 + lasts), seconds + lasts as f64 / 1e9);
        }
        assert_eq!(Begin::At(Time(7)).restart_at(end), Time::ZERO, "as asked");
    }

    proptest! {
        #[test]
        fn what_is_no_specification_is_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(read_spec(&mut bytes.as_slice()).is_err());
            prop_assert!(decode_profile(&bytes).is_err());
        }
    }
}
