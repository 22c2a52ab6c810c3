//! A reconfiguration as a sender sees it: nothing comes back for a while, and what comes then is late by about as much.
//!
//! A queue cannot do that: it grows while packets pass, so that RTTs rise from one ACK to the next by little. Nor can an idle application: there is a
//! silence, but the first RTT after it is no longer than the last before it.

use crate::AckSample;
use bentpipe_profile::{Nanos, Time};

/// Shortest silence, and smallest rise, that count. Chosen here: below nearly all (the largest RTT at a slot's edge is 48 / 63 / 78 / 98 / 143 ms above the slot's
/// median at 5 / 25 / 50 / 75 / 95 %, pings of `clarkzjw/LEOLiveStreaming`, December 2024), and above what grants and ACKs in bunches make.
const LEAST: Nanos = Nanos::from_millis(35);
/// A longer silence is an outage or a pause, not a change of satellites. Chosen here: three times the longest above.
const LONGEST: Nanos = Nanos::from_millis(1000);
/// The rise is at least this part of the silence. Chosen here: less, and the sender had stopped, not the path.
const LEAST_PART: u64 = 3;
/// Two of them are at least so far apart: what follows one (its losses, their repair) is not another. Chosen here.
const APART: Nanos = Nanos::from_millis(1000);

/// Looks for them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Edges {
    /// The last ACK, and the RTT that it, or one before it, brought.
    last: Option<(Time, Nanos)>,
    /// When a silence began that looked like one, and the RTT before it: one ACK could have been held back by the receiver, two in a row were not.
    suspected: Option<(Time, Nanos)>,
    found: Option<Time>,
}

impl Edges {
    /// Takes an ACK; when the silence began, if this one shows a reconfiguration.
    pub fn on_ack(&mut self, ack: &AckSample) -> Option<Time> {
        let before = self.last;
        let seen = ack.rtt.filter(|_| !ack.ack_delayed);
        let rtt = seen.or(before.map(|(_, rtt)| rtt))?;
        self.last = Some((ack.now, rtt));
        if let Some((at, rtt_before)) = self.suspected.filter(|_| seen.is_some()) {
            self.suspected = None;
            if rtt >= rtt_before + LEAST {
                self.found = Some(at);
                return Some(at);
            }
        }
        let (at, rtt_before) = before?;
        let (silence, rise) = (ack.now.since(at), rtt.saturating_sub(rtt_before));
        let like_one = (LEAST..=LONGEST).contains(&silence) && rise >= LEAST && rise.0.saturating_mul(LEAST_PART) >= silence.0;
        if like_one && self.found.is_none_or(|found| at.since(found) >= APART) {
            self.suspected = Some((at, rtt_before));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::ack_at;
    use super::*;

    fn found(acks: &[(u64, u64)]) -> Vec<u64> {
        let mut edges = Edges::default();
        let ack = |&(at_ms, rtt_ms): &(u64, u64)| AckSample { rtt: Some(Nanos::from_millis(rtt_ms)), ..ack_at(Time(at_ms * 1_000_000)) };
        acks.iter().filter_map(|a| edges.on_ack(&ack(a))).map(|at| at.0 / 1_000_000).collect()
    }

    #[test]
    fn a_silence_after_which_round_trips_are_longer_is_a_reconfiguration() {
        assert_eq!(found(&[(0, 40), (1, 40), (81, 115), (82, 114), (90, 60)]), [1]);
    }

    #[test]
    fn neither_a_pause_of_the_application_nor_a_growing_queue_is_one() {
        assert!(found(&[(0, 40), (500, 40), (501, 41)]).is_empty());
        let queue: Vec<_> = (0..200).map(|k| (2 * k, 40 + k)).collect();
        assert!(found(&queue).is_empty());
        // A sender that was stopped for long meets somewhat more of a queue.
        assert!(found(&[(0, 40), (900, 90)]).is_empty());
    }

    #[test]
    fn what_follows_one_is_not_another() {
        assert_eq!(found(&[(0, 40), (80, 110), (81, 110), (150, 190), (151, 190), (1500, 40), (1580, 110), (1581, 109)]), [0, 1500]);
    }

    /// The sender need not know that it was: one segment alone, 40 ms late.
    #[test]
    fn a_delayed_ack_says_nothing() {
        assert!(found(&[(0, 660), (41, 700), (45, 661), (46, 661)]).is_empty());
    }
}
