//! Packet captures of both ends of the path as pcapng: sent packets as they enter the path, received ones as they leave it. Whole IP packets, with
//! their fate on the path as comments.
//!
//! ```text
//!   relay ── Tap ── bounded channel ──▶ writer thread ──▶ client.pcapng, server.pcapng
//! ```
//! A packet goes to the writer when its fate is known. The relay copies its content and never blocks ([`channel`]). Packets that do not fit the channel
//! are counted, not written.

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

/// Fate of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It left the path.
    Delivered {
        /// From its entry to its due time at the other end.
        delay: Nanos,
        /// When the relay delivered it.
        handed_at: Time,
        /// Delivery time minus due time.
        late: Nanos,
        /// Whether the kernel or the gateway accepted it.
        is_accepted: bool,
        /// The Profile's route that it followed last (index).
        route: u16,
    },
    /// It was dropped.
    Dropped {
        /// Cause.
        cause: DropCause,
        /// Time since its entry.
        after: Nanos,
        /// Profile time of the drop.
        at: Time,
        /// The Profile's route that it followed.
        route: u16,
        /// The hop's position in the route.
        position: u16,
    },
    /// There was no route.
    NoRoute,
    /// It was on the path when the run ended.
    Held,
}

/// Time that a packet spent in one part of a hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StageTime {
    /// The Profile's route that it followed.
    route: u16,
    /// The hop's position in the route.
    position: u16,
    part: Part,
    span: Nanos,
}

/// One packet for the writer. Times are the relay's.
pub(crate) struct Record {
    direction: Direction,
    /// Packet number in its direction.
    number: u64,
    sent: Time,
    content: Content,
    fate: Fate,
    /// For each end: no packet from before this time will follow.
    upto: [Time; 2],
}

/// A packet on the path.
#[derive(Clone, Copy)]
struct Entry {
    direction: Direction,
    sent: Time,
    number: u64,
}

/// Record of the current packet of one of the relay's buffer indices.
struct Transit {
    /// The packet.
    entry: Entry,
    /// Profile time up to which `stage_times` are complete.
    until: Time,
    stage_times: Vec<StageTime>,
}

/// The relay's side of the capture.
pub struct Tap {
    to: RecordSender,
    /// Packets on the path, by direction: entry time and number.
    inside: [BTreeSet<(Time, u64)>; 2],
    next: [u64; 2],
    /// By the relay's buffer index.
    transits: Vec<Transit>,
}

/// Starts the writer's thread.
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
    /// Copies a packet before its delivery, which may change it. `None`: there is no room for it.
    #[must_use]
    pub(crate) fn copy(&mut self, body: u32, packet: &[u8]) -> Option<Content> {
        let stage_times = self.transits.get(body as usize).map_or(&[][..], |transit| &transit.stage_times);
        let mut content = self.to.copy(packet, stage_times.len())?;
        content.stage_times.extend_from_slice(stage_times);
        Some(content)
    }

    /// Records that a packet entered at `sent`, Profile time `packet.at`. Its `body` identifies it until its fate is recorded.
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

    /// Records that a packet finished a stage.
    pub fn record_stage(&mut self, stage: &Stage) {
        let Some(transit) = self.transits.get_mut(stage.body as usize) else { return };
        let span = stage.until.since(transit.until);
        transit.until = stage.until;
        if span.0 > 0 {
            transit.stage_times.push(StageTime { route: stage.route, position: stage.position, part: stage.part, span });
        }
    }

    /// Records a delivery at `handed_at`. Later packets enter at `now` or after.
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

    /// Records a drop.
    pub fn dropped(&mut self, packet: &Packet, content: &[u8], cause: DropCause, now: Time) {
        let (after, at) = (packet.at.since(packet.entered), packet.at);
        let fate = Fate::Dropped { cause, after, at, route: packet.route, position: packet.position };
        let content = self.copy(packet.body, content);
        self.finish(packet.body, content, fate, now);
    }

    /// Records a packet without a route.
    pub fn refused(&mut self, direction: Direction, content: &[u8], now: Time) {
        let number = self.number(direction);
        let content = self.to.copy(content, 0);
        self.send(Entry { direction, sent: now, number }, content, Fate::NoRoute, now);
    }

    /// Records the packets still on the path at the end; `bodies` are the relay's buffers.
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
        // Index 0: up, sent by the client; index 1: down, sent by the server.
        let upto = [oldest(&self.inside[0]), oldest(&self.inside[1])];
        let Entry { direction, sent, number } = entry;
        self.to.send(content.map(|content| Record { direction, number, sent, content, fate, upto }));
    }
}
