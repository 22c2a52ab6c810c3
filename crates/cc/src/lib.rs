//! Congestion controllers: one trait, shaped like the kernel's hooks, and one registry.
//!
//! | module | holds |
//! |---|---|
//! | [`registry`] | every controller by name, with its tunables; the list that makes a file here a controller |
//! | what that list names ([`new_reno`], [`cubic`], …) | a controller each |
//! | `leo` | what LEO-aware controllers are composed of |
//! | [`hints`] | what controllers are told of the path ahead of time, and how wrong |
//! | `delegate` | what a controller leaves to the one it is made of |
//! | `bbr_parts`, [`window`], [`hystart`], [`hystart_pp`], [`filter`] | what controllers are composed of |

#[macro_use]
mod delegate;
#[macro_use]
pub mod registry;

mod bbr_parts;
pub mod error;
pub mod filter;
#[cfg(test)]
mod fuzz;
pub mod hints;
pub mod hystart;
pub mod hystart_pp;
mod leo;
#[cfg(test)]
mod testing;
pub mod window;

macro_rules! modules {
    ($($controller:ident)*) => {
        $(pub mod $controller;)*
    };
}
every_controller!(modules);

use bentpipe_profile::run::CA_STATES;
use bentpipe_profile::{Bytes, Nanos, Rate, Time};

/// What the sender is doing about losses; Linux's `tcp_ca_state`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum RecoveryState {
    /// Nothing is amiss.
    #[default]
    Open,
    /// Duplicate or selective acknowledgements, but nothing is marked lost.
    Disorder,
    /// The window comes down without a loss, for ECN marks.
    Cwr,
    /// Fast recovery.
    Recovery,
    /// After a retransmission time-out.
    Loss,
}

impl RecoveryState {
    /// Its name in the samples table.
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

/// What one ACK tells a controller. Counts are bytes; times are the sender's clock.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::struct_excessive_bools)] // facts of one ACK, not states
pub struct AckSample {
    /// The sender's clock.
    pub now: Time,
    /// Maximum segment size [bytes].
    pub mss: u32,
    /// Newly delivered by this ACK, cumulatively or selectively.
    pub acked: Bytes,
    /// Newly acknowledged cumulatively.
    pub cumulative: Bytes,
    /// Newly marked lost.
    pub newly_lost: Bytes,
    /// The newest RTT; `None`: only retransmissions were acknowledged.
    pub rtt: Option<Nanos>,
    /// Smoothed RTT; zero before the first sample.
    pub srtt: Nanos,
    /// Windowed minimum RTT of the connection (RACK's); `Nanos::MAX` before the first sample.
    pub min_rtt: Nanos,
    /// From the shared sampler; `None`: no valid sample.
    pub delivery: Option<RateSample>,
    /// Delivered on this connection so far, this ACK included.
    pub delivered_total: Bytes,
    /// Lost on this connection so far.
    pub lost_total: Bytes,
    /// In flight when the newest acknowledged packet was sent, itself included.
    pub tx_in_flight: Bytes,
    /// Lost on this connection since then.
    pub lost_since_sent: Bytes,
    /// In flight before this ACK.
    pub prior_in_flight: Bytes,
    /// In flight after this ACK.
    pub in_flight: Bytes,
    /// `CE` marks echoed so far.
    pub ce_count: u64,
    /// Whether the receiver held this ACK back (one segment acknowledged after a wait).
    pub ack_delayed: bool,
    /// Whether the window, not the application, limits the sender (`tcp_is_cwnd_limited`).
    pub cwnd_limited: bool,
    /// Whether the window held data back in this RTT (`tp->is_cwnd_limited`).
    pub window_full: bool,
    /// State after this ACK was processed.
    pub recovery: RecoveryState,
    /// Whether the sender has less to send than the window allows (`tp->app_limited`).
    pub app_limited: bool,
    /// First byte not cumulatively acknowledged, after this ACK: rounds of `HyStart`, Vegas and their kin end by it.
    pub snd_una: u64,
    /// Next new byte to send, before this ACK lets anything out.
    pub snd_nxt: u64,
    /// What the sender paces at, or would if it paced (`sk_pacing_rate`); zero before the first RTT.
    pub pacing_rate: Rate,
    /// Earliest departure of the next packet (`tcp_wstamp_ns`); `now` or earlier when nothing holds it back.
    pub next_departure: Time,
}

/// A packet marked lost, with its state when it was sent.
#[derive(Clone, Copy, Debug)]
pub struct LostPacket {
    /// When it was declared lost.
    pub now: Time,
    /// Its first byte.
    pub seq: u64,
    /// Payload [bytes].
    pub bytes: Bytes,
    /// When it was sent.
    pub sent_at: Time,
    /// In flight when it was sent, itself included.
    pub tx_in_flight: Bytes,
    /// Delivered when it was sent.
    pub delivered_at_send: Bytes,
    /// Lost when it was sent.
    pub lost_at_send: Bytes,
    /// Lost on this connection so far, this packet included.
    pub lost_total: Bytes,
    /// Delivered on this connection so far.
    pub delivered_total: Bytes,
    /// Whether the sender had less to send than the window allowed when it was sent.
    pub app_limited: bool,
}

/// A congestion event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Congestion {
    /// Fast recovery begins (`TCP_CA_Recovery`); `ssthresh()` is asked for right after.
    Loss,
    /// ECN echo: a reduction without loss (`TCP_CA_CWR`).
    Ecn,
    /// Retransmission time-out (`TCP_CA_Loss`). Told after what is marked lost was marked: `in_flight` is what remains. `ssthresh()` falls. A controller
    /// that `controls_recovery` sets its window to `in_flight` + 1 MSS itself; for the others the sender calls `set_cwnd`.
    Timeout,
    /// A time-out whose reduction was made already: in fast recovery, or backing off without progress (the condition in `tcp_enter_loss`).
    /// The rest is as for `Timeout`; `ssthresh()` stays.
    TimeoutAgain,
    /// A tail loss probe repaired a loss that nothing else would have shown (`CA_EVENT_TLP_RECOVERY`); `Loss` was told before it.
    TailLoss,
    /// The last reduction was for nothing (DSACK or Eifel): restore the window that was (`tcp_undo_cwnd_reduction`).
    Undo,
    /// Recovery is over.
    RecoveryEnd,
    /// Transmission restarts after the line was idle (`CA_EVENT_TX_START`), this long after the last send.
    Restart(Nanos),
}

/// What the path lets a controller know ahead of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathHint {
    /// The path will be, or was, reconfigured at this time of the sender's clock.
    Reconfiguration(Time),
    /// What a wall clock shows when the sender's clock is zero [ns since 1970-01-01 UTC].
    WallClock(i64),
}

/// Where telemetry leaves a controller.
pub trait Probe {
    /// A value by name, its unit in the name (`bw_bps`, `min_rtt_ms`, `full_bw_count`).
    fn value(&mut self, name: &'static str, value: f64);
    /// The state the controller is in (`startup`, `probe_bw`, `slow_start`, …).
    fn state(&mut self, name: &'static str);
}

/// A congestion controller. The sender does loss detection, PRR and RTO; a controller decides on the window and the pacing rate.
pub trait Controller: Send {
    /// The connection is established (`None`: no RTT was measured on the handshake).
    fn on_established(&mut self, now: Time, rtt: Option<Nanos>);
    /// Every ACK in every state, before the window is worked on (`pkts_acked`): where window-based controllers see RTTs in recovery too.
    fn on_acked(&mut self, _ack: &AckSample) {}
    /// An ACK was processed. Window-based controllers (`controls_recovery` false) are called only when the window may grow
    /// (not in Recovery unless the state allows it), as `cong_avoid` is; model-based ones on every ACK, as `cong_control` is.
    fn on_ack(&mut self, ack: &AckSample);
    /// A packet was marked lost.
    fn on_packet_lost(&mut self, _lost: &LostPacket) {}
    /// A congestion event, at `now`, with `in_flight` bytes outstanding.
    fn on_congestion(&mut self, now: Time, event: Congestion, in_flight: Bytes);
    /// Bytes were sent: in flight after sending.
    fn on_sent(&mut self, _now: Time, _in_flight: Bytes, _app_limited: bool) {}
    /// What the path tells; most algorithms ignore it.
    fn on_path_hint(&mut self, _hint: &PathHint) {}
    /// Congestion window.
    fn cwnd(&self) -> Bytes;
    /// The sender sets the window: PRR during recovery, 1 MSS after a time-out, restart after idle. Not called when `controls_recovery`.
    fn set_cwnd(&mut self, cwnd: Bytes);
    /// Slow-start threshold (after `Congestion::Loss`: the window to come out of recovery with); `Bytes::MAX`: none yet.
    fn ssthresh(&self) -> Bytes;
    /// The sender raises the threshold to ¾ of the window before it lowers the window of a connection that was idle or application-limited
    /// (`tcp_current_ssthresh`, RFC 2861 §3).
    fn set_ssthresh(&mut self, _ssthresh: Bytes) {}
    /// The rate to pace at; `None`: the sender's own rule (a multiple of cwnd / srtt, if the host paces at all).
    fn pacing_rate(&self) -> Option<Rate> {
        None
    }
    /// Whether it owns the window in recovery, so that PRR is bypassed (`cong_control` in Linux: BBR).
    fn controls_recovery(&self) -> bool {
        false
    }
    /// Multiple of cwnd that the send buffer is grown to (`sndbuf_expand`; 2, BBR 3).
    fn sndbuf_factor(&self) -> u32 {
        2
    }
    /// Fewest segments in one burst (`min_tso_segs`); `None`: the sender's default (2).
    fn min_tso_segments(&self) -> Option<u32> {
        None
    }
    /// Telemetry leaves here.
    fn observe(&self, probe: &mut dyn Probe);
}
