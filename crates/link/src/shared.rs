//! Which hops of several Profiles are one: a beam's users, flows of different RTTs behind one bottleneck, many origins of a page.

use crate::network::NetworkError;
use bentpipe_profile::{Direction, Hop};
use std::collections::BTreeMap;

/// Hops by their shared id, as they are met.
#[derive(Default)]
pub struct SharedHops<'a> {
    /// id → (the first hop that carried it, the chains of its queue, up and down).
    first: BTreeMap<&'a str, (&'a Hop, [u32; 2])>,
}

impl<'a> SharedHops<'a> {
    /// The chains of the queue that `hop` shares; `make` builds them for the first Profile that names the id.
    ///
    /// # Errors
    /// Two hops of one id with another capacity or queue: they cannot be one.
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
