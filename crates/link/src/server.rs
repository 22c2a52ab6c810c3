//! A queue in front of a capacity, with a gate that events close.

use crate::element::{DropCause, DropCounts, Element, Exit, PathEvent, Port};
use crate::gate::Gate;
use crate::packet::Packet;
use crate::queue::{Lost, Queue};
use crate::rate::RateClock;
use crate::stages::Part;
use bentpipe_profile::{Bytes, Fate, Migration, QueueFate, QueueSpec, Series, Time};
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
    /// What becomes of packets that arrive although the path has left this hop; `None`: the path uses it.
    left: Option<QueueFate>,
    /// Before this, only a moved queue is served: the rest of it is still to come.
    awaits_until: Time,
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
            left: None,
            awaits_until: Time::ZERO,
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
        let begins = self.gate.opens(if moved { ready } else { ready.max(self.awaits_until) });
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

    /// Takes a packet of a moved queue. It is older than what stands at the head, if that has not begun, and goes first.
    fn take_moved(&mut self, packet: Packet) {
        let now = packet.at;
        self.moved_bytes += u64::from(packet.bytes);
        self.moved.push_back(packet);
        if let Some(Service { packet, .. }) = self.in_service.take_if(|service| !service.moved && service.begins > now) {
            self.queue.put_back(packet);
        }
        if self.in_service.is_none() {
            self.serve_next(now);
        }
    }

    /// Takes a packet that came over the path.
    fn take(&mut self, packet: Packet) {
        let at = packet.at;
        if self.in_service.is_none() && self.queue.allows_bypass() {
            self.serve(packet, at, false);
            return;
        }
        let rate = self.clock.rate(at);
        self.queue.enqueue(packet, rate, &mut self.lost);
        self.lose_given_up(at);
        if self.in_service.is_none() {
            self.serve_next(at);
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
                self.migrate(moved, at, &migration);
            }
        }
    }

    /// Sends packets that are here at `at` to another hop's queue.
    fn migrate(&mut self, packets: Vec<Packet>, at: Time, migration: &Migration) {
        let first = at + migration.delay_ns;
        let mut at = self.migrating.back().map_or(first, |last| last.at.max(first));
        for mut packet in packets {
            packet.at = at;
            at = at + migration.rate_bps.time_for(Bytes(u64::from(packet.bytes)));
            self.migrating.push_back(packet);
        }
    }
}

impl Element for Server {
    fn push(&mut self, port: Port, packet: Packet) {
        self.settle(packet.at);
        match (self.left, port) {
            (Some(QueueFate::Migrate(migration)), _) => self.migrate(vec![packet], packet.at, &migration),
            (Some(QueueFate::Drop), _) => self.lose(packet, packet.at, DropCause::Event),
            (_, Port::Migrated) => self.take_moved(packet),
            (_, Port::In) => self.take(packet),
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
                self.left = Some(fate.queue);
            }
            PathEvent::Join => self.left = None,
            PathEvent::Await { until } => self.awaits_until = self.awaits_until.max(*until),
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

    fn departures(&self, arrivals: Vec<Packet>) -> Vec<Packet> {
        let sent = self.done.iter().filter(|(exit, ..)| *exit == Exit::Out).map(|(_, packet, _)| *packet);
        let mut out: Vec<Packet> = sent.collect();
        let mut clock = self.clock.clone();
        let mut ready = Time::ZERO;
        if let Some(Service { packet, ends, .. }) = &self.in_service {
            ready = *ends;
            out.push(Packet { at: ready, ..*packet });
        }
        let arrivals = if matches!(self.left, None | Some(QueueFate::Keep)) { arrivals } else { Vec::new() };
        let moved = self.moved.iter().map(|packet| (Time::ZERO, packet));
        let waiting = self.queue.iter().map(|packet| (self.awaits_until, packet));
        let arriving = arrivals.iter().map(|packet| (self.gate.opens(packet.at.max(self.awaits_until)), packet));
        for (begins, packet) in moved.chain(waiting).chain(arriving) {
            if ready != Time::MAX {
                ready = clock.finish(ready.max(begins), packet.bytes);
            }
            out.push(Packet { at: ready, ..*packet });
        }
        // A hop that never retransmits empties never: nothing can wait for that.
        out.retain(|packet| packet.at != Time::MAX);
        out
    }

    fn migrating(&self, arrivals: &[Packet]) -> Vec<Packet> {
        let mut packets: Vec<Packet> = self.migrating.iter().copied().collect();
        if let Some(QueueFate::Migrate(migration)) = self.left {
            for packet in arrivals {
                let at = packet.at + migration.delay_ns;
                let at = packets.last().map_or(at, |last| last.at.max(at));
                packets.push(Packet { at, ..*packet });
            }
        }
        packets
    }

    fn queue(&self) -> Option<&Queue> {
        Some(&self.queue)
    }

    fn adopt_aqm_state(&mut self, queue: &Queue) {
        self.queue.adopt_aqm_state(queue);
    }

    fn drops(&self) -> &DropCounts {
        &self.drops
    }

    fn backlog_bytes(&self) -> u64 {
        self.queue.bytes() + self.moved_bytes
    }

    fn peak_backlog_bytes(&self) -> u64 {
        self.most_bytes
    }

    fn reset_peak_backlog(&mut self) {
        self.most_bytes = self.backlog_bytes();
    }

    fn packets(&self) -> usize {
        usize::from(self.in_service.is_some()) + self.moved.len() + self.queue.len() + self.done.len() + self.migrating.len()
    }
}
