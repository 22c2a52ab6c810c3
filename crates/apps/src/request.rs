//! Requests, one after the other on one connection.

use crate::actions::{Actions, Item};
use crate::app::{App, Event};
use crate::message::{Message, StreamId};
use bentpipe_profile::{Bytes, Time};

/// The end that requests. The next request follows at once when the response to the last one is complete.
pub struct Request {
    /// Sizes of a request and of its response.
    size: Bytes,
    answer_size: Bytes,
    /// Number of requests; `None`: no limit.
    count: Option<u64>,
    next: u64,
}

impl Request {
    /// Create the end that makes `count` requests.
    #[must_use]
    pub const fn new(request: Bytes, response: Bytes, count: Option<u64>) -> Self {
        Self { size: request, answer_size: response, count, next: 0 }
    }

    fn request(&mut self, now: Time, stream: StreamId, actions: &mut Actions) {
        let id = self.next;
        self.next += 1;
        actions.write(stream, Message { bytes: self.size, id, answer_bytes: self.answer_size.0 });
        actions.record(Item { id, kind: Some("request".into()), start: Some(now), bytes: Some(self.answer_size), ..Item::default() });
    }
}

impl App for Request {
    fn on_event(&mut self, now: Time, event: &Event, actions: &mut Actions) {
        match *event {
            Event::Started => drop(actions.open()),
            Event::Opened(stream) => self.request(now, stream, actions),
            Event::Message { stream, message, first_byte } => {
                actions.record(Item { id: message.id, first_byte: Some(first_byte), completed: Some(now), ..Item::default() });
                if self.count.is_some_and(|count| self.next >= count) {
                    actions.close(stream);
                    actions.finish();
                } else {
                    self.request(now, stream, actions);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{drive, written};

    #[test]
    fn each_response_leads_to_the_next_request_until_the_last() {
        let mut app = Request::new(Bytes(200), Bytes(5000), Some(2));
        let mut actions = Actions::default();
        let stream = StreamId(0);
        drive(&mut app, &mut actions, 0, &Event::Started);
        assert_eq!(written(&drive(&mut app, &mut actions, 1, &Event::Opened(stream))), [200]);
        let response = |id| Event::Message { stream, message: Message { bytes: Bytes(5000), id, answer_bytes: 0 }, first_byte: Time(2) };
        assert_eq!(written(&drive(&mut app, &mut actions, 3, &response(0))), [200]);
        let last = drive(&mut app, &mut actions, 5, &response(1));
        assert!(last.contains(&crate::Action::Finish) && last.contains(&crate::Action::Close(stream)) && written(&last).is_empty());
    }
}
