//! The flows of an Experiment over the kernel's TCP: the applications of `bentpipe-apps`, with real sockets.
//!
//! | module | contents |
//! |---|---|
//! | `end` | one end of a flow: a thread that waits for its sockets and timers, and tells its application |
//! | `stream` | a socket as a stream of messages, and its events |
//! | `framing` | messages as bytes |
//! | `progress` | what both ends report of their flow |
//!
//! A sender works like iperf3's: it waits until the socket is writable, then writes at most ten chunks, or until a write would block. The way of
//! writing decides the effect of the send buffer: `tcp_sendmsg_locked` checks its limit only at a new skb, so a sender that blocks in `write`
//! fills an open window beyond it (measured: 20 MB in a buffer of 4), and one that polls on a timer does not wait until a third is free.

mod end;
mod framing;
mod progress;
mod stream;

pub use progress::{Failure, Items, Progress, SharedItems};

use crate::clock::Clock;
use crate::diag::kernel_name;
use crate::error::{EmuError, system};
use crate::host::Host;
use crate::scheduling;
use bentpipe_apps::Ends;
use bentpipe_profile::app::AppSpec;
use bentpipe_profile::experiment::FlowSpec;
use bentpipe_profile::{Direction, Streams, Time};
use end::{End, Setting};
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::thread;

/// Port at which both ends of flow 0 listen; those of flow i listen at this plus i.
pub const FIRST_PORT: u16 = 5201;

/// Connections that may wait for an end to accept them.
const BACKLOG: i32 = 128;

/// Applications that are not in the registry, such as those in Python.
pub trait Plugins {
    /// Build the ends of an application; `None`: no such application.
    fn create(&self, spec: &AppSpec, streams: Streams) -> Option<Ends>;
    /// Why an application failed; `None`: none has.
    fn failure(&self) -> Option<String>;
}

/// The run that flows belong to.
#[derive(Clone, Copy)]
pub struct RunTimes {
    /// The path's clock.
    pub clock: Clock,
    /// Its beginning.
    pub begin: Time,
    /// Its end.
    pub end: Time,
}

/// Start both ends of flow `index`. `hosts` and `addresses` are the client's and the server's. Each end waits for the flow's start time; an error
/// ends a running flow.
///
/// # Errors
/// A port that is in use, or a controller that the kernel does not have.
pub fn start(
    hosts: [&Host; 2],
    addresses: [IpAddr; 2],
    index: u16,
    flow: &FlowSpec,
    apps: Ends,
    times: RunTimes,
    items: &SharedItems,
) -> Result<Arc<Progress>, EmuError> {
    let sender = match flow.direction {
        Direction::Up => 0,
        Direction::Down => 1,
    };
    let progress = Arc::new(Progress::new(usize::from(index), Arc::clone(items)));
    let port = FIRST_PORT + index;
    let stop = flow.stop_ns.map_or(times.end, |stop| Time(times.begin.0 + stop.0).min(times.end));
    // Both listen before either opens a connection.
    let mut ends = Vec::new();
    for (app, own) in [(apps.sender, sender), (apps.receiver, 1 - sender)] {
        let setting = Setting {
            controller: flow.controller.clone(),
            peer: SocketAddr::new(addresses[1 - own], port),
            clock: times.clock,
            begin: times.begin,
            start: Time(times.begin.0 + flow.start_ns.0),
            stop,
            receives: own != sender,
            app: flow.app.clone(),
            progress: Arc::clone(&progress),
        };
        let (address, controller) = (SocketAddr::new(addresses[own], port), flow.controller.clone());
        let end = hosts[own].run(move || End::new(app, listen(address, &controller)?, setting));
        ends.push((own, end.map_err(system("socket of a flow"))?));
    }
    for (own, mut end) in ends {
        let progress = Arc::clone(&progress);
        let work = move || {
            scheduling::raise_priority();
            match end.run() {
                Ok(()) => {}
                Err(Failure::Socket(e)) if e.kind() == io::ErrorKind::TimedOut => {}
                Err(failure) => progress.fail(failure),
            }
        };
        let name = if own == sender { "sender" } else { "receiver" };
        hosts[own].run(move || thread::Builder::new().name(name.to_owned()).spawn(work).map(drop).map_err(system("thread of a flow")))?;
    }
    Ok(progress)
}

/// Listen for connections, whose controller at this end is `controller`.
fn listen(address: SocketAddr, controller: &str) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_tcp_congestion(kernel_name(controller).as_bytes())?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket)
}
