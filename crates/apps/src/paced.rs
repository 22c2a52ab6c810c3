//! A sender with a constant rate.

use crate::actions::{Actions, Item};
use crate::app::{App, Event};
use crate::message::{Message, StreamId};
use bentpipe_profile::{Bytes, Nanos, Time};

/// Messages of one size at equal intervals on one connection. Each is an item, so that its delay is known.
pub struct Paced {
    bytes: Bytes,
    every: Nanos,
    stream: StreamId,
    next: u64,
    /// When the next message is due: a timer that is late delays no others.
    due: Time,
}

impl Paced {
    /// Create a sender of `bytes` each `every`.
    #[must_use]
    pub const fn new(bytes: Bytes, every: Nanos) -> Self {
        Self { bytes, every, stream: StreamId(0), next: 0, due: Time::ZERO }
    }
}

impl App for Paced {
    fn on_event(&mut self, now: Time, event: &Event, actions: &mut Actions) {
        match event {
            Event::Started => {
                self.stream = actions.open();
                self.due = now;
            }
            Event::Timer(_) => {}
            _ => return,
        }
        let id = self.next;
        self.next += 1;
        actions.write(self.stream, Message { bytes: self.bytes, id, answer_bytes: 0 });
        actions.record(Item { id, kind: Some("message".into()), start: Some(now), bytes: Some(self.bytes), ..Item::default() });
        self.due = self.due + self.every;
        actions.set_timer(self.due, self.next);
    }
}
