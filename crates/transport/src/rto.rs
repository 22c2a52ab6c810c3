//! Smoothed RTT and retransmission time-out (RTO).
//!
//! Source: RFC 6298 as implemented in Linux (`tcp_rtt_estimator`, `tcp_set_rto`). The variance is the largest mean deviation of the last RTT,
//! decays by a quarter per RTT, and has the least time-out as its floor: RTO = srtt + max(200 ms, rttvar).

use bentpipe_profile::Nanos;

/// Time-out before the first sample (`TCP_TIMEOUT_INIT`, RFC 6298 §2.1).
pub const INITIAL_RTO: Nanos = Nanos::from_secs(1);

/// Largest time-out (`TCP_RTO_MAX`).
pub const RTO_MAX: Nanos = Nanos::from_secs(120);

/// Smallest value to which the largest time-out may be set (`TCP_RTO_MAX_MS`, `net.ipv4.tcp_rto_max_ms`; Linux 6.15).
pub const LEAST_RTO_MAX: Nanos = Nanos::from_secs(1);

/// RTT estimator and the RTO derived from it.
#[derive(Clone, Debug)]
pub struct RttEstimator {
    rto_min: u64,
    rto_max: u64,
    /// Eight times the smoothed RTT [ns]; 0: no sample.
    srtt_x8: u64,
    /// Four times the mean deviation [ns].
    mdev_x4: u64,
    /// Largest mean deviation in this RTT, times four [ns].
    mdev_max_x4: u64,
    /// Four times the RTT variance [ns].
    rttvar_x4: u64,
    /// The current RTT ends when this sequence number is acknowledged.
    round_end: u64,
    rto: u64,
}

impl RttEstimator {
    /// Create an estimator without samples.
    pub const fn new(rto_min: Nanos, rto_max: Nanos) -> Self {
        Self {
            rto_min: rto_min.0,
            rto_max: rto_max.0,
            srtt_x8: 0,
            mdev_x4: 0,
            mdev_max_x4: 0,
            rttvar_x4: 0,
            round_end: 0,
            rto: INITIAL_RTO.0,
        }
    }

    /// Add a sample. `una` is the first byte not acknowledged and `nxt` the next to send; they delimit RTTs.
    pub fn sample(&mut self, rtt: Nanos, una: u64, nxt: u64) {
        let rtt = rtt.0.max(1);
        if self.srtt_x8 == 0 {
            self.srtt_x8 = rtt << 3;
            self.mdev_x4 = rtt << 1;
            self.rttvar_x4 = self.mdev_x4.max(self.rto_min);
            self.mdev_max_x4 = self.rttvar_x4;
            self.round_end = nxt;
        } else {
            let srtt = self.srtt_x8 >> 3;
            self.srtt_x8 = self.srtt_x8 - srtt + rtt;
            let deviation = rtt.abs_diff(srtt);
            let mean = self.mdev_x4 >> 2;
            if deviation >= mean {
                // A falling RTT must not inflate the time-out (Eifel): it counts with an eighth of the gain.
                let gain = if rtt < srtt { 3 } else { 0 };
                self.mdev_x4 += (deviation - mean) >> gain;
            } else {
                self.mdev_x4 -= mean - deviation;
            }
            if self.mdev_x4 > self.mdev_max_x4 {
                self.mdev_max_x4 = self.mdev_x4;
                self.rttvar_x4 = self.rttvar_x4.max(self.mdev_max_x4);
            }
            if una > self.round_end {
                self.rttvar_x4 -= self.rttvar_x4.saturating_sub(self.mdev_max_x4) >> 2;
                self.round_end = nxt;
                self.mdev_max_x4 = self.rto_min;
            }
        }
        self.rto = ((self.srtt_x8 >> 3) + self.rttvar_x4).min(self.rto_max);
    }

    /// Smoothed RTT.
    pub const fn srtt(&self) -> Option<Nanos> {
        if self.srtt_x8 == 0 { None } else { Some(Nanos(self.srtt_x8 >> 3)) }
    }

    /// Mean deviation of the RTT from the smoothed one.
    pub const fn mean_deviation(&self) -> Option<Nanos> {
        if self.srtt_x8 == 0 { None } else { Some(Nanos(self.mdev_x4 >> 2)) }
    }

    /// RTO, doubled once for each call of [`Self::back_off`] since the last sample.
    pub const fn rto(&self) -> Nanos {
        Nanos(self.rto)
    }

    /// Sets the largest time-out, from the next sample or time-out on.
    pub fn set_max(&mut self, rto_max: Nanos) {
        self.rto_max = rto_max.0;
    }

    /// Doubles the time-out (RFC 6298 §5.5).
    pub fn back_off(&mut self) {
        self.rto = (self.rto << 1).min(self.rto_max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const fn ms(n: u64) -> Nanos {
        Nanos::from_millis(n)
    }

    fn estimator() -> RttEstimator {
        RttEstimator::new(ms(200), Nanos::from_secs(120))
    }

    #[test]
    fn rto_is_1_s_before_a_sample_and_srtt_plus_200_ms_on_a_steady_path() {
        let mut e = estimator();
        assert_eq!(e.rto(), ms(1000));
        for round in 0..200 {
            e.sample(ms(50), round * 1000 + 1, round * 1000 + 1000);
        }
        assert_eq!(e.srtt(), Some(ms(50)));
        assert_eq!(e.rto(), ms(250), "the variance is floored at 200 ms");
    }

    #[test]
    fn rto_doubles_up_to_120_s_and_a_sample_ends_the_backoff() {
        let mut e = estimator();
        e.sample(ms(50), 0, 1);
        let first = e.rto();
        assert_eq!(first, ms(250), "2 x 50 ms is below the floor");
        e.back_off();
        assert_eq!(e.rto(), ms(500));
        for _ in 0..12 {
            e.back_off();
        }
        assert_eq!(e.rto(), Nanos::from_secs(120));
        e.sample(ms(50), 2, 3);
        assert_eq!(e.rto(), first);
    }

    #[test]
    fn a_falling_rtt_raises_the_variance_an_eighth_as_much_as_a_rising_one() {
        let (mut up, mut down) = (estimator(), estimator());
        for e in [&mut up, &mut down] {
            e.sample(Nanos::from_secs(1), 0, 1);
            e.mdev_x4 = 0;
        }
        up.sample(ms(1400), 2, 3);
        down.sample(ms(600), 2, 3);
        assert_eq!(up.mdev_x4, ms(400).0);
        assert_eq!(down.mdev_x4, ms(50).0);
    }

    proptest! {
        #[test]
        fn rto_stays_between_its_bounds(rtts in proptest::collection::vec(1_u64..200_000_000_000, 1..50)) {
            let mut e = estimator();
            for (i, rtt) in rtts.into_iter().enumerate() {
                let una = i as u64 * 10;
                e.sample(Nanos(rtt), una, una + 15);
                prop_assert!(e.rto() >= ms(200) && e.rto() <= Nanos::from_secs(120));
            }
        }
    }
}
