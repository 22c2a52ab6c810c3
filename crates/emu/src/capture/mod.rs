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
mod reorder;
mod writer;

pub(crate) use channel::Content;
pub use writer::{Anchor, CaptureReport, Files};

use crate::device::Buffer;
use crate::error::{EmuError, system};
use bentpipe_link::stages::{Part, Stage};
use bentpipe_link::{DropCause, Packet};
use bentpipe_profile::{Direction, Nanos, Profile, Time};
use channel::RecordSender;
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
        handed_at: Time,
        /// How long after it was due.
        late: Nanos,
        /// Whether the kernel, or the gateway, took it.
        is_accepted: bool,
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

/// Where a packet was, and how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StageTime {
    /// The Profile's route that it followed.
    route: u16,
    /// The place in it.
    position: u16,
    part: Part,
    span: Nanos,
}

/// One packet for the writer. Times are the relay's.
pub(crate) struct Record {
    direction: Direction,
    /// Among those of its direction.
    number: u64,
    sent: Time,
    content: Content,
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

/// Where the packets went that the relay knows by one handle, one after the other.
struct Transit {
    /// The one that has it now.
    entry: Entry,
    /// When it was done with what is known, by the Profile's time.
    until: Time,
    stage_times: Vec<StageTime>,
}

/// The relay's side.
pub struct Tap {
    to: RecordSender,
    /// What is inside, by direction: when it entered, and its number.
    inside: [BTreeSet<(Time, u64)>; 2],
    next: [u64; 2],
    /// By the relay's handle to the content.
    transits: Vec<Transit>,
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
    Ok((Tap { to, inside: [BTreeSet::new(), BTreeSet::new()], next: [0; 2], transits: Vec::new() }, thread))
}

impl Tap {
    /// The content of a packet that is about to be handed on, which may change it. `None`: there is no room for it.
    #[must_use]
    pub(crate) fn copy(&mut self, body: u32, packet: &[u8]) -> Option<Content> {
        let stage_times = self.transits.get(body as usize).map_or(&[][..], |transit| &transit.stage_times);
        let mut content = self.to.copy(packet, stage_times.len())?;
        content.stage_times.extend_from_slice(stage_times);
        Some(content)
    }

    /// A packet entered at `sent`, by the Profile's time at `packet.at`; the relay knows it by its `body` until its fate is told.
    pub fn entered(&mut self, packet: &Packet, sent: Time) {
        let number = self.number(packet.direction);
        let entry = Entry { direction: packet.direction, sent, number };
        let body = packet.body as usize;
        if body >= self.transits.len() {
            self.transits.resize_with(body + 1, || Transit { entry, until: Time::ZERO, stage_times: Vec::new() });
        }
        let transit = &mut self.transits[body];
        (transit.entry, transit.until) = (entry, packet.at);
        transit.stage_times.clear();
        self.inside[packet.direction as usize].insert((sent, number));
    }

    /// A packet is done with a part of its way.
    pub fn record_stage(&mut self, stage: &Stage) {
        let Some(transit) = self.transits.get_mut(stage.body as usize) else { return };
        let span = stage.until.since(transit.until);
        transit.until = stage.until;
        if span.0 > 0 {
            transit.stage_times.push(StageTime { route: stage.route, position: stage.position, part: stage.part, span });
        }
    }

    /// It came out at the other end at `handed`. Nothing that enters from now on does so before `now`.
    pub(crate) fn delivered(
        &mut self,
        packet: &Packet,
        content: Option<Content>,
        handed_at: Time,
        late: Nanos,
        is_accepted: bool,
        now: Time,
    ) {
        let fate = Fate::Delivered { delay: packet.at.since(packet.entered), handed_at, late, is_accepted, route: packet.route };
        self.finish(packet.body, content, fate, now);
    }

    /// It was lost.
    pub fn dropped(&mut self, packet: &Packet, content: &[u8], cause: DropCause, now: Time) {
        let (after, at) = (packet.at.since(packet.entered), packet.at);
        let fate = Fate::Dropped { cause, after, at, route: packet.route, position: packet.position };
        let content = self.copy(packet.body, content);
        self.finish(packet.body, content, fate, now);
    }

    /// There was no path for a packet.
    pub fn refused(&mut self, direction: Direction, content: &[u8], now: Time) {
        let number = self.number(direction);
        let content = self.to.copy(content, 0);
        self.send(Entry { direction, sent: now, number }, content, Fate::NoRoute, now);
    }

    /// The run is over, and these are still inside: the relay's contents by its handles.
    pub fn close(&mut self, bodies: &[Option<Buffer>], now: Time) {
        for (body, buffer) in (0..).zip(bodies) {
            if let Some(buffer) = buffer {
                let content = self.copy(body, buffer.packet());
                self.finish(body, content, Fate::Held, now);
            }
        }
    }

    fn number(&mut self, direction: Direction) -> u64 {
        let next = &mut self.next[direction as usize];
        *next += 1;
        *next
    }

    fn finish(&mut self, body: u32, content: Option<Content>, fate: Fate, now: Time) {
        let Some(transit) = self.transits.get(body as usize) else { return };
        let entry = transit.entry;
        self.inside[entry.direction as usize].remove(&(entry.sent, entry.number));
        self.send(entry, content, fate, now);
    }

    fn send(&mut self, entry: Entry, content: Option<Content>, fate: Fate, now: Time) {
        let oldest = |inside: &BTreeSet<(Time, u64)>| inside.first().map_or(now, |(sent, _)| *sent).min(now);
        // What the client sends goes up, what the server sends down.
        let upto = [oldest(&self.inside[0]), oldest(&self.inside[1])];
        let Entry { direction, sent, number } = entry;
        self.to.send(content.map(|content| Record { direction, number, sent, content, fate, upto }));
    }
}
