//! Hops that several Profiles share: users of one beam, flows of different RTTs behind one bottleneck, many origins of one web page.

use crate::error::NetworkError;
use bentpipe_profile::{Direction, Hop};
use std::collections::BTreeMap;

/// Shared hops by id, filled while the Profiles are read.
#[derive(Default)]
pub struct SharedHops<'a> {
    /// Shared id → (first hop with that id, chains of its queue: up, down).
    first: BTreeMap<&'a str, (&'a Hop, [u32; 2])>,
}

impl<'a> SharedHops<'a> {
    /// Return the chains of the queue that `hop` shares. Calls `make` to build them for the first hop with that id.
    ///
    /// # Errors
    /// Two hops with the same id differ in capacity or queue.
    pub fn chains(&mut self, id: &'a str, hop: &'a Hop, make: impl FnOnce() -> [u32; 2]) -> Result<[u32; 2], NetworkError> {
        let (first, chains) = self.first.entry(id).or_insert_with(|| (hop, make()));
        for direction in Direction::BOTH {
            let (a, b) = (first.side(direction), hop.side(direction));
            if a.capacity != b.capacity || a.queue != b.queue {
                return Err(NetworkError::SharedDiffers { id: id.to_owned(), direction: direction.name() });
            }
        }
        Ok(*chains)
    }
}
