//! Close events: the kernel's last record of each socket of a namespace.
//!
//! `inet_diag` multicasts every TCP socket that the kernel frees (`sock_diag_broadcast_destroy` in Linux' `net/core/sock_diag.c`): a message as in the
//! socket table, with `TCP_INFO`, without the name of the congestion controller.

use crate::diag::{TcpState, tcp_state};
use crate::error::{EmuError, system};
use netlink_packet_core::{NetlinkMessage, NetlinkPayload};
use netlink_packet_sock_diag::SockDiagMessage;
use netlink_sys::{Socket, protocols::NETLINK_SOCK_DIAG};
use nix::errno::Errno;
use nix::sys::socket::{setsockopt, sockopt};
use std::io::ErrorKind;

/// `SKNLGRP_INET_TCP_DESTROY` and `SKNLGRP_INET6_TCP_DESTROY` (Linux' `include/uapi/linux/sock_diag.h`).
const GROUPS: [u32; 2] = [1, 3];

/// Receive buffer for the events between two samples [bytes]: several thousand messages of about 1 to 2 kB. Chosen here.
const ROOM: usize = 8 << 20;

/// Close events of one namespace, since it was opened.
pub struct CloseEvents {
    socket: Socket,
    buffer: Vec<u8>,
    missed: u64,
}

impl CloseEvents {
    /// Subscribes to the events of the calling thread's namespace.
    ///
    /// # Errors
    /// [`EmuError::System`], where this kernel does not send them.
    pub fn listen() -> Result<Self, EmuError> {
        let mut socket = Socket::new(NETLINK_SOCK_DIAG).map_err(system("NETLINK_SOCK_DIAG"))?;
        socket.bind_auto().map_err(system("bind of the netlink socket"))?;
        // Only root of the machine may exceed its limit; otherwise the kernel gives as much as it allows.
        if setsockopt(&socket, sockopt::RcvBufForce, &ROOM).is_err() {
            setsockopt(&socket, sockopt::RcvBuf, &ROOM).map_err(system("room of the netlink socket"))?;
        }
        for group in GROUPS {
            socket.add_membership(group).map_err(system("listening for sockets that close"))?;
        }
        socket.set_non_blocking(true).map_err(system("the netlink socket"))?;
        Ok(Self { socket, buffer: vec![0; 1 << 16], missed: 0 })
    }

    /// Passes each event since the last call to `each`, in order.
    ///
    /// # Errors
    /// [`EmuError::System`].
    pub fn drain(&mut self, mut each: impl FnMut(TcpState)) -> Result<(), EmuError> {
        loop {
            let size = match self.socket.recv(&mut &mut self.buffer[..], 0) {
                Ok(size) => size,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(e) if e.raw_os_error() == Some(Errno::ENOBUFS as i32) => {
                    self.missed += 1;
                    continue;
                }
                Err(e) => return Err(system("sockets that close")(e)),
            };
            // One message in each datagram.
            match NetlinkMessage::<SockDiagMessage>::deserialize(&self.buffer[..size]).map(|message| message.payload) {
                Ok(NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(response))) => {
                    if let Some(state) = tcp_state(*response) {
                        each(state);
                    }
                }
                Ok(_) => {}
                Err(_) => self.missed += 1,
            }
        }
    }

    /// How often events were lost because the buffer was full, or could not be parsed.
    #[must_use]
    pub const fn missed(&self) -> u64 {
        self.missed
    }
}
