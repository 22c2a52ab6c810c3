//! One direction of a link: its elements in the order in which packets pass them.

use crate::delay::Delay;
use crate::element::{Element, Port};
use crate::event::PathEvent;
use crate::jitter::Jitter;
use crate::loss::Loss;
use crate::migration::Migrate;
use crate::packet::Packet;
use crate::server::Server;
use crate::stages::Stage;
use bentpipe_profile::{HopDirection, Time};

/// Elements in sequence: capacity with its queue, grant schedule, loss, propagation. Each is present only if the link has it.
///
/// Loss comes after the queue, since a packet lost on the air has used the capacity. Jitter comes after the queue too, since the capacity series
/// is a flow's average over frames.
///
/// The elements are fields, in this order, and their wake-ups are stored beside them: where thousands of links do not fit into a cache, a packet loads the
/// lines of the elements that it passes and no others.
#[repr(C, align(64))]
pub struct Chain {
    /// When the server is due; `Time::MAX`: it is not.
    server_due: Time,
    /// When another element is due; `Time::MAX`: none is.
    others_due: Time,
    packets: u32,
    /// Whether the link has elements at its ends. Stored here, since packets load this cache line in any case.
    pub(crate) has_ends: bool,
    /// Whether events interrupt the link or packets migrate to it.
    pub(crate) interruptible: bool,
    /// How many paths that use an interruptible link may have packets that migrate to it: these go first, so later arrivals do change when a packet leaves.
    pub(crate) unsettled: u32,
    jitter: Option<Box<Jitter>>,
    loss: Option<Box<Loss>>,
    server: Option<Server>,
    delay: Option<Delay>,
}

impl Chain {
    /// Build all elements of one direction. `interruptible`: events close this link, so it needs a queue even without a capacity. `keys`: keys of
    /// the per-packet draws in the queue and behind it.
    #[must_use]
    pub fn full(side: &HopDirection, interruptible: bool, keys: [u64; 2]) -> Self {
        let server = (interruptible || side.capacity.is_some()).then(|| Server::new(side.capacity.clone(), side.queue, keys[0]));
        Self { interruptible, server, ..Self::behind_queue(side, keys[1]) }
    }

    /// Build only the capacity and its queue, which several links share. `key`: key of the queue's draws.
    #[must_use]
    pub fn queue_only(side: &HopDirection, key: u64) -> Self {
        Self { server: Some(Server::new(side.capacity.clone(), side.queue, key)), ..Self::EMPTY }
    }

    /// Build everything behind the capacity and its queue: the part that each link has for itself. `key`: key of the draws.
    #[must_use]
    pub fn behind_queue(side: &HopDirection, key: u64) -> Self {
        let loss = side.loss.as_ref().filter(|loss| loss.max() > 0);
        Self {
            jitter: side.jitter.clone().map(|schedule| Box::new(Jitter::new(schedule))),
            loss: loss.map(|loss| Box::new(Loss::new(loss.clone(), key))),
            delay: Some(Delay::new(side.delay.clone())),
            ..Self::EMPTY
        }
    }

    const EMPTY: Self = Self {
        server_due: Time::MAX,
        others_due: Time::MAX,
        packets: 0,
        has_ends: false,
        interruptible: false,
        unsettled: 0,
        jitter: None,
        loss: None,
        server: None,
        delay: None,
    };

    /// Push a packet into the first element.
    pub fn push(&mut self, port: Port, packet: Packet) {
        self.packets += 1;
        if let Some(server) = &mut self.server {
            server.push(port, packet);
            self.server_due = server.wake_at().unwrap_or(Time::MAX);
        } else if let Some(jitter) = &mut self.jitter {
            jitter.push(port, packet);
            self.update_others_due();
        } else if let Some(loss) = &mut self.loss {
            loss.push(port, packet);
            self.update_others_due();
        } else if let Some(delay) = &mut self.delay {
            delay.push(port, packet);
            self.update_others_due();
        }
    }

    fn update_others_due(&mut self) {
        let mut due = self.delay.as_ref().map_or(Time::MAX, Delay::next_at);
        if let Some(at) = self.jitter.as_ref().and_then(|jitter| jitter.wake_at()) {
            due = due.min(at);
        }
        if let Some(at) = self.loss.as_ref().and_then(|loss| loss.wake_at()) {
            due = due.min(at);
        }
        self.others_due = due;
    }

    /// Return whether the chain has a queue.
    #[must_use]
    pub const fn has_queue(&self) -> bool {
        self.server.is_some()
    }

    /// Move every packet that is due by `now` to the next element. Passes packets that leave the queue to `sent`, and those that leave the chain to `out`.
    /// Appends to `stages`, if given, how packets spent their time for which `is_recorded` is true.
    pub fn run(
        &mut self,
        now: Time,
        stages: Option<&mut Vec<Stage>>,
        is_recorded: impl Fn(&Packet) -> bool,
        mut sent: impl FnMut(&mut Packet),
        out: impl FnMut(Port, Packet),
    ) {
        let Self { server, jitter, loss, delay, packets, .. } = self;
        let mut exits = Exits { packets, stages, is_recorded, out };
        if self.server_due <= now
            && let Some(server) = server
        {
            exits.drain(server, now, |mut packet| {
                sent(&mut packet);
                if let Some(jitter) = jitter {
                    jitter.push(Port::Near, packet);
                } else if let Some(loss) = loss {
                    loss.push(Port::Near, packet);
                } else if let Some(delay) = delay {
                    delay.push(Port::Near, packet);
                } else {
                    return Some(packet);
                }
                None
            });
            self.server_due = server.wake_at().unwrap_or(Time::MAX);
        }
        if let Some(jitter) = jitter {
            exits.drain(&mut **jitter, now, |packet| {
                if let Some(loss) = loss {
                    loss.push(Port::Near, packet);
                } else if let Some(delay) = delay {
                    delay.push(Port::Near, packet);
                }
                None
            });
        }
        if let Some(loss) = loss {
            exits.drain(&mut **loss, now, |packet| {
                if let Some(delay) = delay {
                    delay.push(Port::Near, packet);
                }
                None
            });
        }
        if let Some(delay) = delay {
            exits.drain(delay, now, Some);
        }
        self.update_others_due();
    }

    /// Return whether packets pass only a queue and propagation, so that both may be computed ahead of time.
    const fn is_plain(&self) -> bool {
        self.jitter.is_none() && self.loss.is_none() && !self.has_ends && self.server.is_some() && self.delay.is_some()
    }

    /// Move every packet whose transmission ends before `before` into propagation, ahead of its time ([`Server::pop_ahead`]).
    pub(crate) fn transmit_ahead(&mut self, before: Time) {
        if self.server_due >= before || self.unsettled > 0 || !self.is_plain() {
            return;
        }
        if let (Some(server), Some(delay)) = (&mut self.server, &mut self.delay) {
            while let Some(packet) = server.pop_ahead(before) {
                delay.push(Port::Near, packet);
            }
            self.server_due = server.wake_at().unwrap_or(Time::MAX);
        }
        self.update_others_due();
    }

    /// Return the next packet in propagation if it leaves the link before `before`. `None`, too, if the link does more than propagate packets behind its queue.
    #[inline]
    pub(crate) fn next_before(&self, before: Time) -> Option<&Packet> {
        if self.others_due >= before || !self.is_plain() {
            return None;
        }
        self.delay.as_ref()?.next_before(before)
    }

    /// Remove and return the packet that [`Chain::next_before`] returned.
    pub(crate) fn pop_ahead(&mut self) -> Option<Packet> {
        let (_, packet) = self.delay.as_mut()?.pop(Time::MAX)?;
        self.packets -= 1;
        self.update_others_due();
        Some(packet)
    }

    /// Let a packet that arrives, and that [`Chain::will_send`] allows, pass the link before its time. Returns it as it leaves, if that is before `before`;
    /// otherwise it waits inside.
    #[inline]
    pub(crate) fn pass_ahead(&mut self, packet: Packet, before: Time) -> Option<Packet> {
        if let (Some(server), Some(delay)) = (&mut self.server, &mut self.delay)
            && let Some(ends) = server.send_ahead(&packet, before)
        {
            let packet = delay.delayed(Packet { at: ends, ..packet });
            if packet.at < before && self.others_due == Time::MAX {
                return Some(packet);
            }
            self.propagate(packet);
            return None;
        }
        self.push(Port::Near, packet);
        None
    }

    /// Keep a packet in propagation that leaves at `packet.at`.
    pub(crate) fn propagate(&mut self, packet: Packet) {
        if let Some(delay) = &mut self.delay {
            self.packets += 1;
            delay.keep(packet);
            self.others_due = self.others_due.min(packet.at);
        }
    }

    /// Return whether a packet of `bytes` that arrives at `at`, after all others so far, will be sent, with times that are known when it arrives.
    pub(crate) fn will_send(&mut self, at: Time, bytes: u16) -> bool {
        self.unsettled == 0 && self.is_plain() && self.server.as_mut().is_some_and(|server| server.will_send(at, bytes))
    }

    /// Return when the next packet is due; `None`: no packet is.
    #[must_use]
    #[inline]
    pub fn wake_at(&self) -> Option<Time> {
        Some(self.server_due.min(self.others_due)).filter(|at| *at != Time::MAX)
    }

    /// Iterate over the elements, in the order in which packets pass them.
    fn elements(&self) -> impl Iterator<Item = &dyn Element> {
        let server = self.server.as_ref().map(|server| server as &dyn Element);
        let jitter = self.jitter.as_deref().map(|jitter| jitter as &dyn Element);
        let loss = self.loss.as_deref().map(|loss| loss as &dyn Element);
        let delay = self.delay.as_ref().map(|delay| delay as &dyn Element);
        [server, jitter, loss, delay].into_iter().flatten()
    }

    /// Predict when the packets inside, followed by `arrivals`, leave downstream ([`Element::departures`]).
    #[must_use]
    pub fn departures(&self, arrivals: Vec<Packet>) -> Vec<Packet> {
        self.elements().fold(arrivals, |arrivals, element| element.departures(arrivals))
    }

    /// Pass the event to every element.
    pub fn on_event(&mut self, event: &PathEvent) {
        if let Some(server) = &mut self.server {
            server.on_event(event);
            self.server_due = server.wake_at().unwrap_or(Time::MAX);
        }
        if let Some(jitter) = &mut self.jitter {
            jitter.on_event(event);
        }
        if let Some(loss) = &mut self.loss {
            loss.on_event(event);
        }
        if let Some(delay) = &mut self.delay {
            delay.on_event(event);
        }
        self.update_others_due();
    }

    /// Return the queue that can migrate, if there is one.
    #[must_use]
    pub fn migration(&self) -> Option<&dyn Migrate> {
        self.server.as_ref().and_then(|server| server.migration())
    }

    /// As [`Chain::migration`], mutable.
    pub fn migration_mut(&mut self) -> Option<&mut dyn Migrate> {
        self.server.as_mut().and_then(|server| server.migration_mut())
    }

    /// Return the number of packets inside.
    #[must_use]
    pub const fn packets(&self) -> usize {
        self.packets as usize
    }

    /// Return the bytes that wait for capacity.
    #[must_use]
    pub fn backlog_bytes(&self) -> u64 {
        self.server.as_ref().map_or(0, Element::backlog_bytes)
    }

    /// Return the largest [`Chain::backlog_bytes`] since [`Chain::reset_peak_backlog`].
    #[must_use]
    pub fn peak_backlog_bytes(&self) -> u64 {
        self.server.as_ref().map_or(0, Element::peak_backlog_bytes)
    }

    /// Set the peak backlog to the current backlog: a new window begins.
    pub fn reset_peak_backlog(&mut self) {
        if let Some(server) = &mut self.server {
            server.reset_peak_backlog();
        }
    }
}

/// The way out of a chain while it runs.
struct Exits<'a, R, O> {
    packets: &'a mut u32,
    stages: Option<&'a mut Vec<Stage>>,
    is_recorded: R,
    out: O,
}

impl<R: Fn(&Packet) -> bool, O: FnMut(Port, Packet)> Exits<'_, R, O> {
    /// Move every packet that is due by `now` out of an element. `next` passes one that leaves on the far side to the next element, or returns it if there
    /// is none.
    #[inline]
    fn drain<E: Element>(&mut self, element: &mut E, now: Time, mut next: impl FnMut(Packet) -> Option<Packet>) {
        while let Some((port, packet)) = element.pop(now) {
            if let Some(stages) = &mut self.stages
                && (self.is_recorded)(&packet)
            {
                let Packet { body, route, position, at, .. } = packet;
                let spent = element.stages(at).into_iter().flatten();
                stages.extend(spent.map(|(part, until)| Stage { body, route, position, part, until }));
            }
            if let Some(packet) = if port == Port::Far { next(packet) } else { Some(packet) } {
                *self.packets -= 1;
                (self.out)(port, packet);
            }
        }
    }
}
