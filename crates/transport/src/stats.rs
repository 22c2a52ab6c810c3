//! Counters, events and limiting factors of a sender.

use bentpipe_cc::RecoveryState;
use bentpipe_profile::{Bytes, Nanos, Rate, Time};

/// State of a sender at one instant. Counters are cumulative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderStats {
    /// Congestion window.
    pub cwnd: Bytes,
    /// Slow-start threshold; `Bytes::MAX`: not set yet.
    pub ssthresh: Bytes,
    /// Sent and neither acknowledged nor marked lost, in segments of MSS.
    pub in_flight: Bytes,
    /// Newest RTT.
    pub rtt_latest: Option<Nanos>,
    /// Smoothed RTT.
    pub srtt: Option<Nanos>,
    /// Mean deviation of the RTT.
    pub rtt_var: Option<Nanos>,
    /// Windowed minimum RTT.
    pub min_rtt: Option<Nanos>,
    /// Pacing rate in force; `None`: not paced.
    pub pacing_rate: Option<Rate>,
    /// Newest delivery rate that was not application-limited, or the highest that was.
    pub delivery_rate: Option<Rate>,
    /// Payload acknowledged cumulatively.
    pub acked: Bytes,
    /// Delivered, cumulatively or selectively, in segments of MSS.
    pub delivered: Bytes,
    /// Segments sent, retransmissions included.
    pub segments_sent: u64,
    /// Segments retransmitted.
    pub retransmits: u64,
    /// Segments marked lost.
    pub lost: u64,
    /// Window reductions undone because they were spurious.
    pub undos: u64,
    /// Retransmission time-outs.
    pub timeouts: u64,
    /// Tail loss probes.
    pub tail_loss_probes: u64,
    /// Data packets that arrived CE-marked, as echoed by the receiver.
    pub ce_marks: u64,
    /// State of loss recovery.
    pub state: RecoveryState,
    /// Time limited by the congestion window or pacing.
    pub cwnd_limited: Nanos,
    /// Time limited by the receive window.
    pub receiver_limited: Nanos,
    /// Time limited by the application or its send buffer.
    pub sender_limited: Nanos,
}

/// An event of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowEvent {
    /// The SYN was answered.
    Established,
    /// The controller entered this state.
    ControllerState(&'static str),
    /// Fast recovery begins.
    RecoveryEntered,
    /// Fast recovery, or recovery after a time-out, is over.
    RecoveryLeft,
    /// Retransmission time-out, with the number of consecutive ones.
    Timeout(u32),
    /// A tail loss probe was sent.
    TailLossProbe,
    /// A tail loss probe repaired a loss: the window is reduced without a recovery.
    TailLoss,
    /// The window is reduced for ECN marks.
    EcnReduction,
    /// A reduction was undone.
    Undo(UndoCause),
}

/// Evidence that a window reduction was spurious.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UndoCause {
    /// Every retransmission was reported as a duplicate (RFC 2883, RFC 3708).
    Dsack,
    /// The acknowledgement's timestamp is older than the first retransmission (Eifel, RFC 3522).
    Timestamp,
    /// Data never retransmitted was acknowledged after a time-out (F-RTO, RFC 5682).
    Frto,
}

impl FlowEvent {
    /// Kind of the event in the events table.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Established => "established",
            Self::ControllerState(_) => "state",
            Self::RecoveryEntered => "recovery_entered",
            Self::RecoveryLeft => "recovery_left",
            Self::Timeout(_) => "timeout",
            Self::TailLossProbe => "tail_loss_probe",
            Self::TailLoss => "tail_loss",
            Self::EcnReduction => "ecn_reduction",
            Self::Undo(_) => "undo",
        }
    }

    /// Detail of the event in the events table; often empty.
    #[must_use]
    pub fn detail(&self) -> String {
        match self {
            Self::ControllerState(name) => (*name).to_owned(),
            Self::Timeout(n) => format!("{n} in a row"),
            Self::Undo(UndoCause::Dsack) => "dsack".to_owned(),
            Self::Undo(UndoCause::Timestamp) => "timestamp".to_owned(),
            Self::Undo(UndoCause::Frto) => "frto".to_owned(),
            _ => String::new(),
        }
    }
}

/// Limiting factor of a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The congestion window, or pacing.
    Window,
    /// The receive window.
    Receiver,
    /// Nothing to send.
    Sender,
}

/// Total time under each limiting factor (Linux's `tcp_chrono`, with cwnd as a class of its own).
#[derive(Clone, Copy, Debug, Default)]
pub struct LimitClock {
    current: Option<(Limit, Time)>,
    totals: [Nanos; 3],
}

impl LimitClock {
    /// Record that `limit` holds from `now` on.
    pub fn set(&mut self, now: Time, limit: Limit) {
        if let Some((previous, since)) = self.current {
            self.totals[previous as usize] += now.since(since);
        }
        self.current = Some((limit, now));
    }

    /// Time under `limit`, up to the last call of [`Self::set`].
    #[must_use]
    pub const fn total(&self, limit: Limit) -> Nanos {
        self.totals[limit as usize]
    }
}
