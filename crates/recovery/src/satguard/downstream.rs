//! The downstream end of a hop: it acknowledges every arrival by the latest run of consecutive numbers.

use crate::serial::{FIRST, expand, short};
use std::collections::VecDeque;

/// Most numbers in a run. A quarter of the range, so that the first number of a run is never taken for a later one.
const LONGEST: u64 = 1 << 14;

/// A run of consecutive numbers, first and last included, as on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// First number.
    pub first: u16,
    /// Last number.
    pub last: u16,
}

impl Run {
    /// No numbers: a header without an acknowledgement.
    pub const NONE: Self = Self { first: 1, last: 0 };

    /// Return how many numbers it has.
    #[must_use]
    pub fn len(self) -> u64 {
        u64::from(self.last.wrapping_sub(self.first).wrapping_add(1))
    }

    /// Return whether it has no numbers, or more than a run can have.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len() == 0 || self.len() > LONGEST
    }
}

/// The arrivals of one hop that have to be acknowledged.
#[derive(Clone, Debug, Default)]
pub struct Downstream {
    /// The latest run; `None` before the first arrival.
    run: Option<(u64, u64)>,
    /// Runs that have not been sent, oldest first. The last one may be the latest run.
    pending: VecDeque<(u64, u64)>,
}

impl Downstream {
    /// Record the arrival of a number.
    pub fn arrive(&mut self, hseq: u16) {
        let number = expand(hseq, self.run.map_or(FIRST, |(_, last)| last));
        let arrived = match self.run {
            Some((first, last)) if number == last + 1 => (first.max((number + 1).saturating_sub(LONGEST)), number),
            Some((_, last)) if number <= last => {
                // Out of order: it is acknowledged without the run, which goes on. Numbers follow each other here when the upstream end, which missed
                // acknowledgements, uses numbers again.
                match self.pending.back_mut().filter(|pending| self.run != Some(**pending) && pending.1 + 1 == number) {
                    Some(pending) => *pending = (pending.0.max((number + 1).saturating_sub(LONGEST)), number),
                    None => self.pending.push_back((number, number)),
                }
                return;
            }
            _ => (number, number),
        };
        // A pending run that this one continues is contained in it.
        if self.pending.back().is_some_and(|&pending| self.run == Some(pending) && arrived.0 <= pending.0 + 1 && arrived.1 > arrived.0) {
            self.pending.pop_back();
        }
        self.run = Some(arrived);
        self.pending.push_back(arrived);
    }

    /// Return whether an arrival has not been acknowledged.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Return the acknowledgement for the next packet of the other direction: the oldest run that was not sent, else the latest run once more.
    pub fn acknowledgement(&mut self) -> Run {
        let run = self.pending.pop_front().or(self.run);
        run.map_or(Run::NONE, |(first, last)| Run { first: short(first), last: short(last) })
    }
}

#[cfg(test)]
mod tests {
    use super::super::upstream::{Detection, Limits, Upstream, on_wire};
    use super::*;
    use bentpipe_profile::{Bytes, Nanos, Time};

    fn runs(arrivals: &[u16]) -> Vec<(u16, u16)> {
        let mut end = Downstream::default();
        for &hseq in arrivals {
            end.arrive(hseq);
        }
        std::iter::from_fn(|| end.is_pending().then(|| end.acknowledgement())).map(|run| (run.first, run.last)).collect()
    }

    #[test]
    fn a_run_covers_consecutive_arrivals_and_a_gap_begins_another() {
        assert_eq!(runs(&[0, 1, 2]), [(0, 2)]);
        assert_eq!(runs(&[0, 1, 3, 4, 6]), [(0, 1), (3, 4), (6, 6)]);
        assert_eq!(runs(&[0, 2, 1, 3]), [(0, 0), (2, 2), (1, 1), (2, 3)]);
    }

    /// All acknowledgements of the first numbers are lost, so the upstream end uses them again: the peer still acknowledges them by runs.
    #[test]
    fn numbers_that_are_used_again_are_acknowledged_by_runs() {
        let limits = Limits { detection: Detection::Gaps, tries: 3, buffer: Bytes(100_000_000) };
        let (mut upstream, mut downstream) = (Upstream::new(limits), Downstream::default());
        let mut now = Time(0);
        let send = |upstream: &mut Upstream<()>, now| upstream.send(now, (), 100, 0, Nanos(10));
        while let Some(number) = send(&mut upstream, now) {
            downstream.arrive(on_wire(number));
        }
        while downstream.is_pending() {
            downstream.acknowledgement(); // lost
        }
        now = Time(1000);
        upstream.expire(now);
        for _ in 0..100 {
            downstream.arrive(on_wire(send(&mut upstream, now).unwrap()));
        }
        assert_eq!(upstream.kept().count(), 100);
        upstream.acknowledge(downstream.acknowledgement()).unwrap();
        assert_eq!((upstream.kept().count(), downstream.is_pending()), (0, false));
    }

    #[test]
    fn the_latest_run_is_repeated() {
        let mut end = Downstream::default();
        assert!(end.acknowledgement().is_empty());
        for hseq in [7, 8] {
            end.arrive(hseq);
        }
        assert_eq!([end.acknowledgement(), end.acknowledgement()], [Run { first: 7, last: 8 }; 2]);
    }

    #[test]
    fn numbers_wrap_and_a_run_has_a_longest_length() {
        let mut end = Downstream::default();
        for number in 0..200_000_u64 {
            end.arrive(short(number));
            let run = end.acknowledgement();
            assert_eq!((run.last, run.len()), (short(number), (number + 1).min(LONGEST)));
        }
    }
}
