//! The capacity that a sender's packets meet, by the time at which they are sent.

use crate::direction::Direction;
use crate::event::EventKind;
use crate::profile::Profile;
use crate::series::Cursor;
use crate::units::{Nanos, Rate, Time};

/// Rate of a path without a limit. Chosen here: far above any Profile's capacity, and products with it do not overflow.
const UNLIMITED: Rate = Rate(100_000_000_000);

impl Profile {
    /// Returns the capacity that a packet sent at a time will meet, as steps (from this time on, so much); zero: nothing passes. Times do not decrease.
    ///
    /// The capacity is the smallest of the hops in use when the packet reaches them, and zero without a route and while one of these hops is interrupted. A step
    /// of a hop comes earlier at the sender by the delay of the hops before it. Loss is no part of it.
    #[must_use]
    pub fn capacity_by_send_time(&self, direction: Direction) -> Vec<(Time, Rate)> {
        let end = Time::ZERO + self.duration();
        let ends = self.routes().iter().skip(1).map(|route| route.at_ns).chain([end]);
        let mut steps: Vec<(Time, Rate)> = Vec::new();
        for (route, until) in self.routes().iter().zip(ends) {
            let mut hops = route.hops.clone();
            if direction == Direction::Down {
                hops.reverse();
            }
            for at in self.changes(&hops, direction, route.at_ns, until) {
                let (rate, before) = self.capacity_at(&hops, direction, at);
                let sent = Time(at.0.saturating_sub(before.0)).max(steps.last().map_or(Time::ZERO, |last| last.0));
                steps.push((sent, rate));
            }
        }
        steps
    }

    /// Returns the times from `from` up to `until` at which the capacity of these hops may change, in order.
    fn changes(&self, hops: &[usize], direction: Direction, from: Time, until: Time) -> Vec<Time> {
        let mut times = vec![from];
        for &hop in hops {
            times.extend(self.hops()[hop].side(direction).capacity.iter().flat_map(|capacity| capacity.points().map(|(at, ..)| at)));
            times.extend(self.interruptions(hop).flat_map(|(begin, end)| [begin, end]));
        }
        times.retain(|&at| at >= from && at < until);
        times.sort_unstable();
        times.dedup();
        times
    }

    /// Returns the capacity at a time, and the delay from the sender to the hop that limits it. `hops` are in the order in which packets pass them.
    fn capacity_at(&self, hops: &[usize], direction: Direction, at: Time) -> (Rate, Nanos) {
        if hops.is_empty() {
            return (Rate(0), Nanos::ZERO);
        }
        let (mut least, mut before, mut passed) = (UNLIMITED, Nanos::ZERO, Nanos::ZERO);
        for &hop in hops {
            let side = self.hops()[hop].side(direction);
            let is_interrupted = self.interruptions(hop).any(|(begin, end)| begin <= at && at < end);
            let own = side.capacity.as_ref().map_or(UNLIMITED, |capacity| Rate(capacity.at(&mut Cursor::default(), at)));
            let own = if is_interrupted { Rate(0) } else { own };
            if own < least {
                (least, before) = (own, passed);
            }
            passed += Nanos(side.delay.at(&mut Cursor::default(), at));
        }
        (least, before)
    }

    /// Returns begin and end of each time in which a hop sends nothing. A handover interrupts the new hop, any other event its own.
    fn interruptions(&self, hop: usize) -> impl Iterator<Item = (Time, Time)> + '_ {
        let struck = move |event: &&crate::Event| match &event.kind {
            EventKind::Handover { to_hop, .. } => *to_hop == hop,
            EventKind::Outage | EventKind::Obstruction | EventKind::Rain => event.hop == hop,
        };
        let events = self.events().iter().filter(|event| event.interruption_ns > Nanos::ZERO).filter(struck);
        events.map(|event| (event.at_ns, event.at_ns + event.interruption_ns))
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{hop, provenance};
    use crate::*;

    const fn ms(n: u64) -> Time {
        Time(n * 1_000_000)
    }

    #[test]
    fn a_step_of_the_bottleneck_comes_earlier_at_the_sender_by_the_delay_before_it() {
        let (mut near, mut far) = (hop("near"), hop("far"));
        near.down.capacity = Some(Series::steps("c", &[(ms(0), 9_000_000), (ms(1000), 3_000_000)]).unwrap());
        near.down.delay = Series::constant(5_000_000);
        far.down.delay = Series::constant(20_000_000);
        far.down.capacity = None;
        let outage = Event {
            at_ns: ms(1500),
            interruption_ns: Nanos::from_millis(100),
            hop: 0,
            kind: EventKind::Outage,
            up: Fate::LOSSLESS,
            down: Fate::LOSSLESS,
        };
        let routes = vec![RouteEntry { at_ns: Time::ZERO, hops: vec![0, 1] }, RouteEntry { at_ns: ms(2000), hops: vec![] }];
        let span = Nanos::from_secs(3);
        let profile =
            Profile::new("p".to_owned(), Utc(0), span, Basis::OneWay, provenance(), vec![near, far], routes, vec![outage]).unwrap();
        let down = profile.capacity_by_send_time(Direction::Down);
        let expected = [(0, 9), (980, 3), (1480, 0), (1580, 3), (2000, 0)];
        assert_eq!(down, expected.map(|(at, mbps)| (ms(at), Rate(mbps * 1_000_000))));
    }
}
