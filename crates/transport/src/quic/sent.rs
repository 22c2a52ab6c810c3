//! Packets sent and neither acknowledged nor lost, and the detection of losses (RFC 9002 §6.1, appendix A).

use super::wire::{Chunk, Control};
use crate::rate_sampler::Snapshot;
use bentpipe_profile::{Nanos, Time};
use std::collections::BTreeMap;

/// Packets acknowledged after a packet from which on it is lost (RFC 9002 §6.1.1).
const PACKET_THRESHOLD: u64 = 3;

/// A packet sent.
#[derive(Clone, Debug)]
pub struct Sent {
    /// When.
    pub at: Time,
    /// Whether it is ack-eliciting, and so in flight.
    pub is_in_flight: bool,
    /// Its data and other frames that are repeated if it is lost.
    pub chunks: Vec<Chunk>,
    /// See `chunks`.
    pub control: Control,
    /// Largest number that its ACK frame acknowledged.
    pub ack_largest: Option<u64>,
    /// State of the rate sampler when it was sent.
    pub snapshot: Snapshot,
    /// Packets lost before it was sent.
    pub lost_before: u64,
    /// Packets in flight when it was sent, itself included.
    pub tx_in_flight: u32,
}

/// The packets of a space.
#[derive(Debug, Default)]
pub struct SentPackets {
    packets: BTreeMap<u64, Sent>,
    next: u64,
    largest_acked: Option<u64>,
    /// When the next packet will be lost by its age.
    loss_time: Option<Time>,
    last_ack_eliciting: Time,
    in_flight: u32,
}

impl SentPackets {
    /// Number of the next packet.
    #[must_use]
    pub const fn next(&self) -> u64 {
        self.next
    }

    /// Lowest number that is neither acknowledged nor lost.
    #[must_use]
    pub fn first(&self) -> u64 {
        self.packets.first_key_value().map_or(self.next, |(number, _)| *number)
    }

    /// When the next packet will be lost by its age.
    #[must_use]
    pub const fn loss_time(&self) -> Option<Time> {
        self.loss_time
    }

    /// When the last ack-eliciting packet was sent.
    #[must_use]
    pub const fn last_ack_eliciting(&self) -> Time {
        self.last_ack_eliciting
    }

    /// Packets in flight.
    #[must_use]
    pub const fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// The oldest packet in flight.
    #[must_use]
    pub fn oldest(&self) -> Option<&Sent> {
        self.packets.values().find(|packet| packet.is_in_flight)
    }

    /// Add the next packet.
    pub fn push(&mut self, packet: Sent) {
        if packet.is_in_flight {
            self.last_ack_eliciting = packet.at;
            self.in_flight += 1;
        }
        self.packets.insert(self.next, packet);
        self.next += 1;
    }

    /// Remove the packets in `ranges`, and return those that were not removed before, in order.
    pub fn on_ack(&mut self, ranges: &[(u64, u64)]) -> Vec<(u64, Sent)> {
        let mut acked = Vec::new();
        for &(first, last) in ranges.iter().rev() {
            while let Some((&number, _)) = self.packets.range(first..=last).next() {
                acked.extend(self.remove(number).map(|packet| (number, packet)));
            }
        }
        if let Some(&(_, largest)) = ranges.first().filter(|range| range.1 < self.next) {
            self.largest_acked = self.largest_acked.max(Some(largest));
        }
        acked
    }

    /// Remove the packets that are lost, and return them in order (`DetectAndRemoveLostPackets`).
    pub fn detect_losses(&mut self, now: Time, delay: Nanos) -> Vec<(u64, Sent)> {
        self.loss_time = None;
        let Some(largest) = self.largest_acked else { return Vec::new() };
        let mut lost = Vec::new();
        for (&number, packet) in self.packets.range(..largest) {
            let due = packet.at + delay;
            if due <= now || largest >= number + PACKET_THRESHOLD {
                lost.push(number);
            } else {
                self.loss_time = Some(self.loss_time.map_or(due, |time| time.min(due)));
            }
        }
        lost.into_iter().filter_map(|number| self.remove(number).map(|packet| (number, packet))).collect()
    }

    fn remove(&mut self, number: u64) -> Option<Sent> {
        let packet = self.packets.remove(&number)?;
        self.in_flight -= u32::from(packet.is_in_flight);
        Some(packet)
    }

    /// Forget all packets: the keys of the space are discarded (RFC 9002 §6.4). Returns the number in flight.
    pub fn discard(&mut self) -> u32 {
        self.packets.clear();
        self.loss_time = None;
        std::mem::take(&mut self.in_flight)
    }
}

/// Whether lost packets, which are one after the other in `lost`, span a time of persistent congestion: none between them was acknowledged, and all were
/// sent after `since`, the first RTT sample (RFC 9002 §7.6.2).
#[must_use]
pub fn is_persistent_congestion(lost: &[(u64, Sent)], since: Time, duration: Nanos) -> bool {
    let mut begin: Option<(u64, Time)> = None; // last number of the row, and when its first packet was sent
    for (number, packet) in lost.iter().filter(|(_, packet)| packet.at > since) {
        let row = begin.filter(|(last, _)| last + 1 == *number);
        let first = row.map_or(packet.at, |(_, first)| first);
        if packet.is_in_flight && packet.at.since(first) > duration {
            return true;
        }
        // A row begins with an ack-eliciting packet.
        begin = (row.is_some() || packet.is_in_flight).then_some((*number, first));
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rate_sampler::RateSampler;

    const fn ms(n: u64) -> Time {
        Time(n * 1_000_000)
    }

    fn packet(at: Time) -> Sent {
        let snapshot = RateSampler::default().on_sent(at, true);
        Sent {
            at,
            is_in_flight: true,
            chunks: vec![],
            control: Control::default(),
            ack_largest: None,
            snapshot,
            lost_before: 0,
            tx_in_flight: 1,
        }
    }

    fn sent(times: &[u64]) -> SentPackets {
        let mut packets = SentPackets::default();
        for &at in times {
            packets.push(packet(ms(at)));
        }
        packets
    }

    fn numbers(packets: &[(u64, Sent)]) -> Vec<u64> {
        packets.iter().map(|(number, _)| *number).collect()
    }

    #[test]
    fn a_packet_is_lost_once_one_three_later_is_acknowledged() {
        let mut packets = sent(&[0, 0, 0, 0, 0]);
        assert_eq!(numbers(&packets.on_ack(&[(2, 2)])), [2]);
        assert!(packets.detect_losses(ms(50), Nanos::from_millis(100)).is_empty());
        assert_eq!(packets.loss_time(), Some(ms(100)));
        packets.on_ack(&[(3, 3)]);
        assert_eq!(numbers(&packets.detect_losses(ms(50), Nanos::from_millis(100))), [0]);
        assert_eq!((packets.in_flight(), packets.first()), (2, 1));
    }

    #[test]
    fn a_packet_is_lost_by_its_age_only_if_a_later_one_is_acknowledged() {
        let mut packets = sent(&[0, 5, 6]);
        packets.on_ack(&[(1, 1)]);
        assert_eq!(numbers(&packets.detect_losses(ms(90), Nanos::from_millis(90))), [0]);
        assert!(packets.detect_losses(ms(900), Nanos::from_millis(90)).is_empty(), "the tail is left to the PTO");
    }

    #[test]
    fn an_acknowledgement_of_what_was_never_sent_changes_nothing() {
        let mut packets = sent(&[0]);
        assert!(packets.on_ack(&[(7, 9)]).is_empty());
        assert!(packets.detect_losses(ms(900), Nanos::from_millis(90)).is_empty());
    }

    #[test]
    fn persistent_congestion_is_a_row_of_losses_longer_than_its_duration() {
        // The example of RFC 9002 §7.6.3: packets 2 to 8, sent from 1 to 12 s, are lost; PTO 2 s, so 6 s are persistent.
        let lost = |numbers: &[(u64, u64)]| -> Vec<_> { numbers.iter().map(|&(n, at)| (n, packet(ms(at)))).collect() };
        let row = lost(&[(2, 1000), (3, 2000), (4, 3000), (5, 4000), (6, 5000), (7, 6000), (8, 12_000)]);
        let duration = Nanos::from_secs(6);
        assert!(is_persistent_congestion(&row, ms(500), duration));
        assert!(!is_persistent_congestion(&row[..6], ms(500), duration));
        assert!(!is_persistent_congestion(&row, ms(7000), duration), "no RTT was known");
        let broken = lost(&[(2, 1000), (3, 2000), (5, 4000), (6, 9000)]);
        assert!(!is_persistent_congestion(&broken, ms(500), duration), "packet 4 was acknowledged");
    }
}
