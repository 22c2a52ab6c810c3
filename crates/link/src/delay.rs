//! Propagation: a one-way delay that changes with time.

use crate::element::{DropCause, DropCounts, Element, Exit, PathEvent, Port};
use crate::packet::Packet;
use crate::stages::Part;
use bentpipe_profile::series::Cursor;
use bentpipe_profile::{InFlightFate, Nanos, Series, Time};
use std::collections::VecDeque;

/// Delays each packet by the series' value when it enters. Within the hop a falling delay never reorders; between hops a handover decides
/// ([`PathEvent::NotBefore`], or packets of the shorter path arrive first).
pub struct Delay {
    series: Series,
    due: Due,
    flying: VecDeque<Packet>,
    lost: VecDeque<Packet>,
    drops: DropCounts,
}

/// What decides when the next packet leaves.
#[derive(Clone, Default)]
struct Due {
    cursor: Cursor,
    /// No packet that enters now leaves before the packets that are inside, or before `floor`.
    last: Time,
    /// The latest of the floors that apply to what enters now.
    floor: Time,
    /// Floors for what follows a route from some number on, in order: (route, floor).
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
    /// By a series of one-way delays [ns].
    #[must_use]
    pub fn new(series: Series) -> Self {
        Self { series, due: Due::default(), flying: VecDeque::new(), lost: VecDeque::new(), drops: DropCounts::default() }
    }
}

impl Element for Delay {
    fn push(&mut self, _port: Port, mut packet: Packet) {
        packet.at = self.due.next(&self.series, &packet);
        self.flying.push_back(packet);
    }

    fn pop(&mut self, now: Time) -> Option<(Exit, Packet)> {
        if let Some(packet) = self.lost.pop_front() {
            return Some((Exit::Dropped(DropCause::Event), packet));
        }
        if self.flying.front()?.at > now {
            return None;
        }
        self.flying.pop_front().map(|packet| (Exit::Out, packet))
    }

    fn stages(&self, left: Time) -> [Option<(Part, Time)>; 2] {
        [Some((Part::Propagation, left)), None]
    }

    fn wake_at(&self) -> Option<Time> {
        self.lost.front().or(self.flying.front()).map(|packet| packet.at)
    }

    fn departures(&self, arrivals: Vec<Packet>) -> Vec<Packet> {
        let mut due = self.due.clone();
        let arrivals = arrivals.into_iter().map(|packet| Packet { at: due.next(&self.series, &packet), ..packet });
        self.flying.iter().copied().chain(arrivals).collect()
    }

    fn on_event(&mut self, event: &PathEvent) {
        match event {
            PathEvent::Leave { at, fate } | PathEvent::Close { at, fate, .. } => {
                if fate.in_flight == InFlightFate::Drop {
                    let gone = self.flying.iter().position(|p| p.at > *at).unwrap_or(self.flying.len());
                    for mut packet in self.flying.drain(gone..) {
                        packet.at = *at;
                        self.drops.count(DropCause::Event);
                        self.lost.push_back(packet);
                    }
                    // Nothing waits for a dropped packet.
                    self.due.last = self.flying.back().map_or(Time::ZERO, |packet| packet.at);
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
        self.flying.len() + self.lost.len()
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

    /// The delay falls from 100 to 10 ns in an outage that drops what flies: the next packet takes 10 ns, or leaves at the floor that it has to keep.
    #[test]
    fn a_dropped_packet_holds_nothing_back() {
        for (floor, wanted) in [(0, 20), (60, 60)] {
            let mut delay = Delay::new(Series::steps("d", &[(Time(0), 100), (Time(5), 10)]).unwrap());
            if floor > 0 {
                delay.on_event(&PathEvent::NotBefore { route: 0, floor: Time(floor) });
            }
            let send = |delay: &mut Delay, at, body| delay.push(Port::In, Packet::new(Time(at), 0, Direction::Up, 0, 100, body));
            send(&mut delay, 0, 0);
            let fate = Fate { queue: QueueFate::Drop, in_flight: InFlightFate::Drop, order: OrderFate::Clamp };
            delay.on_event(&PathEvent::Close { at: Time(5), until: Time(5), fate });
            send(&mut delay, 10, 1);
            assert_eq!(delivered(&mut delay, Time(1000)), [(1, wanted)]);
        }
    }
}
