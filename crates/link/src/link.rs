//! A link between two nodes: both directions, and the elements at its ends.
//!
//! ```text
//!            far ▸        direction 0: queue, schedule, loss, delay         ◂ far
//!   near ▸ [ end 0 ] ═══════════════════════════════════════════════▶ [ end 1 ] ▸ near
//!   near ◂ [       ] ◀═══════════════════════════════════════════════ [       ] ◂ near
//!                         direction 1: queue, schedule, loss, delay
//! ```
//! Most links have no elements at their ends. Where they have, as for loss recovery inside the network, an end sees the packets of both directions: it can
//! number those that it sends, answer over the other direction, and send packets that it keeps once more. It is told when a packet leaves the queue, so that
//! numbers are in the order of transmission and a drop in the queue is no gap in them. What it sends ahead of the queue ([`Port::Ahead`]) waits only for the
//! packet in transmission. Where several links share a queue, its ends stand behind it, and what they send ahead enters the shared queue.
//!
//! Whatever the ends do, each packet of a host leaves the link once: the link records which ones are inside, and ignores further copies. Copies and control
//! packets use the capacity of their direction like any other packet.

use crate::cause::{DropCause, DropCounts};
use crate::chain::Chain;
use crate::element::{Element, Port};
use crate::event::PathEvent;
use crate::packet::{Packet, Role};
use crate::stages::Stage;
use bentpipe_profile::{Direction, Time};
use std::collections::BTreeMap;

/// Both directions of a link (see the module).
pub struct Link {
    chains: [Chain; 2],
    ends: Option<Box<Ends>>,
}

/// The elements at the ends, and the hosts' packets between them.
struct Ends {
    elements: [Box<dyn Element>; 2],
    /// By direction.
    inside: [Inside; 2],
    /// Copies and control packets that the link dropped, by direction.
    drops: [DropCounts; 2],
    /// Whether the queue is another link's, which this one shares.
    behind_queue: bool,
}

/// The hosts' packets of one direction, by the number that the link gave them.
#[derive(Default)]
struct Inside {
    next: u32,
    /// Path and direction of each, since both directions of the link use the same numbers.
    packets: BTreeMap<u32, (u32, Direction)>,
}

impl Inside {
    /// Give a packet that enters the link its number.
    fn enter(&mut self, packet: &mut Packet) {
        packet.sequence = self.next;
        self.next = self.next.wrapping_add(1);
        self.packets.insert(packet.sequence, (packet.path, packet.direction));
    }

    /// Return whether the packet, or one that it is a copy of, is inside.
    fn holds(&self, packet: &Packet) -> bool {
        packet.role != Role::Control && self.packets.get(&packet.sequence) == Some(&(packet.path, packet.direction))
    }
}

impl Link {
    /// Create a link from its two directions.
    #[must_use]
    pub const fn new(chains: [Chain; 2]) -> Self {
        Self { chains, ends: None }
    }

    /// Put elements at the ends of the link ([`crate::Network::set_ends`]). `behind_queue`: the queue is another link's.
    pub(crate) fn set_ends(&mut self, elements: [Box<dyn Element>; 2], behind_queue: bool) {
        self.chains.iter_mut().for_each(|chain| chain.has_ends = true);
        self.ends = Some(Box::new(Ends { elements, inside: Default::default(), drops: Default::default(), behind_queue }));
    }

    /// Return whether the link has elements at its ends, so that a packet of one direction may cause one of the other.
    #[must_use]
    pub const fn has_ends(&self) -> bool {
        self.ends.is_some()
    }

    /// Return one direction.
    #[must_use]
    pub const fn chain(&self, direction: usize) -> &Chain {
        &self.chains[direction]
    }

    /// Return one direction, mutable.
    pub const fn chain_mut(&mut self, direction: usize) -> &mut Chain {
        &mut self.chains[direction]
    }

    /// Accept a packet of a host, or one that an end sent ahead of a shared queue. A packet of another link's queue ([`Port::Migration`]) or end
    /// ([`Port::Ahead`]) enters the queue behind the end.
    #[inline]
    pub fn push(&mut self, direction: usize, port: Port, mut packet: Packet) {
        if self.chains[direction].has_ends
            && let Some(ends) = &mut self.ends
        {
            if packet.role == Role::Host {
                ends.inside[direction].enter(&mut packet);
            }
            if port == Port::Near {
                return ends.elements[direction].push(port, packet);
            }
            if !self.chains[direction].has_queue() {
                ends.elements[direction].on_sent(&mut packet);
            }
        }
        self.chains[direction].push(port, packet);
    }

    /// Process what is due in one direction by `now`, and what its end does. Passes packets of hosts that leave the link to `out`, with their direction.
    /// Appends to `stages`, if given, how packets of hosts that are inside spent their time. If the link has ends, the other direction may be due earlier afterwards.
    pub fn run(&mut self, direction: usize, now: Time, stages: Option<&mut Vec<Stage>>, mut out: impl FnMut(usize, Port, Packet)) {
        if !self.chains[direction].has_ends {
            let is_hosts = |packet: &Packet| packet.role != Role::Control;
            return self.chains[direction].run(now, stages, is_hosts, |_| {}, |port, packet| out(direction, port, packet));
        }
        let Some(ends) = &mut self.ends else { return };
        ends.run(direction, now, &mut self.chains, &mut out);
        let mut exits = Vec::new();
        let Ends { elements, inside, .. } = &mut **ends;
        let (end, inside) = (&mut elements[direction], &inside[direction]);
        let sent = |packet: &mut Packet| end.on_sent(packet);
        self.chains[direction].run(now, stages, |packet| inside.holds(packet), sent, |port, packet| exits.push((port, packet)));
        for (port, packet) in exits {
            ends.cross(direction, port, packet, &mut out);
        }
        ends.run(1 - direction, now, &mut self.chains, &mut out);
    }

    /// Accept a packet that has crossed `direction` in another process, by the element at the far end. Passes packets of hosts that leave the link to `out`.
    pub(crate) fn arrive(&mut self, direction: usize, now: Time, mut packet: Packet, mut out: impl FnMut(usize, Port, Packet)) {
        let Some(ends) = &mut self.ends else { return out(direction, Port::Far, packet) };
        if packet.role != Role::Control {
            ends.inside[direction].enter(&mut packet);
        }
        ends.cross(direction, Port::Far, packet, &mut out);
        ends.run(1 - direction, now, &mut self.chains, &mut out);
    }

    /// Iterate over both directions, mutable.
    pub(crate) fn chains_mut(&mut self) -> impl Iterator<Item = &mut Chain> {
        self.chains.iter_mut()
    }

    /// Pass an event to the elements of one direction and to the end at its beginning.
    pub fn on_event(&mut self, direction: usize, event: &PathEvent) {
        self.chains[direction].on_event(event);
        if let Some(ends) = &mut self.ends {
            ends.elements[direction].on_event(event);
        }
    }

    /// Return when [`Link::run`] is due for a direction; `None`: nothing is.
    #[must_use]
    #[inline]
    pub fn wake_at(&self, direction: usize) -> Option<Time> {
        let chain = self.chains[direction].wake_at();
        if !self.chains[direction].has_ends {
            return chain;
        }
        let end = self.ends.as_ref().and_then(|ends| ends.elements[direction].wake_at());
        [chain, end].into_iter().flatten().min()
    }

    /// Record that a copy or control packet, sent ahead of a shared queue, left that queue by `port` and not into this link. Returns the host's packet that
    /// leaves the link with it, if it is still inside.
    pub(crate) fn leave_queue(&mut self, direction: usize, port: Port, packet: Packet) -> Option<Packet> {
        let ends = self.ends.as_mut()?;
        if let (Role::Control, Port::Drop(cause)) = (packet.role, port) {
            ends.drops[direction].count(cause);
        }
        let mut left = None;
        ends.leave(direction, port, packet, &mut |_, _, packet| left = Some(packet));
        left
    }

    /// Return the number of packets of hosts inside.
    #[must_use]
    pub fn packets(&self) -> usize {
        match &self.ends {
            None => self.chains.iter().map(Chain::packets).sum(),
            Some(ends) => ends.inside.iter().map(|inside| inside.packets.len()).sum(),
        }
    }

    /// Return the copies and control packets that one direction has dropped, by cause. They are no drops of hosts' packets.
    #[must_use]
    pub fn own_drops(&self, direction: usize) -> DropCounts {
        self.ends.as_ref().map_or_else(DropCounts::default, |ends| ends.drops[direction])
    }
}

impl Ends {
    /// Move what the end at the start of `direction` has to send.
    fn run(&mut self, direction: usize, now: Time, chains: &mut [Chain; 2], out: &mut impl FnMut(usize, Port, Packet)) {
        while let Some((port, packet)) = self.elements[direction].pop(now) {
            match port {
                Port::Ahead if self.behind_queue => out(direction, port, Packet { role: packet.role.of_sent_ahead(), ..packet }),
                Port::Far | Port::Ahead => self.transmit(direction, port, packet, chains),
                // The end is the last that packets of the other direction pass, and the first of this one.
                Port::Near => self.leave(1 - direction, Port::Far, packet, out),
                // It may give up packets of either direction.
                Port::Drop(_) | Port::Onward | Port::Migration => {
                    if let Some(direction) = (0..2).find(|&direction| self.inside[direction].holds(&packet)) {
                        self.leave(direction, port, packet, out);
                    }
                }
            }
        }
    }

    /// Pass a packet into the chain of `direction`.
    fn transmit(&mut self, direction: usize, port: Port, mut packet: Packet, chains: &mut [Chain; 2]) {
        if !chains[direction].has_queue() {
            self.elements[direction].on_sent(&mut packet);
        }
        chains[direction].push(if port == Port::Far { Port::Near } else { port }, packet);
    }

    /// Handle a packet that left the chain of `direction`.
    fn cross(&mut self, direction: usize, port: Port, packet: Packet, out: &mut impl FnMut(usize, Port, Packet)) {
        match (port, packet.role) {
            (Port::Far, _) => self.elements[1 - direction].push(Port::Far, packet),
            (_, Role::Host) => self.leave(direction, port, packet, out),
            (Port::Drop(cause), _) => self.drops[direction].count(cause),
            // A copy does not follow its path to another link: the end that keeps the packet decides.
            (Port::Near | Port::Migration | Port::Ahead | Port::Onward, _) => self.drops[direction].count(DropCause::Event),
        }
    }

    /// Let a packet of a host leave the link, unless it is a copy of one that has left.
    fn leave(&mut self, direction: usize, port: Port, packet: Packet, out: &mut impl FnMut(usize, Port, Packet)) {
        if self.inside[direction].holds(&packet) {
            self.inside[direction].packets.remove(&packet.sequence);
            out(direction, port, Packet { role: Role::Host, ..packet });
        }
    }
}
