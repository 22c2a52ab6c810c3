//! UDP and ICMP echo: one socket on the machine's network for each of the client's flows, whose replies become packets.

use super::counters::Counters;
use super::datagram_socket::DatagramSocket;
use super::destinations::{Destinations, Refusal};
use super::events::EventSender;
use super::proxy::{is_limit, unreachable_by};
use super::reassembly::{IpPayload, Reassembly, ReassemblyError};
use crate::address::Addresses;
use crate::header::FlowKey;
use crate::packets::{Echo, QUOTE_BYTES, datagram, echo_reply, fragments, unreachable};
use etherparse::{IpNumber, UdpSlice};
use nix::errno::Errno;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::{AbortHandle, spawn_local};
use tokio::time::{Instant, timeout_at};

/// Idle time after which a flow ends (RFC 4787 REQ-5: at least two minutes).
const IDLE: Duration = Duration::from_secs(120);

/// Idle time after which a flow has had its replies, so that evicting it loses nothing. Chosen here: a resolver's timeout.
const EVICTABLE_AFTER: Duration = Duration::from_secs(5);

/// Largest datagram [bytes].
const LARGEST: usize = 65_536;

/// Bytes of an ICMP echo's header.
const ECHO_HEADER: usize = 8;

/// State shared by a flow's receive task and the sender.
struct Flow {
    socket: DatagramSocket,
    last: Cell<Instant>,
    /// Start of the client's last packet, for ICMP errors; empty if it was fragmented.
    quote: RefCell<Vec<u8>>,
}

/// See the module.
pub struct Datagrams {
    destinations: Destinations,
    router: Addresses,
    events: EventSender,
    counters: Arc<Counters>,
    mtu: usize,
    /// Most concurrent flows.
    max_flows: usize,
    flows: RefCell<BTreeMap<FlowKey, (Rc<Flow>, AbortHandle)>>,
    reassembly: RefCell<Reassembly>,
    identification: Cell<u32>,
}

impl Datagrams {
    /// Creates an empty table; `router` is the source of ICMP errors.
    #[must_use]
    pub fn new(
        destinations: Destinations,
        router: Addresses,
        events: EventSender,
        counters: Arc<Counters>,
        mtu: u16,
        max_flows: usize,
    ) -> Rc<Self> {
        Rc::new(Self {
            destinations,
            router,
            events,
            counters,
            mtu: mtu.into(),
            max_flows,
            flows: RefCell::default(),
            reassembly: RefCell::default(),
            identification: Cell::new(0),
        })
    }

    /// Forwards a packet of the client that left the path.
    pub fn take(self: &Rc<Self>, packet: &[u8]) {
        match self.reassembly.borrow_mut().take(packet) {
            Ok(Some(datagram_payload)) => {
                let quote = if datagram_payload.fragmented { &[] } else { &packet[..packet.len().min(QUOTE_BYTES)] };
                self.send(&datagram_payload, quote);
            }
            Ok(None) => {}
            Err(ReassemblyError::Malformed) => self.counters.dropped_malformed.increment(),
            Err(ReassemblyError::TooMany(fragments)) => self.counters.dropped_fragments.add_count(fragments),
        }
    }

    fn send(self: &Rc<Self>, datagram_payload: &IpPayload, quote: &[u8]) {
        let Some((key, payload)) = flow_of(datagram_payload) else { return self.counters.dropped_protocol.increment() };
        let known = self.flows.borrow().get(&key).map(|(flow, _)| Rc::clone(flow));
        let flow = match known.map_or_else(|| self.open(key), |flow| Ok(Some(flow))) {
            Ok(Some(flow)) => flow,
            Ok(None) => return,
            Err(e) => return self.send_unreachable(key, &e, quote),
        };
        flow.last.set(Instant::now());
        flow.quote.replace(quote.to_vec());
        // A socket reports an earlier datagram's error first; this one was not sent then.
        for _ in 0..2 {
            match flow.socket.send(payload) {
                Ok(()) => return,
                Err(e) if unreachable_by(&e).is_some() => self.send_unreachable(key, &e, quote),
                Err(e) => return self.count_drop(&e),
            }
        }
        self.counters.dropped_outside.increment();
    }

    fn count_drop(&self, error: &io::Error) {
        if is_limit(error) { &self.counters.dropped_limit } else { &self.counters.dropped_outside }.increment();
    }

    /// Opens a flow's socket; `None`: dropped and counted.
    fn open(self: &Rc<Self>, key: FlowKey) -> io::Result<Option<Rc<Flow>>> {
        let external = match self.destinations.external(key.server) {
            Ok(external) => external,
            Err(Refusal::Forbidden) => {
                self.counters.dropped_forbidden.increment();
                return Err(Errno::EHOSTUNREACH.into());
            }
            Err(Refusal::Policy) => {
                self.counters.dropped_by_policy.increment();
                return Err(Errno::EACCES.into());
            }
        };
        while self.flows.borrow().len() >= self.max_flows {
            self.evict();
        }
        let socket = match DatagramSocket::open(is_echo(key.protocol), external) {
            Err(e) if is_echo(key.protocol) && matches!(e.raw_os_error().map(Errno::from_raw), Some(Errno::EACCES | Errno::EPERM)) => {
                self.counters.dropped_echo_not_allowed.increment();
                return Ok(None);
            }
            other => other?,
        };
        if is_echo(key.protocol) { &self.counters.echo_flows } else { &self.counters.udp_flows }.increment();
        let flow = Rc::new(Flow { socket, last: Cell::new(Instant::now()), quote: RefCell::default() });
        let task = spawn_local(Rc::clone(self).receive_loop(key, Rc::clone(&flow)));
        self.flows.borrow_mut().insert(key, (Rc::clone(&flow), task.abort_handle()));
        Ok(Some(flow))
    }

    fn evict(&self) {
        let mut flows = self.flows.borrow_mut();
        let oldest = flows.iter().min_by_key(|(_, (flow, _))| flow.last.get()).map(|(key, _)| *key);
        if let Some((flow, task)) = oldest.and_then(|key| flows.remove(&key)) {
            task.abort();
            if flow.last.get().elapsed() < EVICTABLE_AFTER {
                self.counters.flows_evicted.increment();
            }
        }
    }

    fn send_unreachable(&self, key: FlowKey, error: &io::Error, quote: &[u8]) {
        let Some(cause) = unreachable_by(error) else { return self.count_drop(error) };
        let router = match key.client.ip() {
            IpAddr::V4(_) => self.router.v4.into(),
            IpAddr::V6(_) => self.router.v6.into(),
        };
        if !quote.is_empty()
            && let Some(packet) = unreachable(router, key.client.ip(), cause, quote)
        {
            self.events.send_packet(packet);
        }
    }

    async fn receive_loop(self: Rc<Self>, key: FlowKey, flow: Rc<Flow>) {
        let mut buffer = vec![0; LARGEST];
        loop {
            match timeout_at(flow.last.get() + IDLE, flow.socket.receive(&mut buffer)).await {
                Ok(Ok(received)) => {
                    flow.last.set(Instant::now());
                    self.counters.dropped_unread.add_count(received.lost);
                    self.send_to_client(key, &buffer[..received.bytes]);
                }
                Ok(Err(e)) => {
                    let quote = flow.quote.borrow().clone();
                    self.send_unreachable(key, &e, &quote);
                }
                Err(_) if flow.last.get().elapsed() < IDLE => {}
                Err(_) => break,
            }
        }
        self.flows.borrow_mut().remove(&key);
    }

    #[allow(clippy::cast_possible_truncation)] // IPv4's has 16 bits
    fn send_to_client(&self, key: FlowKey, payload: &[u8]) {
        let identification = self.identification.get().wrapping_add(1);
        self.identification.set(identification);
        let packet = if is_echo(key.protocol) {
            // The socket has its own identifier; the client expects its own.
            payload.get(6..ECHO_HEADER).and_then(|sequence| {
                let echo = Echo { id: key.client.port(), sequence: u16::from_be_bytes([sequence[0], sequence[1]]) };
                echo_reply(key.server.ip(), key.client.ip(), identification as u16, echo, &payload[ECHO_HEADER..])
            })
        } else {
            datagram(key.server, key.client, identification as u16, payload)
        };
        let parts = packet.map(|packet| fragments(packet, self.mtu, identification)).unwrap_or_default();
        for part in parts {
            self.events.send_packet(part);
        }
    }
}

fn is_echo(protocol: u8) -> bool {
    protocol != IpNumber::UDP.0
}

/// Returns the flow of an IP payload and the bytes for its socket. An echo's identifier serves as the client's port.
fn flow_of(datagram_payload: &IpPayload) -> Option<(FlowKey, &[u8])> {
    let key = |from: u16, to: u16| FlowKey {
        client: SocketAddr::new(datagram_payload.source, from),
        server: SocketAddr::new(datagram_payload.destination, to),
        protocol: datagram_payload.protocol.0,
    };
    match (datagram_payload.protocol, datagram_payload.payload.first()) {
        (IpNumber::UDP, _) => {
            let udp = UdpSlice::from_slice(&datagram_payload.payload).ok()?;
            Some((key(udp.source_port(), udp.destination_port()), udp.payload()))
        }
        // Types 8 (RFC 792) and 128 (RFC 4443): echo requests, code 0.
        (IpNumber::ICMP, Some(8)) | (IpNumber::IPV6_ICMP, Some(128))
            if datagram_payload.payload.len() >= ECHO_HEADER && datagram_payload.payload[1] == 0 =>
        {
            Some((key(u16::from_be_bytes([datagram_payload.payload[4], datagram_payload.payload[5]]), 0), &datagram_payload.payload))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::addresses;
    use crate::gateway::destinations::{Reach, resolver};
    use crate::gateway::events::{GatewayEvent, channel};
    use proptest::prelude::*;

    fn datagram_payload(protocol: IpNumber, payload: Vec<u8>) -> IpPayload {
        let (source, destination) = ("100.64.0.2".parse().unwrap(), "192.0.2.1".parse().unwrap());
        IpPayload { source, destination, protocol, payload, fragmented: false }
    }

    #[test]
    fn an_echos_identifier_is_its_flows_port() {
        let request = datagram_payload(IpNumber::ICMP, vec![8, 0, 0, 0, 0x12, 0x34, 0, 1, 7, 7]);
        let (key, payload) = flow_of(&request).unwrap();
        assert_eq!((key.client.port(), key.server.port(), key.protocol), (0x1234, 0, 1));
        assert_eq!(payload, &request.payload[..]);
        assert!(flow_of(&datagram_payload(IpNumber::ICMP, vec![3, 3, 0, 0, 0, 0, 0, 0])).is_none(), "an error is no request");
    }

    #[test]
    fn a_datagram_ends_at_its_length_field() {
        let datagram = datagram_payload(IpNumber::UDP, vec![0x0f, 0xa0, 0, 53, 0, 10, 0, 0, 1, 2, 99]);
        let (key, payload) = flow_of(&datagram).unwrap();
        assert_eq!((key.client.port(), key.server.port()), (4000, 53));
        assert_eq!(payload, [1, 2]);
    }

    #[test]
    fn replies_arrive_and_the_longest_idle_flow_is_evicted() {
        let nameserver = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let (client, server) = addresses(0);
        let counters = Arc::<Counters>::default();
        let (events, receiver) = channel(Arc::clone(&counters)).unwrap();
        let destinations = Destinations::new(server, nameserver.local_addr().unwrap(), Reach::Any);
        let resolver_address = SocketAddr::new(resolver(server).v4.into(), 53);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build().unwrap();
        tokio::task::LocalSet::new().block_on(&runtime, async {
            let datagrams = Datagrams::new(destinations, server, events, Arc::clone(&counters), 1500, 2);
            for (id, port) in (1..).zip([1000, 1001, 1002]) {
                let own = SocketAddr::new(client.v4.into(), port);
                datagrams.take(&datagram(own, resolver_address, 0, b"question").unwrap());
                let mut buffer = [0; 100];
                let (size, from) = nameserver.recv_from(&mut buffer).unwrap();
                assert_eq!(&buffer[..size], b"question");
                nameserver.send_to(b"answer", from).unwrap();
                let answer = loop {
                    match receiver.next() {
                        Some(GatewayEvent::Packet(packet)) => break packet,
                        _ => tokio::time::sleep(Duration::from_millis(1)).await,
                    }
                };
                assert_eq!(answer, datagram(resolver_address, own, id, b"answer").unwrap());
            }
            let ports: Vec<u16> = datagrams.flows.borrow().keys().map(|key| key.client.port()).collect();
            assert_eq!(ports, [1001, 1002]);
        });
        let counts = serde_json::to_value(&*counters).unwrap();
        assert_eq!((&counts["udp_flows"], &counts["flows_evicted"]), (&3.into(), &1.into()));
    }

    proptest! {
        #[test]
        fn arbitrary_payloads_do_not_panic(protocol in any::<u8>(), payload in prop::collection::vec(any::<u8>(), 0..40)) {
            for protocol in [IpNumber(protocol), IpNumber::UDP, IpNumber::ICMP, IpNumber::IPV6_ICMP] {
                let _ = flow_of(&datagram_payload(protocol, payload.clone()));
            }
        }
    }
}
