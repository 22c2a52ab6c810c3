//! The connections of one flow, and their sums.

use crate::diag::TcpState;
use crate::endpoint::{Endpoint, Totals};
use crate::header::FlowKey;
use bentpipe_profile::Direction;
use netlink_packet_sock_diag::inet::nlas::TcpInfo;
use std::collections::BTreeMap;

/// Time without a record after which a connection is over, if its sockets have gone but their close events did not come [s]. The kernel sends them within
/// a few milliseconds on an idle machine. Chosen here.
const CLOSE_EVENT_WAIT_S: f64 = 5.0;

/// A connection's endpoints, client first.
#[derive(Debug, Default)]
struct Ends {
    ends: [Endpoint; 2],
    /// When the last record of one of them came [s].
    recorded_s: f64,
}

impl Ends {
    /// Whether no counter will change after `now_s`.
    fn are_final(&self, now_s: f64) -> bool {
        let have_gone = !self.ends.iter().any(Endpoint::is_open) && now_s - self.recorded_s > CLOSE_EVENT_WAIT_S;
        have_gone || self.ends.iter().all(Endpoint::has_close_event)
    }
}

/// See the module. A program's flow has one.
#[derive(Debug, Default)]
pub struct Connections {
    open: BTreeMap<FlowKey, Ends>,
    /// The connection that began last.
    newest: Option<FlowKey>,
    /// Sums of the connections that are over, by endpoint, and their delivered bytes by direction.
    past: [Totals; 2],
    past_delivered: [u64; 2],
}

/// State of a flow's senders: RTTs and state are those of the newest connection; what is in flight and the rates add up.
#[derive(Debug)]
pub struct SenderState {
    /// The newest connection's record.
    pub info: TcpInfo,
    /// Its congestion controller; `None`: not known.
    pub controller: Option<String>,
    /// Congestion windows and bytes in flight.
    pub cwnd_bytes: u64,
    pub inflight_bytes: u64,
    /// Pacing and delivery rate [B/s]; `None`: unlimited, or not known.
    pub pacing: Option<u64>,
    pub delivery: Option<u64>,
}

impl Connections {
    /// Marks all sockets as missing, before a dump of the socket table.
    pub fn mark_unseen(&mut self) {
        self.open.values_mut().flat_map(|connection| &mut connection.ends).for_each(Endpoint::mark_unseen);
    }

    /// Returns an endpoint of a connection, for a record that comes at `now_s`.
    pub fn endpoint(&mut self, connection: FlowKey, end: usize, now_s: f64) -> &mut Endpoint {
        let ends = self.open.entry(connection).or_insert_with(|| {
            self.newest = Some(connection);
            Ends::default()
        });
        ends.recorded_s = now_s;
        &mut ends.ends[end]
    }

    /// Whether `state` belongs to the newest socket of an endpoint.
    #[must_use]
    pub fn is_same_socket(&self, connection: FlowKey, end: usize, state: &TcpState) -> bool {
        self.open.get(&connection).is_some_and(|connection| connection.ends[end].is_same_socket(state))
    }

    /// All endpoints of the connections that are not over.
    pub fn endpoints(&self) -> impl Iterator<Item = &Endpoint> {
        self.open.values().flat_map(|connection| &connection.ends)
    }

    /// Sums of the counters of both endpoints over all connections.
    #[must_use]
    pub fn totals(&self) -> [Totals; 2] {
        let mut totals = self.past.clone();
        for connection in self.open.values() {
            totals.iter_mut().zip(&connection.ends).for_each(|(total, end)| total.merge(&end.totals()));
        }
        totals
    }

    /// Bytes that arrived in order in a direction.
    #[must_use]
    pub fn delivered(&self, direction: Direction) -> u64 {
        self.past_delivered[direction as usize] + self.open.values().map(|connection| delivered(&connection.ends, direction)).sum::<u64>()
    }

    /// State of the senders of a direction; `None`: no connection has been sampled there.
    #[must_use]
    pub fn sender(&self, direction: Direction) -> Option<SenderState> {
        let end = |connection: &Ends| connection.ends[direction as usize].info().is_some();
        let newest = self.newest.and_then(|key| self.open.get(&key)).filter(|ends| end(ends));
        let newest = &newest.or_else(|| self.open.values().rev().find(|ends| end(ends)))?.ends[direction as usize];
        let mut state = SenderState {
            info: newest.info()?.clone(),
            controller: newest.controller().map(str::to_owned),
            cwnd_bytes: 0,
            inflight_bytes: 0,
            pacing: None,
            delivery: None,
        };
        let open: Vec<&Endpoint> =
            self.open.values().map(|connection| &connection.ends[direction as usize]).filter(|end| !end.is_closed()).collect();
        let counted = if open.iter().any(|end| end.info().is_some()) { open } else { vec![newest] };
        for info in counted.into_iter().filter_map(Endpoint::info) {
            let mss = u64::from(info.snd_mss);
            let packets_out = (info.unacked + info.retrans).saturating_sub(info.sacked + info.lost);
            state.cwnd_bytes += u64::from(info.snd_cwnd) * mss;
            state.inflight_bytes += u64::from(packets_out) * mss;
            state.pacing = added(state.pacing, Some(info.pacing_rate).filter(|&rate| rate != u64::MAX));
            state.delivery = added(state.delivery, Some(info.delivery_rate).filter(|&rate| rate != 0));
        }
        Some(state)
    }

    /// Keeps only the sums of connections that are over at `now_s`. The newest stays: samples show it.
    pub fn forget_past(&mut self, now_s: f64) {
        let newest = self.newest;
        let (past, past_delivered) = (&mut self.past, &mut self.past_delivered);
        self.open.retain(|key, connection| {
            let is_past = Some(*key) != newest && connection.are_final(now_s);
            if is_past {
                past.iter_mut().zip(&connection.ends).for_each(|(total, end)| total.merge(&end.totals()));
                for direction in Direction::BOTH {
                    past_delivered[direction as usize] += delivered(&connection.ends, direction);
                }
            }
            !is_past
        });
    }
}

/// Acknowledged bytes have arrived; arrived bytes are acknowledged half an RTT later.
fn delivered(ends: &[Endpoint; 2], direction: Direction) -> u64 {
    let receiver = &ends[direction.reverse() as usize];
    let (acked, received) = (ends[direction as usize].totals().acked, receiver.totals().received);
    if receiver.has_current_counters() { received } else { acked.max(received) }
}

fn added(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.saturating_add(b)),
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::TCP;
    use std::net::SocketAddr;

    fn key(port: u16) -> FlowKey {
        let end = |host: u8, port| SocketAddr::from(([10, 0, 0, host], port));
        FlowKey { client: end(1, port), server: end(2, 5201), protocol: TCP }
    }

    fn state(port: u16, acked: u64, received: u64) -> TcpState {
        let mut info = TcpInfo::parse(&[0; 512]).unwrap();
        (info.bytes_acked, info.bytes_received, info.snd_mss, info.snd_cwnd, info.unacked) = (acked, received, 1000, 10, 4);
        (info.rtt, info.pacing_rate) = (u32::from(port), 5000);
        let FlowKey { client: local, server: remote, .. } = key(port);
        TcpState { local, remote, cookie: u64::from(port).to_ne_bytes(), controller: "reno".to_owned(), info, is_orphan: false }
    }

    #[test]
    fn counters_are_sums_and_the_rtt_is_the_newest_connections() {
        let mut flow = Connections::default();
        for (port, bytes) in [(7, 3000), (5, 2000)] {
            flow.endpoint(key(port), 0, 0.0).record_open(state(port, bytes, 0));
            flow.endpoint(key(port), 1, 0.0).record_open(state(port, 0, bytes + 500));
        }
        assert_eq!((flow.totals()[0].acked, flow.delivered(Direction::Up)), (5000, 6000));
        let sender = flow.sender(Direction::Up).unwrap();
        assert_eq!((sender.info.rtt, sender.cwnd_bytes, sender.inflight_bytes, sender.pacing), (5, 20_000, 8000, Some(10_000)));
    }

    #[test]
    fn what_connections_that_are_over_carried_stays_and_the_newest_stays_whole() {
        let mut flow = Connections::default();
        for port in [7, 5] {
            flow.endpoint(key(port), 0, 0.0).record_open(state(port, 1000, 0));
            flow.endpoint(key(port), 0, 0.0).record_close(state(port, 3000, 0));
            flow.endpoint(key(port), 1, 0.0).record_open(state(port, 0, 3000));
        }
        flow.forget_past(0.0);
        assert_eq!(flow.open.len(), 2, "an end of each is open");
        for port in [7, 5] {
            flow.endpoint(key(port), 1, 0.0).record_close(state(port, 0, 3001));
        }
        let before = (flow.totals(), flow.delivered(Direction::Up));
        flow.forget_past(0.0);
        assert_eq!((flow.open.len(), flow.newest), (1, Some(key(5))));
        assert_eq!((flow.totals(), flow.delivered(Direction::Up)), before);
        let sender = flow.sender(Direction::Up).unwrap();
        assert_eq!((sender.info.rtt, sender.cwnd_bytes), (5, 10_000), "of the closed connection, for want of an open one");
        assert!(flow.sender(Direction::Down).is_some() && Connections::default().sender(Direction::Up).is_none());
    }
    /// The kernel may lose close events, or send none, and one end may be outside: such connections are over a while after their sockets have gone.
    #[test]
    fn connections_without_close_events_do_not_add_up() {
        let mut flow = Connections::default();
        for number in 0..100 {
            let (now_s, key, bytes) = (f64::from(number), key(1000 + number), 10 * u64::from(number));
            flow.mark_unseen();
            flow.endpoint(key, 0, now_s).record_open(state(1000 + number, bytes, 0));
            if number % 2 == 0 {
                flow.endpoint(key, 1, now_s).record_open(state(1000 + number, 0, bytes));
            }
            let before = (flow.totals(), flow.delivered(Direction::Up));
            flow.forget_past(now_s);
            assert_eq!((flow.totals(), flow.delivered(Direction::Up)), before);
            assert!(flow.open.len() <= 7, "{} connections", flow.open.len());
        }
        assert_eq!(flow.totals()[0].acked, 49_500);
    }
}
