//! Rules that replace the queues of a Profile.

use crate::direction::Direction;
use crate::error::ProfileError;
use crate::hop::Hop;
use crate::profile::Profile;
use crate::queue::{QueueDiscipline, QueueLimit, QueueSpec};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

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
    use crate::queue::{Codel, FqCodel, Red, Step};
    use crate::testing::{hop, provenance};
    use crate::{Basis, Bytes, Nanos, RouteEntry, Time, Utc};

    const CODEL: Codel = Codel { target_ns: Nanos::from_millis(5), interval_ns: Nanos::from_millis(100), ecn: true };

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
