//! Sockets of a namespace as the kernel sees them (`inet_diag`, `TCP_INFO`).

use crate::error::{EmuError, system};
use crate::gateway::proxy::PORT;
use netlink_packet_core::{NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_sock_diag::SockDiagMessage;
use netlink_packet_sock_diag::constants::{AF_INET, AF_INET6, IPPROTO_TCP, IPPROTO_UDP, TCP_CLOSE, TCP_ESTABLISHED, TCP_LISTEN};
use netlink_packet_sock_diag::inet::nlas::{Nla, TcpInfo};
use netlink_packet_sock_diag::inet::{ExtensionFlags, InetRequest, InetResponse, SocketId, StateFlags};
use netlink_sys::{Socket, SocketAddr as NetlinkAddr, protocols::NETLINK_SOCK_DIAG};
use std::net::{IpAddr, SocketAddr};

/// A TCP connection's state at one end.
#[derive(Clone, Debug)]
pub struct TcpState {
    /// This end.
    pub local: SocketAddr,
    /// The other.
    pub remote: SocketAddr,
    /// The socket's own number in the kernel (`idiag_cookie`): another connection between the same ends has another.
    pub cookie: [u8; 8],
    /// Congestion controller; empty where the kernel does not say it.
    pub controller: String,
    /// The kernel's own record (`include/uapi/linux/tcp.h`).
    pub info: TcpInfo,
    /// Whether its program has closed it, or ended, and it only sees to the rest. One that its program has not accepted yet is none.
    pub is_orphan: bool,
}

/// What waits for packets from elsewhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// A listening TCP socket, other than the gateway's.
    pub tcp: bool,
    /// A UDP socket without a peer: a server's, or of any program that asked something.
    pub udp: bool,
    /// A listening TCP socket on the loopback, where nobody else gets to.
    pub inside: bool,
}

/// The socket tables of the namespace in which it was opened.
pub struct Diag {
    socket: Socket,
    buffer: Vec<u8>,
}

impl Diag {
    /// Opens it in the calling thread's namespace.
    ///
    /// # Errors
    /// [`EmuError::System`].
    pub fn open() -> Result<Self, EmuError> {
        let mut socket = Socket::new(NETLINK_SOCK_DIAG).map_err(system("NETLINK_SOCK_DIAG"))?;
        socket.bind_auto().map_err(system("bind of the netlink socket"))?;
        socket.connect(&NetlinkAddr::new(0, 0)).map_err(system("connect of the netlink socket"))?;
        Ok(Self { socket, buffer: vec![0; 1 << 16] })
    }

    /// Every connection that has left its handshake and not yet vanished.
    ///
    /// # Errors
    /// [`EmuError::System`].
    pub fn connections(&mut self) -> Result<Vec<TcpState>, EmuError> {
        let states = StateFlags::ESTABLISHED
            | StateFlags::FIN_WAIT1
            | StateFlags::FIN_WAIT2
            | StateFlags::CLOSE_WAIT
            | StateFlags::LAST_ACK
            | StateFlags::CLOSING;
        let mut found = Vec::new();
        for family in [AF_INET, AF_INET6] {
            self.dump(family, IPPROTO_TCP, &states, |response| found.extend(tcp_state(response)))?;
        }
        Ok(found)
    }

    /// What waits for packets from elsewhere: not on the loopback.
    ///
    /// # Errors
    /// [`EmuError::System`].
    pub fn served(&mut self) -> Result<Served, EmuError> {
        let mut served = Served::default();
        for family in [AF_INET, AF_INET6] {
            for (protocol, state) in [(IPPROTO_TCP, TCP_LISTEN), (IPPROTO_UDP, TCP_CLOSE)] {
                let states = StateFlags::from_bits_truncate(1 << state);
                self.dump(family, protocol, &states, |response| {
                    let id = response.header.socket_id;
                    let (own, inside) = (id.source_port == PORT, plain(id.source_address).is_loopback());
                    served.tcp |= protocol == IPPROTO_TCP && !own && !inside;
                    served.udp |= protocol == IPPROTO_UDP && !own && !inside;
                    served.inside |= protocol == IPPROTO_TCP && !own && inside;
                })?;
            }
        }
        Ok(served)
    }

    fn dump(&mut self, family: u8, protocol: u8, states: &StateFlags, mut each: impl FnMut(InetResponse)) -> Result<(), EmuError> {
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | NLM_F_DUMP;
        let request = InetRequest {
            family,
            protocol,
            extensions: ExtensionFlags::INFO | ExtensionFlags::CONG,
            states: states.clone(),
            socket_id: if family == AF_INET { SocketId::new_v4() } else { SocketId::new_v6() },
        };
        let mut message = NetlinkMessage::new(header, SockDiagMessage::InetRequest(request).into());
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.socket.send(&bytes, 0).map_err(system("request of the socket table"))?;
        loop {
            let size = self.socket.recv(&mut &mut self.buffer[..], 0).map_err(system("the socket table"))?;
            let mut rest = &self.buffer[..size];
            while rest.len() >= 16 {
                let Ok(message) = NetlinkMessage::<SockDiagMessage>::deserialize(rest) else { return Ok(()) };
                match message.payload {
                    NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(response)) => each(*response),
                    NetlinkPayload::InnerMessage(_) | NetlinkPayload::Noop => {}
                    _ => return Ok(()), // the end, or a kernel without this table
                }
                let length = (message.header.length as usize).next_multiple_of(4);
                if length == 0 || length > rest.len() {
                    break;
                }
                rest = &rest[length..];
            }
        }
    }
}

/// A message of the socket table, or of a close; `None`: it has no `TCP_INFO`.
#[must_use]
pub fn tcp_state(response: InetResponse) -> Option<TcpState> {
    let id = response.header.socket_id;
    let is_orphan = response.header.inode == 0 && response.header.state != TCP_ESTABLISHED;
    let (mut controller, mut info) = (String::new(), None);
    for nla in response.nlas {
        match nla {
            Nla::Congestion(name) => controller = name,
            Nla::TcpInfo(found) => info = Some(found),
            _ => {}
        }
    }
    let local = SocketAddr::new(plain(id.source_address), id.source_port);
    let remote = SocketAddr::new(plain(id.destination_address), id.destination_port);
    Some(TcpState { local, remote, cookie: id.cookie, controller, info: info?, is_orphan })
}

/// An IPv4 address in IPv6 clothes is one of IPv4: that is what its packets carry.
fn plain(address: IpAddr) -> IpAddr {
    address.to_canonical()
}
