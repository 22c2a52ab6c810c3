//! A socket on the machine's network for one datagram flow. The kernel silently drops datagrams that do not fit its receive buffer; `SO_RXQ_OVFL` reports
//! their number with each datagram.

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

/// Requested receive buffer [bytes]: over a millisecond of 10 Gbit/s with the kernel's overhead. Chosen here. Without `CAP_NET_ADMIN` the kernel gives
/// at most `net.core.rmem_max`.
const RECEIVE_BUFFER: usize = 4 << 20;

/// See the module.
pub struct DatagramSocket {
    socket: UdpSocket,
    lost: Cell<u32>,
}

/// A received datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Its length [bytes].
    pub bytes: usize,
    /// Datagrams dropped since the previous one.
    pub lost: u32,
}

impl DatagramSocket {
    /// Opens a socket connected to `peer`, for UDP, or for ICMP echoes (a ping socket).
    ///
    /// # Errors
    /// The kernel's error; `EACCES` for a ping socket where `net.ipv4.ping_group_range` does not include the user's group.
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
    /// The kernel's error, which may belong to an earlier datagram; this one was not sent.
    pub fn send(&self, payload: &[u8]) -> io::Result<()> {
        // Not through the runtime, which treats a new socket as busy until its first event.
        SockRef::from(&self.socket).send(payload).map(drop)
    }

    /// Receives the next datagram.
    ///
    /// # Errors
    /// The kernel's error for an earlier datagram.
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
    fn dropped_datagrams_are_reported() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        runtime.block_on(async {
            let peer = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
            let socket = DatagramSocket::open(false, peer.local_addr().unwrap()).unwrap();
            SockRef::from(&socket.socket).set_recv_buffer_size(1).unwrap(); // the kernel's minimum
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
            assert!(last < sent - 1, "some did not fit");
            // The next datagram carries the count.
            peer.send_to(&[sent; 500], own).unwrap();
            lost += socket.receive(&mut buffer).await.unwrap().lost;
            assert_eq!((seen + lost, buffer[0]), (u32::from(sent), sent));
        });
    }
}
