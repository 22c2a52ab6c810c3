//! One end of a link: the upstream end of one direction and the downstream end of the other, as an element.

use super::downstream::Downstream;
use super::handover::{Handover, Message, Transfer};
use super::label;
use super::notices::{Notice, Notices};
use super::timer::BeamTimer;
use super::upstream::{Acknowledged, Detection, Limits, Lost, Upstream, on_wire};
use crate::marking::Marked;
use crate::overhead::Overhead;
use crate::wire::CONTROL_BYTES;
use bentpipe_link::event::{PathEvent, Scope};
use bentpipe_link::{DropCause, Ecn, Element, Packet, Port, Role};
use bentpipe_profile::{Nanos, Time};
use std::collections::VecDeque;
use std::sync::Arc;

/// Parameters of a link end.
#[derive(Clone, Debug)]
pub struct Config {
    /// Of the upstream end.
    pub limits: Limits,
    /// How long an acknowledgement waits for a packet that can carry it.
    pub ack_delay: Nanos,
    /// The protected flows.
    pub marked: Marked,
    /// Added to each timer: how late real nodes may be.
    pub slack: Nanos,
}

/// A link end (see the module). Unmarked flows pass it untouched.
pub struct LinkEnd {
    config: Config,
    timer: BeamTimer,
    upstream: Upstream<Packet>,
    downstream: Downstream,
    /// When an acknowledgement leaves in a packet of its own, and a packet of the link whose fields it takes.
    ack_due: Option<(Time, Packet)>,
    /// Handovers ahead, in order of the time at which copying begins.
    cache: VecDeque<Handover>,
    transfers: Vec<Transfer<Packet>>,
    /// Paths that have left the link with copies here and without a migration: what is lost is given up.
    left: Vec<Scope>,
    out: VecDeque<(Port, Packet)>,
    overhead: Arc<Overhead>,
    /// What its node has to know, if it is one of several processes.
    notices: Option<Notices>,
}

impl LinkEnd {
    /// Create an end. `cache`: the handovers of the paths whose packets it sends.
    #[must_use]
    pub fn new(config: Config, timer: BeamTimer, mut cache: Vec<Handover>, overhead: Arc<Overhead>) -> Self {
        cache.sort_unstable();
        Self {
            upstream: Upstream::new(config.limits),
            config,
            timer,
            downstream: Downstream::default(),
            ack_due: None,
            cache: cache.into(),
            transfers: Vec::new(),
            left: Vec::new(),
            out: VecDeque::new(),
            overhead,
            notices: None,
        }
    }

    /// Pass the messages of migrations to other nodes, and what happens to kept packets, to `notices`.
    #[must_use]
    pub fn at_node(self, notices: Notices) -> Self {
        Self { notices: Some(notices), ..self }
    }

    fn notify(&self, notice: Notice) {
        if let Some(notices) = &self.notices {
            notices.push(notice);
        }
    }

    /// Return whether another process runs the next upstream end of a handover.
    const fn is_remote(&self, handover: &Handover) -> bool {
        self.notices.is_some() && handover.rate.is_some()
    }

    /// Return the longest wait for an acknowledgement. Where gaps show losses, the timer only finds those at the end of a burst, and may be late.
    fn timeout(&mut self, now: Time) -> Nanos {
        let threshold = self.timer.threshold(now) + self.config.slack;
        if self.config.limits.detection == Detection::Gaps { Nanos(2 * threshold.0) } else { threshold }
    }

    /// Retransmit lost packets, or give them up.
    fn recover(&mut self, at: Time, lost: Vec<Lost<Packet>>) {
        for Lost { packet, number, tries, is_final } in lost {
            for transfer in self.transfers.iter_mut().filter(|transfer| transfer.handover.path == packet.path) {
                transfer.withdraw(at, number);
            }
            let mut packet = Packet { at, role: Role::Host, ..packet };
            let has_left = self.left.iter().any(|scope| scope.concerns(&packet));
            if is_final || has_left {
                self.notify(Notice::Freed(packet.body));
                self.overhead.given_up.add(1);
                self.out.push_back((Port::Drop(if has_left { DropCause::Event } else { DropCause::Loss }), packet));
            } else {
                self.overhead.retransmitted.add(1);
                label::set_tries(&mut packet, tries);
                self.out.push_back((Port::Ahead, packet));
            }
        }
    }

    /// Begin the migrations that are due.
    fn begin_transfers(&mut self, now: Time) {
        while let Some(&handover) = self.cache.front().filter(|handover| handover.copy_from <= now) {
            self.cache.pop_front();
            let mut transfer = Transfer::new(handover);
            for (number, packet) in self.upstream.kept().filter(|(_, packet)| packet.path == handover.path) {
                copy(&mut transfer, &self.overhead, now, number, *packet);
            }
            self.transfers.push(transfer);
        }
    }

    /// Pass on what the next links retransmit.
    fn advance_transfers(&mut self, now: Time) {
        for transfer in &mut self.transfers {
            if let Some(notices) = self.notices.as_ref().filter(|_| transfer.handover.rate.is_some()) {
                let handover = transfer.handover;
                for message in transfer.deliver(now) {
                    notices.push(Notice::Migrates(handover, message));
                    if let (Message::Copy(_, packet), true) = (message, handover.at <= now) {
                        notices.push(Notice::Freed(packet.body));
                    }
                }
                continue;
            }
            for (at, packet) in transfer.advance(now) {
                self.overhead.migrated.add(1);
                self.out.push_back((Port::Onward, Packet { at, ..packet }));
            }
        }
        self.transfers.retain(|transfer| !transfer.is_over() || transfer.handover.at > now);
    }

    /// Paths leave the link: the next link recovers their copies.
    fn leave(&mut self, at: Time, scope: &Scope) {
        let paths: Vec<u32> = self.transfers.iter().filter(|transfer| transfer.handover.at == at).map(|transfer| transfer.handover.path).collect();
        if self.transfers.iter().any(|transfer| transfer.handover.at == at && self.is_remote(&transfer.handover)) {
            self.hand_over(at, scope, &paths);
        }
        self.upstream.forget(|packet| scope.concerns(packet) && paths.contains(&packet.path));
        // An earlier migration of the same path that is not over: the link that it leads to is gone.
        let is_node = self.notices.is_some();
        let here = |handover: &Handover| !(is_node && handover.rate.is_some());
        for transfer in self.transfers.iter_mut().filter(|transfer| transfer.handover.at < at && here(&transfer.handover) && paths.contains(&transfer.handover.path)) {
            for packet in transfer.cut() {
                self.overhead.given_up.add(1);
                self.out.push_back((Port::Drop(DropCause::Event), Packet { at, role: Role::Host, ..packet }));
            }
        }
        self.left.push(scope.clone());
    }
}

impl LinkEnd {
    /// The packets of paths that leave the link go on at another node, which has their copies.
    fn hand_over(&mut self, at: Time, scope: &Scope, paths: &[u32]) {
        for (number, packet) in self.upstream.kept().filter(|(_, packet)| scope.concerns(packet) && paths.contains(&packet.path)) {
            let mut packet = Packet { at, role: Role::Host, ..*packet };
            label::set_migrated(&mut packet);
            if !self.transfers.iter().any(|transfer| transfer.is_in_flight(number)) {
                self.notify(Notice::Freed(packet.body));
            }
            self.out.push_back((Port::Onward, packet));
        }
    }
}

/// Send a copy to the next link.
fn copy(transfer: &mut Transfer<Packet>, overhead: &Overhead, now: Time, number: u64, mut packet: Packet) {
    if transfer.handover.rate.is_some() {
        overhead.migrated_bytes.add(u64::from(packet.bytes));
    }
    label::set_tries(&mut packet, 0);
    transfer.copy(now, number, packet, u32::from(packet.bytes));
}

impl Element for LinkEnd {
    fn push(&mut self, port: Port, mut packet: Packet) {
        let at = packet.at;
        if port == Port::Near {
            let is_copy = self.notices.is_some() && label::is_migrated(&packet);
            if packet.role == Role::Host {
                label::set_tries(&mut packet, 0);
            }
            return self.out.push_back((if is_copy { Port::Ahead } else { Port::Far }, packet));
        }
        if packet.role == Role::Control || self.config.marked.includes(packet.flow) {
            let notices = self.notices.as_ref();
            let freed = |packet: Packet| notices.into_iter().for_each(|notices| notices.push(Notice::Freed(packet.body)));
            if let Some(Acknowledged { run, lost }) = self.upstream.acknowledge_with(label::hack(&packet), freed) {
                self.transfers.iter_mut().for_each(|transfer| transfer.acknowledged(at, run));
                self.recover(at, lost);
            }
            if packet.role == Role::Control {
                return;
            }
            if packet.role == Role::Copy {
                self.downstream.arrive(label::hseq(&packet));
                self.ack_due.get_or_insert((at + self.config.ack_delay, packet));
            }
        }
        self.out.push_back((Port::Near, packet));
    }

    fn on_sent(&mut self, packet: &mut Packet) {
        let is_control = packet.role == Role::Control;
        if !is_control && !self.config.marked.includes(packet.flow) {
            return;
        }
        label::set_hack(packet, self.downstream.acknowledgement());
        if !self.downstream.is_pending() {
            self.ack_due = None;
        } else if let Some((due, _)) = &mut self.ack_due {
            *due = packet.at; // another run waits
        }
        if is_control {
            return;
        }
        let tries = label::tries(packet);
        let timeout = self.timeout(packet.at);
        packet.role = Role::Host;
        let Some(number) = self.upstream.send(packet.at, *packet, u32::from(packet.bytes), tries, timeout) else {
            self.overhead.unprotected.add(1);
            self.notify(Notice::Freed(packet.body));
            return;
        };
        self.notify(Notice::Kept(packet.body));
        self.overhead.protected.add(1);
        self.overhead.peak_buffer_bytes.raise(self.upstream.bytes());
        label::set_hseq(packet, on_wire(number));
        packet.role = Role::Copy;
        for transfer in self.transfers.iter_mut().filter(|transfer| transfer.handover.path == packet.path && packet.at < transfer.handover.at) {
            copy(transfer, &self.overhead, packet.at, number, *packet);
        }
    }

    fn pop(&mut self, now: Time) -> Option<(Port, Packet)> {
        if let Some(out) = self.out.pop_front() {
            return Some(out);
        }
        self.begin_transfers(now);
        self.advance_transfers(now);
        let lost = self.upstream.expire(now);
        self.recover(now, lost);
        if let Some((_, packet)) = self.ack_due.take_if(|(due, _)| *due <= now) {
            self.overhead.control_bytes.add(u64::from(CONTROL_BYTES));
            let control = Packet {
                at: now,
                bytes: CONTROL_BYTES,
                direction: packet.direction.reverse(),
                role: Role::Control,
                ecn: Ecn::NotEct,
                marked: None,
                ..packet
            };
            self.out.push_back((Port::Ahead, control));
        }
        self.out.pop_front()
    }

    fn wake_at(&self) -> Option<Time> {
        if let Some((_, packet)) = self.out.front() {
            return Some(packet.at);
        }
        let ack = self.ack_due.as_ref().map(|(due, _)| *due);
        let copying = self.cache.front().map(|handover| handover.copy_from);
        let transfers = self.transfers.iter().filter_map(Transfer::wake_at).min();
        [self.upstream.wake_at(), ack, copying, transfers].into_iter().flatten().min()
    }

    fn on_event(&mut self, event: &PathEvent) {
        match event {
            PathEvent::Leave { at, scope, .. } => {
                self.begin_transfers(*at);
                self.leave(*at, scope);
            }
            PathEvent::Join { scope, .. } => self.left.retain(|left| *left != Scope::All && left != scope && *scope != Scope::All),
            PathEvent::Close { .. } | PathEvent::Await { .. } | PathEvent::NotBefore { .. } => {}
        }
    }

    fn packets(&self) -> usize {
        self.upstream.kept().count() + self.transfers.iter().map(Transfer::packets).sum::<usize>() + self.out.len()
    }
}
