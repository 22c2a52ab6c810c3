//! `CoDel`: what has waited too long for too long is dropped, or marked, ever more often until the wait is short again.
//!
//! Source: RFC 8289 §4 and §5, with what Linux adds (`include/net/codel_impl.h`, 6.18): a packet that can be marked is marked and sent, and counts as the
//! drop would have. Integers throughout: the interval over √count is rounded down to the nanosecond (the kernel's square root is of 16 bits).

use super::droptail::DropTail;
use super::{Lost, mark};
use crate::element::{DropCause, MarkCause};
use crate::packet::Packet;
use bentpipe_profile::{Codel, Nanos, Rate, Time};

/// A cycle that begins within so many intervals of the last one's next drop goes on at its rate (RFC 8289 §5.5).
const SOON_INTERVALS: u64 = 16;

/// What the law remembers (RFC 8289 §5.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Law {
    /// When the wait will have been above the target for an interval; `None`: it is below.
    first_above: Option<Time>,
    drop_next: Time,
    count: u32,
    last_count: u32,
    dropping: bool,
}

/// What the law sees of the queue it works on.
pub trait Source {
    /// The packet that has waited longest.
    fn pop(&mut self) -> Option<Packet>;
    /// Bytes that wait behind it.
    fn backlog(&self) -> u64;
}

impl Source for DropTail {
    fn pop(&mut self) -> Option<Packet> {
        self.dequeue()
    }

    fn backlog(&self) -> u64 {
        self.bytes()
    }
}

impl Law {
    /// The packet to send at `now`; `largest`: the largest packet seen, since a queue of one packet is no queue.
    pub fn dequeue(&mut self, spec: &Codel, largest: u64, now: Time, source: &mut impl Source, lost: &mut Lost) -> Option<Packet> {
        let (mut packet, mut late) = self.look(spec, largest, now, source);
        if self.dropping {
            self.dropping &= late;
            while self.dropping && now >= self.drop_next {
                let mut given_up = packet?;
                self.count = self.count.saturating_add(1);
                if spec.ecn && mark(&mut given_up, MarkCause::Law) {
                    self.drop_next = self.drop_next + spacing(spec.interval_ns, self.count);
                    return Some(given_up);
                }
                lost.push((given_up, DropCause::Aqm));
                (packet, late) = self.look(spec, largest, now, source);
                if late {
                    self.drop_next = self.drop_next + spacing(spec.interval_ns, self.count);
                } else {
                    self.dropping = false;
                }
            }
        } else if late {
            let mut given_up = packet?;
            let marked = spec.ecn && mark(&mut given_up, MarkCause::Law);
            if marked {
                packet = Some(given_up);
            } else {
                lost.push((given_up, DropCause::Aqm));
                (packet, _) = self.look(spec, largest, now, source);
            }
            self.begin(spec, now);
        }
        packet
    }

    /// A packet of its queue was given up for want of room: the law signals as if it had (`fq_codel_drop`).
    pub const fn strengthen(&mut self) {
        self.count = self.count.saturating_add(1);
    }

    /// A cycle of drops begins. If the last one ended a moment ago, its rate was about right.
    fn begin(&mut self, spec: &Codel, now: Time) {
        self.dropping = true;
        let delta = self.count - self.last_count;
        let soon = now.since(self.drop_next).0 < SOON_INTERVALS * spec.interval_ns.0;
        self.count = if delta > 1 && soon { delta } else { 1 };
        self.last_count = self.count;
        self.drop_next = now + spacing(spec.interval_ns, self.count);
    }

    /// The next packet, and whether the wait has been above the target for an interval (`dodequeue`).
    fn look(&mut self, spec: &Codel, largest: u64, now: Time, source: &mut impl Source) -> (Option<Packet>, bool) {
        let Some(packet) = source.pop() else {
            self.first_above = None;
            return (None, false);
        };
        let waited = now.since(packet.at);
        if waited < spec.target_ns || source.backlog() <= largest {
            self.first_above = None;
            return (Some(packet), false);
        }
        let first_above = *self.first_above.get_or_insert(now + spec.interval_ns);
        // What was set just now is in the future.
        (Some(packet), now >= first_above)
    }
}

/// Time to the next drop of a cycle after `count` of them: interval / √count.
fn spacing(interval: Nanos, count: u32) -> Nanos {
    #[allow(clippy::cast_possible_truncation)] // at most the interval
    Nanos((u128::from(interval.0).pow(2) / u128::from(count.max(1))).isqrt() as u64)
}

/// One queue under the law.
#[derive(Clone, Debug)]
pub struct CodelQueue {
    spec: Codel,
    fifo: DropTail,
    law: Law,
    largest: u64,
}

impl CodelQueue {
    /// An empty queue.
    #[must_use]
    pub fn new(spec: Codel, fifo: DropTail) -> Self {
        Self { spec, fifo, law: Law::default(), largest: 0 }
    }

    /// Takes the packet, or gives it up for want of room.
    pub fn enqueue(&mut self, packet: Packet, rate: Option<Rate>, lost: &mut Lost) {
        self.largest = self.largest.max(u64::from(packet.bytes));
        if let Err(packet) = self.fifo.enqueue(packet, rate) {
            lost.push((packet, DropCause::QueueFull));
        }
    }

    /// The packet to send at `now`.
    pub fn dequeue(&mut self, now: Time, lost: &mut Lost) -> Option<Packet> {
        self.law.dequeue(&self.spec, self.largest, now, &mut self.fifo, lost)
    }

    /// The next packet, whatever the law says.
    pub fn take(&mut self) -> Option<Packet> {
        self.fifo.dequeue()
    }

    /// Gives a packet back its place at the head.
    pub fn put_back(&mut self, packet: Packet) {
        self.fifo.put_back(packet);
    }

    /// Packets in the order in which they leave.
    pub fn iter(&self) -> impl Iterator<Item = &Packet> {
        self.fifo.iter()
    }

    /// Bytes that wait.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.fifo.bytes()
    }

    /// Packets that wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.fifo.len()
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.fifo.is_empty()
    }

    /// Takes over another's law.
    pub const fn adopt_aqm_state(&mut self, other: &Self) {
        self.law = other.law;
        self.largest = other.largest;
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{RFC, packet};
    use super::*;
    use crate::packet::Ecn;
    use bentpipe_profile::QueueLimit;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    fn queue(ecn: bool) -> CodelQueue {
        CodelQueue::new(Codel { ecn, ..RFC }, DropTail::new(QueueLimit::Packets(100_000)))
    }

    /// Keeps a standing queue in which every packet waits 20 ms, one leaving each millisecond; when the law acts [ms], and whether it drops.
    fn acts(ecn: Ecn, span_ms: u64, may_mark: bool) -> Vec<(u64, bool)> {
        let mut queue = queue(may_mark);
        let (mut lost, mut acted) = (Lost::new(), Vec::new());
        for ms in 0..span_ms {
            let at = Time((1000 + ms) * MS);
            // As many come as leave or are given up: the wait does not change.
            while queue.iter().next().is_none_or(|head| at.since(head.at).0 < 20 * MS) || queue.len() < 3 {
                queue.fifo.put_back(packet(Time(at.0 - 20 * MS), 0, ecn));
            }
            let sent = queue.dequeue(at, &mut lost);
            acted.extend(lost.drain(..).map(|_| (ms, true)));
            acted.extend(sent.filter(|p| p.marked.is_some()).map(|_| (ms, false)));
        }
        acted
    }

    #[test]
    fn the_first_drop_comes_after_an_interval_and_the_nth_interval_over_root_n_later() {
        let acted: Vec<u64> = acts(Ecn::NotEct, 1200, true).into_iter().map(|act| act.0).collect();
        // After 100 ms above the target; then after 100/√1, 100/√2, … ms, each at the next packet that leaves.
        let mut next = 100.0;
        for (n, &ms) in acted.iter().enumerate() {
            assert!((ms as f64 - next).abs() <= 1.0, "drop {n} at {ms} ms, wanted {next}: {acted:?}");
            next += 100.0 / ((n + 1) as f64).sqrt();
        }
        assert!(acted.len() > 25, "{acted:?}");
    }

    #[test]
    fn marks_come_when_drops_would() {
        let (marked, dropped) = (acts(Ecn::Ect, 1200, true), acts(Ecn::NotEct, 1200, true));
        assert_eq!(marked.iter().map(|act| act.0).collect::<Vec<_>>(), dropped.iter().map(|act| act.0).collect::<Vec<_>>());
        assert!(marked.iter().all(|act| !act.1) && dropped.iter().all(|act| act.1));
        assert_eq!(acts(Ecn::Ect, 1200, false), dropped, "a queue that may not mark");
    }

    #[test]
    fn a_queue_of_one_packet_or_a_short_wait_is_left_alone() {
        let mut queue = queue(true);
        let mut lost = Lost::new();
        for ms in 0..1000 {
            queue.enqueue(packet(Time(ms * MS), 0, Ecn::NotEct), None, &mut lost);
            // 50 ms of waiting, but nothing behind it.
            assert!(queue.dequeue(Time((ms + 50) * MS), &mut lost).is_some());
        }
        assert!(lost.is_empty());
    }

    #[test]
    fn a_cycle_that_begins_soon_after_the_last_goes_on_at_its_rate() {
        let mut law = Law { count: 20, last_count: 5, drop_next: Time(1000 * MS), ..Law::default() };
        law.begin(&RFC, Time(1500 * MS));
        assert_eq!((law.count, law.drop_next.0), (15, 1500 * MS + spacing(RFC.interval_ns, 15).0));
        let mut late = Law { count: 20, last_count: 5, drop_next: Time(1000 * MS), ..Law::default() };
        late.begin(&RFC, Time(2600 * MS));
        assert_eq!(late.count, 1);
    }

    proptest! {
        #[test]
        fn spacing_is_the_interval_over_the_root(ms in 1_u64..1_000_000, count in 1_u32..) {
            let exact = ms as f64 * 1e6 / f64::from(count).sqrt();
            let found = spacing(Nanos::from_millis(ms), count).0 as f64;
            prop_assert!((found - exact).abs() <= 1.0 + exact * 1e-12, "{found} {exact}");
        }
    }
}
