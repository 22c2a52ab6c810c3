//! The Profile: hops, routes and events of a time-varying path between two hosts.

use crate::error::ProfileError;
use crate::event::Event;
use crate::hop::Hop;
use crate::units::{Nanos, Time, Utc};
use crate::validation;
use serde::{Deserialize, Serialize};

/// A route: the hops in use from a time on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteEntry {
    /// When the route comes into use [ns].
    pub at_ns: Time,
    /// Hops, as indices into [`Profile::hops`], terminal first. Empty: no path (an outage).
    pub hops: Vec<usize>,
}

/// Whether delays were known one way or are halves of an RTT.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// Each direction was known separately.
    OneWay,
    /// Half of a measured RTT in each direction.
    HalfRtt,
}

/// The origin of a Profile. It is stored so that the Profile can be made once more and no effect is counted twice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// `computed`, `measured` or `preset`.
    pub kind: String,
    /// One line for people: source and author.
    pub description: String,
    /// Version of bentpipe that made it.
    pub made_by: String,
    /// Seed of its random processes; `None`: nothing was drawn.
    pub seed: Option<u64>,
    /// Effects that the delay series already include (`mac_jitter`, `queueing`, …), so that they are not added twice.
    pub includes: Vec<String>,
    /// Everything needed to draw the processes with another seed (elements and epoch, altitude, elevation rule, phasing, serving schedule with its
    /// geometry, parameters), as the maker wrote it.
    pub recipe: serde_json::Value,
}

/// A time-varying path between two hosts. [`Profile::new`] validates it.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    name: String,
    start: Utc,
    duration: Nanos,
    basis: Basis,
    provenance: Provenance,
    hops: Vec<Hop>,
    routes: Vec<RouteEntry>,
    events: Vec<Event>,
}

impl Profile {
    /// Create a validated Profile.
    ///
    /// # Errors
    /// A zero duration; no hop or no route; the first route not at time zero; times that do not increase; points, closures or events outside the
    /// span; a probability above one; a hop index that does not exist or is twice in a route; two hops with one name.
    #[allow(clippy::too_many_arguments)] // a record's fields, each named at the call
    pub fn new(
        name: String,
        start: Utc,
        duration: Nanos,
        basis: Basis,
        provenance: Provenance,
        hops: Vec<Hop>,
        routes: Vec<RouteEntry>,
        events: Vec<Event>,
    ) -> Result<Self, ProfileError> {
        let profile = Self { name, start, duration, basis, provenance, hops, routes, events };
        profile.check()?;
        Ok(profile)
    }

    /// Return the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Return the wall-clock time of `Time::ZERO`.
    #[must_use]
    pub const fn start(&self) -> Utc {
        self.start
    }

    /// Return the duration.
    #[must_use]
    pub const fn duration(&self) -> Nanos {
        self.duration
    }

    /// Return whether the delays are one-way values or halves of RTTs.
    #[must_use]
    pub const fn basis(&self) -> Basis {
        self.basis
    }

    /// Return the provenance.
    #[must_use]
    pub const fn provenance(&self) -> &Provenance {
        &self.provenance
    }

    /// Return all hops, in no particular order. The routes say which are in use when.
    #[must_use]
    pub fn hops(&self) -> &[Hop] {
        &self.hops
    }

    /// Return the hops, mutable. The caller must keep the Profile valid.
    pub(crate) fn hops_mut(&mut self) -> &mut [Hop] {
        &mut self.hops
    }

    /// Return the routes in order of time. The first is in use from time zero.
    #[must_use]
    pub fn routes(&self) -> &[RouteEntry] {
        &self.routes
    }

    /// Return the events in order of time.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Return the route in use at `at`.
    #[must_use]
    pub fn route_at(&self, at: Time) -> &RouteEntry {
        let i = self.routes.partition_point(|r| r.at_ns <= at);
        &self.routes[i.saturating_sub(1)]
    }

    fn check(&self) -> Result<(), ProfileError> {
        if self.duration == Nanos::ZERO {
            return Err(ProfileError::NotPositive { duration: "the Profile's duration", value_s: 0.0 });
        }
        if self.hops.is_empty() {
            return Err(ProfileError::Empty { item: "hop" });
        }
        if self.routes.is_empty() {
            return Err(ProfileError::Empty { item: "route" });
        }
        validation::unique("the list of hops", self.hops.iter().map(|hop| hop.name.as_str()))?;
        self.hops.iter().try_for_each(|hop| validation::hop(hop, self.duration))?;
        validation::route_times(self.routes.iter().map(|route| route.at_ns), self.duration)?;
        for route in &self.routes {
            let label = validation::route_label(route.at_ns);
            route.hops.iter().try_for_each(|&hop| validation::hop_index(&label, hop, self.hops.len()))?;
            validation::unique(&label, route.hops.iter().map(|&hop| self.hops[hop].name.as_str()))?;
        }
        validation::events(&self.events, self.hops.len(), self.duration)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{EventKind, Fate};
    use crate::hop::LOSS_ONE;
    use crate::series::Series;
    use crate::testing::{hop, provenance};

    fn build(hops: Vec<Hop>, routes: Vec<RouteEntry>, events: Vec<Event>) -> Result<Profile, ProfileError> {
        Profile::new("p".to_owned(), Utc(0), Nanos::from_secs(60), Basis::OneWay, provenance(), hops, routes, events)
    }

    fn route(at_s: u64, hops: &[usize]) -> RouteEntry {
        RouteEntry { at_ns: Time(at_s * 1_000_000_000), hops: hops.to_vec() }
    }

    fn outage(at_s: u64, hop: usize) -> Event {
        Event {
            at_ns: Time(at_s * 1_000_000_000),
            interruption_ns: Nanos::from_millis(50),
            hop,
            kind: EventKind::Outage,
            up: Fate::LOSSLESS,
            down: Fate::LOSSLESS,
        }
    }

    #[test]
    fn a_route_contains_existing_hops_once_each() {
        assert!(build(vec![hop("a")], vec![route(0, &[0])], vec![]).is_ok());
        assert!(matches!(build(vec![hop("a")], vec![route(0, &[1])], vec![]), Err(ProfileError::NoSuchHop { .. })));
        assert!(matches!(build(vec![hop("a")], vec![route(0, &[0, 0])], vec![]), Err(ProfileError::Duplicate { .. })));
        assert!(matches!(build(vec![hop("a")], vec![route(1, &[0])], vec![]), Err(ProfileError::OutsideSpan { .. })));
        assert!(matches!(build(vec![hop("a"), hop("a")], vec![route(0, &[0])], vec![]), Err(ProfileError::Duplicate { .. })));
        assert!(matches!(
            build(vec![hop("a")], vec![route(0, &[0]), route(0, &[0])], vec![]),
            Err(ProfileError::TimesNotIncreasing { .. })
        ));
        assert!(matches!(build(vec![], vec![route(0, &[])], vec![]), Err(ProfileError::Empty { .. })));
    }

    #[test]
    fn events_are_in_order_within_the_duration() {
        let good = build(vec![hop("a")], vec![route(0, &[0])], vec![outage(5, 0), outage(5, 0), outage(60, 0)]);
        assert!(good.is_ok());
        let late = build(vec![hop("a")], vec![route(0, &[0])], vec![outage(61, 0)]).unwrap_err();
        assert_eq!(late.to_string(), "event 0: 61 s is outside the Profile; expected 0 to 60 s");
        assert!(build(vec![hop("a")], vec![route(0, &[0])], vec![outage(6, 0), outage(5, 0)]).is_err());
    }

    #[test]
    fn a_probability_above_one_is_refused() {
        let mut h = hop("a");
        h.up.loss = Some(Series::constant(LOSS_ONE + 1));
        let error = build(vec![h], vec![route(0, &[0])], vec![]).unwrap_err();
        assert!(error.to_string().starts_with("a/up/loss_probability: value 1.000000001 at 0 s"), "{error}");
    }
}
