//! One end of a flow through its sockets' lives. Ends and ports that are used again are the same flow: its counters go on where they were.

use crate::diag::TcpState;
use netlink_packet_sock_diag::inet::nlas::TcpInfo;

/// Where a socket is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum SocketState {
    /// There was none.
    #[default]
    None,
    /// In the socket table, at the last look.
    Open,
    /// No longer there, and no close was told.
    Missing,
    /// The kernel told its close.
    Closed,
    /// It was reset from this side, which clears its counters (`tcp_disconnect` in Linux' `net/ipv4/tcp.c`): they are as at the last look.
    Reset,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Endpoint {
    state: SocketState,
    /// The newest socket's.
    last: Option<TcpState>,
    controller: String,
    /// Of all sockets before that.
    earlier: Totals,
}

/// What the sockets of an end counted together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Totals {
    /// Bytes that the other end has acknowledged. The kernel counts a SYN and a FIN as one each.
    pub acked: u64,
    /// In-order bytes received, with one for a FIN.
    pub received: u64,
    /// Segments retransmitted.
    pub retransmits: u64,
    /// CE marks echoed.
    pub marks: u64,
    /// Time with something to send or in flight.
    pub busy_s: f64,
    /// Part of that for the receiver's window.
    pub receiver_limited_s: f64,
    /// Part of that for the send buffer.
    pub buffer_limited_s: f64,
}

impl Endpoint {
    /// Before a look at the socket table: what is not found there has gone.
    pub fn mark_unseen(&mut self) {
        if self.state == SocketState::Open {
            self.state = SocketState::Missing;
        }
    }

    /// A socket that is in the table.
    pub fn record_open(&mut self, state: TcpState) {
        self.update(state);
        self.state = SocketState::Open;
    }

    /// A socket that the kernel has freed.
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

    /// Whether `state` is its newest socket's.
    #[must_use]
    pub fn is_same_socket(&self, state: &TcpState) -> bool {
        self.last.as_ref().is_some_and(|last| last.cookie == state.cookie)
    }

    /// Whether what it counts is the last word, or the newest.
    #[must_use]
    pub const fn has_current_counters(&self) -> bool {
        matches!(self.state, SocketState::Open | SocketState::Closed)
    }

    /// Whether its newest socket is over: the kernel told of its close, or its program has closed it and at most the FIN is on its way.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        let is_orphaned = |last: &TcpState| last.is_orphan && last.info.unacked <= 1 && last.info.notsent_bytes == 0;
        match self.state {
            SocketState::Closed | SocketState::Reset => true,
            SocketState::Open => self.last.as_ref().is_some_and(is_orphaned),
            SocketState::None | SocketState::Missing => false,
        }
    }

    /// Whether a socket has gone without its close.
    #[must_use]
    pub fn is_missing_close(&self) -> bool {
        self.state == SocketState::Missing
    }

    /// The newest socket's record.
    #[must_use]
    pub fn info(&self) -> Option<&TcpInfo> {
        self.last.as_ref().map(|last| &last.info)
    }

    /// The newest socket's controller; `None`: it closed before it was seen.
    #[must_use]
    pub fn controller(&self) -> Option<&str> {
        Some(self.controller.as_str()).filter(|name| !name.is_empty())
    }

    /// Over all its sockets.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let mut totals = self.earlier.clone();
        self.info().into_iter().for_each(|info| totals.add(info));
        totals
    }
}

impl Totals {
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

/// Whether a socket that closed was never answered, or was reset from its own side.
#[must_use]
pub const fn carried_nothing(info: &TcpInfo) -> bool {
    info.bytes_acked == 0 && info.bytes_received == 0
}

fn micros(us: u64) -> f64 {
    us as f64 / 1e6
}
