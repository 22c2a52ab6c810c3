//! Twins against their models in states that neither recorded flows nor random events reach: slow start round by round, many announcements, any wall clock.

mod pair;

use bentpipe_cc::hook_trace::Call;
use bentpipe_cc::registry::Config;
use bentpipe_cc::testing::{ack_at, config, given, in_bytes};
use bentpipe_cc::{AckSample, Congestion, PathHint, RateSample};
use bentpipe_profile::{Bytes, Nanos, Rate, Time};
use pair::Pair;
use proptest::prelude::*;

fn ack(pair: &mut Pair, ack: AckSample) {
    pair.call(&Call::Acked(ack));
    pair.call(&Call::Ack(ack));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn slow_start_ends_at_the_same_ack(paced: bool, pp: bool, rounds in prop::collection::vec((0_u64..4, 1_u64..20), 1..40), gap_us in 100_u64..2500) {
        let kind = if pp { "pp" } else { "classic" };
        let mut pair = Pair::new("cubic", &Config { paced, ..config() }, &given(&[("hystart", kind.into())]));
        let (mut now, mut una) = (Time::ZERO, 0);
        for (rtt, acks) in rounds {
            let snd_nxt = una + 100;
            for n in 1..=acks {
                now = now + Nanos::from_micros(gap_us);
                ack(&mut pair, AckSample {
                    rtt: Some(Nanos::from_millis([40, 43, 46, 60][usize::try_from(rtt).unwrap_or(0)])),
                    acked: in_bytes(1 + n % 12),
                    snd_una: una + n,
                    snd_nxt,
                    pacing_rate: Rate::from_mbps(acks * 100),
                    ..ack_at(now)
                });
            }
            una = snd_nxt;
        }
    }

    #[test]
    fn more_announcements_than_the_twin_holds_do_not_differ_if_they_come_in_time(ahead in 1_u64..60, early_ms in 0_u32..15_000, rule: bool) {
        let rule = if rule { "paper" } else { "code" };
        let mut pair = Pair::new("satcp", &config(), &given(&[("rule", rule.into()), ("early_ms", f64::from(early_ms).into())]));
        for slot in 0..200_u64 {
            pair.call(&Call::PathHint(PathHint::Reconfiguration(Time((slot + ahead) * 15_000_000_000))));
            for step in 0..5 {
                let now = Time((slot * 5 + step) * 3_000_000_000);
                ack(&mut pair, AckSample { rtt: Some(Nanos::from_millis(40 + step)), ..ack_at(now) });
                let event = [Congestion::Loss, Congestion::Timeout, Congestion::Undo][usize::try_from(slot % 3).unwrap_or(0)];
                pair.call(&Call::Congestion { now, event, in_flight: Bytes::ZERO });
                pair.call(&Call::SetCwnd(in_bytes(10 + slot % 7)));
            }
        }
    }

    #[test]
    fn reassignments_follow_any_wall_clock(unix_ns: i64, period_s in 3_u32..100, reassigned_at_s in 0_u32..200) {
        let options = [("period_s", f64::from(period_s).into()), ("reassigned_at_s", f64::from(reassigned_at_s).into())];
        let mut pair = Pair::new("leocc", &config(), &given(&options));
        pair.call(&Call::PathHint(PathHint::WallClock(unix_ns)));
        for step in 0..2000_u64 {
            let delivered = in_bytes(50 * step);
            ack(&mut pair, AckSample {
                acked: in_bytes(50),
                rtt: Some(Nanos::from_millis(40 + step % 90)),
                srtt: Nanos::from_millis(40),
                delivery: Some(RateSample {
                    prior_delivered: Bytes(delivered.0.saturating_sub(in_bytes(50).0)),
                    delivered: in_bytes(50),
                    interval: Nanos::from_millis(40 + step % 3),
                    app_limited: false,
                }),
                delivered_total: delivered,
                in_flight: in_bytes(step % 120),
                prior_in_flight: in_bytes(step % 120 + 50),
                ..ack_at(Time(step * 50_000_000))
            });
        }
    }
}
