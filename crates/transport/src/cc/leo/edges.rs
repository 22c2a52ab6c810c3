//! A reconfiguration as a sender sees it: nothing comes back for a while, and what comes then is late by about as much.
//!
//! A queue cannot do that: it grows while packets pass, so that round-trip times rise from one ACK to the next by little. Nor can an idle application: there is a
//! silence, but the first round-trip time after it is no longer than the last before it.

use crate::cc::AckSample;
use bentpipe_profile::{Nanos, Time};

/// Shortest silence, and smallest rise, that count. Chosen here: below nearly all (the largest round-trip time at a slot's edge is 48 / 63 / 78 / 98 / 143 ms above the slot's
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
    /// The last ACK, and the round-trip time that it, or one before it, brought.
    last: Option<(Time, Nanos)>,
    found: Option<Time>,
}

impl Edges {
    /// Takes an ACK; when the silence began, if this one ends the silence of a reconfiguration.
    pub fn on_ack(&mut self, ack: &AckSample) -> Option<Time> {
        let before = self.last;
        let rtt = ack.rtt.filter(|_| !ack.ack_delayed).or(before.map(|(_, rtt)| rtt))?;
        self.last = Some((ack.now, rtt));
        let (at, rtt_before) = before?;
        let (silence, rise) = (ack.now.since(at), rtt.saturating_sub(rtt_before));
        let like_one = (LEAST..=LONGEST).contains(&silence) && rise >= LEAST && rise.0.saturating_mul(LEAST_PART) >= silence.0;
        let new = self.found.is_none_or(|found| at.since(found) >= APART);
        (like_one && new).then(|| {
            self.found = Some(at);
            at
        })
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
        assert_eq!(found(&[(0, 40), (500, 40), (501, 41)]), []);
        let queue: Vec<_> = (0..200).map(|k| (2 * k, 40 + k)).collect();
        assert_eq!(found(&queue), []);
        // A sender that was stopped for long meets somewhat more of a queue.
        assert_eq!(found(&[(0, 40), (900, 90)]), []);
    }

    #[test]
    fn what_follows_one_is_not_another() {
        assert_eq!(found(&[(0, 40), (80, 110), (150, 190), (1500, 40), (1580, 110)]), [0, 1500]);
    }

    #[test]
    fn a_delayed_ack_says_nothing() {
        let mut edges = Edges::default();
        assert_eq!(edges.on_ack(&AckSample { rtt: Some(Nanos::from_millis(1)), ..ack_at(Time(0)) }), None);
        let delayed = AckSample { rtt: Some(Nanos::from_millis(41)), ack_delayed: true, ..ack_at(Time(40_000_000)) };
        assert_eq!(edges.on_ack(&delayed), None);
    }
}
