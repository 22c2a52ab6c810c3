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

/// Bytes of a message's header (`struct nlmsghdr`, include/uapi/linux/netlink.h), which begins with the message's length.
const NETLINK_HEADER: usize = 16;

/// Type of the message that ends a dump (include/uapi/linux/netlink.h).
const NLMSG_DONE: u16 = 3;

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
pub struct ListeningSockets {
    /// A listening TCP socket, other than the gateway's.
    pub tcp: bool,
    /// A UDP socket without a peer: a server's, or of any program that asked something.
    pub udp: bool,
    /// A listening TCP socket on the loopback, where nobody else gets to.
    pub loopback: bool,
}

/// The socket tables of the namespace in which it was opened.
pub struct Diag {
    socket: Socket,
    buffer: Vec<u8>,
    /// Of the last request: what answers another is of no use any more.
    sequence: u32,
    /// Messages that could not be read.
    unreadable: u64,
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
        Ok(Self { socket, buffer: vec![0; 1 << 16], sequence: 0, unreadable: 0 })
    }

    /// Messages of the kernel that could not be read so far: connections that are in no sample.
    #[must_use]
    pub const fn unreadable(&self) -> u64 {
        self.unreadable
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
        let mut connections = Vec::new();
        for family in [AF_INET, AF_INET6] {
            self.dump(family, IPPROTO_TCP, &states, |response| connections.extend(tcp_state(response)))?;
        }
        Ok(connections)
    }

    /// What waits for packets from elsewhere: not on the loopback.
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

/// What the kernel said to a request.
enum DumpReply {
    Socket(Box<InetResponse>),
    End,
    Refused(i32),
    Unreadable,
    /// It is not for this request, or says nothing.
    Nothing,
}

/// The messages of a datagram, each as long as it says; what is cut short is one, too.
fn messages(mut datagram: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let length = datagram.first_chunk().map_or(0, |&length| u32::from_ne_bytes(length) as usize);
        let whole = if (NETLINK_HEADER..=datagram.len()).contains(&length) { length } else { datagram.len() };
        let (message, rest) = datagram.split_at_checked(whole)?;
        datagram = rest.get(whole.next_multiple_of(4) - whole..).unwrap_or_default();
        (!message.is_empty()).then_some(message)
    })
}

/// By the kernel's code, 0 or below. One that has no such table, of IPv6 or of a protocol whose module is not there, has no sockets in it.
const fn end_of_dump(code: i32) -> DumpReply {
    if code >= 0 || code == -nix::libc::ENOENT { DumpReply::End } else { DumpReply::Refused(-code) }
}

fn read(message: &[u8], sequence: u32) -> DumpReply {
    let Ok(message) = NetlinkMessage::<SockDiagMessage>::deserialize(message) else {
        // The last one ends the dump, whatever is in it: nothing comes behind it, and who waits for more waits for ever.
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

/// By its header alone (`struct nlmsghdr`: length, type, flags, sequence number).
fn is_last(message: &[u8], sequence: u32) -> bool {
    message.get(4..6) == Some(&NLMSG_DONE.to_ne_bytes()[..]) && message.get(8..12) == Some(&sequence.to_ne_bytes()[..])
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
            Nla::TcpInfo(record) => info = Some(record),
            _ => {}
        }
    }
    let local = SocketAddr::new(canonical(id.source_address), id.source_port);
    let remote = SocketAddr::new(canonical(id.destination_address), id.destination_port);
    Some(TcpState { local, remote, cookie: id.cookie, controller, info: info?, is_orphan })
}

/// An IPv4 address in IPv6 clothes is one of IPv4: that is what its packets carry.
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
    fn what_answers_another_request_is_not_this_ones_end() {
        let done = |sequence| bytes(sequence, NetlinkPayload::Done(DoneMessage::default()));
        assert!(matches!(read(&done(7), 7), DumpReply::End));
        assert!(matches!(read(&done(6), 7), DumpReply::Nothing));
    }

    #[test]
    fn a_table_that_is_not_there_is_empty_and_a_refusal_is_told() {
        assert!(matches!(read(&bytes(7, refusal(-nix::libc::ENOENT)), 7), DumpReply::End));
        assert!(matches!(read(&bytes(7, refusal(-nix::libc::EBUSY)), 7), DumpReply::Refused(nix::libc::EBUSY)));
    }

    #[test]
    fn what_cannot_be_read_is_counted_and_what_follows_is_read() {
        let mut datagram = bytes(7, NetlinkPayload::Noop);
        datagram[4..6].copy_from_slice(&20_u16.to_ne_bytes()); // SOCK_DIAG_BY_FAMILY, without a body
        datagram.extend(bytes(7, NetlinkPayload::Done(DoneMessage::default())));
        let answers: Vec<_> = messages(&datagram).map(|message| read(message, 7)).collect();
        assert!(matches!(answers[..], [DumpReply::Unreadable, DumpReply::End]));
    }

    #[test]
    fn a_last_message_without_a_body_ends_the_dump_too() {
        let mut done = bytes(7, NetlinkPayload::Done(DoneMessage::default()));
        done.truncate(NETLINK_HEADER);
        done[..4].copy_from_slice(&16_u32.to_ne_bytes());
        assert!(matches!(read(&done, 7), DumpReply::End));
        assert!(!matches!(read(&done, 8), DumpReply::End));
    }

    proptest! {
        #[test]
        fn every_byte_is_of_one_message(datagram in prop::collection::vec(any::<u8>(), 0..300), length in 0_u32..80) {
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
