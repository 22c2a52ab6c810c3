//! A code at the hosts, between the transports and the network ([`bentpipe_recovery::tambur`]): each direction of a flow's data has one. Packets of data get a
//! place in it, and their content is kept until no parity can recover it any more; parities and reports are packets of their own.

use super::Simulation;
use super::hashes::{CODES, DATAGRAMS, QUIC};
use crate::batches::Receiving;
use crate::connection::Owner;
use crate::error::SimError;
use crate::payloads::Payloads;
use bentpipe_apps::Datagram;
use bentpipe_link::{Outcome, Packet};
use bentpipe_profile::{Direction, Time};
use bentpipe_recovery::overhead::Overhead;
use bentpipe_recovery::tambur::receiver::Receiver;
use bentpipe_recovery::tambur::sender::Sender;
use bentpipe_recovery::tambur::{HEADER_BYTES, Options, Parity, REPORT_BYTES, Report, Symbol};
use bentpipe_transport::{Arrival, QuicPacket, TcpPacket};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Content of a packet of data.
#[derive(Clone, Debug)]
pub(super) enum Content {
    /// Of a connection.
    Tcp(u32, TcpPacket),
    /// A datagram, with the time at which it was sent.
    Datagram(Datagram, Time),
    /// Of a QUIC connection.
    Quic(usize, QuicPacket),
}

/// Kind of a packet of data; each has handles of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Tcp,
    Quic,
    Datagram,
}

impl Kind {
    const fn of(packet: &Packet) -> Self {
        match packet.flow_hash {
            0..QUIC => Self::Tcp,
            QUIC..DATAGRAMS => Self::Quic,
            DATAGRAMS.. => Self::Datagram,
        }
    }
}

/// A packet of the code's own.
#[derive(Clone, Debug)]
enum Own {
    Parity(Parity),
    Report(Report),
}

/// The code of one direction of a flow.
struct Code {
    sender: Sender,
    receiver: Receiver,
    /// Path, direction and flow of its packets; `None`: none was sent yet.
    way: Option<(u32, Direction, u32)>,
    /// Size of its largest packet so far [bytes]: that of a parity.
    largest: u16,
    sent: BTreeMap<Symbol, Content>,
}

/// The codes of all flows: that of flow `f` in its direction is number `2 f`, the one against it `2 f + 1`.
pub(super) struct Coding {
    codes: Vec<Code>,
    /// Code and place of each packet of data in the network, by its kind and its handle.
    inside: BTreeMap<(Kind, u32), (usize, Symbol)>,
    own: Payloads<Own>,
    /// When a frame may end or a report may be due, at the earliest.
    wake: Time,
    overhead: Arc<Overhead>,
}

/// A packet of data that a receiver computed: its code and its content.
pub(super) type Decoded = (usize, Content);

impl Coding {
    /// Create the codes of this many flows.
    pub(super) fn new(options: &Options, flows: usize, overhead: Arc<Overhead>) -> Self {
        let code =
            |_| Code { sender: Sender::new(options), receiver: Receiver::new(options), way: None, largest: 0, sent: BTreeMap::new() };
        Self { codes: (0..2 * flows).map(code).collect(), inside: BTreeMap::new(), own: Payloads::default(), wake: Time::MAX, overhead }
    }

    /// Give a TCP packet that is sent now its place, if it has data.
    pub(super) fn label_tcp(&mut self, flow: usize, is_forward: bool, packet: &mut Packet, connection: u32, content: TcpPacket) {
        if matches!(content, TcpPacket::Segment(segment, _) if segment.len > 0) {
            self.label(flow, is_forward, packet, Content::Tcp(connection, content));
        }
    }

    /// Give a packet of data that is sent now its place.
    #[allow(clippy::cast_possible_truncation)] // 18
    pub(super) fn label(&mut self, flow: usize, is_forward: bool, packet: &mut Packet, content: Content) {
        let number = 2 * flow + usize::from(!is_forward);
        let code = &mut self.codes[number];
        code.way = Some((packet.path, packet.direction, packet.flow));
        packet.bytes = packet.bytes.saturating_add(HEADER_BYTES as u16);
        code.largest = code.largest.max(packet.bytes);
        self.overhead.header_bytes.add(u64::from(HEADER_BYTES));
        self.overhead.protected.add(1);
        let symbol = code.sender.on_sent(packet.at, Vec::new());
        self.inside.insert((Kind::of(packet), packet.body), (number, symbol));
        code.sent.insert(symbol, content);
        let wake = if code.sender.is_full() { packet.at } else { code.sender.wake_at().unwrap_or(Time::MAX) };
        self.wake = self.wake.min(wake);
    }

    /// Forget the handle of a packet that had no route: another packet will have it. The packet itself is lost, and may be recovered.
    pub(super) fn forget(&mut self, packet: &Packet) {
        self.inside.remove(&(Kind::of(packet), packet.body));
    }

    /// Return when the next frame ends or the next report is due, at the earliest.
    pub(super) const fn wake_at(&self) -> Time {
        self.wake
    }

    /// Return the parities and reports that are due, as packets.
    fn due(&mut self, now: Time) -> Vec<Packet> {
        let mut packets = Vec::new();
        if now < self.wake {
            return packets;
        }
        self.wake = Time::MAX;
        for (number, code) in (0_u32..).zip(&mut self.codes) {
            let Some((path, direction, flow)) = code.way else { continue };
            let mut send = |direction, bytes: u32, own| {
                let packet = Packet::new(now, path, direction, flow, bytes, self.own.put(own));
                packets.push(Packet { flow_hash: CODES + number, ..packet });
                self.overhead.control_bytes.add(u64::from(bytes));
            };
            for parity in code.sender.close_if_due(now) {
                send(direction, u32::from(code.largest), Own::Parity(parity));
            }
            let oldest = code.sender.oldest();
            while code.sent.first_key_value().is_some_and(|(symbol, _)| symbol.frame < oldest) {
                code.sent.pop_first();
            }
            if let Some(report) = code.receiver.take_report(now) {
                send(direction.reverse(), REPORT_BYTES, Own::Report(report));
            }
            let wake = [code.sender.wake_at(), code.receiver.wake_at()].into_iter().flatten().min();
            self.wake = self.wake.min(wake.unwrap_or(Time::MAX));
        }
        packets
    }

    /// Take in packets that left the network, and remove those of the codes. Returns the packets of data that are recovered.
    fn take(&mut self, now: Time, outcomes: &mut Vec<(Outcome, Packet)>) -> Vec<Decoded> {
        let mut decoded = Vec::new();
        outcomes.retain(|(outcome, packet)| {
            let number = packet.flow_hash.wrapping_sub(CODES) as usize;
            let is_own = packet.flow_hash >= CODES && number < self.codes.len();
            let (number, recovered) = if is_own {
                let Some(own) = self.own.take(packet.body) else { return false };
                let code = &mut self.codes[number];
                match (outcome, own) {
                    (Outcome::Delivered, Own::Parity(parity)) => (number, code.receiver.on_parity(parity)),
                    (Outcome::Delivered, Own::Report(report)) => {
                        code.sender.on_report(report);
                        return false;
                    }
                    (Outcome::Dropped(_), _) => return false,
                }
            } else {
                match self.inside.remove(&(Kind::of(packet), packet.body)) {
                    Some((number, symbol)) if *outcome == Outcome::Delivered => {
                        (number, self.codes[number].receiver.on_symbol(now, symbol, Vec::new()))
                    }
                    _ => return true,
                }
            };
            self.wake = self.wake.min(self.codes[number].receiver.wake_at().unwrap_or(Time::MAX));
            self.overhead.decoded.add(recovered.len() as u64);
            let sent = &self.codes[number].sent;
            decoded.extend(recovered.iter().filter_map(|(symbol, _)| sent.get(symbol).map(|content| (number, content.clone()))));
            !is_own
        });
        decoded
    }
}

impl Simulation {
    /// Send the codes' packets that are due.
    pub(super) fn send_parities(&mut self) {
        let Some(coding) = &mut self.coding else { return };
        for packet in coding.due(self.now) {
            if self.network.send(packet).is_err() {
                coding.own.take(packet.body);
            }
        }
    }

    /// Take the codes' packets out of those that left the network. Returns the packets of data that are recovered.
    pub(super) fn take_coded(&mut self, outcomes: &mut Vec<(Outcome, Packet)>) -> Vec<Decoded> {
        let now = self.now;
        self.coding.as_mut().map_or_else(Vec::new, |coding| coding.take(now, outcomes))
    }

    /// Give recovered packets to the hosts.
    pub(super) fn deliver_decoded(&mut self, decoded: Vec<Decoded>) -> Result<(), Box<SimError>> {
        for (code, content) in decoded {
            let (flow, is_forward) = (code / 2, code % 2 == 0);
            match content {
                Content::Datagram(datagram, entered) => {
                    self.receive_datagram(flow, is_forward, entered, datagram)?;
                    self.flush()?;
                }
                Content::Quic(connection, packet) => {
                    let forward = self.flows[flow].direction();
                    let direction = if is_forward { forward } else { forward.reverse() };
                    self.receive_quic(connection, direction, packet);
                    self.answer_quic(connection, direction)?;
                }
                Content::Tcp(connection, packet) => {
                    let direction = self.flows[flow].direction();
                    let is_up = (if is_forward { direction } else { direction.reverse() }) == Direction::Up;
                    let is_data = self.connections[connection as usize]
                        .as_ref()
                        .is_some_and(|each| matches!(each.owner, Owner::Flow { flow: of, .. } if of == flow));
                    if let (Some(one_way), true, true) = (&mut self.one_way, is_forward, is_data) {
                        one_way.decode(flow, connection, &packet, self.now);
                    }
                    self.deliver(Receiving { connection, is_up }, &[Arrival { packet, ce: false }], &[])?;
                }
            }
        }
        self.send_parities();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::segment;
    use bentpipe_profile::options::OptionValues;
    use bentpipe_recovery::registry::{AtHosts, install};

    #[test]
    fn the_handle_of_a_packet_without_a_route_is_free_for_others() {
        let profile = crate::testing::handover_path(20, 0);
        let spec = bentpipe_profile::NetworkSpec::from_profiles(&[&profile]).unwrap();
        let mut network = bentpipe_link::Network::new(&spec, bentpipe_profile::Streams::new(1)).unwrap();
        let installed = install("tambur", &OptionValues::new(), &mut network, &spec).unwrap();
        let Some(AtHosts::Tambur(options)) = installed.hosts else { panic!("it acts at the hosts") };
        let mut coding = Coding::new(&options, 1, Arc::default());
        let mut packet = Packet::new(Time::ZERO, 0, Direction::Down, 0, 1500, 7);
        coding.label_tcp(0, true, &mut packet, 0, TcpPacket::Segment(segment(0), None));
        assert_eq!((packet.bytes, coding.inside.len()), (1518, 1));
        coding.forget(&packet);
        // An acknowledgement with the same handle is no packet of data.
        let other = Packet::new(Time::ZERO, 0, Direction::Up, 0, 52, 7);
        let mut outcomes = vec![(Outcome::Delivered, other)];
        assert!(coding.take(Time(5), &mut outcomes).is_empty());
        assert_eq!(outcomes.len(), 1);
        assert_eq!(coding.codes[0].receiver.wake_at(), None, "nothing arrived");
    }
}
