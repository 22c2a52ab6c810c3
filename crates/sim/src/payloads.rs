//! Payloads of the packets in the network, by handle. Link elements move 60 bytes per packet, whatever its payload.

/// A slab of payloads. Handles are reused, so that memory grows only to the most packets in the network at once.
pub struct Payloads<T> {
    slots: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Payloads<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }
}

impl<T> Payloads<T> {
    /// Store a payload and return its handle.
    ///
    /// # Panics
    /// With 2^32 packets in the network.
    pub fn put(&mut self, payload: T) -> u32 {
        if let Some(handle) = self.free.pop() {
            self.slots[handle as usize] = Some(payload);
            return handle;
        }
        self.slots.push(Some(payload));
        u32::try_from(self.slots.len() - 1).expect("fewer than 2^32 packets are in the network")
    }

    /// Whether none is in the network.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.slots.len() == self.free.len()
    }

    /// Return a payload that stays; `None` if the handle is not in use.
    #[must_use]
    pub fn get(&self, handle: u32) -> Option<&T> {
        self.slots.get(handle as usize)?.as_ref()
    }

    /// Remove a payload and return it; `None` if the handle is not in use.
    pub fn take(&mut self, handle: u32) -> Option<T> {
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
    use bentpipe_transport::TcpPacket;

    #[test]
    fn handles_are_reused_and_taken_once() {
        let mut payloads = Payloads::default();
        let a = payloads.put(TcpPacket::Segment(segment(1), None));
        let b = payloads.put(TcpPacket::Segment(segment(2), None));
        assert!(matches!(payloads.take(a), Some(TcpPacket::Segment(s, _)) if s.seq == 1));
        assert!(payloads.take(a).is_none());
        assert!(!payloads.is_empty());
        assert_eq!(payloads.put(TcpPacket::Segment(segment(3), None)), a);
        assert!(matches!(payloads.take(b), Some(TcpPacket::Segment(s, _)) if s.seq == 2));
        assert!(payloads.take(a).is_some() && payloads.is_empty());
    }
}
