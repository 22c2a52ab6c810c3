//! A connection as an application's end sees it: a socket that never blocks, with the messages on their way.

use super::framing::{Inbox, Outbox};
use crate::diag::kernel_name;
use bentpipe_apps::{Event, Interest, Message, StreamId};
use bentpipe_profile::{Bytes, Time};
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrIn, TimestampingFlag, recvmsg, setsockopt, sockopt};
use socket2::{Domain, Protocol, Socket, Type};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::AsRawFd;

/// Size of one write or read [bytes], as iperf3's for TCP.
pub const CHUNK: usize = 1 << 17;

/// Most chunks written, or read, between two polls (iperf3's `multisend`).
const MAX_CHUNKS: usize = 10;

/// Tells a socket to report when the last byte of each write is acknowledged (`SOF_TIMESTAMPING_TX_ACK`, `include/uapi/linux/net_tstamp.h`).
const TX_ACK: u32 = 1 << 9;

/// One end of a connection.
#[allow(clippy::struct_excessive_bools)] // stages that it has passed, in any order
pub struct Stream {
    id: StreamId,
    socket: Socket,
    interest: Interest,
    is_connecting: bool,
    outbox: Outbox,
    inbox: Inbox,
    /// Bytes that the socket has accepted.
    accepted: u64,
    /// Whether all that was written must still be acknowledged, or accepted by the send buffer.
    awaits_delivery: bool,
    awaits_room: bool,
    /// Whether the application closed it, and whether the other end knows.
    is_closed: bool,
    is_shut: bool,
    /// Whether the other end closed it.
    is_ended: bool,
    events: VecDeque<Event>,
    /// What its socket is registered for; `None`: it is not registered.
    watched: Option<EpollFlags>,
}

impl Stream {
    /// Open a connection to `to` with a congestion controller. [`Event::Opened`] follows.
    ///
    /// # Errors
    /// A controller that the kernel does not have; no descriptor left.
    pub fn open(id: StreamId, to: SocketAddr, controller: &str, interest: Interest) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(to), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_tcp_congestion(kernel_name(controller).as_bytes())?;
        socket.set_nonblocking(true)?;
        match socket.connect(&to.into()) {
            Err(e) if e.raw_os_error() != Some(Errno::EINPROGRESS as i32) => return Err(e),
            _ => {}
        }
        Ok(Self::new(id, socket, interest, true))
    }

    /// Take a connection that the other end opened.
    ///
    /// # Errors
    /// A socket option that the kernel refuses.
    pub fn accept(id: StreamId, socket: Socket, interest: Interest) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let mut stream = Self::new(id, socket, interest, false);
        stream.on_established()?;
        Ok(stream)
    }

    fn new(id: StreamId, socket: Socket, interest: Interest, is_connecting: bool) -> Self {
        Self {
            id,
            socket,
            interest,
            is_connecting,
            outbox: Outbox::default(),
            inbox: Inbox::default(),
            accepted: 0,
            awaits_delivery: false,
            awaits_room: false,
            is_closed: false,
            is_shut: false,
            is_ended: false,
            events: VecDeque::new(),
            watched: None,
        }
    }

    fn on_established(&mut self) -> io::Result<()> {
        self.is_connecting = false;
        if self.interest.delivered {
            let ids = TimestampingFlag::SOF_TIMESTAMPING_OPT_ID | TimestampingFlag::SOF_TIMESTAMPING_OPT_TSONLY;
            let flags = ids | TimestampingFlag::SOF_TIMESTAMPING_SOFTWARE | TimestampingFlag::from_bits_retain(TX_ACK);
            setsockopt(&self.socket, sockopt::Timestamping, &flags)?;
        }
        self.events.push_back(Event::Opened(self.id));
        Ok(())
    }

    /// Add a message to those that the socket has not accepted yet. False: the stream is closed.
    pub fn push(&mut self, message: Message) -> bool {
        if self.is_closed {
            return false;
        }
        self.outbox.push(message);
        self.awaits_delivery = self.interest.delivered;
        self.awaits_room = self.interest.writable;
        true
    }

    /// Close it, once the socket has accepted everything.
    pub const fn close(&mut self) {
        self.is_closed = true;
    }

    /// Whether the application has closed it.
    #[must_use]
    pub const fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Close it now. What the socket has not accepted is forgotten.
    ///
    /// # Errors
    /// A socket that fails.
    pub fn stop(&mut self) -> io::Result<()> {
        self.outbox.clear();
        self.awaits_delivery = false;
        self.close();
        self.shut()
    }

    /// Whether both ends have closed it, and its last event has occurred.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.is_shut && self.is_ended && !self.awaits_delivery
    }

    /// Whether its connection is not established yet.
    #[must_use]
    pub const fn is_connecting(&self) -> bool {
        self.is_connecting
    }

    /// Wait in `epoll` for what its socket is to do next, under its number.
    ///
    /// # Errors
    /// No memory for the registration.
    pub fn watch(&mut self, epoll: &Epoll) -> io::Result<()> {
        let wanted = self.readiness();
        if self.watched != Some(wanted) {
            let mut event = EpollEvent::new(wanted, u64::from(self.id.0));
            match self.watched.replace(wanted) {
                None => epoll.add(&self.socket, event)?,
                Some(_) => epoll.modify(&self.socket, &mut event)?,
            }
        }
        Ok(())
    }

    fn readiness(&self) -> EpollFlags {
        let has_writes = self.is_connecting || !self.outbox.is_empty() || (self.is_closed && !self.is_shut);
        let mut wanted = EpollFlags::empty();
        wanted.set(EpollFlags::EPOLLOUT, has_writes);
        wanted.set(EpollFlags::EPOLLIN, !self.is_ended && !self.is_connecting);
        // A socket that both ends have closed hangs up all the time. Only the reports of its acknowledgements are news.
        wanted.set(EpollFlags::EPOLLET, self.is_shut && self.is_ended);
        wanted
    }

    /// Do what its socket is ready for. Returns the number of bytes that arrived; events follow from [`Self::next_event`].
    ///
    /// # Errors
    /// A connection that was refused or reset, or timed out.
    pub fn run(&mut self, ready: EpollFlags, chunk: &mut [u8], now: Time) -> io::Result<u64> {
        if self.is_connecting {
            if let Some(error) = self.socket.take_error()? {
                return Err(error);
            }
            if ready.contains(EpollFlags::EPOLLOUT) {
                self.on_established()?;
            }
            return Ok(0);
        }
        if ready.contains(EpollFlags::EPOLLERR) {
            if let Some(error) = self.socket.take_error()? {
                return Err(error);
            }
            self.read_acknowledgements()?;
        }
        let has_data = !self.is_ended && ready.intersects(EpollFlags::EPOLLIN | EpollFlags::EPOLLHUP);
        let read = if has_data { self.read(chunk, now)? } else { 0 };
        if ready.contains(EpollFlags::EPOLLOUT) {
            self.write(chunk)?;
        }
        Ok(read)
    }

    /// Wait for an acknowledgement of everything written.
    #[cfg(test)]
    pub const fn expect_delivery(&mut self) {
        self.awaits_delivery = true;
    }

    /// Take the next event.
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn read(&mut self, chunk: &mut [u8], now: Time) -> io::Result<u64> {
        let mut read = 0;
        for _ in 0..MAX_CHUNKS {
            if self.is_ended {
                break;
            }
            match (&self.socket).read(chunk) {
                Ok(0) => self.is_ended = true,
                Ok(n) => {
                    read += n as u64;
                    self.inbox.push(&chunk[..n], now)?;
                    if n < chunk.len() {
                        break; // nothing more has arrived
                    }
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) => return Err(e),
            }
        }
        if read > 0 && self.interest.readable {
            self.events.push_back(Event::Readable { stream: self.id, bytes: Bytes(read) });
        }
        while let Some((message, first_byte)) = self.inbox.pop() {
            self.events.push_back(Event::Message { stream: self.id, message, first_byte });
        }
        if self.is_ended {
            self.events.push_back(Event::Closed(self.id));
        }
        Ok(read)
    }

    fn write(&mut self, chunk: &mut [u8]) -> io::Result<()> {
        for _ in 0..MAX_CHUNKS {
            let Some(bytes) = self.outbox.next(chunk) else { break };
            match (&self.socket).write(bytes) {
                Ok(n) => {
                    self.accepted += n as u64;
                    self.outbox.accept(n);
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(e) => return Err(e),
            }
        }
        if self.outbox.is_empty() {
            if self.awaits_room {
                self.awaits_room = false;
                self.events.push_back(Event::Writable(self.id));
            }
            if self.is_closed {
                self.shut()?;
            }
        }
        Ok(())
    }

    fn shut(&mut self) -> io::Result<()> {
        if !self.is_shut {
            self.is_shut = true;
            match self.socket.shutdown(Shutdown::Write) {
                Err(e) if e.kind() != ErrorKind::NotConnected => return Err(e),
                _ => {}
            }
        }
        Ok(())
    }

    /// Read the reports of acknowledgements. Each has the number of the last byte that was acknowledged, modulo 2^32.
    #[allow(clippy::cast_possible_truncation)] // as the kernel counts
    fn read_acknowledgements(&mut self) -> io::Result<()> {
        let mut space = nix::cmsg_space!([nix::libc::timespec; 3], nix::libc::sock_extended_err, nix::libc::sockaddr_in);
        loop {
            let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
            let report = match recvmsg::<SockaddrIn>(self.socket.as_raw_fd(), &mut [], Some(&mut space), flags) {
                Ok(report) => report,
                Err(Errno::EAGAIN) => return Ok(()),
                Err(e) => return Err(e.into()),
            };
            for part in report.cmsgs()? {
                if let ControlMessageOwned::Ipv4RecvErr(error, _) = part
                    && self.awaits_delivery
                    && self.outbox.is_empty()
                    && error.ee_data == (self.accepted as u32).wrapping_sub(1)
                {
                    self.awaits_delivery = false;
                    self.events.push_back(Event::Delivered(self.id));
                }
            }
        }
    }
}
