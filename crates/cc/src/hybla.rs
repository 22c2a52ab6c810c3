//! Hybla: a window that grows as fast in time as that of a path of 25 ms, whatever the RTT.
//!
//! Source: Caini and Firrincieli, "TCP Hybla: a TCP enhancement for heterogeneous networks", International Journal of Satellite Communications and
//! Networking 22(5), 2004; Linux `net/ipv4/tcp_hybla.c`, 6.18, in its integers: ρ in 1/8, growth in 1/128 of a packet per ACK, whatever the ACK covers. A connection starts
//! with ρ packets. A receiver with GRO acknowledges a burst of packets at once, and Hybla then grows more slowly than Reno, which counts packets
//! (`tcp_reno_cong_avoid` uses `acked`, `hybla_cong_avoid` does not).

use super::hints::Needs;
use super::registry::{Config, Entry};
use super::window::{PacketWindow, clamped_packets};
use super::{AckSample, Congestion, Controller, Probe, RecoveryState};
use bentpipe_profile::tunables::{OptionSet, millis};
use bentpipe_profile::{Bytes, Nanos, Time};

/// `hybla` in the registry.
pub const ENTRY: Entry = Entry {
    name: "hybla",
    status: "as in Linux 6.18",
    description: "Reno whose growth does not depend on the RTT",
    citation: "Caini and Firrincieli 2004; Linux net/ipv4/tcp_hybla.c",
    needs: Needs::Nothing,
    options: Options::SPECS,
    build: |config, values| Box::new(Hybla::new(config, Options::read(values))),
};

choices! {
    /// Unit of growth.
    pub enum Counts {
        /// Each ACK, as in Linux.
        Acks = "acks",
        /// Each packet that an ACK covers, as in the paper.
        Packets = "packets",
    }
}

options! {
    /// Options of `hybla`.
    pub struct Options {
        rtt0: Nanos = millis("rtt0_ms", "reference RTT: the window grows as fast as on a path with this RTT", RTT0_MS, 1.0, 10_000.0, "`rtt0`"),
        counts: Counts = Counts::option(
            "counts",
            "unit of growth: each ACK, as in Linux, or each packet that an ACK covers, as in the paper, which assumes an ACK per packet",
            Counts::Acks,
            "`hybla_cong_avoid`",
        ),
    }
}

/// `rtt0`: 1/40 s.
const RTT0_MS: f64 = 25.0;
/// One packet, in the unit of growth.
const PACKET: u64 = 128;
/// 2^(k/8) in 1/128, rounded down (`hybla_fraction`).
const FRACTIONS: [u64; 8] = [128, 139, 152, 165, 181, 197, 215, 234];
/// Greatest ρ of slow start: 2^16 packets per ACK are more than a window holds.
const MAX_SLOW_START_RHO: u64 = 16;
/// Most packets in a window (`snd_cwnd_clamp`).
const MAX_CWND_PACKETS: u64 = 65_535;
/// Fewest in the threshold (RFC 5681 §3.1, equation 4).
const MIN_SSTHRESH_PACKETS: u64 = 2;

/// Hybla congestion control.
#[derive(Clone, Debug)]
pub struct Hybla {
    mss: u32,
    window: PacketWindow,
    options: Options,
    /// ρ = RTT / RTT0 in 1/8, at least 1; 0: not measured yet.
    rho_8: u64,
    /// Smallest smoothed RTT, which determines ρ.
    min_srtt: Nanos,
    /// Growth that has not added up to a packet yet [1/128].
    credit: u64,
}

impl Hybla {
    /// Creates the controller of a new connection.
    #[must_use]
    pub fn new(config: &Config, options: Options) -> Self {
        Self {
            mss: config.mss,
            window: PacketWindow::new(config.mss, config.initial_cwnd),
            options,
            rho_8: 0,
            min_srtt: Nanos::MAX,
            credit: 0,
        }
    }

    /// Computes ρ (`hybla_recalc_param`).
    fn update_rho(&mut self, srtt: Nanos) {
        self.rho_8 =
            u64::try_from(u128::from(srtt.0) * 8 / u128::from(self.options.rtt0.0)).unwrap_or(u64::MAX).clamp(8, u64::from(u32::MAX));
        self.min_srtt = srtt;
    }

    /// Returns the growth for an ACK [1/128 packet].
    fn growth(&self) -> u64 {
        if self.window.in_slow_start() {
            // 2^ρ − 1, ρ in two parts.
            let fraction = FRACTIONS[usize::try_from(self.rho_8 % 8).unwrap_or(0)];
            (fraction << (self.rho_8 / 8).min(MAX_SLOW_START_RHO)) - PACKET
        } else {
            // ρ² / cwnd.
            2 * self.rho_8 * self.rho_8 / self.window.cwnd_packets()
        }
    }

    /// Raises the window by the growth of one ACK or packet.
    fn grow(&mut self) {
        let (growth, in_slow_start) = (self.growth(), self.window.in_slow_start());
        let slow_acks = if !in_slow_start && growth < PACKET { self.window.count_ack() } else { 0 };
        self.credit += growth % PACKET;
        let mut packets = growth / PACKET + self.credit / PACKET;
        // ρ² / cwnd rounds to nothing in a window above 128 ρ² packets: it grows by one per window of ACKs.
        let window_passed = growth == 0 && slow_acks >= self.window.cwnd_packets();
        packets += u64::from(window_passed);
        if self.credit >= PACKET || window_passed {
            self.window.reset_count();
        }
        self.credit %= PACKET;
        let grown = self.window.cwnd_packets() + packets;
        let limit = if in_slow_start { self.window.ssthresh_packets().min(MAX_CWND_PACKETS) } else { MAX_CWND_PACKETS };
        self.window.set_cwnd_packets(grown.min(limit));
    }
}

impl Controller for Hybla {
    /// Sets the first window (`hybla_init`).
    fn on_established(&mut self, _now: Time, rtt: Option<Nanos>) {
        self.update_rho(rtt.unwrap_or_default());
        self.window.set_cwnd_packets((self.rho_8 / 8).min(MAX_CWND_PACKETS));
    }

    /// Grows the window (`hybla_cong_avoid`).
    fn on_ack(&mut self, ack: &AckSample) {
        if ack.srtt < self.min_srtt {
            self.update_rho(ack.srtt);
        }
        if !ack.cwnd_limited {
            return;
        }
        // Reno growth in every state but `Open`.
        if ack.recovery != RecoveryState::Open {
            let mut acked = clamped_packets(ack.acked, self.mss);
            if self.window.in_slow_start() {
                acked = self.window.slow_start(acked);
            }
            if acked > 0 {
                self.window.additive_increase(self.window.cwnd_packets(), acked);
            }
            return;
        }
        let growths = match self.options.counts {
            Counts::Acks => 1,
            Counts::Packets => clamped_packets(ack.acked, self.mss).min(MAX_CWND_PACKETS),
        };
        for _ in 0..growths {
            self.grow();
        }
    }

    fn on_congestion(&mut self, _now: Time, event: Congestion, _in_flight: Bytes) {
        match event {
            Congestion::Loss | Congestion::Ecn | Congestion::Timeout => {
                self.window.reduce((self.window.cwnd_packets() / 2).max(MIN_SSTHRESH_PACKETS));
            }
            Congestion::TimeoutAgain => self.window.reset_count(),
            Congestion::Undo => self.window.undo(),
            Congestion::TailLoss | Congestion::RecoveryEnd | Congestion::Restart(_) => {}
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
        probe.value("rho", self.rho_8 as f64 / 8.0);
    }
}

#[cfg(test)]
mod tests {
    use super::super::registry;
    use super::super::testing::{Driver, MSS, ack_at, config, controller, given, in_bytes, options_of};
    use super::*;

    fn hybla(rtt_ms: u64) -> Hybla {
        let mut hybla = Hybla::new(&config(), options_of(&ENTRY, &[]));
        hybla.on_established(Time::ZERO, Some(Nanos::from_millis(rtt_ms)));
        hybla
    }

    fn acks(hybla: &mut Hybla, rtt_ms: u64, count: u64) {
        for _ in 0..count {
            hybla.on_ack(&AckSample { srtt: Nanos::from_millis(rtt_ms), ..ack_at(Time::ZERO) });
        }
    }

    /// Window [packets] every 40 ms (ρ = 1.5 by eighths) over 100 packets per RTT and a queue of as many; transmission 200 is lost.
    #[test]
    fn window_trace() {
        let rtt = Nanos::from_millis(40);
        let mut driver = Driver::new(controller("hybla"), rtt, 100, 100);
        driver.drop.insert(200);
        assert_eq!(driver.trace(rtt, 20), TRACE);
    }

    const TRACE: [u64; 20] = [1, 2, 6, 17, 48, 136, 309, 185, 185, 185, 185, 185, 185, 185, 186, 187, 188, 189, 189, 190];

    #[test]
    fn a_connection_starts_with_rho_packets() {
        for (rtt_ms, packets) in [(10, 1), (25, 1), (50, 2), (350, 14), (600, 24)] {
            assert_eq!(hybla(rtt_ms).cwnd(), in_bytes(packets), "{rtt_ms} ms");
        }
    }

    #[test]
    fn slow_start_adds_two_to_the_power_of_rho_minus_one_per_ack() {
        let mut h = hybla(50);
        acks(&mut h, 50, 10);
        assert_eq!(h.cwnd(), in_bytes(2 + 30));
        // ρ = 1.5: 2^1.5 − 1 = 1.828 packets per ACK, 2 · 181 − 128 = 234 of 128.
        let mut h = hybla(38); // 38 · 8 / 25 = 12 eighths
        acks(&mut h, 38, 128);
        assert_eq!(h.cwnd(), in_bytes(1 + 2 * 181 - 128));
    }

    #[test]
    fn avoidance_adds_rho_squared_per_window() {
        let mut h = hybla(350); // ρ = 14
        h.set_cwnd(in_bytes(100));
        h.set_ssthresh(in_bytes(100));
        acks(&mut h, 350, 1);
        // 2 · 112² / 100 = 250 of 128: one packet and 122.
        assert_eq!((h.cwnd(), h.credit), (in_bytes(101), 122));
    }

    /// ρ = 2: above 128 · ρ² = 512 packets an ACK adds less than 1/128 of a packet.
    #[test]
    fn growth_that_rounds_to_zero_is_a_packet_per_window_of_acks() {
        let mut h = hybla(50);
        h.set_cwnd(in_bytes(600));
        h.set_ssthresh(in_bytes(600));
        acks(&mut h, 50, 599);
        assert_eq!(h.cwnd(), in_bytes(600));
        acks(&mut h, 50, 1);
        assert_eq!(h.cwnd(), in_bytes(601));
        // 600 + 601 + … + 615 = 9720 ACKs are 16 packets; the next needs 616 more.
        acks(&mut h, 50, 10_000 - 600);
        assert_eq!((h.cwnd(), h.credit), (in_bytes(616), 0));
    }

    #[test]
    fn growth_by_fractions_restarts_the_count_of_acks() {
        let mut h = hybla(50);
        h.set_cwnd(in_bytes(512));
        h.set_ssthresh(in_bytes(512));
        // 2 · 16² / 512 = 1 of 128 per ACK: a packet after 128 of them, and then one after 513.
        acks(&mut h, 50, 128);
        assert_eq!(h.cwnd(), in_bytes(513));
        acks(&mut h, 50, 512);
        assert_eq!(h.cwnd(), in_bytes(513));
        acks(&mut h, 50, 1);
        assert_eq!(h.cwnd(), in_bytes(514));
    }

    #[test]
    fn rho_follows_only_the_smallest_smoothed_rtt() {
        let mut h = hybla(100);
        acks(&mut h, 200, 1);
        assert_eq!(h.rho_8, 32);
        acks(&mut h, 50, 1);
        assert_eq!(h.rho_8, 16);
    }

    /// Returns the windows [packets] of Hybla and Reno at 25 ms (ρ = 1) from the same start, after `acks` ACKs for `covered` packets each.
    fn beside_reno(counts: &str, slow_start: bool, acks: u64, covered: u64) -> (u64, u64) {
        let given = given(&[("counts", counts.into())]);
        let mut hybla = registry::build("hybla", &config(), &given).expect("hybla");
        let mut reno = controller("reno");
        hybla.on_established(Time::ZERO, Some(Nanos::from_millis(25)));
        for each in [&mut hybla, &mut reno] {
            each.set_cwnd(in_bytes(256));
            if !slow_start {
                each.set_ssthresh(in_bytes(256));
            }
            for _ in 0..acks {
                each.on_ack(&AckSample {
                    srtt: Nanos::from_millis(25),
                    acked: in_bytes(covered),
                    cumulative: in_bytes(covered),
                    ..ack_at(Time::ZERO)
                });
            }
        }
        (hybla.cwnd().0 / u64::from(MSS), reno.cwnd().0 / u64::from(MSS))
    }

    #[test]
    fn at_rho_one_it_equals_reno_with_an_ack_per_packet() {
        for counts in ["acks", "packets"] {
            assert_eq!(beside_reno(counts, true, 200, 1), (456, 456), "{counts}");
            assert_eq!(beside_reno(counts, false, 5_000, 1), (274, 274), "{counts}");
        }
    }

    #[test]
    fn an_ack_for_many_packets_counts_once_unless_packets_are_counted() {
        assert_eq!(beside_reno("acks", true, 100, 12), (256 + 100, 256 + 1_200));
        assert_eq!(beside_reno("packets", true, 100, 12), (256 + 1_200, 256 + 1_200));
        assert_eq!(beside_reno("acks", false, 5_000, 12), (274, 430));
        assert_eq!(beside_reno("packets", false, 5_000, 12), (430, 430));
    }

    #[test]
    fn outside_of_the_open_state_it_is_reno() {
        let mut h = hybla(350);
        h.set_cwnd(in_bytes(10));
        h.on_ack(&AckSample { srtt: Nanos::from_millis(350), recovery: RecoveryState::Disorder, ..ack_at(Time::ZERO) });
        assert_eq!(h.cwnd(), in_bytes(11));
    }
}
