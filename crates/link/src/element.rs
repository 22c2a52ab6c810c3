//! The link element: a queue, a delay, a loss process or anything else that packets pass through.

use crate::cause::{DropCause, DropCounts};
use crate::event::PathEvent;
use crate::packet::Packet;
use crate::queue::Queue;
use crate::stages::Part;
use bentpipe_profile::Time;

/// Where a packet enters an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Port {
    /// From upstream.
    In,
    /// From another hop's queue, which migrates to this one.
    Migrated,
}

/// How a packet leaves an element. Every pushed packet leaves exactly once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Downstream.
    Out,
    /// To the hop that the queue migrates to at a handover.
    Migrate,
    /// Dropped.
    Dropped(DropCause),
}

/// A link element. It never sleeps and never reads a clock: the driver calls it.
pub trait Element: Send {
    /// Accept a packet that arrives at logical time `packet.at`. The driver pushes arrivals in order of time.
    fn push(&mut self, port: Port, packet: Packet);
    /// Remove and return the next packet that is due by `now`, in order of time. Its `at` is the logical time at which it left.
    fn pop(&mut self, now: Time) -> Option<(Exit, Packet)>;
    /// Return when to call `pop` again. `None`: nothing is due before the next `push` or event.
    fn wake_at(&self) -> Option<Time>;
    /// Predict when the packets inside, followed by `arrivals` (in order of time), leave downstream if no further event happens. Leaves out packets
    /// that would be dropped or would never leave.
    fn departures(&self, arrivals: Vec<Packet>) -> Vec<Packet>;
    /// Predict when the packets that migrate to another hop's queue arrive there. Includes `arrivals` if this hop forwards them to that queue.
    fn migrating(&self, _arrivals: &[Packet]) -> Vec<Packet> {
        Vec::new()
    }
    /// Return how the packet that `pop` returned last spent its time in this element: parts in order, each with its end. `left`: when it left.
    fn stages(&self, _left: Time) -> [Option<(Part, Time)>; 2] {
        [None; 2]
    }
    /// React to a change of the path.
    fn on_event(&mut self, _event: &PathEvent) {}
    /// Return the queue in front of the capacity, if this element has one.
    fn queue(&self) -> Option<&Queue> {
        None
    }
    /// Adopt the AQM state of another hop's queue, whose packets migrate to this element at a handover.
    fn adopt_aqm_state(&mut self, _queue: &Queue) {}
    /// Return the packets dropped so far, by cause.
    fn drops(&self) -> &DropCounts;
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
