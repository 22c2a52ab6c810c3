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
    last_due: Time,
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
            self.last_due = self.last_due.max(floor);
        }
        let due = packet.at + Nanos(self.series.at(&mut self.cursor, packet.at));
        self.last_due = self.last_due.max(due);
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
        let floor = self.floors.iter().map(|(_, floor)| *floor).fold(self.last_due, Time::max);
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
