//! What controllers without a real counterpart are told: losses that are no congestion ([`Knowledge`]). The capacity they get with their connection.

use super::Simulation;
use bentpipe_cc::knowledge::Knowledge;
use bentpipe_link::{DropCause, Outcome, Packet};
use bentpipe_profile::Direction;
use bentpipe_transport::TcpPacket;

impl Simulation {
    /// Tell the senders of packets that were dropped, and not by a queue.
    pub(super) fn tell_losses(&mut self, outcomes: &[(Outcome, Packet)]) {
        for (outcome, packet) in outcomes {
            let (Outcome::Dropped(DropCause::Loss | DropCause::Event | DropCause::NoRoute), Some(TcpPacket::Segment(segment, _))) =
                (outcome, self.payloads.get(packet.body))
            else {
                continue;
            };
            if let Some(Some(connection)) = self.connections.get_mut(packet.flow_hash as usize) {
                let is_forward = (packet.direction == Direction::Up) == (connection.direction == Direction::Up);
                connection.ends[usize::from(!is_forward)].on_knowledge(&Knowledge::RandomLoss(segment.seq));
            }
        }
    }
}
