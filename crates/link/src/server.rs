//! A queue in front of a capacity, with a gate that events close.

use crate::droptail::DropTail;
use crate::element::{DropCause, DropCounts, Element, Exit, PathEvent, Port};
use crate::gate::Gate;
use crate::packet::Packet;
use crate::rate::RateClock;
use bentpipe_profile::{Bytes, Fate, QueueFate, QueueSpec, Rate, Series, Time};
use std::collections::VecDeque;

/// Sends one packet after the other at the capacity of the moment; the others wait in the queue.
pub struct Server {
    clock: RateClock,
    queue: DropTail,
    gate: Gate,
    /// The packet in transmission and when that ends.
    in_service: Option<(Packet, Time)>,
    /// Left, lost or handed over, in order of time, not yet popped.
    done: VecDeque<(Exit, Packet)>,
    /// On their way to another hop's queue.
    migrating: VecDeque<Packet>,
    drops: DropCounts,
}

impl Server {
    /// With a stepped capacity [bit/s]; `None` holds packets only while the gate is closed.
    #[must_use]
    pub fn new(capacity: Option<Series>, queue: QueueSpec) -> Self {
        Self {
            clock: RateClock::new(capacity),
            queue: DropTail::new(queue.limit),
            gate: Gate::default(),
            in_service: None,
            done: VecDeque::new(),
            migrating: VecDeque::new(),
            drops: DropCounts::default(),
        }
    }

    /// Brings the state to `now`: what happens depends on logical times alone, not on when the driver asks.
    fn settle(&mut self, now: Time) {
        while let Some((mut packet, end)) = self.in_service.take_if(|(_, end)| *end <= now) {
            packet.at = end;
            self.done.push_back((Exit::Out, packet));
            if let Some(next) = self.queue.dequeue() {
                self.serve(next, end);
            }
        }
    }

    fn serve(&mut self, packet: Packet, ready: Time) {
        let end = self.clock.finish(self.gate.opens(ready), packet.bytes);
        self.in_service = Some((packet, end));
    }

    fn lose(&mut self, mut packet: Packet, at: Time, cause: DropCause) {
        packet.at = at;
        self.drops.count(cause);
        self.done.push_back((Exit::Dropped(cause), packet));
    }

    /// Takes everything that waits or is in transmission, first come first.
    fn drain(&mut self) -> impl Iterator<Item = Packet> + use<'_> {
        let first = self.in_service.take().map(|(packet, _)| packet);
        first.into_iter().chain(std::iter::from_fn(|| self.queue.dequeue()))
    }

    fn apply(&mut self, at: Time, fate: &Fate) {
        match fate.queue {
            QueueFate::Keep => {}
            QueueFate::Drop => {
                let lost: Vec<_> = self.drain().collect();
                for packet in lost {
                    self.lose(packet, at, DropCause::Event);
                }
            }
            QueueFate::Migrate(migration) => {
                let moved: Vec<_> = self.drain().collect();
                self.migrate(moved, at + migration.delay_ns, migration.rate_bps);
            }
        }
    }

    fn migrate(&mut self, packets: Vec<Packet>, first: Time, rate: Rate) {
        let mut at = self.migrating.back().map_or(first, |last| last.at.max(first));
        for mut packet in packets {
            packet.at = at;
            at = at + rate.time_for(Bytes(u64::from(packet.bytes)));
            self.migrating.push_back(packet);
        }
    }
}

impl Element for Server {
    fn push(&mut self, port: Port, packet: Packet) {
        self.settle(packet.at);
        if self.in_service.is_none() {
            self.serve(packet, packet.at);
            return;
        }
        // A queue that is moved was accepted once: it is not dropped again for want of room at the moment it arrives.
        let rate = if port == Port::Migrated { None } else { self.clock.rate(packet.at) };
        if let Err(packet) = self.queue.enqueue(packet, rate) {
            self.lose(packet, packet.at, DropCause::QueueFull);
        }
    }

    fn pop(&mut self, now: Time) -> Option<(Exit, Packet)> {
        self.settle(now);
        if let Some(left) = self.done.pop_front() {
            return Some(left);
        }
        if self.migrating.front()?.at > now {
            return None;
        }
        self.migrating.pop_front().map(|packet| (Exit::Migrate, packet))
    }

    fn wake_at(&self) -> Option<Time> {
        let done = self.done.front().map(|(_, packet)| packet.at);
        let served = self.in_service.as_ref().map(|(_, end)| *end).filter(|end| *end != Time::MAX);
        let moved = self.migrating.front().map(|packet| packet.at);
        [done, served, moved].into_iter().flatten().min()
    }

    fn on_event(&mut self, event: &PathEvent) {
        match event {
            PathEvent::Leave { at, fate } => {
                self.settle(*at);
                self.apply(*at, fate);
            }
            PathEvent::Close { at, until, fate } => {
                self.settle(*at);
                self.apply(*at, fate);
                self.gate.close(*until);
                // What was in transmission begins again when the hop opens.
                if let Some((packet, _)) = self.in_service.take() {
                    self.serve(packet, *until);
                }
            }
            PathEvent::Hold | PathEvent::Release { .. } => {}
        }
    }

    fn drops(&self) -> &DropCounts {
        &self.drops
    }

    fn backlog_bytes(&self) -> u64 {
        self.queue.bytes()
    }

    fn packets(&self) -> usize {
        usize::from(self.in_service.is_some()) + self.queue.len() + self.done.len() + self.migrating.len()
    }
}
