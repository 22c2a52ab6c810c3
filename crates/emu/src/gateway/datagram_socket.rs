//! A socket of the machine's for one flow of datagrams. What its receive buffer has no room for is lost by the kernel, silently unless one asks:
//! `SO_RXQ_OVFL` tells with each datagram how many were.

use nix::cmsg_space;
use nix::sys::socket::sockopt::{RcvBuf, RcvBufForce, RxqOvfl};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use std::cell::Cell;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use tokio::io::Interest;
use tokio::net::UdpSocket;

/// Asked for as a receive buffer [bytes]: a millisecond and more of 10 Gbit/s with the kernel's own bookkeeping (chosen here). Without
/// `CAP_NET_ADMIN` the kernel gives up to `net.core.rmem_max`.
const RECEIVE_BUFFER: usize = 4 << 20;

/// See the module.
pub struct DatagramSocket {
    socket: UdpSocket,
    lost: Cell<u32>,
}

/// What was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Bytes of the datagram.
    pub bytes: usize,
    /// Datagrams that were lost between the last one and this.
    pub lost: u32,
}

impl DatagramSocket {
    /// To `peer`, for UDP, or for ICMP echoes (a ping socket).
    ///
    /// # Errors
    /// What the kernel says; of ping sockets `EACCES` where `net.ipv4.ping_group_range` does not have the user's group.
    pub fn open(echo: bool, peer: SocketAddr) -> io::Result<Self> {
        let protocol = match (echo, peer) {
            (false, _) => Protocol::UDP,
            (true, SocketAddr::V4(_)) => Protocol::ICMPV4,
            (true, SocketAddr::V6(_)) => Protocol::ICMPV6,
        };
        let socket = Socket::new(Domain::for_address(peer), Type::DGRAM.nonblocking(), Some(protocol))?;
        if setsockopt(&socket, RcvBufForce, &RECEIVE_BUFFER).is_err() {
            let _ = setsockopt(&socket, RcvBuf, &RECEIVE_BUFFER);
        }
        setsockopt(&socket, RxqOvfl, &1)?;
        socket.connect(&peer.into())?;
        Ok(Self { socket: UdpSocket::from_std(socket.into())?, lost: Cell::new(0) })
    }

    /// Sends at once or not at all.
    ///
    /// # Errors
    /// What the kernel says, also of an earlier datagram's fate; then this one was not sent.
    pub fn send(&self, payload: &[u8]) -> io::Result<()> {
        // Not by the runtime, which takes a new socket for busy until it has heard of it.
        SockRef::from(&self.socket).send(payload).map(drop)
    }

    /// The next datagram.
    ///
    /// # Errors
    /// What the kernel says of a datagram's fate.
    pub async fn receive(&self, buffer: &mut [u8]) -> io::Result<Received> {
        self.socket.async_io(Interest::READABLE | Interest::ERROR, || self.take(buffer)).await
    }

    fn take(&self, buffer: &mut [u8]) -> io::Result<Received> {
        let mut space = cmsg_space!(u32);
        let mut pieces = [IoSliceMut::new(buffer)];
        let message = recvmsg::<()>(self.socket.as_raw_fd(), &mut pieces, Some(&mut space), MsgFlags::MSG_DONTWAIT)?;
        let total = message.cmsgs()?.find_map(|c| if let ControlMessageOwned::RxqOvfl(total) = c { Some(total) } else { None });
        let lost = total.map_or(0, |total| total.wrapping_sub(self.lost.replace(total)));
        Ok(Received { bytes: message.bytes, lost })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_had_no_room_is_told() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        runtime.block_on(async {
            let peer = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
            let socket = DatagramSocket::open(false, peer.local_addr().unwrap()).unwrap();
            SockRef::from(&socket.socket).set_recv_buffer_size(1).unwrap(); // the kernel's least
            let own = socket.socket.local_addr().unwrap();
            let sent = 100_u8;
            for i in 0..sent {
                peer.send_to(&[i; 500], own).unwrap();
            }
            let mut buffer = [0; 1000];
            let (mut seen, mut lost) = (0, 0);
            let mut last = 0;
            while let Ok(received) = socket.take(&mut buffer) {
                (seen, lost, last) = (seen + 1, lost + received.lost, buffer[0]);
                assert_eq!(received.bytes, 500);
            }
            assert!(last < sent - 1, "some had no room");
            // The next one brings the count.
            peer.send_to(&[sent; 500], own).unwrap();
            lost += socket.receive(&mut buffer).await.unwrap().lost;
            assert_eq!((seen + lost, buffer[0]), (u32::from(sent), sent));
        });
    }
}
