//! Propagation: a one-way delay that changes with time.

use crate::cause::DropCause;
use crate::element::{Element, Port};
use crate::event::{PathEvent, drop_in_flight};
use crate::packet::Packet;
use crate::stages::Part;
use bentpipe_profile::series::Cursor;
use bentpipe_profile::{InFlightFate, Nanos, Series, Time};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};

/// Delays each packet by the value of the series at its entry. A falling delay never reorders within the link. Between links the handover's
/// [`PathEvent::NotBefore`] keeps order; without it packets of the shorter path arrive first.
#[repr(C)]
pub struct Delay {
    series: Series,
    due: Due,
    /// When the next packet is due; `Time::MAX`: none is. Stored here, since the packets are in another cache line.
    next_at: Time,
    /// In order of departure.
    in_flight: VecDeque<Packet>,
    /// Boxed, since few links have it.
    dropped: Option<Box<Dropped>>,
}

/// Packets that events have dropped, not yet popped.
#[derive(Default)]
struct Dropped {
    packets: VecDeque<Packet>,
}

/// Computes when the next packet leaves.
#[derive(Clone, Default)]
struct Due {
    cursor: Cursor,
    /// When the last packet leaves that no floor held. No later packet leaves before it.
    last: Time,
    /// Floors of single paths. Boxed, since few links have them.
    floors: Option<Box<PathFloors>>,
}

/// The floors of each path that has any.
#[derive(Clone, Default)]
struct PathFloors {
    paths: BTreeMap<u32, Floors>,
}

/// The floors of one path.
#[derive(Clone, Default)]
struct Floors {
    /// Latest of the floors that apply to packets that enter now.
    floor: Time,
    /// When the path's last packet leaves. None of its later packets leaves before it.
    last: Time,
    /// Floors for packets on a route from some number on, in order: (route, floor).
    pending: VecDeque<(u16, Time)>,
}

impl Due {
    fn next(&mut self, series: &Series, packet: &Packet) -> Time {
        self.last = self.last.max(packet.at + Nanos(series.at(&mut self.cursor, packet.at)));
        if self.floors.is_none() { self.last } else { self.above_floor(packet) }
    }

    /// Return when a packet leaves that would leave at `self.last` without floors.
    fn above_floor(&mut self, packet: &Packet) -> Time {
        let Some(all) = &mut self.floors else { return self.last };
        let Entry::Occupied(mut entry) = all.paths.entry(packet.path) else { return self.last };
        let floors = entry.get_mut();
        while let Some(&(_, floor)) = floors.pending.front().filter(|(route, _)| *route <= packet.route) {
            floors.pending.pop_front();
            floors.floor = floors.floor.max(floor);
        }
        let due = self.last.max(floors.floor).max(floors.last);
        floors.last = due;
        if floors.pending.is_empty() && floors.floor <= packet.at && due == self.last {
            entry.remove(); // every later packet leaves after the floor
            self.floors.take_if(|floors| floors.paths.is_empty());
        }
        due
    }

    /// Forget dropped packets: later ones wait only for those that are still in flight.
    fn recompute(&mut self, in_flight: &VecDeque<Packet>) {
        self.last = Time::ZERO;
        self.floors.iter_mut().flat_map(|floors| floors.paths.values_mut()).for_each(|floors| floors.last = Time::ZERO);
        for packet in in_flight {
            let floors = self.floors.as_mut().and_then(|floors| floors.paths.get_mut(&packet.path));
            let last = floors.map_or(&mut self.last, |floors| &mut floors.last);
            *last = packet.at;
        }
    }
}

impl Delay {
    /// Create an element with a series of one-way delays [ns].
    #[must_use]
    pub fn new(series: Series) -> Self {
        Self { series, due: Due::default(), next_at: Time::MAX, in_flight: VecDeque::new(), dropped: None }
    }

    /// Return when the next packet is due; [`Time::MAX`]: none is.
    #[inline]
    #[must_use]
    pub const fn next_at(&self) -> Time {
        self.next_at
    }

    /// Return the next packet if it leaves on the far side before `before`.
    #[inline]
    #[must_use]
    pub fn next_before(&self, before: Time) -> Option<&Packet> {
        if self.next_at >= before || self.dropped.as_ref().is_some_and(|dropped| !dropped.packets.is_empty()) {
            return None;
        }
        self.in_flight.front()
    }

    /// Return a packet that enters now with the time at which it leaves.
    #[inline]
    #[must_use]
    pub fn delayed(&mut self, packet: Packet) -> Packet {
        Packet { at: self.due.next(&self.series, &packet), ..packet }
    }

    /// Keep a packet until it leaves at `packet.at`.
    pub fn keep(&mut self, packet: Packet) {
        if self.in_flight.back().is_some_and(|last| last.at > packet.at) {
            // The last packet waits for its path's floor. Other paths do not wait for it.
            let place = self.in_flight.partition_point(|other| other.at <= packet.at);
            self.in_flight.insert(place, packet);
        } else {
            self.in_flight.push_back(packet);
        }
        self.next_at = self.next_at.min(packet.at);
    }

    fn update_next_at(&mut self) {
        let first = self.dropped.as_ref().and_then(|dropped| dropped.packets.front()).or(self.in_flight.front());
        self.next_at = first.map_or(Time::MAX, |packet| packet.at);
    }
}

impl Element for Delay {
    fn push(&mut self, _port: Port, packet: Packet) {
        let packet = self.delayed(packet);
        self.keep(packet);
    }

    fn pop(&mut self, now: Time) -> Option<(Port, Packet)> {
        if self.next_at > now {
            return None;
        }
        let dropped =
            self.dropped.as_mut().and_then(|dropped| dropped.packets.pop_front()).map(|packet| (Port::Drop(DropCause::Event), packet));
        let popped = dropped.or_else(|| self.in_flight.pop_front().map(|packet| (Port::Far, packet)));
        self.update_next_at();
        popped
    }

    fn stages(&self, left: Time) -> [Option<(Part, Time)>; 2] {
        [Some((Part::Propagation, left)), None]
    }

    #[inline]
    fn wake_at(&self) -> Option<Time> {
        Some(self.next_at).filter(|at| *at != Time::MAX)
    }

    fn departures(&self, arrivals: Vec<Packet>) -> Vec<Packet> {
        let mut due = self.due.clone();
        let arrivals = arrivals.into_iter().map(|packet| Packet { at: due.next(&self.series, &packet), ..packet });
        self.in_flight.iter().copied().chain(arrivals).collect()
    }

    fn on_event(&mut self, event: &PathEvent) {
        match event {
            PathEvent::Leave { at, fate, scope } | PathEvent::Close { at, fate, scope, .. } => {
                if fate.in_flight == InFlightFate::Drop {
                    drop_in_flight(&mut self.in_flight, *at, scope, &mut self.dropped.get_or_insert_default().packets);
                    self.due.recompute(&self.in_flight);
                    self.update_next_at();
                }
            }
            PathEvent::NotBefore { path, route, floor } => {
                self.due.floors.get_or_insert_default().paths.entry(*path).or_default().pending.push_back((*route, *floor));
            }
            PathEvent::Join { .. } | PathEvent::Await { .. } => {}
        }
    }

    fn packets(&self) -> usize {
        self.in_flight.len() + self.dropped.as_ref().map_or(0, |dropped| dropped.packets.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Scope;
    use bentpipe_profile::{Direction, Fate, OrderFate, QueueFate};

    fn delivered(delay: &mut Delay, now: Time) -> Vec<(u32, u64)> {
        let mut out = Vec::new();
        while let Some((port, packet)) = delay.pop(now) {
            if port == Port::Far {
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
                delay.on_event(&PathEvent::NotBefore { path: 0, route: 0, floor: Time(floor) });
            }
            let send = |delay: &mut Delay, at, body| delay.push(Port::Near, Packet::new(Time(at), 0, Direction::Up, 0, 100, body));
            send(&mut delay, 0, 0);
            let fate = Fate { queue: QueueFate::Drop, in_flight: InFlightFate::Drop, order: OrderFate::Clamp };
            delay.on_event(&PathEvent::Close { at: Time(5), until: Time(5), fate, scope: Scope::All });
            send(&mut delay, 10, 1);
            assert_eq!(delivered(&mut delay, Time(1000)), [(1, expected)]);
        }
    }
}
