//! Detection of a reconfiguration from ACKs: no ACK arrives for a while, and the next ones have an RTT that is higher by about as much.
//!
//! A queue does not look like this: it grows while packets pass, so that the RTT rises little from one ACK to the next. Nor does an idle application: it
//! causes a silence, but the first RTT after it is no higher than the last before it.

use crate::AckSample;
use bentpipe_profile::{Nanos, Time};

/// Shortest silence, and smallest rise of the RTT, that count. Chosen here: below nearly all (the largest RTT at a slot's edge is 48 / 63 / 78 / 98 / 143 ms
/// above the slot's median at 5 / 25 / 50 / 75 / 95 %, pings of `clarkzjw/LEOLiveStreaming`, December 2024), and above the effects of grants and of bunched ACKs.
const MIN_STEP: Nanos = Nanos::from_millis(35);
/// A longer silence is an outage or a pause, not a reconfiguration. Chosen here: three times the longest above.
const MAX_SILENCE: Nanos = Nanos::from_millis(1000);
/// The rise is at least this fraction of the silence. Chosen here: with less, the sender had stopped, not the path.
const MIN_RISE_DIVISOR: u64 = 3;
/// Shortest time between two reconfigurations: losses after one, and their repair, are not another. Chosen here.
const MIN_INTERVAL: Nanos = Nanos::from_millis(1000);

/// Detector of reconfigurations.
#[derive(Clone, Copy, Debug, Default)]
pub struct Detector {
    /// Time of the last ACK, and the newest RTT.
    newest: Option<(Time, Nanos)>,
    /// Start of a silence that looks like a reconfiguration, and the RTT before it. The receiver may delay one ACK, but not two in a row.
    suspected: Option<(Time, Nanos)>,
    last: Option<Time>,
}

impl Detector {
    /// Processes an ACK. Returns the start of the silence if this ACK confirms a reconfiguration.
    pub fn on_ack(&mut self, ack: &AckSample) -> Option<Time> {
        self.on_rtt(ack.now, ack.rtt.filter(|_| !ack.ack_delayed))
    }

    /// As [`Self::on_ack`], of an ACK at `now` with this RTT; `None`: it has none, or the receiver delayed it.
    pub fn on_rtt(&mut self, now: Time, sample: Option<Nanos>) -> Option<Time> {
        let before = self.newest;
        let rtt = sample.or(before.map(|(_, rtt)| rtt))?;
        self.newest = Some((now, rtt));
        if let Some((at, rtt_before)) = self.suspected.filter(|_| sample.is_some()) {
            self.suspected = None;
            if rtt >= rtt_before + MIN_STEP {
                self.last = Some(at);
                return Some(at);
            }
        }
        let (at, rtt_before) = before?;
        let (silence, rise) = (now.since(at), rtt.saturating_sub(rtt_before));
        let is_step =
            (MIN_STEP..=MAX_SILENCE).contains(&silence) && rise >= MIN_STEP && rise.0.saturating_mul(MIN_RISE_DIVISOR) >= silence.0;
        if is_step && self.last.is_none_or(|last| at.since(last) >= MIN_INTERVAL) {
            self.suspected = Some((at, rtt_before));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::ack_at;
    use super::*;

    fn detected(acks: &[(u64, u64)]) -> Vec<u64> {
        let mut detector = Detector::default();
        let ack = |&(at_ms, rtt_ms): &(u64, u64)| AckSample { rtt: Some(Nanos::from_millis(rtt_ms)), ..ack_at(Time(at_ms * 1_000_000)) };
        acks.iter().filter_map(|a| detector.on_ack(&ack(a))).map(|at| at.0 / 1_000_000).collect()
    }

    #[test]
    fn a_silence_followed_by_higher_rtts_is_a_reconfiguration() {
        assert_eq!(detected(&[(0, 40), (1, 40), (81, 115), (82, 114), (90, 60)]), [1]);
    }

    #[test]
    fn neither_an_application_pause_nor_a_growing_queue_is_a_reconfiguration() {
        assert!(detected(&[(0, 40), (500, 40), (501, 41)]).is_empty());
        let queue: Vec<_> = (0..200).map(|k| (2 * k, 40 + k)).collect();
        assert!(detected(&queue).is_empty());
        // After a long pause the RTT may be somewhat higher because of a queue.
        assert!(detected(&[(0, 40), (900, 90)]).is_empty());
    }

    #[test]
    fn a_second_step_soon_after_a_reconfiguration_is_not_another() {
        assert_eq!(detected(&[(0, 40), (80, 110), (81, 110), (150, 190), (151, 190), (1500, 40), (1580, 110), (1581, 109)]), [0, 1500]);
    }

    /// The sender may not know that the ACK was delayed: one segment alone, 40 ms late.
    #[test]
    fn a_delayed_ack_is_not_a_reconfiguration() {
        assert!(detected(&[(0, 660), (41, 700), (45, 661), (46, 661)]).is_empty());
    }
}
