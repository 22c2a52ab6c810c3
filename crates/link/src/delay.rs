//! Propagation: a one-way delay that changes with time.

use crate::cause::{DropCause, DropCounts};
use crate::element::{Element, Exit, Port};
use crate::event::PathEvent;
use crate::packet::Packet;
use crate::stages::Part;
use bentpipe_profile::series::Cursor;
use bentpipe_profile::{InFlightFate, Nanos, Series, Time};
use std::collections::VecDeque;

/// Delays each packet by the value of the series at its entry. A falling delay never reorders within the hop. Between hops the handover's
/// [`PathEvent::NotBefore`] keeps order; without it packets of the shorter path arrive first.
pub struct Delay {
    series: Series,
    due: Due,
    in_flight: VecDeque<Packet>,
    dropped: VecDeque<Packet>,
    drops: DropCounts,
}

/// Computes when the next packet leaves.
#[derive(Clone, Default)]
struct Due {
    cursor: Cursor,
    /// When the last packet inside leaves. No later packet leaves before it, or before `floor`.
    last: Time,
    /// Latest of the floors that apply to packets that enter now.
    floor: Time,
    /// Floors for packets on a route from some number on, in order: (route, floor).
    floors: VecDeque<(u16, Time)>,
}

impl Due {
    fn next(&mut self, series: &Series, packet: &Packet) -> Time {
        while let Some(&(_, floor)) = self.floors.front().filter(|(route, _)| *route <= packet.route) {
            self.floors.pop_front();
            self.floor = self.floor.max(floor);
        }
        let due = packet.at + Nanos(series.at(&mut self.cursor, packet.at));
        self.last = self.last.max(self.floor).max(due);
        self.last
    }
}

impl Delay {
    /// Create an element with a series of one-way delays [ns].
    #[must_use]
    pub fn new(series: Series) -> Self {
        Self { series, due: Due::default(), in_flight: VecDeque::new(), dropped: VecDeque::new(), drops: DropCounts::default() }
    }
}

impl Element for Delay {
    fn push(&mut self, _port: Port, mut packet: Packet) {
        packet.at = self.due.next(&self.series, &packet);
        self.in_flight.push_back(packet);
    }

    fn pop(&mut self, now: Time) -> Option<(Exit, Packet)> {
        if let Some(packet) = self.dropped.pop_front() {
            return Some((Exit::Dropped(DropCause::Event), packet));
        }
        if self.in_flight.front()?.at > now {
            return None;
        }
        self.in_flight.pop_front().map(|packet| (Exit::Out, packet))
    }

    fn stages(&self, left: Time) -> [Option<(Part, Time)>; 2] {
        [Some((Part::Propagation, left)), None]
    }

    fn wake_at(&self) -> Option<Time> {
        self.dropped.front().or(self.in_flight.front()).map(|packet| packet.at)
    }

    fn departures(&self, arrivals: Vec<Packet>) -> Vec<Packet> {
        let mut due = self.due.clone();
        let arrivals = arrivals.into_iter().map(|packet| Packet { at: due.next(&self.series, &packet), ..packet });
        self.in_flight.iter().copied().chain(arrivals).collect()
    }

    fn on_event(&mut self, event: &PathEvent) {
        match event {
            PathEvent::Leave { at, fate } | PathEvent::Close { at, fate, .. } => {
                if fate.in_flight == InFlightFate::Drop {
                    let first_dropped = self.in_flight.iter().position(|p| p.at > *at).unwrap_or(self.in_flight.len());
                    for mut packet in self.in_flight.drain(first_dropped..) {
                        packet.at = *at;
                        self.drops.count(DropCause::Event);
                        self.dropped.push_back(packet);
                    }
                    // Later packets do not wait for a dropped one.
                    self.due.last = self.in_flight.back().map_or(Time::ZERO, |packet| packet.at);
                }
            }
            PathEvent::NotBefore { route, floor } => self.due.floors.push_back((*route, *floor)),
            PathEvent::Join | PathEvent::Await { .. } => {}
        }
    }

    fn drops(&self) -> &DropCounts {
        &self.drops
    }

    fn packets(&self) -> usize {
        self.in_flight.len() + self.dropped.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bentpipe_profile::{Direction, Fate, OrderFate, QueueFate};

    fn delivered(delay: &mut Delay, now: Time) -> Vec<(u32, u64)> {
        let mut out = Vec::new();
        while let Some((exit, packet)) = delay.pop(now) {
            if exit == Exit::Out {
                out.push((packet.body, packet.at.0));
            }
        }
        out
    }

    /// The delay falls from 100 to 10 ns in an outage that drops packets in flight. The next packet takes 10 ns, or leaves at its floor.
    #[test]
    fn a_dropped_packet_does_not_delay_later_packets() {
        for (floor, expected) in [(0, 20), (60, 60)] {
            let mut delay = Delay::new(Series::steps("d", &[(Time(0), 100), (Time(5), 10)]).unwrap());
            if floor > 0 {
                delay.on_event(&PathEvent::NotBefore { route: 0, floor: Time(floor) });
            }
            let send = |delay: &mut Delay, at, body| delay.push(Port::In, Packet::new(Time(at), 0, Direction::Up, 0, 100, body));
            send(&mut delay, 0, 0);
            let fate = Fate { queue: QueueFate::Drop, in_flight: InFlightFate::Drop, order: OrderFate::Clamp };
            delay.on_event(&PathEvent::Close { at: Time(5), until: Time(5), fate });
            send(&mut delay, 10, 1);
            assert_eq!(delivered(&mut delay, Time(1000)), [(1, expected)]);
        }
    }
}
