//! Packets between the bridge and a node at an end of the path: messages on a local socket, each with many packets.
//!
//! ```text
//!   message = record*      record = length (u16) │ flow label (u32) │ packet
//! ```

use crate::error::{EmuError, system};
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv, send, setsockopt, sockopt};
use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Largest message [bytes].
const MESSAGE: usize = 60_000;
/// Most messages that wait for the other side: a quarter of a second at 1 Gbit/s. Chosen here.
const MAX_WAITING: usize = 512;
/// Buffer of the socket [bytes].
const SOCKET_BUFFER: usize = 8 << 20;
const HEAD: usize = 6;

/// One end's sending side.
pub struct Outlet {
    socket: OwnedFd,
    message: Vec<u8>,
    waiting: VecDeque<Vec<u8>>,
    /// Packets dropped because the other side did not read.
    pub dropped: u64,
}

/// One end's receiving side.
pub struct Inlet {
    socket: OwnedFd,
    buffer: Vec<u8>,
}

/// Return both sides of an end of the socket.
///
/// # Errors
/// [`EmuError::System`].
pub fn open(socket: OwnedFd) -> Result<(Inlet, Outlet), EmuError> {
    // The kernel's limit may be lower: packets then wait here.
    let _ = setsockopt(&socket, sockopt::SndBufForce, &SOCKET_BUFFER).or_else(|_| setsockopt(&socket, sockopt::SndBuf, &SOCKET_BUFFER));
    let other = socket.try_clone().map_err(system("descriptor of an attachment"))?;
    Ok((
        Inlet { socket: other, buffer: vec![0; 1 << 16] },
        Outlet { socket, message: Vec::with_capacity(MESSAGE), waiting: VecDeque::new(), dropped: 0 },
    ))
}

impl Outlet {
    /// Append a packet to the next message.
    #[allow(clippy::cast_possible_truncation)] // at most LARGEST_INNER
    pub fn push(&mut self, label: u32, packet: &[u8]) {
        if self.message.len() + HEAD + packet.len() > MESSAGE {
            self.close_message();
        }
        self.message.extend((packet.len() as u16).to_ne_bytes());
        self.message.extend(label.to_ne_bytes());
        self.message.extend(packet);
    }

    fn close_message(&mut self) {
        if self.message.is_empty() {
            return;
        }
        if self.waiting.len() >= MAX_WAITING {
            self.dropped += records(&self.message).count() as u64;
            self.message.clear();
            return;
        }
        self.waiting.push_back(std::mem::replace(&mut self.message, Vec::with_capacity(MESSAGE)));
    }

    /// Send what the socket takes. Returns whether anything still waits.
    ///
    /// # Errors
    /// The other side is gone.
    pub fn flush(&mut self) -> Result<bool, EmuError> {
        if self.waiting.is_empty() && !self.message.is_empty() && self.send(None)? {
            self.message.clear();
        }
        self.close_message();
        while !self.waiting.is_empty() {
            if !self.send(self.waiting.front())? {
                return Ok(true);
            }
            self.waiting.pop_front();
        }
        Ok(false)
    }

    fn send(&self, message: Option<&Vec<u8>>) -> Result<bool, EmuError> {
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
        match send(self.socket.as_raw_fd(), message.unwrap_or(&self.message), flags) {
            Ok(_) => Ok(true),
            Err(Errno::EAGAIN | Errno::ENOBUFS | Errno::EINTR) => Ok(false),
            Err(e) => Err(system("send to a node")(e)),
        }
    }
}

impl Inlet {
    /// Pass each packet of the next message to `each`, with its label. `None`: no message waits. `Some(false)`: the other side is gone.
    ///
    /// # Errors
    /// [`EmuError::System`].
    pub fn receive(&mut self, mut each: impl FnMut(u32, &[u8])) -> Result<Option<bool>, EmuError> {
        match recv(self.socket.as_raw_fd(), &mut self.buffer, MsgFlags::MSG_DONTWAIT) {
            Ok(0) | Err(Errno::ECONNRESET) => Ok(Some(false)),
            Ok(length) => {
                records(&self.buffer[..length]).for_each(|(label, packet)| each(label, packet));
                Ok(Some(true))
            }
            Err(Errno::EAGAIN | Errno::EINTR) => Ok(None),
            Err(e) => Err(system("receive from a node")(e)),
        }
    }
}

impl AsFd for Inlet {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Iterate over the records of a message, up to the first that is cut.
fn records(mut message: &[u8]) -> impl Iterator<Item = (u32, &[u8])> {
    std::iter::from_fn(move || {
        let (head, rest) = message.split_first_chunk::<HEAD>()?;
        let (packet, rest) = rest.split_at_checked(usize::from(u16::from_ne_bytes([head[0], head[1]])))?;
        message = rest;
        Some((u32::from_ne_bytes([head[2], head[3], head[4], head[5]]), packet))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn packets_arrive_whole_and_in_order(packets in prop::collection::vec((any::<u32>(), prop::collection::vec(any::<u8>(), 0..1528)), 1..200)) {
            let (a, b) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC).unwrap();
            let ((_, mut outlet), (mut inlet, _)) = (open(a).unwrap(), open(b).unwrap());
            let mut received = Vec::new();
            for (label, packet) in &packets {
                outlet.push(*label, packet);
            }
            while outlet.flush().unwrap() || inlet.receive(|label, packet| received.push((label, packet.to_vec()))).unwrap().is_some() {}
            prop_assert_eq!(received, packets);
            drop(outlet);
        }

        #[test]
        fn any_octets_are_read(message in prop::collection::vec(any::<u8>(), 0..300)) {
            let bytes: usize = records(&message).map(|(_, packet)| packet.len() + HEAD).sum();
            prop_assert!(bytes <= message.len());
        }
    }
}
