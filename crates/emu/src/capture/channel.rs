//! Between the relay and the writer: two queues of one producer and one consumer that never wait (`rtrb`), packets one way and emptied buffers the other.
//!
//! The relay's side makes every content and gets every one back, so the writer, which may be interrupted at any moment, never holds the lock of the
//! allocator's that the relay would wait for; and how much memory there is of them is bounded.

use super::{Record, StageTime};
use rtrb::{Consumer, PopError, Producer, RingBuffer};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Packets on their way to the writer: half a second of 1500-byte packets at 1.5 Gbit/s. Chosen here.
const MAX_QUEUED: usize = 1 << 16;

/// Memory of all packets that the capture holds, on their way to the writer or waiting there for an earlier one's fate [bytes]. Chosen here: a second of
/// 1.5 Gbit/s.
const MAX_BYTES: usize = 192 << 20;

/// A packet's bytes, and where its time went.
#[derive(Debug, Default)]
pub(crate) struct Content {
    pub bytes: Vec<u8>,
    pub stage_times: Vec<StageTime>,
}

impl Content {
    /// Memory that it takes [bytes].
    pub fn size(&self) -> usize {
        self.bytes.capacity() + self.stage_times.capacity() * size_of::<StageTime>()
    }
}

/// What a packet takes beside its content: its record, its places in the writer's orders and the allocator's own, rounded up.
pub(super) const OVERHEAD: usize = 512;

/// The relay's side.
pub(super) struct RecordSender {
    to: Producer<Record>,
    spare: Consumer<Content>,
    /// Of all contents there are, wherever they are.
    allocated: usize,
    max_bytes: usize,
    missed: Arc<AtomicU64>,
}

/// The writer's side.
pub(super) struct RecordReceiver {
    from: Consumer<Record>,
    back: Producer<Content>,
    missed: Arc<AtomicU64>,
}

/// Both sides.
pub(super) fn channel() -> (RecordSender, RecordReceiver) {
    bounded(MAX_BYTES)
}

fn bounded(max_bytes: usize) -> (RecordSender, RecordReceiver) {
    let (to, from) = RingBuffer::new(MAX_QUEUED);
    // As many as there can be: a content always finds its way back.
    let (back, spare) = RingBuffer::new(max_bytes / OVERHEAD);
    let missed = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&missed);
    (RecordSender { to, spare, allocated: 0, max_bytes, missed }, RecordReceiver { from, back, missed: counted })
}

impl RecordSender {
    /// A copy of `packet`, with `stages` places for where its time went; `None`: there is no memory for it within the bound.
    pub fn copy(&mut self, packet: &[u8], stages: usize) -> Option<Content> {
        loop {
            let (mut content, new) = match self.spare.pop() {
                Ok(content) => (content, 0),
                Err(_) => (Content::default(), OVERHEAD),
            };
            let before = content.size();
            let places = stages.max(content.stage_times.capacity()) * size_of::<StageTime>();
            let after = packet.len().max(content.bytes.capacity()) + places;
            if self.allocated + new + after - before <= self.max_bytes {
                content.bytes.clear();
                content.bytes.reserve_exact(packet.len());
                content.bytes.extend_from_slice(packet);
                content.stage_times.clear();
                content.stage_times.reserve_exact(stages);
                self.allocated += new + content.size() - before;
                return Some(content);
            }
            if new > 0 {
                return None;
            }
            // Too small, and no room to grow: it makes some.
            self.allocated -= OVERHEAD + before;
        }
    }

    /// Sends it on its way. What finds no room is counted.
    pub fn send(&mut self, record: Option<Record>) {
        let refused = record.map(|record| self.to.push(record));
        match refused {
            Some(Ok(())) => return,
            // The relay's own again.
            Some(Err(rtrb::PushError::Full(record))) => self.allocated -= OVERHEAD + record.content.size(),
            None => {}
        }
        self.missed.fetch_add(1, Ordering::Relaxed);
    }
}

/// What the writer finds.
pub(super) enum Received {
    /// A packet.
    Packet(Record),
    /// Nothing now.
    Nothing,
    /// Nothing any more: the relay has ended.
    End,
}

impl RecordReceiver {
    /// The next packet.
    pub fn take(&mut self) -> Received {
        let ended = self.from.is_abandoned(); // asked first: what was sent before the end is found then
        match self.from.pop() {
            Ok(record) => Received::Packet(record),
            Err(PopError::Empty) if ended => Received::End,
            Err(PopError::Empty) => Received::Nothing,
        }
    }

    /// The content of a packet that is written.
    pub fn return_content(&mut self, content: Content) {
        let _ = self.back.push(content); // there is room
    }

    /// Packets that found no room so far.
    pub fn missed(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Fate;
    use super::*;
    use bentpipe_profile::{Direction, Time};
    use proptest::prelude::*;

    fn record(content: Content) -> Record {
        Record { direction: Direction::Up, number: 1, sent: Time::ZERO, content, fate: Fate::NoRoute, upto: [Time::ZERO; 2] }
    }

    proptest! {
        /// Whatever sizes come, and however much the writer takes and holds: what there is, counted afresh, is within the bound and as counted, and each packet is
        /// there or missed.
        #[test]
        fn memory_is_bounded_and_every_packet_counted(
            steps in prop::collection::vec((prop_oneof![Just(40_usize), Just(1500), 0_usize..65_000], 0_usize..4, any::<bool>()), 1..400),
        ) {
            let max_bytes = 1 << 18;
            let (mut sender, mut receiver) = bounded(max_bytes);
            let mut held: Vec<Record> = Vec::new();
            let (mut sent, mut got) = (0, 0);
            for (size, takes, returns) in steps {
                let copy = sender.copy(&vec![7; size], size % 23);
                prop_assert!(copy.as_ref().is_none_or(|content| content.bytes.len() == size && content.stage_times.capacity() >= size % 23));
                sender.send(copy.map(record));
                sent += 1;
                for _ in 0..takes {
                    if let Received::Packet(record) = receiver.take() {
                        got += 1;
                        held.push(record);
                    }
                }
                if returns {
                    held.drain(..).for_each(|record| receiver.return_content(record.content));
                }
                prop_assert!(sender.allocated <= max_bytes);
            }
            let mut counted = 0;
            let missed = receiver.missed();
            while let Ok(content) = sender.spare.pop() {
                counted += OVERHEAD + content.size();
            }
            while let Received::Packet(record) = receiver.take() {
                got += 1;
                held.push(record);
            }
            counted += held.iter().map(|record| OVERHEAD + record.content.size()).sum::<usize>();
            prop_assert_eq!(counted, sender.allocated);
            prop_assert_eq!(got + missed, sent);
        }
    }

    #[test]
    fn what_was_sent_before_the_end_is_found() {
        let (mut sender, mut receiver) = bounded(1 << 16);
        assert!(matches!(receiver.take(), Received::Nothing));
        let copy = sender.copy(b"last", 0);
        sender.send(copy.map(record));
        drop(sender);
        assert!(matches!(receiver.take(), Received::Packet(reason) if reason.content.bytes == b"last"));
        assert!(matches!(receiver.take(), Received::End));
    }
}
