//! The delay-based rate (draft-ietf-rmcat-gcc-02 section 5.5) and the loss-based rate (section 6).

use super::detector::Signal;
use bentpipe_profile::{Nanos, Time};

/// Factor of a decrease, on the rate at which packets arrive.
const DECREASE: f64 = 0.85;
/// Growth per second far from the path's rate.
const GROWTH: f64 = 1.08;
/// The rate stays below this multiple of the rate at which packets arrive.
const MOST_OF_RECEIVED: f64 = 1.5;
/// Weight of the old value in the average of the rates at which packets arrived when it decreased.
const AVERAGE: f64 = 0.95;
/// Least rate [bit/s]: that of libwebrtc.
const LEAST_BPS: f64 = 30_000.0;
/// Size of a packet and frames per second that the additive increase expects.
const PACKET_BITS: f64 = 1200.0 * 8.0;
const FRAMES_PER_S: f64 = 30.0;
/// Shares of lost packets that lower the rate, and that let it grow.
const LOSS_HIGH: f64 = 0.10;
const LOSS_LOW: f64 = 0.02;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Hold,
    Increase,
    Decrease,
}

/// Both rates.
#[derive(Debug)]
pub struct RateControl {
    delay_bps: f64,
    loss_bps: f64,
    state: State,
    updated: Option<Time>,
    /// Average and variance of the received rate at decreases [bit/s].
    capacity: Option<(f64, f64)>,
    /// Losses and updates since the last change of the loss-based rate.
    loss_updated: Option<Time>,
    lost_since: (f64, f64),
}

impl RateControl {
    /// Create it with a first rate.
    #[must_use]
    pub const fn new(start_bps: f64) -> Self {
        Self {
            delay_bps: start_bps,
            loss_bps: start_bps,
            state: State::Increase,
            updated: None,
            capacity: None,
            loss_updated: None,
            lost_since: (0.0, 0.0),
        }
    }

    /// Take in a feedback: the detector's signal, the rate of arrivals, the share lost and the RTT.
    pub fn update(&mut self, now: Time, signal: Signal, received_bps: f64, lost: f64, rtt: Nanos) {
        self.update_delay(now, signal, received_bps, rtt);
        self.update_loss(now, lost, rtt);
    }

    fn update_delay(&mut self, now: Time, signal: Signal, received_bps: f64, rtt: Nanos) {
        self.state = match (signal, self.state) {
            (Signal::Overuse, _) => State::Decrease,
            (Signal::Underuse, _) | (Signal::Normal, State::Decrease) => State::Hold,
            (Signal::Normal, _) => State::Increase,
        };
        let since_ms = self.updated.map_or(0.0, |before| now.since(before).as_millis_f64());
        self.updated = Some(now);
        match self.state {
            State::Hold => {}
            State::Increase => {
                let before = self.delay_bps;
                if self.capacity.is_some_and(|(mean, variance)| received_bps > mean + 3.0 * variance.sqrt()) {
                    self.capacity = None; // the path's rate has changed
                }
                if self.capacity.is_some() {
                    let share = 0.5 * (since_ms / (100.0 + rtt.as_millis_f64())).min(1.0);
                    let frame_bits = self.delay_bps / FRAMES_PER_S;
                    let packet_bits = frame_bits / (frame_bits / PACKET_BITS).ceil();
                    self.delay_bps += (share * packet_bits).max(1000.0 * (since_ms / 1000.0).min(1.0));
                } else {
                    self.delay_bps *= libm::pow(GROWTH, (since_ms / 1000.0).min(1.0));
                }
                // A sender that has little to send learns nothing about more; what a probe found stays.
                self.delay_bps = self.delay_bps.min((MOST_OF_RECEIVED * received_bps).max(before));
            }
            State::Decrease => {
                if self.capacity.is_some_and(|(mean, variance)| received_bps < mean - 3.0 * variance.sqrt()) {
                    self.capacity = None;
                }
                let (mean, variance) = self.capacity.unwrap_or((received_bps, received_bps * received_bps * 0.01));
                let residual = received_bps - mean;
                self.capacity = Some((mean + (1.0 - AVERAGE) * residual, AVERAGE * variance + (1.0 - AVERAGE) * residual * residual));
                self.delay_bps = self.delay_bps.min(DECREASE * received_bps).max(LEAST_BPS);
            }
        }
    }

    /// The share is taken over an RTT and at least 200 ms, as reports of receivers come seldom.
    fn update_loss(&mut self, now: Time, lost: f64, rtt: Nanos) {
        self.lost_since = (self.lost_since.0 + lost, self.lost_since.1 + 1.0);
        let begun = *self.loss_updated.get_or_insert(now);
        if now.since(begun) < rtt.max(Nanos::from_millis(200)) {
            return;
        }
        let share = self.lost_since.0 / self.lost_since.1;
        self.loss_updated = Some(now);
        self.lost_since = (0.0, 0.0);
        if share > LOSS_HIGH {
            self.loss_bps *= 1.0 - 0.5 * share;
        } else if share < LOSS_LOW {
            self.loss_bps *= 1.05;
        }
        self.loss_bps = self.loss_bps.max(LEAST_BPS);
        // It follows the delay-based rate, so that a loss after a long growth shows at once.
        self.loss_bps = self.loss_bps.min(self.delay_bps);
    }

    /// Set both rates to what a probe found [bit/s].
    pub const fn set_probed(&mut self, probed_bps: f64) {
        self.delay_bps = probed_bps;
        self.loss_bps = probed_bps;
    }

    /// Return the smaller rate [bit/s].
    #[must_use]
    pub const fn target_bps(&self) -> f64 {
        self.loss_bps.min(self.delay_bps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Nanos = Nanos::from_millis(60);

    fn after(rate: &mut RateControl, from_ms: u64, steps: u64, signal: Signal, received_bps: f64, lost: f64) -> f64 {
        (0..steps).for_each(|step| rate.update(Time((from_ms + step * 50) * 1_000_000), signal, received_bps, lost, RTT));
        rate.target_bps()
    }

    #[test]
    fn it_grows_by_eight_percent_a_second_and_falls_to_85_percent_of_what_arrives() {
        let mut rate = RateControl::new(1e6);
        let grown = after(&mut rate, 0, 101, Signal::Normal, 5e6, 0.0);
        assert!((grown / 1e6 - 1.4693).abs() < 0.08, "{grown}"); // 1.08^5; the loss-based rate follows in steps
        let fallen = after(&mut rate, 5050, 1, Signal::Overuse, 1.2e6, 0.0);
        assert!((fallen - 1.02e6).abs() < 1.0, "{fallen}");
        // Near the rate that the path had it grows by less than a packet each response time.
        let near = after(&mut rate, 5100, 21, Signal::Normal, 1.2e6, 0.0);
        assert!(near > fallen && near < fallen + 60_000.0, "{near}");
    }

    #[test]
    fn losses_above_ten_percent_lower_it_and_few_do_not() {
        let mut rate = RateControl::new(1e6);
        let before = after(&mut rate, 0, 40, Signal::Underuse, 1e6, 0.05);
        assert!((before - 1e6).abs() < 1.0);
        let lowered = after(&mut rate, 2000, 21, Signal::Underuse, 1e6, 0.2);
        assert!(lowered < 0.7e6 && lowered > 0.5e6, "{lowered}");
    }

    #[test]
    fn it_stays_below_one_and_a_half_times_what_arrives() {
        let mut rate = RateControl::new(2.9e5);
        assert!((after(&mut rate, 0, 100, Signal::Normal, 2e5, 0.0) - 3e5).abs() < 1.0);
    }
}
