//! The congestion window of a connection: the controllers of TCP flows, with pacing, rate samples and proportional rate reduction, all counted in packets
//! (RFC 9002 §7). A recovery lasts one RTT: until a packet sent after its begin is acknowledged (RFC 9002 §7.3.2).

use super::rtt::Rtt;
use super::sent::Sent;
use crate::config::SenderConfig;
use crate::cwnd_usage::{CwndUsage, WindowFill};
use crate::pacing::{Pacer, burst_segments, window_rate};
use crate::prr::{Progress, Prr};
use crate::rate_sampler::{RateSampler, Sample};
use bentpipe_cc::{AckSample, Congestion, Controller, LostPacket, RateSample, RecoveryState};
use bentpipe_profile::{Bytes, Nanos, Rate, Time};

/// Window after persistent congestion [packets] (RFC 9002 §7.2).
const MINIMUM_WINDOW: u64 = 2;

/// Numbers of packets that delimit RTTs: the lowest outstanding one, and the next.
#[derive(Clone, Copy, Debug)]
pub struct Outstanding {
    /// Lowest number that is neither acknowledged nor lost.
    pub first: u64,
    /// Number of the next packet.
    pub next: u64,
    /// Packets in flight.
    pub in_flight: u32,
}

/// Effect of an acknowledgement.
#[derive(Clone, Copy, Debug)]
pub struct Acked {
    /// Packets that it newly acknowledges.
    pub packets: u64,
    /// Packets that are lost since the one before.
    pub lost: u64,
    /// Its RTT sample.
    pub rtt: Option<Nanos>,
    /// When the newest packet that it acknowledges was sent.
    pub newest_sent: Time,
    /// Packets in flight before it.
    pub prior_in_flight: u32,
}

/// See the module's documentation.
pub struct Window {
    config: SenderConfig,
    controller: Box<dyn Controller>,
    controls_recovery: bool,
    /// The controller's window [packets].
    cwnd: u64,
    ssthresh: u64,
    /// Rate sampler.
    pub rate: RateSampler,
    /// Departure times.
    pub pacer: Pacer,
    nominal_rate: Rate,
    burst: u32,
    usage: CwndUsage,
    prr: Prr,
    /// When the current recovery began.
    recovery: Option<Time>,
    state: RecoveryState,
    last_sent_at: Option<Time>,
    /// Packets lost so far, and times of persistent congestion.
    pub lost: u64,
    /// See `lost`.
    pub persistent: u64,
}

impl Window {
    /// Create the window of a new connection.
    #[must_use]
    pub fn new(config: SenderConfig, controller: Box<dyn Controller>) -> Self {
        let mut window = Self {
            config,
            controls_recovery: controller.controls_recovery(),
            controller,
            cwnd: 0,
            ssthresh: 0,
            rate: RateSampler::default(),
            pacer: Pacer::default(),
            nominal_rate: Rate(0),
            burst: 2,
            usage: CwndUsage::default(),
            prr: Prr::default(),
            recovery: None,
            state: RecoveryState::Open,
            last_sent_at: None,
            lost: 0,
            persistent: 0,
        };
        window.sync();
        window
    }

    /// The controller.
    #[must_use]
    pub fn controller(&self) -> &dyn Controller {
        &*self.controller
    }

    /// State of loss recovery.
    #[must_use]
    pub const fn state(&self) -> RecoveryState {
        self.state
    }

    /// Whether a packet may be sent, as far as the window allows it.
    #[must_use]
    pub fn is_open(&self, in_flight: u32) -> bool {
        u64::from(in_flight) < self.cwnd
    }

    /// Packets as bytes.
    #[must_use]
    pub fn bytes(&self, packets: u64) -> Bytes {
        Bytes(packets * u64::from(self.config.mss))
    }

    fn sync(&mut self) {
        let mss = u64::from(self.config.mss);
        self.cwnd = (self.controller.cwnd().0 / mss).max(1);
        let ssthresh = self.controller.ssthresh();
        self.ssthresh = if ssthresh == Bytes::MAX { u64::MAX } else { ssthresh.0 / mss };
    }

    fn set(&mut self, packets: u64) {
        if !self.controls_recovery {
            self.controller.set_cwnd(self.bytes(packets));
            self.sync();
        }
    }

    fn notify(&mut self, now: Time, event: Congestion, in_flight: u32) {
        self.controller.on_congestion(now, event, self.bytes(u64::from(in_flight)));
        self.sync();
    }

    /// Begin when the handshake is complete.
    pub fn on_established(&mut self, now: Time, rtt: &Rtt) {
        self.controller.on_established(now, rtt.smoothed());
        self.sync();
        self.update_pacing(rtt, 0);
    }

    /// Process that a packet with `len` bytes is sent; `in_flight`: with it.
    pub fn on_sent(&mut self, now: Time, len: u32, in_flight: u32) {
        if in_flight == 1
            && let Some(last) = self.last_sent_at
        {
            self.notify(now, Congestion::Restart(now.since(last)), 0);
        }
        self.last_sent_at = Some(now);
        if self.recovery.is_some() {
            self.prr.on_sent(1);
        }
        self.pacer.on_sent(now, len, self.burst);
        self.controller.on_sent(now, self.bytes(u64::from(in_flight)), self.rate.is_app_limited());
    }

    /// Process the loss of packets; `in_flight`: what remains. Returns whether a recovery begins (`OnCongestionEvent` of RFC 9002).
    pub fn on_lost(&mut self, now: Time, packets: &[(u64, Sent)], is_persistent: bool, in_flight: u32) -> bool {
        let mut newest = None;
        for (number, packet) in packets.iter().filter(|(_, packet)| packet.is_in_flight) {
            self.lost += 1;
            newest = newest.max(Some(packet.at));
            let lost = LostPacket {
                now,
                seq: number * u64::from(self.config.mss),
                bytes: self.bytes(1),
                sent_at: packet.at,
                tx_in_flight: self.bytes(u64::from(packet.tx_in_flight)),
                delivered_at_send: self.bytes(packet.snapshot.delivered),
                lost_at_send: self.bytes(packet.lost_before),
                lost_total: self.bytes(self.lost),
                delivered_total: self.bytes(self.rate.delivered()),
                app_limited: packet.snapshot.app_limited,
            };
            self.controller.on_packet_lost(&lost);
        }
        let is_in_recovery = self.recovery.is_some();
        let begins = !is_persistent && newest.is_some_and(|newest| self.recovery.is_none_or(|begin| newest > begin));
        if begins {
            self.prr = Prr::begin(self.cwnd);
            self.recovery = Some(now);
            self.state = RecoveryState::Recovery;
            self.notify(now, Congestion::Loss, in_flight);
        }
        if is_persistent {
            self.persistent += 1;
            self.recovery = None;
            self.state = RecoveryState::Loss;
            self.notify(now, if is_in_recovery { Congestion::TimeoutAgain } else { Congestion::Timeout }, in_flight);
            self.set(MINIMUM_WINDOW);
        }
        begins
    }

    /// Process an acknowledgement. Returns whether a recovery ends.
    pub fn on_acked(&mut self, now: Time, acked: &Acked, rtt: &Rtt, out: Outstanding) -> bool {
        let sample = self.rate.finish(now, acked.packets > 0, rtt.min());
        let ends = self.recovery.is_some_and(|begin| acked.newest_sent > begin);
        if ends {
            self.recovery = None;
            if self.ssthresh != u64::MAX {
                self.set(self.ssthresh);
            }
            self.notify(now, Congestion::RecoveryEnd, out.in_flight);
        }
        if acked.packets > 0 && self.recovery.is_none() {
            self.state = RecoveryState::Open;
        }
        let ack = self.sample(now, acked, rtt, out, sample);
        self.controller.on_acked(&ack);
        if self.controls_recovery {
            self.controller.on_ack(&ack);
        } else if self.recovery.is_some() {
            let in_flight = u64::from(out.in_flight);
            let progress = Progress { delivered: acked.packets, lost: acked.lost, una_advanced: true, in_flight };
            if let Some(window) = self.prr.window(progress, self.ssthresh) {
                self.set(window);
            }
        } else if acked.packets > 0 {
            self.controller.on_ack(&ack);
        }
        self.sync();
        self.update_pacing(rtt, out.in_flight);
        ends
    }

    fn sample(&self, now: Time, acked: &Acked, rtt: &Rtt, out: Outstanding, sample: Option<Sample>) -> AckSample {
        let mss = u64::from(self.config.mss);
        let delivery = sample.map(|sample| RateSample {
            prior_delivered: self.bytes(sample.prior_delivered),
            delivered: self.bytes(sample.delivered),
            interval: sample.interval,
            app_limited: sample.app_limited,
        });
        let lost_before = self.rate.lost_before().map_or(self.lost, u64::from);
        AckSample {
            now,
            mss: self.config.mss,
            acked: self.bytes(acked.packets),
            cumulative: self.bytes(acked.packets),
            newly_lost: self.bytes(acked.lost),
            rtt: acked.rtt,
            srtt: rtt.smoothed().unwrap_or(Nanos::ZERO),
            min_rtt: rtt.min(),
            delivery,
            delivered_total: self.bytes(self.rate.delivered()),
            lost_total: self.bytes(self.lost),
            tx_in_flight: self.bytes(u64::from(self.rate.tx_in_flight())),
            lost_since_sent: self.bytes(self.lost.saturating_sub(lost_before)),
            prior_in_flight: self.bytes(u64::from(acked.prior_in_flight)),
            in_flight: self.bytes(u64::from(out.in_flight)),
            ce_count: 0,
            ack_delayed: false,
            cwnd_limited: self.usage.is_limited(self.cwnd, self.cwnd < self.ssthresh),
            window_full: self.usage.is_full(),
            recovery: self.state,
            app_limited: self.rate.is_app_limited(),
            snd_una: out.first * mss,
            snd_nxt: out.next * mss,
            pacing_rate: self.nominal_rate,
            next_departure: self.pacer.next_departure(),
        }
    }

    /// Record how full the window is after the last packet that may leave. `is_limited`: more data wait for it; `is_idle`: none wait at all.
    pub fn on_pause(&mut self, now: Time, is_limited: bool, is_idle: bool, out: Outstanding) {
        let slow_start = self.cwnd < self.ssthresh;
        let limited = is_limited || !self.is_open(out.in_flight);
        let packets_out = u64::from(out.in_flight);
        self.usage.record(WindowFill { now, limited, packets_out, cwnd: self.cwnd, slow_start, una: out.first, nxt: out.next });
        if is_idle && !limited {
            self.rate.on_app_limited(out.in_flight);
        }
    }

    /// Every sender paces (RFC 9002 §7.7): at the controller's rate, or at a multiple of cwnd / srtt.
    fn update_pacing(&mut self, rtt: &Rtt, in_flight: u32) {
        self.nominal_rate = match (self.controller.pacing_rate(), rtt.smoothed()) {
            (Some(rate), _) => rate,
            (None, Some(srtt)) => window_rate(&self.config, self.cwnd, self.ssthresh, u64::from(in_flight), srtt),
            (None, None) => Rate(0),
        };
        self.pacer.set_rate((self.nominal_rate.0 > 0).then_some(self.nominal_rate));
        self.burst = burst_segments(&self.config, self.nominal_rate, rtt.min(), self.controller.min_tso_segments());
    }
}
