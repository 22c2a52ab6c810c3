//! Elements of a node in place of those that another node has.

use bentpipe_link::{Element, Packet, Port, Role};
use bentpipe_profile::Time;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// The far end of a link: it passes the link's packets to the node's driver.
pub struct WireEnd {
    hop: usize,
    outbox: Outbox,
    out: VecDeque<(Port, Packet)>,
}

/// Packets that have left links by their far ends, with their hop.
pub type Outbox = Arc<Mutex<Vec<(usize, Packet)>>>;

impl WireEnd {
    /// Creates the far end of a hop.
    pub const fn new(hop: usize, outbox: Outbox) -> Self {
        Self { hop, outbox, out: VecDeque::new() }
    }
}

impl Element for WireEnd {
    fn push(&mut self, port: Port, packet: Packet) {
        match port {
            Port::Far => {
                self.outbox.lock().unwrap_or_else(PoisonError::into_inner).push((self.hop, packet));
                if packet.role != Role::Control {
                    self.out.push_back((Port::Near, packet));
                }
            }
            _ => self.out.push_back((Port::Far, packet)),
        }
    }

    fn pop(&mut self, _now: Time) -> Option<(Port, Packet)> {
        self.out.pop_front()
    }

    fn wake_at(&self) -> Option<Time> {
        self.out.front().map(|(_, packet)| packet.at)
    }

    fn packets(&self) -> usize {
        self.out.len()
    }
}

/// Passes packets both ways: where a link or a path has no other element.
#[derive(Default)]
pub struct Pass(VecDeque<(Port, Packet)>);

impl Element for Pass {
    fn push(&mut self, port: Port, packet: Packet) {
        self.0.push_back((if port == Port::Near { Port::Far } else { Port::Near }, packet));
    }

    fn pop(&mut self, _now: Time) -> Option<(Port, Packet)> {
        self.0.pop_front()
    }

    fn wake_at(&self) -> Option<Time> {
        self.0.front().map(|(_, packet)| packet.at)
    }

    fn packets(&self) -> usize {
        self.0.len()
    }
}
