//! Packets ahead of their time: several hops in one event.
//!
//! In a drop-tail queue without events, a packet's arrival determines when its transmission and its propagation end: later arrivals change nothing. If, besides, all
//! packets of the next unit come from this one (it is *solo*), the packet's arrival there is known as well, and so on along the path. Such a packet passes all these
//! hops in one event, with the same times, counters and order as one by one. It waits, in propagation, in front of the first unit where packets of several
//! paths meet, of a drop, of an event and of the host.
//!
//! All this holds until something else looks at the state or changes it: the driver says until when it reads nothing ([`Network::look_ahead_to`]), and the
//! next change of the network is known.

use super::Network;
use super::path::{Hop, Path};
use crate::link::Link;
use crate::packet::Packet;
use bentpipe_profile::Time;

impl Network {
    /// Allow packets to pass links ahead of their time, up to just before `until`. The driver reads no statistics and no backlogs before, and sends packets in
    /// order of time. Outcomes still come at their times. Only the order of packets that arrive at one nanosecond over different links may differ.
    pub const fn look_ahead_to(&mut self, until: Time) {
        self.look_ahead = until;
    }

    /// Keep the record of the links to which packets of a path may migrate, after the path's counts of packets have changed.
    ///
    /// Packets that migrate were inside when an event struck their path. Once they have left, packets are served in order of arrival until the next event: the
    /// links of the current route take what arrives.
    #[inline]
    pub(super) fn settle(&mut self, path: u32) {
        let Path { is_unsettled, .. } = self.paths[path as usize];
        if self.paths[path as usize].has_older() != is_unsettled {
            self.count_unsettled(path as usize, !is_unsettled);
        }
    }

    #[cold]
    fn count_unsettled(&mut self, path: usize, is_unsettled: bool) {
        self.paths[path].is_unsettled = is_unsettled;
        for unit in self.paths[path].hops.iter().flat_map(Hop::units) {
            let chain = self.links[(unit / 2) as usize].chain_mut((unit % 2) as usize);
            if chain.interruptible {
                chain.unsettled = if is_unsettled { chain.unsettled + 1 } else { chain.unsettled - 1 };
            }
        }
    }

    /// Let no link look ahead that events strike: ends of links may send packets to others at any time.
    pub(super) fn unsettle_for_ever(&mut self) {
        for chain in self.links.iter_mut().flat_map(Link::chains_mut).filter(|chain| chain.interruptible) {
            chain.unsettled += 1;
        }
    }

    /// Return whether packets may be ahead of their time.
    #[inline]
    pub(super) const fn is_ahead(&self) -> bool {
        self.look_ahead.0 > 0 && self.stages.is_none()
    }

    /// Return the time before which nothing changes or reads the state.
    #[inline]
    fn horizon(&self) -> Time {
        self.changes.next_at().map_or(self.look_ahead, |at| at.min(self.look_ahead))
    }

    /// Move the packets of `unit` on as far as they can be computed, and schedule its next wake-up and those of the units that they enter.
    pub(super) fn run_ahead(&mut self, unit: u32) {
        let before = self.horizon();
        let mut pending = std::mem::take(&mut self.pending);
        let mut next = Some(unit);
        while let Some(unit) = next {
            let chain = self.chain_mut(unit);
            chain.transmit_ahead(before);
            while let Some((onward, packet)) = self.pop_ahead(unit, before) {
                let packet = self.cross_ahead(packet);
                let stopped = self.carry(onward, packet, before);
                if pending.last() != Some(&stopped) {
                    pending.push(stopped);
                }
            }
            self.reschedule(unit);
            next = pending.pop();
        }
        self.pending = pending;
    }

    /// Let a packet that enters `unit` now pass this and further links in one event, if the unit will send it. Returns it if not.
    pub(super) fn enter_ahead(&mut self, unit: u32, packet: Packet) -> Option<Packet> {
        if !self.chain_mut(unit).will_send(packet.at, packet.bytes) {
            return Some(packet);
        }
        let stopped = self.carry(unit, packet, self.horizon());
        self.run_ahead(stopped);
        None
    }

    /// Carry a packet from its arrival at `unit`, which will send it, as far as its times are known before `before`. Returns the unit where it waits.
    fn carry(&mut self, mut unit: u32, mut packet: Packet, before: Time) -> u32 {
        while let Some(passed) = self.chain_mut(unit).pass_ahead(packet, before) {
            let Some(onward) = self.onward(&passed) else {
                self.chain_mut(unit).propagate(passed);
                break;
            };
            packet = self.cross_ahead(passed);
            unit = onward;
        }
        unit
    }

    /// Remove and return the next packet in propagation if it can enter its next unit before its time, with that unit.
    #[inline]
    fn pop_ahead(&mut self, unit: u32, before: Time) -> Option<(u32, Packet)> {
        let &packet = self.chain(unit).next_before(before)?;
        let onward = self.onward(&packet)?;
        self.chain_mut(unit).pop_ahead().map(|packet| (onward, packet))
    }

    /// Return the unit that a packet can enter before its time, once it has crossed its link.
    #[inline]
    fn onward(&mut self, packet: &Packet) -> Option<u32> {
        let onward = self.paths[packet.path as usize].next_unit(packet).filter(|&onward| self.solo[onward as usize])?;
        self.chain_mut(onward).will_send(packet.at, packet.bytes).then_some(onward)
    }

    /// Count a packet that has crossed its link, and let it enter the next hop.
    fn cross_ahead(&mut self, mut packet: Packet) -> Packet {
        let path = &mut self.paths[packet.path as usize];
        let direction = packet.direction as usize;
        let inside = packet.at.since(packet.hop_entered);
        path.hops[usize::from(packet.hop)].sides[direction].stats.delivered(packet.flow.min(self.separate_flows), &packet, inside);
        if direction == 0 {
            packet.position += 1;
        } else {
            packet.position -= 1;
        }
        (packet.hop, packet.hop_entered, packet.marked) = (path.leg_of(&packet).hop, packet.at, None);
        packet
    }
}
