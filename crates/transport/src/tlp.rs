//! Tail loss probes (TLP). No later segment can show that the last segments of a flight were lost, so the sender probes.
//!
//! Source: RFC 8985 §7; Linux `tcp_schedule_loss_probe`, `tcp_send_loss_probe`, `tcp_process_tlp_ack`.

use crate::rto::INITIAL_RTO;
use bentpipe_profile::Nanos;

/// Smallest timer (`TCP_TIMEOUT_MIN_US`).
pub const TIMEOUT_MIN: Nanos = Nanos::from_millis(2);

/// Return the time without an acknowledgement after which to probe: two RTTs, plus the receiver's ACK delay if one packet is out (bounded by
/// the least RTO).
pub fn timeout(srtt: Option<Nanos>, packets_out: u32, rto_min: Nanos) -> Nanos {
    match srtt {
        Some(srtt) => Nanos(2 * srtt.0) + if packets_out == 1 { rto_min } else { TIMEOUT_MIN },
        None => INITIAL_RTO,
    }
}

/// State of the probe.
#[derive(Clone, Copy, Debug, Default)]
pub struct TailProbe {
    /// `SND.NXT` after the probe was sent; `None`: no probe is outstanding.
    high_seq: Option<u64>,
    /// Whether it retransmitted the last segment because there was no new data.
    retransmitted: bool,
}

/// What an acknowledgement tells about a probe.
#[derive(Clone, Copy, Debug)]
pub struct ProbeAck {
    /// Next byte expected.
    pub ack: u64,
    /// Whether it carries a DSACK of the probe itself.
    pub dsack_of_probe: bool,
    /// Whether it is a duplicate acknowledgement without other information.
    pub pure_duplicate: bool,
}

impl TailProbe {
    /// Record that a probe was sent.
    pub const fn sent(&mut self, high_seq: u64, retransmitted: bool) {
        self.high_seq = Some(high_seq);
        self.retransmitted = retransmitted;
    }

    /// Whether a probe is outstanding: a second one waits.
    pub const fn is_out(&self) -> bool {
        self.high_seq.is_some()
    }

    /// `SND.NXT` after the outstanding probe, if there is one.
    pub const fn high_seq(&self) -> Option<u64> {
        self.high_seq
    }

    /// Cancel the probe: loss recovery starts.
    pub const fn cancel(&mut self) {
        self.high_seq = None;
    }

    /// Process an acknowledgement and return whether the probe repaired a loss, which requires a window reduction.
    pub fn on_ack(&mut self, ack: ProbeAck) -> bool {
        let Some(high_seq) = self.high_seq else { return false };
        if ack.ack < high_seq {
            return false;
        }
        if !self.retransmitted || ack.dsack_of_probe {
            self.high_seq = None;
        } else if ack.ack > high_seq {
            // Newer data is acknowledged without a DSACK: the original was lost.
            self.high_seq = None;
            return true;
        } else if ack.pure_duplicate {
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
    fn a_tlp_that_repaired_a_loss_reduces_the_window_and_a_spurious_one_does_not() {
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
