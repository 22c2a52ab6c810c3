//! A QUIC connection between two hosts, and what the applications know of it: each message has a stream of its own, and an answer is the other
//! direction of its question's stream (as in RFC 9114 §4.1).

use crate::data_ends::DataEnds;
use bentpipe_apps::{Event, Message, StreamId};
use bentpipe_profile::{Direction, Time};
use bentpipe_transport::Quic;
use std::collections::BTreeMap;

/// A connection while it lasts.
pub struct QuicConnection {
    /// Index of its flow.
    pub flow: usize,
    /// The end of the flow that opened it; 0: the flow's sender.
    pub opener: usize,
    /// Index of its path in the network.
    pub path: u32,
    /// Direction in which the opening end sends.
    pub direction: Direction,
    /// Its transports: at the end that opened it, and at the other.
    pub ends: [Quic; 2],
    /// The applications' view of both ends.
    pub views: [View; 2],
}

/// What the application at one end knows of a connection.
#[derive(Debug, Default)]
pub struct View {
    /// Its number at this end; `None`: this end has not heard of it.
    pub id: Option<StreamId>,
    /// Whether the application closed it.
    pub is_closed: bool,
    /// Messages that arrive, by their stream.
    inbox: BTreeMap<u64, Message>,
    /// Numbers of the other end's messages that this end has not answered yet, with their streams.
    unanswered: Vec<(u64, u64)>,
    /// Streams that this end has opened.
    opened: u64,
    has_reported_open: bool,
    has_reported_closed: bool,
}

/// How a message changes the number of those that are outstanding.
#[derive(Clone, Copy, Debug)]
pub struct Written {
    /// Whether it is an answer.
    pub is_answer: bool,
    /// Whether the other end is to answer it.
    pub is_question: bool,
}

impl View {
    /// Create the view of an end. `id`: its number, if this end opened the connection.
    #[must_use]
    pub fn new(id: Option<StreamId>) -> Self {
        Self { id, ..Self::default() }
    }
}

impl QuicConnection {
    /// Return the end of the connection at which the end `flow_end` of its flow is.
    #[must_use]
    pub fn end_of(&self, flow_end: usize) -> usize {
        usize::from(self.opener != flow_end)
    }

    /// Return the end of the flow at this end of the connection.
    #[must_use]
    pub const fn flow_end(&self, end: usize) -> usize {
        if end == 0 { self.opener } else { 1 - self.opener }
    }

    /// Write a message at an end.
    pub fn write(&mut self, end: usize, message: Message) -> Written {
        let view = &mut self.views[end];
        let question = view.unanswered.iter().position(|(id, _)| *id == message.id);
        let stream = question.map_or_else(
            || {
                view.opened += 1;
                4 * (view.opened - 1) + end as u64 // RFC 9000 §2.1
            },
            |index| view.unanswered.remove(index).1,
        );
        self.ends[end].write(stream, message.bytes);
        let other = &mut self.views[1 - end];
        other.inbox.insert(stream, message);
        let is_question = message.answer_bytes > 0 && !other.is_closed;
        if is_question {
            other.unanswered.push((message.id, stream));
        }
        Written { is_answer: question.is_some(), is_question }
    }

    /// Close an end. Returns the number of answers that will never be written.
    pub fn close(&mut self, end: usize) -> u64 {
        self.views[end].is_closed = true;
        self.ends[end].close();
        std::mem::take(&mut self.views[end].unanswered).len() as u64
    }

    /// Whether there may be an event for the application at an end.
    #[must_use]
    pub fn has_event(&self, end: usize) -> bool {
        let (view, transport) = (&self.views[end], &self.ends[end]);
        (!view.has_reported_open && transport.is_established())
            || transport.has_complete()
            || (!view.has_reported_closed && transport.is_closed())
    }

    /// Return the next event at an end; `None`: there is no more. The driver has given the end its number. `start`: when the run began.
    pub fn next_event(&mut self, end: usize, start: Time) -> Option<Event> {
        let (view, transport) = (&mut self.views[end], &mut self.ends[end]);
        let stream = view.id?;
        if !view.has_reported_open && transport.is_established() {
            view.has_reported_open = true;
            return Some(Event::Opened(stream));
        }
        while let Some((number, first_byte)) = transport.next_complete() {
            if let Some(message) = view.inbox.remove(&number) {
                return Some(Event::Message { stream, message, first_byte: Time(first_byte.since(start).0) });
            }
        }
        if !view.has_reported_closed && transport.is_closed() {
            view.has_reported_closed = true;
            return Some(Event::Closed(stream));
        }
        None
    }

    /// Whether both ends are done.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.ends.iter().all(Quic::is_done)
    }

    /// Return the figures of the ends that send and receive data in the flow's direction.
    #[must_use]
    pub fn data_ends(&self) -> DataEnds {
        let sending = self.end_of(0);
        DataEnds { stats: Some(self.ends[sending].stats()), delivered: self.ends[1 - sending].delivered().0, marks: 0 }
    }
}
