//! Proportional rate reduction (PRR): the window during recovery.
//!
//! Source: RFC 9937 (the successor of RFC 6937) with the slow-start reduction bound, as implemented in Linux `tcp_cwnd_reduction`. Counts are
//! packets.

/// State of a window reduction.
#[derive(Clone, Copy, Debug, Default)]
pub struct Prr {
    prior_cwnd: u64,
    delivered: u64,
    out: u64,
}

/// Effect of an acknowledgement, as PRR needs it.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Packets newly delivered.
    pub delivered: u64,
    /// Packets newly marked lost.
    pub lost: u64,
    /// Whether the cumulative acknowledgement advanced.
    pub una_advanced: bool,
    /// Packets in flight after the acknowledgement.
    pub in_flight: u64,
}

impl Prr {
    /// Begin a reduction from `cwnd`.
    pub const fn begin(cwnd: u64) -> Self {
        Self { prior_cwnd: cwnd, delivered: 0, out: 0 }
    }

    /// Record packets sent, new ones and retransmissions.
    pub const fn on_sent(&mut self, packets: u64) {
        self.out += packets;
    }

    /// Return the window after an acknowledgement; `None` if it delivered nothing and the window stays.
    pub fn window(&mut self, progress: Progress, ssthresh: u64) -> Option<u64> {
        if progress.delivered == 0 {
            return None;
        }
        self.delivered += progress.delivered;
        let allowed = if progress.in_flight > ssthresh {
            // Proportional part: send ssthresh packets for every prior_cwnd delivered.
            (ssthresh * self.delivered).div_ceil(self.prior_cwnd.max(1)).saturating_sub(self.out)
        } else {
            // Slow-start back to ssthresh, as long as the acknowledgements show no further loss.
            let grow = u64::from(progress.una_advanced && progress.lost == 0);
            let count = self.delivered.saturating_sub(self.out).max(progress.delivered) + grow;
            count.min(ssthresh - progress.in_flight)
        };
        // The first retransmission is always sent.
        let first = u64::from(self.out == 0);
        Some(progress.in_flight + allowed.max(first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ack(delivered: u64, in_flight: u64) -> Progress {
        Progress { delivered, lost: 0, una_advanced: false, in_flight }
    }

    #[test]
    fn prr_sends_ssthresh_over_prior_cwnd_per_packet_delivered() {
        let mut prr = Prr::begin(100);
        let mut in_flight = 99;
        let mut sent = 0;
        // One packet lost, 99 delivered one by one: 70 are sent, evenly spaced.
        for delivered in 1..=99_u64 {
            in_flight -= 1;
            let window = prr.window(ack(1, in_flight), 70).expect("delivered");
            let room = window - in_flight;
            prr.on_sent(room);
            in_flight += room;
            sent += room;
            assert!(sent.abs_diff((70 * delivered).div_ceil(100)) <= 1, "{sent} after {delivered}");
        }
        assert_eq!(in_flight, 70);
    }

    #[test]
    fn prr_forces_the_first_retransmission() {
        let mut prr = Prr::begin(10);
        // ssthresh equals the packets in flight: PRR allows nothing, but the first retransmission is sent.
        assert_eq!(prr.window(ack(1, 7), 7), Some(8));
        prr.on_sent(1);
        assert_eq!(prr.window(ack(0, 7), 7), None);
    }

    #[test]
    fn prr_below_ssthresh_grows_by_one_only_when_una_advanced_without_loss() {
        let after_heavy_loss = |una_advanced, lost| {
            let mut prr = Prr::begin(100);
            prr.on_sent(5);
            prr.window(Progress { delivered: 2, lost, una_advanced, in_flight: 20 }, 70)
        };
        assert_eq!(after_heavy_loss(false, 0), Some(22));
        assert_eq!(after_heavy_loss(true, 1), Some(22));
        assert_eq!(after_heavy_loss(true, 0), Some(23));
    }

    proptest! {
        #[test]
        fn prr_window_never_exceeds_ssthresh_once_in_flight_is_below(cwnd in 2_u64..1000, acks in proptest::collection::vec((1_u64..5, 0_u64..3, any::<bool>()), 1..200)) {
            let ssthresh = cwnd * 7 / 10 + 1;
            let mut prr = Prr::begin(cwnd);
            let mut in_flight = cwnd;
            for (delivered, lost, una_advanced) in acks {
                in_flight = in_flight.saturating_sub(delivered + lost);
                let first = prr.out == 0;
                let window = prr.window(Progress { delivered, lost, una_advanced, in_flight }, ssthresh).expect("delivered");
                prop_assert!(window >= in_flight);
                prop_assert!(first || in_flight >= ssthresh || window <= ssthresh);
                prr.on_sent(window - in_flight);
                in_flight = window;
            }
        }
    }
}
