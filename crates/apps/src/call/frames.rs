//! Frames that arrive packet by packet, and which of them can be decoded.

use super::packet::{Media, Repair};
use bentpipe_profile::Time;
use std::collections::{BTreeMap, BTreeSet};

/// Most frames that wait, for a jitter buffer of ten seconds; the oldest is dropped.
const MOST_FRAMES: usize = 600;

/// A frame of which a packet has arrived.
#[derive(Clone, Debug)]
pub struct Frame {
    /// Arrival of its first packet.
    pub first_arrival: Time,
    /// When it was captured.
    pub captured: Time,
    /// Whether it needs no other frame.
    pub is_key: bool,
    /// Number of its first packet, and of the first one after it.
    pub packets: (u32, u32),
    /// Bytes that arrived.
    pub bytes: u32,
    /// Whether a packet of it was retransmitted.
    pub was_retransmitted: bool,
    /// When it was complete; `None`: it is not.
    pub complete: Option<Time>,
    arrived: BTreeSet<u32>,
    repairs: Vec<Repair>,
}

/// The frames that have not been decoded.
#[derive(Debug, Default)]
pub struct Frames {
    frames: BTreeMap<u32, Frame>,
    /// Number of the next frame in order; `None`: the first key frame is awaited.
    next: Option<u32>,
}

impl Frames {
    /// Take in a packet; `late`: it was asked for. Returns the frame if this completes it.
    pub fn add(&mut self, now: Time, media: &Media, late: bool) -> Option<&Frame> {
        let frame = self.frame_of(now, media)?;
        let is_own = (frame.packets.0..frame.packets.1).contains(&media.number);
        if !is_own || !frame.arrived.insert(media.number) {
            return None; // a packet that came twice, or contradicts the others
        }
        frame.bytes += media.bytes;
        frame.was_retransmitted |= late;
        if frame.arrived.len() == (frame.packets.1 - frame.packets.0) as usize {
            frame.complete = Some(now);
        }
        self.frames.get(&media.frame).filter(|frame| frame.complete.is_some())
    }

    /// Take in a repair packet.
    pub fn add_repair(&mut self, now: Time, repair: &Repair) {
        if let Some(frame) = self.frame_of(now, &repair.of).filter(|frame| frame.complete.is_none()) {
            frame.repairs.push(*repair);
        }
    }

    /// Return a packet of a frame that a repair packet gives: the only one that it covers and that has not arrived.
    #[must_use]
    pub fn repaired(&self, frame: u32) -> Option<Media> {
        let frame = self.frames.get(&frame).filter(|frame| frame.complete.is_none())?;
        frame.repairs.iter().find_map(|repair| {
            let mut missing = repair.covers().filter(|number| !frame.arrived.contains(number));
            let number = missing.next()?;
            missing.next().is_none().then_some(Media { number, ..repair.of })
        })
    }

    /// Return the frame that a packet belongs to; `None`: it is decoded, or was given up.
    fn frame_of(&mut self, now: Time, media: &Media) -> Option<&mut Frame> {
        if self.next.is_some_and(|next| media.frame < next) {
            return None;
        }
        if self.frames.len() >= MOST_FRAMES && !self.frames.contains_key(&media.frame) {
            self.frames.pop_first();
        }
        Some(self.frames.entry(media.frame).or_insert_with(|| Frame {
            first_arrival: now,
            captured: media.captured,
            is_key: media.is_key,
            packets: (media.first, media.first.saturating_add(u32::from(media.count))),
            bytes: 0,
            was_retransmitted: false,
            complete: None,
            arrived: BTreeSet::new(),
            repairs: Vec::new(),
        }))
    }

    /// Return the next frame that can be decoded: complete, and the one after the last decoded, or a key frame.
    #[must_use]
    pub fn decodable(&self) -> Option<(u32, &Frame)> {
        let in_order = self.next.and_then(|next| self.frames.get_key_value(&next)).filter(|(_, frame)| frame.complete.is_some());
        let decodable = in_order.or_else(|| self.frames.iter().find(|(_, frame)| frame.is_key && frame.complete.is_some()));
        decodable.map(|(&number, frame)| (number, frame))
    }

    /// Take out a frame that is decoded, and drop those before it. Returns the number of the first packet after it.
    pub fn decode(&mut self, number: u32) -> Option<(Frame, u32)> {
        let frame = self.frames.remove(&number)?;
        self.frames = self.frames.split_off(&number);
        self.next = Some(number + 1);
        let after = frame.packets.1;
        Some((frame, after))
    }
}
