//! A sender that always has data.

use crate::actions::Actions;
use crate::app::{App, Event};
use crate::message::Message;
use bentpipe_profile::{Bytes, Time};

/// One connection that is never out of data.
pub struct Bulk;

impl App for Bulk {
    fn on_event(&mut self, _now: Time, event: &Event, actions: &mut Actions) {
        if *event == Event::Started {
            let stream = actions.open();
            actions.write(stream, Message { bytes: Bytes::MAX, id: 0, answer_bytes: 0 });
        }
    }
}
