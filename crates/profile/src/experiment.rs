//! The Experiment: what is done on a path. Every Run stores it completely, so that the Run can be repeated.

use crate::app::AppSpec;
use crate::cross::CrossTraffic;
use crate::direction::Direction;
use crate::error::ProfileError;
use crate::options::OptionValues;
use crate::pings::PingSpec;
use crate::profile::Profile;
use crate::queue_rule::QueueRule;
use crate::units::{Bytes, Nanos, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Flows and cross traffic on Profiles, with hosts, durations and a seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// Name.
    pub name: String,
    /// Seed of the run's own draws (per-packet outcomes, controllers' random choices).
    pub seed: u64,
    /// Duration of the run [ns]; at most that of each Profile.
    pub duration_ns: Nanos,
    /// Warm-up: left out of steady-state summaries [ns]. The start-up phase is reported separately.
    pub warmup_ns: Nanos,
    /// Time between samples [ns].
    pub sample_step_ns: Nanos,
    /// Time in the Profiles at which the run begins [ns].
    pub offset_ns: Nanos,
    /// The paths, by role.
    pub profiles: Vec<ProfileRef>,
    /// Model of the time that the simulated hosts take.
    #[serde(default)]
    pub host_timing: HostTiming,
    /// Hosts' settings, by name.
    pub hosts: BTreeMap<String, HostSpec>,
    /// The flows.
    pub flows: Vec<FlowSpec>,
    /// Cross traffic on the same paths.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cross: Vec<CrossTraffic>,
    /// Rules that replace queues of the Profiles.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<QueueRule>,
    /// Echo requests beside the flows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pings: Vec<PingSpec>,
    /// Name of the test of latency under load whose flows and pings these are; `None`: of none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<String>,
    /// Recovery of losses inside the network; `None`: none, and one-way delays are not recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery: Option<RecoverySpec>,
}

/// A scheme of loss recovery inside the network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecoverySpec {
    /// Name in the registry.
    pub scheme: String,
    /// Options of the scheme.
    #[serde(default)]
    pub options: OptionValues,
}

/// Use of explicit congestion notification (ECN) that a flow negotiates at its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EcnMode {
    /// No ECN.
    #[default]
    Off,
    /// Classic ECN: the receiver echoes a mark until the sender confirms it (RFC 3168).
    Classic,
    /// Accurate ECN: the receiver echoes the number of marked packets (RFC 9768, `AccECN`).
    Accurate,
}

impl EcnMode {
    #[allow(clippy::trivially_copy_pass_by_ref)] // serde passes a reference
    const fn is_off(&self) -> bool {
        matches!(self, Self::Off)
    }
}

/// A Profile that the Experiment runs on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProfileRef {
    /// Role in the Experiment (`path`).
    pub role: String,
    /// Name of the Profile.
    pub name: String,
    /// Content hash of the Profile.
    pub hash: String,
    /// Content hash of the network whose path the Profile is; `None`: of none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
}

/// Model of the time that a simulated host's scheduler and processor take (`docs/concepts/transport.md`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HostTiming {
    /// As measured on Linux 6.18 on two virtual processors.
    #[default]
    LinuxVm,
    /// None: hosts process packets, and applications read and write, at once.
    Ideal,
}

/// Settings of a host that affect its transport. Defaults: Linux 6.18 (`docs/concepts/transport.md`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HostSpec {
    /// Largest receive buffer, `tcp_rmem[2]`.
    pub rmem_max_bytes: Bytes,
    /// Largest send buffer, `tcp_wmem[2]`.
    pub wmem_max_bytes: Bytes,
    /// Memory per segment of the window that the send buffer's growth allows: 4352 with distribution kernels, 2304 with some kernels for virtual machines.
    pub wmem_segment_bytes: Bytes,
    /// Whether the qdisc paces every flow (`fq`). Otherwise only flows whose controller requests pacing are paced (`pfifo_fast`).
    pub fq: bool,
    /// Most segments of one instant that GRO merges into one for the receiver's TCP; 1: no GRO.
    pub gro_segments: u32,
    /// Highest ECN mode that the host supports.
    pub ecn: EcnMode,
    /// Largest retransmission time-out, `tcp_rto_max_ms` (Linux 6.15; 1000 to 120,000) [ms].
    pub rto_max_ms: u64,
    /// Whether new data decide if a time-out was spurious, `tcp_frto` (RFC 5682).
    pub frto: bool,
}

/// Values that a kernel accepts for `tcp_rto_max_ms`.
const RTO_MAX_MS: std::ops::RangeInclusive<u64> = 1000..=120_000;

impl Default for HostSpec {
    fn default() -> Self {
        Self {
            rmem_max_bytes: Bytes(33_554_432),
            wmem_max_bytes: Bytes(4_194_304),
            wmem_segment_bytes: Bytes(4_352),
            fq: false,
            gro_segments: 45,
            ecn: EcnMode::Accurate,
            rto_max_ms: *RTO_MAX_MS.end(),
            frto: true,
        }
    }
}

/// One flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowSpec {
    /// Role of the Profile it runs on.
    pub profile: String,
    /// Direction of its data.
    pub direction: Direction,
    /// Controller, by its name in the registry.
    pub controller: String,
    /// Options of the controller.
    #[serde(default)]
    pub options: OptionValues,
    /// Start [ns since the start of the run].
    pub start_ns: Time,
    /// When it stops sending [ns]; `None`: at the end of the run, or when its application is done.
    #[serde(default)]
    pub stop_ns: Option<Time>,
    /// Its application.
    pub app: AppSpec,
    /// Name of the sending host's settings; `None`: the defaults.
    #[serde(default)]
    pub sender: Option<String>,
    /// Name of the receiving host's settings; `None`: the defaults.
    #[serde(default)]
    pub receiver: Option<String>,
    /// ECN mode that it requests.
    #[serde(default, skip_serializing_if = "EcnMode::is_off")]
    pub ecn: EcnMode,
}

impl Experiment {
    /// Read an Experiment from JSON and validate it.
    ///
    /// # Errors
    /// Invalid JSON, or an error of [`Experiment::check`].
    pub fn from_json(json: &str) -> Result<Self, ProfileError> {
        let experiment: Self = serde_json::from_str(json).map_err(|e| ProfileError::Experiment {
            field: "document".to_owned(),
            value: e.to_string(),
            expected: "an Experiment as docs/reference/experiment.md describes".to_owned(),
        })?;
        experiment.check()?;
        Ok(experiment)
    }

    /// Return the Experiment as JSON with a fixed order of keys.
    ///
    /// # Panics
    /// Never: the record holds nothing that JSON cannot.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("an Experiment is plain data")
    }

    /// Return a Profile with its queues replaced by this Experiment's rules. `role`: role of the Profile.
    ///
    /// # Errors
    /// A rule that matches no hop, or with invalid parameters.
    pub fn path(&self, role: &str, profile: &Arc<Profile>) -> Result<Arc<Profile>, ProfileError> {
        if self.queues.is_empty() { Ok(profile.clone()) } else { profile.with_queues(role, &self.queues).map(Arc::new) }
    }

    /// Return the index of the Profile with this role; 0 if no Profile has it, which [`Experiment::check`] refuses.
    #[must_use]
    pub fn path_of(&self, role: &str) -> usize {
        self.profiles.iter().position(|p| p.role == role).unwrap_or(0)
    }

    /// Return the settings of the host with this name; the defaults without a name.
    #[must_use]
    pub fn host(&self, name: Option<&String>) -> HostSpec {
        name.and_then(|n| self.hosts.get(n)).cloned().unwrap_or_default()
    }

    /// Check that durations are above zero, names exist and flows start within the run.
    ///
    /// # Errors
    /// The first invalid field.
    pub fn check(&self) -> Result<(), ProfileError> {
        let bad =
            |field: String, value: String, expected: &str| Err(ProfileError::Experiment { field, value, expected: expected.to_owned() });
        if self.duration_ns == Nanos::ZERO {
            return bad("duration_ns".to_owned(), "0".to_owned(), "a duration longer than zero");
        }
        if self.sample_step_ns < Nanos::from_millis(1) {
            return bad("sample_step_ns".to_owned(), self.sample_step_ns.0.to_string(), "at least 1 ms");
        }
        if self.warmup_ns >= self.duration_ns {
            return bad("warmup_ns".to_owned(), self.warmup_ns.0.to_string(), "less than the duration");
        }
        if self.profiles.is_empty() || self.flows.is_empty() {
            return bad("profiles, flows".to_owned(), "none".to_owned(), "at least one of each");
        }
        for (name, host) in &self.hosts {
            if !RTO_MAX_MS.contains(&host.rto_max_ms) {
                return bad(format!("hosts.{name}.rto_max_ms"), host.rto_max_ms.to_string(), "1000 to 120000, as Linux accepts");
            }
        }
        for (i, rule) in self.queues.iter().enumerate() {
            if let Some(role) = rule.profile.as_ref().filter(|role| !self.profiles.iter().any(|p| p.role == **role)) {
                return bad(format!("queues[{i}].profile"), role.clone(), "the role of one of the Experiment's Profiles");
            }
        }
        for (i, flow) in self.flows.iter().enumerate() {
            let field = |name: &str| format!("flows[{i}].{name}");
            if !self.profiles.iter().any(|p| p.role == flow.profile) {
                return bad(field("profile"), flow.profile.clone(), "the role of one of the Experiment's Profiles");
            }
            if flow.start_ns.0 >= self.duration_ns.0 {
                return bad(field("start_ns"), flow.start_ns.0.to_string(), "a time before the end of the run");
            }
            if flow.stop_ns.is_some_and(|stop| stop <= flow.start_ns) {
                return bad(field("stop_ns"), format!("{:?}", flow.stop_ns), "a time after start_ns");
            }
            if let Some((parameter, expected)) = flow.app.problem() {
                let value = serde_json::to_string(&flow.app).unwrap_or_default();
                return bad(field(&format!("app.{parameter}")), value, expected);
            }
            for (end, host) in [("sender", &flow.sender), ("receiver", &flow.receiver)] {
                if let Some(name) = host.as_ref().filter(|n| !self.hosts.contains_key(*n)) {
                    return bad(field(end), name.clone(), "a name in hosts");
                }
            }
        }
        for (i, cross) in self.cross.iter().enumerate() {
            let field = |name: &str| format!("cross[{i}].{name}");
            if !self.profiles.iter().any(|p| p.role == cross.profile) {
                return bad(field("profile"), cross.profile.clone(), "the role of one of the Experiment's Profiles");
            }
            for (end, host) in [("sender", &cross.sender), ("receiver", &cross.receiver)] {
                if let Some(name) = host.as_ref().filter(|n| !self.hosts.contains_key(*n)) {
                    return bad(field(end), name.clone(), "a name in hosts");
                }
            }
            cross.check(i, self.duration_ns)?;
        }
        for (i, pings) in self.pings.iter().enumerate() {
            if !self.profiles.iter().any(|p| p.role == pings.profile) {
                return bad(format!("pings[{i}].profile"), pings.profile.clone(), "the role of one of the Experiment's Profiles");
            }
            pings.check(i, self.duration_ns)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn experiment() -> Experiment {
        Experiment {
            name: "t".to_owned(),
            seed: 0,
            duration_ns: Nanos::from_secs(10),
            warmup_ns: Nanos::from_secs(1),
            sample_step_ns: Nanos::from_millis(100),
            offset_ns: Nanos::ZERO,
            profiles: vec![ProfileRef { role: "path".to_owned(), name: "p".to_owned(), hash: String::new(), network: None }],
            host_timing: HostTiming::LinuxVm,
            hosts: BTreeMap::new(),
            flows: vec![FlowSpec {
                profile: "path".to_owned(),
                direction: Direction::Down,
                controller: "cubic".to_owned(),
                options: BTreeMap::new(),
                start_ns: Time::ZERO,
                stop_ns: None,
                app: AppSpec::Bulk,
                sender: None,
                receiver: None,
                ecn: EcnMode::Off,
            }],
            queues: Vec::new(),
            cross: Vec::new(),
            pings: Vec::new(),
            test: None,
            recovery: None,
        }
    }

    #[test]
    fn an_experiment_read_from_its_json_is_equal() {
        let e = experiment();
        assert_eq!(Experiment::from_json(&e.to_json()).unwrap(), e);
    }

    #[test]
    fn an_invalid_experiment_is_refused_with_its_field() {
        let mut e = experiment();
        e.flows[0].profile = "elsewhere".to_owned();
        assert!(e.check().unwrap_err().to_string().starts_with("experiment: flows[0].profile: elsewhere"));
        let mut e = experiment();
        e.duration_ns = Nanos::ZERO;
        assert!(e.check().is_err());
        let mut e = experiment();
        e.hosts.insert("h".to_owned(), HostSpec { rto_max_ms: 999, ..HostSpec::default() });
        assert!(e.check().unwrap_err().to_string().starts_with("experiment: hosts.h.rto_max_ms: 999"));
        let mut e = experiment();
        e.flows[0].sender = Some("nobody".to_owned());
        assert!(e.check().is_err());
        assert!(Experiment::from_json("{\"name\": 3}").is_err());
    }
}
