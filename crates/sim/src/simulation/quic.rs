//! QUIC connections of the flows' applications. They are numbered with those of TCP.

use super::coding::Content;
use super::hashes::{QUIC, connection_of_quic};
use super::{Simulation, index_i64, index_u32};
use crate::error::SimError;
use crate::payloads::Payloads;
use crate::quic::QuicConnection;
use bentpipe_apps::{Event, Message, Mistake, StreamId};
use bentpipe_link::{Outcome, Packet};
use bentpipe_profile::run::{EventRow, Row, RunSink as _};
use bentpipe_profile::{Direction, Time};
use bentpipe_transport::QuicPacket;
use std::collections::BTreeMap;

/// The connections, and their packets in the network.
#[derive(Default)]
pub(crate) struct QuicConnections {
    /// By their numbers.
    pub open: BTreeMap<usize, Box<QuicConnection>>,
    pub(super) packets: Payloads<QuicPacket>,
}

impl QuicConnections {
    /// Return when a connection has work even if nothing arrives; `None`: never, or there is no such connection.
    pub(super) fn wake_at(&self, index: usize) -> Option<Time> {
        self.open.get(&index)?.ends.iter().filter_map(bentpipe_transport::Quic::wake_at).min()
    }
}

impl Simulation {
    /// Take packets of QUIC out of those that left the network, and give those that arrived to their connections.
    pub(super) fn take_quic(&mut self, outcomes: &mut Vec<(Outcome, Packet)>) -> Result<(), Box<SimError>> {
        if self.quic.packets.is_empty() {
            return Ok(());
        }
        let mut left = Vec::new();
        outcomes.retain(|(outcome, packet)| {
            let connection = connection_of_quic(packet);
            left.extend(connection.map(|index| (index, *outcome, *packet)));
            connection.is_none()
        });
        let mut left = left.into_iter().peekable();
        while let Some((index, outcome, packet)) = left.next() {
            let Some(content) = self.quic.packets.take(packet.body) else { continue };
            let direction = packet.direction;
            if outcome == Outcome::Delivered {
                self.packets += 1;
                self.receive_quic(index, direction, content);
            }
            // Packets that arrive directly after each other are processed before anything is sent.
            if left.peek().is_none_or(|(next, _, packet)| (*next, packet.direction) != (index, direction)) {
                self.answer_quic(index, direction)?;
            }
        }
        Ok(())
    }

    /// Let a connection process a packet that arrived in this direction.
    pub(super) fn receive_quic(&mut self, index: usize, direction: Direction, packet: QuicPacket) {
        if let Some(connection) = self.quic.open.get_mut(&index) {
            let end = usize::from(direction == connection.direction);
            connection.ends[end].on_packet(self.now, packet);
        }
    }

    /// Send what an end of a connection may send after packets arrived in this direction, and tell its application.
    pub(super) fn answer_quic(&mut self, index: usize, direction: Direction) -> Result<(), Box<SimError>> {
        let Some(connection) = self.quic.open.get_mut(&index) else { return Ok(()) };
        let end = usize::from(direction == connection.direction);
        let is_forward = connection.flow_end(end) == 1;
        let flow = connection.flow;
        for delay in connection.ends[end].delays() {
            if let (Some(one_way), true) = (&mut self.one_way, is_forward) {
                one_way.record(flow, delay);
            }
        }
        self.touched.push_back((index, end));
        self.flush()
    }

    /// Send everything that an end of a connection may send now, and record its events.
    pub(crate) fn transmit_quic(&mut self, index: usize, end: usize) {
        let Some(connection) = self.quic.open.get_mut(&index) else { return };
        let direction = if end == 0 { connection.direction } else { connection.direction.reverse() };
        let flow = connection.flow;
        let is_forward = connection.flow_end(end) == 0;
        while let Some(content) = connection.ends[end].poll_transmit(self.now) {
            let bytes = content.wire_bytes();
            let coded = self.coding.is_some().then(|| Content::Quic(index, content.clone()));
            let body = self.quic.packets.put(content);
            let packet = Packet::new(self.now, connection.path, direction, index_u32(flow), bytes, body);
            let mut packet = Packet { flow_hash: QUIC + index_u32(index), ..packet };
            if let (Some(coding), Some(content)) = (&mut self.coding, coded) {
                coding.label(flow, is_forward, &mut packet, content);
            }
            if let Err(packet) = self.network.send(packet) {
                self.quic.packets.take(body);
                if let Some(coding) = &mut self.coding {
                    coding.forget(&packet);
                }
            }
        }
        let transport = &mut connection.ends[end];
        for rtt in transport.rtt_samples() {
            self.flows[flow].rtts.record(rtt);
        }
        while let Some((at, event)) = transport.next_event() {
            let (t_s, detail) = (at.since(self.start).as_secs_f64(), event.detail());
            self.output.row(&Row::Event(EventRow { t_s, flow: index_i64(flow), kind: event.kind(), detail: &detail }));
        }
        if self.coding.is_some() {
            self.send_parities();
        }
    }

    /// Wake both ends of a connection, and send what is due.
    pub(crate) fn wake_quic(&mut self, index: usize, now: Time) {
        if let Some(connection) = self.quic.open.get_mut(&index) {
            for end in &mut connection.ends {
                end.on_wake(now);
            }
            self.transmit_quic(index, 1);
            self.transmit_quic(index, 0);
        }
    }

    /// Write a message of an application at the end `end` of a connection's flow.
    pub(crate) fn write_quic(&mut self, index: usize, end: usize, stream: StreamId, message: Message) -> Result<(), Box<SimError>> {
        let Some(connection) = self.quic.open.get_mut(&index) else { return Ok(()) };
        let (flow, own) = (connection.flow, connection.end_of(end));
        if connection.views[own].is_closed {
            return Err(self.refuse(flow, Mistake::ClosedStream(stream)).into());
        }
        let written = connection.write(own, message);
        let outstanding = &mut self.flows[flow].outstanding;
        *outstanding += 1 + u64::from(written.is_question);
        *outstanding -= u64::from(written.is_answer);
        self.touched.push_back((index, own));
        Ok(())
    }

    /// Tell an application everything that happened at its end of a connection.
    pub(crate) fn run_quic_events(&mut self, index: usize, end: usize) -> Result<(), Box<SimError>> {
        while let Some(connection) = self.quic.open.get_mut(&index) {
            let (flow, flow_end) = (connection.flow, connection.flow_end(end));
            if connection.views[end].id.is_none() {
                connection.views[end].id = Some(self.flows[flow].ends[flow_end].accept(index_u32(index)));
            }
            let Some(event) = connection.next_event(end, self.start) else { break };
            if matches!(event, Event::Message { .. }) {
                self.flows[flow].outstanding -= 1;
            }
            if self.now < self.flows[flow].stop {
                self.tell(flow, flow_end, &event)?;
            }
            self.flows[flow].complete_if_finished(self.now);
        }
        Ok(())
    }
}
