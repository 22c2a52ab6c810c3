//! The event loop of the gateway's thread. The thread stays in the machine's network namespace, and so do all its sockets but the listening ones.

use super::counters::Counters;
use super::datagrams::Datagrams;
use super::destinations::{Destinations, Reach, resolver};
use super::events::{EventSender, Request, channel};
use super::proxy::{Proxy, listeners};
use super::{Gateway, resolver as resolver_file};
use crate::address::Addresses;
use crate::descriptors;
use crate::error::{EmuError, system};
use crate::host::Host;
use crate::interface::reject_destination;
use crate::scheduling;
use std::rc::Rc;
use std::sync::Arc;
use std::thread;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::mpsc::{Receiver, channel as requests};
use tokio::task::{LocalSet, spawn_local};

/// Most queued requests, as many as packets in a device's queue.
const MAX_REQUESTS: usize = 20_000;

/// Most TCP connections, and most datagram flows, at any descriptor limit. Chosen here: a busy host of one user.
const MAX_FLOWS: u64 = 4096;

/// Starts the gateway behind `host`, whose address is `ends[1]`. Call it from the machine's network namespace. Returns the relay's side and the counters.
///
/// # Errors
/// [`EmuError::Controller`]; [`EmuError::System`], [`EmuError::Interface`].
pub fn start(
    host: &Host,
    ends: [Addresses; 2],
    mtu: u16,
    controller: Option<&str>,
    reach: Reach,
) -> Result<(Gateway, Arc<Counters>), EmuError> {
    let [client, server] = ends;
    let listeners = listeners(host, server, controller)?;
    // The server has no route to the Internet: its DNS queries fail at once rather than after the C library's 10 s.
    let end = host.end();
    host.run(move || reject_destination(end, resolver(server)))?;
    let destinations = Destinations::new(server, resolver_file::install(server, mtu)?, reach);
    let counters = Arc::<Counters>::default();
    let (events, receiver) = channel(Arc::clone(&counters))?;
    let (sender, requests_rx) = requests(MAX_REQUESTS);
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build().map_err(system("runtime of the gateway"))?;
    let max_flows = max_flows();
    counters.places.add_count(u32::try_from(max_flows).unwrap_or(u32::MAX));
    let proxy = {
        let (events, counters) = (events.clone(), Arc::clone(&counters));
        move || Proxy::new(destinations, events, counters, max_flows)
    };
    let datagrams = {
        let counters = Arc::clone(&counters);
        move |events: EventSender| Datagrams::new(destinations, server, events, counters, mtu, max_flows)
    };
    let work = move || {
        scheduling::raise_priority();
        serve(&runtime, requests_rx, listeners, proxy, || datagrams(events));
    };
    thread::Builder::new().name("gateway".to_owned()).spawn(work).map_err(system("thread of the gateway"))?;
    Ok((Gateway::new(client, server, sender, receiver, Arc::clone(&counters)), counters))
}

/// Limit of connections and of flows, by the descriptor limit. Connections take two descriptors and flows one: together at most three quarters, and the
/// rest is for the emulator.
fn max_flows() -> usize {
    usize::try_from((descriptors::limit() / 4).min(MAX_FLOWS)).unwrap_or(256)
}

fn serve(
    runtime: &Runtime,
    mut requests: Receiver<Request>,
    listeners: Vec<std::net::TcpListener>,
    proxy: impl FnOnce() -> Rc<Proxy>,
    datagrams: impl FnOnce() -> Rc<Datagrams>,
) {
    let (proxy, datagrams) = (proxy(), datagrams());
    LocalSet::new().block_on(runtime, async move {
        for listener in listeners {
            if let Ok(listener) = TcpListener::from_std(listener) {
                spawn_local(Rc::clone(&proxy).serve(listener));
            }
        }
        while let Some(request) = requests.recv().await {
            match request {
                Request::Connect { alias, destination } => proxy.connect(alias, destination),
                Request::Packet(packet) => datagrams.take(&packet),
            }
        }
    });
}
