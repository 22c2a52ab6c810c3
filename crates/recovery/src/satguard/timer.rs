//! The timer of a beam.
//!
//! ```text
//!   thd = 2·d/c + both transmissions + waits of the acknowledgement + cell radius
//! ```
//! `SatGuard` has 2·d/c alone (WWW 2024, §3.3), which is over before any acknowledgement can arrive. d/c is the propagation delay of the
//! link at this time, each way. The scheduler knows the grants of both directions, so the waits for them are exact.

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
    grants: [Cursor; 2],
    rate: Cursor,
    ack_delay: Nanos,
}

impl BeamTimer {
    /// Create the timer of a link. `forward`: the direction of the packets, `back`: that of their acknowledgements. `ack_delay`: how long the other end waits
    /// for a packet that can carry the acknowledgement.
    #[must_use]
    pub fn new(forward: HopDirection, back: HopDirection, ack_delay: Nanos) -> Self {
        Self { sides: [forward, back], delays: Default::default(), grants: Default::default(), rate: Cursor::default(), ack_delay }
    }

    /// Return when a packet arrives whose transmission in direction `side` ends at `at`: it waits for its grant, then for the propagation.
    fn arrival(&mut self, side: usize, at: Time) -> Time {
        let HopDirection { jitter, delay, .. } = &self.sides[side];
        let leaves = jitter.as_ref().map_or(at, |schedule| schedule.release(&mut self.grants[side], at));
        leaves + Nanos(delay.at(&mut self.delays[side], leaves))
    }

    /// Return the threshold for a packet whose transmission ends at `now`. The acknowledgement may wait for one packet in transmission.
    pub fn threshold(&mut self, now: Time) -> Nanos {
        let arrival = self.arrival(0, now);
        let transmission = self.sides[1].capacity.as_ref().map_or(Nanos::ZERO, |rate| {
            let rate = Rate(rate.at(&mut self.rate, arrival));
            Nanos(2 * rate.time_for(LARGEST).0.min(Nanos::from_secs(1).0))
        });
        let acknowledged = self.arrival(1, arrival + self.ack_delay + transmission);
        acknowledged.since(now) + CELL
    }
}
