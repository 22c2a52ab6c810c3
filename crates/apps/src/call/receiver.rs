//! The receiving half of an end: it reports arrivals, asks for what is missing, and releases frames from the jitter buffer.

use super::frames::Frames;
use super::jitter::{Jitter, Released};
use super::missing::{Missing, Shown};
use super::packet::{CallPacket, Feedback, MOST_REPORTED, Media, Repair};
use super::{FEEDBACK, NACK, RELEASE};
use crate::actions::{Actions, Item};
use bentpipe_profile::app::CallSpec;
use bentpipe_profile::{Nanos, Time};
use std::collections::BTreeMap;

/// Interval of feedback: libwebrtc's shortest, which 5 % of the rate of a call allows.
const FEEDBACK_EVERY: Nanos = Nanos::from_millis(50);
/// Without a frame that can be decoded for this time, the receiver asks for a key frame; then again after [`KEY_AGAIN`].
const STALLED: Nanos = Nanos::from_secs(3);
const KEY_AGAIN: Nanos = Nanos::from_millis(200);

/// The receiving half.
pub struct Receiver {
    first_item: u64,
    decode_and_display: Nanos,
    /// Arrivals not reported yet, by number of transmission; and the first number to report next.
    arrivals: BTreeMap<u32, Time>,
    next_report: u32,
    newest: Time,
    feedback_set: bool,
    missing: Missing,
    nack_set: Option<Time>,
    frames: Frames,
    jitter: Jitter,
    rtt: Nanos,
    release_set: Option<Time>,
    /// When the last frame was released, or the first packet arrived.
    last_progress: Option<Time>,
    key_requested: Option<Time>,
    awaits_key: bool,
}

impl Receiver {
    /// Create it. `first_item`: number of the first frame's item.
    #[must_use]
    pub fn new(spec: &CallSpec, first_item: u64) -> Self {
        let decode_and_display = spec.decode_ns + spec.display_ns;
        Self {
            first_item,
            decode_and_display,
            arrivals: BTreeMap::new(),
            next_report: 0,
            newest: Time::ZERO,
            feedback_set: false,
            missing: Missing::default(),
            nack_set: None,
            frames: Frames::default(),
            jitter: Jitter::new(spec.decode_ns, spec.holds_rtt),
            rtt: Nanos::from_millis(100),
            release_set: None,
            last_progress: None,
            key_requested: None,
            awaits_key: false,
        }
    }

    /// Take in a media packet.
    pub fn on_media(&mut self, now: Time, media: &Media, actions: &mut Actions) {
        self.rtt = media.rtt;
        self.last_progress.get_or_insert(now);
        self.on_transmission(now, media.sent_as, actions);
        self.take_in(now, media, actions);
        self.repair(now, media.frame, actions);
    }

    /// Take in a repair packet.
    pub fn on_repair(&mut self, now: Time, repair: &Repair, actions: &mut Actions) {
        self.last_progress.get_or_insert(now);
        self.on_transmission(now, repair.of.sent_as, actions);
        self.frames.add_repair(now, repair);
        self.repair(now, repair.of.frame, actions);
    }

    fn repair(&mut self, now: Time, frame: u32, actions: &mut Actions) {
        while let Some(media) = self.frames.repaired(frame) {
            self.take_in(now, &media, actions);
        }
        self.release(now, actions);
        self.request_key_frame(now, actions);
    }

    /// Take in a media packet that arrived or was repaired. A repaired one that had been asked for counts as retransmitted, as in libwebrtc.
    fn take_in(&mut self, now: Time, media: &Media, actions: &mut Actions) {
        let shown = self.missing.on_arrival(now, media.number);
        self.awaits_key |= shown == Shown::TooMany;
        if let Some(frame) = self.frames.add(now, media, shown == Shown::Late) {
            self.jitter.on_complete(now, frame.captured, frame.was_retransmitted);
        }
        if shown != Shown::Nothing {
            self.send_nacks(now, actions);
        }
    }

    /// Take in the arrival of a transmission, for the next feedback.
    pub fn on_transmission(&mut self, now: Time, sent_as: u32, actions: &mut Actions) {
        if sent_as < self.next_report {
            return; // reported as lost
        }
        self.arrivals.insert(sent_as, now);
        self.newest = now;
        if !self.feedback_set {
            self.feedback_set = true;
            actions.set_timer(now + FEEDBACK_EVERY, FEEDBACK);
        }
    }

    /// Report the arrivals since the last feedback.
    pub fn send_feedback(&mut self, now: Time, actions: &mut Actions) {
        self.feedback_set = false;
        let held = now.since(self.newest);
        while let Some(last) = self.arrivals.last_key_value().map(|(&number, _)| number) {
            let first = self.next_report.min(self.arrivals.first_key_value().map_or(last, |(&first, _)| first));
            #[allow(clippy::cast_possible_truncation)] // 500
            let end = (last + 1).min(first.saturating_add(MOST_REPORTED as u32));
            let arrivals = (first..end).map(|number| self.arrivals.remove(&number)).collect();
            self.next_report = end;
            actions.send(CallPacket::Feedback(Feedback { first, held, arrivals }).datagram());
        }
    }

    /// Ask for the missing packets that are due.
    pub fn send_nacks(&mut self, now: Time, actions: &mut Actions) {
        if self.nack_set.is_some_and(|at| at <= now) {
            self.nack_set = None;
        }
        let (due, gave_up) = self.missing.take_due(now, self.rtt.max(Nanos::from_millis(1)));
        self.awaits_key |= gave_up;
        if !due.is_empty() {
            actions.send(CallPacket::Nack(due).datagram());
        }
        if let Some(at) = self.missing.next_due().filter(|&at| self.nack_set.is_none_or(|set| at < set)) {
            self.nack_set = Some(at);
            actions.set_timer(at, NACK);
        }
        self.request_key_frame(now, actions);
    }

    /// Release the frames whose time has come, and set the timer for the next one.
    pub fn release(&mut self, now: Time, actions: &mut Actions) {
        if self.release_set.is_some_and(|at| at <= now) {
            self.release_set = None;
        }
        while let Some((number, frame)) = self.frames.decodable() {
            let due = self.jitter.release_at(now, frame.captured);
            if due > now {
                if self.release_set.is_none_or(|set| due < set) {
                    self.release_set = Some(due);
                    actions.set_timer(due, RELEASE);
                }
                return;
            }
            let Some((frame, next_packet)) = self.frames.decode(number) else { return };
            self.missing.forget_before(next_packet);
            let released = Released {
                captured: frame.captured,
                complete: frame.complete.unwrap_or(now),
                bytes: frame.bytes,
                was_retransmitted: frame.was_retransmitted,
            };
            self.jitter.on_release(now, due, released, self.rtt);
            self.last_progress = Some(now);
            self.awaits_key &= !frame.is_key;
            let id = self.first_item + u64::from(number);
            let shown = now + self.decode_and_display;
            actions.record(Item { id, first_byte: Some(frame.first_arrival), completed: Some(shown), ..Item::default() });
        }
    }

    fn request_key_frame(&mut self, now: Time, actions: &mut Actions) {
        let is_stalled = self.last_progress.is_some_and(|at| now.since(at) >= STALLED);
        let requested_lately = self.key_requested.is_some_and(|at| now.since(at) < KEY_AGAIN.max(self.rtt));
        if (self.awaits_key || is_stalled) && !requested_lately {
            self.key_requested = Some(now);
            actions.send(CallPacket::KeyFrameRequest.datagram());
        }
    }
}
