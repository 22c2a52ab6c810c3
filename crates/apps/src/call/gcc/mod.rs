//! Google congestion control at the sender (draft-ietf-rmcat-gcc-02): a delay-based estimate, a loss-based one, and the smaller of both.
//!
//! | module | holds |
//! |---|---|
//! | [`groups`] | packets sent together, and how their delay varies (section 5.2 and 5.3) |
//! | [`filter`] | Kalman filter of the queueing delay's gradient (5.3) |
//! | [`detector`] | over-use, under-use, adaptive threshold (5.4) |
//! | [`rate`] | the delay-based rate (5.5) and the loss-based one (6) |
//!
//! The draft has no probing; libwebrtc's is in [`super::probe`].

pub mod detector;
pub mod filter;
pub mod groups;
pub mod rate;

use self::detector::Detector;
use self::filter::Filter;
use self::groups::Groups;
use self::rate::RateControl;
use bentpipe_profile::{Nanos, Time};
use std::collections::VecDeque;

/// Span over which the rate of arrivals is measured.
const RATE_WINDOW: Nanos = Nanos::from_millis(500);

/// A transmission of which the receiver reported the arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// When it was sent.
    pub sent: Time,
    /// When it arrived, on the receiver's clock.
    pub at: Time,
    /// Its size [bytes].
    pub bytes: u32,
}

/// The estimate of a sender.
pub struct Gcc {
    groups: Groups,
    filter: Filter,
    detector: Detector,
    rate: RateControl,
    /// Arrivals of the last [`RATE_WINDOW`].
    recent: VecDeque<(Time, u32)>,
    recent_bytes: u64,
}

impl Gcc {
    /// Create an estimate that begins with `start_bps`.
    #[must_use]
    pub fn new(start_bps: f64) -> Self {
        Self {
            groups: Groups::default(),
            filter: Filter::default(),
            detector: Detector::default(),
            rate: RateControl::new(start_bps),
            recent: VecDeque::new(),
            recent_bytes: 0,
        }
    }

    /// Take in a feedback: the transmissions that arrived in the order of sending, and the share of those reported that did not [0, 1].
    pub fn on_feedback(&mut self, now: Time, arrived: &[Arrived], lost: f64, rtt: Nanos) {
        for packet in arrived {
            self.recent.push_back((packet.at, packet.bytes));
            self.recent_bytes += u64::from(packet.bytes);
            if let Some(variation) = self.groups.add(*packet) {
                self.filter.update(variation.delay_ms, variation.interval_ms);
                self.detector.update(self.filter.gradient_ms(), variation.interval_ms);
            }
        }
        let newest = arrived.iter().map(|packet| packet.at).max();
        while let (Some(newest), Some(&(at, bytes))) = (newest, self.recent.front()) {
            if newest.since(at) <= RATE_WINDOW {
                break;
            }
            self.recent.pop_front();
            self.recent_bytes -= u64::from(bytes);
        }
        let received_bps = self.recent_bytes as f64 * 8.0 / RATE_WINDOW.as_secs_f64();
        self.rate.update(now, self.detector.signal(), received_bps, lost, rtt);
    }

    /// Begin anew at a rate that a probe found [bit/s].
    pub const fn set_probed(&mut self, probed_bps: f64) {
        self.rate.set_probed(probed_bps);
    }

    /// Return the rate for media and retransmissions [bit/s].
    #[must_use]
    pub const fn target_bps(&self) -> f64 {
        self.rate.target_bps()
    }
}
