//! Stops: places inside a path where packets leave the network and may enter it again, such as a proxy on a satellite.

use super::{Network, Outcome};
use crate::element::Port;
use crate::error::NetworkError;
use crate::packet::Packet;
use bentpipe_profile::Direction;

impl Network {
    /// Let all packets of a path leave the network at these stops, before packets enter it. `places`: for each route, the number of hops between the
    /// terminal and each stop, in ascending order; each route that has hops has the same number of stops, all of them inside it. The driver sends a packet on
    /// by [`Network::send_from`].
    ///
    /// # Errors
    /// A path that does not exist or has stops already, places that its routes do not have, or a network that carries packets.
    pub fn set_stops(&mut self, path: usize, places: &[Vec<u16>]) -> Result<(), NetworkError> {
        let is_empty = self.packets() == 0;
        let paths = self.paths.len();
        let (problem, expected) = match self.paths.get_mut(path) {
            None => ("it does not exist", format!("0 to {}", paths.saturating_sub(1))),
            Some(_) if !is_empty => ("the network carries packets", "stops that are set before packets enter".to_owned()),
            Some(path) if path.has_stops() => ("it has stops already", "stops that are set once".to_owned()),
            Some(path) => {
                if path.set_stops(places) {
                    return Ok(());
                }
                ("its routes do not have these places", "as many places inside each route that has hops, in ascending order".to_owned())
            }
        };
        Err(NetworkError::Stops { path, problem, expected })
    }

    /// Return the stop where a packet has left the network, counted from the terminal; `None`: it has left at an end of its path.
    #[must_use]
    pub fn stop_of(&self, packet: &Packet) -> Option<usize> {
        self.paths[packet.path as usize].stop_of(packet)
    }

    /// Send a packet into its path from a stop, in its direction, over the current route. `Err`: there is no route, and the packet is dropped.
    ///
    /// # Errors
    /// The packet itself, if the current route is empty.
    #[allow(clippy::cast_possible_truncation)] // counts were checked in `new`
    pub fn send_from(&mut self, stop: usize, mut packet: Packet) -> Result<(), Packet> {
        let path = &mut self.paths[packet.path as usize];
        let Some(place) = path.routes[path.current].stops.get(stop).copied() else {
            path.no_route[packet.direction as usize] += 1;
            return Err(packet);
        };
        packet.route = path.current as u16;
        packet.position = match packet.direction {
            Direction::Up => place,
            Direction::Down => place - 1,
        };
        path.count_entry(&packet);
        self.settle(packet.path);
        self.enter(packet, Port::Near);
        Ok(())
    }

    /// Let a packet leave the network at a stop.
    pub(super) fn stop(&mut self, packet: Packet, out: &mut Vec<(Outcome, Packet)>) {
        self.paths[packet.path as usize].count_exit(&packet);
        self.settle(packet.path);
        out.push((Outcome::Delivered, packet));
    }
}
