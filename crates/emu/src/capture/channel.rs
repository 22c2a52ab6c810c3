//! The channel from the relay to the writer: two wait-free single-producer single-consumer queues (`rtrb`), one for packets and one for returned buffers.
//!
//! Only the relay's side allocates and frees buffers. So the writer, which may be preempted at any time, never holds an allocator lock that the relay
//! needs, and the memory is bounded.

use super::{Record, StageTime};
use rtrb::{Consumer, PopError, Producer, RingBuffer};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Most packets queued for the writer: half a second of 1500-byte packets at 1.5 Gbit/s. Chosen here.
const MAX_QUEUED: usize = 1 << 16;

/// Most memory of captured packets, queued for the writer or held there for an earlier packet's fate [bytes]. Chosen here: a second of 1.5 Gbit/s.
const MAX_BYTES: usize = 192 << 20;

/// A packet's bytes, and its time in each stage.
#[derive(Debug, Default)]
pub(crate) struct Content {
    pub bytes: Vec<u8>,
    pub stage_times: Vec<StageTime>,
}

impl Content {
    /// Allocated memory [bytes].
    pub fn size(&self) -> usize {
        self.bytes.capacity() + self.stage_times.capacity() * size_of::<StageTime>()
    }
}

/// Memory of a packet beside its content: its record, its entries in the writer's buffers and the allocator's overhead, rounded up [bytes].
pub(super) const OVERHEAD: usize = 512;

/// The sender half, for the relay.
pub(super) struct RecordSender {
    to: Producer<Record>,
    spare: Consumer<Content>,
    /// Memory of all existing contents [bytes].
    allocated: usize,
    max_bytes: usize,
    missed: Arc<AtomicU64>,
}

/// The receiver half, for the writer.
pub(super) struct RecordReceiver {
    from: Consumer<Record>,
    back: Producer<Content>,
    missed: Arc<AtomicU64>,
}

/// Creates both halves.
pub(super) fn channel() -> (RecordSender, RecordReceiver) {
    bounded(MAX_BYTES)
}

fn bounded(max_bytes: usize) -> (RecordSender, RecordReceiver) {
    let (to, from) = RingBuffer::new(MAX_QUEUED);
    // Room for every content, so that returning one never fails.
    let (back, spare) = RingBuffer::new(max_bytes / OVERHEAD);
    let missed = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&missed);
    (RecordSender { to, spare, allocated: 0, max_bytes, missed }, RecordReceiver { from, back, missed: counted })
}

impl RecordSender {
    /// Copies `packet`, with capacity for `stages` stage times; `None`: the memory bound is reached.
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
            // The buffer is too small and cannot grow: free it to make room.
            self.allocated -= OVERHEAD + before;
        }
    }

    /// Sends a record. Counts it as missed if it is `None` or the queue is full.
    pub fn send(&mut self, record: Option<Record>) {
        let refused = record.map(|record| self.to.push(record));
        match refused {
            Some(Ok(())) => return,
            // The record was returned and is freed here.
            Some(Err(rtrb::PushError::Full(record))) => self.allocated -= OVERHEAD + record.content.size(),
            None => {}
        }
        self.missed.fetch_add(1, Ordering::Relaxed);
    }
}

/// Result of a receive.
pub(super) enum Received {
    /// A packet.
    Packet(Record),
    /// The queue is empty.
    Nothing,
    /// The queue is empty and the relay has ended.
    End,
}

impl RecordReceiver {
    /// The next packet.
    pub fn take(&mut self) -> Received {
        let ended = self.from.is_abandoned(); // read first, so that packets sent before the end are received
        match self.from.pop() {
            Ok(record) => Received::Packet(record),
            Err(PopError::Empty) if ended => Received::End,
            Err(PopError::Empty) => Received::Nothing,
        }
    }

    /// Returns a content to the relay.
    pub fn return_content(&mut self, content: Content) {
        let _ = self.back.push(content); // it never fails
    }

    /// Packets missed so far.
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
        /// For any sizes and any pace of the writer: memory stays within the bound and equals the count, and each packet is received or missed.
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
    fn packets_sent_before_the_end_are_received() {
        let (mut sender, mut receiver) = bounded(1 << 16);
        assert!(matches!(receiver.take(), Received::Nothing));
        let copy = sender.copy(b"last", 0);
        sender.send(copy.map(record));
        drop(sender);
        assert!(matches!(receiver.take(), Received::Packet(record) if record.content.bytes == b"last"));
        assert!(matches!(receiver.take(), Received::End));
    }
}
