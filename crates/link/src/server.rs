//! A queue in front of a capacity, with a gate that events close.

use crate::cause::{DropCause, DropCounts};
use crate::element::{Element, Exit, Port};
use crate::event::PathEvent;
use crate::gate::Gate;
use crate::packet::Packet;
use crate::queue::{Dropped, Queue};
use crate::rate::RateClock;
use crate::stages::Part;
use bentpipe_profile::{Bytes, Fate, Migration, QueueFate, QueueSpec, Series, Time};
use std::collections::VecDeque;

/// Transmits one packet at a time at the current capacity. The others wait in the queue.
pub struct Server {
    clock: RateClock,
    queue: Queue,
    /// Packets that the queue has just dropped.
    dropped: Dropped,
    /// Packets of a queue that migrated here. They were accepted once, so no limit applies. They are older than other arrivals and go first.
    migrated: VecDeque<Packet>,
    migrated_bytes: u64,
    /// Largest backlog since the last reset.
    peak_bytes: u64,
    gate: Gate,
    /// Fate of packets that arrive after the path has left this hop; `None`: the path uses it.
    late_fate: Option<QueueFate>,
    /// Before this time only migrated packets are served: the rest of their queue is still on its way.
    awaits_until: Time,
    in_service: Option<Service>,
    /// Packets that were sent (with the start of their transmission) or dropped, in order of time, not yet popped.
    done: VecDeque<(Exit, Packet, Option<Time>)>,
    /// When the transmission of the packet popped last began; `None`: it was not sent.
    began: Option<Time>,
    /// Packets on their way to another hop's queue.
    migrating: VecDeque<Packet>,
    drops: DropCounts,
}

/// The packet in transmission.
struct Service {
    packet: Packet,
    begins: Time,
    ends: Time,
    /// Whether it came with a migrated queue.
    migrated: bool,
}

impl Server {
    /// Create a server with a stepped capacity [bit/s]. `None`: packets wait only while the gate is closed. `key`: key of the queue's draws.
    #[must_use]
    pub fn new(capacity: Option<Series>, queue: QueueSpec, key: u64) -> Self {
        Self {
            clock: RateClock::new(capacity),
            queue: Queue::new(&queue, key),
            dropped: Dropped::new(),
            migrated: VecDeque::new(),
            migrated_bytes: 0,
            peak_bytes: 0,
            gate: Gate::default(),
            late_fate: None,
            awaits_until: Time::ZERO,
            in_service: None,
            done: VecDeque::new(),
            began: None,
            migrating: VecDeque::new(),
            drops: DropCounts::default(),
        }
    }

    /// Advance the state to `now`. The result depends on logical times alone, not on when the driver calls.
    fn advance(&mut self, now: Time) {
        while let Some(Service { mut packet, begins, ends, .. }) = self.in_service.take_if(|service| service.ends <= now) {
            packet.at = ends;
            self.done.push_back((Exit::Out, packet, Some(begins)));
            self.serve_next(ends);
        }
    }

    fn serve_next(&mut self, ready: Time) {
        if let Some(packet) = self.migrated.pop_front() {
            self.migrated_bytes -= u64::from(packet.bytes);
            self.serve(packet, ready, true);
        } else {
            let packet = self.queue.dequeue(ready, &mut self.dropped);
            self.record_queue_drops(ready);
            if let Some(packet) = packet {
                self.serve(packet, ready, false);
            }
        }
    }

    /// Record the packets that the queue dropped at `at`.
    fn record_queue_drops(&mut self, at: Time) {
        let mut dropped = std::mem::take(&mut self.dropped);
        dropped.drain(..).for_each(|(packet, cause)| self.drop_packet(packet, at, cause));
        self.dropped = dropped;
    }

    fn serve(&mut self, packet: Packet, ready: Time, migrated: bool) {
        let begins = self.gate.earliest_start(if migrated { ready } else { ready.max(self.awaits_until) });
        let ends = self.clock.finish(begins, packet.bytes);
        self.in_service = Some(Service { packet, begins, ends, migrated });
    }

    fn drop_packet(&mut self, mut packet: Packet, at: Time, cause: DropCause) {
        packet.at = at;
        self.drops.count(cause);
        self.done.push_back((Exit::Dropped(cause), packet, None));
    }

    /// Remove every packet that waits or is in transmission, in order of arrival.
    fn drain(&mut self) -> impl Iterator<Item = Packet> + use<'_> {
        let first = self.in_service.take().map(|service| service.packet);
        self.migrated_bytes = 0;
        let rest = std::iter::from_fn(|| self.migrated.pop_front().or_else(|| self.queue.take()));
        first.into_iter().chain(rest)
    }

    /// Enqueue a packet of a migrated queue. It is older than the next packet of this queue and goes first, unless that one is already in transmission.
    fn enqueue_migrated(&mut self, packet: Packet) {
        let now = packet.at;
        self.migrated_bytes += u64::from(packet.bytes);
        self.migrated.push_back(packet);
        if let Some(Service { packet, .. }) = self.in_service.take_if(|service| !service.migrated && service.begins > now) {
            self.queue.put_back(packet);
        }
        if self.in_service.is_none() {
            self.serve_next(now);
        }
    }

    /// Enqueue a packet that arrived over the path.
    fn enqueue(&mut self, packet: Packet) {
        let at = packet.at;
        if self.in_service.is_none() && self.queue.allows_bypass() {
            self.serve(packet, at, false);
            return;
        }
        let rate = self.clock.rate(at);
        self.queue.enqueue(packet, rate, &mut self.dropped);
        self.record_queue_drops(at);
        if self.in_service.is_none() {
            self.serve_next(at);
        }
    }

    /// Apply an event's fate to the packets inside.
    fn apply(&mut self, at: Time, fate: &Fate) {
        match fate.queue {
            QueueFate::Keep => {}
            QueueFate::Drop => {
                let drained: Vec<_> = self.drain().collect();
                for packet in drained {
                    self.drop_packet(packet, at, DropCause::Event);
                }
            }
            QueueFate::Migrate(migration) => {
                let drained: Vec<_> = self.drain().collect();
                self.migrate(drained, at, &migration);
            }
        }
    }

    /// Send packets that are here at `at` to another hop's queue.
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
        self.advance(packet.at);
        match (self.late_fate, port) {
            (Some(QueueFate::Migrate(migration)), _) => self.migrate(vec![packet], packet.at, &migration),
            (Some(QueueFate::Drop), _) => self.drop_packet(packet, packet.at, DropCause::Event),
            (_, Port::Migrated) => self.enqueue_migrated(packet),
            (_, Port::In) => self.enqueue(packet),
        }
        self.peak_bytes = self.peak_bytes.max(self.backlog_bytes());
    }

    fn pop(&mut self, now: Time) -> Option<(Exit, Packet)> {
        self.advance(now);
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
        let migrating = self.migrating.front().map(|packet| packet.at);
        [done, served, migrating].into_iter().flatten().min()
    }

    fn on_event(&mut self, event: &PathEvent) {
        match event {
            PathEvent::Leave { at, fate } => {
                self.advance(*at);
                self.apply(*at, fate);
                self.late_fate = Some(fate.queue);
            }
            PathEvent::Join => self.late_fate = None,
            PathEvent::Await { until } => self.awaits_until = self.awaits_until.max(*until),
            PathEvent::Close { at, until, fate } => {
                self.advance(*at);
                self.apply(*at, fate);
                self.gate.close(*until);
                // The packet in transmission is transmitted from its first bit when the interruption ends.
                if let Some(Service { packet, migrated, .. }) = self.in_service.take() {
                    self.serve(packet, *until, migrated);
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
        let arrivals = if matches!(self.late_fate, None | Some(QueueFate::Keep)) { arrivals } else { Vec::new() };
        let migrated = self.migrated.iter().map(|packet| (Time::ZERO, packet));
        let waiting = self.queue.iter().map(|packet| (self.awaits_until, packet));
        let arriving = arrivals.iter().map(|packet| (self.gate.earliest_start(packet.at.max(self.awaits_until)), packet));
        for (begins, packet) in migrated.chain(waiting).chain(arriving) {
            if ready != Time::MAX {
                ready = clock.finish(ready.max(begins), packet.bytes);
            }
            out.push(Packet { at: ready, ..*packet });
        }
        // A hop that stays interrupted never empties. Other hops cannot wait for it.
        out.retain(|packet| packet.at != Time::MAX);
        out
    }

    fn migrating(&self, arrivals: &[Packet]) -> Vec<Packet> {
        let mut packets: Vec<Packet> = self.migrating.iter().copied().collect();
        if let Some(QueueFate::Migrate(migration)) = self.late_fate {
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
        self.queue.bytes() + self.migrated_bytes
    }

    fn peak_backlog_bytes(&self) -> u64 {
        self.peak_bytes
    }

    fn reset_peak_backlog(&mut self) {
        self.peak_bytes = self.backlog_bytes();
    }

    fn packets(&self) -> usize {
        usize::from(self.in_service.is_some()) + self.migrated.len() + self.queue.len() + self.done.len() + self.migrating.len()
    }
}
