//! The link element: a queue, a delay, a loss process or anything else that packets pass through.

use crate::cause::DropCause;
use crate::event::PathEvent;
use crate::migration::Migrate;
use crate::packet::Packet;
use crate::stages::Part;
use bentpipe_profile::Time;

/// Where a packet enters or leaves an element. The near side is that of the node at which the element stands; the far side is that of the node at the other
/// end of the link. An element inside a link is passed from near to far. An element at a link's end ([`crate::Network::set_ends`]) is passed both ways, and may
/// answer a packet from the far side with one to the far side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Port {
    /// Towards the node at which the element stands.
    Near,
    /// Towards the other end of the link.
    Far,
    /// From or to another link's queue, at a handover.
    Migration,
    /// Into the link, ahead of its queue, whose limit does not apply. From an element at a link's end.
    Ahead,
    /// To the link that the packet's path took at the last handover from this one, ahead of its queue. From an element at a link's end.
    Onward,
    /// Out of the network: the packet is dropped.
    Drop(DropCause),
}

/// A link element. It never sleeps and never reads a clock: the driver calls it. Every pushed packet leaves exactly once, unless its role says that a link
/// end made it.
pub trait Element: Send {
    /// Accept a packet that arrives at logical time `packet.at`. The driver pushes arrivals in order of time.
    fn push(&mut self, port: Port, packet: Packet);
    /// Remove and return the next packet that is due by `now`, in order of time. Its `at` is the logical time at which it left.
    fn pop(&mut self, now: Time) -> Option<(Port, Packet)>;
    /// Return when to call `pop` again. `None`: nothing is due before the next `push` or event.
    fn wake_at(&self) -> Option<Time>;
    /// Predict when the packets inside, followed by `arrivals` (in order of time), leave on the far side if no further event happens. Leaves out packets
    /// that would be dropped or would never leave. Default: they leave at once.
    fn departures(&self, arrivals: Vec<Packet>) -> Vec<Packet> {
        arrivals
    }
    /// Return how the packet that `pop` returned last spent its time in this element: parts in order, each with its end. `left`: when it left.
    fn stages(&self, _left: Time) -> [Option<(Part, Time)>; 2] {
        [None; 2]
    }
    /// The transmission of a packet into the link ends at `packet.at`: it leaves the queue. Only elements at a link's end are told; such an element may write
    /// the packet's header, and keep the packet by changing its role to [`crate::Role::Copy`].
    fn on_sent(&mut self, _packet: &mut Packet) {}
    /// React to a change of the path.
    fn on_event(&mut self, _event: &PathEvent) {}
    /// Return this element's queue that can migrate, if it has one.
    fn migration(&self) -> Option<&dyn Migrate> {
        None
    }
    /// As [`Element::migration`], mutable.
    fn migration_mut(&mut self) -> Option<&mut dyn Migrate> {
        None
    }
    /// Return the bytes that wait for capacity.
    fn backlog_bytes(&self) -> u64 {
        0
    }
    /// Return the largest [`Element::backlog_bytes`] since [`Element::reset_peak_backlog`].
    fn peak_backlog_bytes(&self) -> u64 {
        0
    }
    /// Set the peak backlog to the current backlog: a new window begins.
    fn reset_peak_backlog(&mut self) {}
    /// Return the number of packets inside.
    fn packets(&self) -> usize;
}
