//! An ACK in packets, with the losses and marks of the flight that it ends.

use super::super::AckSample;
use super::super::bbr_parts::bw::Bw;
use super::super::window::clamped_packets;
use super::Bbr3;
use bentpipe_profile::{Bytes, Nanos, Time};

/// Counts and flags of one ACK [packets].
#[derive(Clone, Copy, Debug)]
#[allow(clippy::struct_excessive_bools)] // independent flags of one ACK
pub struct Sample {
    pub now: Time,
    pub acked: u64,
    pub newly_lost: u64,
    pub in_flight: u64,
    pub prior_in_flight: u64,
    /// Whether the delivery rate is valid.
    pub valid: bool,
    /// The delivery rate; zero where it is not valid.
    pub bw: Bw,
    /// Packets delivered in the interval of the sample.
    pub delivered: u64,
    pub prior_delivered: Bytes,
    pub delivered_total: Bytes,
    pub app_limited: bool,
    /// Packets in flight when the newest acknowledged packet was sent, and lost and marked since.
    pub tx_in_flight: u64,
    pub lost: u64,
    pub marked: u64,
    pub round_start: bool,
    pub window_full: bool,
    /// Whether the sender is in fast recovery, and whether it is in `Open`.
    pub in_recovery: bool,
    pub open: bool,
}

impl Bbr3 {
    pub(super) fn sample(&mut self, ack: &AckSample) -> Sample {
        let count = |bytes| clamped_packets(bytes, self.mss);
        // Below a microsecond, the kernel clock's resolution, there is no rate.
        let delivery = ack.delivery.as_ref().filter(|d| d.interval >= Nanos::from_micros(1));
        let bw = delivery.and_then(|d| Bw::of(d.delivered, d.interval, self.mss));
        let prior_delivered = delivery.map_or(ack.delivered_total, |d| d.prior_delivered);
        Sample {
            now: ack.now,
            acked: count(ack.acked),
            newly_lost: if self.ignores_losses { 0 } else { count(ack.newly_lost) },
            in_flight: count(ack.in_flight),
            prior_in_flight: count(ack.prior_in_flight),
            valid: bw.is_some() && ack.acked > Bytes::ZERO,
            bw: bw.unwrap_or_default(),
            delivered: delivery.map_or(0, |d| count(d.delivered)),
            prior_delivered,
            delivered_total: ack.delivered_total,
            app_limited: delivery.is_some_and(|d| d.app_limited || self.probe_rtt.slowed(d.prior_delivered)),
            tx_in_flight: count(ack.tx_in_flight),
            lost: if self.ignores_losses { 0 } else { count(ack.lost_since_sent) },
            marked: self.ecn.marked_since(prior_delivered, ack.ce_count),
            round_start: self.rounds.advance(delivery, ack.delivered_total),
            window_full: ack.window_full,
            in_recovery: ack.recovery == super::RecoveryState::Recovery,
            open: ack.recovery == super::RecoveryState::Open,
        }
    }
}
