//! The flows of an Experiment over the kernel's TCP: one socket at each end, with the congestion controller set before it connects.
//!
//! The sender works like iperf3's: it waits until the socket is writable, then writes at most [`MAX_WRITES`] chunks, or until a write would block. The
//! way of writing decides the effect of the send buffer: `tcp_sendmsg_locked` checks its limit only at a new skb, so a sender that blocks in `write`
//! fills an open window beyond it (measured: 20 MB in a buffer of 4), and one that polls on a timer does not wait until a third is free.

use crate::clock::Clock;
use crate::error::{EmuError, system};
use crate::host::Host;
use crate::scheduling;
use bentpipe_profile::app::AppSpec;
use bentpipe_profile::experiment::FlowSpec;
use bentpipe_profile::{Direction, Time};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

/// Port of flow 0's receiver; flow i's is this plus i.
pub const FIRST_PORT: u16 = 5201;

/// Size of one write or read [bytes], as iperf3's for TCP.
const CHUNK: usize = 1 << 17;

/// Most chunks written between two polls (iperf3's `multisend`).
const MAX_WRITES: usize = 10;

/// Interval at which a blocked sender checks the clock.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Progress of a running flow.
#[derive(Debug, Default)]
pub struct Progress {
    /// Bytes read by the receiving application so far.
    pub received_bytes: AtomicU64,
    /// When the receiver read the end of the stream, as Profile time [ns] plus one; 0: not yet.
    completed: AtomicU64,
    /// Why its sender failed.
    failed: OnceLock<String>,
}

impl Progress {
    /// Why its sender failed. A connection that times out is no failure: the flow carries nothing.
    #[must_use]
    pub fn failed(&self) -> Option<&str> {
        self.failed.get().map(String::as_str)
    }

    /// When all data had arrived.
    #[must_use]
    pub fn completed(&self) -> Option<Time> {
        self.completed.load(Ordering::Relaxed).checked_sub(1).map(Time)
    }
}

/// Starts both ends of a flow; `addresses` are the client's and the server's. The sender waits for its start time; an error ends a running flow.
///
/// # Errors
/// A port that is in use.
pub fn start(
    hosts: [&Host; 2],
    addresses: [IpAddr; 2],
    index: u16,
    flow: &FlowSpec,
    clock: Clock,
    begin: Time,
    end: Time,
) -> Result<Arc<Progress>, EmuError> {
    let (from, to) = match flow.direction {
        Direction::Up => (0, 1),
        Direction::Down => (1, 0),
    };
    let progress = Arc::new(Progress::default());
    let address = SocketAddr::new(addresses[to], FIRST_PORT + index);
    let receiver_progress = Arc::clone(&progress);
    hosts[to].run(move || {
        let listener = TcpListener::bind(address).map_err(system("bind of a receiver"))?;
        spawn("receiver", move || receive(&listener, clock, &receiver_progress))
    })?;
    let (flow, begin) = (flow.clone(), Time(begin.0 + flow.start_ns.0));
    let stop = flow.stop_ns.map_or(end, |stop| Time(begin.0 - flow.start_ns.0 + stop.0).min(end));
    let sender_progress = Arc::clone(&progress);
    let sender = move || {
        if let Err(e) = send(&flow, address, clock, begin, stop)
            && e.kind() != std::io::ErrorKind::TimedOut
        {
            drop(sender_progress.failed.set(e.to_string()));
        }
    };
    hosts[from].run(move || spawn("sender", sender))?;
    Ok(progress)
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), EmuError> {
    let run = move || {
        scheduling::raise_priority();
        work();
    };
    thread::Builder::new().name(name.to_owned()).spawn(run).map(drop).map_err(system("thread of a flow"))
}

fn receive(listener: &TcpListener, clock: Clock, progress: &Progress) {
    let Ok((mut stream, _)) = listener.accept() else { return };
    let mut chunk = vec![0; CHUNK];
    loop {
        match stream.read(&mut chunk) {
            Ok(0) => break progress.completed.store(clock.now().0 + 1, Ordering::Relaxed),
            Ok(n) => drop(progress.received_bytes.fetch_add(n as u64, Ordering::Relaxed)),
            Err(_) => break,
        }
    }
}

fn send(flow: &FlowSpec, to: SocketAddr, clock: Clock, begin: Time, stop: Time) -> std::io::Result<()> {
    clock.sleep_until(begin);
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_tcp_congestion(flow.controller.as_bytes())?;
    socket.connect(&to.into())?;
    socket.set_nonblocking(true)?;
    let chunk = vec![0; CHUNK];
    let write = |mut bytes: u64| -> std::io::Result<bool> {
        while bytes > 0 {
            if clock.now() >= stop {
                return Ok(false);
            }
            if !is_writable(&socket)? {
                continue;
            }
            for _ in 0..MAX_WRITES {
                let most = usize::try_from(bytes).unwrap_or(CHUNK).min(CHUNK);
                match (&socket).write(&chunk[..most]) {
                    Ok(n) => bytes -= n as u64,
                    Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => break,
                    Err(e) => return Err(e),
                }
                if bytes == 0 {
                    break;
                }
            }
        }
        Ok(true)
    };
    match &flow.app {
        AppSpec::Bulk => drop(write(u64::MAX)?),
        AppSpec::Transfers { sizes_bytes, count: Some(1), .. } => drop(write(sizes_bytes[0].0)?),
        AppSpec::Paced { write_bytes, every_ns } => {
            let mut next = begin;
            while next < stop && write(write_bytes.0)? {
                next = next + *every_ns;
                clock.sleep_until(next.min(stop));
            }
        }
        AppSpec::Transfers { .. } | AppSpec::Request { .. } | AppSpec::Plugin { .. } => {
            return Err(std::io::Error::new(std::io::ErrorKind::Unsupported, "only the simulator has this application"));
        }
    }
    socket.shutdown(std::net::Shutdown::Write)?;
    // Keep the socket in the socket table until the other end has read everything, or the process ends.
    socket.set_nonblocking(false)?;
    let _ = (&socket).read(&mut [0]);
    Ok(())
}

/// Waits until a third of the buffer is free (`sk_stream_is_writeable`), or for [`POLL_INTERVAL`].
fn is_writable(socket: &Socket) -> std::io::Result<bool> {
    let wait = PollTimeout::try_from(POLL_INTERVAL).unwrap_or(PollTimeout::ZERO);
    let mut poll_fds = [PollFd::new(socket.as_fd(), PollFlags::POLLOUT)];
    match poll(&mut poll_fds, wait) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::EINTR) => Ok(false),
        Err(e) => Err(e.into()),
    }
}
