//! One endpoint of a flow over all its sockets. Connections that reuse addresses and ports count as one flow, whose counters continue.

use crate::diag::TcpState;
use netlink_packet_sock_diag::inet::nlas::TcpInfo;

/// State of an endpoint's newest socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum SocketState {
    /// No socket yet.
    #[default]
    None,
    /// In the socket table at the last sample.
    Open,
    /// No longer in the table, without a close event.
    Missing,
    /// Closed, with a close event.
    Closed,
    /// Reset from this side, which clears its counters (`tcp_disconnect` in Linux' `net/ipv4/tcp.c`); the last sample's are used.
    Reset,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Endpoint {
    state: SocketState,
    /// The newest socket's record.
    last: Option<TcpState>,
    controller: String,
    /// Totals of all earlier sockets.
    earlier: Totals,
}

/// Sums of the counters of an endpoint's sockets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Totals {
    /// Bytes acknowledged by the other end. The kernel counts a SYN and a FIN as one each.
    pub acked: u64,
    /// In-order bytes received, with one for a FIN.
    pub received: u64,
    /// Segments retransmitted.
    pub retransmits: u64,
    /// CE marks echoed.
    pub marks: u64,
    /// Time with something to send or in flight.
    pub busy_s: f64,
    /// Part of that limited by the receive window.
    pub receiver_limited_s: f64,
    /// Part of that limited by the send buffer.
    pub buffer_limited_s: f64,
}

impl Endpoint {
    /// Marks the socket as missing, before a dump of the socket table.
    pub fn mark_unseen(&mut self) {
        if self.state == SocketState::Open {
            self.state = SocketState::Missing;
        }
    }

    /// Records a socket from the table.
    pub fn record_open(&mut self, state: TcpState) {
        self.update(state);
        self.state = SocketState::Open;
    }

    /// Records a close event.
    pub fn record_close(&mut self, state: TcpState) {
        if carried_nothing(&state.info) && self.is_same_socket(&state) {
            self.state = SocketState::Reset;
        } else {
            self.update(state);
            self.state = SocketState::Closed;
        }
    }

    fn update(&mut self, state: TcpState) {
        if let Some(last) = self.last.take_if(|last| last.cookie != state.cookie) {
            self.earlier.add(&last.info);
            self.controller.clear();
        }
        if !state.controller.is_empty() {
            self.controller.clone_from(&state.controller);
        }
        self.last = Some(state);
    }

    /// Whether `state` belongs to the newest socket.
    #[must_use]
    pub fn is_same_socket(&self, state: &TcpState) -> bool {
        self.last.as_ref().is_some_and(|last| last.cookie == state.cookie)
    }

    /// Whether the counters are final or current: the socket is open, or its close event arrived.
    #[must_use]
    pub const fn has_current_counters(&self) -> bool {
        matches!(self.state, SocketState::Open | SocketState::Closed)
    }

    /// Whether the newest socket is closed: its close event arrived, or its program has closed it and at most the FIN is unacknowledged.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        let is_orphaned = |last: &TcpState| last.is_orphan && last.info.unacked <= 1 && last.info.notsent_bytes == 0;
        match self.state {
            SocketState::Closed | SocketState::Reset => true,
            SocketState::Open => self.last.as_ref().is_some_and(is_orphaned),
            SocketState::None | SocketState::Missing => false,
        }
    }

    /// Whether the newest socket's close event has arrived.
    #[must_use]
    pub const fn has_close_event(&self) -> bool {
        matches!(self.state, SocketState::Closed | SocketState::Reset)
    }

    /// Whether the newest socket was in the table at the last sample.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.state == SocketState::Open
    }

    /// Whether the newest socket has gone without a close event.
    #[must_use]
    pub fn is_missing_close(&self) -> bool {
        self.state == SocketState::Missing
    }

    /// The newest socket's record.
    #[must_use]
    pub fn info(&self) -> Option<&TcpInfo> {
        self.last.as_ref().map(|last| &last.info)
    }

    /// The newest socket's congestion controller; `None`: it closed before it was sampled.
    #[must_use]
    pub fn controller(&self) -> Option<&str> {
        Some(self.controller.as_str()).filter(|name| !name.is_empty())
    }

    /// Sums over all its sockets.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let mut totals = self.earlier.clone();
        self.info().into_iter().for_each(|info| totals.add(info));
        totals
    }
}

impl Totals {
    /// Adds the sums of another endpoint.
    pub fn merge(&mut self, other: &Self) {
        self.acked += other.acked;
        self.received += other.received;
        self.retransmits += other.retransmits;
        self.marks += other.marks;
        self.busy_s += other.busy_s;
        self.receiver_limited_s += other.receiver_limited_s;
        self.buffer_limited_s += other.buffer_limited_s;
    }

    fn add(&mut self, info: &TcpInfo) {
        self.acked += info.bytes_acked;
        self.received += info.bytes_received;
        self.retransmits += u64::from(info.total_retrans);
        self.marks += u64::from(info.delivered_ce);
        self.busy_s += micros(info.busy_time);
        self.receiver_limited_s += micros(info.rwnd_limited);
        self.buffer_limited_s += micros(info.sndbuf_limited);
    }
}

/// Whether a closed socket carried no data: it was never answered, or was reset from its own side.
#[must_use]
pub const fn carried_nothing(info: &TcpInfo) -> bool {
    info.bytes_acked == 0 && info.bytes_received == 0
}

fn micros(us: u64) -> f64 {
    us as f64 / 1e6
}
