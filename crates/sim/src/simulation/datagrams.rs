//! Datagrams of the flows' applications: the hosts send each once, over UDP, and whatever arrives goes to the other end.

use super::{Simulation, index_u32};
use crate::error::SimError;
use bentpipe_apps::{Datagram, Event};
use bentpipe_link::{Outcome, Packet};

/// Packets of flow `n`'s datagrams have this hash plus `n`; connections have smaller ones, and pings larger ones.
const FIRST_HASH: u32 = 1 << 31;

/// IPv4 and UDP headers [bytes].
const HEADER_BYTES: u32 = 28;

impl Simulation {
    /// Send a datagram of an application at the end `end` of a flow. One that has no route is lost.
    pub(crate) fn send_datagram(&mut self, flow: usize, end: usize, datagram: Datagram) {
        let owner = &self.flows[flow];
        let direction = if end == 0 { owner.direction() } else { owner.direction().reverse() };
        let bytes = datagram.bytes.saturating_add(HEADER_BYTES);
        let body = self.datagrams.put(datagram);
        let packet = Packet::new(self.now, owner.path(), direction, index_u32(flow), bytes, body);
        if self.network.send(Packet { flow_hash: FIRST_HASH + index_u32(flow), ..packet }).is_err() {
            self.datagrams.take(body);
        }
    }

    /// Take datagrams out of the packets that left the network, and give those that arrived to the applications.
    pub(super) fn take_datagrams(&mut self, outcomes: &mut Vec<(Outcome, Packet)>) -> Result<(), Box<SimError>> {
        let flow_of = |packet: &Packet| {
            let flow = packet.flow_hash.checked_sub(FIRST_HASH).map(|flow| flow as usize);
            flow.filter(|&flow| flow < self.flows.len())
        };
        if outcomes.iter().all(|(_, packet)| flow_of(packet).is_none()) {
            return Ok(());
        }
        let mut left = Vec::new();
        outcomes.retain(|(outcome, packet)| {
            let flow = flow_of(packet);
            left.extend(flow.map(|flow| (flow, *outcome, *packet)));
            flow.is_none()
        });
        for (flow, outcome, packet) in left {
            let Some(datagram) = self.datagrams.take(packet.body) else { continue };
            if outcome != Outcome::Delivered {
                continue;
            }
            self.packets += 1;
            let is_forward = packet.direction == self.flows[flow].direction();
            if is_forward {
                self.flows[flow].count_datagram(datagram.bytes);
                if let Some(one_way) = &mut self.one_way {
                    one_way.arrive(flow, &packet);
                }
            }
            if self.now < self.flows[flow].stop {
                self.tell(flow, usize::from(is_forward), &Event::Datagram(datagram))?;
            }
        }
        self.flush()
    }
}
