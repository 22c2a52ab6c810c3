//! Losses that are no congestion, and that the controller does not see.

use crate::{AckSample, Congestion, LostPacket, RecoveryState};
use bentpipe_profile::Bytes;
use std::collections::BTreeSet;

/// Losses that the controller does not see.
#[derive(Clone, Debug, Default)]
pub(super) struct HiddenLosses {
    /// First bytes of packets that were dropped, but by no queue, and that the sender has not marked lost yet.
    pub dropped: BTreeSet<u64>,
    /// All bytes lost, and the hidden ones among them, after each hidden loss.
    totals: Vec<(Bytes, Bytes)>,
    /// Bytes hidden since the last ACK.
    fresh: Bytes,
    /// Whether a loss that is not hidden came since the last recovery ended.
    is_congested: bool,
}

impl HiddenLosses {
    /// Returns the bytes that were hidden when `lost` bytes were lost.
    fn hidden_at(&self, lost: Bytes) -> Bytes {
        let count = self.totals.partition_point(|total| total.0 <= lost);
        count.checked_sub(1).map_or(Bytes::ZERO, |last| self.totals[last].1)
    }

    /// Hides the loss of a packet, if it was dropped by no queue; otherwise returns it without the hidden ones.
    pub fn seen(&mut self, lost: &LostPacket, mss: u32) -> Option<LostPacket> {
        let hidden = self.totals.last().map_or(Bytes::ZERO, |total| total.1);
        if self.dropped.remove(&lost.seq) {
            let packet = Bytes(u64::from(mss));
            self.totals.push((lost.lost_total, hidden + packet));
            self.fresh += packet;
            return None;
        }
        self.is_congested = true;
        let before = self.hidden_at(lost.lost_at_send);
        Some(LostPacket {
            lost_at_send: lost.lost_at_send.saturating_sub(before),
            lost_total: lost.lost_total.saturating_sub(hidden),
            ..*lost
        })
    }

    /// Returns an ACK without the hidden losses.
    pub fn seen_ack(&mut self, ack: &AckSample) -> AckSample {
        let fresh = std::mem::take(&mut self.fresh);
        let lost_total = ack.lost_total.saturating_sub(self.hidden_at(ack.lost_total));
        let at_send = ack.lost_total.saturating_sub(ack.lost_since_sent);
        let is_hidden = ack.recovery == RecoveryState::Recovery && !self.is_congested;
        AckSample {
            newly_lost: ack.newly_lost.saturating_sub(fresh),
            lost_total,
            lost_since_sent: lost_total.saturating_sub(at_send.saturating_sub(self.hidden_at(at_send))),
            recovery: if is_hidden { RecoveryState::Open } else { ack.recovery },
            ..*ack
        }
    }

    /// Returns whether the controller sees an event.
    pub fn sees(&mut self, event: Congestion) -> bool {
        match event {
            Congestion::Loss | Congestion::TailLoss | Congestion::Undo => self.is_congested,
            Congestion::RecoveryEnd => std::mem::take(&mut self.is_congested),
            Congestion::Timeout | Congestion::TimeoutAgain => {
                self.is_congested = true;
                true
            }
            Congestion::Ecn | Congestion::Restart(_) => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{ack_at, in_bytes};
    use bentpipe_profile::Time;

    fn lost(seq: u64, lost_at_send: u64, lost_total: u64) -> LostPacket {
        LostPacket {
            now: Time::ZERO,
            seq,
            bytes: Bytes(1448),
            sent_at: Time::ZERO,
            tx_in_flight: in_bytes(10),
            delivered_at_send: Bytes::ZERO,
            lost_at_send: in_bytes(lost_at_send),
            lost_total: in_bytes(lost_total),
            delivered_total: Bytes::ZERO,
            app_limited: false,
        }
    }

    #[test]
    fn a_loss_that_is_no_congestion_is_hidden_with_its_recovery() {
        let mut losses = HiddenLosses::default();
        losses.dropped.extend([1000, 3000]);
        assert!(losses.seen(&lost(1000, 0, 1), 1448).is_none() && !losses.sees(Congestion::Loss));
        let ack = |newly, total, since_sent, recovery| AckSample {
            newly_lost: in_bytes(newly),
            lost_total: in_bytes(total),
            lost_since_sent: in_bytes(since_sent),
            recovery,
            ..ack_at(Time::ZERO)
        };
        let seen = losses.seen_ack(&ack(1, 1, 1, RecoveryState::Recovery));
        assert_eq!((seen.newly_lost, seen.lost_total, seen.lost_since_sent), (Bytes::ZERO, Bytes::ZERO, Bytes::ZERO));
        assert_eq!(seen.recovery, RecoveryState::Open);
        // The next one is congestion, and was sent after the first was lost.
        let seen = losses.seen(&lost(2000, 1, 2), 1448).expect("not hidden");
        assert_eq!((seen.lost_at_send, seen.lost_total), (Bytes::ZERO, in_bytes(1)));
        assert!(losses.seen(&lost(3000, 1, 3), 1448).is_none());
        let seen = losses.seen_ack(&ack(2, 3, 2, RecoveryState::Recovery));
        assert_eq!((seen.newly_lost, seen.lost_total, seen.lost_since_sent), (in_bytes(1), in_bytes(1), in_bytes(1)));
        assert_eq!(seen.recovery, RecoveryState::Recovery);
        assert!(losses.sees(Congestion::RecoveryEnd) && !losses.sees(Congestion::RecoveryEnd));
        // A packet that was dropped twice by no queue was told twice.
        assert!(losses.seen(&lost(1000, 3, 4), 1448).is_some());
    }
}
