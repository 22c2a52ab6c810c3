//! A queue in front of a capacity, with a gate that events close.

mod apart;

use self::apart::Apart;
use crate::cause::DropCause;
use crate::element::{Element, Port};
use crate::event::{PathEvent, Scope};
use crate::gate::Gate;
use crate::migration::Migrate;
use crate::packet::Packet;
use crate::queue::{Dropped, Queue};
use crate::rate::RateClock;
use crate::stages::Part;
use bentpipe_profile::{Bytes, Fate, Migration, QueueFate, QueueLimit, QueueSpec, Series, Time};
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
    /// Packets of single paths that wait apart; `None` while no path is treated apart. Boxed, since few servers have it.
    apart: Option<Box<Apart>>,
    limit: QueueLimit,
    in_service: Option<Service>,
    /// Packets that were sent (with the start of their transmission) or dropped, in order of time, not yet popped.
    done: VecDeque<(Port, Packet, Option<Time>)>,
    /// When the transmission of the packet popped last began; `None`: it was not sent.
    began: Option<Time>,
    /// Packets on their way to another hop's queue.
    migrating: VecDeque<Packet>,
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
            apart: None,
            limit: queue.limit,
            in_service: None,
            done: VecDeque::new(),
            began: None,
            migrating: VecDeque::new(),
        }
    }

    /// Advance the state to `now`. The result depends on logical times alone, not on when the driver calls.
    #[inline]
    fn advance(&mut self, now: Time) {
        if self.apart.is_some() {
            self.release_until(now);
        }
        self.serve_until(now);
    }

    /// Let the packets that have waited apart until `now` or earlier into the queue.
    #[cold]
    fn release_until(&mut self, now: Time) {
        while let Some(at) = self.apart.as_ref().and_then(|apart| apart.next_release()).filter(|at| *at <= now) {
            self.serve_until(at);
            if let Some((port, packet)) = self.apart.as_mut().and_then(|apart| apart.release()) {
                self.enter(port, Packet { at, ..packet });
            }
        }
        self.apart.take_if(|apart| apart.expire(now));
    }

    /// Return the record of paths that are treated apart.
    fn apart(&mut self) -> &mut Apart {
        let limit = self.limit;
        self.apart.get_or_insert_with(|| Box::new(Apart::new(limit)))
    }

    /// Complete the transmissions that end by `now`.
    #[inline]
    fn serve_until(&mut self, now: Time) {
        while let Some(Service { mut packet, begins, ends, .. }) = self.in_service.take_if(|service| service.ends <= now) {
            packet.at = ends;
            self.done.push_back((Port::Far, packet, Some(begins)));
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
        self.done.push_back((Port::Drop(cause), packet, None));
    }

    /// Remove every packet that an event concerns and that waits or is in transmission, in order of arrival.
    fn drain(&mut self, scope: &Scope) -> Vec<Packet> {
        let service = self.in_service.take_if(|service| scope.concerns(service.packet.path));
        let mut packets: Vec<Packet> = service.map(|service| service.packet).into_iter().collect();
        let (leaving, staying) = self.migrated.drain(..).partition::<Vec<_>, _>(|packet| scope.concerns(packet.path));
        packets.extend(leaving);
        self.migrated = staying.into();
        match scope {
            Scope::Paths(_) => packets.extend(self.queue.extract(scope)),
            Scope::All => packets.extend(std::iter::from_fn(|| self.queue.take())),
        }
        self.migrated_bytes = self.migrated.iter().map(|packet| u64::from(packet.bytes)).sum();
        packets.extend(self.apart.iter_mut().flat_map(|apart| apart.drain(scope)));
        packets
    }

    /// Return the fate of arrivals of a path that has left this link; `None`: the path uses it.
    fn fate_of(&self, path: u32) -> Option<QueueFate> {
        self.apart.as_ref().and_then(|apart| apart.fate(path)).or(self.late_fate)
    }

    /// Accept a packet that this link transmits, unless it has to wait apart.
    fn admit(&mut self, port: Port, packet: Packet) {
        if self.apart.is_none() {
            return self.enter(port, packet);
        }
        let rate = self.clock.rate(packet.at);
        match self.apart().hold(port, packet, rate) {
            Ok(Some(packet)) => self.enter(port, packet),
            Ok(None) => {}
            Err(packet) => self.drop_packet(packet, packet.at, DropCause::QueueFull),
        }
    }

    fn enter(&mut self, port: Port, packet: Packet) {
        if port == Port::Migration { self.enqueue_migrated(packet) } else { self.enqueue(packet) }
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

    /// Apply an event's fate to the packets inside that it concerns. `until`: end of the interruption, if the event is one.
    fn apply(&mut self, at: Time, fate: &Fate, scope: &Scope, until: Option<Time>) {
        let mut accepted = Vec::new();
        match (fate.queue, scope, until) {
            (QueueFate::Keep, Scope::Paths(_), Some(_)) => accepted = self.drain(scope),
            (QueueFate::Keep, ..) => {}
            (QueueFate::Drop, ..) => {
                for packet in self.drain(scope) {
                    self.drop_packet(packet, at, DropCause::Event);
                }
            }
            (QueueFate::Migrate(migration), ..) => {
                let packets = self.drain(scope);
                self.migrate(packets, at, &migration);
            }
        }
        let Scope::Paths(paths) = scope else { return };
        if let Some(until) = until {
            self.apart().close(paths, until, accepted);
        }
        if self.in_service.is_none() {
            self.serve_next(at); // packets of other paths go on
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
        match self.fate_of(packet.path) {
            Some(QueueFate::Migrate(migration)) => self.migrate(vec![packet], packet.at, &migration),
            Some(QueueFate::Drop) => self.drop_packet(packet, packet.at, DropCause::Event),
            Some(QueueFate::Keep) | None => self.admit(port, packet),
        }
        self.peak_bytes = self.peak_bytes.max(self.backlog_bytes());
    }

    fn pop(&mut self, now: Time) -> Option<(Port, Packet)> {
        self.advance(now);
        self.began = None;
        if let Some((port, packet, began)) = self.done.pop_front() {
            self.began = began;
            return Some((port, packet));
        }
        if self.migrating.front()?.at > now {
            return None;
        }
        self.migrating.pop_front().map(|packet| (Port::Migration, packet))
    }

    fn stages(&self, left: Time) -> [Option<(Part, Time)>; 2] {
        match self.began {
            Some(began) => [Some((Part::Queue, began)), Some((Part::Transmission, left))],
            None => [Some((Part::Queue, left)), None],
        }
    }

    fn wake_at(&self) -> Option<Time> {
        let mut wake = self.in_service.as_ref().map_or(Time::MAX, |service| service.ends);
        if let Some((_, packet, _)) = self.done.front() {
            wake = wake.min(packet.at);
        }
        if let Some(packet) = self.migrating.front() {
            wake = wake.min(packet.at);
        }
        if let Some(at) = self.apart.as_ref().and_then(|apart| apart.next_release()) {
            wake = wake.min(at);
        }
        (wake != Time::MAX).then_some(wake)
    }

    fn on_event(&mut self, event: &PathEvent) {
        match event {
            PathEvent::Leave { at, fate, scope } => {
                self.advance(*at);
                self.apply(*at, fate, scope, None);
                match scope {
                    Scope::Paths(paths) => self.apart().set_fate(paths, Some(fate.queue).filter(|fate| *fate != QueueFate::Keep)),
                    Scope::All => self.late_fate = Some(fate.queue),
                }
            }
            PathEvent::Join { scope: Scope::Paths(paths), .. } => {
                if let Some(apart) = &mut self.apart {
                    apart.set_fate(paths, None);
                }
            }
            PathEvent::Join { scope: Scope::All, .. } => self.late_fate = None,
            PathEvent::Await { until, scope: Scope::Paths(paths) } => self.apart().await_until(paths, *until),
            PathEvent::Await { until, scope: Scope::All } => self.awaits_until = self.awaits_until.max(*until),
            PathEvent::Close { at, until, fate, scope } => {
                self.advance(*at);
                self.apply(*at, fate, scope, Some(*until));
                if *scope != Scope::All {
                    return;
                }
                self.gate.close(*until);
                // The packet in transmission is transmitted from its first bit when the interruption ends.
                if let Some(Service { packet, migrated, .. }) = self.in_service.take() {
                    self.serve(packet, *until, migrated);
                }
            }
            PathEvent::NotBefore { .. } => {}
        }
    }

    fn departures(&self, mut arrivals: Vec<Packet>) -> Vec<Packet> {
        let sent = self.done.iter().filter(|(port, ..)| *port == Port::Far).map(|(_, packet, _)| *packet);
        let mut out: Vec<Packet> = sent.collect();
        let mut clock = self.clock.clone();
        let mut ready = Time::ZERO;
        if let Some(Service { packet, ends, .. }) = &self.in_service {
            ready = *ends;
            out.push(Packet { at: ready, ..*packet });
        }
        arrivals.retain(|packet| matches!(self.fate_of(packet.path), None | Some(QueueFate::Keep)));
        if let Some(apart) = &self.apart {
            arrivals.extend(apart.iter());
            arrivals.sort_by_key(|packet| packet.at);
        }
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

    fn migration(&self) -> Option<&dyn Migrate> {
        Some(self)
    }

    fn migration_mut(&mut self) -> Option<&mut dyn Migrate> {
        Some(self)
    }

    fn backlog_bytes(&self) -> u64 {
        self.queue.bytes() + self.migrated_bytes + self.apart.as_ref().map_or(0, |apart| apart.bytes())
    }

    fn peak_backlog_bytes(&self) -> u64 {
        self.peak_bytes
    }

    fn reset_peak_backlog(&mut self) {
        self.peak_bytes = self.backlog_bytes();
    }

    fn packets(&self) -> usize {
        let apart = self.apart.as_ref().map_or(0, |apart| apart.len());
        usize::from(self.in_service.is_some()) + self.migrated.len() + self.queue.len() + self.done.len() + self.migrating.len() + apart
    }
}

impl Migrate for Server {
    fn migrating(&self, arrivals: &[Packet]) -> Vec<Packet> {
        let mut packets: Vec<Packet> = self.migrating.iter().copied().collect();
        for packet in arrivals {
            if let Some(QueueFate::Migrate(migration)) = self.fate_of(packet.path) {
                let at = packet.at + migration.delay_ns;
                let at = packets.last().map_or(at, |last| last.at.max(at));
                packets.push(Packet { at, ..*packet });
            }
        }
        packets
    }

    fn queue(&self) -> &Queue {
        &self.queue
    }

    fn adopt_aqm_state(&mut self, queue: &Queue) {
        self.queue.adopt_aqm_state(queue);
    }
}
