//! One end of a link: the sending port of one direction and the receiving port of the other, as an element.

use super::label::{self, FIRST};
use super::receiver::Receiver;
use super::sender::{Sender, Settled};
use crate::marking::Marked;
use crate::overhead::Overhead;
use crate::satguard::timer::BeamTimer;
use crate::wire::CONTROL_BYTES;
use bentpipe_link::{DropCause, Ecn, Element, Packet, Port, Role};
use bentpipe_profile::{Bytes, Nanos, Time};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

/// Parameters of a link end.
#[derive(Clone, Debug)]
pub struct Config {
    /// Whether the receiver keeps order.
    pub is_ordered: bool,
    /// Retransmissions of a lost packet.
    pub copies: u32,
    /// Most holes of a notification that are retransmitted.
    pub holes: u64,
    /// Most dummy packets.
    pub dummies: u32,
    /// Idle time before a dummy packet.
    pub dummy_after: Nanos,
    /// How long an acknowledgement waits for a packet that can carry it.
    pub ack_delay: Nanos,
    /// When a hole is given up, in RTTs of the hop.
    pub timeout_rtts: f64,
    /// Most bytes of copies.
    pub buffer: Bytes,
    /// The protected flows.
    pub marked: Marked,
    /// The port's next number. All links of a beam share it.
    pub port: Arc<AtomicU64>,
}

/// A link end (see the module). Unmarked flows pass it untouched.
pub struct LinkEnd {
    config: Config,
    timers: [BeamTimer; 2],
    sender: Sender<Packet>,
    receiver: Receiver<Packet>,
    /// When an acknowledgement leaves in a packet of its own, and a packet of the link whose fields it takes.
    ack_due: Option<(Time, Packet)>,
    /// Notifications that have not left: their first holes, and until when they count.
    unsent: VecDeque<(u64, Time)>,
    /// When the next dummy packet is due, how many follow, and a packet of the link.
    dummy_due: Option<(Time, u32, Packet)>,
    /// Packets whose copies the sender no longer has, and when the receiver does not hold them any more either. The port does not know which of them have
    /// arrived, but the simulation has to say what became of each.
    forgotten: VecDeque<(Time, Packet)>,
    out: VecDeque<(Port, Packet)>,
    overhead: Arc<Overhead>,
}

impl LinkEnd {
    /// Create an end. `timers`: RTTs of the hop from this end, and from the other.
    #[must_use]
    pub fn new(config: Config, timers: [BeamTimer; 2], overhead: Arc<Overhead>) -> Self {
        Self {
            sender: Sender::new(config.buffer, config.holes),
            receiver: Receiver::new(config.is_ordered),
            config,
            timers,
            ack_due: None,
            unsent: VecDeque::new(),
            dummy_due: None,
            forgotten: VecDeque::new(),
            out: VecDeque::new(),
            overhead,
        }
    }

    /// Return the timeout of a copy (`own`) or of a hole.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // within the bounds of the option
    fn timeout(&mut self, now: Time, own: bool) -> Nanos {
        let rtt = self.timers[usize::from(!own)].threshold(now);
        Nanos((rtt.0 as f64 * self.config.timeout_rtts) as u64)
    }

    fn settle(&mut self, at: Time, settled: Vec<Settled<Packet>>) {
        for fate in settled {
            match fate {
                Settled::Retransmit(number, packet) => {
                    let mut packet = Packet { at, role: Role::Host, ..packet };
                    label::set_number(&mut packet, number);
                    self.overhead.retransmitted.add(u64::from(self.config.copies));
                    for copy in 0..self.config.copies {
                        // The first is the host's packet again; the link ignores what arrives after one of them.
                        let role = if copy == 0 { Role::Host } else { Role::Copy };
                        self.out.push_back((Port::Ahead, Packet { role, ..packet }));
                    }
                }
                Settled::Forget(packet) => {
                    let timeout = self.timeout(at, false);
                    let until = (at + Nanos(2 * timeout.0)).max(self.forgotten.back().map_or(Time::ZERO, |(until, _)| *until));
                    self.forgotten.push_back((until, packet));
                }
            }
        }
    }

    /// Drop forgotten packets. The link ignores the drop of one that has left.
    fn drop_forgotten(&mut self, now: Time) {
        while let Some(&(at, packet)) = self.forgotten.front().filter(|(until, _)| *until <= now) {
            self.forgotten.pop_front();
            self.out.push_back((Port::Drop(DropCause::Loss), Packet { at, role: Role::Host, ..packet }));
        }
    }

    fn arrived(&mut self, at: Time, packet: Packet) {
        let timeout = self.timeout(at, false);
        let mut left = Vec::new();
        let content = (!label::is_dummy(&packet)).then_some((packet, u32::from(packet.bytes)));
        let holes = self.receiver.arrive(at, label::number(&packet), content, timeout, &mut left);
        self.leave(at, left);
        self.overhead.peak_held_bytes.raise(self.receiver.held_bytes());
        if let Some((first, count)) = holes {
            self.send_control(at, &packet, Some((first, count)));
        } else {
            self.ack_due.get_or_insert((at + self.config.ack_delay, packet));
        }
    }

    /// Return the leading acknowledgement. It does not pass holes whose notification has not left yet: the sender would free their copies. A notification that
    /// an event has dropped no longer counts after a timeout.
    fn acknowledgement(&mut self, now: Time) -> Option<u64> {
        while self.unsent.front().is_some_and(|(_, until)| *until <= now) {
            self.unsent.pop_front();
        }
        let ack = self.receiver.acknowledgement()?;
        Some(self.unsent.front().map_or(ack, |(first, _)| ack.min(first - 1)))
    }

    fn leave(&mut self, at: Time, left: Vec<Packet>) {
        self.out.extend(left.into_iter().map(|packet| (Port::Near, Packet { at, ..packet })));
    }

    /// Send a control packet to the other end, as a packet like one that came from there.
    fn send_control(&mut self, at: Time, like: &Packet, holes: Option<(u64, u64)>) {
        let mut control = Packet {
            at,
            bytes: CONTROL_BYTES,
            direction: like.direction.reverse(),
            role: Role::Control,
            ecn: Ecn::NotEct,
            marked: None,
            header: [0; 4],
            ..*like
        };
        if let Some((first, count)) = holes {
            label::set_holes(&mut control, first, count);
            let timeout = self.timeout(at, false);
            self.unsent.push_back((first, at + timeout));
        }
        self.overhead.control_bytes.add(u64::from(CONTROL_BYTES));
        self.ack_due = None;
        self.out.push_back((Port::Ahead, control));
    }

    fn send_dummy(&mut self, at: Time) {
        let Some((_, left, packet)) = self.dummy_due.take_if(|(due, ..)| *due <= at) else { return };
        let mut dummy =
            Packet { at, bytes: CONTROL_BYTES, role: Role::Control, ecn: Ecn::NotEct, marked: None, header: [0; 4], ..packet };
        label::set_number(&mut dummy, self.sender.next());
        label::set_dummy(&mut dummy);
        self.overhead.control_bytes.add(u64::from(CONTROL_BYTES));
        self.out.push_back((Port::Ahead, dummy));
        if left > 1 {
            self.dummy_due = Some((at + self.config.dummy_after, left - 1, packet));
        }
    }
}

impl Element for LinkEnd {
    fn push(&mut self, port: Port, mut packet: Packet) {
        let at = packet.at;
        let is_control = packet.role == Role::Control;
        if !is_control && !self.config.marked.includes(packet.flow) {
            return self.out.push_back((if port == Port::Near { Port::Far } else { Port::Near }, packet));
        }
        if port == Port::Near {
            label::set_fresh(&mut packet);
            return self.out.push_back((Port::Far, packet));
        }
        let (first, count) = label::holes(&packet);
        if is_control && count > 0 {
            let timeout = self.timeout(at, true);
            let settled = self.sender.notified(at, first, count, timeout);
            self.settle(at, settled);
        }
        // The acknowledgement that comes with a notification passes its holes, too.
        if let Some(ack) = label::ack(&packet) {
            let settled = self.sender.acknowledge(ack);
            self.settle(at, settled);
        }
        if packet.role == Role::Copy || label::is_dummy(&packet) {
            self.arrived(at, packet);
        } else if !is_control {
            self.out.push_back((Port::Near, packet));
        }
    }

    fn on_sent(&mut self, packet: &mut Packet) {
        if packet.role == Role::Control {
            if label::holes(packet).1 > 0 {
                self.unsent.pop_front();
            }
            label::set_ack(packet, self.acknowledgement(packet.at));
            return;
        }
        if !self.config.marked.includes(packet.flow) {
            return;
        }
        // A retransmission that migrated from another link is new here.
        let is_own = |kept: &Packet| (kept.body, kept.path, kept.direction) == (packet.body, packet.path, packet.direction);
        if label::is_fresh(packet) || (packet.role == Role::Host && !self.sender.has_retransmitted(label::number(packet), is_own)) {
            label::set_fresh(packet);
            let timeout = self.timeout(packet.at, true);
            let mut copy = Packet { role: Role::Host, ..*packet };
            let number = self.config.port.load(Ordering::Relaxed).max(FIRST);
            label::set_number(&mut copy, number);
            if self.sender.send(packet.at, number, copy, u32::from(packet.bytes), timeout).is_none() {
                self.overhead.unprotected.add(1);
                return;
            }
            self.config.port.store(number + 1, Ordering::Relaxed);
            label::set_number(packet, number);
            self.overhead.protected.add(1);
            self.overhead.peak_buffer_bytes.raise(self.sender.bytes());
            if self.config.dummies > 0 {
                self.dummy_due = Some((packet.at + self.config.dummy_after, self.config.dummies, *packet));
            }
        }
        label::set_ack(packet, self.acknowledgement(packet.at));
        self.ack_due = None;
        packet.role = Role::Copy;
    }

    fn pop(&mut self, now: Time) -> Option<(Port, Packet)> {
        if let Some(out) = self.out.pop_front() {
            return Some(out);
        }
        let settled = self.sender.expire(now);
        self.settle(now, settled);
        let (mut left, before) = (Vec::new(), self.receiver.skipped());
        self.receiver.expire(now, &mut left);
        self.overhead.skipped.add(self.receiver.skipped() - before);
        self.leave(now, left);
        if let Some((_, packet)) = self.ack_due.take_if(|(due, _)| *due <= now) {
            self.send_control(now, &packet, None);
        }
        self.send_dummy(now);
        self.drop_forgotten(now);
        self.out.pop_front()
    }

    fn wake_at(&self) -> Option<Time> {
        if let Some((_, packet)) = self.out.front() {
            return Some(packet.at);
        }
        let ack = self.ack_due.as_ref().map(|(due, _)| *due);
        let dummy = self.dummy_due.as_ref().map(|(due, ..)| *due);
        let forgotten = self.forgotten.front().map(|(until, _)| *until);
        [self.sender.wake_at(), self.receiver.wake_at(), ack, dummy, forgotten].into_iter().flatten().min()
    }

    fn packets(&self) -> usize {
        self.sender.copies() + self.forgotten.len() + self.out.len()
    }
}
