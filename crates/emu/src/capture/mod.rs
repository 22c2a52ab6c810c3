//! What passes the two ends of the path, as pcapng: what each end sent, as it enters the path, and what it got, as it leaves; whole IP packets,
//! with what the path did with them as comments.
//!
//! ```text
//!   relay ── Tap ── bounded channel ──▶ writer (a thread of its own) ──▶ client.pcapng, server.pcapng
//! ```
//! A packet goes to the writer when its fate is known, with its content: the relay copies it, and never waits ([`channel`]). What finds no room is
//! counted, not written.

mod channel;
mod comment;
mod order;
mod writer;

pub use writer::{Anchor, CaptureReport, Files};

use crate::device::Buffer;
use crate::error::{EmuError, system};
use bentpipe_link::{DropCause, Packet};
use bentpipe_profile::{Direction, Nanos, Profile, Time};
use channel::Outbox;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It left the path.
    Delivered {
        /// Between entering and when it was due at the other end.
        delay: Nanos,
        /// When it was handed on.
        handed: Time,
        /// How long after it was due.
        late: Nanos,
        /// Whether the kernel, or the gateway, took it.
        taken: bool,
        /// The Profile's route that it followed last.
        route: u16,
    },
    /// It was lost.
    Dropped {
        /// Why.
        cause: DropCause,
        /// How long after it entered.
        after: Nanos,
        /// When, as the Profile has it.
        at: Time,
        /// The Profile's route that it followed.
        route: u16,
        /// The place in it.
        position: u16,
    },
    /// There was no path.
    NoRoute,
    /// It was inside when the run ended.
    Held,
}

/// One packet for the writer. Times are the relay's.
pub(crate) struct Record {
    direction: Direction,
    /// Among those of its direction.
    number: u64,
    sent: Time,
    bytes: Vec<u8>,
    fate: Fate,
    /// Of each end, up to when nothing earlier can come any more.
    upto: [Time; 2],
}

/// A packet inside.
#[derive(Clone, Copy)]
struct Entry {
    direction: Direction,
    sent: Time,
    number: u64,
}

/// The relay's side.
pub struct Tap {
    to: Outbox,
    /// What is inside, by direction: when it entered, and its number.
    inside: [BTreeSet<(Time, u64)>; 2],
    next: [u64; 2],
    /// By the relay's handle to the content.
    entries: Vec<Entry>,
}

/// Starts the writer.
///
/// # Errors
/// No thread left.
pub fn start(files: Files, profile: Arc<Profile>, anchor: Anchor) -> Result<(Tap, JoinHandle<CaptureReport>), EmuError> {
    let (to, from) = channel::channel();
    let thread = thread::Builder::new()
        .name("capture".to_owned())
        .spawn(move || writer::Writer::new(files, profile, anchor).run(from))
        .map_err(system("thread of the capture"))?;
    Ok((Tap { to, inside: [BTreeSet::new(), BTreeSet::new()], next: [0; 2], entries: Vec::new() }, thread))
}

impl Tap {
    /// The content of a packet that is about to be handed on, which may change it. `None`: there is no room for it.
    #[must_use]
    pub fn copy(&mut self, packet: &[u8]) -> Option<Vec<u8>> {
        self.to.copy(packet)
    }

    /// A packet entered at `sent`; the relay knows it as `body` until its fate is told.
    pub fn entered(&mut self, direction: Direction, body: u32, sent: Time) {
        let number = self.number(direction);
        let entry = Entry { direction, sent, number };
        let body = body as usize;
        if body >= self.entries.len() {
            self.entries.resize(body + 1, entry);
        }
        self.entries[body] = entry;
        self.inside[direction as usize].insert((sent, number));
    }

    /// It came out at the other end at `handed`. Nothing that enters from now on does so before `now`.
    pub fn delivered(&mut self, packet: &Packet, content: Option<Vec<u8>>, handed: Time, late: Nanos, taken: bool, now: Time) {
        let fate = Fate::Delivered { delay: packet.at.since(packet.entered), handed, late, taken, route: packet.route };
        self.left(packet.body, content, fate, now);
    }

    /// It was lost.
    pub fn dropped(&mut self, packet: &Packet, content: &[u8], cause: DropCause, now: Time) {
        let (after, at) = (packet.at.since(packet.entered), packet.at);
        let fate = Fate::Dropped { cause, after, at, route: packet.route, position: packet.position };
        let content = self.copy(content);
        self.left(packet.body, content, fate, now);
    }

    /// There was no path for a packet.
    pub fn refused(&mut self, direction: Direction, content: &[u8], now: Time) {
        let number = self.number(direction);
        let content = self.copy(content);
        self.tell(Entry { direction, sent: now, number }, content, Fate::NoRoute, now);
    }

    /// The run is over, and these are still inside: the relay's contents by its handles.
    pub fn close(&mut self, bodies: &[Option<Buffer>], now: Time) {
        for (body, buffer) in (0..).zip(bodies) {
            if let Some(buffer) = buffer {
                let content = self.copy(buffer.packet());
                self.left(body, content, Fate::Held, now);
            }
        }
    }

    fn number(&mut self, direction: Direction) -> u64 {
        let next = &mut self.next[direction as usize];
        *next += 1;
        *next
    }

    fn left(&mut self, body: u32, bytes: Option<Vec<u8>>, fate: Fate, now: Time) {
        let Some(&entry) = self.entries.get(body as usize) else { return };
        self.inside[entry.direction as usize].remove(&(entry.sent, entry.number));
        self.tell(entry, bytes, fate, now);
    }

    fn tell(&mut self, entry: Entry, bytes: Option<Vec<u8>>, fate: Fate, now: Time) {
        let oldest = |inside: &BTreeSet<(Time, u64)>| inside.first().map_or(now, |(sent, _)| *sent).min(now);
        // What the client sends goes up, what the server sends down.
        let upto = [oldest(&self.inside[0]), oldest(&self.inside[1])];
        let Entry { direction, sent, number } = entry;
        self.to.send(bytes.map(|bytes| Record { direction, number, sent, bytes, fate, upto }));
    }
}
