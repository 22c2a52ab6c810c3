//! The grant schedule: jitter as a function of time.

use crate::cause::DropCause;
use crate::element::{Element, Port};
use crate::event::{PathEvent, drop_in_flight};
use crate::packet::Packet;
use crate::stages::Part;
use bentpipe_profile::series::Cursor;
use bentpipe_profile::{InFlightFate, JitterSeries, Time};
use std::collections::VecDeque;

/// Delays each packet to the end of the closure that it falls into (see [`JitterSeries`]). Never reorders.
pub struct Jitter {
    schedule: JitterSeries,
    cursor: Cursor,
    held: VecDeque<Packet>,
    dropped: VecDeque<Packet>,
}

impl Jitter {
    /// Create an element that follows `schedule`.
    #[must_use]
    pub fn new(schedule: JitterSeries) -> Self {
        Self { schedule, cursor: Cursor::default(), held: VecDeque::new(), dropped: VecDeque::new() }
    }
}

impl Element for Jitter {
    fn push(&mut self, _port: Port, mut packet: Packet) {
        packet.at = self.schedule.release(&mut self.cursor, packet.at);
        self.held.push_back(packet);
    }

    fn pop(&mut self, now: Time) -> Option<(Port, Packet)> {
        if let Some(packet) = self.dropped.pop_front() {
            return Some((Port::Drop(DropCause::Event), packet));
        }
        if self.held.front()?.at > now {
            return None;
        }
        self.held.pop_front().map(|packet| (Port::Far, packet))
    }

    fn stages(&self, left: Time) -> [Option<(Part, Time)>; 2] {
        [Some((Part::Grant, left)), None]
    }

    fn wake_at(&self) -> Option<Time> {
        self.dropped.front().or(self.held.front()).map(|packet| packet.at)
    }

    fn departures(&self, arrivals: Vec<Packet>) -> Vec<Packet> {
        let mut cursor = self.cursor;
        let released = arrivals.into_iter().map(|packet| Packet { at: self.schedule.release(&mut cursor, packet.at), ..packet });
        self.held.iter().copied().chain(released).collect()
    }

    fn on_event(&mut self, event: &PathEvent) {
        if let PathEvent::Leave { at, fate, scope } | PathEvent::Close { at, fate, scope, .. } = event
            && fate.in_flight == InFlightFate::Drop
        {
            drop_in_flight(&mut self.held, *at, scope, &mut self.dropped);
        }
    }

    fn packets(&self) -> usize {
        self.held.len() + self.dropped.len()
    }
}
