//! A video call: both ends send video to each other over datagrams, as two browsers do with WebRTC.
//!
//! | module | holds |
//! |---|---|
//! | [`packet`] | media, feedback, requests for packets and key frames |
//! | [`encoder`] | sizes of the frames |
//! | [`sender`] | pacing, retransmission on request, and [`gcc`]; at the start, [`probe`] |
//! | [`receiver`] | feedback and frames: [`missing`] packets, [`frames`], the [`jitter`] buffer and the line of [`arrivals`] |
//! | [`repair`] | redundancy (FEC), at both |
//!
//! Each frame is an item. Left out: sound and changes of resolution.

pub mod arrivals;
pub mod encoder;
pub mod frames;
pub mod gcc;
pub mod jitter;
pub mod missing;
pub mod packet;
pub mod probe;
pub mod receiver;
pub mod repair;
pub mod sender;
#[cfg(test)]
mod tests;

use self::packet::CallPacket;
use self::receiver::Receiver;
use self::sender::Sender;
use crate::actions::Actions;
use crate::app::{App, Event};
use bentpipe_profile::Time;
use bentpipe_profile::app::CallSpec;
use bentpipe_profile::rng::Stream;

/// Numbers of the items are those of the frames; those of the frames against the flow's direction begin here.
pub const REVERSE: u64 = 1 << 32;

/// Timers of an end.
const FRAME: u64 = 0;
/// A frame is encoded.
const ENCODED: u64 = 5;
const PACE: u64 = 1;
const FEEDBACK: u64 = 2;
const NACK: u64 = 3;
const RELEASE: u64 = 4;

/// One end of a call.
pub struct Call {
    /// `None`: this end sends no video.
    sender: Option<Sender>,
    receiver: Receiver,
}

impl Call {
    /// Create the end that sends in the flow's direction (`reverse` false), or the other one.
    #[must_use]
    pub fn new(spec: &CallSpec, reverse: bool, draws: Stream) -> Self {
        let first_item = |reverse| if reverse { REVERSE } else { 0 };
        let sends = !reverse || spec.both_ways;
        Self { sender: sends.then(|| Sender::new(spec, first_item(reverse), draws)), receiver: Receiver::new(spec, first_item(!reverse)) }
    }

    fn on_packet(&mut self, now: Time, packet: CallPacket, actions: &mut Actions) {
        match packet {
            CallPacket::Media(media) => self.receiver.on_media(now, &media, actions),
            CallPacket::Repair(repair) => self.receiver.on_repair(now, &repair, actions),
            CallPacket::Padding(sent_as, _) => self.receiver.on_transmission(now, sent_as, actions),
            CallPacket::Feedback(feedback) => self.with_sender(|sender| sender.on_feedback(now, &feedback, actions)),
            CallPacket::Nack(numbers) => self.with_sender(|sender| sender.on_nack(now, &numbers, actions)),
            CallPacket::KeyFrameRequest => self.with_sender(Sender::on_key_frame_request),
        }
    }

    fn with_sender(&mut self, act: impl FnOnce(&mut Sender)) {
        if let Some(sender) = &mut self.sender {
            act(sender);
        }
    }
}

impl App for Call {
    fn on_event(&mut self, now: Time, event: &Event, actions: &mut Actions) {
        match event {
            Event::Started | Event::Timer(FRAME) => self.with_sender(|sender| sender.on_frame(now, actions)),
            Event::Timer(ENCODED) => self.with_sender(|sender| sender.on_encoded(now, actions)),
            Event::Timer(PACE) => self.with_sender(|sender| sender.send_due(now, actions)),
            Event::Timer(FEEDBACK) => self.receiver.send_feedback(now, actions),
            Event::Timer(NACK) => self.receiver.send_nacks(now, actions),
            Event::Timer(RELEASE) => self.receiver.release(now, actions),
            Event::Datagram(datagram) => {
                if let Some(packet) = CallPacket::read(datagram) {
                    self.on_packet(now, packet, actions);
                }
            }
            _ => {}
        }
    }
}
