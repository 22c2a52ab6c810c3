//! The upstream end of a hop: it numbers packets, keeps copies until they are acknowledged, and detects losses.
//!
//! ```text
//!              send: HSeq = next            acknowledged
//!   packet ──▶ kept ──────────────────────▶ freed
//!     ▲          │ later number acknowledged (gaps), or deadline passed
//!     └──────────┤ tries left: the old entry goes, the retransmission gets a new HSeq
//!                └──▶ given up
//! ```
//! A retransmission has a new number, so its loss is found like any loss. Numbers have 16 bits: at most half of them may be ahead of the highest acknowledged one. When they
//! are used up, packets pass without protection until every kept copy is acknowledged or timed out; then no number is on its way, and numbering goes on
//! behind the highest acknowledged one. A stall would stop the hop for an RTT, and an era bit only doubles the range.

use super::downstream::Run;
use crate::serial::{FIRST, HALF, expand, short};
use bentpipe_profile::{Bytes, Nanos, Time};
use std::collections::BTreeMap;

/// How an upstream end detects losses. Copies time out in either case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detection {
    /// A number is lost when a later one is acknowledged: on a hop of one pair that keeps order.
    Gaps,
    /// Only by the beam's timer: acknowledgements of a shared hop come in any order.
    BeamTimer,
}

/// Parameters of an upstream end.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How it detects losses.
    pub detection: Detection,
    /// Most transmissions of a packet, the first included.
    pub tries: u16,
    /// Most bytes of copies.
    pub buffer: Bytes,
}

/// A copy that was lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost<P> {
    /// The packet.
    pub packet: P,
    /// Its number in this hop so far.
    pub number: u64,
    /// Its transmissions so far.
    pub tries: u16,
    /// Whether it was the last try.
    pub is_final: bool,
}

/// What an acknowledgement tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acknowledged<P> {
    /// The run, first and last number.
    pub run: (u64, u64),
    /// Copies that a gap shows to be lost.
    pub lost: Vec<Lost<P>>,
}

/// A kept copy.
#[derive(Clone, Debug)]
struct Kept<P> {
    packet: P,
    bytes: u32,
    tries: u16,
    deadline: Time,
}

/// The upstream end for one downstream peer.
#[derive(Debug)]
pub struct Upstream<P> {
    limits: Limits,
    next: u64,
    /// The number after the highest acknowledged one.
    acknowledged: u64,
    kept: BTreeMap<u64, Kept<P>>,
    bytes: u64,
    /// Deadlines do not decrease, so the oldest copy is the first to time out.
    last_deadline: Time,
}

impl<P> Upstream<P> {
    /// Create an end that has sent nothing.
    #[must_use]
    pub const fn new(limits: Limits) -> Self {
        Self { limits, next: FIRST, acknowledged: FIRST, kept: BTreeMap::new(), bytes: 0, last_deadline: Time::ZERO }
    }

    /// Send a packet, and keep `copy` of it for at most `timeout`. `tries`: its transmissions before. Returns its number; `None`: it passes without protection.
    pub fn send(&mut self, now: Time, copy: P, bytes: u32, tries: u16, timeout: Nanos) -> Option<u64> {
        if self.next - self.acknowledged >= HALF - 1 {
            if !self.kept.is_empty() {
                return None;
            }
            self.next = self.acknowledged;
        }
        if self.bytes + u64::from(bytes) > self.limits.buffer.0 {
            return None;
        }
        let number = self.next;
        self.next += 1;
        self.bytes += u64::from(bytes);
        self.last_deadline = self.last_deadline.max(now + timeout);
        self.kept.insert(number, Kept { packet: copy, bytes, tries: tries + 1, deadline: self.last_deadline });
        Some(number)
    }

    /// Process an acknowledgement: free the copies in the run, and return those that a gap shows to be lost. `None`: the run is empty or was never sent.
    pub fn acknowledge(&mut self, run: Run) -> Option<Acknowledged<P>> {
        self.acknowledge_with(run, drop)
    }

    /// As [`Upstream::acknowledge`], and pass each freed copy to `freed`.
    pub fn acknowledge_with(&mut self, run: Run, mut freed: impl FnMut(P)) -> Option<Acknowledged<P>> {
        let last = expand(run.last, self.next - 1);
        if run.is_empty() || last >= self.next {
            return None;
        }
        let first = (last + 1).saturating_sub(run.len());
        self.acknowledged = self.acknowledged.max(last + 1);
        while let Some(number) = self.kept.range(first..=last).next().map(|(&number, _)| number) {
            self.take(number).into_iter().for_each(|kept| freed(kept.packet));
        }
        let mut lost = Vec::new();
        if self.limits.detection == Detection::Gaps {
            while let Some(number) = self.kept.range(..first).next().map(|(&number, _)| number) {
                lost.extend(self.lose(number));
            }
        }
        Some(Acknowledged { run: (first, last), lost })
    }

    /// Return the copies whose deadline has passed.
    pub fn expire(&mut self, now: Time) -> Vec<Lost<P>> {
        let mut lost = Vec::new();
        while let Some((&number, _)) = self.kept.first_key_value().filter(|(_, kept)| kept.deadline <= now) {
            lost.extend(self.lose(number));
        }
        lost
    }

    /// Return when to call [`Upstream::expire`].
    #[must_use]
    pub fn wake_at(&self) -> Option<Time> {
        self.kept.first_key_value().map(|(_, kept)| kept.deadline)
    }

    /// Iterate over the kept copies in the order of their numbers.
    pub fn kept(&self) -> impl Iterator<Item = (u64, &P)> {
        self.kept.iter().map(|(&number, kept)| (number, &kept.packet))
    }

    /// Forget the copies for which `leaves` is true: another end answers for them.
    pub fn forget(&mut self, leaves: impl Fn(&P) -> bool) {
        let numbers: Vec<u64> = self.kept().filter(|(_, packet)| leaves(packet)).map(|(number, _)| number).collect();
        for number in numbers {
            self.take(number);
        }
    }

    /// Return the bytes of the kept copies.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    fn take(&mut self, number: u64) -> Option<Kept<P>> {
        let kept = self.kept.remove(&number)?;
        self.bytes -= u64::from(kept.bytes);
        Some(kept)
    }

    fn lose(&mut self, number: u64) -> Option<Lost<P>> {
        let Kept { packet, tries, .. } = self.take(number)?;
        Some(Lost { packet, number, tries, is_final: tries >= self.limits.tries })
    }
}

/// Return a number as on the wire.
#[must_use]
pub const fn on_wire(number: u64) -> u16 {
    short(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Nanos = Nanos(100);

    fn end(detection: Detection) -> Upstream<u32> {
        Upstream::new(Limits { detection, tries: 3, buffer: Bytes(10_000_000) })
    }

    fn run(first: u16, last: u16) -> Run {
        Run { first, last }
    }

    #[test]
    fn a_gap_is_a_loss_at_once_on_a_hop_of_one_pair_only() {
        for (detection, expected) in [(Detection::Gaps, vec![2]), (Detection::BeamTimer, vec![])] {
            let mut end = end(detection);
            for packet in 0..5 {
                assert_eq!(end.send(Time(u64::from(packet)), packet, 100, 0, TIMEOUT), Some(FIRST + u64::from(packet)));
            }
            assert_eq!(end.acknowledge(run(0, 1)).unwrap().lost, []);
            let lost: Vec<_> = end.acknowledge(run(3, 3)).unwrap().lost.into_iter().map(|lost| lost.packet).collect();
            assert_eq!(lost, expected);
            assert_eq!(end.kept().map(|(_, &packet)| packet).collect::<Vec<_>>(), if lost.is_empty() { vec![2, 4] } else { vec![4] });
        }
    }

    #[test]
    fn a_copy_times_out_and_is_given_up_after_its_tries() {
        let mut end = end(Detection::BeamTimer);
        let mut now = Time(0);
        for tries in 0..3 {
            end.send(now, 7, 100, tries, TIMEOUT).unwrap();
            assert_eq!(end.wake_at(), Some(now + TIMEOUT));
            assert_eq!(end.expire(Time(now.0 + 99)), []);
            now = now + TIMEOUT;
            let lost = end.expire(now).pop().unwrap();
            assert_eq!((lost.packet, lost.tries, lost.is_final), (7, tries + 1, tries == 2));
        }
        assert_eq!((end.bytes(), end.wake_at()), (0, None));
    }

    #[test]
    fn a_full_buffer_lets_packets_pass_without_protection() {
        let mut end = Upstream::new(Limits { detection: Detection::Gaps, tries: 3, buffer: Bytes(250) });
        assert!(end.send(Time(0), 0, 100, 0, TIMEOUT).is_some() && end.send(Time(0), 1, 100, 0, TIMEOUT).is_some());
        assert_eq!(end.send(Time(0), 2, 100, 0, TIMEOUT), None);
        end.acknowledge(run(0, 0));
        assert_eq!(end.send(Time(0), 3, 100, 0, TIMEOUT), Some(FIRST + 2));
    }

    /// 83,000 packets a second whose acknowledgements are all lost: numbers run out after 0.4 s and come back when no copy is left.
    #[test]
    fn numbers_that_run_out_come_back() {
        let mut end = end(Detection::Gaps);
        let timeout = Nanos::from_millis(20);
        let (mut protected, mut last) = (0, None);
        for packet in 0..100_000_u32 {
            let now = Time(u64::from(packet) * 12_000);
            end.expire(now);
            if let Some(number) = end.send(now, packet, 50, 0, timeout) {
                assert!(number < FIRST + HALF);
                (protected, last) = (protected + 1, Some((number, packet)));
            }
        }
        assert!(protected > 95_000, "{protected}");
        let (number, packet) = last.unwrap();
        assert!(end.kept().any(|(_, &kept)| kept == packet));
        end.acknowledge(run(on_wire(number), on_wire(number)));
        assert!(!end.kept().any(|(_, &kept)| kept == packet));
    }

    #[test]
    fn an_acknowledgement_of_numbers_that_were_never_sent_is_ignored() {
        let mut end = end(Detection::Gaps);
        end.send(Time(0), 0, 100, 0, TIMEOUT);
        for run in [run(1, 1), run(5, 9), Run::NONE, run(0, 40_000)] {
            assert_eq!(end.acknowledge(run), None);
        }
        assert_eq!(end.kept().count(), 1);
    }
}
