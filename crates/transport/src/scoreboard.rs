//! What is outstanding: one record per segment, in sequence order, with a second order by time of transmission threaded through it.
//!
//! Work per acknowledgement is proportional to what it changes: blocks seen before are skipped, the walk by time of transmission ([`Scoreboard::expire`]) stops
//! at the first packet that is not yet due, and the search for the next retransmission goes on where the last ended.
//! Source: Linux `tcp_sacktag_write_queue`, `tcp_clean_rtx_queue`, `tcp_mark_skb_lost`, `tsorted_sent_queue`.

use crate::arrivals::Arrivals;
use crate::rate_sampler::Snapshot;
use bentpipe_profile::Time;
use std::collections::VecDeque;

const SACKED: u8 = 1;
const LOST: u8 = 1 << 1;
/// A retransmission is under way.
const RETRANSMITTED: u8 = 1 << 2;
const EVER_RETRANSMITTED: u8 = 1 << 3;
const APP_LIMITED: u8 = 1 << 4;
const FIN: u8 = 1 << 5;
/// In the order by time of transmission: not delivered, and not lost since.
const TIMED: u8 = 1 << 6;

/// Names of packets: consecutive, 31 bits, so that `NONE` is none of them.
const ID_MASK: u32 = 0x7fff_ffff;
const NONE: u32 = u32::MAX;

/// A segment sent: 64 bytes, one cache line.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    /// First byte.
    pub seq: u64,
    /// When it was last sent.
    pub sent_at: Time,
    delivered: u64,
    delivered_at: Time,
    first_sent_at: Time,
    /// Packets lost on the connection when it was last sent.
    pub lost_before: u32,
    /// Packets in flight when it was last sent, itself included.
    pub tx_in_flight: u32,
    earlier: u32,
    later: u32,
    /// Bytes of payload.
    pub len: u32,
    flags: u8,
}

/// The moment a packet is sent.
#[derive(Clone, Copy, Debug)]
pub struct Departure {
    /// Now.
    pub at: Time,
    /// The rate sampler's state.
    pub snapshot: Snapshot,
    /// Packets lost so far.
    pub lost_before: u32,
    /// Packets in flight, this one included.
    pub tx_in_flight: u32,
}

impl Packet {
    /// One past its last sequence number.
    pub const fn end(&self) -> u64 {
        self.seq + self.len as u64 + (self.flags & FIN != 0) as u64
    }

    /// Whether the application closed behind it.
    pub const fn is_fin(&self) -> bool {
        self.flags & FIN != 0
    }

    /// Whether it was acknowledged selectively.
    pub const fn is_sacked(&self) -> bool {
        self.flags & SACKED != 0
    }

    /// Whether it was ever retransmitted.
    pub const fn was_retransmitted(&self) -> bool {
        self.flags & EVER_RETRANSMITTED != 0
    }

    /// The rate sampler's state when it was last sent.
    pub const fn snapshot(&self) -> Snapshot {
        Snapshot {
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
            app_limited: self.flags & APP_LIMITED != 0,
        }
    }

    fn depart(&mut self, departure: &Departure) {
        self.sent_at = departure.at;
        self.delivered = departure.snapshot.delivered;
        self.delivered_at = departure.snapshot.delivered_at;
        self.first_sent_at = departure.snapshot.first_sent_at;
        self.lost_before = departure.lost_before;
        self.tx_in_flight = departure.tx_in_flight;
        self.flags = self.flags & !APP_LIMITED | if departure.snapshot.app_limited { APP_LIMITED } else { 0 };
    }
}

/// The records, and the counts that follow from them.
#[derive(Debug)]
pub struct Scoreboard {
    mss: u32,
    packets: VecDeque<Packet>,
    /// Name of the first packet.
    first: u32,
    sacked_out: u32,
    lost_out: u32,
    retrans_out: u32,
    /// End of the highest packet selectively acknowledged; counts while `sacked_out` is not 0.
    highest_sacked: u64,
    /// First and last by time of transmission.
    oldest: u32,
    newest: u32,
    /// Last by time of transmission of those sent before the newest delivery.
    overtaken: u32,
    /// No packet before this one waits for its retransmission.
    lost_from: u32,
    /// The selective acknowledgements of the last acknowledgement.
    seen: [(u64, u64); 3],
}

impl Scoreboard {
    /// Nothing outstanding.
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
            overtaken: NONE,
            lost_from: 0,
            seen: [(0, 0); 3],
        }
    }

    /// Packets outstanding.
    #[allow(clippy::cast_possible_truncation)] // names have 31 bits
    pub fn packets_out(&self) -> u32 {
        self.packets.len() as u32
    }

    /// Packets in flight: outstanding, neither delivered nor lost, and retransmissions under way.
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

    /// Retransmissions under way.
    pub const fn retrans_out(&self) -> u32 {
        self.retrans_out
    }

    /// Where selective acknowledgements reach; `una` without any.
    pub const fn highest_sacked(&self, una: u64) -> u64 {
        if self.sacked_out > 0 { self.highest_sacked } else { una }
    }

    /// The first packet outstanding.
    pub fn head(&self) -> Option<&Packet> {
        self.packets.front()
    }

    /// Whether something was retransmitted and is not acknowledged (`tcp_any_retrans_done`).
    pub fn any_retransmitted(&self) -> bool {
        self.retrans_out > 0 || self.head().is_some_and(Packet::was_retransmitted)
    }

    /// A packet is sent for the first time.
    pub fn push(&mut self, seq: u64, len: u32, fin: bool, departure: &Departure) {
        let id = self.id(self.packets.len());
        let mut packet = Packet {
            seq,
            sent_at: departure.at,
            delivered: 0,
            delivered_at: Time::ZERO,
            first_sent_at: Time::ZERO,
            lost_before: 0,
            tx_in_flight: 0,
            earlier: NONE,
            later: NONE,
            len,
            flags: if fin { FIN } else { 0 },
        };
        packet.depart(departure);
        self.packets.push_back(packet);
        self.time(id);
    }

    /// A packet is retransmitted. `probe`: as a tail loss probe, which is not counted in flight.
    pub fn retransmit(&mut self, index: usize, departure: &Departure, probe: bool) -> Packet {
        let id = self.id(index);
        self.untime(id);
        let packet = &mut self.packets[index];
        packet.depart(departure);
        if !probe && packet.flags & RETRANSMITTED == 0 {
            self.retrans_out += 1;
            packet.flags |= RETRANSMITTED;
        }
        packet.flags |= EVER_RETRANSMITTED;
        let packet = *packet;
        if !packet.is_sacked() {
            self.time(id);
        }
        packet
    }

    /// The next packet to retransmit: lost, and not retransmitted since.
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

    /// The last packet outstanding.
    pub fn last_index(&self) -> Option<usize> {
        self.packets.len().checked_sub(1)
    }

    /// The cumulative acknowledgement advances. Returns the bytes of payload that left.
    pub fn acknowledge(&mut self, ack: u64, arrivals: &mut Arrivals) -> u64 {
        let mut bytes = 0;
        while let Some(packet) = self.packets.front().filter(|p| p.end() <= ack) {
            let packet = *packet;
            arrivals.on_acked(&packet);
            self.uncount(packet.flags);
            self.untime(self.first);
            self.packets.pop_front();
            self.first = (self.first + 1) & ID_MASK;
            bytes += u64::from(packet.len);
        }
        if self.index(self.lost_from) > self.packets.len() {
            self.lost_from = self.first;
        }
        bytes
    }

    /// Selective acknowledgements, newest first; what the last acknowledgement carried is skipped.
    pub fn sack(&mut self, una: u64, blocks: &[(u64, u64)], arrivals: &mut Arrivals) {
        let mut sorted = [(0, 0); 3];
        let sorted = &mut sorted[..blocks.len()];
        sorted.copy_from_slice(blocks);
        sorted.sort_unstable();
        let seen = std::mem::take(&mut self.seen);
        for (slot, &(start, end)) in sorted.iter().enumerate() {
            self.seen[slot] = (start, end);
            let mut at = start.max(una);
            while at < end {
                if let Some(&(_, skip)) = seen.iter().find(|&&(s, e)| s <= at && at < e) {
                    at = skip;
                    continue;
                }
                let until = seen.iter().map(|&(s, _)| s).filter(|&s| s > at).fold(end, u64::min);
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
            self.untime(self.id(index));
        }
    }

    /// A duplicate of `[start, end)` was reported: retransmissions in it are no longer under way. Calls `retransmitted` with the end of each packet in it
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

    /// Marks what was sent at `due` or before, and before `newest` was, as lost: in the order of transmission, up to the first that is not due.
    /// Returns when the last of those overtaken that remain was sent: what a timer has to wait for.
    pub fn expire(&mut self, newest: (Time, u64), due: Option<Time>, mut lost: impl FnMut(&Packet)) -> Option<Time> {
        loop {
            let next = if self.overtaken == NONE { self.oldest } else { self.at(self.overtaken).later };
            if next == NONE || (self.at(next).sent_at, self.at(next).end()) >= newest {
                break;
            }
            self.overtaken = next;
        }
        while self.overtaken != NONE && due.is_some_and(|due| self.at(self.oldest).sent_at <= due) {
            self.mark_lost(self.index(self.oldest), &mut lost);
        }
        (self.overtaken != NONE).then(|| self.at(self.overtaken).sent_at)
    }

    /// After a time-out: the first packet is lost, and all others that were sent at `due` or before.
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
        // A retransmission that was lost too.
        self.retrans_out -= u32::from(flags & RETRANSMITTED != 0);
        self.untime(id);
        if self.index(id) < self.index(self.lost_from) {
            self.lost_from = id;
        }
        lost(&packet);
    }

    /// Nothing is marked lost any more (an undone reduction). As in the kernel, what was marked does not return to the order by time of transmission: should
    /// it be lost after all, a time-out finds it.
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

    /// First packet that starts at `seq` or after. Segments are full with few exceptions, so the position is mostly known beforehand.
    fn find(&self, seq: u64) -> usize {
        let Some(head) = self.packets.front() else { return 0 };
        let guess = usize::try_from(seq.saturating_sub(head.seq) / u64::from(self.mss)).unwrap_or(usize::MAX);
        match self.packets.get(guess) {
            Some(packet) if packet.seq == seq => guess,
            _ => self.packets.partition_point(|p| p.seq < seq),
        }
    }

    #[allow(clippy::cast_possible_truncation)] // names have 31 bits
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

    /// Appends to the order by time of transmission.
    fn time(&mut self, id: u32) {
        let last = self.newest;
        let packet = self.at_mut(id);
        packet.flags |= TIMED;
        packet.earlier = last;
        packet.later = NONE;
        match last {
            NONE => self.oldest = id,
            last => self.at_mut(last).later = id,
        }
        self.newest = id;
    }

    /// Takes out of the order by time of transmission.
    fn untime(&mut self, id: u32) {
        let packet = self.at_mut(id);
        if packet.flags & TIMED == 0 {
            return;
        }
        packet.flags &= !TIMED;
        let (earlier, later) = (packet.earlier, packet.later);
        match earlier {
            NONE => self.oldest = later,
            earlier => self.at_mut(earlier).later = later,
        }
        match later {
            NONE => self.newest = earlier,
            later => self.at_mut(later).earlier = earlier,
        }
        if self.overtaken == id {
            self.overtaken = earlier;
        }
    }
}

#[cfg(test)]
mod checks {
    use super::*;

    impl Scoreboard {
        /// Recounts everything.
        pub(crate) fn check(&self) {
            let count = |flag: u8| self.packets.iter().filter(|p| p.flags & flag != 0).count();
            assert_eq!(
                (count(SACKED), count(LOST), count(RETRANSMITTED)),
                (self.sacked_out as usize, self.lost_out as usize, self.retrans_out as usize)
            );
            assert!(self.packets.iter().all(|p| p.flags & (SACKED | LOST) != SACKED | LOST));
            assert!(self.packets.iter().zip(self.packets.iter().skip(1)).all(|(a, b)| a.end() == b.seq));
            let mut timed = Vec::new();
            let mut at = self.oldest;
            while at != NONE {
                timed.push(at);
                at = self.at(at).later;
            }
            assert_eq!(timed.len(), count(TIMED));
            assert_eq!(timed.last().copied().unwrap_or(NONE), self.newest);
            assert!(timed.windows(2).all(|w| self.at(w[0]).sent_at <= self.at(w[1]).sent_at && self.at(w[1]).earlier == w[0]));
            assert!(self.overtaken == NONE || timed.contains(&self.overtaken));
            let first_lost = self.packets.iter().position(|p| p.flags & (LOST | RETRANSMITTED) == LOST);
            assert!(first_lost.is_none_or(|first| self.index(self.lost_from) <= first));
        }
    }
}
