//! Sockets of a namespace at the moment they go: the kernel's last record of each.
//!
//! `inet_diag` tells its listeners of every TCP socket that it frees (`sock_diag_broadcast_destroy` in Linux' `net/core/sock_diag.c`): a message as
//! in the socket table, with `TCP_INFO`, without the name of the controller.

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

/// Room for what comes between two looks [bytes]: a message takes some 1 to 2 kB of it, so several thousand. Chosen here.
const ROOM: usize = 8 << 20;

/// Closes in the namespace in which it was opened, since then.
pub struct CloseEvents {
    socket: Socket,
    buffer: Vec<u8>,
    missed: u64,
}

impl CloseEvents {
    /// Listens in the calling thread's namespace.
    ///
    /// # Errors
    /// [`EmuError::System`], where this kernel does not tell.
    pub fn listen() -> Result<Self, EmuError> {
        let mut socket = Socket::new(NETLINK_SOCK_DIAG).map_err(system("NETLINK_SOCK_DIAG"))?;
        socket.bind_auto().map_err(system("bind of the netlink socket"))?;
        // Beyond the machine's limit only root of the machine has it; else as much as there may be.
        if setsockopt(&socket, sockopt::RcvBufForce, &ROOM).is_err() {
            setsockopt(&socket, sockopt::RcvBuf, &ROOM).map_err(system("room of the netlink socket"))?;
        }
        for group in GROUPS {
            socket.add_membership(group).map_err(system("listening for sockets that close"))?;
        }
        socket.set_non_blocking(true).map_err(system("the netlink socket"))?;
        Ok(Self { socket, buffer: vec![0; 1 << 16], missed: 0 })
    }

    /// What has closed since the last look, in its order.
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

    /// How often closes were lost, since there was no room for them, or could not be read.
    #[must_use]
    pub const fn missed(&self) -> u64 {
        self.missed
    }
}
