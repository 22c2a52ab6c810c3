//! The player: requests, the buffer, stalls.

use super::{Download, Observation, Policy, Video, kind, policy};
use crate::actions::{Actions, Item};
use crate::app::{App, Event};
use crate::message::{Message, StreamId};
use bentpipe_profile::video::{VIDEO_REQUEST, VideoSpec};
use bentpipe_profile::{Bytes, Nanos, Time};

/// Quality of the first chunk: the second lowest, as the Pensieve player's (`DEFAULT_QUALITY`).
const FIRST_QUALITY: usize = 1;

/// The end that plays. It begins to play when the first chunk is there, and requests a chunk as soon as the one before it has arrived and the
/// buffer is not above its cap.
pub struct Player {
    video: Video,
    sizes: Vec<Vec<Bytes>>,
    policy: Box<dyn Policy>,
    stream: Option<StreamId>,
    next: usize,
    quality: usize,
    requested: Time,
    /// Playing time in the buffer at `buffer_at` [s]; `None`: nothing has been played.
    buffer_s: Option<f64>,
    buffer_at: Time,
    downloads: Vec<Download>,
}

impl Player {
    /// Create a player.
    #[must_use]
    pub fn new(spec: &VideoSpec) -> Self {
        let video = Video::new(spec);
        let quality = FIRST_QUALITY.min(video.qualities() - 1);
        Self {
            video,
            sizes: spec.chunk_bytes.clone(),
            policy: policy(spec),
            stream: None,
            next: 0,
            quality,
            requested: Time::ZERO,
            buffer_s: None,
            buffer_at: Time::ZERO,
            downloads: vec![],
        }
    }

    /// Playing time in the buffer [s].
    #[must_use]
    pub fn buffer_s(&self, now: Time) -> f64 {
        self.buffer_s.map_or(0.0, |buffer| (buffer - now.since(self.buffer_at).as_secs_f64()).max(0.0))
    }

    fn request(&mut self, now: Time, stream: StreamId, actions: &mut Actions) {
        if self.next > 0 {
            let seen = Observation {
                video: &self.video,
                now_s: now.as_secs_f64(),
                next: self.next,
                last_quality: self.quality,
                buffer_s: self.buffer_s(now),
                downloads: &self.downloads,
            };
            self.quality = self.policy.choose(&seen);
        }
        let (id, bytes) = (self.next as u64, self.sizes[self.quality][self.next]);
        self.requested = now;
        actions.write(stream, Message { bytes: VIDEO_REQUEST, id, answer_bytes: bytes.0 });
        actions.record(Item { id, kind: Some(kind(self.quality).into()), start: Some(now), bytes: Some(bytes), ..Item::default() });
    }

    fn arrived(&mut self, now: Time, stream: StreamId, message: Message, first_byte: Time, actions: &mut Actions) {
        actions.record(Item { id: message.id, first_byte: Some(first_byte), completed: Some(now), ..Item::default() });
        self.downloads.push(Download {
            bytes: message.bytes.0 as f64,
            first_byte_s: first_byte.since(self.requested).as_secs_f64(),
            took_s: now.since(self.requested).as_secs_f64(),
        });
        let buffer_s = self.buffer_s(now) + self.video.chunk_s;
        (self.buffer_s, self.buffer_at) = (Some(buffer_s), now);
        self.next += 1;
        if self.next == self.video.chunks() {
            actions.close(stream);
            return actions.finish();
        }
        match Nanos::from_secs_f64(buffer_s - self.video.buffer_cap_s) {
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
