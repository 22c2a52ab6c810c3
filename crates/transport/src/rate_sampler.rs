//! Delivery rate: the rate at which the path delivered the last flight.
//!
//! Source: draft-cheng-iccrg-delivery-rate-estimation; Linux `net/ipv4/tcp_rate.c`. Counts are packets; the sender turns them into bytes.

use bentpipe_profile::{Nanos, Time};

/// Sampler state that a packet records when it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Packets delivered before it was sent.
    pub delivered: u64,
    /// Time of the last delivery before it was sent.
    pub delivered_at: Time,
    /// Send time of the first packet of its flight.
    pub first_sent_at: Time,
    /// Whether the sender was application-limited.
    pub app_limited: bool,
}

/// A delivery rate sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Packets delivered when the newest packet acknowledged was sent.
    pub prior_delivered: u64,
    /// Packets delivered since.
    pub delivered: u64,
    /// The longer of the send phase and the ACK phase.
    pub interval: Nanos,
    /// Whether the sample is application-limited.
    pub app_limited: bool,
}

/// The newest packet that the current acknowledgement delivers.
#[derive(Clone, Copy, Debug)]
struct Newest {
    sent_at: Time,
    end: u64,
    snapshot: Snapshot,
    tx_in_flight: u32,
    lost_before: u32,
}

/// Delivery rate sampler of a connection.
#[derive(Clone, Debug, Default)]
pub struct RateSampler {
    delivered: u64,
    delivered_at: Time,
    first_sent_at: Time,
    /// Samples are application-limited until this many packets are delivered; 0: they are not.
    app_limited_until: u64,
    newest: Option<Newest>,
    rate: Option<(u64, Nanos)>,
}

impl RateSampler {
    /// Return the state to record with a packet sent at `now`; `idle`: no packet is outstanding.
    pub const fn on_sent(&mut self, now: Time, idle: bool) -> Snapshot {
        if idle {
            self.first_sent_at = now;
            self.delivered_at = now;
        }
        Snapshot {
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
            app_limited: self.app_limited_until > 0,
        }
    }

    /// Mark the next samples application-limited: the application had nothing to send while the window was open and `in_flight` packets out
    /// (`tcp_rate_check_app_limited`).
    pub fn on_app_limited(&mut self, in_flight: u32) {
        self.app_limited_until = (self.delivered + u64::from(in_flight)).max(1);
    }

    /// Whether samples are application-limited.
    pub const fn is_app_limited(&self) -> bool {
        self.app_limited_until > 0
    }

    /// Packets delivered.
    pub const fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Begin the processing of an acknowledgement.
    pub const fn begin(&mut self) {
        self.newest = None;
    }

    /// Record a packet that the acknowledgement delivers.
    pub fn on_delivered(&mut self, sent_at: Time, end: u64, tx_in_flight: u32, lost_before: u32, snapshot: Snapshot) {
        self.delivered += 1;
        if self.newest.is_none_or(|n| (sent_at, end) > (n.sent_at, n.end)) {
            self.newest = Some(Newest { sent_at, end, snapshot, tx_in_flight, lost_before });
        }
    }

    /// Record duplicates reported by DSACK: they were delivered too.
    pub fn on_duplicates(&mut self, packets: u32) {
        self.delivered += u64::from(packets);
    }

    /// Packets delivered before the newest delivered packet was sent; `None`: no packet is delivered, or none was before.
    pub fn prior_delivered(&self) -> Option<u64> {
        self.newest.map(|n| n.snapshot.delivered).filter(|&d| d > 0)
    }

    /// Packets in flight when the newest delivered packet was sent.
    pub fn tx_in_flight(&self) -> u32 {
        self.newest.map_or(0, |n| n.tx_in_flight)
    }

    /// Packets lost on the connection when the newest delivered packet was sent.
    pub fn lost_before(&self) -> Option<u32> {
        self.newest.map(|n| n.lost_before)
    }

    /// End the acknowledgement and return its sample, unless it delivers nothing or the interval is shorter than `min_rtt` (a retransmission
    /// whose original arrived).
    pub fn finish(&mut self, now: Time, any_delivered: bool, min_rtt: Nanos) -> Option<Sample> {
        if self.app_limited_until > 0 && self.delivered > self.app_limited_until {
            self.app_limited_until = 0;
        }
        if any_delivered {
            self.delivered_at = now;
        }
        let newest = self.newest?;
        self.first_sent_at = newest.sent_at;
        let send_phase = newest.sent_at.since(newest.snapshot.first_sent_at);
        let ack_phase = now.since(newest.snapshot.delivered_at);
        let interval = send_phase.max(ack_phase);
        if min_rtt != Nanos::MAX && interval < min_rtt {
            return None;
        }
        let sample = Sample {
            prior_delivered: newest.snapshot.delivered,
            delivered: self.delivered - newest.snapshot.delivered,
            interval,
            app_limited: newest.snapshot.app_limited,
        };
        let above = |(delivered, span): (u64, Nanos)| {
            u128::from(sample.delivered) * u128::from(span.0) >= u128::from(delivered) * u128::from(sample.interval.0)
        };
        if !sample.app_limited || self.rate.is_none_or(above) {
            self.rate = Some((sample.delivered, sample.interval));
        }
        Some(sample)
    }

    /// Newest rate that is not application-limited, or the highest that is, as packets over time.
    pub const fn rate(&self) -> Option<(u64, Nanos)> {
        self.rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(n: u64) -> Time {
        Time(n * 1_000_000)
    }
    const MIN_RTT: Nanos = Nanos::from_millis(10);

    #[test]
    fn rate_interval_is_the_longer_of_the_send_and_the_ack_phase() {
        let mut s = RateSampler::default();
        let first = s.on_sent(ms(0), true);
        let second = s.on_sent(ms(30), false);
        s.begin();
        s.on_delivered(ms(0), 1, 1, 0, first);
        assert_eq!(s.finish(ms(10), true, MIN_RTT).map(|r| (r.delivered, r.interval)), Some((1, Nanos::from_millis(10))));
        // Sent 30 ms after the first, acknowledged 12 ms later: send phase 30, ACK phase 42 − 0.
        s.begin();
        s.on_delivered(ms(30), 2, 1, 0, second);
        assert_eq!(s.finish(ms(42), true, MIN_RTT).map(|r| r.interval), Some(Nanos::from_millis(42)));
        // The next flight begins at the send time of the newest delivered packet; compressed ACKs do not shorten it.
        let third = s.on_sent(ms(42), false);
        let fourth = s.on_sent(ms(60), false);
        s.begin();
        s.on_delivered(ms(42), 3, 2, 0, third);
        s.on_delivered(ms(60), 4, 2, 0, fourth);
        let sample = s.finish(ms(70), true, MIN_RTT).expect("valid");
        assert_eq!((sample.prior_delivered, sample.delivered, sample.interval), (2, 2, Nanos::from_millis(30)), "send phase 60 − 30");
    }

    #[test]
    fn rate_sample_shorter_than_min_rtt_is_discarded() {
        let mut s = RateSampler::default();
        let snapshot = s.on_sent(ms(0), true);
        s.begin();
        s.on_delivered(ms(0), 1, 1, 0, snapshot);
        assert_eq!(s.finish(ms(9), true, MIN_RTT), None);
        assert_eq!(s.delivered(), 1);
    }

    #[test]
    fn rate_samples_stay_app_limited_until_the_bubble_is_delivered() {
        let mut s = RateSampler::default();
        let first = s.on_sent(ms(0), true);
        s.on_app_limited(1);
        let second = s.on_sent(ms(1), false);
        assert!(!first.app_limited && second.app_limited);
        s.begin();
        s.on_delivered(ms(0), 1, 1, 0, first);
        s.finish(ms(20), true, MIN_RTT);
        assert!(s.is_app_limited());
        s.begin();
        s.on_delivered(ms(1), 2, 1, 0, second);
        assert_eq!(s.finish(ms(21), true, MIN_RTT).map(|r| r.app_limited), Some(true));
        assert!(!s.is_app_limited());
    }

    #[test]
    fn app_limited_samples_raise_the_rate_but_never_lower_it() {
        let mut s = RateSampler { rate: Some((10, Nanos::from_millis(10))), ..RateSampler::default() };
        s.on_app_limited(5);
        let snapshot = s.on_sent(ms(0), true);
        s.begin();
        s.on_delivered(ms(0), 1, 1, 0, snapshot);
        s.finish(ms(20), true, MIN_RTT);
        assert_eq!(s.rate(), Some((10, Nanos::from_millis(10))));
    }
}
