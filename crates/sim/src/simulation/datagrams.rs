//! Datagrams of the flows' applications: the hosts send each once, over UDP, and whatever arrives goes to the other end.

use super::coding::Content;
use super::hashes::{DATAGRAMS, flow_of_datagram};
use super::{Simulation, index_u32};
use crate::error::SimError;
use bentpipe_apps::{Datagram, Event};
use bentpipe_link::{Outcome, Packet};
use bentpipe_profile::Time;

/// IPv4 and UDP headers [bytes].
const HEADER_BYTES: u32 = 28;

impl Simulation {
    /// Send a datagram of an application at the end `end` of a flow. One that has no route is lost.
    pub(crate) fn send_datagram(&mut self, flow: usize, end: usize, datagram: Datagram) {
        let owner = &self.flows[flow];
        let direction = if end == 0 { owner.direction() } else { owner.direction().reverse() };
        let bytes = datagram.bytes.saturating_add(HEADER_BYTES);
        let path = owner.path();
        let content = self.coding.is_some().then(|| Content::Datagram(datagram.clone(), self.now));
        let body = self.datagrams.put(datagram);
        let packet = Packet::new(self.now, path, direction, index_u32(flow), bytes, body);
        let mut packet = Packet { flow_hash: DATAGRAMS + index_u32(flow), ..packet };
        if let (Some(coding), Some(content)) = (&mut self.coding, content) {
            coding.label(flow, end == 0, &mut packet, content);
        }
        if let Err(packet) = self.network.send(packet) {
            self.datagrams.take(body);
            if let Some(coding) = &mut self.coding {
                coding.forget(&packet);
            }
        }
        self.send_parities();
    }

    /// Take datagrams out of the packets that left the network, and give those that arrived to the applications.
    pub(super) fn take_datagrams(&mut self, outcomes: &mut Vec<(Outcome, Packet)>) -> Result<(), Box<SimError>> {
        let flows = self.flows.len();
        if outcomes.iter().all(|(_, packet)| flow_of_datagram(packet, flows).is_none()) {
            return Ok(());
        }
        let mut left = Vec::new();
        outcomes.retain(|(outcome, packet)| {
            let flow = flow_of_datagram(packet, flows);
            left.extend(flow.map(|flow| (flow, *outcome, *packet)));
            flow.is_none()
        });
        for (flow, outcome, packet) in left {
            let Some(datagram) = self.datagrams.take(packet.body) else { continue };
            if outcome == Outcome::Delivered {
                self.packets += 1;
                let is_forward = packet.direction == self.flows[flow].direction();
                self.receive_datagram(flow, is_forward, packet.entered, datagram)?;
            }
        }
        self.flush()
    }

    /// Give a datagram that arrived now to the application at its end of the flow. `entered`: when it entered the network.
    pub(super) fn receive_datagram(
        &mut self,
        flow: usize,
        is_forward: bool,
        entered: Time,
        datagram: Datagram,
    ) -> Result<(), Box<SimError>> {
        if is_forward {
            self.flows[flow].count_datagram(datagram.bytes);
            if let Some(one_way) = &mut self.one_way {
                one_way.arrive(flow, entered, self.now);
            }
        }
        if self.now < self.flows[flow].stop {
            self.tell(flow, usize::from(is_forward), &Event::Datagram(datagram))?;
        }
        Ok(())
    }
}
