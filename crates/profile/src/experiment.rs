//! The Experiment: what is done on a path. Kept whole in every Run, since without it no Run could be repeated.

use crate::cross::CrossTraffic;
use crate::error::ProfileError;
use crate::path::{Direction, Profile};
use crate::queue::QueueRule;
use crate::units::{Bytes, Nanos, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What is done, on which Profiles, by which hosts, with which seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// Its name.
    pub name: String,
    /// Seed of all that the run itself draws (per-packet outcomes, controllers' random choices).
    pub seed: u64,
    /// How long it runs [ns]; no longer than any of its Profiles.
    pub duration_ns: Nanos,
    /// Left out of steady-state summaries [ns]; the start-up is reported apart.
    pub warmup_ns: Nanos,
    /// Time between samples [ns].
    pub sample_step_ns: Nanos,
    /// Where in the Profiles the run begins [ns]: the start phase.
    pub offset_ns: Nanos,
    /// The paths, by role.
    pub profiles: Vec<ProfileRef>,
    /// Hosts' settings, by name.
    pub hosts: BTreeMap<String, HostSpec>,
    /// The flows.
    pub flows: Vec<FlowSpec>,
    /// cross traffic on the same paths.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cross: Vec<CrossTraffic>,
    /// Other queues than the Profiles' own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<QueueRule>,
}

/// What a flow says of explicit congestion notification (ECN) when it opens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EcnMode {
    /// It takes no part.
    #[default]
    Off,
    /// The receiver echoes that there was a mark until the sender says that it heard (RFC 3168).
    Classic,
    /// The receiver echoes how many packets were marked (RFC 9768, `AccECN`).
    Accurate,
}

impl EcnMode {
    #[allow(clippy::trivially_copy_pass_by_ref)] // serde asks with a reference
    const fn is_off(&self) -> bool {
        matches!(self, Self::Off)
    }
}

/// A Profile that the Experiment runs on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProfileRef {
    /// What the Experiment calls it (`path`).
    pub role: String,
    /// Its own name.
    pub name: String,
    /// Its content hash.
    pub hash: String,
}

/// Settings of a host that change what a transport does. Defaults: Linux 6.18 (`docs/concepts/transport.md`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HostSpec {
    /// Largest receive buffer, `tcp_rmem[2]`.
    pub rmem_max_bytes: Bytes,
    /// Largest send buffer, `tcp_wmem[2]`.
    pub wmem_max_bytes: Bytes,
    /// Memory that the send buffer's growth allows for each segment of the window: 4352 with kernels of distributions, 2304 with some for virtual machines.
    pub wmem_segment_bytes: Bytes,
    /// Whether the qdisc paces every flow (`fq`); otherwise only controllers that ask are paced (`pfifo_fast`).
    pub fq: bool,
    /// Most segments that arrive at the same instant and that the receiver's TCP sees as one (GRO; 1: none).
    pub gro_segments: u32,
    /// The most of explicit congestion notification that it takes part in.
    pub ecn: EcnMode,
}

impl Default for HostSpec {
    fn default() -> Self {
        Self {
            rmem_max_bytes: Bytes(33_554_432),
            wmem_max_bytes: Bytes(4_194_304),
            wmem_segment_bytes: Bytes(4_352),
            fq: false,
            gro_segments: 45,
            ecn: EcnMode::Accurate,
        }
    }
}

/// What the sending application does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Application {
    /// Always has data.
    Bulk,
    /// Writes so many bytes at the start, then closes.
    Bytes(Bytes),
    /// Writes at a steady rate in equal pieces (an application-limited flow).
    Paced {
        /// Size of one write.
        write_bytes: Bytes,
        /// Time between writes [ns].
        every_ns: Nanos,
    },
}

/// One flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowSpec {
    /// Role of the Profile it runs on.
    pub profile: String,
    /// The way its data goes.
    pub direction: Direction,
    /// Controller, by its name in the registry.
    pub controller: String,
    /// Options of the controller.
    #[serde(default)]
    pub options: BTreeMap<String, f64>,
    /// When it opens [ns after the run's beginning].
    pub start_ns: Time,
    /// When it stops sending [ns]; `None`: at the end, or when its application is done.
    #[serde(default)]
    pub stop_ns: Option<Time>,
    /// What it sends.
    pub application: Application,
    /// Name of the sending host's settings; `None`: the defaults.
    #[serde(default)]
    pub sender: Option<String>,
    /// Name of the receiving host's settings.
    #[serde(default)]
    pub receiver: Option<String>,
    /// Explicit congestion notification that it asks for.
    #[serde(default, skip_serializing_if = "EcnMode::is_off")]
    pub ecn: EcnMode,
}

impl Experiment {
    /// From JSON, validated.
    ///
    /// # Errors
    /// What the parser says, or [`Experiment::check`].
    pub fn from_json(json: &str) -> Result<Self, ProfileError> {
        let experiment: Self = serde_json::from_str(json).map_err(|e| ProfileError::Experiment {
            field: "document".to_owned(),
            found: e.to_string(),
            wanted: "an Experiment as docs/reference/experiment.md describes".to_owned(),
        })?;
        experiment.check()?;
        Ok(experiment)
    }

    /// As JSON with a fixed order of keys.
    ///
    /// # Panics
    /// Never: the record holds nothing that JSON cannot.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("an Experiment is plain data")
    }

    /// A Profile with the queues that this Experiment gives it; `role` is what it calls it.
    ///
    /// # Errors
    /// A rule that no hop answers to, or whose parameters cannot be.
    pub fn path(&self, role: &str, profile: &Arc<Profile>) -> Result<Arc<Profile>, ProfileError> {
        if self.queues.is_empty() { Ok(profile.clone()) } else { profile.with_queues(role, &self.queues).map(Arc::new) }
    }

    /// Place of the Profile with this role; of one that [`Experiment::check`] would refuse, the first.
    #[must_use]
    pub fn path_of(&self, role: &str) -> usize {
        self.profiles.iter().position(|p| p.role == role).unwrap_or(0)
    }

    /// What one flow's host is set to.
    #[must_use]
    pub fn host(&self, name: Option<&String>) -> HostSpec {
        name.and_then(|n| self.hosts.get(n)).cloned().unwrap_or_default()
    }

    /// Durations above zero, names that resolve, flows inside the run.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub fn check(&self) -> Result<(), ProfileError> {
        let bad = |field: String, found: String, wanted: &str| Err(ProfileError::Experiment { field, found, wanted: wanted.to_owned() });
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
            if let Application::Paced { write_bytes, every_ns } = flow.application
                && (write_bytes == Bytes(0) || every_ns == Nanos(0))
            {
                return bad(field("application"), "a write of nothing or no time between writes".to_owned(), "both above zero");
            }
            for (what, host) in [("sender", &flow.sender), ("receiver", &flow.receiver)] {
                if let Some(name) = host.as_ref().filter(|n| !self.hosts.contains_key(*n)) {
                    return bad(field(what), name.clone(), "a name in hosts");
                }
            }
        }
        self.cross.iter().enumerate().try_for_each(|(i, cross)| cross.check(i, self))
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
            profiles: vec![ProfileRef { role: "path".to_owned(), name: "p".to_owned(), hash: String::new() }],
            hosts: BTreeMap::new(),
            flows: vec![FlowSpec {
                profile: "path".to_owned(),
                direction: Direction::Down,
                controller: "cubic".to_owned(),
                options: BTreeMap::new(),
                start_ns: Time::ZERO,
                stop_ns: None,
                application: Application::Bulk,
                sender: None,
                receiver: None,
                ecn: EcnMode::Off,
            }],
            queues: Vec::new(),
            cross: Vec::new(),
        }
    }

    #[test]
    fn an_experiment_survives_its_json() {
        let e = experiment();
        assert_eq!(Experiment::from_json(&e.to_json()).unwrap(), e);
    }

    #[test]
    fn what_cannot_run_is_refused_with_its_field() {
        let mut e = experiment();
        e.flows[0].profile = "elsewhere".to_owned();
        assert!(e.check().unwrap_err().to_string().starts_with("experiment: flows[0].profile: elsewhere"));
        let mut e = experiment();
        e.duration_ns = Nanos::ZERO;
        assert!(e.check().is_err());
        let mut e = experiment();
        e.flows[0].sender = Some("nobody".to_owned());
        assert!(e.check().is_err());
        assert!(Experiment::from_json("{\"name\": 3}").is_err());
    }
}
