//! A queue in front of a capacity, with a gate that events close.

use crate::element::{DropCause, DropCounts, Element, Exit, PathEvent, Port};
use crate::gate::Gate;
use crate::packet::Packet;
use crate::queue::{Lost, Queue};
use crate::rate::RateClock;
use crate::stages::Part;
use bentpipe_profile::{Bytes, Fate, QueueFate, QueueSpec, Rate, Series, Time};
use std::collections::VecDeque;

/// Sends one packet after the other at the capacity of the moment; the others wait in the queue.
pub struct Server {
    clock: RateClock,
    queue: Queue,
    /// What the queue gave up just now.
    lost: Lost,
    /// A queue that a handover moved here. It was accepted once, so it has no limit, and it is older than what arrives: it goes first.
    moved: VecDeque<Packet>,
    moved_bytes: u64,
    /// Most bytes that waited since this was last forgotten.
    most_bytes: u64,
    gate: Gate,
    in_service: Option<Service>,
    /// Left (with when its transmission began), lost or handed over, in order of time, not yet popped.
    done: VecDeque<(Exit, Packet, Option<Time>)>,
    /// Of the packet popped last.
    began: Option<Time>,
    /// On their way to another hop's queue.
    migrating: VecDeque<Packet>,
    drops: DropCounts,
}

/// The packet in transmission.
struct Service {
    packet: Packet,
    begins: Time,
    ends: Time,
    /// Whether it came with a moved queue.
    moved: bool,
}

impl Server {
    /// With a stepped capacity [bit/s]; `None` holds packets only while the gate is closed. `key`: of what the queue draws.
    #[must_use]
    pub fn new(capacity: Option<Series>, queue: QueueSpec, key: u64) -> Self {
        Self {
            clock: RateClock::new(capacity),
            queue: Queue::new(&queue, key),
            lost: Lost::new(),
            moved: VecDeque::new(),
            moved_bytes: 0,
            most_bytes: 0,
            gate: Gate::default(),
            in_service: None,
            done: VecDeque::new(),
            began: None,
            migrating: VecDeque::new(),
            drops: DropCounts::default(),
        }
    }

    /// Brings the state to `now`: what happens depends on logical times alone, not on when the driver asks.
    fn settle(&mut self, now: Time) {
        while let Some(Service { mut packet, begins, ends, .. }) = self.in_service.take_if(|service| service.ends <= now) {
            packet.at = ends;
            self.done.push_back((Exit::Out, packet, Some(begins)));
            self.serve_next(ends);
        }
    }

    fn serve_next(&mut self, ready: Time) {
        if let Some(packet) = self.moved.pop_front() {
            self.moved_bytes -= u64::from(packet.bytes);
            self.serve(packet, ready, true);
        } else {
            let packet = self.queue.dequeue(ready, &mut self.lost);
            self.lose_given_up(ready);
            if let Some(packet) = packet {
                self.serve(packet, ready, false);
            }
        }
    }

    /// What the queue gave up at `at`.
    fn lose_given_up(&mut self, at: Time) {
        let mut lost = std::mem::take(&mut self.lost);
        lost.drain(..).for_each(|(packet, cause)| self.lose(packet, at, cause));
        self.lost = lost;
    }

    fn serve(&mut self, packet: Packet, ready: Time, moved: bool) {
        let begins = self.gate.opens(ready);
        let ends = self.clock.finish(begins, packet.bytes);
        self.in_service = Some(Service { packet, begins, ends, moved });
    }

    fn lose(&mut self, mut packet: Packet, at: Time, cause: DropCause) {
        packet.at = at;
        self.drops.count(cause);
        self.done.push_back((Exit::Dropped(cause), packet, None));
    }

    /// Takes everything that waits or is in transmission, first come first.
    fn drain(&mut self) -> impl Iterator<Item = Packet> + use<'_> {
        let first = self.in_service.take().map(|service| service.packet);
        self.moved_bytes = 0; // none is left
        let rest = std::iter::from_fn(|| self.moved.pop_front().or_else(|| self.queue.take()));
        first.into_iter().chain(rest)
    }

    /// Takes a packet of a moved queue. While the gate is closed, what stands at the head has not begun: the moved queue is older and goes first.
    fn take_moved(&mut self, packet: Packet) {
        let now = packet.at;
        self.moved_bytes += u64::from(packet.bytes);
        self.moved.push_back(packet);
        let newer = self.in_service.take_if(|service| !service.moved && self.gate.opens(now) > now);
        if let Some(Service { packet, .. }) = newer {
            self.queue.put_back(packet);
        }
        if self.in_service.is_none() {
            self.serve_next(now);
        }
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
        if port == Port::Migrated {
            self.take_moved(packet);
        } else if self.in_service.is_none() && self.queue.can_be_passed_by() {
            self.serve(packet, packet.at, false);
        } else {
            let at = packet.at;
            let rate = self.clock.rate(at);
            self.queue.enqueue(packet, rate, &mut self.lost);
            self.lose_given_up(at);
            if self.in_service.is_none() {
                self.serve_next(at);
            }
        }
        self.most_bytes = self.most_bytes.max(self.backlog_bytes());
    }

    fn pop(&mut self, now: Time) -> Option<(Exit, Packet)> {
        self.settle(now);
        self.began = None;
        if let Some((exit, packet, began)) = self.done.pop_front() {
            self.began = began;
            return Some((exit, packet));
        }
        if self.migrating.front()?.at > now {
            return None;
        }
        self.migrating.pop_front().map(|packet| (Exit::Migrate, packet))
    }

    fn stages(&self, left: Time) -> [Option<(Part, Time)>; 2] {
        match self.began {
            Some(began) => [Some((Part::Queue, began)), Some((Part::Transmission, left))],
            None => [Some((Part::Queue, left)), None],
        }
    }

    fn wake_at(&self) -> Option<Time> {
        let done = self.done.front().map(|(_, packet, _)| packet.at);
        let served = self.in_service.as_ref().map(|service| service.ends).filter(|ends| *ends != Time::MAX);
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
                if let Some(Service { packet, moved, .. }) = self.in_service.take() {
                    self.serve(packet, *until, moved);
                }
            }
            PathEvent::NotBefore { .. } => {}
        }
    }

    fn drained_at(&self, last_in: Option<Time>) -> Option<Time> {
        // What was sent at this very instant may still be here.
        let sent = self.done.iter().rev().find(|(exit, ..)| *exit == Exit::Out).map(|(_, packet, _)| packet.at);
        let last_in = last_in.max(sent);
        let Some(service) = &self.in_service else { return last_in };
        let mut clock = self.clock.clone();
        let waiting = self.moved.iter().chain(self.queue.iter());
        let sent = waiting.fold(service.ends, |at, packet| if at == Time::MAX { at } else { clock.finish(at, packet.bytes) });
        // A hop that never sends again empties never: nothing can wait for that.
        last_in.max(Some(sent).filter(|sent| *sent != Time::MAX))
    }

    fn queue(&self) -> Option<&Queue> {
        Some(&self.queue)
    }

    fn go_on_from(&mut self, queue: &Queue) {
        self.queue.go_on_from(queue);
    }

    fn drops(&self) -> &DropCounts {
        &self.drops
    }

    fn backlog_bytes(&self) -> u64 {
        self.queue.bytes() + self.moved_bytes
    }

    fn most_backlog_bytes(&self) -> u64 {
        self.most_bytes
    }

    fn forget_most_backlog(&mut self) {
        self.most_bytes = self.backlog_bytes();
    }

    fn packets(&self) -> usize {
        usize::from(self.in_service.is_some()) + self.moved.len() + self.queue.len() + self.done.len() + self.migrating.len()
    }
}
