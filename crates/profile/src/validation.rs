//! Checks of hops, routes and events.

use crate::direction::Direction;
use crate::error::ProfileError;
use crate::event::{Event, EventKind, QueueFate};
use crate::hop::{Hop, LOSS_ONE};
use crate::units::{Nanos, Rate, Time};
use std::collections::BTreeSet;

/// Check that no name occurs twice in `list`.
pub fn unique<'a>(list: &str, names: impl Iterator<Item = &'a str>) -> Result<(), ProfileError> {
    let mut seen = BTreeSet::new();
    for name in names {
        if !seen.insert(name) {
            return Err(ProfileError::Duplicate { list: list.to_owned(), name: name.to_owned() });
        }
    }
    Ok(())
}

/// Check that the series of a hop lie within `duration`, that its probabilities are at most one and that its queues have valid parameters.
pub fn hop(hop: &Hop, duration: Nanos) -> Result<(), ProfileError> {
    for direction in Direction::BOTH {
        let side = hop.side(direction);
        let series = |kind: &str| format!("{}/{}/{kind}", hop.name, direction.name());
        let mut last = vec![("delay_s", side.delay.points().last().map(|p| p.0))];
        last.extend(side.capacity.iter().map(|s| ("capacity_bps", s.points().last().map(|p| p.0))));
        if let Some(loss) = &side.loss {
            last.push(("loss_probability", loss.points().last().map(|p| p.0)));
            if let Some((at, value, _)) = loss.points().find(|p| p.1 > LOSS_ONE) {
                return Err(ProfileError::BadValue {
                    series: series("loss_probability"),
                    at_s: at.as_secs_f64(),
                    value: value as f64 / LOSS_ONE as f64,
                    expected: "a probability from 0 to 1",
                });
            }
        }
        last.extend(side.jitter.iter().map(|j| ("jitter_s", j.closures().last().map(|c| c.0))));
        for (kind, at) in last {
            if let Some(at) = at.filter(|at| at.0 > duration.0) {
                return Err(outside(series(kind), at, duration));
            }
        }
        if let Some((parameter, value, expected)) = side.queue.first_invalid() {
            return Err(ProfileError::BadValue { series: series(&format!("queue {parameter}")), at_s: 0.0, value, expected });
        }
    }
    Ok(())
}

/// Check that the first route is at zero, that the times of routes increase and that none is after `duration`.
pub fn route_times(times: impl Iterator<Item = Time>, duration: Nanos) -> Result<(), ProfileError> {
    let mut before: Option<Time> = None;
    for (row, at) in times.enumerate() {
        match before {
            None if at != Time::ZERO => return Err(outside("the first route (it must begin at 0 s)".to_owned(), at, duration)),
            Some(before) if at <= before => return Err(not_increasing("routes", row, at, before)),
            _ if at.0 > duration.0 => return Err(outside(route_label(at), at, duration)),
            _ => before = Some(at),
        }
    }
    Ok(())
}

/// Return the name of a route in messages.
pub fn route_label(at: Time) -> String {
    format!("the route at {} s", at.as_secs_f64())
}

/// Check that events are in order within `duration` and name only hops below `hops`.
pub fn events(events: &[Event], hops: usize, duration: Nanos) -> Result<(), ProfileError> {
    for (i, event) in events.iter().enumerate() {
        let label = format!("event {i}");
        if i > 0 && event.at_ns < events[i - 1].at_ns {
            return Err(not_increasing("events", i, event.at_ns, events[i - 1].at_ns));
        }
        if event.at_ns.0 > duration.0 {
            return Err(outside(label, event.at_ns, duration));
        }
        hop_index(&label, event.hop, hops)?;
        if let EventKind::Handover { to_hop, .. } = event.kind {
            hop_index(&label, to_hop, hops)?;
        }
        for direction in Direction::BOTH {
            if let QueueFate::Migrate(migration) = event.fate(direction).queue {
                hop_index(&label, migration.to_hop, hops)?;
                if migration.rate_bps == Rate(0) {
                    return Err(ProfileError::BadValue {
                        series: format!("{label}: migration rate"),
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

/// Check that a hop's index is below `hops`.
pub fn hop_index(item: &str, hop: usize, hops: usize) -> Result<(), ProfileError> {
    if hop < hops { Ok(()) } else { Err(ProfileError::NoSuchHop { item: item.to_owned(), hop, hops }) }
}

fn not_increasing(series: &str, row: usize, at: Time, before: Time) -> ProfileError {
    ProfileError::TimesNotIncreasing { series: series.to_owned(), row, at_s: at.as_secs_f64(), before_s: before.as_secs_f64() }
}

fn outside(item: String, at: Time, duration: Nanos) -> ProfileError {
    ProfileError::OutsideSpan { item, at_s: at.as_secs_f64(), span_s: duration.as_secs_f64() }
}
