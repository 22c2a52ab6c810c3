//! Random events for model-based fuzzing of controllers: whatever a sender may report, its counters consistent.

use super::hook_trace::Call;
use super::registry::Entry;
use super::testing::{ack_at, in_bytes};
use super::{AckSample, Congestion, LostPacket, PathHint, RateSample, RecoveryState};
use bentpipe_profile::options::OptionValues;
use bentpipe_profile::tunables::Allowed;
use bentpipe_profile::{Bytes, Nanos, Rate, Time};
use proptest::prelude::*;

/// A random event.
#[derive(Clone, Debug)]
#[allow(missing_docs)] // each is a call of a controller
pub enum Step {
    Ack { packets: u64, lost: u64, rtt: Option<u64>, interval: Option<u64>, state: u8, flags: u8, in_flight: u64 },
    Congestion { kind: u8, in_flight: u64 },
    SetCwnd { packets: u64 },
    SetSsthresh { packets: u64 },
    Sent { in_flight: u64, app_limited: bool },
    Hint { ahead: u64 },
}

/// Returns values up to `2^bits`, spread evenly over the orders of magnitude.
pub fn magnitude(bits: u32) -> impl Strategy<Value = u64> {
    (0..=bits).prop_flat_map(|b| 0..=(1_u64 << b))
}

/// Returns a pause and an event.
pub fn step() -> impl Strategy<Value = (u64, Step)> {
    let ack = (
        magnitude(20),
        magnitude(12),
        proptest::option::weighted(0.9, magnitude(40)),
        proptest::option::weighted(0.9, magnitude(40)),
        any::<u8>(),
        any::<u8>(),
        magnitude(24),
    )
        .prop_map(|(packets, lost, rtt, interval, state, flags, in_flight)| Step::Ack {
            packets,
            lost,
            rtt,
            interval,
            state,
            flags,
            in_flight,
        });
    let step = prop_oneof![
        20 => ack,
        3 => (any::<u8>(), magnitude(24)).prop_map(|(kind, in_flight)| Step::Congestion { kind, in_flight }),
        1 => magnitude(40).prop_map(|packets| Step::SetCwnd { packets }),
        1 => magnitude(40).prop_map(|packets| Step::SetSsthresh { packets }),
        1 => (magnitude(24), any::<bool>()).prop_map(|(in_flight, app_limited)| Step::Sent { in_flight, app_limited }),
        1 => magnitude(40).prop_map(|ahead| Step::Hint { ahead }),
    ];
    (magnitude(36), step)
}

/// State of the sender, kept consistent: counters only grow.
#[derive(Default)]
pub struct Sender {
    now: Time,
    delivered: u64,
    lost: u64,
    una: u64,
}

impl Sender {
    /// Lets `pause` pass [ns] and returns the calls of a step, in order.
    ///
    /// # Panics
    /// Never.
    pub fn calls(&mut self, pause: u64, step: &Step) -> Vec<Call> {
        self.now = self.now + Nanos(pause);
        match *step {
            Step::Ack { lost, in_flight, .. } => {
                let ack = self.ack(step).expect("an ACK");
                let packet = LostPacket {
                    now: self.now,
                    seq: in_bytes(self.una).0,
                    bytes: in_bytes(1),
                    sent_at: self.now,
                    tx_in_flight: in_bytes(in_flight),
                    delivered_at_send: in_bytes(self.delivered),
                    lost_at_send: in_bytes(self.lost - lost),
                    lost_total: ack.lost_total,
                    delivered_total: in_bytes(self.delivered),
                    app_limited: ack.app_limited,
                };
                let lost = (lost > 0).then_some(Call::PacketLost(packet));
                lost.into_iter().chain([Call::Acked(ack), Call::Ack(ack)]).collect()
            }
            Step::Congestion { kind, in_flight } => {
                vec![Call::Congestion { now: self.now, event: event(kind), in_flight: in_bytes(in_flight) }]
            }
            Step::SetCwnd { packets } => vec![Call::SetCwnd(in_bytes(packets))],
            Step::SetSsthresh { packets } => vec![Call::SetSsthresh(in_bytes(packets))],
            Step::Sent { in_flight, app_limited } => vec![Call::Sent { now: self.now, in_flight: in_bytes(in_flight), app_limited }],
            Step::Hint { ahead } if ahead % 2 == 0 => vec![Call::PathHint(PathHint::WallClock(ahead.cast_signed()))],
            Step::Hint { ahead } => vec![Call::PathHint(PathHint::Reconfiguration(self.now + Nanos(ahead)))],
        }
    }

    fn ack(&mut self, step: &Step) -> Option<AckSample> {
        let &Step::Ack { packets, lost, rtt, interval, state, flags, in_flight } = step else { return None };
        let flag = |bit: u8| flags >> bit & 1 == 1;
        let before = self.delivered;
        self.delivered += packets;
        self.lost += lost;
        self.una += if flag(0) { packets } else { 0 };
        let rtt = rtt.map(Nanos);
        Some(AckSample {
            // Segments may be short.
            acked: Bytes(in_bytes(packets).0.saturating_sub(if flag(1) { 700 } else { 0 })),
            cumulative: if flag(0) { in_bytes(packets) } else { Bytes::ZERO },
            newly_lost: in_bytes(lost),
            rtt,
            srtt: rtt.unwrap_or_default(),
            min_rtt: rtt.unwrap_or(Nanos::MAX),
            delivery: interval.map(|ns| RateSample {
                prior_delivered: in_bytes(before.saturating_sub(in_flight)),
                delivered: in_bytes(self.delivered - before.saturating_sub(in_flight)),
                interval: Nanos(ns),
                app_limited: flag(2),
            }),
            delivered_total: in_bytes(self.delivered),
            lost_total: in_bytes(self.lost),
            tx_in_flight: in_bytes(in_flight),
            lost_since_sent: in_bytes(lost),
            prior_in_flight: in_bytes(in_flight + packets + lost),
            in_flight: in_bytes(in_flight),
            ce_count: u64::from(flags),
            ack_delayed: flag(3),
            cwnd_limited: !flag(4),
            window_full: !flag(4),
            recovery: [RecoveryState::Open, RecoveryState::Disorder, RecoveryState::Cwr, RecoveryState::Recovery, RecoveryState::Loss]
                [usize::from(state % 5)],
            app_limited: flag(5),
            snd_una: in_bytes(self.una).0,
            snd_nxt: in_bytes(self.una + in_flight).0,
            pacing_rate: Rate(if flag(6) { 0 } else { self.delivered }),
            next_departure: self.now + Nanos(if flag(7) { u64::from(state) * 1_000_000 } else { 0 }),
            ..ack_at(self.now)
        })
    }
}

const fn event(kind: u8) -> Congestion {
    match kind % 8 {
        0 => Congestion::Loss,
        1 => Congestion::Ecn,
        2 => Congestion::Timeout,
        3 => Congestion::TimeoutAgain,
        4 => Congestion::Undo,
        5 => Congestion::RecoveryEnd,
        6 => Congestion::TailLoss,
        _ => Congestion::Restart(Nanos::from_millis(kind as u64 * 100)),
    }
}

/// Sets every option of a controller to its default, smallest or largest value, by two bits of `pick` each.
#[must_use]
#[allow(clippy::missing_panics_doc)] // never: choices have names
pub fn extremes(entry: &Entry, pick: u128) -> OptionValues {
    let ends = |allowed| match allowed {
        Allowed::Switch => (0.0.into(), 1.0.into()),
        Allowed::Range(min, max) => (min.into(), max.into()),
        Allowed::Count(min, max) => (f64::from(min).into(), f64::from(max).into()),
        Allowed::Choice(names) => (names[0].into(), names[names.len() - 1].into()),
    };
    let options = entry.options.iter().enumerate();
    options
        .filter_map(|(i, option)| {
            let (least, greatest) = ends(option.allowed);
            match pick >> (2 * i) & 3 {
                2 => Some((option.name.to_owned(), least)),
                3 => Some((option.name.to_owned(), greatest)),
                _ => None,
            }
        })
        .collect()
}
