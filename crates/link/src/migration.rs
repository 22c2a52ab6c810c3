//! Migration of a queue to another link's queue at a handover.

use crate::packet::Packet;
use crate::queue::Queue;

/// An element whose queue can migrate to another link's, and that accepts such a queue.
pub trait Migrate {
    /// Predict when the packets that migrate to another link's queue arrive there. Includes `arrivals` if this element forwards them to that queue.
    fn migrating(&self, arrivals: &[Packet]) -> Vec<Packet>;
    /// Return the queue.
    fn queue(&self) -> &Queue;
    /// Adopt the AQM state of the queue whose packets migrate here.
    fn adopt_aqm_state(&mut self, queue: &Queue);
}
