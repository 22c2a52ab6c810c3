//! Model-based fuzzing of every registered controller, with options at the ends of their ranges: window and rate stay positive whatever a sender reports.

use super::registry::{CONTROLLERS, Config, Entry};
use super::testing::{MSS, ack_at, in_bytes, state_of};
use super::{AckSample, Congestion, LostPacket, PathHint, RateSample, RecoveryState};
use bentpipe_profile::options::OptionValues;
use bentpipe_profile::tunables::Allowed;
use bentpipe_profile::{Bytes, Nanos, Rate, Streams, Time};
use proptest::prelude::*;

/// A random event.
#[derive(Clone, Debug)]
enum Step {
    Ack { packets: u64, lost: u64, rtt: Option<u64>, interval: Option<u64>, state: u8, flags: u8, in_flight: u64 },
    Congestion { kind: u8, in_flight: u64 },
    SetCwnd { packets: u64 },
    SetSsthresh { packets: u64 },
    Sent { in_flight: u64, app_limited: bool },
    Hint { ahead: u64 },
}

/// Returns values up to `2^bits`, spread evenly over the orders of magnitude.
fn magnitude(bits: u32) -> impl Strategy<Value = u64> {
    (0..=bits).prop_flat_map(|b| 0..=(1_u64 << b))
}

fn step() -> impl Strategy<Value = (u64, Step)> {
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
struct Sender {
    now: Time,
    delivered: u64,
    lost: u64,
    una: u64,
}

impl Sender {
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
fn extremes(entry: &Entry, pick: u128) -> OptionValues {
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn window_and_rate_stay_positive_after_any_events(seed: u64, paced: bool, pick in prop_oneof![Just(0_u128), any::<u128>()], established in proptest::option::of(magnitude(40)), steps in prop::collection::vec(step(), 1..300)) {
        for entry in CONTROLLERS {
            let config = Config { mss: MSS, initial_cwnd: in_bytes(10), streams: Streams::new(seed), paced };
            let values = entry.declared().check(&extremes(entry, pick)).expect("in range");
            let mut controller = (entry.build)(&config, &values);
            let mut sender = Sender::default();
            controller.on_established(sender.now, established.map(Nanos));
            for (pause, step) in &steps {
                sender.now = sender.now + Nanos(*pause);
                match step {
                    Step::Ack { lost, in_flight, .. } => {
                        let ack = sender.ack(step).expect("an ACK");
                        if *lost > 0 {
                            controller.on_packet_lost(&LostPacket {
                                now: sender.now,
                                seq: in_bytes(sender.una).0,
                                bytes: in_bytes(1),
                                sent_at: sender.now,
                                tx_in_flight: in_bytes(*in_flight),
                                delivered_at_send: in_bytes(sender.delivered),
                                lost_at_send: in_bytes(sender.lost - lost),
                                lost_total: ack.lost_total,
                                delivered_total: in_bytes(sender.delivered),
                                app_limited: ack.app_limited,
                            });
                        }
                        controller.on_acked(&ack);
                        controller.on_ack(&ack);
                    }
                    Step::Congestion { kind, in_flight } => controller.on_congestion(sender.now, event(*kind), in_bytes(*in_flight)),
                    Step::SetCwnd { packets } => controller.set_cwnd(in_bytes(*packets)),
                    Step::SetSsthresh { packets } => controller.set_ssthresh(in_bytes(*packets)),
                    Step::Sent { in_flight, app_limited } => controller.on_sent(sender.now, in_bytes(*in_flight), *app_limited),
                    Step::Hint { ahead } if ahead % 2 == 0 => controller.on_path_hint(&PathHint::WallClock(ahead.cast_signed())),
                    Step::Hint { ahead } => controller.on_path_hint(&PathHint::Reconfiguration(sender.now + Nanos(*ahead))),
                }
                prop_assert!(controller.cwnd() >= in_bytes(1), "{}: {:?} after {step:?}", entry.name, controller.cwnd());
                prop_assert!(controller.pacing_rate().is_none_or(|rate| rate.0 > 0), "{} stops after {step:?}", entry.name);
                prop_assert!(!state_of(&*controller).is_empty(), "{} has no state", entry.name);
            }
        }
    }
}
