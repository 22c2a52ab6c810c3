//! The player: requests, the buffer, stalls.

use super::choices::Choices;
use super::{Download, kind};
use crate::actions::{Actions, Item};
use crate::app::{App, Event};
use crate::message::{Message, StreamId};
use bentpipe_profile::video::{VIDEO_REQUEST, VideoSpec};
use bentpipe_profile::{Bytes, Nanos, Time};

/// The end that plays. It begins to play when the first chunk is there, and requests a chunk as soon as the one before it has arrived and the
/// buffer is not above its cap.
pub struct Player {
    choices: Choices,
    sizes: Vec<Vec<Bytes>>,
    stream: Option<StreamId>,
    requested: Time,
    /// Playing time in the buffer at `buffer_at` [s]; `None`: nothing has been played.
    buffer_s: Option<f64>,
    buffer_at: Time,
}

impl Player {
    /// Create a player.
    #[must_use]
    pub fn new(spec: &VideoSpec) -> Self {
        Self {
            choices: Choices::new(spec),
            sizes: spec.chunk_bytes.clone(),
            stream: None,
            requested: Time::ZERO,
            buffer_s: None,
            buffer_at: Time::ZERO,
        }
    }

    /// Playing time in the buffer [s].
    #[must_use]
    pub fn buffer_s(&self, now: Time) -> f64 {
        self.buffer_s.map_or(0.0, |buffer| (buffer - now.since(self.buffer_at).as_secs_f64()).max(0.0))
    }

    fn request(&mut self, now: Time, stream: StreamId, actions: &mut Actions) {
        let next = self.choices.next();
        let quality = self.choices.choose(now.as_secs_f64(), self.buffer_s(now));
        let (id, bytes) = (next as u64, self.sizes[quality][next]);
        self.requested = now;
        actions.write(stream, Message { bytes: VIDEO_REQUEST, id, answer_bytes: bytes.0 });
        actions.record(Item { id, kind: Some(kind(quality).into()), start: Some(now), bytes: Some(bytes), ..Item::default() });
    }

    fn arrived(&mut self, now: Time, stream: StreamId, message: Message, first_byte: Time, actions: &mut Actions) {
        actions.record(Item { id: message.id, first_byte: Some(first_byte), completed: Some(now), ..Item::default() });
        self.choices.arrived(Download {
            bytes: message.bytes.0 as f64,
            first_byte_s: first_byte.since(self.requested).as_secs_f64(),
            took_s: now.since(self.requested).as_secs_f64(),
        });
        let buffer_s = self.buffer_s(now) + self.choices.video().chunk_s;
        (self.buffer_s, self.buffer_at) = (Some(buffer_s), now);
        if self.choices.next() == self.choices.video().chunks() {
            actions.close(stream);
            return actions.finish();
        }
        match Nanos::from_secs_f64(buffer_s - self.choices.video().buffer_cap_s) {
            Some(wait) if wait > Nanos::ZERO => actions.set_timer(now + wait, 0),
            _ => self.request(now, stream, actions),
        }
    }
}

impl App for Player {
    fn on_event(&mut self, now: Time, event: &Event, actions: &mut Actions) {
        match *event {
            Event::Started => drop(actions.open()),
            Event::Opened(stream) => {
                self.stream = Some(stream);
                self.request(now, stream, actions);
            }
            Event::Message { stream, message, first_byte } => self.arrived(now, stream, message, first_byte, actions),
            Event::Timer(_) => {
                if let Some(stream) = self.stream {
                    self.request(now, stream, actions);
                }
            }
            _ => {}
        }
    }
}
