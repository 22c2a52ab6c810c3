//! TCP proxy: one connection from the client over the path to a listening socket in the server's namespace, and one from the machine to the destination.
//! Each has the kernel's TCP at both ends.

use super::counters::Counters;
use super::destinations::{Destinations, Refusal};
use super::events::{EventSender, Failure, GatewayEvent};
use crate::address::Addresses;
use crate::error::EmuError;
use crate::host::Host;
use crate::packets::Unreachable;
use nix::errno::Errno;
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::copy_bidirectional_with_sizes;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::spawn_local;

/// Port of the proxy, on the server's addresses. Chosen here: the highest port, which no service uses.
pub const PORT: u16 = 65_535;

/// Listen backlog, the kernel's default maximum (`net.core.somaxconn`).
const BACKLOG: i32 = 4096;

/// How long an outside connection waits for the end of the client's handshake. Chosen here: as long as the kernel retransmits a SYN-ACK by default,
/// 5 times with doubled intervals: 63 s.
const HANDSHAKE: Duration = Duration::from_secs(63);

/// Copy buffer for each direction [bytes].
const CHUNK: usize = 1 << 17;

/// Opens the listening sockets in the server's namespace, with the congestion controller towards the client. IPv6 where the server has it.
///
/// # Errors
/// [`EmuError::Controller`]; [`EmuError::Interface`] where the port is in use.
pub fn listeners(host: &Host, server: Addresses, controller: Option<&str>) -> Result<Vec<std::net::TcpListener>, EmuError> {
    let end = host.end();
    let controller = controller.map(str::to_owned);
    host.run(move || {
        let v4 = listen(end, server.v4.into(), controller.as_deref())?;
        let has_v6 = nix::ifaddrs::getifaddrs().is_ok_and(|mut all| {
            all.any(|i| i.address.and_then(|a| a.as_sockaddr_in6().map(nix::sys::socket::SockaddrIn6::ip)) == Some(server.v6))
        });
        if !has_v6 {
            return Ok(vec![v4]);
        }
        Ok(vec![v4, listen(end, server.v6.into(), controller.as_deref())?])
    })
}

fn listen(end: &'static str, address: IpAddr, controller: Option<&str>) -> Result<std::net::TcpListener, EmuError> {
    let failed = |e: io::Error| EmuError::Interface { end, operation: "listening socket of the gateway", reason: e.to_string() };
    let address = SocketAddr::new(address, PORT);
    let socket = Socket::new(Domain::for_address(address), Type::STREAM.nonblocking(), Some(Protocol::TCP)).map_err(failed)?;
    if let Some(name) = controller {
        // Accepted sockets inherit it.
        socket.set_tcp_congestion(name.as_bytes()).map_err(|e| EmuError::Controller {
            name: name.to_owned(),
            reason: if e.kind() == io::ErrorKind::NotFound { "the kernel does not have it".to_owned() } else { e.to_string() },
        })?;
    }
    if address.is_ipv6() {
        // A new IPv6 address is tentative at first, and `bind` would refuse it (RFC 4862 §5.4).
        socket.set_freebind_v6(true).map_err(failed)?;
    }
    socket.bind(&address.into()).and_then(|()| socket.listen(BACKLOG)).map_err(failed)?;
    Ok(socket.into())
}

/// The gateway's connections, from the connect outside to the close of both sides.
pub struct Proxy {
    destinations: Destinations,
    events: EventSender,
    counters: Arc<Counters>,
    /// Most concurrent connections.
    max_connections: usize,
    active: Cell<usize>,
    /// Outside connections by the client's alias, until the client's handshake ends; each with its serial number.
    waiting: RefCell<BTreeMap<SocketAddr, (u64, TcpStream)>>,
    serial: Cell<u64>,
}

impl Proxy {
    /// Creates a proxy without connections.
    #[must_use]
    pub fn new(destinations: Destinations, events: EventSender, counters: Arc<Counters>, max_connections: usize) -> Rc<Self> {
        Rc::new(Self {
            destinations,
            events,
            counters,
            max_connections,
            active: Cell::new(0),
            waiting: RefCell::default(),
            serial: Cell::new(0),
        })
    }

    /// Connects to `destination` for the client's `alias`.
    pub fn connect(self: &Rc<Self>, alias: SocketAddr, destination: SocketAddr) {
        let external = match self.destinations.external(destination) {
            Ok(external) => external,
            Err(Refusal::Forbidden) => {
                self.counters.dropped_forbidden.increment();
                return self.report_failure(alias, Failure::Unreachable(Unreachable::Host));
            }
            Err(Refusal::Policy) => {
                self.counters.dropped_by_policy.increment();
                return self.report_failure(alias, Failure::Unreachable(Unreachable::Prohibited));
            }
        };
        if self.active.get() >= self.max_connections {
            return self.reject_for_capacity(alias);
        }
        self.active.set(self.active.get() + 1);
        let proxy = Rc::clone(self);
        spawn_local(async move {
            match TcpStream::connect(external).await {
                Ok(stream) => proxy.await_handshake(alias, stream).await,
                Err(e) => {
                    proxy.release_slot();
                    if is_limit(&e) { proxy.reject_for_capacity(alias) } else { proxy.report_failure(alias, failure(&e)) }
                }
            }
        });
    }

    async fn await_handshake(&self, alias: SocketAddr, stream: TcpStream) {
        self.counters.connections.increment();
        let serial = self.serial.get() + 1;
        self.serial.set(serial);
        if self.waiting.borrow_mut().insert(alias, (serial, stream)).is_some() {
            self.release_slot();
        }
        self.events.send(GatewayEvent::Opened(alias));
        tokio::time::sleep(HANDSHAKE).await;
        let is_waiting = self.waiting.borrow().get(&alias).is_some_and(|(number, _)| *number == serial);
        if is_waiting {
            self.waiting.borrow_mut().remove(&alias);
            self.release_slot();
            self.events.send(GatewayEvent::Ended(alias));
        }
    }

    fn report_failure(&self, alias: SocketAddr, cause: Failure) {
        match cause {
            Failure::Refused => self.counters.connections_refused.increment(),
            Failure::Unreachable(_) => self.counters.connections_unreachable.increment(),
            Failure::NoReply => self.counters.connections_unanswered.increment(),
        }
        self.events.send(GatewayEvent::Failed(alias, cause));
    }

    /// Drops a connection beyond the limit without a reply, so that the client retries.
    fn reject_for_capacity(&self, alias: SocketAddr) {
        self.counters.dropped_limit.increment();
        self.events.send(GatewayEvent::Failed(alias, Failure::NoReply));
    }

    fn release_slot(&self) {
        self.active.set(self.active.get() - 1);
    }

    /// Accepts connections for ever.
    pub async fn serve(self: Rc<Self>, listener: TcpListener) {
        loop {
            match listener.accept().await {
                Ok((inside, alias)) => {
                    // A connection without a request comes from a port scan inside: closed at once.
                    let Some((_, outside)) = self.waiting.borrow_mut().remove(&alias) else { continue };
                    let proxy = Rc::clone(&self);
                    spawn_local(async move {
                        relay_bytes(inside, outside).await;
                        proxy.release_slot();
                        proxy.events.send(GatewayEvent::Ended(alias));
                    });
                }
                // For example out of descriptors: wait until a connection ends.
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    }
}

/// Copies both ways until both sides end. Forwards a FIN as a FIN and a reset as a reset.
async fn relay_bytes(mut inside: TcpStream, mut outside: TcpStream) {
    for stream in [&inside, &outside] {
        let _ = stream.set_nodelay(true); // the gateway does not delay small writes
    }
    if copy_bidirectional_with_sizes(&mut inside, &mut outside, CHUNK, CHUNK).await.is_err() {
        for stream in [&inside, &outside] {
            let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
        }
    }
}

fn failure(error: &io::Error) -> Failure {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ECONNREFUSED | Errno::ECONNRESET) => Failure::Refused,
        _ => unreachable_by(error).map_or(Failure::NoReply, Failure::Unreachable),
    }
}

/// Whether the error means that the machine is out of descriptors or memory.
#[must_use]
pub fn is_limit(error: &io::Error) -> bool {
    matches!(error.raw_os_error().map(Errno::from_raw), Some(Errno::EMFILE | Errno::ENFILE | Errno::ENOMEM | Errno::ENOBUFS))
}

/// The ICMP code for the kernel's `error`.
#[must_use]
pub fn unreachable_by(error: &io::Error) -> Option<Unreachable> {
    match error.raw_os_error().map(Errno::from_raw)? {
        Errno::ENETUNREACH | Errno::EADDRNOTAVAIL | Errno::EAFNOSUPPORT => Some(Unreachable::Network),
        Errno::EHOSTUNREACH | Errno::EHOSTDOWN => Some(Unreachable::Host),
        Errno::ECONNREFUSED => Some(Unreachable::Port),
        Errno::EACCES | Errno::EPERM => Some(Unreachable::Prohibited),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::destinations::Reach;

    #[test]
    fn connections_beyond_the_limit_do_not_count_as_unanswered() {
        let counters = Arc::<Counters>::default();
        let (events, listener) = crate::gateway::events::channel(Arc::clone(&counters)).unwrap();
        let (_, server) = crate::address::addresses(0);
        let proxy = Proxy::new(Destinations::new(server, "127.0.0.1:53".parse().unwrap(), Reach::Any), events, Arc::clone(&counters), 0);
        proxy.connect("100.64.0.2:4000".parse().unwrap(), "192.0.2.1:80".parse().unwrap());
        assert!(matches!(listener.next(), Some(GatewayEvent::Failed(_, Failure::NoReply))));
        let counts = serde_json::to_value(&*counters).unwrap();
        assert_eq!((&counts["dropped_limit"], &counts["connections_unanswered"]), (&1.into(), &0.into()));
    }

    #[test]
    fn kernel_errors_map_to_failures() {
        let of = |errno: Errno| failure(&io::Error::from(errno));
        assert_eq!(of(Errno::ECONNREFUSED), Failure::Refused);
        assert_eq!(of(Errno::ENETUNREACH), Failure::Unreachable(Unreachable::Network));
        assert_eq!(of(Errno::EHOSTUNREACH), Failure::Unreachable(Unreachable::Host));
        assert_eq!(of(Errno::EPERM), Failure::Unreachable(Unreachable::Prohibited));
        assert_eq!(of(Errno::ETIMEDOUT), Failure::NoReply);
    }
}
