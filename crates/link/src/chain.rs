//! One direction of a link: its elements in the order in which packets pass them.

use crate::delay::Delay;
use crate::element::{Element, Port};
use crate::event::PathEvent;
use crate::jitter::Jitter;
use crate::loss::Loss;
use crate::migration::Migrate;
use crate::packet::Packet;
use crate::server::Server;
use crate::stages::Stage;
use bentpipe_profile::{HopDirection, Time};

/// Elements in sequence: capacity with its queue, grant schedule, loss, propagation. Each is present only if the link has it.
///
/// Loss comes after the queue, since a packet lost on the air has used the capacity. Jitter comes after the queue too, since the capacity series
/// is a flow's average over frames.
pub struct Chain {
    elements: Vec<Box<dyn Element>>,
    packets: usize,
}

impl Chain {
    /// Build all elements of one direction. `interruptible`: events close this link, so it needs a queue even without a capacity. `keys`: keys of
    /// the per-packet draws in the queue and behind it.
    #[must_use]
    pub fn full(side: &HopDirection, interruptible: bool, keys: [u64; 2]) -> Self {
        let mut chain = Self::behind_queue(side, keys[1]);
        if interruptible || side.capacity.is_some() {
            chain.elements.insert(0, Box::new(Server::new(side.capacity.clone(), side.queue, keys[0])));
        }
        chain
    }

    /// Build only the capacity and its queue, which several links share. `key`: key of the queue's draws.
    #[must_use]
    pub fn queue_only(side: &HopDirection, key: u64) -> Self {
        Self::from_elements(vec![Box::new(Server::new(side.capacity.clone(), side.queue, key))])
    }

    /// Build everything behind the capacity and its queue: the part that each link has for itself. `key`: key of the draws.
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
        Self::from_elements(elements)
    }

    /// Build a chain of these elements (at least one).
    #[must_use]
    pub fn from_elements(elements: Vec<Box<dyn Element>>) -> Self {
        Self { elements, packets: 0 }
    }

    /// Push a packet into the first element.
    pub fn push(&mut self, port: Port, packet: Packet) {
        self.packets += 1;
        self.elements[0].push(port, packet);
    }

    /// Move every packet that is due by `now` to the next element. Passes packets that leave the chain to `out`, and appends to `stages`, if given,
    /// how packets spent their time for which `is_recorded` is true.
    pub fn run(
        &mut self,
        now: Time,
        mut stages: Option<&mut Vec<Stage>>,
        is_recorded: impl Fn(&Packet) -> bool,
        mut out: impl FnMut(Port, Packet),
    ) {
        let last = self.elements.len() - 1;
        for i in 0..=last {
            while let Some((port, packet)) = self.elements[i].pop(now) {
                if let Some(stages) = &mut stages
                    && is_recorded(&packet)
                {
                    let Packet { body, route, position, at, .. } = packet;
                    let spent = self.elements[i].stages(at).into_iter().flatten();
                    stages.extend(spent.map(|(part, until)| Stage { body, route, position, part, until }));
                }
                if port == Port::Far && i < last {
                    self.elements[i + 1].push(Port::Near, packet);
                } else {
                    self.packets -= 1;
                    out(port, packet);
                }
            }
        }
    }

    /// Return when the next packet is due; `None`: no packet is.
    #[must_use]
    pub fn wake_at(&self) -> Option<Time> {
        self.elements.iter().filter_map(|e| e.wake_at()).min()
    }

    /// Predict when the packets inside, followed by `arrivals`, leave downstream ([`Element::departures`]).
    #[must_use]
    pub fn departures(&self, arrivals: Vec<Packet>) -> Vec<Packet> {
        self.elements.iter().fold(arrivals, |arrivals, element| element.departures(arrivals))
    }

    /// Pass the event to every element.
    pub fn on_event(&mut self, event: &PathEvent) {
        self.elements.iter_mut().for_each(|e| e.on_event(event));
    }

    /// Return the first element's queue that can migrate, if it has one.
    #[must_use]
    pub fn migration(&self) -> Option<&dyn Migrate> {
        self.elements[0].migration()
    }

    /// As [`Chain::migration`], mutable.
    pub fn migration_mut(&mut self) -> Option<&mut dyn Migrate> {
        self.elements[0].migration_mut()
    }

    /// Return the number of packets inside.
    #[must_use]
    pub const fn packets(&self) -> usize {
        self.packets
    }

    /// Return the bytes that wait for capacity.
    #[must_use]
    pub fn backlog_bytes(&self) -> u64 {
        self.elements.iter().map(|e| e.backlog_bytes()).sum()
    }

    /// Return the largest [`Chain::backlog_bytes`] since [`Chain::reset_peak_backlog`].
    #[must_use]
    pub fn peak_backlog_bytes(&self) -> u64 {
        self.elements.iter().map(|e| e.peak_backlog_bytes()).sum() // only the server has a backlog
    }

    /// Set the peak backlog to the current backlog: a new window begins.
    pub fn reset_peak_backlog(&mut self) {
        self.elements.iter_mut().for_each(|e| e.reset_peak_backlog());
    }
}
