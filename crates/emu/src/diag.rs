//! The kernel's socket table of a namespace (`inet_diag`, `TCP_INFO`).

use crate::error::{EmuError, system};
use crate::gateway::proxy::PORT;
use netlink_packet_core::{NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_sock_diag::SockDiagMessage;
use netlink_packet_sock_diag::constants::{AF_INET, AF_INET6, IPPROTO_TCP, IPPROTO_UDP, TCP_CLOSE, TCP_ESTABLISHED, TCP_LISTEN};
use netlink_packet_sock_diag::inet::nlas::{Nla, TcpInfo};
use netlink_packet_sock_diag::inet::{ExtensionFlags, InetRequest, InetResponse, SocketId, StateFlags};
use netlink_sys::{Socket, SocketAddr as NetlinkAddr, protocols::NETLINK_SOCK_DIAG};
use std::net::{IpAddr, SocketAddr};

/// Bytes of a message's header (`struct nlmsghdr`, include/uapi/linux/netlink.h), which begins with the message's length.
const NETLINK_HEADER: usize = 16;

/// Type of the message that ends a dump (include/uapi/linux/netlink.h).
const NLMSG_DONE: u16 = 3;

/// Returns the name that a kernel has for a controller: a program's name has no dash (`bpf_obj_name_cpy`).
#[must_use]
pub fn kernel_name(controller: &str) -> String {
    controller.replace('-', "_")
}

/// Returns the registry's name; no controller of Linux has an underscore.
fn registry_name(kernels: &str) -> String {
    kernels.replace('_', "-")
}

/// A TCP connection's state at one endpoint.
#[derive(Clone, Debug)]
pub struct TcpState {
    /// This endpoint.
    pub local: SocketAddr,
    /// The other endpoint.
    pub remote: SocketAddr,
    /// The socket's unique number in the kernel (`idiag_cookie`): a later connection between the same endpoints has another.
    pub cookie: [u8; 8],
    /// Congestion controller; empty where the kernel does not report it.
    pub controller: String,
    /// The kernel's record (`include/uapi/linux/tcp.h`).
    pub info: TcpInfo,
    /// Whether its program has closed it, or ended, while data may still be in flight. False before its program accepts it.
    pub is_orphan: bool,
}

/// Kinds of sockets that wait for packets of others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListeningSockets {
    /// A listening TCP socket, other than the gateway's.
    pub tcp: bool,
    /// A UDP socket without a peer: of a server, or of a program that sent a request.
    pub udp: bool,
    /// A listening TCP socket on the loopback, which other hosts cannot reach.
    pub loopback: bool,
}

/// Socket tables of one namespace.
pub struct Diag {
    socket: Socket,
    buffer: Vec<u8>,
    /// Sequence number of the last request; replies to others are ignored.
    sequence: u32,
    /// Messages that could not be parsed.
    unreadable: u64,
}

impl Diag {
    /// Opens the tables of the calling thread's namespace.
    ///
    /// # Errors
    /// [`EmuError::System`].
    pub fn open() -> Result<Self, EmuError> {
        let mut socket = Socket::new(NETLINK_SOCK_DIAG).map_err(system("NETLINK_SOCK_DIAG"))?;
        socket.bind_auto().map_err(system("bind of the netlink socket"))?;
        socket.connect(&NetlinkAddr::new(0, 0)).map_err(system("connect of the netlink socket"))?;
        Ok(Self { socket, buffer: vec![0; 1 << 16], sequence: 0, unreadable: 0 })
    }

    /// Messages that could not be parsed so far: these connections are in no sample.
    #[must_use]
    pub const fn unreadable(&self) -> u64 {
        self.unreadable
    }

    /// Every connection between its handshake and its end.
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
        let mut connections = Vec::new();
        for family in [AF_INET, AF_INET6] {
            self.dump(family, IPPROTO_TCP, &states, |response| connections.extend(tcp_state(response)))?;
        }
        Ok(connections)
    }

    /// Kinds of listening sockets, without the gateway's.
    ///
    /// # Errors
    /// [`EmuError::System`].
    pub fn listening_sockets(&mut self) -> Result<ListeningSockets, EmuError> {
        let mut listening_sockets = ListeningSockets::default();
        for family in [AF_INET, AF_INET6] {
            for (protocol, state) in [(IPPROTO_TCP, TCP_LISTEN), (IPPROTO_UDP, TCP_CLOSE)] {
                let states = StateFlags::from_bits_truncate(1 << state);
                self.dump(family, protocol, &states, |response| {
                    let id = response.header.socket_id;
                    let (is_gateway, loopback) = (id.source_port == PORT, canonical(id.source_address).is_loopback());
                    listening_sockets.tcp |= protocol == IPPROTO_TCP && !is_gateway && !loopback;
                    listening_sockets.udp |= protocol == IPPROTO_UDP && !is_gateway && !loopback;
                    listening_sockets.loopback |= protocol == IPPROTO_TCP && !is_gateway && loopback;
                })?;
            }
        }
        Ok(listening_sockets)
    }

    fn dump(&mut self, family: u8, protocol: u8, states: &StateFlags, mut each: impl FnMut(InetResponse)) -> Result<(), EmuError> {
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | NLM_F_DUMP;
        self.sequence = self.sequence.wrapping_add(1);
        header.sequence_number = self.sequence;
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
            for message in messages(&self.buffer[..size]) {
                match read(message, self.sequence) {
                    DumpReply::Socket(response) => each(*response),
                    DumpReply::End => return Ok(()),
                    DumpReply::Refused(code) => {
                        return Err(system("the socket table")(std::io::Error::from_raw_os_error(code)));
                    }
                    DumpReply::Unreadable => self.unreadable += 1,
                    DumpReply::Nothing => {}
                }
            }
        }
    }
}

/// One message of the kernel's reply.
enum DumpReply {
    Socket(Box<InetResponse>),
    End,
    Refused(i32),
    Unreadable,
    /// A reply to another request, or an empty message.
    Nothing,
}

/// Splits a datagram into messages by their length fields; a truncated one is the last.
fn messages(mut datagram: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let length = datagram.first_chunk().map_or(0, |&length| u32::from_ne_bytes(length) as usize);
        let whole = if (NETLINK_HEADER..=datagram.len()).contains(&length) { length } else { datagram.len() };
        let (message, rest) = datagram.split_at_checked(whole)?;
        datagram = rest.get(whole.next_multiple_of(4) - whole..).unwrap_or_default();
        (!message.is_empty()).then_some(message)
    })
}

/// Result of a dump by the kernel's code, 0 or below. A missing table, of IPv6 or of a protocol whose module is not loaded, counts as empty.
const fn end_of_dump(code: i32) -> DumpReply {
    if code >= 0 || code == -nix::libc::ENOENT { DumpReply::End } else { DumpReply::Refused(-code) }
}

fn read(message: &[u8], sequence: u32) -> DumpReply {
    let Ok(message) = NetlinkMessage::<SockDiagMessage>::deserialize(message) else {
        // The last message ends the dump even if it is malformed: waiting for more would block for ever.
        return if is_last(message, sequence) { DumpReply::End } else { DumpReply::Unreadable };
    };
    if message.header.sequence_number != sequence {
        return DumpReply::Nothing;
    }
    match message.payload {
        NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(response)) => DumpReply::Socket(response),
        NetlinkPayload::InnerMessage(_) | NetlinkPayload::Noop => DumpReply::Nothing,
        NetlinkPayload::Done(done) => end_of_dump(done.code),
        NetlinkPayload::Error(error) => end_of_dump(error.raw_code()),
        _ => DumpReply::Unreadable,
    }
}

/// Whether a message ends the dump, by its header alone (`struct nlmsghdr`: length, type, flags, sequence number).
fn is_last(message: &[u8], sequence: u32) -> bool {
    message.get(4..6) == Some(&NLMSG_DONE.to_ne_bytes()[..]) && message.get(8..12) == Some(&sequence.to_ne_bytes()[..])
}

/// Parses a record of the socket table or of a close event; `None`: it has no `TCP_INFO`.
#[must_use]
pub fn tcp_state(response: InetResponse) -> Option<TcpState> {
    let id = response.header.socket_id;
    let is_orphan = response.header.inode == 0 && response.header.state != TCP_ESTABLISHED;
    let (mut controller, mut info) = (String::new(), None);
    for nla in response.nlas {
        match nla {
            Nla::Congestion(name) => controller = registry_name(&name),
            Nla::TcpInfo(record) => info = Some(record),
            _ => {}
        }
    }
    let local = SocketAddr::new(canonical(id.source_address), id.source_port);
    let remote = SocketAddr::new(canonical(id.destination_address), id.destination_port);
    Some(TcpState { local, remote, cookie: id.cookie, controller, info: info?, is_orphan })
}

/// Converts an IPv4-mapped IPv6 address to IPv4, as in its packets.
fn canonical(address: IpAddr) -> IpAddr {
    address.to_canonical()
}

#[cfg(test)]
mod tests {
    use super::*;
    use netlink_packet_core::{DoneMessage, ErrorMessage};
    use proptest::prelude::*;

    fn bytes(sequence: u32, payload: NetlinkPayload<SockDiagMessage>) -> Vec<u8> {
        let mut header = NetlinkHeader::default();
        header.sequence_number = sequence;
        let mut message = NetlinkMessage::new(header, payload);
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        bytes
    }

    fn refusal(code: i32) -> NetlinkPayload<SockDiagMessage> {
        let mut error = ErrorMessage::default();
        error.code = std::num::NonZeroI32::new(code);
        NetlinkPayload::Error(error)
    }

    #[test]
    fn a_reply_to_another_request_does_not_end_the_dump() {
        let done = |sequence| bytes(sequence, NetlinkPayload::Done(DoneMessage::default()));
        assert!(matches!(read(&done(7), 7), DumpReply::End));
        assert!(matches!(read(&done(6), 7), DumpReply::Nothing));
    }

    #[test]
    fn a_missing_table_is_empty_and_other_errors_are_returned() {
        assert!(matches!(read(&bytes(7, refusal(-nix::libc::ENOENT)), 7), DumpReply::End));
        assert!(matches!(read(&bytes(7, refusal(-nix::libc::EBUSY)), 7), DumpReply::Refused(nix::libc::EBUSY)));
    }

    #[test]
    fn a_malformed_message_is_counted_and_the_next_is_read() {
        let mut datagram = bytes(7, NetlinkPayload::Noop);
        datagram[4..6].copy_from_slice(&20_u16.to_ne_bytes()); // SOCK_DIAG_BY_FAMILY, without a body
        datagram.extend(bytes(7, NetlinkPayload::Done(DoneMessage::default())));
        let answers: Vec<_> = messages(&datagram).map(|message| read(message, 7)).collect();
        assert!(matches!(answers[..], [DumpReply::Unreadable, DumpReply::End]));
    }

    #[test]
    fn a_last_message_without_a_body_ends_the_dump() {
        let mut done = bytes(7, NetlinkPayload::Done(DoneMessage::default()));
        done.truncate(NETLINK_HEADER);
        done[..4].copy_from_slice(&16_u32.to_ne_bytes());
        assert!(matches!(read(&done, 7), DumpReply::End));
        assert!(!matches!(read(&done, 8), DumpReply::End));
    }

    proptest! {
        #[test]
        fn every_byte_belongs_to_one_message(datagram in prop::collection::vec(any::<u8>(), 0..300), length in 0_u32..80) {
            let mut datagram = datagram;
            datagram.splice(..datagram.len().min(4), length.to_ne_bytes());
            let parts: Vec<_> = messages(&datagram).collect();
            prop_assert!(parts.iter().map(|part| part.len()).sum::<usize>() <= datagram.len());
            prop_assert!(parts.len() <= datagram.len().div_ceil(NETLINK_HEADER));
            for part in parts {
                read(part, 7);
            }
        }
    }
}
