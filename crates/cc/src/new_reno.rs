//! Reno's window as in Linux. `NewReno`'s part (RFC 6582), staying in recovery until the whole window is repaired, belongs to the sender.
//!
//! Source: RFC 5681; Linux `net/ipv4/tcp_cong.c` (`tcp_reno_cong_avoid`, `tcp_reno_ssthresh`, `tcp_reno_undo_cwnd`), 6.18.

use super::hints::Needs;
use super::registry::{Config, Entry};
use super::window::{PacketWindow, clamped_packets};
use super::{AckSample, Congestion, Controller, Probe};
use bentpipe_profile::{Bytes, Nanos, Time};

/// `reno` in the registry.
pub const ENTRY: Entry = Entry {
    name: "reno",
    status: "as in Linux 6.18",
    description: "slow start, then one packet more per RTT; a loss halves the window",
    citation: "RFC 5681, RFC 6582; Linux net/ipv4/tcp_cong.c",
    needs: Needs::Nothing,
    options: &[],
    build: |config, _| Box::new(NewReno::new(config)),
};

/// Fewest packets in the threshold (RFC 5681 §3.1, equation 4).
const MIN_SSTHRESH_PACKETS: u64 = 2;

/// Reno congestion control.
#[derive(Clone, Debug)]
pub struct NewReno {
    mss: u32,
    window: PacketWindow,
}

impl NewReno {
    /// Creates the controller of a new connection.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        Self { mss: config.mss, window: PacketWindow::new(config.mss, config.initial_cwnd) }
    }
}

impl Controller for NewReno {
    fn on_established(&mut self, _now: Time, _rtt: Option<Nanos>) {}

    fn on_ack(&mut self, ack: &AckSample) {
        if !ack.cwnd_limited {
            return;
        }
        let mut acked = clamped_packets(ack.acked, self.mss);
        if self.window.in_slow_start() {
            acked = self.window.slow_start(acked);
        }
        if acked > 0 {
            self.window.additive_increase(self.window.cwnd_packets(), acked);
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
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Driver, ack_at, controller, in_bytes};
    use super::*;

    const RTT: Nanos = Nanos::from_millis(40);

    /// Window [packets] every 40 ms over a path of 100 packets per RTT and a queue of as many. Slow start doubles; transmission 200 is lost.
    #[test]
    fn window_trace() {
        let mut driver = Driver::new(controller("reno"), RTT, 100, 100);
        driver.drop.insert(200);
        assert_eq!(driver.trace(RTT, 20), TRACE);
    }

    const TRACE: [u64; 20] = [10, 20, 40, 80, 160, 106, 106, 106, 106, 107, 108, 109, 110, 110, 111, 112, 113, 114, 115, 116];

    #[test]
    fn a_loss_halves_the_window_but_not_below_two_packets() {
        for (cwnd, ssthresh) in [(100, 50), (5, 2), (1, 2)] {
            let mut reno = controller("reno");
            reno.set_cwnd(in_bytes(cwnd));
            reno.on_congestion(Time::ZERO, Congestion::Loss, in_bytes(cwnd));
            assert_eq!(reno.ssthresh(), in_bytes(ssthresh));
        }
    }

    #[test]
    fn a_repeated_time_out_does_not_lower_the_threshold_again() {
        let mut reno = controller("reno");
        reno.set_cwnd(in_bytes(100));
        reno.on_congestion(Time::ZERO, Congestion::Timeout, Bytes::ZERO);
        reno.set_cwnd(in_bytes(1));
        reno.on_congestion(Time::ZERO, Congestion::TimeoutAgain, Bytes::ZERO);
        assert_eq!(reno.ssthresh(), in_bytes(50));
    }

    #[test]
    fn a_window_that_is_not_the_limit_does_not_grow() {
        let mut reno = controller("reno");
        let mut ack = ack_at(Time::ZERO);
        ack.cwnd_limited = false;
        reno.on_ack(&ack);
        assert_eq!(reno.cwnd(), in_bytes(10));
    }
}
