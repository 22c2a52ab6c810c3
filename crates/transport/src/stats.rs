//! What a connection lets an observer see.

use bentpipe_cc::RecoveryState;
use bentpipe_profile::{Bytes, Nanos, Rate, Time};

/// A sender at one instant. Counters are cumulative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderStats {
    /// Congestion window.
    pub cwnd: Bytes,
    /// Slow-start threshold; `Bytes::MAX`: none yet.
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
    /// Rate it is paced at; `None`: not paced.
    pub pacing_rate: Option<Rate>,
    /// Newest delivery rate that the application did not limit, or the highest that it did.
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
    /// Reductions undone, because nothing had been lost.
    pub undos: u64,
    /// Retransmission time-outs.
    pub timeouts: u64,
    /// Tail loss probes.
    pub tail_loss_probes: u64,
    /// Data packets that arrived marked, as echoed.
    pub ce_marks: u64,
    /// What it is doing about losses.
    pub state: RecoveryState,
    /// Time during which the window (or its pacing) held data back.
    pub cwnd_limited: Nanos,
    /// Time during which the receive window did.
    pub receiver_limited: Nanos,
    /// Time during which there was nothing to send: the application or its send buffer.
    pub sender_limited: Nanos,
}

/// A change of state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowEvent {
    /// The SYN was answered.
    Established,
    /// Fast recovery begins.
    RecoveryEntered,
    /// Fast recovery, or the one after a time-out, is over.
    RecoveryLeft,
    /// Retransmission time-out: how many in a row.
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

/// How a reduction turned out to be for nothing.
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
    /// Its name in the events table.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Established => "established",
            Self::RecoveryEntered => "recovery_entered",
            Self::RecoveryLeft => "recovery_left",
            Self::Timeout(_) => "timeout",
            Self::TailLossProbe => "tail_loss_probe",
            Self::TailLoss => "tail_loss",
            Self::EcnReduction => "ecn_reduction",
            Self::Undo(_) => "undo",
        }
    }

    /// What else there is to say; empty where nothing is.
    #[must_use]
    pub fn detail(&self) -> String {
        match self {
            Self::Timeout(n) => format!("{n} in a row"),
            Self::Undo(UndoCause::Dsack) => "dsack".to_owned(),
            Self::Undo(UndoCause::Timestamp) => "timestamp".to_owned(),
            Self::Undo(UndoCause::Frto) => "frto".to_owned(),
            _ => String::new(),
        }
    }
}

/// What holds a sender back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The congestion window, or pacing.
    Window,
    /// The receive window.
    Receiver,
    /// Nothing to send.
    Sender,
}

/// How long each limit has held (Linux's `tcp_chrono`, with the window as a class of its own).
#[derive(Clone, Copy, Debug, Default)]
pub struct LimitClock {
    current: Option<(Limit, Time)>,
    totals: [Nanos; 3],
}

impl LimitClock {
    /// From `now` on, `limit` holds.
    pub fn set(&mut self, now: Time, limit: Limit) {
        if let Some((was, since)) = self.current {
            self.totals[was as usize] += now.since(since);
        }
        self.current = Some((limit, now));
    }

    /// Time under `limit`, up to the last call of [`Self::set`].
    #[must_use]
    pub const fn total(&self, limit: Limit) -> Nanos {
        self.totals[limit as usize]
    }
}
