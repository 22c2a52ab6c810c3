//! Packets of single paths that wait apart from a shared queue. A handover or interruption of one path concerns its own packets alone.

use crate::element::Port;
use crate::event::Scope;
use crate::packet::{Crossing, Packet};
use crate::queue::fits;
use bentpipe_profile::{QueueFate, QueueLimit, Rate, Time};
use std::collections::{BTreeMap, BTreeSet};

/// The paths whose packets the server treats differently from others. A packet costs a step in a sorted map, however many paths there are.
pub struct Apart {
    limit: QueueLimit,
    /// Paths that have left the link, with the fate of their packets that still arrive.
    left: BTreeMap<Crossing, QueueFate>,
    /// Paths whose packets have to wait.
    pauses: BTreeMap<Crossing, Pause>,
    /// When the pauses end.
    ends: BTreeSet<(Time, Crossing)>,
    /// Packets in the order in which they pass: by time, then those that a queue has accepted before, then by number.
    waiting: BTreeMap<(Time, Kind, u64), Packet>,
    /// Packets that have waited here so far.
    numbers: u64,
    bytes: u64,
}

/// Why a packet may wait here.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// A queue has accepted it before: no limit applies.
    Accepted,
    /// It has arrived since.
    Arrival,
}

/// The pause of one path.
#[derive(Default)]
struct Pause {
    /// End of the path's interruption.
    closed_until: Time,
    /// Before this time only migrated packets of the path pass.
    awaits_until: Time,
    /// Arrivals that wait, and their bytes.
    arrivals: usize,
    arrival_bytes: u64,
}

impl Pause {
    /// Return when packets may pass.
    fn until(&self, kind: Kind) -> Time {
        if kind == Kind::Accepted { self.closed_until } else { self.closed_until.max(self.awaits_until) }
    }
}

impl Apart {
    /// Create an empty record. `limit`: size of the queue; it also limits the arrivals of each path that wait here.
    pub const fn new(limit: QueueLimit) -> Self {
        Self {
            limit,
            left: BTreeMap::new(),
            pauses: BTreeMap::new(),
            ends: BTreeSet::new(),
            waiting: BTreeMap::new(),
            numbers: 0,
            bytes: 0,
        }
    }

    /// Return the fate of arrivals; `None`: their path uses the link.
    pub fn fate(&self, crossing: Crossing) -> Option<QueueFate> {
        self.left.get(&crossing).copied()
    }

    /// Record that the paths have left the link, with the fate of packets that still arrive, or that they use the link once more.
    pub fn set_fate(&mut self, crossings: &[Crossing], fate: Option<QueueFate>) {
        for &crossing in crossings {
            match fate {
                Some(fate) => self.left.insert(crossing, fate),
                None => self.left.remove(&crossing),
            };
        }
    }

    /// Interrupt the paths until `until`. `accepted`: their packets that waited in the queue, in order.
    pub fn close(&mut self, crossings: &[Crossing], until: Time, accepted: Vec<Packet>) {
        self.extend(crossings, |pause| pause.closed_until = pause.closed_until.max(until));
        for packet in accepted {
            self.insert(Kind::Accepted, packet);
        }
    }

    /// Let only migrated packets of the paths pass until `until`.
    pub fn await_until(&mut self, crossings: &[Crossing], until: Time) {
        self.extend(crossings, |pause| pause.awaits_until = pause.awaits_until.max(until));
    }

    /// Extend the pauses by `change`. `crossings` are in order. Their packets wait longer.
    fn extend(&mut self, crossings: &[Crossing], change: impl Fn(&mut Pause)) {
        for &crossing in crossings {
            let pause = self.pauses.entry(crossing).or_default();
            self.ends.remove(&(pause.until(Kind::Arrival), crossing));
            change(pause);
            self.ends.insert((pause.until(Kind::Arrival), crossing));
        }
        if self.waiting.values().any(|packet| crossings.binary_search(&packet.crossing()).is_ok()) {
            let waiting = std::mem::take(&mut self.waiting).into_iter();
            self.waiting =
                waiting.map(|((_, kind, number), packet)| ((self.pauses[&packet.crossing()].until(kind), kind, number), packet)).collect();
        }
    }

    /// Add a packet of a path that pauses.
    fn insert(&mut self, kind: Kind, packet: Packet) {
        let Some(pause) = self.pauses.get_mut(&packet.crossing()) else { return };
        if kind == Kind::Arrival {
            pause.arrivals += 1;
            pause.arrival_bytes += u64::from(packet.bytes);
        }
        self.bytes += u64::from(packet.bytes);
        self.waiting.insert((pause.until(kind), kind, self.numbers), packet);
        self.numbers += 1;
    }

    /// Keep a packet that has to wait. Returns it if it may pass, `Err` if there is no room for it.
    pub fn hold(&mut self, port: Port, packet: Packet, rate: Option<Rate>) -> Result<Option<Packet>, Packet> {
        let kind = if matches!(port, Port::Migration | Port::Ahead) { Kind::Accepted } else { Kind::Arrival };
        let Some(pause) = self.pauses.get(&packet.crossing()).filter(|pause| packet.at < pause.until(kind)) else {
            return Ok(Some(packet));
        };
        if kind == Kind::Arrival && !fits(self.limit, pause.arrivals, pause.arrival_bytes, packet.bytes, rate) {
            return Err(packet);
        }
        self.insert(kind, packet);
        Ok(None)
    }

    /// Return when the next packet passes.
    pub fn next_release(&self) -> Option<Time> {
        self.waiting.first_key_value().map(|((at, ..), _)| *at)
    }

    /// Remove and return the packet that passes next.
    pub fn release(&mut self) -> Option<(Port, Packet)> {
        let ((_, kind, _), packet) = self.waiting.pop_first()?;
        self.count_out(kind, &packet);
        Some((if kind == Kind::Accepted { Port::Migration } else { Port::Near }, packet))
    }

    fn count_out(&mut self, kind: Kind, packet: &Packet) {
        self.bytes -= u64::from(packet.bytes);
        if kind == Kind::Arrival
            && let Some(pause) = self.pauses.get_mut(&packet.crossing())
        {
            pause.arrivals -= 1;
            pause.arrival_bytes -= u64::from(packet.bytes);
        }
    }

    /// Remove the pauses that have ended by `now`. Their packets have passed. Returns whether no path is left to treat apart.
    pub fn expire(&mut self, now: Time) -> bool {
        while let Some(&(_, crossing)) = self.ends.first().filter(|(end, _)| *end <= now) {
            self.ends.pop_first();
            self.pauses.remove(&crossing);
        }
        self.pauses.is_empty() && self.left.is_empty()
    }

    /// Remove and return the waiting packets that an event concerns.
    pub fn drain(&mut self, scope: &Scope) -> Vec<Packet> {
        let waiting = std::mem::take(&mut self.waiting).into_iter();
        let (leaving, staying) = waiting.partition::<Vec<_>, _>(|(_, packet)| scope.concerns(packet));
        self.waiting = staying.into_iter().collect();
        let counted = leaving.into_iter().map(|((_, kind, _), packet)| {
            self.count_out(kind, &packet);
            packet
        });
        counted.collect()
    }

    /// Return the bytes of the waiting packets.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Return the number of waiting packets.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Iterate over the waiting packets, with the time at which they pass.
    pub fn iter(&self) -> impl Iterator<Item = Packet> {
        self.waiting.iter().map(|((at, ..), packet)| Packet { at: *at, ..*packet })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bentpipe_profile::Direction;

    fn packet(at: u64, path: u32, body: u32) -> Packet {
        Packet::new(Time(at), path, Direction::Down, 0, 100, body)
    }

    fn crossing(path: u32) -> Crossing {
        packet(0, path, 0).crossing()
    }

    fn released(apart: &mut Apart) -> Vec<(u64, u32)> {
        std::iter::from_fn(|| apart.next_release().map(|at| (at.0, apart.release().unwrap().1.body))).collect()
    }

    /// A pause takes no memory after its end, whether packets have waited or not, and whether more of the path follow or not.
    #[test]
    fn a_pause_is_removed_at_its_end() {
        let mut apart = Apart::new(QueueLimit::Packets(9));
        for path in 0..1000 {
            apart.close(&[crossing(path)], Time(50), vec![]);
        }
        apart.await_until(&[crossing(7)], Time(70));
        assert_eq!(apart.hold(Port::Near, packet(10, 7, 1), None), Ok(None));
        assert!(!apart.expire(Time(49)) && apart.pauses.len() == 1000);
        assert!(!apart.expire(Time(69)) && apart.pauses.len() == 1);
        assert_eq!(released(&mut apart), [(70, 1)]);
        assert!(apart.expire(Time(70)) && apart.ends.is_empty() && apart.bytes() == 0);
    }

    /// Accepted packets go first, then arrivals, each in their order over all paths. A longer interruption moves both.
    #[test]
    fn packets_pass_in_their_order() {
        let mut apart = Apart::new(QueueLimit::Packets(2));
        apart.close(&[crossing(1)], Time(50), vec![packet(1, 1, 0)]);
        apart.close(&[crossing(0)], Time(50), vec![packet(2, 0, 1)]);
        for (path, body, is_held) in [(1, 2, true), (0, 3, true), (1, 4, true), (1, 5, false), (2, 6, false)] {
            assert_eq!(apart.hold(Port::Near, packet(10, path, body), None) == Ok(None), is_held, "{body}");
        }
        assert_eq!((apart.len(), apart.bytes()), (5, 500));
        apart.close(&[crossing(0)], Time(60), vec![]);
        assert_eq!(released(&mut apart), [(50, 0), (50, 2), (50, 4), (60, 1), (60, 3)]);
    }
}
