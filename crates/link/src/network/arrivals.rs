//! Arrivals from links of which another process runs one direction: nodes that exchange real packets.

use super::{Network, Outcome};
use crate::packet::{Packet, Role};

impl Network {
    /// Let a packet arrive at `packet.at` over a hop of its path, by the element at the far end of its direction: another process has passed it through the
    /// hop. It goes on over the newest route with this hop. Run the network until then first. Appends packets that leave the network to `out`.
    ///
    /// # Errors
    /// The packet itself, if no route so far has the hop.
    #[allow(clippy::cast_possible_truncation)] // counts were checked in `new`
    pub fn arrive(&mut self, hop: usize, mut packet: Packet, out: &mut Vec<(Outcome, Packet)>) -> Result<(), Packet> {
        let path = &mut self.paths[packet.path as usize];
        let Some(route) = path.newest_route_with(hop) else {
            path.no_route[packet.direction as usize] += 1;
            return Err(packet);
        };
        path.follow(&mut packet, route, hop);
        (packet.hop, packet.hop_entered, packet.marked) = (hop as u16, packet.at, None);
        if packet.role != Role::Control {
            path.count_entry(&packet);
        }
        let unit = path.leg_of(&packet).exit[packet.direction as usize];
        let mut exits = std::mem::take(&mut self.exits);
        self.links[(unit / 2) as usize].arrive((unit % 2) as usize, packet.at, packet, |direction, port, packet| {
            exits.push((unit & !1 | direction as u32, port, packet));
        });
        for unit in [unit, unit ^ 1] {
            self.reschedule(unit);
        }
        self.pass_on(&mut exits, out);
        self.exits = exits;
        Ok(())
    }
}
