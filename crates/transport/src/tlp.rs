//! Tail loss probes: the last segments of a flight have nothing behind them to show that they were lost, so one more is sent.
//!
//! Source: RFC 8985 §7; Linux `tcp_schedule_loss_probe`, `tcp_send_loss_probe`, `tcp_process_tlp_ack`.

use crate::rto::INITIAL_RTO;
use bentpipe_profile::Nanos;

/// Least time of a timer (`TCP_TIMEOUT_MIN_US`).
pub const TIMEOUT_MIN: Nanos = Nanos::from_millis(2);

/// After how long without an acknowledgement to probe: two RTTs, and with one packet out the receiver's delay on top (the least RTO bounds it).
pub fn timeout(srtt: Option<Nanos>, packets_out: u32, rto_min: Nanos) -> Nanos {
    match srtt {
        Some(srtt) => Nanos(2 * srtt.0) + if packets_out == 1 { rto_min } else { TIMEOUT_MIN },
        None => INITIAL_RTO,
    }
}

/// The probe under way.
#[derive(Clone, Copy, Debug, Default)]
pub struct TailProbe {
    /// The next byte to send when it left; `None`: none is under way.
    high_seq: Option<u64>,
    /// Whether it repeated the last segment, for want of a new one.
    retransmitted: bool,
}

/// What an acknowledgement says about a probe.
#[derive(Clone, Copy, Debug)]
pub struct ProbeAck {
    /// Next byte expected.
    pub ack: u64,
    /// Whether it is a duplicate's report of the probe itself.
    pub dsack_of_probe: bool,
    /// Whether it is a duplicate acknowledgement and nothing else.
    pub pure_duplicate: bool,
}

impl TailProbe {
    /// A probe was sent.
    pub const fn sent(&mut self, high_seq: u64, retransmitted: bool) {
        self.high_seq = Some(high_seq);
        self.retransmitted = retransmitted;
    }

    /// Whether one is under way: a second waits.
    pub const fn is_out(&self) -> bool {
        self.high_seq.is_some()
    }

    /// The end of what it repeated, if it repeated something.
    pub const fn high_seq(&self) -> Option<u64> {
        self.high_seq
    }

    /// A recovery takes over.
    pub const fn cancel(&mut self) {
        self.high_seq = None;
    }

    /// An acknowledgement arrived; whether it shows that the probe repaired a loss, which has to cost a reduction.
    pub fn on_ack(&mut self, seen: ProbeAck) -> bool {
        let Some(high_seq) = self.high_seq else { return false };
        if seen.ack < high_seq {
            return false;
        }
        if !self.retransmitted || seen.dsack_of_probe {
            self.high_seq = None;
        } else if seen.ack > high_seq {
            // Newer data is acknowledged and no duplicate was reported: the original never arrived.
            self.high_seq = None;
            return true;
        } else if seen.pure_duplicate {
            self.high_seq = None;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tlp_fires_after_two_srtt_plus_2_ms_and_200_ms_more_with_one_packet_out() {
        let (srtt, rto_min) = (Some(Nanos::from_millis(50)), Nanos::from_millis(200));
        assert_eq!(timeout(srtt, 2, rto_min), Nanos::from_millis(102));
        assert_eq!(timeout(srtt, 1, rto_min), Nanos::from_millis(300));
        assert_eq!(timeout(None, 5, rto_min), Nanos::from_secs(1));
    }

    fn ack(ack: u64) -> ProbeAck {
        ProbeAck { ack, dsack_of_probe: false, pure_duplicate: false }
    }

    #[test]
    fn tlp_that_repaired_a_loss_costs_a_reduction_and_a_needless_one_does_not() {
        let mut probe = TailProbe::default();
        probe.sent(1000, true);
        assert!(!probe.on_ack(ack(900)));
        assert!(!probe.on_ack(ack(1000)), "original or probe: not known yet");
        assert!(probe.on_ack(ack(1100)));
        assert!(!probe.is_out());

        probe.sent(1000, true);
        assert!(!probe.on_ack(ProbeAck { dsack_of_probe: true, ..ack(1000) }));
        assert!(!probe.is_out(), "both arrived");

        probe.sent(1000, true);
        assert!(!probe.on_ack(ProbeAck { pure_duplicate: true, ..ack(1000) }));
        assert!(!probe.is_out(), "both arrived");

        probe.sent(1000, false);
        assert!(!probe.on_ack(ack(1000)));
        assert!(!probe.is_out(), "new data was acknowledged");
    }
}
