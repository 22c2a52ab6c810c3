//! The sending half of an end: frames become packets, a pacer spreads them, and lost ones are retransmitted when the receiver asks for them.

use super::encoder::Encoder;
use super::gcc::{Arrived, Gcc};
use super::packet::{CallPacket, Feedback, MEDIA_HEADER_BYTES, MOST_BYTES, Media, REPAIR_BYTES, Repair};
use super::probe::{PADDING_BYTES, Probe};
use super::repair::{Protection, repairs};
use super::{ENCODED, FRAME, PACE};
use crate::actions::{Actions, Item};
use bentpipe_profile::app::CallSpec;
use bentpipe_profile::rng::Stream;
use bentpipe_profile::{Bytes, Nanos, Time};
use std::collections::VecDeque;

/// The pacer sends at this multiple of the target rate, so that a frame leaves before the next one comes (libwebrtc).
const PACING: f64 = 2.5;
/// What the pacer sends at once: what its rate lets through in this time (libwebrtc's `kDefaultBurstInterval`).
const BURST: Nanos = Nanos::from_millis(40);
/// What waits in the pacer leaves within this time, at whatever rate that needs (libwebrtc).
const LONGEST_WAIT_S: f64 = 2.0;
/// Media packets kept for retransmission.
const MOST_KEPT: usize = 1000;
/// Transmissions kept until they are reported.
const MOST_UNREPORTED: usize = 10_000;
/// RTT before the first feedback.
const FIRST_RTT: Nanos = Nanos::from_millis(100);

/// A media packet that may be asked for again.
#[derive(Clone, Copy, Debug)]
struct Kept {
    media: Media,
    last_sent: Time,
}

/// What the pacer sends next.
#[derive(Clone, Copy, Debug)]
enum Outgoing {
    Media(Media),
    Repair(Repair),
    Padding,
}

impl Outgoing {
    const fn bytes(&self) -> u32 {
        match self {
            Self::Media(media) => media.bytes,
            Self::Repair(repair) => repair.of.bytes + REPAIR_BYTES,
            Self::Padding => PADDING_BYTES,
        }
    }
}

/// The sending half.
pub struct Sender {
    encoder: Encoder,
    gcc: Gcc,
    probe: Probe,
    /// `None`: no redundancy.
    protection: Option<Protection>,
    max_bps: f64,
    encode: Nanos,
    /// Packets of frames that are being encoded, and when each frame is.
    encoding: VecDeque<(Time, Vec<Outgoing>)>,
    frame_every: Nanos,
    first_item: u64,
    due: Time,
    frame: u32,
    next_number: u32,
    next_sent_as: u32,
    /// Packets that wait for the pacer: retransmissions before new ones.
    urgent: VecDeque<u32>,
    waiting: VecDeque<Outgoing>,
    waiting_bytes: u64,
    /// When the pacer may send again.
    free_at: Time,
    pace_set: Option<Time>,
    /// Numbers in a row; the last is that of the newest media packet sent.
    kept: VecDeque<Kept>,
    /// Send time and size of transmissions that are not reported yet, and the number of the first.
    unreported: VecDeque<(Time, u32)>,
    first_unreported: u32,
    rtt: Option<Nanos>,
}

impl Sender {
    /// Create it. `first_item`: number of its first frame's item.
    #[must_use]
    pub fn new(spec: &CallSpec, first_item: u64, draws: Stream) -> Self {
        Self {
            encoder: Encoder::new(draws),
            gcc: Gcc::new(spec.start_bps as f64),
            probe: Probe::new(spec.start_bps as f64, spec.max_bps as f64),
            protection: spec.has_fec.then(Protection::default),
            max_bps: spec.max_bps as f64,
            encode: spec.encode_ns,
            encoding: VecDeque::new(),
            frame_every: Nanos(1_000_000_000 / u64::from(spec.fps)),
            first_item,
            due: Time::ZERO,
            frame: 0,
            next_number: 0,
            next_sent_as: 0,
            urgent: VecDeque::new(),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            free_at: Time::ZERO,
            pace_set: None,
            kept: VecDeque::new(),
            unreported: VecDeque::new(),
            first_unreported: 0,
            rtt: None,
        }
    }

    /// Encode the frame that is captured now.
    #[allow(clippy::cast_possible_truncation)] // a frame has far fewer packets than 2^16
    pub fn on_frame(&mut self, now: Time, actions: &mut Actions) {
        let captured = if self.frame == 0 { now } else { self.due };
        let rtt = self.rtt.unwrap_or(FIRST_RTT);
        let frame_s = self.frame_every.as_secs_f64();
        let mean_bytes = |bps: f64| bps / 8.0 * frame_s;
        let wanted = mean_bytes(self.gcc.target_bps().min(self.max_bps));
        let is_key = self.encoder.wants_key();
        let mut share = |is_key| self.protection.as_mut().map_or(0.0, |protection| protection.share(now, rtt, wanted, is_key));
        // The target is for both; the highest rate is that of the video.
        let media_bps = (self.gcc.target_bps() * (1.0 - share(false))).min(self.max_bps);
        let share = share(is_key);
        let frame = self.encoder.encode(mean_bytes(media_bps));
        let room = MOST_BYTES - MEDIA_HEADER_BYTES;
        let count = frame.bytes.div_ceil(room);
        let first = self.next_number;
        let media = |index: u32| Media {
            number: first + index,
            sent_as: 0,
            frame: self.frame,
            first,
            count: count as u16,
            is_key: frame.is_key,
            captured,
            rtt,
            // Packets of a frame have about the same size.
            bytes: frame.bytes * (index + 1) / count - frame.bytes * index / count + MEDIA_HEADER_BYTES,
        };
        let redundant = repairs(count as u16, share);
        let of = Media { number: first, bytes: frame.bytes.div_ceil(count) + MEDIA_HEADER_BYTES, ..media(0) };
        let repairs = (0..redundant).map(|index| Outgoing::Repair(Repair { of, index, count: redundant }));
        let packets = (0..count).map(|index| Outgoing::Media(media(index))).chain(repairs).collect();
        self.encoding.push_back((captured + self.encode, packets));
        actions.set_timer(captured + self.encode, ENCODED);
        self.next_number += count;
        let id = self.first_item + u64::from(self.frame);
        let kind = if self.first_item == 0 { "frame" } else { "frame-reverse" };
        let bytes = Some(Bytes(u64::from(frame.bytes)));
        actions.record(Item { id, kind: Some(kind.into()), start: Some(captured), bytes, ..Item::default() });
        self.frame += 1;
        self.due = captured + self.frame_every;
        actions.set_timer(self.due, FRAME);
    }

    /// Give the packets of encoded frames to the pacer.
    pub fn on_encoded(&mut self, now: Time, actions: &mut Actions) {
        while self.encoding.front().is_some_and(|(at, _)| *at <= now) {
            let packets = self.encoding.pop_front().map(|(_, packets)| packets).unwrap_or_default();
            self.waiting_bytes += packets.iter().map(|packet| u64::from(packet.bytes())).sum::<u64>();
            self.waiting.extend(packets);
        }
        self.send_due(now, actions);
    }

    /// Send what the pacer lets through, and set its timer for the rest.
    pub fn send_due(&mut self, now: Time, actions: &mut Actions) {
        if self.pace_set.is_some_and(|at| at <= now) {
            self.pace_set = None;
        }
        self.probe.begin();
        let paced_bps = (PACING * self.gcc.target_bps()).max(self.waiting_bytes as f64 * 8.0 / LONGEST_WAIT_S);
        loop {
            let probed_bps = self.probe.sends_at();
            let ahead = if probed_bps.is_some() { Nanos::ZERO } else { BURST };
            if self.free_at > now + ahead {
                break;
            }
            let Some(packet) = self.next_packet(now).or_else(|| probed_bps.map(|_| Outgoing::Padding)) else { return };
            let bits = f64::from(self.transmit(now, packet, actions)) * 8.0;
            let pacing_bps = probed_bps.unwrap_or(paced_bps);
            self.free_at = self.free_at.max(now) + Nanos::from_secs_f64(bits / pacing_bps).unwrap_or(Nanos::from_secs(1));
        }
        if self.pace_set.is_none() && (self.probe.sends_at().is_some() || !(self.waiting.is_empty() && self.urgent.is_empty())) {
            let ahead = if self.probe.sends_at().is_some() { Nanos::ZERO } else { BURST };
            let at = Time(self.free_at.0.saturating_sub(ahead.0)).max(now);
            self.pace_set = Some(at);
            actions.set_timer(at, PACE);
        }
    }

    fn next_packet(&mut self, now: Time) -> Option<Outgoing> {
        while let Some(number) = self.urgent.pop_front() {
            if let Some(kept) = self.kept_packet(number) {
                kept.last_sent = now;
                return Some(Outgoing::Media(kept.media));
            }
        }
        let packet = self.waiting.pop_front()?;
        self.waiting_bytes -= u64::from(packet.bytes());
        if let Outgoing::Media(media) = packet {
            self.kept.push_back(Kept { media, last_sent: now });
            if self.kept.len() > MOST_KEPT {
                self.kept.pop_front();
            }
        }
        Some(packet)
    }

    fn kept_packet(&mut self, number: u32) -> Option<&mut Kept> {
        let first = self.kept.front()?.media.number;
        self.kept.get_mut(number.checked_sub(first)? as usize)
    }

    /// Send a packet, and return its size.
    fn transmit(&mut self, now: Time, packet: Outgoing, actions: &mut Actions) -> u32 {
        let sent_as = self.next_sent_as;
        self.next_sent_as += 1;
        let (bytes, rtt) = (packet.bytes(), self.rtt.unwrap_or(FIRST_RTT));
        let packet = match packet {
            Outgoing::Media(media) => CallPacket::Media(Media { sent_as, rtt, ..media }),
            Outgoing::Repair(repair) => CallPacket::Repair(Repair { of: Media { sent_as, rtt, ..repair.of }, ..repair }),
            Outgoing::Padding => CallPacket::Padding(sent_as, PADDING_BYTES),
        };
        self.probe.on_sent(sent_as);
        self.unreported.push_back((now, bytes));
        if self.unreported.len() > MOST_UNREPORTED {
            self.unreported.pop_front();
            self.first_unreported += 1;
        }
        actions.send(packet.datagram());
        bytes
    }

    /// Take in a report of arrivals.
    pub fn on_feedback(&mut self, now: Time, feedback: &Feedback, actions: &mut Actions) {
        let mut probed = None;
        let mut arrived = Vec::with_capacity(feedback.arrivals.len());
        let mut newest: Option<(Time, Time)> = None;
        for (offset, at) in (0_u32..).zip(&feedback.arrivals) {
            let number = feedback.first.saturating_add(offset);
            let index = number.checked_sub(self.first_unreported);
            let (Some(&(sent, bytes)), Some(at)) = (index.and_then(|index| self.unreported.get(index as usize)), *at) else { continue };
            arrived.push(Arrived { sent, at, bytes });
            probed = self.probe.on_arrival(number, Arrived { sent, at, bytes }).or(probed);
            if newest.is_none_or(|(before, _)| at >= before) {
                newest = Some((at, sent));
            }
        }
        if let Some((_, sent)) = newest {
            let rtt = now.since(sent).saturating_sub(feedback.held);
            self.rtt = Some(self.rtt.map_or(rtt, |smoothed| Nanos((smoothed.0 * 7 + rtt.0) / 8)));
        }
        let reported = feedback.arrivals.len();
        let lost = feedback.arrivals.iter().filter(|at| at.is_none()).count();
        if let Some(protection) = &mut self.protection {
            protection.on_report(now, reported, lost);
        }
        let lost_share = if reported == 0 { 0.0 } else { lost as f64 / reported as f64 };
        self.gcc.on_feedback(now, &arrived, lost_share, self.rtt.unwrap_or(FIRST_RTT));
        if let Some(probed_bps) = probed {
            self.gcc.set_probed(probed_bps);
        }
        let end = u32::try_from(reported).ok().and_then(|reported| feedback.first.checked_add(reported)).unwrap_or(0);
        while self.first_unreported < end && self.unreported.pop_front().is_some() {
            self.first_unreported += 1;
        }
        self.probe.on_reported(end);
        self.send_due(now, actions);
    }

    /// Send packets again that the receiver asks for, unless that happened within an RTT.
    pub fn on_nack(&mut self, now: Time, numbers: &[u32], actions: &mut Actions) {
        let rtt = self.rtt.unwrap_or(FIRST_RTT);
        for &number in numbers {
            let is_due = self.kept_packet(number).is_some_and(|kept| now.since(kept.last_sent) >= rtt);
            if is_due && !self.urgent.contains(&number) {
                self.urgent.push_back(number);
            }
        }
        self.send_due(now, actions);
    }

    /// Make the next frame a key frame.
    pub const fn on_key_frame_request(&mut self) {
        self.encoder.request_key_frame();
    }
}
