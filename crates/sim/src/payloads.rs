//! Payloads of the packets in the network, by handle. Link elements move 60 bytes per packet, whatever its payload.

use bentpipe_transport::{Ack, Segment};

/// The payload of a packet.
#[derive(Clone, Copy, Debug)]
pub enum Payload {
    /// Data from the flow's sender.
    Segment(Segment),
    /// An acknowledgement from the flow's receiver.
    Ack(Ack),
}

/// A slab of payloads. Handles are reused, so that memory grows only to the most packets in the network at once.
#[derive(Default)]
pub struct Payloads {
    slots: Vec<Option<Payload>>,
    free: Vec<u32>,
}

impl Payloads {
    /// Store a payload and return its handle.
    ///
    /// # Panics
    /// With 2^32 packets in the network.
    pub fn put(&mut self, payload: Payload) -> u32 {
        if let Some(handle) = self.free.pop() {
            self.slots[handle as usize] = Some(payload);
            return handle;
        }
        self.slots.push(Some(payload));
        u32::try_from(self.slots.len() - 1).expect("fewer than 2^32 packets are in the network")
    }

    /// Return a payload without removing it.
    #[must_use]
    pub fn get(&self, handle: u32) -> Option<&Payload> {
        self.slots.get(handle as usize)?.as_ref()
    }

    /// Remove a payload and return it; `None` if the handle is not in use.
    pub fn take(&mut self, handle: u32) -> Option<Payload> {
        let payload = self.slots.get_mut(handle as usize)?.take();
        if payload.is_some() {
            self.free.push(handle);
        }
        payload
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::segment;

    #[test]
    fn handles_are_reused_and_taken_once() {
        let mut payloads = Payloads::default();
        let a = payloads.put(Payload::Segment(segment(1)));
        let b = payloads.put(Payload::Segment(segment(2)));
        assert!(matches!(payloads.take(a), Some(Payload::Segment(s)) if s.seq == 1));
        assert!(payloads.take(a).is_none());
        assert_eq!(payloads.put(Payload::Segment(segment(3))), a);
        assert!(matches!(payloads.take(b), Some(Payload::Segment(s)) if s.seq == 2));
    }
}
