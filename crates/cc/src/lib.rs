//! Congestion controllers: one trait, shaped like the kernel's hooks, and one registry.
//!
//! | module | content |
//! |---|---|
//! | [`registry`] | every controller by name, with its tunables; its list declares their modules |
//! | [`controllers`] | where a Run's controllers come from: the registry, plug-ins, a recorder around them |
//! | the modules of that list ([`new_reno`], [`cubic`], …) | one controller each |
//! | `leo` | parts of LEO-aware controllers |
//! | [`hints`] | path information that controllers receive ahead of time, and its errors |
//! | [`knowledge`] | information about the path that only a simulator has |
//! | [`option_words`] | options as the kernel's controllers read them, and back |
//! | [`hook_trace`] | every call of a controller recorded, and replayed without a network |
//! | `delegate` | forwarding of methods to an inner controller |
//! | `bbr_parts`, [`window`], [`hystart`], [`hystart_pp`], [`filter`], [`fixed`] | parts that controllers share |

#[macro_use(choices, options)]
extern crate bentpipe_profile;
#[macro_use]
mod delegate;
#[macro_use]
pub mod registry;

mod bbr_parts;
pub mod controllers;
pub mod error;
pub mod filter;
pub mod fixed;
#[cfg(test)]
mod fuzz;
#[cfg(any(test, feature = "testing"))]
pub mod fuzz_steps;
pub mod hints;
pub mod hook_trace;
pub mod hystart;
pub mod hystart_pp;
pub mod knowledge;
mod leo;
pub mod option_words;
#[cfg(any(test, feature = "testing"))]
#[allow(missing_docs, clippy::missing_panics_doc, clippy::must_use_candidate, clippy::return_self_not_must_use)] // helpers of tests
pub mod testing;
pub mod window;

macro_rules! modules {
    ($($controller:ident)*) => {
        $(pub mod $controller;)*
    };
}
every_controller!(modules);

pub use leo::host::{HostClock, SocketSample};

use self::knowledge::Knowledge;
use bentpipe_profile::run::CA_STATES;
use bentpipe_profile::{Bytes, Nanos, Rate, Time};

/// Loss-recovery state of the sender; Linux's `tcp_ca_state`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum RecoveryState {
    /// Normal: no duplicate acknowledgements, nothing marked lost.
    #[default]
    Open,
    /// Duplicate or selective acknowledgements, but nothing is marked lost.
    Disorder,
    /// The window is reduced without a loss, because of ECN marks.
    Cwr,
    /// Fast recovery.
    Recovery,
    /// After a retransmission time-out.
    Loss,
}

impl RecoveryState {
    /// Returns the name in the samples table.
    #[must_use]
    pub const fn name(self) -> &'static str {
        CA_STATES[self as usize]
    }
}

/// One delivery-rate sample (draft-cheng-iccrg-delivery-rate-estimation; Linux `tcp_rate.c`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateSample {
    /// `delivered` when the newest acknowledged packet was sent [bytes].
    pub prior_delivered: Bytes,
    /// Bytes delivered over `interval`.
    pub delivered: Bytes,
    /// The longer of the send and the ACK phase.
    pub interval: Nanos,
    /// Whether the sender had less to send than the window allowed when that packet was sent.
    pub app_limited: bool,
}

/// One ACK as a controller receives it. Counts are bytes; times are on the sender's clock.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::struct_excessive_bools)] // independent flags of one ACK
pub struct AckSample {
    /// Time on the sender's clock.
    pub now: Time,
    /// Maximum segment size [bytes].
    pub mss: u32,
    /// Bytes newly delivered by this ACK, cumulatively or selectively.
    pub acked: Bytes,
    /// Bytes newly acknowledged cumulatively.
    pub cumulative: Bytes,
    /// Bytes newly marked lost.
    pub newly_lost: Bytes,
    /// The newest RTT; `None`: only retransmissions were acknowledged.
    pub rtt: Option<Nanos>,
    /// Smoothed RTT; zero before the first sample.
    pub srtt: Nanos,
    /// Windowed minimum RTT of the connection (RACK's); `Nanos::MAX` before the first sample.
    pub min_rtt: Nanos,
    /// Delivery-rate sample of the shared sampler; `None`: no valid sample.
    pub delivery: Option<RateSample>,
    /// Bytes delivered on this connection so far, this ACK included.
    pub delivered_total: Bytes,
    /// Bytes lost on this connection so far.
    pub lost_total: Bytes,
    /// Bytes in flight when the newest acknowledged packet was sent, itself included.
    pub tx_in_flight: Bytes,
    /// Bytes lost on this connection since that packet was sent.
    pub lost_since_sent: Bytes,
    /// Bytes in flight before this ACK.
    pub prior_in_flight: Bytes,
    /// Bytes in flight after this ACK.
    pub in_flight: Bytes,
    /// `CE` marks echoed so far.
    pub ce_count: u64,
    /// Whether the receiver delayed this ACK (one segment acknowledged after a wait).
    pub ack_delayed: bool,
    /// Whether the window, not the application, limits the sender (`tcp_is_cwnd_limited`).
    pub cwnd_limited: bool,
    /// Whether the window prevented a send in this RTT (`tp->is_cwnd_limited`).
    pub window_full: bool,
    /// Recovery state after this ACK was processed.
    pub recovery: RecoveryState,
    /// Whether the sender has less to send than the window allows (`tp->app_limited`).
    pub app_limited: bool,
    /// First byte not cumulatively acknowledged, after this ACK; ends the rounds of `HyStart` and similar algorithms.
    pub snd_una: u64,
    /// Next new byte to send, before this ACK releases any data.
    pub snd_nxt: u64,
    /// Pacing rate of the sender, or the rate it would pace at (`sk_pacing_rate`); zero before the first RTT.
    pub pacing_rate: Rate,
    /// Earliest departure of the next packet (`tcp_wstamp_ns`); `now` or earlier when pacing does not delay it.
    pub next_departure: Time,
}

/// A packet marked lost, with its state when it was sent.
#[derive(Clone, Copy, Debug)]
pub struct LostPacket {
    /// Time at which it was marked lost.
    pub now: Time,
    /// First byte [sequence number].
    pub seq: u64,
    /// Payload [bytes].
    pub bytes: Bytes,
    /// Time at which it was sent.
    pub sent_at: Time,
    /// Bytes in flight when it was sent, itself included.
    pub tx_in_flight: Bytes,
    /// Bytes delivered when it was sent.
    pub delivered_at_send: Bytes,
    /// Bytes lost when it was sent.
    pub lost_at_send: Bytes,
    /// Bytes lost on this connection so far, this packet included.
    pub lost_total: Bytes,
    /// Bytes delivered on this connection so far.
    pub delivered_total: Bytes,
    /// Whether the sender had less to send than the window allowed when it was sent.
    pub app_limited: bool,
}

/// A congestion event that the sender reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Congestion {
    /// Fast recovery begins (`TCP_CA_Recovery`); the sender calls `ssthresh()` right after.
    Loss,
    /// ECN echo: a reduction without loss (`TCP_CA_CWR`).
    Ecn,
    /// Retransmission time-out (`TCP_CA_Loss`). Reported after packets are marked lost: `in_flight` is what remains. `ssthresh()` falls. A controller
    /// with `controls_recovery` sets its window to `in_flight` + 1 MSS itself; for the others the sender calls `set_cwnd`.
    Timeout,
    /// A time-out that causes no further reduction: in fast recovery, or repeated without progress (the condition in `tcp_enter_loss`).
    /// As `Timeout`, but `ssthresh()` stays.
    TimeoutAgain,
    /// A tail loss probe repaired a loss that nothing else would have shown (`CA_EVENT_TLP_RECOVERY`); `Loss` is reported before it.
    TailLoss,
    /// The last reduction was spurious (DSACK or Eifel): the previous window comes back (`tcp_undo_cwnd_reduction`).
    Undo,
    /// Recovery ends.
    RecoveryEnd,
    /// Transmission restarts after an idle period (`CA_EVENT_TX_START`), this long after the last send.
    Restart(Nanos),
}

/// Path information that a controller receives ahead of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathHint {
    /// Time of a past or future reconfiguration of the path, on the sender's clock.
    Reconfiguration(Time),
    /// Wall-clock time when the sender's clock is zero [ns since 1970-01-01 UTC].
    WallClock(i64),
}

/// Receiver of a controller's telemetry.
pub trait Probe {
    /// Records a value by name, its unit in the name (`bw_bps`, `min_rtt_ms`, `full_bw_count`).
    fn value(&mut self, name: &'static str, value: f64);
    /// Records the state that the controller is in (`startup`, `probe_bw`, `slow_start`, …).
    fn state(&mut self, name: &'static str);
}

/// A congestion controller. The sender detects losses and runs PRR and RTO; a controller sets the window and the pacing rate.
pub trait Controller: Send {
    /// Called when the connection is established (`None`: the handshake measured no RTT).
    fn on_established(&mut self, now: Time, rtt: Option<Nanos>);
    /// Called on every ACK in every state, before the window changes (`pkts_acked`). Window-based controllers see RTTs in recovery here.
    fn on_acked(&mut self, _ack: &AckSample) {}
    /// Called after an ACK was processed. Window-based controllers (`controls_recovery` false) are called only when the window may grow
    /// (in Recovery only if the state allows it), as `cong_avoid` is; model-based ones on every ACK, as `cong_control` is.
    fn on_ack(&mut self, ack: &AckSample);
    /// Called when a packet is marked lost.
    fn on_packet_lost(&mut self, _lost: &LostPacket) {}
    /// Called at a congestion event, with `in_flight` bytes outstanding.
    fn on_congestion(&mut self, now: Time, event: Congestion, in_flight: Bytes);
    /// Called after bytes were sent; `in_flight` includes them.
    fn on_sent(&mut self, _now: Time, _in_flight: Bytes, _app_limited: bool) {}
    /// Receives a path hint; most algorithms ignore it.
    fn on_path_hint(&mut self, _hint: &PathHint) {}
    /// Receives what only a simulator knows, if its needs are [`hints::Needs::Future`].
    fn on_knowledge(&mut self, _knowledge: &Knowledge<'_>) {}
    /// Returns the congestion window.
    fn cwnd(&self) -> Bytes;
    /// Sets the window on behalf of the sender: PRR in recovery, 1 MSS after a time-out, restart after idle. Not called when `controls_recovery`.
    fn set_cwnd(&mut self, cwnd: Bytes);
    /// Returns the slow-start threshold (after `Congestion::Loss`: the window at the end of recovery); `Bytes::MAX`: not set yet.
    fn ssthresh(&self) -> Bytes;
    /// Sets the threshold on behalf of the sender. It raises it to ¾ of the window before it lowers the window of an idle or application-limited connection
    /// (`tcp_current_ssthresh`, RFC 2861 §3).
    fn set_ssthresh(&mut self, _ssthresh: Bytes) {}
    /// Returns the pacing rate; `None`: the sender's own rule (a multiple of cwnd / srtt, if the host paces at all).
    fn pacing_rate(&self) -> Option<Rate> {
        None
    }

    /// Returns the earliest departure of the next packet, if the controller sets it itself after each packet (`skb->tstamp`); `None`: that of its pacing rate.
    fn next_departure(&self) -> Option<Time> {
        None
    }

    /// Returns whether it sets the window in recovery itself, so that PRR is bypassed (`cong_control` in Linux: BBR).
    fn controls_recovery(&self) -> bool {
        false
    }

    /// Returns the multiple of cwnd that the send buffer grows to (`sndbuf_expand`; 2, BBR 3).
    fn sndbuf_factor(&self) -> u32 {
        2
    }

    /// Returns the fewest segments in one burst (`min_tso_segs`); `None`: the sender's default (2).
    fn min_tso_segments(&self) -> Option<u32> {
        None
    }

    /// Returns the largest retransmission time-out that the connection should have now, which the sender raises to at least 1 s (`TCP_RTO_MAX_MS`); `None`: the
    /// host's. The sender asks after each ACK and at each time-out, before it doubles the RTO.
    fn max_rto(&self, _now: Time) -> Option<Nanos> {
        None
    }

    /// Reports telemetry to `probe`.
    fn observe(&self, probe: &mut dyn Probe);
}
