//! The sending end of a connection.
//!
//! | file | holds |
//! |---|---|
//! | `mod.rs` | the connection's state and statistics |
//! | `transmit.rs` | transmission: which segment may leave now |
//! | `acks.rs` | processing of an acknowledgement |
//! | `state.rs`, `recovery.rs` | the states of loss recovery; their transitions |
//! | `tso.rs` | TSO bursts and their deferral |
//! | `occupancy.rs` | what a scheduler over several connections must know |
//! | `timers.rs` | RTO, tail loss probe, reordering timer, handshake |

mod acks;
mod occupancy;
mod recovery;
mod state;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod timers;
mod transmit;
mod tso;

pub use self::occupancy::Occupancy;

use crate::backlog::Backlog;
use crate::config::SenderConfig;
use crate::cwnd_usage::CwndUsage;
use crate::ecn::SenderEcn;
use crate::min_rtt::MinRtt;
use crate::pacing::{Pacer, burst_segments, window_rate};
use crate::prr::Prr;
use crate::rack::Rack;
use crate::rate_sampler::RateSampler;
use crate::rto::RttEstimator;
use crate::scoreboard::Scoreboard;
use crate::sndbuf::{Queued, SendBuffer, size_goal};
use crate::stats::{FlowEvent, Limit, LimitClock, SenderStats};
use crate::tlp::TailProbe;
use crate::turnaround::Turnaround;
use crate::undo::Undo;
use bentpipe_cc::knowledge::Knowledge;
use bentpipe_cc::{Congestion, Controller};
use bentpipe_profile::{Bytes, Nanos, Rate, Time};
use state::State;
use std::collections::VecDeque;
use timers::{Forced, Handshake, Timer};
use tso::Bursts;

/// A sender. It never waits and reads no clock. The driver calls it with the time, sends what [`Self::poll_transmit`] returns until that is
/// `None`, and calls [`Self::on_wake`] at [`Self::wake_at`].
///
/// Like the kernel it counts in packets of one MSS; the bytes it reports to its controller are packets × MSS.
#[allow(clippy::struct_excessive_bools)] // independent facts, not states
pub struct Sender {
    config: SenderConfig,
    controller: Box<dyn Controller>,
    /// Whether the controller sets the window in recovery (`cong_control`).
    controls_recovery: bool,
    /// The controller's cwnd and ssthresh [packets] at the last call.
    cwnd: u64,
    ssthresh: u64,

    handshake: Handshake,
    /// First byte not acknowledged (`SND.UNA`); next byte to send (`SND.NXT`); end of the receive window; largest receive window so far.
    una: u64,
    nxt: u64,
    window_end: u64,
    max_window: u64,
    fin_sent: bool,
    /// End of the last short segment sent (`snd_sml`).
    short_end: u64,
    /// The receiver's newest timestamp.
    ts_recent: Time,
    last_sent_at: Time,
    /// Timestamp of the last segment: no two are equal.
    last_stamp: Time,

    buffer: SendBuffer,
    scoreboard: Scoreboard,
    rack: Rack,
    rate: RateSampler,
    rtt: RttEstimator,
    min_rtt: MinRtt,
    turnaround: Turnaround,
    backlog: Backlog,
    pacer: Pacer,
    /// Pacing rate, in force or not (`sk_pacing_rate`); zero before the first RTT sample.
    nominal_rate: Rate,
    /// Most segments in a burst at that rate.
    burst: u32,
    bursts: Bursts,
    usage: CwndUsage,
    prr: Prr,
    undo: Undo,
    probe: TailProbe,
    ecn: SenderEcn,

    state: State,
    /// `SND.NXT` when the current state of recovery began.
    high_seq: u64,
    /// Whether an undo may restore the window before the reduction (`prior_ssthresh`).
    can_restore: bool,
    /// Whether F-RTO may still prove the time-out spurious.
    frto: bool,
    /// Whether retransmissions wait for the next acknowledgement.
    hold_retransmissions: bool,
    /// Consecutive time-outs since the cumulative acknowledgement last advanced.
    timeouts_in_row: u32,
    /// Probes of the receive window since it was last open.
    window_probes: u32,
    timer: Option<Timer>,
    /// Whether the current acknowledgement armed the reordering timer.
    reordering_armed: bool,
    forced: Option<Forced>,
    pacing_wake: Option<Time>,
    /// Whether new segments, or any segments, were sent since `poll_transmit` last returned `None`.
    sent_new: bool,
    sent_any: bool,

    counters: Counters,
    limits: LimitClock,
    events: VecDeque<(Time, FlowEvent)>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    segments_sent: u64,
    retransmits: u64,
    lost: u64,
    undos: u64,
    timeouts: u64,
    probes: u64,
    duplicates: u64,
    acked_bytes: u64,
    ce_marks: u64,
    latest_rtt: Option<Nanos>,
    fresh_rtt: Option<Nanos>,
}

impl Sender {
    /// Create a closed connection.
    #[must_use]
    pub fn new(config: SenderConfig, controller: Box<dyn Controller>) -> Self {
        let mut sender = Self {
            controls_recovery: controller.controls_recovery(),
            buffer: SendBuffer::new(&config, controller.sndbuf_factor()),
            controller,
            cwnd: 0,
            ssthresh: 0,
            handshake: Handshake::Closed,
            una: 0,
            nxt: 0,
            window_end: 0,
            max_window: 0,
            fin_sent: false,
            short_end: 0,
            ts_recent: Time::ZERO,
            last_sent_at: Time::ZERO,
            last_stamp: Time::ZERO,
            scoreboard: Scoreboard::new(config.mss),
            rack: Rack::default(),
            rate: RateSampler::default(),
            rtt: RttEstimator::new(config.rto_min, config.rto_max),
            min_rtt: MinRtt::new(config.min_rtt_window),
            turnaround: Turnaround::new(config.host_times),
            backlog: Backlog::new(config.host_times),
            pacer: Pacer::default(),
            nominal_rate: Rate(0),
            burst: 1,
            bursts: Bursts::new(&config),
            usage: CwndUsage::default(),
            prr: Prr::default(),
            undo: Undo::default(),
            probe: TailProbe::default(),
            ecn: SenderEcn::default(),
            state: State::Open,
            high_seq: 0,
            can_restore: false,
            frto: false,
            hold_retransmissions: false,
            timeouts_in_row: 0,
            window_probes: 0,
            timer: None,
            reordering_armed: false,
            forced: None,
            pacing_wake: None,
            sent_new: false,
            sent_any: false,
            counters: Counters::default(),
            limits: LimitClock::default(),
            events: VecDeque::new(),
            config,
        };
        sender.sync_window();
        sender
    }

    /// Offer bytes from the application; `u64::MAX`: it never runs out of data. Bytes that the send buffer cannot hold wait in the application.
    pub fn app_write(&mut self, now: Time, bytes: Bytes) {
        self.buffer.offer(bytes.0);
        self.fill_buffer(now);
    }

    /// Whether the application has data that the send buffer has not accepted.
    #[must_use]
    pub const fn has_unbuffered_data(&self) -> bool {
        self.buffer.has_more()
    }

    /// Payload acknowledged cumulatively.
    #[must_use]
    pub const fn acked(&self) -> Bytes {
        Bytes(self.counters.acked_bytes)
    }

    /// Close the connection after the data offered so far.
    pub fn app_close(&mut self) {
        self.buffer.close();
    }

    /// Whether the application closed and everything is acknowledged.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.fin_sent && self.una == self.nxt
    }

    /// Begin congestion control anew with `controller`: its initial window and no reduction to undo.
    pub fn restart(&mut self, now: Time, controller: Box<dyn Controller>) {
        self.controls_recovery = controller.controls_recovery();
        self.controller = controller;
        self.can_restore = false;
        self.undo = Undo::default();
        self.sync_window();
        if self.is_established() {
            self.controller.on_established(now, self.rtt.srtt());
            self.sync_window();
            self.update_pacing();
        }
    }

    /// Tell the controller what only a simulator knows.
    pub fn on_knowledge(&mut self, knowledge: &Knowledge<'_>) {
        self.controller.on_knowledge(knowledge);
    }

    /// The congestion controller.
    #[must_use]
    pub fn controller(&self) -> &dyn Controller {
        &*self.controller
    }

    /// Take the oldest event and its time.
    pub fn next_event(&mut self) -> Option<(Time, FlowEvent)> {
        self.events.pop_front()
    }

    /// Discard the events recorded so far.
    pub fn discard_events(&mut self) {
        self.events.clear();
    }

    /// Take the newest RTT sample; each is returned once.
    pub fn take_rtt_sample(&mut self) -> Option<Nanos> {
        self.counters.fresh_rtt.take()
    }

    /// Return the current statistics.
    #[must_use]
    pub fn stats(&self) -> SenderStats {
        let c = &self.counters;
        let rate = |(packets, span): (u64, Nanos)| Rate::of(self.bytes(packets), span);
        SenderStats {
            cwnd: self.controller.cwnd(),
            ssthresh: self.controller.ssthresh(),
            in_flight: self.in_flight_bytes(),
            rtt_latest: c.latest_rtt,
            srtt: self.rtt.srtt(),
            rtt_var: self.rtt.mean_deviation(),
            min_rtt: Some(self.min_rtt.get()).filter(|&rtt| rtt != Nanos::MAX),
            pacing_rate: self.pacer.rate(),
            delivery_rate: self.rate.rate().map(rate),
            acked: Bytes(c.acked_bytes),
            delivered: self.bytes(self.rate.delivered()),
            segments_sent: c.segments_sent,
            retransmits: c.retransmits,
            lost: c.lost,
            undos: c.undos,
            timeouts: c.timeouts,
            tail_loss_probes: c.probes,
            ce_marks: c.ce_marks,
            state: self.state.public(),
            cwnd_limited: self.limits.total(Limit::Window),
            receiver_limited: self.limits.total(Limit::Receiver),
            sender_limited: self.limits.total(Limit::Sender),
        }
    }

    fn bytes(&self, packets: u64) -> Bytes {
        Bytes(packets * u64::from(self.config.mss))
    }

    fn in_flight_bytes(&self) -> Bytes {
        self.bytes(u64::from(self.scoreboard.in_flight()))
    }

    fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    fn record_event(&mut self, now: Time, event: FlowEvent) {
        self.events.push_back((now, event));
    }

    /// Copy cwnd and ssthresh from the controller.
    fn sync_window(&mut self) {
        let mss = u64::from(self.config.mss);
        self.cwnd = (self.controller.cwnd().0 / mss).max(1);
        let ssthresh = self.controller.ssthresh();
        self.ssthresh = if ssthresh == Bytes::MAX { u64::MAX } else { ssthresh.0 / mss };
    }

    /// Process the window that the peer announces: no skb is larger than half of the largest.
    fn on_peer_window(&mut self, window: Bytes) {
        if window.0 > self.max_window {
            self.max_window = window.0;
            let goal = size_goal(&self.config, window.0);
            self.buffer.set_goal(goal);
            self.bursts.set_goal(goal);
        }
    }

    /// Set the controller's window, unless it controls recovery itself.
    fn set_window(&mut self, packets: u64) {
        if !self.controls_recovery {
            self.controller.set_cwnd(self.bytes(packets));
            self.sync_window();
        }
    }

    /// Raise ssthresh to at least ¾ of cwnd before an idle or application-limited cwnd is reduced (`tcp_current_ssthresh`).
    fn raise_ssthresh(&mut self) {
        let ssthresh = self.ssthresh.max(self.cwnd / 2 + self.cwnd / 4);
        self.controller.set_ssthresh(if ssthresh == u64::MAX { Bytes::MAX } else { self.bytes(ssthresh) });
    }

    fn notify_controller(&mut self, now: Time, event: Congestion) {
        self.controller.on_congestion(now, event, self.in_flight_bytes());
        self.sync_window();
    }

    /// Update the pacing rate and the burst size.
    fn update_pacing(&mut self) {
        let controller_rate = self.controller.pacing_rate();
        self.nominal_rate = match (controller_rate, self.rtt.srtt()) {
            (Some(rate), _) => rate,
            (None, Some(srtt)) => window_rate(&self.config, self.cwnd, self.ssthresh, u64::from(self.scoreboard.packets_out()), srtt),
            (None, None) => Rate(0),
        };
        let enforced = (controller_rate.is_some() || self.config.fq) && self.nominal_rate.0 > 0;
        self.pacer.set_rate(enforced.then_some(self.nominal_rate));
        self.burst = burst_segments(&self.config, self.nominal_rate, self.min_rtt.get(), self.controller.min_tso_segments());
    }

    fn queue(&mut self) -> Queued {
        let bursts = self.bursts.outstanding(self.una, self.nxt);
        Queued { una: self.una, nxt: self.nxt, bursts }
    }
}
