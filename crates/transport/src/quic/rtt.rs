//! RTT and the times derived from it (RFC 9002 §5, §6).

use bentpipe_profile::Nanos;

/// RTT before the first sample (RFC 9002 §6.2.2).
pub const INITIAL_RTT: Nanos = Nanos::from_millis(333);
/// Granularity of timers (RFC 9002 §6.1.2).
pub const GRANULARITY: Nanos = Nanos::from_millis(1);
/// Longest delay of an acknowledgement (RFC 9000 §18.2, the default).
pub const MAX_ACK_DELAY: Nanos = Nanos::from_millis(25);
/// PTOs without an acknowledgement that are persistent congestion (RFC 9002 §7.6.1).
const PERSISTENT_CONGESTION_THRESHOLD: u64 = 3;

/// RTT estimator (RFC 9002 §5).
#[derive(Clone, Copy, Debug, Default)]
pub struct Rtt {
    latest: Nanos,
    min: Nanos,
    smoothed: Option<Nanos>,
    variation: Nanos,
}

impl Rtt {
    /// Add a sample (RFC 9002 §5.3). `ack_delay`: that of the frame; before the handshake is confirmed it is not limited.
    pub fn sample(&mut self, rtt: Nanos, ack_delay: Nanos, is_confirmed: bool) {
        self.latest = rtt;
        let Some(smoothed) = self.smoothed else {
            (self.min, self.smoothed, self.variation) = (rtt, Some(rtt), Nanos(rtt.0 / 2));
            return;
        };
        self.min = self.min.min(rtt);
        let delay = if is_confirmed { ack_delay.min(MAX_ACK_DELAY) } else { ack_delay };
        let adjusted = if rtt.0 >= self.min.0 + delay.0 { Nanos(rtt.0 - delay.0) } else { rtt };
        self.variation = Nanos((3 * self.variation.0 + smoothed.0.abs_diff(adjusted.0)) / 4);
        self.smoothed = Some(Nanos((7 * smoothed.0 + adjusted.0) / 8));
    }

    /// Begin the minimum anew after persistent congestion (RFC 9002 §5.2).
    pub const fn restart_min(&mut self) {
        self.min = self.latest;
    }

    /// Smoothed RTT; `None`: no sample.
    #[must_use]
    pub const fn smoothed(&self) -> Option<Nanos> {
        self.smoothed
    }

    /// Variation; `None`: no sample.
    #[must_use]
    pub fn variation(&self) -> Option<Nanos> {
        self.smoothed.map(|_| self.variation)
    }

    /// Newest sample.
    #[must_use]
    pub fn latest(&self) -> Option<Nanos> {
        self.smoothed.map(|_| self.latest)
    }

    /// Minimum; `Nanos::MAX` before the first sample.
    #[must_use]
    pub fn min(&self) -> Nanos {
        self.smoothed.map_or(Nanos::MAX, |_| self.min)
    }

    /// Time after which a packet sent before an acknowledged one is lost (RFC 9002 §6.1.2).
    #[must_use]
    pub fn loss_delay(&self) -> Nanos {
        let rtt = self.smoothed.map_or(INITIAL_RTT, |smoothed| smoothed.max(self.latest));
        Nanos(rtt.0 * 9 / 8).max(GRANULARITY)
    }

    /// Probe time-out without back-off (RFC 9002 §6.2.1). `max_ack_delay`: zero during the handshake.
    #[must_use]
    pub fn pto(&self, max_ack_delay: Nanos) -> Nanos {
        let (smoothed, variation) = self.smoothed.map_or((INITIAL_RTT, Nanos(INITIAL_RTT.0 / 2)), |smoothed| (smoothed, self.variation));
        smoothed + Nanos(4 * variation.0).max(GRANULARITY) + max_ack_delay
    }

    /// Span of losses from which on congestion is persistent (RFC 9002 §7.6.1).
    #[must_use]
    pub fn persistent_congestion(&self) -> Nanos {
        Nanos(self.pto(MAX_ACK_DELAY).0 * PERSISTENT_CONGESTION_THRESHOLD)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(n: u64) -> Nanos {
        Nanos::from_millis(n)
    }

    #[test]
    fn the_estimator_follows_the_pseudocode_of_rfc_9002() {
        let mut rtt = Rtt::default();
        assert_eq!(rtt.pto(Nanos::ZERO), ms(999), "kInitialRtt + 4 × kInitialRtt / 2");
        rtt.sample(ms(100), ms(0), false);
        assert_eq!((rtt.smoothed(), rtt.variation(), rtt.min()), (Some(ms(100)), Some(ms(50)), ms(100)));
        // The delay is subtracted, at most max_ack_delay: adjusted 140 − 25.
        rtt.sample(ms(140), ms(30), true);
        assert_eq!(rtt.smoothed(), Some(Nanos((7 * 100_000_000 + 115_000_000) / 8)));
        assert_eq!(rtt.variation(), Some(Nanos((3 * 50_000_000 + 15_000_000) / 4)));
        // Not below the minimum: 110 − 25 < 100.
        let before = rtt;
        rtt.sample(ms(110), ms(25), true);
        assert_eq!(rtt.smoothed(), Some(Nanos((7 * before.smoothed.unwrap().0 + 110_000_000) / 8)));
        assert_eq!(rtt.min(), ms(100));
    }

    #[test]
    fn times_of_loss_detection_are_those_of_rfc_9002() {
        let mut rtt = Rtt::default();
        rtt.sample(ms(80), ms(0), true);
        assert_eq!(rtt.loss_delay(), ms(90), "9/8");
        assert_eq!(rtt.pto(MAX_ACK_DELAY), ms(80 + 160 + 25));
        assert_eq!(rtt.persistent_congestion(), ms(3 * 265));
        let mut short = Rtt::default();
        short.sample(Nanos(1000), ms(0), true);
        assert_eq!(short.loss_delay(), GRANULARITY);
    }
}
