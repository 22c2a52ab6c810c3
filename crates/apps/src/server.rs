//! The end that receives, and answers what asks for an answer.

use crate::actions::{Actions, Item};
use crate::app::{App, Event};
use crate::message::{Message, StreamId};
use bentpipe_profile::{Bytes, Nanos, Time};
use std::collections::{BTreeSet, VecDeque};

/// Receives messages. It answers one that asks for an answer, with the same number, after a constant time. Of the others it records the arrival.
/// It closes a stream after the other end did and its last answer.
#[derive(Default)]
pub struct Server {
    think: Nanos,
    /// Messages not answered yet, in order.
    unanswered: VecDeque<(StreamId, Message)>,
    /// Streams that the other end closed and that still have answers to come.
    closing: BTreeSet<StreamId>,
}

impl Server {
    /// Create a server that takes `think` to answer.
    #[must_use]
    pub fn new(think: Nanos) -> Self {
        Self { think, ..Self::default() }
    }

    fn answer(&mut self, stream: StreamId, question: Message, actions: &mut Actions) {
        actions.write(stream, Message { bytes: Bytes(question.answer_bytes), id: question.id, answer_bytes: 0 });
        if self.closing.contains(&stream) && !self.is_awaited(stream) {
            self.closing.remove(&stream);
            actions.close(stream);
        }
    }

    fn is_awaited(&self, stream: StreamId) -> bool {
        self.unanswered.iter().any(|(each, _)| *each == stream)
    }
}

impl App for Server {
    fn on_event(&mut self, now: Time, event: &Event, actions: &mut Actions) {
        match *event {
            Event::Message { message, first_byte, .. } if message.answer_bytes == 0 => {
                actions.record(Item { id: message.id, first_byte: Some(first_byte), completed: Some(now), ..Item::default() });
            }
            Event::Message { stream, message, .. } if self.think == Nanos::ZERO => self.answer(stream, message, actions),
            Event::Message { stream, message, .. } => {
                self.unanswered.push_back((stream, message));
                actions.set_timer(now + self.think, message.id);
            }
            Event::Timer(_) => {
                if let Some((stream, message)) = self.unanswered.pop_front() {
                    self.answer(stream, message, actions);
                }
            }
            Event::Closed(stream) if self.is_awaited(stream) => drop(self.closing.insert(stream)),
            Event::Closed(stream) => actions.close(stream),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Action;
    use crate::testing::{drive, written};

    const STREAM: StreamId = StreamId(StreamId::ACCEPTED);

    fn arrived(id: u64, answer_bytes: u64) -> Event {
        Event::Message { stream: STREAM, message: Message { bytes: Bytes(100), id, answer_bytes }, first_byte: Time(5) }
    }

    #[test]
    fn an_answer_follows_after_the_thinking_time_and_then_the_stream_closes() {
        let mut app = Server::new(Nanos(10));
        let mut actions = Actions::default();
        assert_eq!(drive(&mut app, &mut actions, 7, &arrived(3, 5000)), [Action::SetTimer { at: Time(17), timer: 3 }]);
        assert!(drive(&mut app, &mut actions, 8, &Event::Closed(STREAM)).is_empty(), "an answer is to come");
        let last = drive(&mut app, &mut actions, 17, &Event::Timer(3));
        assert_eq!(written(&last), [5000]);
        assert_eq!(last.last(), Some(&Action::Close(STREAM)));
    }

    #[test]
    fn a_message_that_asks_for_nothing_is_recorded() {
        let mut app = Server::default();
        let actions = drive(&mut app, &mut Actions::default(), 9, &arrived(4, 0));
        let expected = Item { id: 4, first_byte: Some(Time(5)), completed: Some(Time(9)), ..Item::default() };
        assert_eq!(actions, [Action::Record(expected)]);
    }
}
