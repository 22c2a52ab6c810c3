//! Queue parameters: the size, and the discipline, which decides drops, marks and the order of departure.

use crate::path::{Direction, Profile};
use crate::units::{Bytes, Nanos};
use crate::{Hop, ProfileError};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Probabilities are integers in units of 1e-9.
pub const PROBABILITY_ONE: u64 = 1_000_000_000;

/// Size of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueueLimit {
    /// Bytes of packets.
    Bytes(Bytes),
    /// Number of packets.
    Packets(u64),
    /// Time: the bytes that the link sends in it at the current capacity [ns].
    TimeNs(Nanos),
}

impl QueueLimit {
    const fn is_zero(self) -> bool {
        matches!(self, Self::Bytes(Bytes(0)) | Self::Packets(0) | Self::TimeNs(Nanos(0)))
    }
}

/// Queue discipline: which packets a queue drops or marks, and in which order packets leave. A discipline that marks does so to packets of transports that
/// support ECN (RFC 3168), and drops the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueueDiscipline {
    /// First in, first out; an arrival that does not fit is dropped.
    DropTail,
    /// `CoDel`: by waiting time, at a rising rate (RFC 8289).
    Codel(Codel),
    /// FQ-CoDel: a `CoDel` queue for each flow, served in turn (RFC 8290).
    FqCodel(FqCodel),
    /// RED: with a probability that rises with the average queue length (Floyd and Jacobson 1993; Linux `red`).
    Red(Red),
    /// Step: every packet beyond a threshold (DCTCP, RFC 8257 §3.1; Linux `ce_threshold`).
    Step(Step),
}

/// Parameters of `CoDel`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Codel {
    /// Acceptable standing waiting time [ns].
    pub target_ns: Nanos,
    /// How long the waiting time must stay above the target before the first drop [ns]: a worst-case RTT.
    pub interval_ns: Nanos,
    /// Whether packets that support ECN are marked instead of dropped.
    pub ecn: bool,
}

/// Parameters of FQ-CoDel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FqCodel {
    /// `CoDel` parameters of each flow's queue.
    pub codel: Codel,
    /// Number of queues that flows are hashed to.
    pub flows: u32,
    /// Bytes that a queue sends in one turn.
    pub quantum_bytes: u32,
}

/// Parameters of RED.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Red {
    /// Average queue length below which no packet is marked or dropped.
    pub min: QueueLimit,
    /// Average queue length from which on every packet is marked or dropped.
    pub max: QueueLimit,
    /// Probability just below `max` [1e-9].
    pub max_probability_ppb: u64,
    /// Binary logarithm of the averaging weight: each arrival moves the average by 2^-`weight_log` of the difference.
    pub weight_log: u32,
    /// Whether packets that support ECN are marked instead of dropped.
    pub ecn: bool,
}

/// Parameters of step marking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Backlog when a packet arrives [packets or bytes], or its waiting time when it leaves the queue [ns].
    pub threshold: QueueLimit,
}

impl QueueDiscipline {
    /// Return the name: `drop_tail`, `codel`, `fq_codel`, `red`, `step`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::DropTail => "drop_tail",
            Self::Codel(_) => "codel",
            Self::FqCodel(_) => "fq_codel",
            Self::Red(_) => "red",
            Self::Step(_) => "step",
        }
    }

    /// Return the first invalid parameter: name, value, accepted values.
    #[must_use]
    pub fn first_invalid(&self) -> Option<(&'static str, f64, &'static str)> {
        match self {
            Self::DropTail => None,
            Self::Codel(codel) => codel.first_invalid(),
            Self::FqCodel(fq) => fq.codel.first_invalid().or_else(|| {
                if !(1..=65_536).contains(&fq.flows) {
                    Some(("flows", f64::from(fq.flows), "1 to 65536 queues"))
                } else if !(64..=1 << 24).contains(&fq.quantum_bytes) {
                    Some(("quantum_bytes", f64::from(fq.quantum_bytes), "64 to 16777216 bytes"))
                } else {
                    None
                }
            }),
            Self::Red(red) => red.first_invalid(),
            Self::Step(step) => step.threshold.is_zero().then_some(("threshold", 0.0, "a threshold above zero")),
        }
    }
}

impl Codel {
    fn first_invalid(&self) -> Option<(&'static str, f64, &'static str)> {
        if self.target_ns == Nanos::ZERO {
            Some(("target_ns", 0.0, "a wait above zero"))
        } else if self.interval_ns < self.target_ns || self.interval_ns > Nanos::from_secs(1000) {
            Some(("interval_ns", self.interval_ns.0 as f64, "at least the target, at most 1000 s"))
        } else {
            None
        }
    }
}

impl Red {
    fn first_invalid(&self) -> Option<(&'static str, f64, &'static str)> {
        let in_order = match (self.min, self.max) {
            (QueueLimit::Bytes(min), QueueLimit::Bytes(max)) => min < max,
            (QueueLimit::TimeNs(min), QueueLimit::TimeNs(max)) => min < max,
            _ => false, // the average is of bytes
        };
        if !in_order {
            Some(("max", 0.0, "above min, both in bytes or both in time"))
        } else if self.max_probability_ppb == 0 || self.max_probability_ppb > PROBABILITY_ONE {
            Some(("max_probability_ppb", self.max_probability_ppb as f64, "1 to 1e9"))
        } else if self.weight_log > 24 {
            Some(("weight_log", f64::from(self.weight_log), "0 to 24"))
        } else {
            None
        }
    }
}

/// A queue in front of a hop's capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueSpec {
    /// Discipline: drops, marks and order.
    pub discipline: QueueDiscipline,
    /// Size; the packet in transmission is not counted.
    pub limit: QueueLimit,
}

impl QueueSpec {
    /// Return the first invalid parameter: name, value, accepted values.
    #[must_use]
    pub fn first_invalid(&self) -> Option<(&'static str, f64, &'static str)> {
        self.limit.is_zero().then_some(("limit", 0.0, "room for at least one packet")).or_else(|| self.discipline.first_invalid())
    }
}

/// A rule by which an Experiment replaces queues of a Profile. If several rules match one queue, the last one applies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueRule {
    /// Role of the Profile; `None`: every Profile.
    #[serde(default)]
    pub profile: Option<String>,
    /// Name of the hop, with `*` as wildcard; `None`: every hop that has a capacity.
    #[serde(default)]
    pub hop: Option<String>,
    /// Direction; `None`: both.
    #[serde(default)]
    pub direction: Option<Direction>,
    /// New discipline.
    pub discipline: QueueDiscipline,
    /// New size; `None`: the Profile's.
    #[serde(default)]
    pub limit: Option<QueueLimit>,
}

impl QueueRule {
    /// Return whether the rule matches the hop's name.
    fn matches_hop(&self, hop: &Hop) -> bool {
        self.hop.as_ref().is_none_or(|pattern| matches(pattern, &hop.name))
    }
}

/// Return whether `name` matches `pattern`, in which `*` is a wildcard.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((head, rest)) => name
            .strip_prefix(head)
            .is_some_and(|tail| tail.char_indices().map(|(i, _)| i).chain([tail.len()]).any(|i| matches(rest, &tail[i..]))),
    }
}

impl Profile {
    /// Return the same path with the queues replaced by `rules`. `role`: role of this Profile in the Experiment.
    ///
    /// # Errors
    /// A rule for this Profile that matches no hop with a capacity, or with invalid parameters.
    pub fn with_queues(&self, role: &str, rules: &[QueueRule]) -> Result<Self, ProfileError> {
        let mut hops = self.hops().to_vec();
        for (i, rule) in rules.iter().enumerate().filter(|(_, rule)| rule.profile.as_ref().is_none_or(|profile| profile == role)) {
            let mut matched = false;
            for hop in hops.iter_mut().filter(|hop| rule.matches_hop(hop)) {
                for direction in Direction::BOTH.into_iter().filter(|d| rule.direction.is_none_or(|direction| direction == *d)) {
                    let side = hop.side_mut(direction);
                    if side.capacity.is_some() {
                        side.queue = QueueSpec { discipline: rule.discipline, limit: rule.limit.unwrap_or(side.queue.limit) };
                        matched = true;
                    }
                }
            }
            if !matched {
                return Err(ProfileError::Experiment {
                    field: format!("queues[{i}]"),
                    value: format!("no hop of {} with a capacity is called {:?}", self.name(), rule.hop.as_deref().unwrap_or("*")),
                    expected: format!("one of {}", limited_hops(self.hops())),
                });
            }
        }
        Self::new(
            self.name().to_owned(),
            self.start(),
            self.duration(),
            self.basis(),
            self.provenance().clone(),
            hops,
            self.routes().to_vec(),
            self.events().to_vec(),
        )
    }
}

/// Return `path` with the queues of `other` at hops of the same name.
#[must_use]
pub fn with_queues_of(mut path: Profile, other: &Profile) -> Profile {
    let queues: BTreeMap<&str, [QueueSpec; 2]> = other.hops().iter().map(|h| (h.name.as_str(), [h.up.queue, h.down.queue])).collect();
    for hop in path.hops_mut() {
        if let Some(&[up, down]) = queues.get(hop.name.as_str()) {
            (hop.up.queue, hop.down.queue) = (up, down);
        }
    }
    path
}

/// List the names of the hops that have a capacity, at most five.
fn limited_hops(hops: &[Hop]) -> String {
    let names: Vec<&str> = hops.iter().filter(|h| h.up.capacity.is_some() || h.down.capacity.is_some()).map(|h| h.name.as_str()).collect();
    match names.len() {
        0 => "none: no hop of the Profile has a capacity".to_owned(),
        1..=5 => names.join(", "),
        n => format!("{}, … ({n} of them)", names[..5].join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::tests::{hop, provenance};
    use crate::{Basis, RouteEntry, Time, Utc};

    pub const CODEL: Codel = Codel { target_ns: Nanos::from_millis(5), interval_ns: Nanos::from_millis(100), ecn: true };

    fn profile() -> Profile {
        let mut wire = hop("fibre:gateway-pop");
        (wire.up.capacity, wire.down.capacity) = (None, None);
        let routes = vec![RouteEntry { at_ns: Time::ZERO, hops: vec![0, 1, 2] }];
        let hops = vec![hop("sat:1"), hop("sat:2"), wire];
        Profile::new("p".to_owned(), Utc(0), Nanos::from_secs(1), Basis::OneWay, provenance(), hops, routes, vec![]).unwrap()
    }

    fn rule(hop: Option<&str>, direction: Option<Direction>, discipline: QueueDiscipline) -> QueueRule {
        QueueRule { profile: None, hop: hop.map(str::to_owned), direction, discipline, limit: None }
    }

    #[test]
    fn a_rule_changes_only_the_queues_it_matches() {
        let codel = QueueDiscipline::Codel(CODEL);
        let all = profile().with_queues("path", &[rule(None, None, codel)]).unwrap();
        assert!(all.hops()[..2].iter().all(|h| h.up.queue.discipline == codel && h.down.queue.discipline == codel));
        assert_eq!(all.hops()[2].up.queue.discipline, QueueDiscipline::DropTail, "a hop without a capacity keeps its queue");
        assert_eq!(all.hops()[0].up.queue.limit, QueueLimit::Packets(10));
        let one = profile().with_queues("path", &[rule(Some("sat:*2"), Some(Direction::Up), codel)]).unwrap();
        let changed: Vec<_> = one.hops().iter().map(|h| [h.up.queue.discipline == codel, h.down.queue.discipline == codel]).collect();
        assert_eq!(changed, [[false, false], [true, false], [false, false]]);
        let elsewhere = QueueRule { profile: Some("other".to_owned()), ..rule(None, None, codel) };
        assert_eq!(profile().with_queues("path", &[elsewhere]).unwrap(), profile());
    }

    #[test]
    fn a_rule_without_a_match_is_refused_with_the_names_of_hops() {
        let error = profile().with_queues("path", &[rule(Some("fibre:*"), None, QueueDiscipline::DropTail)]).unwrap_err();
        assert!(error.to_string().ends_with("a capacity is called \"fibre:*\"; expected one of sat:1, sat:2"), "{error}");
    }

    #[test]
    fn invalid_parameters_are_refused() {
        let red =
            Red { min: QueueLimit::TimeNs(Nanos(5)), max: QueueLimit::Bytes(Bytes(9)), max_probability_ppb: 1, weight_log: 9, ecn: true };
        for wrong in [
            QueueDiscipline::Codel(Codel { target_ns: Nanos::ZERO, ..CODEL }),
            QueueDiscipline::Codel(Codel { interval_ns: Nanos(1), ..CODEL }),
            QueueDiscipline::FqCodel(FqCodel { codel: CODEL, flows: 0, quantum_bytes: 1514 }),
            QueueDiscipline::FqCodel(FqCodel { codel: CODEL, flows: 1024, quantum_bytes: 0 }),
            QueueDiscipline::Red(red),
            QueueDiscipline::Step(Step { threshold: QueueLimit::Packets(0) }),
        ] {
            assert!(profile().with_queues("path", &[rule(None, None, wrong)]).is_err(), "{wrong:?}");
        }
    }
}
