//! The timer of a beam.
//!
//! ```text
//!   thd = 2·d/c + both transmissions + waits of the acknowledgement + cell radius
//! ```
//! `SatGuard` has 2·d/c alone (WWW 2024, §3.3), which is over before any acknowledgement can arrive. d/c is the propagation delay of the link at this time, each way.

use bentpipe_profile::series::Cursor;
use bentpipe_profile::{Bytes, HopDirection, Nanos, Rate, Time};

/// Radius of a cell as a delay, each way: 12 km at the speed of light, there and back.
const CELL: Nanos = Nanos(2 * 40_028);
/// Largest packet on a hop [bytes].
const LARGEST: Bytes = Bytes(1600);

/// When to expect the acknowledgement of a packet.
#[derive(Clone, Debug)]
pub struct BeamTimer {
    sides: [HopDirection; 2],
    delays: [Cursor; 2],
    rates: [Cursor; 2],
    /// Waits that do not depend on time: of the acknowledgement at its end, for grants both ways, and the cell's radius.
    waits: Nanos,
}

impl BeamTimer {
    /// Create the timer of a link. `forward`: the direction of the packets, `back`: that of their acknowledgements. `ack_delay`: how long the other end waits
    /// for a packet that can carry the acknowledgement.
    #[must_use]
    pub fn new(forward: HopDirection, back: HopDirection, ack_delay: Nanos) -> Self {
        let grant = |side: &HopDirection| {
            let closures = side.jitter.iter().flat_map(bentpipe_profile::JitterSeries::closures);
            closures.map(|(_, length)| length).max().unwrap_or(Nanos::ZERO)
        };
        let waits = ack_delay + grant(&forward) + grant(&back) + CELL;
        Self { sides: [forward, back], delays: Default::default(), rates: Default::default(), waits }
    }

    /// Return the propagation both ways at `now`.
    pub fn rtt(&mut self, now: Time) -> Nanos {
        let [forward, back] = &self.sides;
        let [to, from] = &mut self.delays;
        Nanos(forward.delay.at(to, now) + back.delay.at(from, now))
    }

    /// Return the threshold for a packet whose transmission ends at `now`. The acknowledgement may wait for one packet in transmission.
    pub fn threshold(&mut self, now: Time) -> Nanos {
        let [_, back] = &self.sides;
        let transmission = back.capacity.as_ref().map_or(Nanos::ZERO, |rate| {
            let rate = Rate(rate.at(&mut self.rates[1], now));
            Nanos(2 * rate.time_for(LARGEST).0.min(Nanos::from_secs(1).0))
        });
        self.rtt(now) + self.waits + transmission
    }
}
