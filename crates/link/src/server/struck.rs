//! The state of a server that an event has struck, or to which a queue migrates.

use super::apart::Apart;
use crate::event::Scope;
use crate::packet::Packet;
use bentpipe_profile::{Bytes, Migration, QueueFate, Time};
use std::collections::VecDeque;

/// What events change in a server.
#[derive(Default)]
pub struct Struck {
    /// Packets of a queue that migrated here. They were accepted once, so no limit applies. They are older than other arrivals and go first.
    pub migrated: VecDeque<Packet>,
    pub migrated_bytes: u64,
    /// How many of them go ahead of the others: an end of the link sent them. They stand first.
    ahead: usize,
    /// Whether the packet in transmission is one of them.
    pub serves_migrated: bool,
    /// Fate of packets that arrive after the path has left this hop; `None`: the path uses it.
    pub late_fate: Option<QueueFate>,
    /// Before this time only migrated packets are served: the rest of their queue is still on its way.
    pub awaits_until: Time,
    /// Packets of single paths that wait apart; `None` while no path is treated apart.
    pub apart: Option<Apart>,
    /// Packets on their way to another hop's queue.
    migrating: VecDeque<Packet>,
}

impl Struck {
    /// Return whether packets are served in order of arrival, until another event or a packet that migrates here.
    pub fn is_over(&self) -> bool {
        self.migrated.is_empty() && self.migrating.is_empty() && self.late_fate.is_none() && self.apart.is_none()
    }

    /// Return the fate of an arrival whose path has left this link; `None`: the path uses it.
    pub fn fate_of(&self, packet: &Packet) -> Option<QueueFate> {
        self.apart.as_ref().and_then(|apart| apart.fate(packet.crossing())).or(self.late_fate)
    }

    /// Add a packet of a queue that migrated here; `ahead`: before all that are not.
    pub fn add_migrated(&mut self, packet: Packet, ahead: bool) {
        self.migrated_bytes += u64::from(packet.bytes);
        if ahead {
            self.migrated.insert(self.ahead, packet);
            self.ahead += 1;
        } else {
            self.migrated.push_back(packet);
        }
    }

    /// Remove and return the next packet of a queue that migrated here.
    pub fn take_migrated(&mut self) -> Option<Packet> {
        let packet = self.migrated.pop_front()?;
        self.migrated_bytes -= u64::from(packet.bytes);
        self.ahead = self.ahead.saturating_sub(1);
        Some(packet)
    }

    /// Remove and return the packets of a queue that migrated here that an event concerns.
    pub fn drain_migrated(&mut self, scope: &Scope) -> Vec<Packet> {
        self.ahead -= self.migrated.iter().take(self.ahead).filter(|packet| scope.concerns(packet)).count();
        let (leaving, staying) = self.migrated.drain(..).partition::<Vec<_>, _>(|packet| scope.concerns(packet));
        self.migrated = staying.into();
        self.migrated_bytes = self.migrated.iter().map(|packet| u64::from(packet.bytes)).sum();
        leaving
    }

    /// Send packets that are here at `at` to another hop's queue.
    pub fn migrate(&mut self, packets: Vec<Packet>, at: Time, migration: &Migration) {
        let first = at + migration.delay_ns;
        let mut at = self.migrating.back().map_or(first, |last| last.at.max(first));
        for mut packet in packets {
            packet.at = at;
            at = at + migration.rate_bps.time_for(Bytes(u64::from(packet.bytes)));
            self.migrating.push_back(packet);
        }
    }

    /// Remove and return the next packet that leaves for another hop's queue by `now`.
    pub fn pop_migrating(&mut self, now: Time) -> Option<Packet> {
        if self.migrating.front()?.at > now { None } else { self.migrating.pop_front() }
    }

    /// Predict when packets leave for another hop's queue, with `arrivals` that follow it.
    pub fn migrating(&self, arrivals: &[Packet]) -> Vec<Packet> {
        let mut packets: Vec<Packet> = self.migrating.iter().copied().collect();
        for packet in arrivals {
            if let Some(QueueFate::Migrate(migration)) = self.fate_of(packet) {
                let at = packet.at + migration.delay_ns;
                let at = packets.last().map_or(at, |last| last.at.max(at));
                packets.push(Packet { at, ..*packet });
            }
        }
        packets
    }

    /// Return when the next packet migrates or is released; `Time::MAX`: none does.
    pub fn wake_at(&self) -> Time {
        let migrating = self.migrating.front().map(|packet| packet.at);
        let release = self.apart.as_ref().and_then(Apart::next_release);
        [migrating, release].into_iter().flatten().min().unwrap_or(Time::MAX)
    }

    /// Return the bytes that wait for capacity.
    pub fn backlog_bytes(&self) -> u64 {
        self.migrated_bytes + self.apart.as_ref().map_or(0, Apart::bytes)
    }

    /// Return the number of packets.
    pub fn packets(&self) -> usize {
        self.migrated.len() + self.migrating.len() + self.apart.as_ref().map_or(0, Apart::len)
    }
}
