//! Data of streams that this end sends: new data round robin, one packet of each stream in turn; lost data before it.

use super::wire::{CRYPTO, Chunk};
use crate::reassembly::Reassembly;
use bentpipe_profile::Time;
use std::collections::{BTreeMap, VecDeque};

/// A stream of which something is not acknowledged.
#[derive(Debug)]
struct Stream {
    /// Bytes written; after them the stream ends.
    end: u64,
    /// Next byte to send for the first time.
    next: u64,
    /// How far the other end's `MAX_STREAM_DATA` reaches.
    limit: u64,
    acked: Reassembly,
}

/// The streams that this end sends.
#[derive(Debug)]
pub struct Outgoing {
    streams: BTreeMap<u64, Stream>,
    /// Streams with new data, in turn.
    ready: VecDeque<u64>,
    /// Data to retransmit.
    lost: VecDeque<Chunk>,
    /// Stream of the packet that is being filled: it has had its turn.
    served: bool,
    /// New bytes sent on all streams, and how far `MAX_DATA` reaches.
    sent: u64,
    limit: u64,
    stream_limit: u64,
    acked: u64,
}

impl Outgoing {
    /// Create streams without data. `limit`, `stream_limit`: what the other end accepts at first, in all and on a stream.
    #[must_use]
    pub const fn new(limit: u64, stream_limit: u64) -> Self {
        Self {
            streams: BTreeMap::new(),
            ready: VecDeque::new(),
            lost: VecDeque::new(),
            served: false,
            sent: 0,
            limit,
            stream_limit,
            acked: 0,
        }
    }

    /// Write `bytes` on a stream. They are its last, except on [`CRYPTO`].
    pub fn write(&mut self, stream: u64, bytes: u64) {
        let limit = if stream == CRYPTO { u64::MAX } else { self.stream_limit };
        let own = self.streams.entry(stream).or_insert_with(|| Stream { end: 0, next: 0, limit, acked: Reassembly::default() });
        if own.next == own.end {
            self.ready.push_back(stream);
        }
        own.end = own.end.saturating_add(bytes);
    }

    /// Process `MAX_DATA`.
    pub fn on_max_data(&mut self, limit: u64) {
        self.limit = self.limit.max(limit);
    }

    /// Process `MAX_STREAM_DATA`.
    pub fn on_max_stream_data(&mut self, stream: u64, limit: u64) {
        if let Some(own) = self.streams.get_mut(&stream) {
            own.limit = own.limit.max(limit);
        }
    }

    /// Whether data may be sent, as far as flow control allows it.
    #[must_use]
    pub fn has_data(&self) -> bool {
        let is_lost = |chunk: &Chunk| self.streams.get(&chunk.stream).is_some_and(|own| own.acked.next() < chunk.end());
        self.lost.iter().any(is_lost) || (self.sent < self.limit && self.ready.iter().any(|stream| self.may_send_new(*stream)))
    }

    /// Whether new data waits for the other end's flow control.
    #[must_use]
    pub fn is_blocked(&self) -> bool {
        !self.ready.is_empty() && !self.has_data()
    }

    /// Whether everything written is acknowledged.
    #[must_use]
    pub fn is_acknowledged(&self) -> bool {
        self.streams.values().all(|stream| stream.acked.next() == stream.end)
    }

    /// Whether anything was written.
    #[must_use]
    pub fn has_written(&self) -> bool {
        !self.streams.is_empty()
    }

    /// Bytes acknowledged in order on all streams.
    #[must_use]
    pub const fn acked(&self) -> u64 {
        self.acked
    }

    fn may_send_new(&self, stream: u64) -> bool {
        self.streams.get(&stream).is_some_and(|own| own.next < own.end.min(own.limit))
    }

    /// Begin the next packet.
    pub const fn begin_packet(&mut self) {
        self.served = false;
    }

    /// Return the next chunk of at most `room` bytes, its frame's header included; and whether it was sent before.
    pub fn next_chunk(&mut self, now: Time, room: u32) -> Option<(Chunk, bool)> {
        while let Some(chunk) = self.lost.pop_front() {
            if self.streams.get(&chunk.stream).is_none_or(|own| own.acked.next() >= chunk.end()) {
                continue; // it arrived after all
            }
            let Some(len) = fitting(chunk.stream, chunk.offset, u64::from(chunk.len), room) else {
                self.lost.push_front(chunk);
                return None;
            };
            if len < chunk.len {
                self.lost.push_front(Chunk { offset: chunk.offset + u64::from(len), len: chunk.len - len, ..chunk });
            }
            return Some((Chunk { len, fin: chunk.fin && len == chunk.len, ..chunk }, true));
        }
        self.next_new(now, room).map(|chunk| (chunk, false))
    }

    fn next_new(&mut self, now: Time, room: u32) -> Option<Chunk> {
        let at = self.ready.iter().position(|stream| self.may_send_new(*stream))?;
        let id = self.ready[at];
        let own = self.streams.get_mut(&id)?;
        let is_counted = id != CRYPTO;
        let mut left = own.end.min(own.limit) - own.next;
        if is_counted {
            left = left.min(self.limit.saturating_sub(self.sent));
        }
        let len = fitting(id, own.next, left, room)?;
        let chunk = Chunk { stream: id, offset: own.next, len, fin: false, first_sent: now };
        own.next = chunk.end();
        self.sent += if is_counted { u64::from(len) } else { 0 };
        let is_sent = own.next == own.end;
        // The first stream of a packet has had its turn; others only fill it up.
        if is_sent || !self.served {
            self.ready.remove(at);
            if !is_sent {
                self.ready.push_back(id);
            }
        }
        self.served = true;
        Some(Chunk { fin: is_sent && is_counted, ..chunk })
    }

    /// Process the acknowledgement of a chunk.
    pub fn on_acked(&mut self, chunk: &Chunk) {
        let Some(own) = self.streams.get_mut(&chunk.stream) else { return };
        let before = own.acked.next();
        own.acked.insert(chunk.offset, chunk.end());
        if chunk.stream != CRYPTO {
            self.acked += own.acked.next() - before;
            if own.acked.next() == own.end {
                self.streams.remove(&chunk.stream);
            }
        }
    }

    /// Retransmit a chunk that is lost.
    pub fn repeat(&mut self, chunk: &Chunk) {
        self.lost.push_back(*chunk);
    }

    /// Retransmit a chunk that may be lost, before all others.
    pub fn probe(&mut self, chunk: &Chunk) {
        self.lost.push_front(*chunk);
    }

    /// Forget everything: the connection is over.
    pub fn clear(&mut self) {
        self.streams.clear();
        self.ready.clear();
        self.lost.clear();
    }
}

/// Bytes of data that fit with their frame's header into `room`; `None`: none.
fn fitting(stream: u64, offset: u64, len: u64, room: u32) -> Option<u32> {
    let room = room.checked_sub(Chunk::frame_bytes(stream, offset)).filter(|room| *room > 0)?;
    u32::try_from(len.min(u64::from(room))).ok().filter(|len| *len > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::ZERO;

    fn packet(streams: &mut Outgoing) -> Vec<(u64, u64, u32)> {
        streams.begin_packet();
        let mut room = 1000;
        let mut chunks = Vec::new();
        while let Some((chunk, _)) = streams.next_chunk(NOW, room) {
            room -= chunk.len + Chunk::frame_bytes(chunk.stream, chunk.offset);
            chunks.push((chunk.stream, chunk.offset, chunk.len));
        }
        chunks
    }

    #[test]
    fn streams_take_turns_packet_by_packet() {
        let mut streams = Outgoing::new(1 << 20, 1 << 20);
        for stream in [0, 4, 8] {
            streams.write(stream, 1500);
        }
        let firsts: Vec<u64> = (0..5).map(|_| packet(&mut streams)[0].0).collect();
        assert_eq!(firsts, [0, 4, 8, 0, 4]);
        assert!(!streams.has_data());
    }

    #[test]
    fn a_packet_is_filled_with_the_next_streams() {
        let mut streams = Outgoing::new(1 << 20, 1 << 20);
        for stream in [0, 4, 8] {
            streams.write(stream, 400);
        }
        let chunks = packet(&mut streams);
        assert_eq!(chunks.iter().map(|chunk| chunk.0).collect::<Vec<_>>(), [0, 4, 8]);
        assert_eq!(chunks[0].2 + chunks[1].2, 800);
    }

    #[test]
    fn flow_control_limits_a_stream_and_all_of_them() {
        let mut streams = Outgoing::new(3000, 2000);
        streams.write(0, 10_000);
        streams.write(4, 10_000);
        let mut sent = BTreeMap::new();
        while streams.has_data() {
            for (stream, _, len) in packet(&mut streams) {
                *sent.entry(stream).or_insert(0) += len;
            }
        }
        assert_eq!(sent.values().sum::<u32>(), 3000);
        assert!(sent.values().all(|&bytes| bytes <= 2000) && streams.is_blocked());
        streams.on_max_data(20_000);
        streams.on_max_stream_data(0, 12_000);
        assert!(streams.has_data() && !streams.is_blocked());
    }

    #[test]
    fn lost_data_goes_first_and_only_if_it_has_not_arrived() {
        let mut streams = Outgoing::new(1 << 20, 1 << 20);
        streams.write(0, 3000);
        streams.begin_packet();
        let (first, _) = streams.next_chunk(NOW, 1000).unwrap();
        streams.begin_packet();
        let (second, _) = streams.next_chunk(NOW, 1000).unwrap();
        streams.repeat(&first);
        streams.repeat(&second);
        streams.on_acked(&first);
        let (chunk, was_sent) = streams.next_chunk(NOW, 1000).unwrap();
        assert_eq!((chunk.offset, was_sent), (second.offset, true));
    }
}
