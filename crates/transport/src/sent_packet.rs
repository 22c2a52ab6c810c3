//! The record of a packet that is outstanding, and the connection's state at its transmission.

use crate::rate_sampler::Snapshot;
use bentpipe_profile::Time;

/// Acknowledged selectively.
pub const SACKED: u8 = 1;
/// Marked lost.
pub const LOST: u8 = 1 << 1;
/// A retransmission is in flight.
pub const RETRANSMITTED: u8 = 1 << 2;
/// It was retransmitted at least once.
pub const EVER_RETRANSMITTED: u8 = 1 << 3;
/// The application limited the rate at its last transmission.
pub const APP_LIMITED: u8 = 1 << 4;
/// It carries the FIN.
pub const FIN: u8 = 1 << 5;
/// Linked in the order of transmission: not delivered, and not lost since it was last sent.
pub const IN_SEND_ORDER: u8 = 1 << 6;

/// The id of no packet.
pub const NONE: u32 = u32::MAX;

/// A sent segment: 64 bytes, one cache line.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    /// First byte.
    pub seq: u64,
    /// Time of its last transmission.
    pub sent_at: Time,
    delivered: u64,
    delivered_at: Time,
    first_sent_at: Time,
    /// Packets marked lost on the connection before its last transmission.
    pub lost_before: u32,
    /// Packets in flight at its last transmission, itself included.
    pub tx_in_flight: u32,
    /// Ids of the packets sent directly before and after it, or [`NONE`].
    pub earlier: u32,
    pub later: u32,
    /// Bytes of payload.
    pub len: u32,
    /// [`SACKED`], [`LOST`] and others.
    pub flags: u8,
}

/// Connection state recorded when a packet is sent.
#[derive(Clone, Copy, Debug)]
pub struct Departure {
    /// Time of transmission.
    pub at: Time,
    /// The rate sampler's state.
    pub snapshot: Snapshot,
    /// Packets marked lost on the connection so far.
    pub lost_before: u32,
    /// Packets in flight, this one included.
    pub tx_in_flight: u32,
}

impl Packet {
    /// Create the record of a packet that is sent for the first time.
    pub fn new(seq: u64, len: u32, fin: bool, departure: &Departure) -> Self {
        let mut packet = Self {
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
        packet.set_departure(departure);
        packet
    }

    /// One past its last sequence number.
    pub const fn end(&self) -> u64 {
        self.seq + self.len as u64 + (self.flags & FIN != 0) as u64
    }

    /// Whether it carries the FIN.
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

    /// The rate sampler's state at its last transmission.
    pub const fn snapshot(&self) -> Snapshot {
        Snapshot {
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
            app_limited: self.flags & APP_LIMITED != 0,
        }
    }

    /// Record a transmission.
    pub fn set_departure(&mut self, departure: &Departure) {
        self.sent_at = departure.at;
        self.delivered = departure.snapshot.delivered;
        self.delivered_at = departure.snapshot.delivered_at;
        self.first_sent_at = departure.snapshot.first_sent_at;
        self.lost_before = departure.lost_before;
        self.tx_in_flight = departure.tx_in_flight;
        self.flags = self.flags & !APP_LIMITED | if departure.snapshot.app_limited { APP_LIMITED } else { 0 };
    }
}
