//! `CoDel`: drops or marks packets, ever more often, while the waiting time stays above a target for longer than an interval.
//!
//! Source: RFC 8289 §4 and §5, with an addition of Linux (`include/net/codel_impl.h`, 6.18): a packet that can be marked is marked and sent, and counts as
//! a drop. All values are integers: the interval over √count is rounded down to the nanosecond (the kernel's square root has 16 bits).

use super::droptail::DropTail;
use super::{Dropped, mark};
use crate::cause::{DropCause, MarkCause};
use crate::event::Scope;
use crate::packet::Packet;
use bentpipe_profile::{Codel, Nanos, QueueLimit, Rate, Time};

/// A dropping state that begins within this many intervals of the previous one's next drop continues at its drop rate (RFC 8289 §5.5).
const SOON_INTERVALS: u64 = 16;

/// State of the `CoDel` control law (RFC 8289 §5.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CodelState {
    /// When the waiting time will have been above the target for an interval; `None`: it is below.
    first_above: Option<Time>,
    drop_next: Time,
    count: u32,
    last_count: u32,
    dropping: bool,
}

/// The queue that the control law works on.
pub trait Source {
    /// Remove and return the packet at the head.
    fn pop(&mut self) -> Option<Packet>;
    /// Return the bytes that wait behind it.
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

impl CodelState {
    /// Return the packet to send at `now`. `largest`: size of the largest packet so far [bytes]; a backlog of one packet is no standing queue.
    pub fn dequeue(&mut self, spec: &Codel, largest: u64, now: Time, source: &mut impl Source, dropped: &mut Dropped) -> Option<Packet> {
        let (mut packet, mut should_drop) = self.next(spec, largest, now, source);
        if self.dropping {
            self.dropping &= should_drop;
            while self.dropping && now >= self.drop_next {
                let mut candidate = packet?;
                self.count = self.count.saturating_add(1);
                if spec.ecn && mark(&mut candidate, MarkCause::Law) {
                    self.drop_next = self.drop_next + spacing(spec.interval_ns, self.count);
                    return Some(candidate);
                }
                dropped.push((candidate, DropCause::Aqm));
                (packet, should_drop) = self.next(spec, largest, now, source);
                if should_drop {
                    self.drop_next = self.drop_next + spacing(spec.interval_ns, self.count);
                } else {
                    self.dropping = false;
                }
            }
        } else if should_drop {
            let mut candidate = packet?;
            let marked = spec.ecn && mark(&mut candidate, MarkCause::Law);
            if marked {
                packet = Some(candidate);
            } else {
                dropped.push((candidate, DropCause::Aqm));
                (packet, _) = self.next(spec, largest, now, source);
            }
            self.start_dropping(spec, now);
        }
        packet
    }

    /// Count a tail drop in its queue as a drop of the control law (`fq_codel_drop`).
    pub const fn count_tail_drop(&mut self) {
        self.count = self.count.saturating_add(1);
    }

    /// Enter the dropping state. If the previous one ended recently, continue at its drop rate.
    fn start_dropping(&mut self, spec: &Codel, now: Time) {
        self.dropping = true;
        let delta = self.count - self.last_count;
        let soon = now.since(self.drop_next).0 < SOON_INTERVALS * spec.interval_ns.0;
        self.count = if delta > 1 && soon { delta } else { 1 };
        self.last_count = self.count;
        self.drop_next = now + spacing(spec.interval_ns, self.count);
    }

    /// Return the next packet, and whether the waiting time has been above the target for an interval (`dodequeue`).
    fn next(&mut self, spec: &Codel, largest: u64, now: Time, source: &mut impl Source) -> (Option<Packet>, bool) {
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
        (Some(packet), now >= first_above)
    }
}

/// Return the time to the next drop after `count` drops: interval / √count.
fn spacing(interval: Nanos, count: u32) -> Nanos {
    #[allow(clippy::cast_possible_truncation)] // at most the interval
    Nanos((u128::from(interval.0).pow(2) / u128::from(count.max(1))).isqrt() as u64)
}

/// A drop-tail queue with the `CoDel` control law.
#[derive(Clone, Debug)]
pub struct CodelQueue {
    spec: Codel,
    fifo: DropTail,
    state: CodelState,
    largest: u64,
}

impl CodelQueue {
    /// Create an empty queue.
    #[must_use]
    pub fn new(spec: Codel, fifo: DropTail) -> Self {
        Self { spec, fifo, state: CodelState::default(), largest: 0 }
    }

    /// Enqueue the packet, or drop it if the queue is full.
    pub fn enqueue(&mut self, packet: Packet, rate: Option<Rate>, dropped: &mut Dropped) {
        self.largest = self.largest.max(u64::from(packet.bytes));
        if let Err(packet) = self.fifo.enqueue(packet, rate) {
            dropped.push((packet, DropCause::QueueFull));
        }
    }

    /// Return the packet to send at `now`.
    pub fn dequeue(&mut self, now: Time, dropped: &mut Dropped) -> Option<Packet> {
        self.state.dequeue(&self.spec, self.largest, now, &mut self.fifo, dropped)
    }

    /// Remove and return the head, without the control law.
    pub fn take(&mut self) -> Option<Packet> {
        self.fifo.dequeue()
    }

    /// Remove and return the packets that an event concerns, without the discipline.
    pub fn extract(&mut self, scope: &Scope) -> Vec<Packet> {
        self.fifo.extract(scope)
    }

    /// Put a packet back at the head.
    pub fn put_back(&mut self, packet: Packet) {
        self.fifo.put_back(packet);
    }

    /// Iterate over the packets in order of departure.
    pub fn iter(&self) -> impl Iterator<Item = &Packet> {
        self.fifo.iter()
    }

    /// Return the limit.
    #[must_use]
    pub const fn limit(&self) -> QueueLimit {
        self.fifo.limit()
    }

    /// Return the bytes that wait.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.fifo.bytes()
    }

    /// Return the number of packets that wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.fifo.len()
    }

    /// Return whether the queue is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.fifo.is_empty()
    }

    /// Adopt the state of another queue's control law.
    pub const fn adopt_aqm_state(&mut self, other: &Self) {
        self.state = other.state;
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

    /// Keep a standing queue in which every packet waits 20 ms and one leaves each millisecond. Returns the times [ms] of drops (true) and marks (false).
    fn signals(ecn: Ecn, span_ms: u64, may_mark: bool) -> Vec<(u64, bool)> {
        let mut queue = queue(may_mark);
        let (mut dropped, mut signals) = (Dropped::new(), Vec::new());
        for ms in 0..span_ms {
            let at = Time((1000 + ms) * MS);
            // As many packets arrive as leave or are dropped, so the waiting time stays constant.
            while queue.iter().next().is_none_or(|head| at.since(head.at).0 < 20 * MS) || queue.len() < 3 {
                queue.fifo.put_back(packet(Time(at.0 - 20 * MS), 0, ecn));
            }
            let sent = queue.dequeue(at, &mut dropped);
            signals.extend(dropped.drain(..).map(|_| (ms, true)));
            signals.extend(sent.filter(|p| p.marked.is_some()).map(|_| (ms, false)));
        }
        signals
    }

    #[test]
    fn the_first_drop_comes_after_an_interval_and_the_nth_an_interval_over_root_n_later() {
        let signals: Vec<u64> = signals(Ecn::NotEct, 1200, true).into_iter().map(|signal| signal.0).collect();
        // After 100 ms above the target; then after 100/√1, 100/√2, … ms, each at the next packet that leaves.
        let mut next = 100.0;
        for (n, &ms) in signals.iter().enumerate() {
            assert!((ms as f64 - next).abs() <= 1.0, "drop {n} at {ms} ms, expected {next}: {signals:?}");
            next += 100.0 / ((n + 1) as f64).sqrt();
        }
        assert!(signals.len() > 25, "{signals:?}");
    }

    #[test]
    fn marks_come_at_the_times_of_drops() {
        let (marked, dropped) = (signals(Ecn::Ect, 1200, true), signals(Ecn::NotEct, 1200, true));
        assert_eq!(marked.iter().map(|signal| signal.0).collect::<Vec<_>>(), dropped.iter().map(|signal| signal.0).collect::<Vec<_>>());
        assert!(marked.iter().all(|signal| !signal.1) && dropped.iter().all(|signal| signal.1));
        assert_eq!(signals(Ecn::Ect, 1200, false), dropped, "a queue that may not mark");
    }

    #[test]
    fn a_queue_of_one_packet_is_never_dropped_from() {
        let mut queue = queue(true);
        let mut dropped = Dropped::new();
        for ms in 0..1000 {
            queue.enqueue(packet(Time(ms * MS), 0, Ecn::NotEct), None, &mut dropped);
            // The packet waited 50 ms, but none waits behind it.
            assert!(queue.dequeue(Time((ms + 50) * MS), &mut dropped).is_some());
        }
        assert!(dropped.is_empty());
    }

    #[test]
    fn a_dropping_state_soon_after_the_last_continues_at_its_rate() {
        let mut state = CodelState { count: 20, last_count: 5, drop_next: Time(1000 * MS), ..CodelState::default() };
        state.start_dropping(&RFC, Time(1500 * MS));
        assert_eq!((state.count, state.drop_next.0), (15, 1500 * MS + spacing(RFC.interval_ns, 15).0));
        let mut late = CodelState { count: 20, last_count: 5, drop_next: Time(1000 * MS), ..CodelState::default() };
        late.start_dropping(&RFC, Time(2600 * MS));
        assert_eq!(late.count, 1);
    }

    proptest! {
        #[test]
        fn spacing_is_the_interval_over_the_root(ms in 1_u64..1_000_000, count in 1_u32..) {
            let exact = ms as f64 * 1e6 / f64::from(count).sqrt();
            let spacing = spacing(Nanos::from_millis(ms), count).0 as f64;
            prop_assert!((spacing - exact).abs() <= 1.0 + exact * 1e-12, "{spacing} {exact}");
        }
    }
}
