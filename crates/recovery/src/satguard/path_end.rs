//! The ends of a path as elements: the ingress numbers the packets of marked flows, the egress restores their order.

use super::label;
use super::order::{Numbering, Release, Reorder};
use crate::marking::Marked;
use crate::overhead::Overhead;
use crate::wire::HEADER_BYTES;
use bentpipe_link::{DropCause, Element, Packet, Port};
use bentpipe_profile::Time;
use std::collections::VecDeque;
use std::sync::Arc;

/// Numbers the packets of marked flows. Each gets a header.
pub struct Ingress {
    numbering: Numbering,
    marked: Marked,
    overhead: Arc<Overhead>,
    out: Option<Packet>,
}

impl Ingress {
    /// Create an ingress.
    #[must_use]
    pub fn new(marked: Marked, overhead: Arc<Overhead>) -> Self {
        Self { numbering: Numbering::default(), marked, overhead, out: None }
    }
}

impl Element for Ingress {
    fn push(&mut self, _port: Port, mut packet: Packet) {
        if self.marked.includes(packet.flow) {
            let fseq = self.numbering.number(packet.flow_hash);
            label::set_fseq(&mut packet, fseq);
            packet.bytes = packet.bytes.saturating_add(HEADER_BYTES);
            self.overhead.header_bytes.add(u64::from(HEADER_BYTES));
        }
        self.out = Some(packet);
    }

    fn pop(&mut self, _now: Time) -> Option<(Port, Packet)> {
        self.out.take().map(|packet| (Port::Far, packet))
    }

    fn wake_at(&self) -> Option<Time> {
        self.out.as_ref().map(|packet| packet.at)
    }

    fn packets(&self) -> usize {
        usize::from(self.out.is_some())
    }
}

/// Restores the order of marked flows and removes their headers.
pub struct Egress {
    reorder: Reorder<Packet>,
    marked: Marked,
    overhead: Arc<Overhead>,
    released: Vec<Release<Packet>>,
    out: VecDeque<(Port, Packet)>,
}

impl Egress {
    /// Create an egress.
    #[must_use]
    pub fn new(reorder: Reorder<Packet>, marked: Marked, overhead: Arc<Overhead>) -> Self {
        Self { reorder, marked, overhead, released: Vec::new(), out: VecDeque::new() }
    }

    /// Let the released packets leave at `at`. One that comes too late was lost: its host retransmits it.
    fn leave(&mut self, at: Time) {
        for release in self.released.drain(..) {
            let (port, packet) = match release {
                Release::Out(packet) => (Port::Near, packet),
                Release::Late(packet) => {
                    self.overhead.late.add(1);
                    (Port::Drop(DropCause::Loss), packet)
                }
            };
            self.out.push_back((port, Packet { at, bytes: packet.bytes.saturating_sub(HEADER_BYTES), ..packet }));
        }
    }
}

impl Element for Egress {
    fn push(&mut self, _port: Port, packet: Packet) {
        if !self.marked.includes(packet.flow) {
            return self.out.push_back((Port::Near, packet));
        }
        let held = self.reorder.arrive(packet.at, packet.flow_hash, label::fseq(&packet), packet, u32::from(packet.bytes), &mut self.released);
        if held {
            self.overhead.held.add(1);
            self.overhead.peak_held_bytes.raise(self.reorder.held_bytes());
        }
        self.leave(packet.at);
    }

    fn pop(&mut self, now: Time) -> Option<(Port, Packet)> {
        if self.out.is_empty() && self.reorder.wake_at().is_some_and(|at| at <= now) {
            let before = self.reorder.skipped();
            self.reorder.expire(now, &mut self.released);
            self.overhead.skipped.add(self.reorder.skipped() - before);
            self.leave(now);
        }
        self.out.pop_front()
    }

    fn wake_at(&self) -> Option<Time> {
        self.out.front().map(|(_, packet)| packet.at).or_else(|| self.reorder.wake_at())
    }

    fn packets(&self) -> usize {
        self.reorder.held_packets() + self.out.len()
    }
}
