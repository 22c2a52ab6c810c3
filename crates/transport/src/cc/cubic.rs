//! CUBIC as Linux computes it, in the kernel's integers.
//!
//! Source: Linux `net/ipv4/tcp_cubic.c`, 6.18 (version 2.3 of the module); the same curve as RFC 9438 with C = 0.41 and β = 0.7:
//! `W(t) = C·(t − K)³ + W_max`, `K = cbrt((W_max − cwnd) / C)`, `t` from the start of the epoch plus the minimum RTT. The result is a count of packets to be
//! acknowledged for one packet more, so everything between is integers: time in 1/1024 s, windows in packets.
//! Differences from RFC 9438 are Linux's: classic `HyStart`, `t` on a clock of jiffies, growth bounded to one packet per two acknowledged, and a Reno estimate
//! from packets acknowledged (§4.3) that is not bounded by the window before the loss.

use super::hystart::HyStart;
use super::registry::{Config, Entry, OptionSpec, Options};
use super::window::{PacketWindow, clamped_packets};
use super::{AckSample, Congestion, Controller, Probe};
use bentpipe_profile::units::NANOS_PER_SEC;
use bentpipe_profile::{Bytes, Nanos, Time};

/// `cubic` in the registry. The options are the module's parameters.
pub const ENTRY: Entry = Entry {
    name: "cubic",
    status: "as in Linux 6.18",
    description: "a cubic function of the time since the last loss; classic HyStart",
    citation: "RFC 9438; Ha, Rhee and Xu 2008; Linux net/ipv4/tcp_cubic.c",
    options: &[
        OptionSpec::switch("hystart", "leave slow start before the queue overflows"),
        OptionSpec::switch("fast_convergence", "release bandwidth when the window at a loss is below the one before"),
        OptionSpec::switch("tcp_friendliness", "never grow more slowly than Reno would"),
    ],
    build: |config, options| Box::new(Cubic::new(config, options)),
};

/// Jiffies in a second: the granularity of the epoch's clock on the reference machine (`CONFIG_HZ`, the default of `kernel/Kconfig.hz`).
const HZ: u64 = 250;
const JIFFY: u64 = NANOS_PER_SEC / HZ;
/// Time is counted in 2^-10 s (`BICTCP_HZ`).
const TIME_SHIFT: u32 = 10;
/// Scale of [`BETA`] (`BICTCP_BETA_SCALE`).
const BETA_SCALE: u64 = 1024;
/// Multiplicative decrease, 717/1024 ≈ 0.7 (`beta`; RFC 9438 §4.6).
const BETA: u64 = 717;
/// C·2^10, C ≈ 0.4 (`bic_scale` 41, times 10; RFC 9438 §5).
const C_SCALED: u64 = 410;
/// 2^40 / C: what a number of packets is multiplied by to be the cube of 2^-10 s (`cube_factor`).
const CUBE_FACTOR: u64 = (1 << (10 + 3 * TIME_SHIFT)) / C_SCALED;
/// Eight times the packets per window that Reno's estimate needs for one more: `8·(1 + β) / (3·(1 − β))` (`beta_scale`; RFC 9438 §4.3).
const RENO_SCALE: u64 = 8 * (BETA_SCALE + BETA) / 3 / (BETA_SCALE - BETA);
/// Fewest packets acknowledged per packet more: at most 1.5 × per round trip (`bictcp_update`, last line).
const MIN_ACKS_PER_PACKET: u64 = 2;
/// Without a `W_max`: at least 5 % per round trip (`bictcp_update`).
const MAX_ACKS_WITHOUT_W_MAX: u64 = 20;
/// At or above the target: hardly any growth (`bictcp_update`).
const PLATEAU_WINDOWS: u64 = 100;
/// The count stands this long while the window does not change (`HZ / 32`).
const HOLD_JIFFIES: u64 = HZ / 32;
/// Fewest packets in the threshold (`bictcp_recalc_ssthresh`).
const MIN_SSTHRESH_PACKETS: u64 = 2;

/// CUBIC.
#[derive(Clone, Debug)]
pub struct Cubic {
    mss: u32,
    window: PacketWindow,
    hystart: Option<HyStart>,
    fast_convergence: bool,
    reno_friendly: bool,
    /// Packets acknowledged per packet more (`cnt`).
    acks_per_packet: u64,
    /// `W_max` [packets]; 0: none known.
    w_max: u64,
    /// Least RTT since the last time-out (`delay_min`).
    min_rtt: Option<Nanos>,
    /// Window and jiffy of the last evaluation (`last_cwnd`, `last_time`).
    evaluated: (u64, u64),
    epoch: Option<Epoch>,
}

/// Congestion avoidance since the last reduction.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    /// Jiffy it began in (`epoch_start`).
    start: u64,
    /// K [2^-10 s] (`bic_K`).
    k: u64,
    /// The plateau [packets] (`bic_origin_point`).
    origin: u64,
    /// Packets acknowledged not yet worth a packet to Reno (`ack_cnt`).
    reno_acked: u64,
    /// `W_est`, the window Reno would have [packets] (`tcp_cwnd`).
    reno_cwnd: u64,
}

const fn jiffies(t: Time) -> u64 {
    t.0 / JIFFY
}

impl Cubic {
    /// At the start of a connection.
    #[must_use]
    pub fn new(config: &Config, options: &Options) -> Self {
        Self {
            mss: config.mss,
            window: PacketWindow::new(config.mss, config.initial_cwnd),
            hystart: options.is_on("hystart").then(|| HyStart::new(config.paced)),
            fast_convergence: options.is_on("fast_convergence"),
            reno_friendly: options.is_on("tcp_friendliness"),
            acks_per_packet: 0,
            w_max: 0,
            min_rtt: None,
            evaluated: (0, 0),
            epoch: None,
        }
    }

    /// `bictcp_recalc_ssthresh`.
    fn reduce(&mut self) {
        self.epoch = None;
        let cwnd = self.window.cwnd_packets();
        self.w_max = if cwnd < self.w_max && self.fast_convergence { cwnd * (BETA_SCALE + BETA) / (2 * BETA_SCALE) } else { cwnd };
        self.window.reduce((cwnd * BETA / BETA_SCALE).max(MIN_SSTHRESH_PACKETS));
    }

    /// `bictcp_state` on a time-out: everything learnt is forgotten.
    fn reset(&mut self, now: Time) {
        self.acks_per_packet = 0;
        self.w_max = 0;
        self.min_rtt = None;
        self.evaluated = (0, 0);
        self.epoch = None;
        if let Some(hystart) = &mut self.hystart {
            hystart.restart(now);
        }
    }

    /// `bictcp_update`: how many packets must be acknowledged for one packet more.
    fn update(&mut self, now: Time, acked: u64) {
        let cwnd = self.window.cwnd_packets();
        let jiffy = jiffies(now);
        if let Some(epoch) = &mut self.epoch {
            epoch.reno_acked += acked;
        }
        if self.evaluated.0 == cwnd && jiffy - self.evaluated.1 <= HOLD_JIFFIES {
            return;
        }
        // Once a jiffy at most, but at once after a reduction.
        if self.epoch.is_none() || jiffy != self.evaluated.1 {
            self.evaluated = (cwnd, jiffy);
            let w_max = self.w_max;
            let epoch = *self.epoch.get_or_insert_with(|| Epoch::begin(jiffy, cwnd, w_max, acked));
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

impl Epoch {
    fn begin(jiffy: u64, cwnd: u64, w_max: u64, acked: u64) -> Self {
        let (k, origin) = if w_max <= cwnd { (0, cwnd) } else { (cube_root(CUBE_FACTOR * (w_max - cwnd)), w_max) };
        Self { start: jiffy, k, origin, reno_acked: acked, reno_cwnd: cwnd }
    }

    /// W(t) [packets], t in 2^-10 s.
    fn target(&self, t: u64) -> u64 {
        let offset = u128::from(t.abs_diff(self.k));
        let delta = (u128::from(C_SCALED) * offset * offset * offset) >> (10 + 3 * TIME_SHIFT);
        // No window is as large as 2^32 packets.
        let delta = u64::try_from(delta).unwrap_or(u64::MAX).min(u64::from(u32::MAX));
        if t < self.k { self.origin.saturating_sub(delta) } else { self.origin + delta }
    }

    /// Advances Reno's estimate; if it is ahead of `cwnd`, what keeps up with it.
    fn reno_acks_per_packet(&mut self, cwnd: u64) -> Option<u64> {
        // At least 1, as a window is. The kernel's loop leaves a remainder of `per` itself uncounted.
        let per = (cwnd * RENO_SCALE) >> 3;
        let grown = self.reno_acked.saturating_sub(1) / per;
        self.reno_acked -= grown * per;
        self.reno_cwnd += grown;
        (self.reno_cwnd > cwnd).then(|| cwnd / (self.reno_cwnd - cwnd))
    }
}

/// Integer cube root, rounded down: exact where the kernel's table and Newton step err by 0.2 % on average.
fn cube_root(a: u64) -> u64 {
    let mut root = 0_u64;
    for bit in (0..=21).rev() {
        let candidate = root | 1 << bit;
        if u128::from(candidate).pow(3) <= u128::from(a) {
            root = candidate;
        }
    }
    root
}

impl Controller for Cubic {
    fn on_established(&mut self, _now: Time, _rtt: Option<Nanos>) {}

    /// `cubictcp_acked`.
    fn on_acked(&mut self, ack: &AckSample) {
        let Some(rtt) = ack.rtt else { return };
        // Samples of the first second of an epoch may still come from the recovery before it.
        if self.epoch.is_some_and(|epoch| jiffies(ack.now).saturating_sub(epoch.start) < HZ) {
            return;
        }
        let min_rtt = self.min_rtt.map_or(rtt, |least| least.min(rtt));
        self.min_rtt = Some(min_rtt);
        if self.window.in_slow_start()
            && let Some(hystart) = &mut self.hystart
            && hystart.on_ack(ack, rtt, min_rtt, self.window.cwnd_packets())
        {
            self.window.leave_slow_start();
        }
    }

    /// `cubictcp_cong_avoid`.
    fn on_ack(&mut self, ack: &AckSample) {
        if !ack.cwnd_limited {
            return;
        }
        let mut acked = clamped_packets(ack.acked, self.mss);
        if self.window.in_slow_start() {
            acked = self.window.slow_start(acked);
        }
        if acked > 0 {
            self.update(ack.now, acked);
            self.window.additive_increase(self.acks_per_packet, acked);
        }
    }

    fn on_congestion(&mut self, now: Time, event: Congestion, _in_flight: Bytes) {
        match event {
            Congestion::Loss | Congestion::Ecn => self.reduce(),
            Congestion::Timeout => {
                self.reduce();
                self.reset(now);
            }
            Congestion::TimeoutAgain => {
                self.window.forget_count();
                self.reset(now);
            }
            Congestion::Undo => self.window.undo(),
            Congestion::RecoveryEnd => {}
            Congestion::Restart(idle) => {
                // The curve stands still while nothing is sent (`cubictcp_cwnd_event`).
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
        probe.state(if self.window.in_slow_start() { "slow_start" } else { "congestion_avoidance" });
        probe.value("w_max_packets", self.w_max as f64);
        if let Some(epoch) = self.epoch {
            probe.value("k_s", epoch.k as f64 / f64::from(1 << TIME_SHIFT));
            probe.value("reno_cwnd_packets", epoch.reno_cwnd as f64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Driver, ack_at, config, controller, in_bytes, state_of};
    use super::*;
    use std::collections::BTreeMap;

    const RTT: Nanos = Nanos::from_millis(40);

    fn cubic(off: &[&str]) -> Cubic {
        let given: BTreeMap<String, f64> = off.iter().map(|&name| (name.to_owned(), 0.0)).collect();
        Cubic::new(&config(), &Options::check(&ENTRY, &given).expect("switches"))
    }

    /// Window [packets] every 40 ms over a path of 100 packets a round trip and as many of queue, transmission 1000 lost: `HyStart` ends slow start.
    #[test]
    fn window_trace() {
        let mut driver = Driver::new(controller("cubic"), RTT, 100, 100);
        driver.drop.insert(1000);
        assert_eq!(driver.trace(RTT, 40), TRACE);
        assert_eq!(state_of(&*driver.controller), "congestion_avoidance");
    }

    #[rustfmt::skip]
    const TRACE: [u64; 40] = [
        10, 20, 40, 80, 133, 138, 143, 148, 153, 158, 163, 168, 173, 123, 123, 124, 125, 126, 127, 129,
        130, 131, 132, 133, 135, 136, 137, 138, 139, 140, 141, 141, 143, 143, 144, 145, 146, 147, 148, 148,
    ];

    #[test]
    fn the_cube_root_is_exact() {
        for root in [0_u64, 1, 2, 9, 1000, 2_097_151] {
            let cube = root * root * root;
            assert_eq!(cube_root(cube), root);
            assert_eq!(cube_root(cube + 1), if cube == 0 { 1 } else { root });
            assert_eq!(cube_root(cube.saturating_sub(1)), root.saturating_sub(1));
        }
    }

    #[test]
    fn k_and_the_curve_are_those_of_rfc_9438() {
        for (w_max, cwnd) in [(1000_u64, 700_u64), (100, 70), (333, 233), (40_000, 28_000)] {
            let epoch = Epoch::begin(0, cwnd, w_max, 0);
            let k_s = libm::cbrt((w_max - cwnd) as f64 / 0.4);
            // C is 410/1024, and K is whole 2^-10 s.
            assert!((epoch.k as f64 / 1024.0 - k_s).abs() < 0.001 * k_s + 1.0 / 1024.0, "K of {w_max}");
            for tenth in 0..=20 {
                let t = epoch.k * tenth / 10;
                let rfc = 0.4 * ((t as f64 / 1024.0 - k_s) * (t as f64 / 1024.0 - k_s) * (t as f64 / 1024.0 - k_s)) + w_max as f64;
                // C's rounding, then a packet of truncation.
                let tolerance = 0.004 * (rfc - w_max as f64).abs() + 1.0;
                assert!((epoch.target(t) as f64 - rfc).abs() <= tolerance, "W({t}/1024 s) of {w_max}: {} against {rfc}", epoch.target(t));
            }
        }
    }

    #[test]
    fn the_window_falls_to_717_of_1024_and_fast_convergence_gives_up_bandwidth() {
        let mut c = cubic(&[]);
        c.set_cwnd(in_bytes(1000));
        c.on_congestion(Time::ZERO, Congestion::Loss, in_bytes(1000));
        assert_eq!((c.ssthresh(), c.w_max), (in_bytes(700), 1000));
        c.set_cwnd(in_bytes(800));
        c.on_congestion(Time::ZERO, Congestion::Loss, in_bytes(800));
        assert_eq!((c.ssthresh(), c.w_max), (in_bytes(560), 800 * 1741 / 2048));
        let mut c = cubic(&["fast_convergence"]);
        for packets in [1000, 800] {
            c.set_cwnd(in_bytes(packets));
            c.on_congestion(Time::ZERO, Congestion::Loss, in_bytes(packets));
        }
        assert_eq!(c.w_max, 800);
    }

    /// Drives it by hand: an ACK for two packets every two packets of a window spread over 40 ms.
    fn grow(c: &mut Cubic, from: Time, span: Nanos) -> u64 {
        let mut now = from;
        while now.since(from) < span {
            let mut ack = ack_at(now);
            ack.acked = in_bytes(2);
            ack.rtt = Some(RTT);
            c.on_acked(&ack);
            c.on_ack(&ack);
            now = now + Nanos(2 * RTT.0 / c.window.cwnd_packets());
        }
        c.window.cwnd_packets()
    }

    #[test]
    fn the_plateau_is_reached_after_k_and_left_slowly() {
        let mut c = cubic(&["tcp_friendliness"]);
        c.set_cwnd(in_bytes(1000));
        c.on_congestion(Time::ZERO, Congestion::Loss, in_bytes(1000));
        c.set_cwnd(c.ssthresh());
        // K = cbrt(300 / 0.4) = 9.09 s; one RTT of lead.
        let at_half = grow(&mut c, Time(0), Nanos::from_millis(4540));
        assert!((955..=965).contains(&at_half), "{at_half}"); // 1000 − 0.4 · 4.51³ = 963, one RTT later
        let at_k = grow(&mut c, Time(4_540_000_000), Nanos::from_millis(4540));
        assert!((995..=1000).contains(&at_k), "{at_k}");
        let later = grow(&mut c, Time(9_080_000_000), Nanos::from_secs(5));
        assert!((1045..=1055).contains(&later), "{later}"); // 1000 + 0.4 · 5³ = 1050
    }

    #[test]
    fn growth_is_a_packet_for_two_acknowledged_at_most() {
        let mut c = cubic(&[]);
        c.set_ssthresh(in_bytes(10));
        c.w_max = 1_000_000;
        c.set_cwnd(in_bytes(100));
        for k in 0..50 {
            let mut ack = ack_at(Time(k * RTT.0 / 50));
            ack.acked = in_bytes(2);
            c.on_ack(&ack);
        }
        // 150, less what the first 4 ms of the epoch, where the curve has not risen yet, do not add.
        assert!((140..=150).contains(&c.window.cwnd_packets()), "{}", c.window.cwnd_packets());
    }

    #[test]
    fn it_is_no_slower_than_reno_on_a_short_path() {
        // Reno's estimate grows 3·(1 − β)/(1 + β) = 0.53 packets a round trip: 2.6 s or 65 round trips for 34.
        let friendly = {
            let mut c = cubic(&[]);
            c.set_cwnd(in_bytes(20));
            c.on_congestion(Time::ZERO, Congestion::Loss, in_bytes(20));
            c.set_cwnd(c.ssthresh());
            grow(&mut c, Time(0), Nanos::from_millis(2600))
        };
        let unfriendly = {
            let mut c = cubic(&["tcp_friendliness"]);
            c.set_cwnd(in_bytes(20));
            c.on_congestion(Time::ZERO, Congestion::Loss, in_bytes(20));
            c.set_cwnd(c.ssthresh());
            grow(&mut c, Time(0), Nanos::from_millis(2600))
        };
        assert!((46..=50).contains(&friendly), "{friendly}");
        assert!((19..=21).contains(&unfriendly), "{unfriendly}");
    }

    #[test]
    fn a_time_out_forgets_the_plateau() {
        let mut c = cubic(&[]);
        c.set_cwnd(in_bytes(1000));
        c.on_congestion(Time::ZERO, Congestion::Timeout, Bytes::ZERO);
        assert_eq!((c.ssthresh(), c.w_max, c.min_rtt), (in_bytes(700), 0, None));
    }

    #[test]
    fn the_curve_stands_still_while_the_line_is_idle() {
        let mut c = cubic(&[]);
        c.set_cwnd(in_bytes(1000));
        c.on_congestion(Time::ZERO, Congestion::Loss, in_bytes(1000));
        c.set_cwnd(c.ssthresh());
        grow(&mut c, Time(0), Nanos::from_secs(1));
        let start = c.epoch.expect("an epoch").start;
        c.on_congestion(Time(31_000_000_000), Congestion::Restart(Nanos::from_secs(30)), Bytes::ZERO);
        assert_eq!(c.epoch.expect("an epoch").start, start + 30 * HZ);
    }

    #[test]
    fn rtts_of_the_first_second_of_an_epoch_are_not_believed() {
        let mut c = cubic(&[]);
        c.set_ssthresh(in_bytes(5));
        let mut ack = ack_at(Time(5_000_000_000));
        ack.rtt = Some(RTT);
        c.on_acked(&ack);
        c.on_ack(&ack);
        ack.rtt = Some(Nanos::from_millis(10));
        ack.now = Time(5_990_000_000);
        c.on_acked(&ack);
        assert_eq!(c.min_rtt, Some(RTT));
        ack.now = Time(6_010_000_000);
        c.on_acked(&ack);
        assert_eq!(c.min_rtt, Some(Nanos::from_millis(10)));
    }
}
