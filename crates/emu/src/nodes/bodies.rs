//! The content of packets while a node has them: on their way through its elements, or kept by a link's end.

use bentpipe_profile::{Nanos, Time};

/// Time after which a kept packet is forgotten whose end did not free it: a retransmission that a queue dropped. Longer than a packet waits anywhere. Chosen here.
const FORGET_AFTER: Nanos = Nanos::from_secs(10);

#[derive(Default)]
struct Body {
    bytes: Vec<u8>,
    since: Time,
    is_inside: bool,
    is_kept: bool,
}

/// See the module.
#[derive(Default)]
pub struct Bodies {
    slots: Vec<Body>,
    free: Vec<u32>,
    touched: Vec<u32>,
    next_sweep: Time,
}

impl Bodies {
    /// Store the content of a packet that enters the node's elements.
    #[allow(clippy::cast_possible_truncation)] // far fewer than 2^32
    pub fn store(&mut self, now: Time, content: &[u8]) -> u32 {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Body::default());
            self.slots.len() as u32 - 1
        });
        let body = &mut self.slots[slot as usize];
        body.bytes.clear();
        body.bytes.extend_from_slice(content);
        (body.since, body.is_inside, body.is_kept) = (now, true, false);
        slot
    }

    /// Return a packet's content; `None`: it was freed.
    #[must_use]
    pub fn get(&self, slot: u32) -> Option<&[u8]> {
        self.slots.get(slot as usize).filter(|body| body.is_inside || body.is_kept).map(|body| &body.bytes[..])
    }

    /// As [`Bodies::get`], mutable.
    pub fn get_mut(&mut self, slot: u32) -> Option<&mut [u8]> {
        self.slots.get_mut(slot as usize).filter(|body| body.is_inside || body.is_kept).map(|body| &mut body.bytes[..])
    }

    /// The packet has left the node's elements.
    pub fn leave(&mut self, slot: u32) {
        self.set(slot, |body| body.is_inside = false);
    }

    /// A link's end keeps the packet, or does so no more.
    pub fn keep(&mut self, slot: u32, is_kept: bool) {
        self.set(slot, |body| body.is_kept = is_kept);
    }

    fn set(&mut self, slot: u32, change: impl FnOnce(&mut Body)) {
        if let Some(body) = self.slots.get_mut(slot as usize).filter(|body| body.is_inside || body.is_kept) {
            change(body);
            self.touched.push(slot);
        }
    }

    /// Free the content that nothing needs any more.
    pub fn collect(&mut self, now: Time) {
        if now >= self.next_sweep {
            self.next_sweep = now + Nanos::from_secs(1);
            for (slot, body) in (0..).zip(&mut self.slots) {
                if body.is_kept && !body.is_inside && now.since(body.since) > FORGET_AFTER {
                    body.is_kept = false;
                    self.touched.push(slot);
                }
            }
        }
        self.touched.sort_unstable();
        self.touched.dedup();
        for slot in self.touched.drain(..) {
            let body = &self.slots[slot as usize];
            if !body.is_inside && !body.is_kept {
                self.free.push(slot);
            }
        }
    }

    /// Return how many packets it holds.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_stays_as_long_as_an_element_or_an_end_needs_it() {
        let mut bodies = Bodies::default();
        let slot = bodies.store(Time(0), b"abc");
        bodies.keep(slot, true);
        bodies.leave(slot);
        bodies.collect(Time(1));
        assert_eq!((bodies.get(slot), bodies.count()), (Some(&b"abc"[..]), 1));
        bodies.keep(slot, false);
        bodies.keep(slot, false); // freed twice
        bodies.collect(Time(2));
        assert_eq!((bodies.get(slot), bodies.count()), (None, 0));
        bodies.keep(slot, true); // by a message that comes too late
        bodies.collect(Time(3));
        assert_eq!((bodies.store(Time(4), b"d"), bodies.count()), (slot, 1));
    }

    #[test]
    fn what_nobody_frees_is_forgotten() {
        let mut bodies = Bodies::default();
        let slot = bodies.store(Time(0), b"abc");
        bodies.keep(slot, true);
        bodies.leave(slot);
        bodies.collect(Time(0) + Nanos::from_secs(11));
        assert_eq!(bodies.count(), 0);
    }
}
