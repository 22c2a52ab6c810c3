//! The way to the Internet, at the server's end of the path: what the client sends to others than the server goes out by ordinary sockets of the
//! user's on the machine's own network, without root and without a change to that network.
//!
//! | module | holds |
//! |---|---|
//! | [`rewrite`], [`connections`], [`proxy`] | TCP, terminated by the kernel in the server's namespace: a split connection |
//! | [`datagrams`], [`outside`], [`reassembly`], [`replies`] | UDP and ICMP echo, packet by packet |
//! | [`destinations`], [`resolver`] | what is reached, and who answers DNS |
//! | [`answers`], [`office`] | the thread that has the sockets, and its way to the relay |
//! | [`counters`] | what passed, what was refused, what was dropped |
//!
//! This file is the relay's side: each packet that leaves the path towards the server's end, and each that enters it there.

pub mod answers;
pub mod connections;
pub mod counters;
pub mod datagrams;
pub mod destinations;
pub mod office;
pub mod outside;
pub mod proxy;
pub mod reassembly;
pub mod replies;
pub mod resolver;
pub mod rewrite;

use crate::flows::{FlowKey, Header};
use crate::interface::Addresses;
use answers::{Answer, Failure, Listener};
use connections::{Connections, Flow, Stage};
use counters::Counters;
use office::Request;
use replies::{reset, unreachable};
use rewrite::{Ends, TCP, redirect, tcp_offset};
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use tokio::sync::mpsc::Sender;

/// Where a packet goes that has left the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// To the server's kernel, as it is now.
    Device,
    /// The gateway has it, or has dropped and counted it.
    Taken,
}

/// What the relay is to do for the gateway.
#[derive(Debug, PartialEq, Eq)]
pub enum Order {
    /// This packet enters the path towards the client.
    Down(Vec<u8>),
    /// This one, which left the path before, goes to the server's kernel now; the connection as the client and as the server's kernel see it.
    Admit {
        /// The client's SYN.
        packet: Vec<u8>,
        /// At the client.
        client: FlowKey,
        /// At the server's kernel.
        server: FlowKey,
    },
}

/// See the module.
pub struct Gateway {
    client: Addresses,
    server: Addresses,
    connections: Connections,
    requests: Sender<Request>,
    listener: Listener,
    /// For the client, from here rather than from the gateway's thread.
    down: VecDeque<Vec<u8>>,
    counters: Arc<Counters>,
}

impl Gateway {
    /// Between `client` and `server`, with the thread behind `requests` and `listener`.
    #[must_use]
    pub fn new(client: Addresses, server: Addresses, requests: Sender<Request>, listener: Listener, counters: Arc<Counters>) -> Self {
        Self { client, server, connections: Connections::default(), requests, listener, down: VecDeque::new(), counters }
    }

    /// A packet that leaves the path at the server's end.
    pub fn outbound(&mut self, packet: &mut [u8]) -> Exit {
        if self.is_for_server(packet) {
            return Exit::Device;
        }
        let Some(header) = Header::read(packet) else {
            self.counters.dropped_malformed.add();
            return Exit::Taken;
        };
        if header.source.ip() != IpAddr::V4(self.client.v4) && header.source.ip() != IpAddr::V6(self.client.v6) {
            self.counters.dropped_foreign.add();
        } else if header.protocol == TCP {
            return self.segment(Flow { client: header.source, destination: header.destination }, packet);
        } else if self.requests.try_send(Request::Packet(packet.to_vec())).is_err() {
            self.counters.dropped_busy.add();
        }
        Exit::Taken
    }

    fn is_for_server(&self, packet: &[u8]) -> bool {
        match packet.first().map(|b| b >> 4) {
            Some(4) => packet.get(16..20) == Some(&self.server.v4.octets()),
            Some(6) => packet.get(24..40) == Some(&self.server.v6.octets()),
            _ => false,
        }
    }

    fn segment(&mut self, flow: Flow, packet: &mut [u8]) -> Exit {
        let Some(offset) = tcp_offset(packet) else {
            self.counters.dropped_malformed.add();
            return Exit::Taken;
        };
        let is_first = packet[offset + 13] & (SYN | ACK) == SYN;
        match self.connections.get(flow) {
            Some(connection) => match connection.stage {
                Stage::Connecting(_) => return Exit::Taken, // the client repeats its SYN
                Stage::Ended(_) if is_first => {}
                Stage::Open | Stage::Ended(_) => {
                    let alias = connection.alias;
                    redirect(packet, Ends { source: alias, destination: self.listens_at(alias) });
                    return Exit::Device;
                }
            },
            None if is_first => {}
            None => {
                self.counters.dropped_strays.add();
                self.down.extend(reset(packet));
                return Exit::Taken;
            }
        }
        let Some(alias) = self.connections.begin(flow, packet) else {
            self.counters.dropped_busy.add();
            return Exit::Taken;
        };
        if self.requests.try_send(Request::Connect { alias, destination: flow.destination }).is_err() {
            self.connections.fail(alias);
            self.counters.dropped_busy.add();
        }
        Exit::Taken
    }

    /// Where the proxy listens, for an end of its IP version.
    fn listens_at(&self, end: SocketAddr) -> SocketAddr {
        let address = if end.is_ipv4() { IpAddr::V4(self.server.v4) } else { IpAddr::V6(self.server.v6) };
        SocketAddr::new(address, proxy::PORT)
    }

    /// A packet from the server's kernel, before it enters the path.
    pub fn inbound(&mut self, packet: &mut [u8]) {
        let Some(offset) = tcp_offset(packet) else { return };
        if packet[offset..offset + 2] != proxy::PORT.to_be_bytes() {
            return;
        }
        let Some(header) = Header::read(packet) else { return };
        if header.source != self.listens_at(header.source) {
            return;
        }
        if let Some(flow) = self.connections.behind(header.destination) {
            self.connections.get(flow); // an ended one is still in use
            redirect(packet, Ends { source: flow.destination, destination: flow.client });
        }
    }

    /// The thread rang: ask for its [`Self::order`]s.
    pub fn heard(&self) {
        self.listener.heard();
    }

    /// What is to be done next; `None`: nothing for now.
    pub fn order(&mut self) -> Option<Order> {
        loop {
            if let Some(packet) = self.down.pop_front() {
                return Some(Order::Down(packet));
            }
            match self.listener.next()? {
                Answer::Packet(packet) => return Some(Order::Down(packet)),
                Answer::Opened(alias) => {
                    if let Some(order) = self.admit(alias) {
                        return Some(order);
                    }
                }
                Answer::Failed(alias, why) => self.fail(alias, why),
                Answer::Ended(alias) => self.connections.end(alias),
            }
        }
    }

    fn admit(&mut self, alias: SocketAddr) -> Option<Order> {
        let (flow, mut packet) = self.connections.open(alias)?;
        let listens = self.listens_at(alias);
        redirect(&mut packet, Ends { source: alias, destination: listens });
        let client = FlowKey { client: flow.client, server: flow.destination, protocol: TCP };
        let server = FlowKey { client: alias, server: listens, protocol: TCP };
        Some(Order::Admit { packet, client, server })
    }

    fn fail(&mut self, alias: SocketAddr, why: Failure) {
        let Some(syn) = self.connections.fail(alias) else { return };
        let router = self.listens_at(alias).ip();
        self.down.extend(match why {
            Failure::Refused => reset(&syn),
            Failure::Unreachable(why) => unreachable(router, alias.ip(), why, &syn),
            Failure::Silence => None,
        });
    }
}

/// Flags of TCP (RFC 9293 §3.1).
const SYN: u8 = 2;
const ACK: u8 = 16;

impl AsFd for Gateway {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

#[cfg(test)]
mod tests;
