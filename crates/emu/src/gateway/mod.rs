//! The gateway to the Internet, at the server's end of the path. It forwards the client's traffic for other destinations through ordinary sockets on the
//! machine's network, without root and without changes to that network.
//!
//! | module | contents |
//! |---|---|
//! | [`rewrite`], [`connections`], [`proxy`] | TCP as a split connection, terminated by the kernel in the server's namespace |
//! | [`datagrams`], [`datagram_socket`], [`reassembly`] | UDP and ICMP echo, packet by packet |
//! | [`destinations`], [`resolver`] | the policy on destinations, and DNS |
//! | [`event_loop`], [`events`] | the thread that owns the sockets, and its channel to the relay |
//! | [`counters`] | counts of forwarded, refused and dropped traffic |
//!
//! This file is the relay's side: it sees each packet that leaves the path at the server's end, and each that enters it there.

pub mod connections;
pub mod counters;
pub mod datagram_socket;
pub mod datagrams;
pub mod destinations;
pub mod event_loop;
pub mod events;
pub mod proxy;
pub mod reassembly;
pub mod resolver;
pub mod rewrite;

use crate::address::Addresses;
use crate::header::{FlowKey, Header, TCP};
use crate::packets::{reset, unreachable};
use connections::{Connections, Flow, Stage};
use counters::Counters;
use events::{EventReceiver, Failure, GatewayEvent, Request};
use rewrite::{Ends, redirect, tcp_offset};
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use tokio::sync::mpsc::Sender;

/// What the relay does with a packet that left the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// Write it to the server's kernel, as it is now.
    Device,
    /// Nothing: the gateway forwarded it, or dropped and counted it.
    Consumed,
}

/// An action that the relay performs for the gateway.
#[derive(Debug, PartialEq, Eq)]
pub enum Action {
    /// Send this packet into the path towards the client.
    EnterPath(Vec<u8>),
    /// Write this SYN, which left the path earlier, to the server's kernel.
    Admit {
        /// The client's SYN.
        packet: Vec<u8>,
        /// The connection as the client sees it.
        client: FlowKey,
        /// The connection as the server's kernel sees it.
        server: FlowKey,
    },
}

/// See the module.
pub struct Gateway {
    client: Addresses,
    server: Addresses,
    connections: Connections,
    requests: Sender<Request>,
    events: EventReceiver,
    /// Packets for the client that were made here rather than in the gateway's thread.
    to_client: VecDeque<Vec<u8>>,
    counters: Arc<Counters>,
}

impl Gateway {
    /// Creates the relay's side between `client` and `server`; `requests` and `events` connect it to the gateway's thread.
    #[must_use]
    pub fn new(client: Addresses, server: Addresses, requests: Sender<Request>, events: EventReceiver, counters: Arc<Counters>) -> Self {
        Self { client, server, connections: Connections::default(), requests, events, to_client: VecDeque::new(), counters }
    }

    /// Handles a packet that leaves the path at the server's end.
    pub fn outbound(&mut self, packet: &mut [u8]) -> Disposition {
        if self.is_for_server(packet) {
            return Disposition::Device;
        }
        let Some(header) = Header::read(packet) else {
            self.counters.dropped_malformed.increment();
            return Disposition::Consumed;
        };
        if header.source.ip() != IpAddr::V4(self.client.v4) && header.source.ip() != IpAddr::V6(self.client.v6) {
            self.counters.dropped_foreign_source.increment();
        } else if header.protocol == TCP {
            return self.handle_segment(Flow { client: header.source, destination: header.destination }, packet);
        } else if self.requests.try_send(Request::Packet(packet.to_vec())).is_err() {
            self.counters.dropped_busy.increment();
        }
        Disposition::Consumed
    }

    fn is_for_server(&self, packet: &[u8]) -> bool {
        match packet.first().map(|b| b >> 4) {
            Some(4) => packet.get(16..20) == Some(&self.server.v4.octets()),
            Some(6) => packet.get(24..40) == Some(&self.server.v6.octets()),
            _ => false,
        }
    }

    fn handle_segment(&mut self, flow: Flow, packet: &mut [u8]) -> Disposition {
        let Some(offset) = tcp_offset(packet) else {
            self.counters.dropped_malformed.increment();
            return Disposition::Consumed;
        };
        let is_syn = packet[offset + 13] & (SYN | ACK) == SYN;
        match self.connections.get(flow) {
            Some(connection) => match connection.stage {
                Stage::Connecting(_) => return Disposition::Consumed, // the client will retransmit its SYN
                Stage::Ended(_) if is_syn => {}
                Stage::Open | Stage::Ended(_) => {
                    let alias = connection.alias;
                    redirect(packet, Ends { source: alias, destination: self.proxy_address(alias) });
                    return Disposition::Device;
                }
            },
            None if is_syn => {}
            None => {
                self.counters.dropped_no_connection.increment();
                self.to_client.extend(reset(packet));
                return Disposition::Consumed;
            }
        }
        let Some(alias) = self.connections.begin(flow, packet) else {
            self.counters.dropped_busy.increment();
            return Disposition::Consumed;
        };
        if self.requests.try_send(Request::Connect { alias, destination: flow.destination }).is_err() {
            self.connections.fail(alias);
            self.counters.dropped_busy.increment();
        }
        Disposition::Consumed
    }

    /// The proxy's listening address for the IP version of `end`.
    fn proxy_address(&self, end: SocketAddr) -> SocketAddr {
        let address = if end.is_ipv4() { IpAddr::V4(self.server.v4) } else { IpAddr::V6(self.server.v6) };
        SocketAddr::new(address, proxy::PORT)
    }

    /// Rewrites the proxy's packets before they enter the path; leaves others unchanged.
    pub fn inbound(&mut self, packet: &mut [u8]) {
        let Some(offset) = tcp_offset(packet) else { return };
        if packet[offset..offset + 2] != proxy::PORT.to_be_bytes() {
            return;
        }
        let Some(header) = Header::read(packet) else { return };
        if header.source != self.proxy_address(header.source) {
            return;
        }
        if let Some(flow) = self.connections.flow_of(header.destination) {
            self.connections.get(flow); // an ended connection is still in use
            redirect(packet, Ends { source: flow.destination, destination: flow.client });
        }
    }

    /// Clears the notification of the gateway's thread; call [`Self::next_action`] afterwards.
    pub fn acknowledge(&self) {
        self.events.acknowledge();
    }

    /// The next action; `None`: none for now.
    pub fn next_action(&mut self) -> Option<Action> {
        loop {
            if let Some(packet) = self.to_client.pop_front() {
                return Some(Action::EnterPath(packet));
            }
            match self.events.next()? {
                GatewayEvent::Packet(packet) => return Some(Action::EnterPath(packet)),
                GatewayEvent::Opened(alias) => {
                    if let Some(action) = self.admit(alias) {
                        return Some(action);
                    }
                }
                GatewayEvent::Failed(alias, cause) => self.fail(alias, cause),
                GatewayEvent::Ended(alias) => self.connections.end(alias),
            }
        }
    }

    fn admit(&mut self, alias: SocketAddr) -> Option<Action> {
        let (flow, mut packet) = self.connections.open(alias)?;
        let proxy_end = self.proxy_address(alias);
        redirect(&mut packet, Ends { source: alias, destination: proxy_end });
        let client = FlowKey { client: flow.client, server: flow.destination, protocol: TCP };
        let server = FlowKey { client: alias, server: proxy_end, protocol: TCP };
        Some(Action::Admit { packet, client, server })
    }

    fn fail(&mut self, alias: SocketAddr, cause: Failure) {
        let Some(syn) = self.connections.fail(alias) else { return };
        let router = self.proxy_address(alias).ip();
        self.to_client.extend(match cause {
            Failure::Refused => reset(&syn),
            Failure::Unreachable(cause) => unreachable(router, alias.ip(), cause, &syn),
            Failure::NoReply => None,
        });
    }
}

/// Flags of TCP (RFC 9293 §3.1).
const SYN: u8 = 2;
const ACK: u8 = 16;

impl AsFd for Gateway {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }
}

#[cfg(test)]
mod tests;
