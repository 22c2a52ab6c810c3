//! A connection between two hosts: a transport at each end, and what the applications know of it.

use crate::data_ends::DataEnds;
use crate::proxy::Proxy;
use bentpipe_apps::{Event, Interest, Message, StreamId};
use bentpipe_profile::{Bytes, Direction, Streams, Time};
use bentpipe_transport::Tcp;
use std::collections::VecDeque;

/// Owner of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A flow of the Experiment; `opener`: the end of the flow that opened the connection.
    Flow {
        /// Index of the flow.
        flow: usize,
        /// 0: the flow's sender, 1: its receiver.
        opener: usize,
    },
    /// A source of cross traffic.
    Cross {
        /// Index of the source.
        source: usize,
    },
}

/// A connection while it lasts.
pub struct Connection {
    /// Its owner.
    pub owner: Owner,
    /// Index of its path in the network.
    pub path: u32,
    /// Direction in which the opening end sends.
    pub direction: Direction,
    /// Index in the statistics of links.
    pub counted_as: u32,
    /// When it was opened.
    pub opened: Time,
    /// When all data of a transfer of cross traffic had arrived.
    pub completed: Option<Time>,
    /// Its random streams.
    pub random: Streams,
    /// Its transports: at the end that opened it, and at the other.
    pub ends: [Tcp; 2],
    /// The applications' view of both ends.
    pub streams: [Stream; 2],
    /// The proxies that split it, from the terminal on.
    pub proxies: Vec<Proxy>,
}

impl Connection {
    /// Return the flow that it belongs to, and the flow's end at this end of the connection.
    #[must_use]
    pub const fn flow_end(&self, end: usize) -> Option<(usize, usize)> {
        match self.owner {
            Owner::Flow { flow, opener } => Some((flow, if end == 0 { opener } else { 1 - opener })),
            Owner::Cross { .. } => None,
        }
    }

    /// Return the end of the connection at which the end `flow_end` of its flow is.
    #[must_use]
    pub fn end_of(&self, flow: usize, flow_end: usize) -> usize {
        usize::from(self.flow_end(0) != Some((flow, flow_end)))
    }

    /// Return the figures of the ends that send and receive data in the flow's direction.
    #[must_use]
    pub fn data_ends(&self) -> DataEnds {
        let [opening, other] = &self.ends;
        let (sending, receiving) = match self.owner {
            Owner::Flow { opener: 1, .. } => (other, opening),
            _ => (opening, other),
        };
        DataEnds { stats: sending.stats(), delivered: receiving.delivered().0, marks: receiving.marks() }
    }

    /// Whether both ends have nothing left to send and have closed.
    #[must_use]
    pub fn is_over(&self) -> bool {
        let is_closed = |end: usize| self.streams[end].is_closed || matches!(self.owner, Owner::Cross { .. });
        (0..2).all(|end| is_closed(end) && self.ends[end].is_done()) && self.proxies.iter().all(Proxy::is_done)
    }
}

/// What the application at one end knows of a connection.
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools)] // independent facts, not states
pub struct Stream {
    /// Its number at this end; `None`: this end has not heard of it.
    pub id: Option<StreamId>,
    /// The frequent events that the application wants to see.
    pub interest: Interest,
    /// Whether the application closed it.
    pub is_closed: bool,
    /// Messages that arrive, with the position of their end; and when the first byte of the first of them arrived.
    inbox: VecDeque<(u64, Message)>,
    first_byte: Option<Time>,
    /// Numbers of the other end's messages, arrived or in flight, that this end has not answered yet.
    unanswered: VecDeque<u64>,
    /// End of the last message in the inbox, bytes received, and bytes that this end wrote.
    inbox_end: u64,
    received: u64,
    written: u64,
    /// Number of bytes received from which on there may be an event.
    event_from: u64,
    /// Whether the application was told that the connection is open, and that the other end closed it.
    has_reported_open: bool,
    has_reported_closed: bool,
    /// Whether everything written must still be acknowledged, or accepted by the send buffer.
    awaits_delivery: bool,
    awaits_room: bool,
}

impl Stream {
    /// Create the view of an end. `id`: its number, if this end opened the connection.
    #[must_use]
    pub const fn new(id: Option<StreamId>, interest: Interest) -> Self {
        Self {
            id,
            interest,
            is_closed: false,
            inbox: VecDeque::new(),
            first_byte: None,
            unanswered: VecDeque::new(),
            inbox_end: 0,
            received: 0,
            written: 0,
            event_from: if interest.readable { 0 } else { u64::MAX },
            has_reported_open: false,
            has_reported_closed: false,
            awaits_delivery: false,
            awaits_room: false,
        }
    }

    /// Create the view of an end without an application.
    #[must_use]
    pub fn without_app() -> Self {
        Self { has_reported_open: true, has_reported_closed: true, ..Self::new(None, Interest::default()) }
    }

    /// Record that this end wrote a message. Returns whether it is an answer: it has the number of a message that requests one.
    pub fn on_written(&mut self, message: &Message) -> bool {
        self.written = self.written.saturating_add(message.bytes.0);
        self.awaits_delivery = self.interest.delivered;
        self.awaits_room = self.interest.writable;
        let question = self.unanswered.iter().position(|number| *number == message.id);
        question.is_some_and(|index| self.unanswered.remove(index).is_some())
    }

    /// Record that the application closed it. Returns the number of answers that will never be written.
    pub fn close(&mut self) -> u64 {
        self.is_closed = true;
        std::mem::take(&mut self.unanswered).len() as u64
    }

    /// Record that the other end wrote a message. Returns whether this end is to answer it.
    pub fn expect(&mut self, message: Message) -> bool {
        self.inbox_end = self.inbox_end.saturating_add(message.bytes.0);
        if self.inbox.is_empty() {
            self.event_from = self.event_from.min(self.received); // its first byte
        }
        self.inbox.push_back((self.inbox_end, message));
        let is_question = message.answer_bytes > 0 && !self.is_closed;
        if is_question {
            self.unanswered.push_back(message.id);
        }
        is_question
    }

    /// Whether there may be an event for the application.
    #[must_use]
    #[inline]
    pub fn has_event(&self, transport: &Tcp) -> bool {
        transport.delivered().0 > self.event_from
            || self.awaits_delivery
            || self.awaits_room
            || (!self.has_reported_open && transport.is_established())
            || (!self.has_reported_closed && transport.is_closed())
    }

    /// Return the next event; `None`: there is no more. The driver has given the stream its number.
    pub fn next_event(&mut self, now: Time, transport: &Tcp) -> Option<Event> {
        let stream = self.id?;
        if !self.has_reported_open && transport.is_established() {
            self.has_reported_open = true;
            return Some(Event::Opened(stream));
        }
        let delivered = transport.delivered();
        if delivered.0 > self.received && self.first_byte.is_none() {
            self.first_byte = Some(now);
        }
        if delivered.0 > self.received && self.interest.readable {
            let bytes = Bytes(delivered.0 - self.received);
            self.received = delivered.0;
            return Some(Event::Readable { stream, bytes });
        }
        self.received = delivered.0;
        if let Some(&(end, message)) = self.inbox.front().filter(|(end, _)| *end <= delivered.0) {
            self.inbox.pop_front();
            let first_byte = self.first_byte.take().unwrap_or(now);
            self.first_byte = (end < delivered.0).then_some(now); // the next message began in the same batch
            return Some(Event::Message { stream, message, first_byte });
        }
        let next = self.inbox.front().map_or(u64::MAX, |(end, _)| if self.first_byte.is_some() { end - 1 } else { delivered.0 });
        self.event_from = if self.interest.readable { delivered.0 } else { next };
        if self.awaits_delivery && transport.acked().0 >= self.written {
            self.awaits_delivery = false;
            return Some(Event::Delivered(stream));
        }
        if self.awaits_room && !transport.has_unbuffered_data() {
            self.awaits_room = false;
            return Some(Event::Writable(stream));
        }
        if !self.has_reported_closed && transport.is_closed() {
            self.has_reported_closed = true;
            return Some(Event::Closed(stream));
        }
        None
    }
}
