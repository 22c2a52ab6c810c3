//! The Profile: hops, queues, routes and events of a time-varying path.

use crate::error::ProfileError;
use crate::queue::QueueSpec;
use crate::series::{JitterSeries, Series};
use crate::units::{Nanos, Rate, Time, Utc};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Newest metadata format that this build writes and reads. A Profile whose queues are all drop-tail is written as format 1.
pub const FORMAT: u32 = 2;

/// Loss probabilities are integers in units of 1e-9.
pub const LOSS_ONE: u64 = 1_000_000_000;

/// Direction of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Terminal to Internet.
    Up,
    /// Internet to terminal.
    Down,
}

impl Direction {
    /// Both directions, in the order of their codes.
    pub const BOTH: [Self; 2] = [Self::Up, Self::Down];

    /// Return the other direction.
    #[must_use]
    pub const fn reverse(self) -> Self {
        match self {
            Self::Up => Self::Down,
            Self::Down => Self::Up,
        }
    }

    /// `up` or `down`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Down => "down",
        }
    }
}

/// One direction of a hop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HopDirection {
    /// One-way delay [ns], linear between points.
    pub delay: Series,
    /// Capacity [bit/s], stepped; `None`: unlimited.
    pub capacity: Option<Series>,
    /// Loss probability of a packet that passes at this moment [1e-9], stepped. Loss is a process in continuous time: an episode is an interval
    /// with a probability above zero, drawn when the Profile is made.
    pub loss: Option<Series>,
    /// Grant schedule.
    pub jitter: Option<JitterSeries>,
    /// The queue in front of the capacity.
    pub queue: QueueSpec,
}

/// A link of the path, with both directions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hop {
    /// Name: `sat:44713`, `fibre:gateway-pop`, …
    pub name: String,
    /// Hops of several Profiles with the same id share one queue and capacity.
    pub shared_id: Option<String>,
    /// Terminal to Internet.
    pub up: HopDirection,
    /// Internet to terminal.
    pub down: HopDirection,
}

impl Hop {
    /// Return one direction of the hop.
    #[must_use]
    pub const fn side(&self, direction: Direction) -> &HopDirection {
        match direction {
            Direction::Up => &self.up,
            Direction::Down => &self.down,
        }
    }

    /// Return one direction of the hop, mutable.
    pub const fn side_mut(&mut self, direction: Direction) -> &mut HopDirection {
        match direction {
            Direction::Up => &mut self.up,
            Direction::Down => &mut self.down,
        }
    }
}

/// A route: the hops in use from a time on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteEntry {
    /// When the route comes into use [ns].
    pub at_ns: Time,
    /// Hops, as indices into [`Profile::hops`], terminal first. Empty: no path (an outage).
    pub hops: Vec<usize>,
}

/// Fate of the packets that wait in a hop's queue at an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueueFate {
    /// They stay, and leave after the interruption (after a handover: through the old hop).
    Keep,
    /// They are dropped.
    Drop,
    /// They migrate to another hop's queue.
    Migrate(Migration),
}

/// How a queue migrates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Migration {
    /// The hop whose queue the packets join.
    pub to_hop: usize,
    /// Time from the event until the first packet arrives there [ns].
    pub delay_ns: Nanos,
    /// Rate at which the packets migrate [bit/s].
    pub rate_bps: Rate,
}

/// Fate of the packets in flight at an event: those between the queue and the far end of the hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InFlightFate {
    /// They arrive.
    Deliver,
    /// They are dropped.
    Drop,
}

/// Whether packets of the new path may overtake those of the old one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OrderFate {
    /// They may: a shorter new path reorders packets.
    Allow,
    /// They may not: packets of the new path wait for those of the old one.
    Clamp,
}

/// Effect of an event on the packets of one direction of a hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fate {
    /// Packets in the queue.
    pub queue: QueueFate,
    /// Packets in flight.
    pub in_flight: InFlightFate,
    /// Order between packets of the old and the new path.
    pub order: OrderFate,
}

impl Fate {
    /// No packet is dropped and none overtakes another.
    pub const LOSSLESS: Self = Self { queue: QueueFate::Keep, in_flight: InFlightFate::Deliver, order: OrderFate::Clamp };
}

/// Kind of an event of the path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// A handover to another satellite, gateway or both. To the same hop: a reconfiguration.
    Handover {
        /// Satellite left, if any (its name or number).
        from_satellite: Option<String>,
        /// Satellite taken, if any.
        to_satellite: Option<String>,
        /// Gateway left.
        from_gateway: Option<String>,
        /// Gateway taken.
        to_gateway: Option<String>,
        /// The hop in use from now on.
        to_hop: usize,
    },
    /// Outage: the hop carries no packets.
    Outage,
    /// Obstruction of the line of sight.
    Obstruction,
    /// Rain fade.
    Rain,
}

/// An event that strikes a hop at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// When it happens [ns].
    pub at_ns: Time,
    /// Interruption: how long the hop (for a handover: the hop taken) sends nothing [ns]. May be zero.
    pub interruption_ns: Nanos,
    /// The hop it strikes (for a handover: the hop left).
    pub hop: usize,
    /// Kind of the event.
    pub kind: EventKind,
    /// Fate of packets from terminal to Internet.
    pub up: Fate,
    /// Fate of packets from Internet to terminal.
    pub down: Fate,
}

impl Event {
    /// Return the fate of one direction.
    #[must_use]
    pub const fn fate(&self, direction: Direction) -> &Fate {
        match direction {
            Direction::Up => &self.up,
            Direction::Down => &self.down,
        }
    }
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
        profile.check_shape()?;
        profile.check_series()?;
        profile.check_routes()?;
        profile.check_events()?;
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

    /// Return the name of a series for messages: `hop/direction/kind`.
    #[must_use]
    pub fn series_name(&self, hop: usize, direction: Direction, kind: &str) -> String {
        format!("{}/{}/{kind}", self.hops[hop].name, direction.name())
    }

    fn check_shape(&self) -> Result<(), ProfileError> {
        if self.duration == Nanos::ZERO {
            return Err(ProfileError::NotPositive { duration: "the Profile's duration", value_s: 0.0 });
        }
        if self.hops.is_empty() {
            return Err(ProfileError::Empty { item: "hop" });
        }
        if self.routes.is_empty() {
            return Err(ProfileError::Empty { item: "route" });
        }
        let mut names = BTreeSet::new();
        for hop in &self.hops {
            if !names.insert(hop.name.as_str()) {
                return Err(ProfileError::Duplicate { list: "the list of hops".to_owned(), name: hop.name.clone() });
            }
        }
        Ok(())
    }

    fn check_series(&self) -> Result<(), ProfileError> {
        for (i, hop) in self.hops.iter().enumerate() {
            for direction in Direction::BOTH {
                let side = hop.side(direction);
                let mut last = vec![("delay_s", side.delay.points().last().map(|p| p.0))];
                last.extend(side.capacity.iter().map(|s| ("capacity_bps", s.points().last().map(|p| p.0))));
                if let Some(loss) = &side.loss {
                    last.push(("loss_probability", loss.points().last().map(|p| p.0)));
                    if let Some((at, value, _)) = loss.points().find(|p| p.1 > LOSS_ONE) {
                        return Err(ProfileError::BadValue {
                            series: self.series_name(i, direction, "loss_probability"),
                            at_s: at.as_secs_f64(),
                            value: value as f64 / LOSS_ONE as f64,
                            expected: "a probability from 0 to 1",
                        });
                    }
                }
                last.extend(side.jitter.iter().map(|j| ("jitter_s", j.closures().last().map(|c| c.0))));
                for (kind, at) in last {
                    if let Some(at) = at.filter(|at| at.0 > self.duration.0) {
                        return Err(self.outside(self.series_name(i, direction, kind), at));
                    }
                }
                if let Some((parameter, value, expected)) = side.queue.first_invalid() {
                    let series = self.series_name(i, direction, &format!("queue {parameter}"));
                    return Err(ProfileError::BadValue { series, at_s: 0.0, value, expected });
                }
            }
        }
        Ok(())
    }

    fn check_routes(&self) -> Result<(), ProfileError> {
        if self.routes[0].at_ns != Time::ZERO {
            return Err(self.outside("the first route (it must begin at 0 s)".to_owned(), self.routes[0].at_ns));
        }
        for (i, route) in self.routes.iter().enumerate() {
            let label = || format!("the route at {} s", route.at_ns.as_secs_f64());
            if i > 0 && route.at_ns <= self.routes[i - 1].at_ns {
                return Err(ProfileError::TimesNotIncreasing {
                    series: "routes".to_owned(),
                    row: i,
                    at_s: route.at_ns.as_secs_f64(),
                    before_s: self.routes[i - 1].at_ns.as_secs_f64(),
                });
            }
            if route.at_ns.0 > self.duration.0 {
                return Err(self.outside(label(), route.at_ns));
            }
            let mut seen = BTreeSet::new();
            for &hop in &route.hops {
                self.check_hop(label, hop)?;
                if !seen.insert(hop) {
                    return Err(ProfileError::Duplicate { list: label(), name: self.hops[hop].name.clone() });
                }
            }
        }
        Ok(())
    }

    fn check_events(&self) -> Result<(), ProfileError> {
        for (i, event) in self.events.iter().enumerate() {
            let label = || format!("event {i}");
            if i > 0 && event.at_ns < self.events[i - 1].at_ns {
                return Err(ProfileError::TimesNotIncreasing {
                    series: "events".to_owned(),
                    row: i,
                    at_s: event.at_ns.as_secs_f64(),
                    before_s: self.events[i - 1].at_ns.as_secs_f64(),
                });
            }
            if event.at_ns.0 > self.duration.0 {
                return Err(self.outside(label(), event.at_ns));
            }
            self.check_hop(label, event.hop)?;
            if let EventKind::Handover { to_hop, .. } = event.kind {
                self.check_hop(label, to_hop)?;
            }
            for direction in Direction::BOTH {
                if let QueueFate::Migrate(migration) = event.fate(direction).queue {
                    self.check_hop(label, migration.to_hop)?;
                    if migration.rate_bps == Rate(0) {
                        return Err(ProfileError::BadValue {
                            series: format!("{}: migration rate", label()),
                            at_s: event.at_ns.as_secs_f64(),
                            value: 0.0,
                            expected: "a rate above zero",
                        });
                    }
                }
            }
        }
        Ok(())
    }

    fn check_hop(&self, label: impl Fn() -> String, hop: usize) -> Result<(), ProfileError> {
        if hop < self.hops.len() { Ok(()) } else { Err(ProfileError::NoSuchHop { item: label(), hop, hops: self.hops.len() }) }
    }

    fn outside(&self, item: String, at: Time) -> ProfileError {
        ProfileError::OutsideSpan { item, at_s: at.as_secs_f64(), span_s: self.duration.as_secs_f64() }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::queue::{QueueDiscipline, QueueLimit};

    /// One direction of a hop with 10 ms of delay and 1 Mbit/s.
    pub(crate) fn side() -> HopDirection {
        HopDirection {
            delay: Series::constant(10_000_000),
            capacity: Some(Series::constant(1_000_000)),
            loss: None,
            jitter: None,
            queue: QueueSpec { discipline: QueueDiscipline::DropTail, limit: QueueLimit::Packets(10) },
        }
    }

    pub(crate) fn hop(name: &str) -> Hop {
        Hop { name: name.to_owned(), shared_id: None, up: side(), down: side() }
    }

    pub(crate) fn provenance() -> Provenance {
        Provenance {
            kind: "preset".to_owned(),
            description: "test".to_owned(),
            made_by: "bentpipe test".to_owned(),
            seed: None,
            includes: Vec::new(),
            recipe: serde_json::Value::Null,
        }
    }

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
