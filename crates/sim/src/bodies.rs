//! Contents of the packets under way, by handle: elements move 60 bytes, whatever a packet carries.

use bentpipe_transport::{Ack, Segment};

/// What a packet carries.
#[derive(Clone, Copy, Debug)]
pub enum Body {
    /// Data, from the flow's sender.
    Segment(Segment),
    /// An acknowledgement, from its receiver.
    Ack(Ack),
}

/// A slab of bodies: handles are reused, memory is what is under way at most.
#[derive(Default)]
pub struct Bodies {
    slots: Vec<Option<Body>>,
    free: Vec<u32>,
}

impl Bodies {
    /// Keeps a body; its handle.
    ///
    /// # Panics
    /// With 2^32 packets under way.
    pub fn put(&mut self, body: Body) -> u32 {
        if let Some(handle) = self.free.pop() {
            self.slots[handle as usize] = Some(body);
            return handle;
        }
        self.slots.push(Some(body));
        u32::try_from(self.slots.len() - 1).expect("fewer than 2^32 packets are under way")
    }

    /// A body that stays where it is.
    #[must_use]
    pub fn get(&self, handle: u32) -> Option<&Body> {
        self.slots.get(handle as usize)?.as_ref()
    }

    /// Takes a body; `None` if the handle is not in use.
    pub fn take(&mut self, handle: u32) -> Option<Body> {
        let body = self.slots.get_mut(handle as usize)?.take();
        if body.is_some() {
            self.free.push(handle);
        }
        body
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::segment;

    #[test]
    fn handles_are_reused_and_taken_once() {
        let mut bodies = Bodies::default();
        let a = bodies.put(Body::Segment(segment(1)));
        let b = bodies.put(Body::Segment(segment(2)));
        assert!(matches!(bodies.take(a), Some(Body::Segment(s)) if s.seq == 1));
        assert!(bodies.take(a).is_none());
        assert_eq!(bodies.put(Body::Segment(segment(3))), a);
        assert!(matches!(bodies.take(b), Some(Body::Segment(s)) if s.seq == 2));
    }
}
