//! What a scheduler over several connections must know of one of them.

use super::Sender;
use super::state::State;
use bentpipe_profile::{Bytes, Nanos, Rate};

/// How full a connection is, and how fast it empties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Occupancy {
    /// Smoothed RTT; `None`: no sample yet.
    pub srtt: Option<Nanos>,
    /// Retransmission time-out.
    pub rto: Nanos,
    /// Congestion window.
    pub cwnd: Bytes,
    /// Sent and neither acknowledged nor marked lost.
    pub in_flight: Bytes,
    /// Offered by the application and not sent yet.
    pub unsent: Bytes,
    /// Offered by the application and not acknowledged yet.
    pub outstanding: Bytes,
    /// Pacing rate, in force or not (`sk_pacing_rate`); zero before the first RTT sample.
    pub pacing_rate: Rate,
    /// Whether a retransmission time-out is being repaired.
    pub is_in_loss: bool,
}

impl Sender {
    /// Return how full it is now.
    #[must_use]
    pub fn occupancy(&self) -> Occupancy {
        let offered = self.buffer.offered();
        Occupancy {
            srtt: self.rtt.srtt(),
            rto: self.rtt.rto(),
            cwnd: self.controller.cwnd(),
            in_flight: self.in_flight_bytes(),
            unsent: Bytes(offered.saturating_sub(self.nxt)),
            outstanding: Bytes(offered.saturating_sub(self.una)),
            pacing_rate: self.nominal_rate,
            is_in_loss: self.state == State::Loss,
        }
    }
}
