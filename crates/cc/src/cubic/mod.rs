//! CUBIC as Linux computes it, in the kernel's integers.
//!
//! Source: Linux `net/ipv4/tcp_cubic.c`, 6.18 (version 2.3 of the module); the same curve as RFC 9438 with C = 410/1024 and β = 717/1024:
//! `W(t) = C·(t − K)³ + W_max`, `K = cbrt((W_max − cwnd) / C)`, `t` from the start of the epoch plus the minimum RTT. The result is a count of packets to be
//! acknowledged per packet of growth, so all intermediate values are integers: time in 1/1024 s, windows in packets.
//! Differences from RFC 9438 are Linux's: classic `HyStart`, `t` on a clock of jiffies, growth limited to one packet per two acknowledged, and a Reno estimate
//! from packets acknowledged (§4.3) that is not limited by the window before the loss.

mod epoch;

use super::hints::Needs;
use super::hystart::HyStart;
use super::hystart_pp::HyStartPp;
use super::registry::{Config, Entry};
use super::window::{PacketWindow, clamped_packets};
use super::{AckSample, Congestion, Controller, Probe};
use bentpipe_profile::tunables::{OptionSet, switch};
use bentpipe_profile::units::NANOS_PER_SEC;
use bentpipe_profile::{Bytes, Nanos, Time};
use epoch::{BETA, BETA_SCALE, Epoch, TIME_SHIFT};

/// `cubic` in the registry. The options are the module's parameters.
pub const ENTRY: Entry = Entry {
    name: "cubic",
    status: "as in Linux 6.18",
    description: "window as a cubic function of the time since the last loss; classic HyStart",
    citation: "RFC 9438; Ha, Rhee and Xu 2008; Linux net/ipv4/tcp_cubic.c",
    needs: Needs::Nothing,
    options: Options::SPECS,
    build: |config, values| Box::new(Cubic::new(config, Options::read(values))),
};

choices! {
    /// How slow start ends before the queue overflows.
    pub enum Hystart {
        /// Only by a loss.
        Off = "off",
        /// By Linux's classic `HyStart`.
        Classic = "classic",
        /// By `HyStart++` (RFC 9406).
        PlusPlus = "pp",
    }
}

options! {
    /// CUBIC's options, also those of the controllers built on it.
    pub struct Options {
        hystart: Hystart = Hystart::option(
            "hystart",
            "how slow start ends before the queue overflows: by Linux's classic HyStart, by HyStart++ (pp, RFC 9406), or only by a loss (off)",
            Hystart::Classic,
            "`hystart`, 1",
        ),
        fast_convergence: bool = switch(
            "fast_convergence",
            "release bandwidth when the window at a loss is smaller than at the loss before",
            true,
            "`fast_convergence`; RFC 9438 §4.7",
        ),
        tcp_friendliness: bool = switch("tcp_friendliness", "grow at least as fast as Reno would", true, "`tcp_friendliness`; RFC 9438 §4.3"),
    }
}

/// How slow start ends before a loss.
#[derive(Clone, Debug)]
enum SlowStartExit {
    Never,
    Classic(HyStart),
    /// Used until the first slow start is over (RFC 9406 §4.2).
    PlusPlus(HyStartPp),
}

/// Jiffies per second: the granularity of the epoch's clock on the reference machine (`CONFIG_HZ`, the default of `kernel/Kconfig.hz`).
const HZ: u64 = 250;
const JIFFY: u64 = NANOS_PER_SEC / HZ;
/// Fewest packets acknowledged per packet of growth: at most 1.5 × per RTT (`bictcp_update`, last line).
const MIN_ACKS_PER_PACKET: u64 = 2;
/// Most of them without a `W_max`: at least 5 % per RTT (`bictcp_update`).
const MAX_ACKS_WITHOUT_W_MAX: u64 = 20;
/// Windows acknowledged per packet of growth at or above the target (`bictcp_update`).
const PLATEAU_WINDOWS: u64 = 100;
/// Time for which the result is reused while the window does not change (`HZ / 32`).
const HOLD_JIFFIES: u64 = HZ / 32;
/// Fewest packets in the threshold (`bictcp_recalc_ssthresh`).
const MIN_SSTHRESH_PACKETS: u64 = 2;

/// CUBIC congestion control.
#[derive(Clone, Debug)]
pub struct Cubic {
    mss: u32,
    window: PacketWindow,
    exit: SlowStartExit,
    fast_convergence: bool,
    reno_friendly: bool,
    /// Packets acknowledged per packet of growth (`cnt`).
    acks_per_packet: u64,
    /// `W_max` [packets]; 0: unknown.
    w_max: u64,
    /// Minimum RTT since the last time-out (`delay_min`).
    min_rtt: Option<Nanos>,
    /// Window and jiffy of the last evaluation (`last_cwnd`, `last_time`).
    evaluated: (u64, u64),
    epoch: Option<Epoch>,
    /// `SaTCP` by its code, during a handover: losses are due to the handover.
    in_handover: bool,
}

const fn jiffies(t: Time) -> u64 {
    t.0 / JIFFY
}

impl Cubic {
    /// Creates the controller of a new connection.
    #[must_use]
    pub fn new(config: &Config, options: Options) -> Self {
        Self {
            mss: config.mss,
            window: PacketWindow::new(config.mss, config.initial_cwnd),
            exit: match options.hystart {
                Hystart::Off => SlowStartExit::Never,
                Hystart::Classic => SlowStartExit::Classic(HyStart::new(config.paced)),
                Hystart::PlusPlus => SlowStartExit::PlusPlus(HyStartPp::new(config.paced)),
            },
            fast_convergence: options.fast_convergence,
            reno_friendly: options.tcp_friendliness,
            acks_per_packet: 0,
            w_max: 0,
            min_rtt: None,
            evaluated: (0, 0),
            epoch: None,
            in_handover: false,
        }
    }

    /// Sets whether losses come from a handover ([`super::satcp`]): a curve that begins then returns to its plateau in a ninth of the time, and a time-out keeps the state.
    pub(super) const fn set_handover(&mut self, in_handover: bool) {
        self.in_handover = in_handover;
    }

    /// Lowers the threshold after a loss (`bictcp_recalc_ssthresh`).
    fn reduce(&mut self) {
        self.epoch = None;
        let cwnd = self.window.cwnd_packets();
        self.w_max = if cwnd < self.w_max && self.fast_convergence { cwnd * (BETA_SCALE + BETA) / (2 * BETA_SCALE) } else { cwnd };
        self.window.reduce((cwnd * BETA / BETA_SCALE).max(MIN_SSTHRESH_PACKETS));
    }

    /// Resets the state after a time-out (`bictcp_state`).
    fn reset(&mut self, now: Time) {
        if self.in_handover {
            return;
        }
        self.acks_per_packet = 0;
        self.w_max = 0;
        self.min_rtt = None;
        self.evaluated = (0, 0);
        self.epoch = None;
        match &mut self.exit {
            SlowStartExit::Classic(hystart) => hystart.restart(now),
            SlowStartExit::PlusPlus(_) => self.exit = SlowStartExit::Never,
            SlowStartExit::Never => {}
        }
    }

    /// Updates the packets to acknowledge per packet of growth (`bictcp_update`).
    fn update(&mut self, now: Time, acked: u64) {
        let cwnd = self.window.cwnd_packets();
        let jiffy = jiffies(now);
        if let Some(epoch) = &mut self.epoch {
            epoch.reno_acked += acked;
        }
        if self.evaluated.0 == cwnd && jiffy - self.evaluated.1 <= HOLD_JIFFIES {
            return;
        }
        // At most once per jiffy, but at once after a reduction.
        if self.epoch.is_none() || jiffy != self.evaluated.1 {
            self.evaluated = (cwnd, jiffy);
            let w_max = self.w_max;
            let in_handover = self.in_handover;
            let epoch = *self.epoch.get_or_insert_with(|| Epoch::begin(jiffy, cwnd, w_max, acked, in_handover));
            // usecs_to_jiffies rounds up.
            let min_rtt_jiffies = self.min_rtt.map_or(0, |rtt| rtt.0.div_ceil(JIFFY));
            let target = epoch.target((jiffy - epoch.start + min_rtt_jiffies) * (1 << TIME_SHIFT) / HZ);
            self.acks_per_packet = if target > cwnd { cwnd / (target - cwnd) } else { PLATEAU_WINDOWS * cwnd };
            if self.w_max == 0 {
                self.acks_per_packet = self.acks_per_packet.min(MAX_ACKS_WITHOUT_W_MAX);
            }
        }
        if let Some(epoch) = self.epoch.as_mut().filter(|_| self.reno_friendly)
            && let Some(reno) = epoch.reno_acks_per_packet(cwnd)
        {
            self.acks_per_packet = self.acks_per_packet.min(reno);
        }
        self.acks_per_packet = self.acks_per_packet.max(MIN_ACKS_PER_PACKET);
    }
}

impl Controller for Cubic {
    fn on_established(&mut self, _now: Time, _rtt: Option<Nanos>) {}

    /// Updates the minimum RTT and checks for the end of slow start (`cubictcp_acked`).
    fn on_acked(&mut self, ack: &AckSample) {
        let Some(rtt) = ack.rtt else { return };
        // RTTs in the first second of an epoch may still be those of the recovery before it.
        if self.epoch.is_some_and(|epoch| jiffies(ack.now).saturating_sub(epoch.start) < HZ) {
            return;
        }
        let min_rtt = self.min_rtt.map_or(rtt, |least| least.min(rtt));
        self.min_rtt = Some(min_rtt);
        if !self.window.in_slow_start() {
            return;
        }
        let is_over = match &mut self.exit {
            SlowStartExit::Never => false,
            SlowStartExit::Classic(hystart) => hystart.on_ack(ack, rtt, min_rtt, self.window.cwnd_packets()),
            SlowStartExit::PlusPlus(hystart) => hystart.on_ack(ack, rtt),
        };
        if is_over {
            self.window.leave_slow_start();
        }
    }

    /// Grows the window (`cubictcp_cong_avoid`).
    fn on_ack(&mut self, ack: &AckSample) {
        if !ack.cwnd_limited {
            return;
        }
        let mut acked = clamped_packets(ack.acked, self.mss);
        if self.window.in_slow_start() {
            if let SlowStartExit::PlusPlus(hystart) = &mut self.exit {
                acked = hystart.growth(acked);
            }
            acked = self.window.slow_start(acked);
        }
        if acked > 0 {
            self.update(ack.now, acked);
            self.window.additive_increase(self.acks_per_packet, acked);
        }
    }

    fn on_congestion(&mut self, now: Time, event: Congestion, _in_flight: Bytes) {
        match event {
            Congestion::Loss | Congestion::Ecn => {
                self.reduce();
                if matches!(self.exit, SlowStartExit::PlusPlus(_)) {
                    self.exit = SlowStartExit::Never;
                }
            }
            Congestion::Timeout => {
                self.reduce();
                self.reset(now);
            }
            Congestion::TimeoutAgain => {
                self.window.reset_count();
                self.reset(now);
            }
            Congestion::Undo => self.window.undo(),
            Congestion::TailLoss | Congestion::RecoveryEnd => {}
            Congestion::Restart(idle) => {
                // The curve is frozen while nothing is sent (`cubictcp_cwnd_event`).
                if let Some(epoch) = &mut self.epoch {
                    let idle_jiffies = jiffies(now) - jiffies(Time(now.0.saturating_sub(idle.0)));
                    epoch.start = (epoch.start + idle_jiffies).min(jiffies(now));
                }
            }
        }
    }

    fn cwnd(&self) -> Bytes {
        self.window.cwnd()
    }

    fn set_cwnd(&mut self, cwnd: Bytes) {
        self.window.set_cwnd(cwnd);
    }

    fn ssthresh(&self) -> Bytes {
        self.window.ssthresh()
    }

    fn set_ssthresh(&mut self, ssthresh: Bytes) {
        self.window.set_ssthresh(ssthresh);
    }

    fn observe(&self, probe: &mut dyn Probe) {
        probe.state(match &self.exit {
            _ if !self.window.in_slow_start() => "congestion_avoidance",
            SlowStartExit::PlusPlus(hystart) if hystart.is_conservative() => "conservative_slow_start",
            _ => "slow_start",
        });
        probe.value("w_max_packets", self.w_max as f64);
        if let Some(epoch) = self.epoch {
            probe.value("k_s", epoch.k as f64 / f64::from(1 << TIME_SHIFT));
            probe.value("reno_cwnd_packets", epoch.reno_cwnd as f64);
        }
    }
}

#[cfg(test)]
impl Cubic {
    /// Returns K of the current epoch [2^-10 s].
    pub(super) fn plateau_time(&self) -> Option<u64> {
        self.epoch.map(|epoch| epoch.k)
    }

    /// Returns whether `W_max` is known.
    pub(super) const fn has_plateau(&self) -> bool {
        self.w_max > 0
    }
}

#[cfg(test)]
mod tests;
