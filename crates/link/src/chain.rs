//! One direction of a hop: its elements in the order in which packets meet them.

use crate::delay::Delay;
use crate::element::{Element, Exit, PathEvent, Port};
use crate::jitter::Jitter;
use crate::loss::Loss;
use crate::packet::Packet;
use crate::queue::Queue;
use crate::server::Server;
use crate::stages::Stage;
use bentpipe_profile::{HopDirection, Time};

/// Elements in a row: capacity with its queue, grant schedule, loss, propagation; each only where the hop has it.
///
/// Loss stands behind the queue, since a packet lost on the air has used the capacity; jitter stands there too, since the capacity series is
/// what a flow gets on average over frames.
pub struct Chain {
    elements: Vec<Box<dyn Element>>,
    inside: usize,
}

impl Chain {
    /// All of one direction. `gated`: events will close this hop, so it needs a place where packets wait. `keys`: of its per-packet
    /// draws, in the queue and behind it.
    #[must_use]
    pub fn whole(side: &HopDirection, gated: bool, keys: [u64; 2]) -> Self {
        let mut chain = Self::behind_queue(side, keys[1]);
        if gated || side.capacity.is_some() {
            chain.elements.insert(0, Box::new(Server::new(side.capacity.clone(), side.queue, keys[0])));
        }
        chain
    }

    /// Only the capacity and its queue: the part that Profiles share. `key`: of the queue's draws.
    #[must_use]
    pub fn queue_only(side: &HopDirection, key: u64) -> Self {
        Self::of(vec![Box::new(Server::new(side.capacity.clone(), side.queue, key))])
    }

    /// All but the capacity and its queue: the part of a shared hop that each Profile has for itself.
    #[must_use]
    pub fn behind_queue(side: &HopDirection, key: u64) -> Self {
        let mut elements: Vec<Box<dyn Element>> = Vec::new();
        if let Some(schedule) = &side.jitter {
            elements.push(Box::new(Jitter::new(schedule.clone())));
        }
        if let Some(loss) = side.loss.as_ref().filter(|l| l.max() > 0) {
            elements.push(Box::new(Loss::new(loss.clone(), key)));
        }
        elements.push(Box::new(Delay::new(side.delay.clone())));
        Self::of(elements)
    }

    /// Any elements in a row (at least one).
    #[must_use]
    pub fn of(elements: Vec<Box<dyn Element>>) -> Self {
        Self { elements, inside: 0 }
    }

    /// Takes a packet at its first element.
    pub fn push(&mut self, port: Port, packet: Packet) {
        self.inside += 1;
        self.elements[0].push(port, packet);
    }

    /// Moves everything that is due by `now` along; what leaves goes to `out`, and where its time went to `stages`, if that is asked for.
    pub fn run(&mut self, now: Time, mut stages: Option<&mut Vec<Stage>>, mut out: impl FnMut(Exit, Packet)) {
        let last = self.elements.len() - 1;
        for i in 0..=last {
            while let Some((exit, packet)) = self.elements[i].pop(now) {
                if let Some(stages) = &mut stages {
                    let Packet { body, route, position, at, .. } = packet;
                    let spent = self.elements[i].stages(at).into_iter().flatten();
                    stages.extend(spent.map(|(part, until)| Stage { body, route, position, part, until }));
                }
                if exit == Exit::Out && i < last {
                    self.elements[i + 1].push(Port::In, packet);
                } else {
                    self.inside -= 1;
                    out(exit, packet);
                }
            }
        }
    }

    /// When something is due next.
    #[must_use]
    pub fn wake_at(&self) -> Option<Time> {
        self.elements.iter().filter_map(|e| e.wake_at()).min()
    }

    /// What is inside, and then `arrivals`, as it will leave downstream ([`Element::departures`]).
    #[must_use]
    pub fn departures(&self, arrivals: Vec<Packet>) -> Vec<Packet> {
        self.elements.iter().fold(arrivals, |arrivals, element| element.departures(arrivals))
    }

    /// What is on its way to another hop's queue, and then `arrivals`, as it will arrive there ([`Element::migrating`]).
    #[must_use]
    pub fn migrating(&self, arrivals: &[Packet]) -> Vec<Packet> {
        self.elements[0].migrating(arrivals)
    }

    /// Tells every element.
    pub fn on_event(&mut self, event: &PathEvent) {
        self.elements.iter_mut().for_each(|e| e.on_event(event));
    }

    /// The queue that stands first, if one does.
    #[must_use]
    pub fn queue(&self) -> Option<&Queue> {
        self.elements[0].queue()
    }

    /// Its queue goes on where another's is, whose packets a handover moved here.
    pub fn adopt_aqm_state(&mut self, queue: &Queue) {
        self.elements[0].adopt_aqm_state(queue);
    }

    /// Packets inside.
    #[must_use]
    pub const fn inside(&self) -> usize {
        self.inside
    }

    /// Bytes that wait for capacity.
    #[must_use]
    pub fn backlog_bytes(&self) -> u64 {
        self.elements.iter().map(|e| e.backlog_bytes()).sum()
    }

    /// The most that [`Chain::backlog_bytes`] was since it was last forgotten.
    #[must_use]
    pub fn peak_backlog_bytes(&self) -> u64 {
        self.elements.iter().map(|e| e.peak_backlog_bytes()).sum() // only one holds any
    }

    /// Begins anew with what it is now.
    pub fn reset_peak_backlog(&mut self) {
        self.elements.iter_mut().for_each(|e| e.reset_peak_backlog());
    }
}
