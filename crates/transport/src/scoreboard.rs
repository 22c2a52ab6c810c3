//! Outstanding segments: one record each in sequence order, also linked in order of transmission.
//!
//! Work per acknowledgement is proportional to what it changes: SACK blocks already processed are skipped, the walk in order of transmission
//! ([`Scoreboard::mark_rack_losses`]) stops at the first packet that is not yet due, and the search for the next retransmission resumes where
//! it last
//! ended. Source: Linux `tcp_sacktag_write_queue`, `tcp_clean_rtx_queue`, `tcp_mark_skb_lost`, `tsorted_sent_queue`.

use crate::arrivals::Arrivals;
use crate::sent_packet::{Departure, EVER_RETRANSMITTED, IN_SEND_ORDER, LOST, NONE, Packet, RETRANSMITTED, SACKED};
use bentpipe_profile::Time;
use std::collections::VecDeque;

/// Packet ids are consecutive and have 31 bits, so that [`NONE`] is never one of them.
const ID_MASK: u32 = 0x7fff_ffff;

/// Records of the outstanding packets, and their counts.
#[derive(Debug)]
pub struct Scoreboard {
    mss: u32,
    packets: VecDeque<Packet>,
    /// Id of the first packet.
    first: u32,
    sacked_out: u32,
    lost_out: u32,
    retrans_out: u32,
    /// End of the highest packet selectively acknowledged; valid while `sacked_out` is not 0.
    highest_sacked: u64,
    /// First and last packet in order of transmission.
    oldest: u32,
    newest: u32,
    /// Last packet, in order of transmission, that was sent before the newest delivered one.
    rack_tail: u32,
    /// No packet before this id waits for retransmission.
    lost_from: u32,
    /// SACK blocks of the last acknowledgement.
    last_sacks: [(u64, u64); 3],
}

impl Scoreboard {
    /// Create an empty scoreboard.
    pub fn new(mss: u32) -> Self {
        Self {
            mss,
            packets: VecDeque::new(),
            first: 0,
            sacked_out: 0,
            lost_out: 0,
            retrans_out: 0,
            highest_sacked: 0,
            oldest: NONE,
            newest: NONE,
            rack_tail: NONE,
            lost_from: 0,
            last_sacks: [(0, 0); 3],
        }
    }

    /// Packets outstanding.
    #[allow(clippy::cast_possible_truncation)] // ids have 31 bits
    pub fn packets_out(&self) -> u32 {
        self.packets.len() as u32
    }

    /// Packets in flight: outstanding, neither selectively acknowledged nor lost, plus retransmissions in flight.
    pub fn in_flight(&self) -> u32 {
        self.packets_out() - self.sacked_out - self.lost_out + self.retrans_out
    }

    /// Packets selectively acknowledged.
    pub const fn sacked_out(&self) -> u32 {
        self.sacked_out
    }

    /// Packets marked lost.
    pub const fn lost_out(&self) -> u32 {
        self.lost_out
    }

    /// Retransmissions in flight.
    pub const fn retrans_out(&self) -> u32 {
        self.retrans_out
    }

    /// Highest sequence number selectively acknowledged; `una` without any.
    pub const fn highest_sacked(&self, una: u64) -> u64 {
        if self.sacked_out > 0 { self.highest_sacked } else { una }
    }

    /// The first packet outstanding.
    pub fn head(&self) -> Option<&Packet> {
        self.packets.front()
    }

    /// Whether a retransmitted packet is still unacknowledged (`tcp_any_retrans_done`).
    pub fn any_retransmitted(&self) -> bool {
        self.retrans_out > 0 || self.head().is_some_and(Packet::was_retransmitted)
    }

    /// Add a packet sent for the first time.
    pub fn push(&mut self, seq: u64, len: u32, fin: bool, departure: &Departure) {
        let id = self.id(self.packets.len());
        self.packets.push_back(Packet::new(seq, len, fin, departure));
        self.append_to_send_order(id);
    }

    /// Record a retransmission. A tail loss `probe` is not counted in flight.
    pub fn retransmit(&mut self, index: usize, departure: &Departure, probe: bool) -> Packet {
        let id = self.id(index);
        self.remove_from_send_order(id);
        let packet = &mut self.packets[index];
        packet.set_departure(departure);
        if !probe && packet.flags & RETRANSMITTED == 0 {
            self.retrans_out += 1;
            packet.flags |= RETRANSMITTED;
        }
        packet.flags |= EVER_RETRANSMITTED;
        let packet = *packet;
        if !packet.is_sacked() {
            self.append_to_send_order(id);
        }
        packet
    }

    /// Return the next packet to retransmit: marked lost, and not retransmitted since.
    pub fn next_lost(&mut self) -> Option<usize> {
        if self.lost_out <= self.retrans_out {
            return None;
        }
        let mut index = self.index(self.lost_from);
        while let Some(packet) = self.packets.get(index) {
            if packet.flags & (LOST | RETRANSMITTED) == LOST {
                self.lost_from = self.id(index);
                return Some(index);
            }
            index += 1;
        }
        self.lost_from = self.id(self.packets.len());
        None
    }

    /// Index of the last packet outstanding.
    pub fn last_index(&self) -> Option<usize> {
        self.packets.len().checked_sub(1)
    }

    /// Advance the cumulative acknowledgement. Returns the bytes of payload acknowledged.
    pub fn acknowledge(&mut self, ack: u64, arrivals: &mut Arrivals) -> u64 {
        let mut bytes = 0;
        while let Some(packet) = self.packets.front().filter(|p| p.end() <= ack) {
            let packet = *packet;
            arrivals.on_acked(&packet);
            self.uncount(packet.flags);
            self.remove_from_send_order(self.first);
            self.packets.pop_front();
            self.first = (self.first + 1) & ID_MASK;
            bytes += u64::from(packet.len);
        }
        if self.index(self.lost_from) > self.packets.len() {
            self.lost_from = self.first;
        }
        bytes
    }

    /// Process SACK blocks, newest first; blocks of the previous acknowledgement are skipped.
    pub fn sack(&mut self, una: u64, blocks: &[(u64, u64)], arrivals: &mut Arrivals) {
        let mut sorted = [(0, 0); 3];
        let sorted = &mut sorted[..blocks.len()];
        sorted.copy_from_slice(blocks);
        sorted.sort_unstable();
        let previous = std::mem::take(&mut self.last_sacks);
        for (slot, &(start, end)) in sorted.iter().enumerate() {
            self.last_sacks[slot] = (start, end);
            let mut at = start.max(una);
            while at < end {
                if let Some(&(_, skip)) = previous.iter().find(|&&(s, e)| s <= at && at < e) {
                    at = skip;
                    continue;
                }
                let until = previous.iter().map(|&(s, _)| s).filter(|&s| s > at).fold(end, u64::min);
                self.sack_range(at, until, arrivals);
                at = until;
            }
        }
    }

    fn sack_range(&mut self, start: u64, end: u64, arrivals: &mut Arrivals) {
        for index in self.find(start).. {
            let Some(packet) = self.packets.get_mut(index).filter(|p| p.end() <= end) else { break };
            if packet.flags & SACKED != 0 {
                continue;
            }
            let flags = packet.flags;
            if flags & LOST != 0 {
                packet.flags &= !(LOST | RETRANSMITTED);
            }
            packet.flags |= SACKED;
            let packet = *packet;
            if flags & LOST != 0 {
                self.uncount(flags);
            }
            arrivals.on_sacked(&packet, self.highest_sacked(0));
            self.highest_sacked = if self.sacked_out > 0 { self.highest_sacked.max(packet.end()) } else { packet.end() };
            self.sacked_out += 1;
            self.remove_from_send_order(self.id(index));
        }
    }

    /// A DSACK reported `[start, end)`: retransmissions in it are no longer in flight. Calls `retransmitted` with the end of each packet in it
    /// that was ever retransmitted.
    pub fn on_duplicate(&mut self, start: u64, end: u64, mut retransmitted: impl FnMut(u64)) {
        for index in self.find(start).. {
            let Some(packet) = self.packets.get_mut(index).filter(|p| p.end() <= end) else { break };
            if packet.was_retransmitted() {
                retransmitted(packet.end());
            }
            if packet.flags & (SACKED | RETRANSMITTED) == SACKED | RETRANSMITTED {
                packet.flags &= !RETRANSMITTED;
                self.retrans_out -= 1;
            }
        }
    }

    /// Mark packets lost that were sent at `due` or before, and before the `newest` delivered packet, in order of transmission. Stops at the
    /// first that is not due. Returns the send time of the last candidate that remains: the reordering timer waits for it.
    pub fn mark_rack_losses(&mut self, newest: (Time, u64), due: Option<Time>, mut lost: impl FnMut(&Packet)) -> Option<Time> {
        loop {
            let next = if self.rack_tail == NONE { self.oldest } else { self.at(self.rack_tail).later };
            if next == NONE || (self.at(next).sent_at, self.at(next).end()) >= newest {
                break;
            }
            self.rack_tail = next;
        }
        while self.rack_tail != NONE && due.is_some_and(|due| self.at(self.oldest).sent_at <= due) {
            self.mark_lost(self.index(self.oldest), &mut lost);
        }
        (self.rack_tail != NONE).then(|| self.at(self.rack_tail).sent_at)
    }

    /// After a time-out, mark the first packet lost and all others sent at `due` or before.
    pub fn mark_timed_out(&mut self, due: Option<Time>, mut lost: impl FnMut(&Packet)) {
        for index in 0..self.packets.len() {
            if index == 0 || due.is_some_and(|due| self.packets[index].sent_at <= due) {
                self.mark_lost(index, &mut lost);
            }
        }
    }

    fn mark_lost(&mut self, index: usize, lost: &mut impl FnMut(&Packet)) {
        let id = self.id(index);
        let packet = &mut self.packets[index];
        let flags = packet.flags;
        if flags & SACKED != 0 || flags & (LOST | RETRANSMITTED) == LOST {
            return;
        }
        packet.flags = packet.flags & !RETRANSMITTED | LOST;
        let packet = *packet;
        self.lost_out += u32::from(flags & LOST == 0);
        // A lost retransmission.
        self.retrans_out -= u32::from(flags & RETRANSMITTED != 0);
        self.remove_from_send_order(id);
        if self.index(id) < self.index(self.lost_from) {
            self.lost_from = id;
        }
        lost(&packet);
    }

    /// Clear all loss marks after an undo. As in the kernel, these packets do not return to the order of transmission: if one is lost after
    /// all, a time-out detects it.
    pub fn unmark_lost(&mut self) {
        if self.lost_out == 0 {
            return;
        }
        for packet in &mut self.packets {
            packet.flags &= !LOST;
        }
        self.lost_out = 0;
        self.lost_from = self.first;
    }

    fn uncount(&mut self, flags: u8) {
        self.sacked_out -= u32::from(flags & SACKED != 0);
        self.lost_out -= u32::from(flags & LOST != 0);
        self.retrans_out -= u32::from(flags & RETRANSMITTED != 0);
    }

    /// Return the index of the first packet that starts at `seq` or after. Nearly all segments are full, so a division usually gives it.
    fn find(&self, seq: u64) -> usize {
        let Some(head) = self.packets.front() else { return 0 };
        let guess = usize::try_from(seq.saturating_sub(head.seq) / u64::from(self.mss)).unwrap_or(usize::MAX);
        match self.packets.get(guess) {
            Some(packet) if packet.seq == seq => guess,
            _ => self.packets.partition_point(|p| p.seq < seq),
        }
    }

    #[allow(clippy::cast_possible_truncation)] // ids have 31 bits
    fn id(&self, index: usize) -> u32 {
        self.first.wrapping_add(index as u32) & ID_MASK
    }

    fn index(&self, id: u32) -> usize {
        (id.wrapping_sub(self.first) & ID_MASK) as usize
    }

    fn at(&self, id: u32) -> &Packet {
        &self.packets[self.index(id)]
    }

    fn at_mut(&mut self, id: u32) -> &mut Packet {
        let index = self.index(id);
        &mut self.packets[index]
    }

    /// Append to the order of transmission.
    fn append_to_send_order(&mut self, id: u32) {
        let last = self.newest;
        let packet = self.at_mut(id);
        packet.flags |= IN_SEND_ORDER;
        packet.earlier = last;
        packet.later = NONE;
        match last {
            NONE => self.oldest = id,
            last => self.at_mut(last).later = id,
        }
        self.newest = id;
    }

    /// Remove from the order of transmission.
    fn remove_from_send_order(&mut self, id: u32) {
        let packet = self.at_mut(id);
        if packet.flags & IN_SEND_ORDER == 0 {
            return;
        }
        packet.flags &= !IN_SEND_ORDER;
        let (earlier, later) = (packet.earlier, packet.later);
        match earlier {
            NONE => self.oldest = later,
            earlier => self.at_mut(earlier).later = later,
        }
        match later {
            NONE => self.newest = earlier,
            later => self.at_mut(later).earlier = earlier,
        }
        if self.rack_tail == id {
            self.rack_tail = earlier;
        }
    }
}

#[cfg(test)]
mod checks {
    use super::*;

    impl Scoreboard {
        /// Check all counts and links against the packets.
        pub(crate) fn check(&self) {
            let count = |flag: u8| self.packets.iter().filter(|p| p.flags & flag != 0).count();
            assert_eq!(
                (count(SACKED), count(LOST), count(RETRANSMITTED)),
                (self.sacked_out as usize, self.lost_out as usize, self.retrans_out as usize)
            );
            assert!(self.packets.iter().all(|p| p.flags & (SACKED | LOST) != SACKED | LOST));
            assert!(self.packets.iter().zip(self.packets.iter().skip(1)).all(|(a, b)| a.end() == b.seq));
            let mut in_send_order = Vec::new();
            let mut at = self.oldest;
            while at != NONE {
                in_send_order.push(at);
                at = self.at(at).later;
            }
            assert_eq!(in_send_order.len(), count(IN_SEND_ORDER));
            assert_eq!(in_send_order.last().copied().unwrap_or(NONE), self.newest);
            assert!(in_send_order.windows(2).all(|w| self.at(w[0]).sent_at <= self.at(w[1]).sent_at && self.at(w[1]).earlier == w[0]));
            assert!(self.rack_tail == NONE || in_send_order.contains(&self.rack_tail));
            let first_lost = self.packets.iter().position(|p| p.flags & (LOST | RETRANSMITTED) == LOST);
            assert!(first_lost.is_none_or(|first| self.index(self.lost_from) <= first));
        }
    }
}
