//! TCP connections that the gateway terminates: the client's destination, and the client's address as the server's kernel sees it.
//!
//! Two of the client's connections to different destinations may use the same local port (Linux looks for free four-tuples). At the gateway all have one
//! destination, the listening socket. So each has an *alias*: the client's port if it is free, else another.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

/// How long packets of an ended connection are still forwarded (RFC 5382 REQ-5: transitory connections 4 minutes).
const LINGER: Duration = Duration::from_secs(240);

/// Interval between removals of ended connections. Chosen here: long, since each walks through all.
const SWEEP: Duration = Duration::from_secs(10);

/// A connection as the client sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Flow {
    /// The client's endpoint.
    pub client: SocketAddr,
    /// The endpoint it connects to.
    pub destination: SocketAddr,
}

/// Progress of a connection.
#[derive(Debug)]
pub enum Stage {
    /// The gateway connects to the destination; the client's SYN waits.
    Connecting(Vec<u8>),
    /// Packets are forwarded.
    Open,
    /// The gateway has closed it; late packets are still forwarded. With the time of the last one.
    Ended(Instant),
}

/// One connection.
#[derive(Debug)]
pub struct Connection {
    /// The client's endpoint as the server's kernel sees it.
    pub alias: SocketAddr,
    /// See [`Stage`].
    pub stage: Stage,
}

/// See the module.
#[derive(Debug)]
pub struct Connections {
    by_flow: BTreeMap<Flow, Connection>,
    by_alias: BTreeMap<SocketAddr, Flow>,
    /// By client address: where the search for a free port continues, and how many are taken, so that no search walks through all.
    ports: BTreeMap<IpAddr, Ports>,
    swept: Instant,
}

#[derive(Debug)]
struct Ports {
    next: u16,
    taken: usize,
}

/// Ports of aliases other than the client's own, which may be lower.
const ALIAS_PORTS: RangeInclusive<u16> = 1024..=u16::MAX;

impl Default for Connections {
    fn default() -> Self {
        Self { by_flow: BTreeMap::new(), by_alias: BTreeMap::new(), ports: BTreeMap::new(), swept: Instant::now() }
    }
}

impl Connections {
    /// Returns the connection of a packet from the client.
    pub fn get(&mut self, flow: Flow) -> Option<&mut Connection> {
        let connection = self.by_flow.get_mut(&flow)?;
        if let Stage::Ended(last) = &mut connection.stage {
            *last = Instant::now();
        }
        Some(connection)
    }

    /// Returns the flow of a packet to `alias`.
    #[must_use]
    pub fn flow_of(&self, alias: SocketAddr) -> Option<Flow> {
        self.by_alias.get(&alias).copied()
    }

    /// Adds a connection, or reopens an ended one, and returns its alias; `None`: every port is taken.
    pub fn begin(&mut self, flow: Flow, syn: &[u8]) -> Option<SocketAddr> {
        self.sweep();
        let alias = match self.by_flow.get(&flow) {
            Some(connection) => connection.alias,
            None => self.free_alias(flow.client)?,
        };
        if self.by_alias.insert(alias, flow).is_none() {
            self.ports.entry(alias.ip()).or_insert(Ports { next: *ALIAS_PORTS.start(), taken: 0 }).taken += 1;
        }
        self.by_flow.insert(flow, Connection { alias, stage: Stage::Connecting(syn.to_vec()) });
        Some(alias)
    }

    fn free_alias(&mut self, client: SocketAddr) -> Option<SocketAddr> {
        if !self.by_alias.contains_key(&client) {
            return Some(client);
        }
        let ports = self.ports.get_mut(&client.ip()).filter(|ports| ports.taken < ALIAS_PORTS.len())?;
        let mut turn = (ports.next..=*ALIAS_PORTS.end()).chain(*ALIAS_PORTS.start()..ports.next);
        let alias = turn.by_ref().map(|port| SocketAddr::new(client.ip(), port)).find(|alias| !self.by_alias.contains_key(alias));
        ports.next = turn.next().unwrap_or(*ALIAS_PORTS.start());
        alias
    }

    /// Opens a connection; returns the SYN that waited.
    pub fn open(&mut self, alias: SocketAddr) -> Option<(Flow, Vec<u8>)> {
        let flow = self.flow_of(alias)?;
        let connection = self.by_flow.get_mut(&flow)?;
        match std::mem::replace(&mut connection.stage, Stage::Open) {
            Stage::Connecting(syn) => Some((flow, syn)),
            _ => None,
        }
    }

    /// Marks a connection as ended.
    pub fn end(&mut self, alias: SocketAddr) {
        if let Some(connection) = self.flow_of(alias).and_then(|flow| self.by_flow.get_mut(&flow)) {
            connection.stage = Stage::Ended(Instant::now());
        }
    }

    /// Removes a failed connection; returns the SYN that waited.
    pub fn fail(&mut self, alias: SocketAddr) -> Option<Vec<u8>> {
        let flow = self.by_alias.remove(&alias)?;
        self.ports.entry(alias.ip()).and_modify(|ports| ports.taken -= 1);
        match self.by_flow.remove(&flow)?.stage {
            Stage::Connecting(syn) => Some(syn),
            _ => None,
        }
    }

    fn sweep(&mut self) {
        if self.swept.elapsed() < SWEEP {
            return;
        }
        self.swept = Instant::now();
        self.by_flow.retain(|_, c| !matches!(c.stage, Stage::Ended(last) if last.elapsed() > LINGER));
        let (known, ports) = (&self.by_flow, &mut self.ports);
        self.by_alias.retain(|alias, flow| {
            let is_known = known.contains_key(flow);
            if !is_known {
                ports.entry(alias.ip()).and_modify(|ports| ports.taken -= 1);
            }
            is_known
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(client: &str, destination: &str) -> Flow {
        Flow { client: client.parse().unwrap(), destination: destination.parse().unwrap() }
    }

    #[test]
    fn one_port_to_two_destinations_has_two_aliases() {
        let mut table = Connections::default();
        let (one, two) = (flow("100.64.0.2:40000", "192.0.2.1:80"), flow("100.64.0.2:40000", "192.0.2.2:80"));
        let first = table.begin(one, b"one").unwrap();
        let second = table.begin(two, b"two").unwrap();
        assert_eq!(first, one.client);
        assert_ne!(second, first);
        assert_eq!(table.flow_of(first), Some(one));
        assert_eq!(table.flow_of(second), Some(two));
        assert_eq!(table.open(second), Some((two, b"two".to_vec())));
        assert_eq!(table.open(second), None, "once");
    }

    #[test]
    fn a_failed_connection_frees_its_port() {
        let mut table = Connections::default();
        let one = flow("[fd00::2]:65535", "[2001:db8::1]:80");
        let alias = table.begin(one, b"syn").unwrap();
        assert_eq!(table.fail(alias), Some(b"syn".to_vec()));
        assert!(table.get(one).is_none());
        assert_eq!(table.begin(one, b"syn"), Some(alias));
    }

    #[test]
    fn the_ports_wrap_around() {
        let mut table = Connections::default();
        let at = |destination: &str| flow("100.64.0.2:65535", destination);
        table.begin(at("192.0.2.1:80"), b"").unwrap();
        assert_eq!(table.begin(at("192.0.2.2:80"), b"").unwrap().port(), 1024);
    }

    #[test]
    fn begin_fails_while_every_port_is_taken() {
        let mut table = Connections::default();
        let to =
            |host: u32| Flow { client: "100.64.0.2:40000".parse().unwrap(), destination: SocketAddr::new(IpAddr::V4(host.into()), 80) };
        let mut aliases: Vec<_> = (0..u32::try_from(ALIAS_PORTS.len()).unwrap()).map(|host| table.begin(to(host), b"").unwrap()).collect();
        assert_eq!(table.begin(to(1 << 20), b""), None);
        table.fail(aliases[30_000]).unwrap();
        assert_eq!(table.begin(to(1 << 20), b""), Some(aliases[30_000]));
        assert_eq!(table.begin(to(2 << 20), b""), None);
        aliases.sort_unstable();
        aliases.dedup();
        assert_eq!(aliases.len(), ALIAS_PORTS.len());
    }

    #[test]
    fn a_reopened_connection_keeps_its_alias() {
        let mut table = Connections::default();
        let one = flow("100.64.0.2:40000", "192.0.2.1:80");
        let alias = table.begin(one, b"").unwrap();
        table.open(alias).unwrap();
        table.end(alias);
        assert!(matches!(table.get(one).unwrap().stage, Stage::Ended(_)));
        assert_eq!(table.begin(one, b"again"), Some(alias));
        assert!(matches!(table.get(one).unwrap().stage, Stage::Connecting(_)));
    }
}
