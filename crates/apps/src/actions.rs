//! The actions of an application.

use crate::message::{Datagram, Message, StreamId};
use bentpipe_profile::options::OptionValues;
use bentpipe_profile::{Bytes, Time};
use std::borrow::Cow;

/// Something that an application does.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Open a connection to the other host.
    Open {
        /// Its stream.
        stream: StreamId,
        /// Congestion controller of this end; `None`: that of the flow.
        controller: Option<ControllerChoice>,
        /// Its transport.
        transport: Transport,
    },
    /// Write a message. Bytes that the send buffer has no room for wait in the application.
    Write(StreamId, Message),
    /// Write nothing more on this stream.
    Close(StreamId),
    /// Send a datagram to the other end.
    Send(Datagram),
    /// Set a timer. It cannot be cancelled.
    SetTimer {
        /// When it is due.
        at: Time,
        /// Number by which the application knows it.
        timer: u64,
    },
    /// Record what this end knows of an item.
    Record(Item),
    /// Nothing more will be written at either end, except answers to the messages written so far. The flow is complete when all of that has
    /// arrived.
    Finish,
}

/// Transport of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// TCP: messages one after the other.
    #[default]
    Tcp,
    /// QUIC: a stream for each message, in which its answer travels, too. A loss in one delays no other. It has none of the frequent events.
    Quic,
}

/// A congestion controller by name, with the options that differ from its defaults.
#[derive(Clone, Debug, PartialEq)]
pub struct ControllerChoice {
    /// Its name.
    pub name: String,
    /// Its options.
    pub options: OptionValues,
}

/// What one end knows of an item (a transfer, a request, a page): a row of the applications table. Both ends may record the same item by its
/// number; the row has what either knows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Item {
    /// Number of the item in its flow.
    pub id: u64,
    /// Kind, such as `request`; `None`: not known at this end.
    pub kind: Option<Cow<'static, str>>,
    /// When it began.
    pub start: Option<Time>,
    /// When its first byte arrived.
    pub first_byte: Option<Time>,
    /// When it was complete.
    pub completed: Option<Time>,
    /// Its size.
    pub bytes: Option<Bytes>,
}

/// The actions of one end, in order. The driver takes them after every event.
#[derive(Debug, Default)]
pub struct Actions {
    queue: Vec<Action>,
    opened: u32,
}

impl Actions {
    /// Open a connection to the other host. It may be written to at once.
    pub fn open(&mut self) -> StreamId {
        self.open_with(None)
    }

    /// As [`Self::open`], with a congestion controller for this end.
    pub fn open_with(&mut self, controller: Option<ControllerChoice>) -> StreamId {
        self.open_connection(controller, Transport::Tcp)
    }

    /// Open a connection over QUIC.
    pub fn open_quic(&mut self) -> StreamId {
        self.open_connection(None, Transport::Quic)
    }

    fn open_connection(&mut self, controller: Option<ControllerChoice>, transport: Transport) -> StreamId {
        let stream = StreamId(self.opened);
        self.opened += 1;
        self.queue.push(Action::Open { stream, controller, transport });
        stream
    }

    /// Write a message.
    pub fn write(&mut self, stream: StreamId, message: Message) {
        self.queue.push(Action::Write(stream, message));
    }

    /// Write nothing more on this stream.
    pub fn close(&mut self, stream: StreamId) {
        self.queue.push(Action::Close(stream));
    }

    /// Send a datagram.
    pub fn send(&mut self, datagram: Datagram) {
        self.queue.push(Action::Send(datagram));
    }

    /// Set a timer.
    pub fn set_timer(&mut self, at: Time, timer: u64) {
        self.queue.push(Action::SetTimer { at, timer });
    }

    /// Record what this end knows of an item.
    pub fn record(&mut self, item: Item) {
        self.queue.push(Action::Record(item));
    }

    /// Say that nothing more will be written.
    pub fn finish(&mut self) {
        self.queue.push(Action::Finish);
    }

    /// Whether there are actions.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Remove and return the actions, in order.
    pub fn drain(&mut self) -> impl Iterator<Item = Action> {
        self.queue.drain(..)
    }
}
