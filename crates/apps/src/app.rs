//! The trait of an application, and what it sees.

use crate::actions::Actions;
use crate::message::{Datagram, Message, StreamId};
use bentpipe_profile::{Bytes, Time};

/// Something that happened at this end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The flow starts. The first event.
    Started,
    /// The connection is established; this end may have opened it, or the other.
    Opened(StreamId),
    /// New data in order arrived (only with [`Interest::readable`]).
    Readable {
        /// The stream.
        stream: StreamId,
        /// Bytes since the last event.
        bytes: Bytes,
    },
    /// A whole message arrived.
    Message {
        /// The stream.
        stream: StreamId,
        /// The message.
        message: Message,
        /// When its first byte arrived.
        first_byte: Time,
    },
    /// The other end's transport has acknowledged everything written so far (only with [`Interest::delivered`]).
    Delivered(StreamId),
    /// The send buffer has accepted everything written so far (only with [`Interest::writable`]).
    Writable(StreamId),
    /// The other end closed the stream, and all its data arrived.
    Closed(StreamId),
    /// A datagram arrived.
    Datagram(Datagram),
    /// A timer that this end set is due.
    Timer(u64),
}

/// The frequent events that an application wants to see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interest {
    /// [`Event::Readable`].
    pub readable: bool,
    /// [`Event::Delivered`].
    pub delivered: bool,
    /// [`Event::Writable`].
    pub writable: bool,
}

/// One end of an application. It never waits and reads no clock.
pub trait App: Send {
    /// Return the frequent events that it wants to see.
    fn interest(&self) -> Interest {
        Interest::default()
    }

    /// Handle an event at `now`, a time since the start of the run, and add what follows from it to `actions`.
    fn on_event(&mut self, now: Time, event: &Event, actions: &mut Actions);
}
