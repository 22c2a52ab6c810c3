//! The delay of one small packet on an empty path: comparable with a ping, and between two Profiles.

use crate::direction::Direction;
use crate::error::ProfileError;
use crate::profile::Profile;
use crate::series::Cursor;
use crate::units::{Nanos, Time};

impl Profile {
    /// Return the one-way delay of a packet that enters at each of `times_s` and finds empty queues [ms].
    ///
    /// The delay is the propagation and the grant schedule of every hop of the route in use when the packet enters. NaN: there is no path. Transmission time
    /// is left out: a ping's is under 0.01 ms above 100 Mbit/s.
    ///
    /// # Errors
    /// A time that is NaN, negative or beyond the span.
    pub fn lone_packet_delays_ms(&self, direction: Direction, times_s: &[f64]) -> Result<Vec<f64>, ProfileError> {
        let mut cursors = self.lone_cursors();
        times_s
            .iter()
            .map(|&t| {
                let enters = Time::from_secs_f64(t).filter(|at| at.0 <= self.duration().0).ok_or_else(|| ProfileError::OutsideSpan {
                    item: "the packet".to_owned(),
                    at_s: t,
                    span_s: self.duration().as_secs_f64(),
                })?;
                Ok(self.lone_packet_leaves(direction, enters, &mut cursors).map_or(f64::NAN, |at| at.since(enters).as_millis_f64()))
            })
            .collect()
    }

    /// Return the RTTs of pings that the terminal sends every `interval` from the Profile's start and that find empty queues, by their send times. A ping
    /// without a path there or back has none; none is lost otherwise. An interval of zero has no pings.
    #[must_use]
    pub fn ping_rtts(&self, interval: Nanos) -> Vec<(Time, Nanos)> {
        let (mut up, mut down) = (self.lone_cursors(), self.lone_cursors());
        let count = self.duration().0.checked_div(interval.0).unwrap_or(0);
        (0..count)
            .filter_map(|number| {
                let sent = Time(number * interval.0);
                let echoed = self.lone_packet_leaves(Direction::Up, sent, &mut up)?;
                let back = self.lone_packet_leaves(Direction::Down, echoed, &mut down)?;
                Some((sent, back.since(sent)))
            })
            .collect()
    }

    fn lone_cursors(&self) -> Vec<(Cursor, Cursor)> {
        vec![(Cursor::default(), Cursor::default()); self.hops().len()]
    }

    /// Return when a packet that enters at a time and finds empty queues leaves the last hop; `None`: there is no path.
    fn lone_packet_leaves(&self, direction: Direction, enters: Time, cursors: &mut [(Cursor, Cursor)]) -> Option<Time> {
        let hops = &self.route_at(enters).hops;
        let mut at = enters;
        let mut pass = |&hop: &usize| {
            let side = self.hops()[hop].side(direction);
            let (jitter, delay) = &mut cursors[hop];
            at = side.jitter.as_ref().map_or(at, |j| j.release(jitter, at));
            at = at + Nanos(side.delay.at(delay, at));
        };
        match direction {
            Direction::Up => hops.iter().for_each(&mut pass),
            Direction::Down => hops.iter().rev().for_each(&mut pass),
        }
        (!hops.is_empty()).then_some(at)
    }
}

#[cfg(test)]
mod tests {
    use crate::series::JitterSeries;
    use crate::testing::{hop, provenance};
    use crate::*;

    #[test]
    fn a_lone_packet_adds_up_hops_and_waits_for_its_grant() {
        let mut near = hop("near");
        near.up.jitter = Some(JitterSeries::new("j", &[(Time(1_000_000_000), Nanos::from_millis(4))]).unwrap());
        let routes = vec![RouteEntry { at_ns: Time::ZERO, hops: vec![0, 1] }, RouteEntry { at_ns: Time(2_000_000_000), hops: vec![] }];
        let p =
            Profile::new("p".to_owned(), Utc(0), Nanos::from_secs(3), Basis::OneWay, provenance(), vec![near, hop("far")], routes, vec![])
                .unwrap();
        let up = p.lone_packet_delays_ms(Direction::Up, &[0.5, 1.001, 2.5]).unwrap();
        assert_eq!(up[..2], [20.0, 23.0]);
        assert!(up[2].is_nan());
        assert_eq!(p.lone_packet_delays_ms(Direction::Down, &[1.001]).unwrap(), [20.0]);
        assert!(p.lone_packet_delays_ms(Direction::Up, &[f64::NAN]).is_err());
        // A ping there and back: at 1 s it waits for its grant, at 2 s there is no path.
        let ms = Nanos::from_millis;
        let at = |n: u64| Time::ZERO + ms(n);
        assert_eq!(p.ping_rtts(ms(500)), [(at(0), ms(40)), (at(500), ms(40)), (at(1000), ms(44)), (at(1500), ms(40))]);
        assert!(p.ping_rtts(Nanos::ZERO).is_empty());
    }
}
