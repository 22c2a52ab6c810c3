//! A queue in front of a capacity, with a gate that events close.

mod ahead;
mod apart;
mod struck;

use self::ahead::Ahead;
use self::apart::Apart;
use self::struck::Struck;
use crate::cause::DropCause;
use crate::element::{Element, Port};
use crate::event::{PathEvent, Scope};
use crate::gate::Gate;
use crate::migration::Migrate;
use crate::packet::Packet;
use crate::queue::{Dropped, Queue, fits};
use crate::rate::RateClock;
use crate::stages::Part;
use bentpipe_profile::{Fate, QueueFate, QueueSpec, Series, Time};
use std::collections::VecDeque;

/// Transmits one packet at a time at the current capacity. The others wait in the queue. Fields that are used together stand together, so that a packet needs
/// few cache lines of a server that was not used for long.
#[repr(C)]
pub struct Server {
    /// State that events change. Boxed, since most servers have none.
    struck: Option<Box<Struck>>,
    gate: Gate,
    /// Largest backlog since the last reset.
    peak_bytes: u64,
    clock: RateClock,
    /// Packets that were sent (with the start of their transmission) or dropped, in order of time, and wait to be popped.
    done: VecDeque<(Port, Packet, Option<Time>)>,
    in_service: Option<Service>,
    ahead: Ahead,
    queue: Queue,
    /// When the transmission of the packet popped last began; `None`: it was not sent.
    began: Option<Time>,
}

/// The packet in transmission.
struct Service {
    packet: Packet,
    begins: Time,
    ends: Time,
}

impl Server {
    /// Create a server with a stepped capacity [bit/s]. `None`: packets wait only while the gate is closed. `key`: key of the queue's draws.
    #[must_use]
    pub fn new(capacity: Option<Series>, queue: QueueSpec, key: u64) -> Self {
        Self {
            clock: RateClock::new(capacity),
            queue: Queue::new(&queue, key),
            gate: Gate::default(),
            in_service: None,
            ahead: Ahead::default(),
            peak_bytes: 0,
            done: VecDeque::new(),
            began: None,
            struck: None,
        }
    }

    /// Return the state that events change, created at the first of them.
    fn struck(&mut self) -> &mut Struck {
        self.struck.get_or_insert_default()
    }

    /// Return the record of paths that are treated apart, if there are any.
    #[inline]
    fn apart(&self) -> Option<&Apart> {
        self.struck.as_ref().and_then(|struck| struck.apart.as_ref())
    }

    /// As [`Server::apart`], mutable.
    fn apart_mut(&mut self) -> Option<&mut Apart> {
        self.struck.as_mut().and_then(|struck| struck.apart.as_mut())
    }

    /// Return the record of paths that are treated apart, created if there are none yet.
    fn apart_or_new(&mut self) -> &mut Apart {
        let limit = self.queue.limit();
        self.struck().apart.get_or_insert_with(|| Apart::new(limit))
    }

    /// Advance the state to `now`. The result depends on logical times alone, not on when the driver calls.
    #[inline]
    fn advance(&mut self, now: Time) {
        if self.apart().is_some() {
            self.release_until(now);
        }
        self.serve_until(now);
    }

    /// Let the packets that have waited apart until `now` or earlier into the queue.
    #[cold]
    fn release_until(&mut self, now: Time) {
        while let Some(at) = self.apart().and_then(Apart::next_release).filter(|at| *at <= now) {
            self.serve_until(at);
            if let Some((port, packet)) = self.apart_mut().and_then(Apart::release) {
                self.enter(port, Packet { at, ..packet });
            }
        }
        self.struck().apart.take_if(|apart| apart.expire(now));
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
        if let Some(packet) = self.struck.as_mut().and_then(|struck| struck.take_migrated()) {
            self.serve(packet, ready, true);
        } else {
            let mut dropped = Dropped::new();
            let packet = self.queue.dequeue(ready, &mut dropped);
            self.record_queue_drops(ready, dropped);
            if let Some(packet) = packet {
                self.serve(packet, ready, false);
            }
        }
    }

    /// Record the packets that the queue dropped at `at`.
    fn record_queue_drops(&mut self, at: Time, dropped: Dropped) {
        for (packet, cause) in dropped {
            self.drop_packet(packet, at, cause);
        }
    }

    fn serve(&mut self, packet: Packet, ready: Time, migrated: bool) {
        let ready = if migrated { ready } else { ready.max(self.awaits_until()) };
        let begins = self.gate.earliest_start(ready);
        let ends = self.clock.finish(begins, packet.bytes);
        self.in_service = Some(Service { packet, begins, ends });
        if let Some(struck) = &mut self.struck {
            struck.serves_migrated = migrated;
        }
    }

    /// Return the time before which only migrated packets are served.
    fn awaits_until(&self) -> Time {
        self.struck.as_ref().map_or(Time::ZERO, |struck| struck.awaits_until)
    }

    fn drop_packet(&mut self, mut packet: Packet, at: Time, cause: DropCause) {
        packet.at = at;
        self.done.push_back((Port::Drop(cause), packet, None));
    }

    /// Remove every packet that an event concerns and that waits or is in transmission, in order of arrival.
    fn drain(&mut self, scope: &Scope) -> Vec<Packet> {
        let service = self.in_service.take_if(|service| scope.concerns(&service.packet));
        let mut packets: Vec<Packet> = service.map(|service| service.packet).into_iter().collect();
        packets.extend(self.struck().drain_migrated(scope));
        match scope {
            Scope::Crossings(_) => packets.extend(self.queue.extract(scope)),
            Scope::All => packets.extend(std::iter::from_fn(|| self.queue.take())),
        }
        packets.extend(self.apart_mut().into_iter().flat_map(|apart| apart.drain(scope)));
        packets
    }

    /// Return the fate of an arrival whose path has left this link; `None`: the path uses it.
    #[inline]
    fn fate_of(&self, packet: &Packet) -> Option<QueueFate> {
        self.struck.as_ref()?.fate_of(packet)
    }

    /// Accept a packet that this link transmits, unless it has to wait apart.
    fn admit(&mut self, port: Port, packet: Packet) {
        if self.apart().is_none() {
            return self.enter(port, packet);
        }
        let rate = self.clock.rate(packet.at);
        match self.apart_or_new().hold(port, packet, rate) {
            Ok(Some(packet)) => self.enter(port, packet),
            Ok(None) => {}
            Err(packet) => self.drop_packet(packet, packet.at, DropCause::QueueFull),
        }
    }

    fn enter(&mut self, port: Port, packet: Packet) {
        if matches!(port, Port::Migration | Port::Ahead) { self.enqueue_migrated(port, packet) } else { self.enqueue(packet) }
    }

    /// Enqueue a packet of a migrated queue, or one that goes ahead of these too. It is older than the next packet of this queue and goes first, unless that
    /// one is already in transmission.
    fn enqueue_migrated(&mut self, port: Port, packet: Packet) {
        let now = packet.at;
        let struck = self.struck();
        struck.add_migrated(packet, port == Port::Ahead);
        let serves_migrated = struck.serves_migrated;
        if !serves_migrated && let Some(Service { packet, .. }) = self.in_service.take_if(|service| service.begins > now) {
            self.queue.put_back(packet);
        }
        if self.in_service.is_none() {
            self.serve_next(now);
        }
    }

    /// Enqueue a packet that arrived over the path.
    fn enqueue(&mut self, packet: Packet) {
        let at = packet.at;
        let ready = self.ahead.busy_until.max(at);
        if self.in_service.is_none() && ready == at && self.queue.allows_bypass() {
            self.serve(packet, at, false);
            return;
        }
        if self.ahead.len() > 0 && !self.has_room(at, packet.bytes) {
            return self.drop_packet(packet, at, DropCause::QueueFull);
        }
        let rate = self.clock.rate(at);
        let mut dropped = Dropped::new();
        self.queue.enqueue(packet, rate, &mut dropped);
        self.record_queue_drops(at, dropped);
        if self.in_service.is_none() {
            self.serve_next(ready);
            if ready > at {
                self.note_taken(ready);
            }
        }
    }

    /// Return whether a drop-tail queue with the packets that left ahead of their time has room for one more at `at`.
    fn has_room(&mut self, at: Time, bytes: u16) -> bool {
        let rate = self.clock.rate(at);
        fits(self.queue.limit(), self.queue.len() + self.ahead.len(), self.queue.bytes() + self.ahead.bytes(), bytes, rate)
    }

    /// Record that the packet in service leaves the queue later than now, at `ready`.
    fn note_taken(&mut self, ready: Time) {
        if let Some(Service { packet, .. }) = &self.in_service {
            self.ahead.take(ready, packet.bytes);
        }
    }

    /// Return whether times of departure depend on earlier arrivals alone, until the next event.
    #[inline]
    fn is_plain(&self) -> bool {
        matches!(self.queue, Queue::DropTail(_)) && self.struck.as_ref().is_none_or(|struck| struck.is_over())
    }

    /// Remove and return the next packet if its transmission ends before `before`, ahead of its time: the caller knows that no event happens until then.
    #[inline]
    pub fn pop_ahead(&mut self, before: Time) -> Option<Packet> {
        if !self.is_plain() || !self.done.is_empty() {
            return None;
        }
        let Service { packet, ends, .. } = self.in_service.take_if(|service| service.ends < before)?;
        self.ahead.busy_until = ends;
        self.serve_next(ends);
        self.note_taken(ends);
        Some(Packet { at: ends, ..packet })
    }

    /// Transmit a packet at its arrival, ahead of its time, if the transmission ends before `before`, and return when. [`Server::will_send`] has allowed it.
    /// `None`: it has to be pushed.
    #[inline]
    pub fn send_ahead(&mut self, packet: &Packet, before: Time) -> Option<Time> {
        if self.in_service.is_some() || !self.queue.is_empty() {
            return None;
        }
        let (at, busy_until) = (packet.at, self.ahead.busy_until);
        let ready = at.max(busy_until);
        let begins = self.gate.earliest_start(ready.max(self.awaits_until()));
        let ends = self.clock.finish_before(begins, packet.bytes, before)?;
        if busy_until > at {
            self.ahead.take(ready, packet.bytes);
        }
        self.ahead.busy_until = ends;
        self.peak_bytes = self.peak_bytes.max(self.ahead.bytes());
        Some(ends)
    }

    /// Return whether a packet of `bytes` that arrives at `at`, after all others so far, will be sent and not dropped. `false`: it may be dropped.
    #[inline]
    pub fn will_send(&mut self, at: Time, bytes: u16) -> bool {
        if !self.is_plain() || !self.done.is_empty() {
            return false;
        }
        self.ahead.forget(at);
        (self.in_service.is_none() && self.ahead.busy_until <= at) || self.has_room(at, bytes)
    }

    /// Apply an event's fate to the packets inside that it concerns. `until`: end of the interruption, if the event is one.
    fn apply(&mut self, at: Time, fate: &Fate, scope: &Scope, until: Option<Time>) {
        let mut accepted = Vec::new();
        match (fate.queue, scope, until) {
            (QueueFate::Keep, Scope::Crossings(_), Some(_)) => accepted = self.drain(scope),
            (QueueFate::Keep, ..) => {}
            (QueueFate::Drop, ..) => {
                for packet in self.drain(scope) {
                    self.drop_packet(packet, at, DropCause::Event);
                }
            }
            (QueueFate::Migrate(migration), ..) => {
                let packets = self.drain(scope);
                self.struck().migrate(packets, at, &migration);
            }
        }
        let Scope::Crossings(crossings) = scope else { return };
        if let Some(until) = until {
            self.apart_or_new().close(crossings, until, accepted);
        }
        if self.in_service.is_none() {
            self.serve_next(at); // packets of other paths go on
        }
    }
}

impl Element for Server {
    fn push(&mut self, port: Port, packet: Packet) {
        self.ahead.forget(packet.at);
        self.advance(packet.at);
        match self.fate_of(&packet) {
            Some(QueueFate::Migrate(migration)) => self.struck().migrate(vec![packet], packet.at, &migration),
            Some(QueueFate::Drop) => self.drop_packet(packet, packet.at, DropCause::Event),
            Some(QueueFate::Keep) | None => self.admit(port, packet),
        }
        self.peak_bytes = self.peak_bytes.max(self.backlog_bytes() + self.ahead.bytes());
    }

    fn pop(&mut self, now: Time) -> Option<(Port, Packet)> {
        if self.apart().is_some() {
            self.advance(now);
        }
        self.began = None;
        if let Some((port, packet, began)) = self.done.pop_front() {
            self.began = began;
            return Some((port, packet));
        }
        if let Some(Service { packet, begins, ends, .. }) = self.in_service.take_if(|service| service.ends <= now) {
            self.serve_next(ends);
            self.began = Some(begins);
            return Some((Port::Far, Packet { at: ends, ..packet }));
        }
        self.struck.as_mut()?.pop_migrating(now).map(|packet| (Port::Migration, packet))
    }

    fn stages(&self, left: Time) -> [Option<(Part, Time)>; 2] {
        match self.began {
            Some(began) => [Some((Part::Queue, began)), Some((Part::Transmission, left))],
            None => [Some((Part::Queue, left)), None],
        }
    }

    #[inline]
    fn wake_at(&self) -> Option<Time> {
        let mut wake = self.in_service.as_ref().map_or(Time::MAX, |service| service.ends);
        if let Some((_, packet, _)) = self.done.front() {
            wake = wake.min(packet.at);
        }
        if let Some(struck) = &self.struck {
            wake = wake.min(struck.wake_at());
        }
        (wake != Time::MAX).then_some(wake)
    }

    fn on_event(&mut self, event: &PathEvent) {
        match event {
            PathEvent::Leave { at, fate, scope } => {
                self.advance(*at);
                self.apply(*at, fate, scope, None);
                let late = Some(fate.queue).filter(|fate| *fate != QueueFate::Keep);
                match scope {
                    Scope::Crossings(crossings) => self.apart_or_new().set_fate(crossings, late),
                    Scope::All => self.struck().late_fate = Some(fate.queue),
                }
            }
            PathEvent::Join { scope: Scope::Crossings(crossings), .. } => {
                if let Some(apart) = self.apart_mut() {
                    apart.set_fate(crossings, None);
                }
            }
            PathEvent::Join { scope: Scope::All, .. } => {
                if let Some(struck) = &mut self.struck {
                    struck.late_fate = None;
                }
            }
            PathEvent::Await { until, scope: Scope::Crossings(crossings) } => self.apart_or_new().await_until(crossings, *until),
            PathEvent::Await { until, scope: Scope::All } => {
                let struck = self.struck();
                struck.awaits_until = struck.awaits_until.max(*until);
            }
            PathEvent::Close { at, until, fate, scope } => {
                self.advance(*at);
                self.apply(*at, fate, scope, Some(*until));
                if *scope != Scope::All {
                    return;
                }
                self.gate.close(*until);
                // The packet in transmission is transmitted from its first bit when the interruption ends.
                if let Some(Service { packet, .. }) = self.in_service.take() {
                    let migrated = self.struck.as_ref().is_some_and(|struck| struck.serves_migrated);
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
        arrivals.retain(|packet| matches!(self.fate_of(packet), None | Some(QueueFate::Keep)));
        if let Some(apart) = self.apart() {
            arrivals.extend(apart.iter());
            arrivals.sort_by_key(|packet| packet.at);
        }
        let awaits_until = self.awaits_until();
        let migrated = self.struck.iter().flat_map(|struck| &struck.migrated).map(|packet| (Time::ZERO, packet));
        let waiting = self.queue.iter().map(|packet| (awaits_until, packet));
        let arriving = arrivals.iter().map(|packet| (self.gate.earliest_start(packet.at.max(awaits_until)), packet));
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
        self.queue.bytes() + self.struck.as_ref().map_or(0, |struck| struck.backlog_bytes())
    }

    fn peak_backlog_bytes(&self) -> u64 {
        self.peak_bytes
    }

    fn reset_peak_backlog(&mut self) {
        self.peak_bytes = self.backlog_bytes();
    }

    fn packets(&self) -> usize {
        let struck = self.struck.as_ref().map_or(0, |struck| struck.packets());
        usize::from(self.in_service.is_some()) + self.queue.len() + self.done.len() + struck
    }
}

impl Migrate for Server {
    fn migrating(&self, arrivals: &[Packet]) -> Vec<Packet> {
        self.struck.as_ref().map_or_else(Vec::new, |struck| struck.migrating(arrivals))
    }

    fn queue(&self) -> &Queue {
        &self.queue
    }

    fn adopt_aqm_state(&mut self, queue: &Queue) {
        self.queue.adopt_aqm_state(queue);
    }
}
