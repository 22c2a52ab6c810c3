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
    cursor: Cursor,
    /// No packet that enters now leaves before the packets that are inside, or before `floor`.
    last_due: Time,
    /// The latest of the floors that apply to what enters now.
    floor: Time,
    /// Floors for what enters the hop from a time on, in order: (entering, floor).
    floors: VecDeque<(Time, Time)>,
    flying: VecDeque<Packet>,
    lost: VecDeque<Packet>,
    drops: DropCounts,
}

impl Delay {
    /// By a series of one-way delays [ns].
    #[must_use]
    pub fn new(series: Series) -> Self {
        Self {
            series,
            cursor: Cursor::default(),
            last_due: Time::ZERO,
            floor: Time::ZERO,
            floors: VecDeque::new(),
            flying: VecDeque::new(),
            lost: VecDeque::new(),
            drops: DropCounts::default(),
        }
    }
}

impl Element for Delay {
    fn push(&mut self, _port: Port, mut packet: Packet) {
        while let Some(&(_, floor)) = self.floors.front().filter(|(entering, _)| *entering <= packet.hop_entered) {
            self.floors.pop_front();
            self.floor = self.floor.max(floor);
        }
        let due = packet.at + Nanos(self.series.at(&mut self.cursor, packet.at));
        self.last_due = self.last_due.max(self.floor).max(due);
        packet.at = self.last_due;
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

    fn drained_at(&self, last_in: Option<Time>) -> Option<Time> {
        let flying = self.flying.back().map(|packet| packet.at);
        let floor = self.floors.iter().map(|(_, floor)| *floor).fold(self.last_due.max(self.floor), Time::max);
        last_in.map(|at| (at + Nanos(self.series.at(&mut self.cursor.clone(), at))).max(floor)).max(flying)
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
                    self.last_due = self.flying.back().map_or(Time::ZERO, |packet| packet.at);
                }
            }
            PathEvent::NotBefore { entering, floor } => self.floors.push_back((*entering, *floor)),
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
                delay.on_event(&PathEvent::NotBefore { entering: Time(0), floor: Time(floor) });
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
