//! Elements at the ends of a path: where its packets enter the network, and where they leave it.

use super::path::PathEnd;
use super::wakes::MAX_UNITS;
use super::{Network, Outcome};
use crate::element::{Element, Port};
use crate::error::NetworkError;
use crate::packet::Packet;
use bentpipe_profile::{Direction, Time};

impl Network {
    /// Put elements at the ends of one direction of a path, before packets enter it: `[ingress, egress]`. Packets enter the ingress by [`Port::Near`] and leave it
    /// by [`Port::Far`] at the same time. They enter the egress by [`Port::Far`] and leave it by [`Port::Near`] or [`Port::Drop`], possibly later.
    ///
    /// # Errors
    /// A path that does not exist or has these ends already, a network that carries packets, or too many such paths.
    #[allow(clippy::cast_possible_truncation)] // counts were checked in `new`
    pub fn set_path_ends(
        &mut self,
        path: usize,
        direction: Direction,
        [ingress, egress]: [Box<dyn Element>; 2],
    ) -> Result<(), NetworkError> {
        if self.due.len() >= MAX_UNITS {
            return Err(NetworkError::TooMany { items: "paths with ends", count: self.egresses.len() + 1, max: self.egresses.len() });
        }
        let is_empty = self.packets() == 0;
        let paths = self.paths.len();
        let (problem, expected) = match self.paths.get_mut(path).map(|path| &mut path.ends.get_or_insert_default()[direction as usize]) {
            None => ("it does not exist", format!("0 to {}", paths.saturating_sub(1))),
            Some(Some(_)) => ("it has ends already", "ends that are set once".to_owned()),
            Some(None) if !is_empty => ("the network carries packets", "ends that are set before packets enter".to_owned()),
            Some(ends) => {
                *ends = Some(PathEnd { ingress, egress, unit: self.due.len() as u32 });
                self.due.push(Time::MAX);
                self.egresses.push((path as u32, direction));
                return Ok(());
            }
        };
        Err(NetworkError::PathEnds { path, problem, expected })
    }

    /// Pass a packet that enters the network through the ingress of its path, if it has one.
    #[inline]
    pub(super) fn pass_ingress(&mut self, packet: Packet) -> Packet {
        let Some(PathEnd { ingress, .. }) = self.paths[packet.path as usize].end(packet.direction) else { return packet };
        ingress.push(Port::Near, packet);
        ingress.pop(packet.at).map_or(packet, |(_, packet)| packet)
    }

    /// Let a packet that has crossed its route leave the network, through the egress of its path if it has one.
    #[inline]
    pub(super) fn leave(&mut self, packet: Packet, out: &mut Vec<(Outcome, Packet)>) {
        let path = &mut self.paths[packet.path as usize];
        path.count_exit(&packet);
        self.settle(packet.path);
        let path = &mut self.paths[packet.path as usize];
        let Some(PathEnd { egress, unit, .. }) = path.end(packet.direction) else {
            out.push((Outcome::Delivered, packet));
            return;
        };
        let unit = *unit;
        egress.push(Port::Far, packet);
        self.reschedule(unit);
    }

    /// Return the path and the direction of an egress by its number among the wake-ups; `None`: the number is a unit's.
    fn egress_of(&self, unit: u32) -> Option<(usize, Direction)> {
        let number = (unit as usize).checked_sub(2 * self.links.len())?;
        self.egresses.get(number).map(|&(path, direction)| (path as usize, direction))
    }

    /// Return when an egress is due; `None`: it is not, or the number is a unit's.
    pub(super) fn egress_wake(&self, unit: u32) -> Option<Time> {
        let (path, direction) = self.egress_of(unit)?;
        self.paths[path].ends.as_ref()?[direction as usize].as_ref()?.egress.wake_at()
    }

    /// Process what is due in an egress. Returns whether the number is that of one.
    pub(super) fn run_egress(&mut self, unit: u32, at: Time, out: &mut Vec<(Outcome, Packet)>) -> bool {
        let Some((path, direction)) = self.egress_of(unit) else { return false };
        self.due[unit as usize] = Time::MAX;
        if let Some(PathEnd { egress, .. }) = self.paths[path].end(direction) {
            while let Some((port, packet)) = egress.pop(at) {
                let outcome = if let Port::Drop(cause) = port { Outcome::Dropped(cause) } else { Outcome::Delivered };
                out.push((outcome, packet));
            }
        }
        self.reschedule(unit);
        true
    }

    /// Return the number of packets in the elements at the ends of paths.
    pub(super) fn packets_at_path_ends(&self) -> usize {
        let ends = self.paths.iter().filter_map(|path| path.ends.as_ref()).flat_map(|ends| ends.iter().flatten());
        ends.map(|end| end.egress.packets()).sum()
    }
}
