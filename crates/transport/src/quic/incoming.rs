//! Data of streams that arrive: each stream is put in order by itself, so that a loss on one delays no other (RFC 9000 §2.2). Flow control
//! (RFC 9000 §4) with windows that do not grow: what arrives in order is read at once.

use super::wire::{Chunk, Control};
use crate::reassembly::Reassembly;
use bentpipe_profile::Time;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

#[derive(Debug)]
struct Stream {
    data: Reassembly,
    first_byte: Time,
    /// Its size, once its end has arrived.
    end: Option<u64>,
    limit: u64,
    /// Highest byte that arrived.
    highest: u64,
    is_complete: bool,
}

/// The streams that arrive.
#[derive(Debug)]
pub struct Incoming {
    streams: BTreeMap<u64, Stream>,
    /// Windows of all streams together, and of each [bytes].
    window: u64,
    stream_window: u64,
    limit: u64,
    delivered: u64,
    complete: VecDeque<(u64, Time)>,
    /// Limits to announce.
    owes_max_data: bool,
    owes_max_stream_data: BTreeSet<u64>,
}

impl Incoming {
    /// Create streams without data. `window`, `stream_window`: those of all streams together, and of each.
    #[must_use]
    pub const fn new(window: u64, stream_window: u64) -> Self {
        Self {
            streams: BTreeMap::new(),
            window,
            stream_window,
            limit: window,
            delivered: 0,
            complete: VecDeque::new(),
            owes_max_data: false,
            owes_max_stream_data: BTreeSet::new(),
        }
    }

    /// Bytes delivered in order, over all streams.
    #[must_use]
    pub const fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Bytes of one stream delivered in order.
    #[must_use]
    pub fn delivered_on(&self, stream: u64) -> u64 {
        self.streams.get(&stream).map_or(0, |stream| stream.data.next())
    }

    /// Insert a chunk. Returns whether it has bytes that had not arrived before.
    pub fn on_chunk(&mut self, now: Time, chunk: &Chunk) -> bool {
        let stream_window = self.stream_window;
        let own = self.streams.entry(chunk.stream).or_insert_with(|| Stream {
            data: Reassembly::default(),
            first_byte: now,
            end: None,
            limit: stream_window,
            highest: 0,
            is_complete: false,
        });
        let held = |data: &Reassembly| data.next() + data.out_of_order_bytes();
        let (before, next) = (held(&own.data), own.data.next());
        own.data.insert(chunk.offset, chunk.end());
        own.highest = own.highest.max(chunk.end());
        let is_new = held(&own.data) > before;
        let in_order = own.data.next();
        self.delivered += in_order - next;
        if chunk.fin {
            own.end = Some(chunk.end());
        }
        if own.end == Some(in_order) && !own.is_complete {
            own.is_complete = true;
            self.complete.push_back((chunk.stream, own.first_byte));
        }
        // A limit is raised once half of its window has been read, as in Chromium.
        if own.end.is_none() && own.limit - in_order < self.stream_window / 2 {
            own.limit = in_order + self.stream_window;
            self.owes_max_stream_data.insert(chunk.stream);
        }
        if self.limit - self.delivered < self.window / 2 {
            self.limit = self.delivered + self.window;
            self.owes_max_data = true;
        }
        is_new
    }

    /// Return the next stream that is complete, and when its first byte arrived.
    pub fn next_complete(&mut self) -> Option<(u64, Time)> {
        self.complete.pop_front()
    }

    /// Whether a complete stream waits to be read.
    #[must_use]
    pub fn has_complete(&self) -> bool {
        !self.complete.is_empty()
    }

    /// Whether limits are to be announced.
    #[must_use]
    pub fn owes_limits(&self) -> bool {
        self.owes_max_data || !self.owes_max_stream_data.is_empty()
    }

    /// Move the limits to announce into `control`.
    pub fn announce(&mut self, control: &mut Control) {
        if std::mem::take(&mut self.owes_max_data) {
            control.max_data = Some(self.limit);
        }
        let limit = |stream: u64| self.streams.get(&stream).filter(|own| own.end.is_none()).map(|own| (stream, own.limit));
        control.max_stream_data.extend(std::mem::take(&mut self.owes_max_stream_data).into_iter().filter_map(limit));
    }

    /// Announce lost limits once more (RFC 9000 §13.3).
    pub fn repeat(&mut self, control: &Control) {
        self.owes_max_data |= control.max_data.is_some();
        let lost = control.max_stream_data.iter().map(|(stream, _)| *stream);
        self.owes_max_stream_data.extend(lost);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(stream: u64, offset: u64, len: u32, fin: bool) -> Chunk {
        Chunk { stream, offset, len, fin, first_sent: Time::ZERO }
    }

    #[test]
    fn a_hole_on_one_stream_delays_no_other() {
        let mut streams = Incoming::new(10_000, 10_000);
        streams.on_chunk(Time(1), &chunk(0, 100, 100, true));
        streams.on_chunk(Time(2), &chunk(4, 0, 100, true));
        assert_eq!(streams.next_complete(), Some((4, Time(2))));
        assert_eq!((streams.next_complete(), streams.delivered()), (None, 100));
        assert!(streams.on_chunk(Time(9), &chunk(0, 0, 100, false)));
        assert_eq!(streams.next_complete(), Some((0, Time(1))));
        assert!(!streams.on_chunk(Time(9), &chunk(0, 50, 100, false)), "a duplicate");
        assert_eq!((streams.next_complete(), streams.delivered()), (None, 300));
    }

    #[test]
    fn limits_are_raised_when_half_of_the_window_is_read_and_repeated_when_lost() {
        let mut streams = Incoming::new(3000, 1000);
        let announced = |streams: &mut Incoming| {
            let mut control = Control::default();
            streams.announce(&mut control);
            control
        };
        streams.on_chunk(Time(0), &chunk(0, 0, 500, false));
        assert!(!streams.owes_limits());
        streams.on_chunk(Time(0), &chunk(0, 500, 100, false));
        let control = announced(&mut streams);
        assert_eq!((control.max_data, control.max_stream_data.clone()), (None, vec![(0, 1600)]));
        streams.repeat(&control);
        assert_eq!(announced(&mut streams), control);
        streams.on_chunk(Time(0), &chunk(0, 600, 1000, true));
        assert_eq!(announced(&mut streams).max_data, Some(4600));
        streams.repeat(&control);
        assert!(announced(&mut streams).is_empty(), "the stream has ended");
    }
}
