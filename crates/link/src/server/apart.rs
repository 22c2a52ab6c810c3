//! Packets of single paths that wait apart from a shared queue. A handover or interruption of one path concerns its own packets alone.

use crate::element::Port;
use crate::packet::Packet;
use crate::queue::droptail::DropTail;
use bentpipe_profile::{QueueFate, QueueLimit, Rate, Time};
use std::collections::{BTreeMap, VecDeque};

/// The paths whose packets the server treats differently from others.
pub struct Apart {
    limit: QueueLimit,
    /// Paths that have left the link, with the fate of their packets that still arrive.
    left: BTreeMap<u32, QueueFate>,
    waiting: BTreeMap<u32, Waiting>,
}

/// Packets of one path that wait until a time.
struct Waiting {
    /// End of the path's interruption.
    closed_until: Time,
    /// Before this time only migrated packets of the path pass.
    awaits_until: Time,
    /// Packets that a queue has accepted before: no limit applies, and they go first.
    accepted: VecDeque<Packet>,
    arrivals: DropTail,
}

impl Waiting {
    /// Return when packets that came by `port` may pass.
    fn until(&self, port: Port) -> Time {
        if port == Port::Migration { self.closed_until } else { self.closed_until.max(self.awaits_until) }
    }

    fn next_release(&self) -> Option<Time> {
        if self.accepted.is_empty() {
            self.arrivals.iter().next().map(|_| self.until(Port::Near))
        } else {
            Some(self.until(Port::Migration))
        }
    }

    fn take(&mut self) -> Option<(Port, Packet)> {
        let accepted = self.accepted.pop_front().map(|packet| (Port::Migration, packet));
        accepted.or_else(|| self.arrivals.take().map(|packet| (Port::Near, packet)))
    }
}

impl Apart {
    /// Create an empty record. `limit`: size of the queue; it also limits the packets of each path that wait here.
    pub const fn new(limit: QueueLimit) -> Self {
        Self { limit, left: BTreeMap::new(), waiting: BTreeMap::new() }
    }

    /// Return the fate of a path's arrivals; `None`: the path uses the link.
    pub fn fate(&self, path: u32) -> Option<QueueFate> {
        self.left.get(&path).copied()
    }

    /// Record that the path has left the link, with the fate of packets that still arrive, or that it uses the link once more.
    pub fn set_fate(&mut self, path: u32, fate: Option<QueueFate>) {
        match fate {
            Some(fate) => self.left.insert(path, fate),
            None => self.left.remove(&path),
        };
    }

    fn waiting(&mut self, path: u32) -> &mut Waiting {
        let limit = self.limit;
        self.waiting.entry(path).or_insert_with(|| Waiting {
            closed_until: Time::ZERO,
            awaits_until: Time::ZERO,
            accepted: VecDeque::new(),
            arrivals: DropTail::new(limit),
        })
    }

    /// Interrupt the path until `until`. `accepted`: its packets that waited in the queue.
    pub fn close(&mut self, path: u32, until: Time, accepted: Vec<Packet>) {
        let waiting = self.waiting(path);
        waiting.closed_until = waiting.closed_until.max(until);
        waiting.accepted.extend(accepted);
    }

    /// Let only migrated packets of the path pass until `until`.
    pub fn await_until(&mut self, path: u32, until: Time) {
        let waiting = self.waiting(path);
        waiting.awaits_until = waiting.awaits_until.max(until);
    }

    /// Keep a packet that has to wait. Returns it if it may pass, `Err` if there is no room for it.
    pub fn hold(&mut self, port: Port, packet: Packet, rate: Option<Rate>) -> Result<Option<Packet>, Packet> {
        let Some(waiting) = self.waiting.get_mut(&packet.path) else { return Ok(Some(packet)) };
        if packet.at >= waiting.until(port) {
            if packet.at >= waiting.until(Port::Near) && waiting.next_release().is_none() {
                self.waiting.remove(&packet.path);
            }
            return Ok(Some(packet));
        }
        if port == Port::Migration {
            waiting.accepted.push_back(packet);
            return Ok(None);
        }
        waiting.arrivals.enqueue(packet, rate).map(|()| None)
    }

    /// Return when the next packet passes.
    pub fn next_release(&self) -> Option<Time> {
        self.waiting.values().filter_map(Waiting::next_release).min()
    }

    /// Remove and return the packet that passes at `at`.
    pub fn release(&mut self, at: Time) -> Option<(Port, Packet)> {
        self.waiting.values_mut().find(|waiting| waiting.next_release() == Some(at)).and_then(Waiting::take)
    }

    /// Remove and return the waiting packets of one path, or of all.
    pub fn drain(&mut self, path: Option<u32>) -> Vec<Packet> {
        let concerned = self.waiting.iter_mut().filter(|(waiting, _)| path.is_none_or(|path| path == **waiting));
        concerned.flat_map(|(_, waiting)| std::iter::from_fn(|| waiting.take().map(|(_, packet)| packet))).collect()
    }

    /// Return the bytes of the waiting packets.
    pub fn bytes(&self) -> u64 {
        self.iter().map(|packet| u64::from(packet.bytes)).sum()
    }

    /// Iterate over the waiting packets, with the time at which they pass.
    pub fn iter(&self) -> impl Iterator<Item = Packet> {
        self.waiting.values().flat_map(|waiting| {
            let accepted = waiting.accepted.iter().map(|packet| Packet { at: waiting.until(Port::Migration), ..*packet });
            accepted.chain(waiting.arrivals.iter().map(|packet| Packet { at: waiting.until(Port::Near), ..*packet }))
        })
    }
}
