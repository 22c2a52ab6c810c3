//! Tests of BBR's states and window over a whole flow.

use super::super::RateSample;
use super::super::testing::{Driver, ack_at, config, controller, in_bytes, options_of, state_of};
use super::*;
use crate::RecoveryState;

const RTT: Nanos = Nanos::from_millis(40);

fn driver() -> Driver {
    Driver::new(controller("bbr"), RTT, 100, 300)
}

fn bbr() -> Bbr {
    Bbr::new(&config(), options_of(&ENTRY, &[]))
}

/// Window [packets] every 40 ms over a path of 100 packets per RTT and a queue of 300. STARTUP ends after three rounds in a queue of 2.9 RTTs, at
/// 2.885 · 100 and bursts; then the window shrinks towards 2 · 100 and bursts.
#[test]
fn window_trace() {
    assert_eq!(driver().trace(RTT, 30), TRACE);
}

#[rustfmt::skip]
const TRACE: [u64; 30] = [
    10, 20, 40, 74, 135, 233, 308, 308, 308, 308, 308, 308, 308, 308, 308, 306, 306, 306, 216, 222,
    216, 216, 216, 216, 208, 208, 208, 214, 208, 208,
];

/// Runs, and returns the states and the times at which they were entered [RTT].
fn states(driver: &mut Driver, count: u64) -> Vec<(&'static str, u64)> {
    let mut states = vec![(state_of(&*driver.controller), 0)];
    for k in 1..=count {
        driver.run(Time(RTT.0 * k));
        let state = state_of(&*driver.controller);
        if states.last().is_some_and(|last| last.0 != state) {
            states.push((state, k));
        }
    }
    states
}

#[test]
fn it_starts_drains_probes_and_refreshes_its_minimum_rtt_every_ten_seconds() {
    let states = states(&mut driver(), 600);
    let names: Vec<_> = states.iter().map(|s| s.0).collect();
    assert_eq!(names, ["startup", "drain", "probe_bw", "probe_rtt", "probe_bw", "probe_rtt", "probe_bw"]);
    // 10 s are 250 RTTs; PROBE_RTT lasts 200 ms and the time to shrink inflight and to fill the pipe again.
    assert!(states[5].1 - states[3].1 >= 250 && states[5].1 - states[3].1 <= 260, "{states:?}");
    assert!((5..=8).contains(&(states[4].1 - states[3].1)), "{states:?}");
}

#[test]
fn it_fills_the_pipe_with_a_margin_of_one_percent() {
    let mut d = driver();
    d.run(Time(3_000_000_000));
    let before = d.delivered();
    d.run(Time(9_000_000_000));
    let share = (d.delivered() - before) as f64 / (150.0 * 100.0);
    assert!((0.97..=1.0).contains(&share), "{share}");
}

#[test]
fn losses_change_neither_the_rate_nor_the_restored_window() {
    let mut d = driver();
    d.run(Time(3_000_000_000));
    let rate = d.controller.pacing_rate().expect("BBR paces").0 as f64;
    let sent = d.delivered() + 200;
    d.drop.extend([sent, sent + 1, sent + 40]);
    d.run(Time(4_000_000_000));
    assert!((200..=230).contains(&d.cwnd()), "{}", d.cwnd());
    let after = d.controller.pacing_rate().expect("BBR paces").0 as f64;
    assert!((0.74..=1.34).contains(&(after / rate)), "{after} after {rate}"); // gains 3/4 to 5/4 on either side
}

#[test]
fn every_state_transition_is_in_the_diagram() {
    use Mode::{Drain, ProbeBw, ProbeRtt, Startup};
    let all = [Startup, Drain, ProbeBw, ProbeRtt];
    let legal: Vec<_> = all.iter().flat_map(|a| all.iter().map(move |b| (*a, *b))).filter(|(a, b)| a.may_become(*b)).collect();
    let diagram = [
        (Startup, Drain),
        (Startup, ProbeRtt),
        (Drain, ProbeBw),
        (Drain, ProbeRtt),
        (ProbeBw, ProbeRtt),
        (ProbeRtt, Startup),
        (ProbeRtt, ProbeBw),
    ];
    assert_eq!(legal, diagram);
}

#[test]
fn the_first_rate_is_the_initial_window_per_rtt() {
    let mut b = bbr();
    b.on_established(Time::ZERO, Some(RTT));
    // 2.887 · 10 · 1448 B / 40 ms, less 1 %.
    let expected = 739.0 / 256.0 * 14_480.0 * 8.0 / 0.04 * 0.99;
    let rate = b.pacing_rate().expect("BBR paces").0 as f64;
    assert!((rate / expected - 1.0).abs() < 1e-3, "{rate} against {expected}");
}

/// Returns an ACK of a full pipe: 100 packets per RTT, one packet each.
fn steady(now: Time, delivered: u64) -> AckSample {
    AckSample {
        rtt: Some(RTT),
        srtt: RTT,
        min_rtt: RTT,
        delivery: Some(RateSample {
            prior_delivered: in_bytes(delivered.saturating_sub(100)),
            delivered: in_bytes(100),
            interval: RTT,
            app_limited: false,
        }),
        delivered_total: in_bytes(delivered),
        in_flight: in_bytes(100),
        prior_in_flight: in_bytes(101),
        ..ack_at(now)
    }
}

/// Returns a connection in `PROBE_BW`, and the packets delivered.
fn cruising() -> (Bbr, u64) {
    cruise(bbr())
}

fn cruise(mut b: Bbr) -> (Bbr, u64) {
    b.on_established(Time::ZERO, Some(RTT));
    let mut delivered = 0;
    while b.mode != Mode::ProbeBw {
        delivered += 1;
        b.on_ack(&steady(Time(delivered * 400_000), delivered));
        assert!(delivered < 2000, "still in {:?}", b.mode);
    }
    (b, delivered)
}

/// Returns a connection in DRAIN, with more in flight than the target.
fn draining() -> (Bbr, u64) {
    let mut b = bbr();
    b.on_established(Time::ZERO, Some(RTT));
    let mut delivered = 0;
    while b.mode != Mode::Drain {
        delivered += 1;
        b.on_ack(&AckSample { in_flight: in_bytes(250), ..steady(Time(delivered * 400_000), delivered) });
        assert!(delivered < 2000, "still in {:?}", b.mode);
    }
    (b, delivered)
}

#[test]
fn the_window_is_two_bdp_and_three_bursts() {
    let (mut b, mut delivered) = cruising();
    let mut acks = 0;
    while acks < 100 || b.pacing_gain != UNIT {
        acks += 1;
        delivered += 1;
        b.on_ack(&steady(Time(delivered * 400_000), delivered));
    }
    // 29 Mbit/s while cruising: bursts of two packets. The ACKs come as fast as the bandwidth, one at a time.
    let extra = b.aggregation.extra_acked();
    assert!((1..=2).contains(&extra), "{extra}");
    assert_eq!(b.cwnd(), in_bytes((200 + extra + 6).next_multiple_of(2)));
}

#[test]
fn a_time_out_leaves_one_packet_and_the_window_is_restored_later() {
    let (mut b, mut delivered) = cruising();
    let before = b.cwnd();
    let at = Time(delivered * 400_000);
    b.on_congestion(at, Congestion::Timeout, Bytes::ZERO);
    assert_eq!(b.cwnd(), in_bytes(1));
    delivered += 1;
    b.on_ack(&AckSample { recovery: RecoveryState::Loss, in_flight: Bytes::ZERO, ..steady(at + RTT, delivered) });
    assert_eq!(b.cwnd(), in_bytes(4));
    delivered += 1;
    b.on_ack(&AckSample { recovery: RecoveryState::Open, in_flight: in_bytes(3), ..steady(at + RTT, delivered) });
    assert!(b.cwnd().0 + in_bytes(4).0 >= before.0, "{:?} after {before:?}", b.cwnd());
}

#[test]
fn after_an_idle_period_it_sends_at_the_bandwidth_and_does_not_enter_probe_rtt() {
    let (mut b, mut delivered) = cruising();
    let at = Time(delivered * 400_000);
    b.on_sent(at, Bytes::ZERO, true);
    let later = at + Nanos::from_secs(60);
    b.on_congestion(later, Congestion::Restart(Nanos::from_secs(60)), Bytes::ZERO);
    let rate = b.pacing_rate().expect("BBR paces").0 as f64;
    assert!((rate / (100.0 * 1448.0 * 8.0 / 0.04 * 0.99) - 1.0).abs() < 1e-3, "{rate}");
    delivered += 1;
    b.on_ack(&steady(later + RTT, delivered));
    assert_eq!(b.mode, Mode::ProbeBw);
    // The exception holds for the first ACK only.
    b.on_ack(&AckSample { rtt: None, ..steady(later + Nanos::from_secs(11), delivered + 1) });
    assert_eq!(b.mode, Mode::ProbeRtt);
}

/// Returns a connection 11 s after `cruising`, with the time and the packets delivered.
fn probing_rtt(probe_rtt_mode_ms: f64) -> (Bbr, Time, u64) {
    let (mut b, mut delivered) = cruise(Bbr::new(&config(), options_of(&ENTRY, &[("probe_rtt_mode_ms", probe_rtt_mode_ms.into())])));
    let now = Time(delivered * 400_000) + Nanos::from_secs(11);
    delivered += 1;
    b.on_ack(&AckSample { rtt: None, ..steady(now, delivered) });
    (b, now, delivered)
}

#[test]
fn probe_rtt_shrinks_to_four_packets_without_rate_samples_and_then_restores_the_window() {
    let before = cruising().0;
    let (mut b, mut now, mut delivered) = probing_rtt(1000.0);
    assert_eq!((b.mode, b.cwnd()), (Mode::ProbeRtt, in_bytes(4)));
    let mut acks = 0;
    while b.mode == Mode::ProbeRtt {
        now = now + Nanos::from_millis(10);
        delivered += 1;
        acks += 1;
        let slow = RateSample { prior_delivered: in_bytes(delivered - 4), delivered: in_bytes(4), interval: RTT, app_limited: false };
        b.on_ack(&AckSample { delivery: Some(slow), in_flight: in_bytes(4), ..steady(now, delivered) });
    }
    assert_eq!(acks, 102); // 10 ms to begin, 1 s, and the first ACK after
    // 25 rounds at a tenth of the rate.
    assert_eq!(b.bandwidth.max(), before.bandwidth.max());
    assert!(b.cwnd >= 200, "{}", b.cwnd);
}

#[test]
fn probe_rtt_waits_for_a_round_that_began_with_little_in_flight() {
    let (mut b, start, delivered) = probing_rtt(200.0);
    let ack = |ms: u64, sent_at: u64| {
        let sample = RateSample { prior_delivered: in_bytes(sent_at), delivered: in_bytes(4), interval: RTT, app_limited: false };
        AckSample { delivery: Some(sample), in_flight: in_bytes(4), ..steady(start + Nanos::from_millis(ms), delivered + 1) }
    };
    b.on_ack(&ack(10, 0));
    // Sent after the previous round began, but before little was in flight.
    b.on_ack(&ack(250, delivered));
    assert_eq!(b.mode, Mode::ProbeRtt);
    b.on_ack(&ack(260, delivered + 1));
    assert_eq!(b.mode, Mode::ProbeBw);
}

#[test]
fn packets_are_conserved_for_one_round_of_recovery() {
    let (mut b, start) = cruising();
    let ack = |k: u64, sent_at: u64| {
        let sample = RateSample { prior_delivered: in_bytes(sent_at), delivered: in_bytes(100), interval: RTT, app_limited: false };
        AckSample {
            recovery: RecoveryState::Recovery,
            delivery: Some(sample),
            in_flight: in_bytes(50),
            ..steady(Time((start + k) * 400_000), start + k)
        }
    };
    b.on_congestion(Time(start * 400_000), Congestion::Loss, in_bytes(50));
    b.on_ack(&ack(1, start - 50));
    assert_eq!(b.cwnd(), in_bytes(51));
    // Sent since the last round began, but before recovery: no new round.
    b.on_ack(&ack(2, start));
    assert_eq!(b.cwnd(), in_bytes(51));
    b.on_ack(&ack(3, start + 1));
    assert_eq!(b.cwnd(), in_bytes(52));
}

#[test]
fn drain_ends_when_the_queue_will_be_drained_by_the_next_departure() {
    let (b, delivered) = draining();
    // The target is a hundred packets and the bursts: 140 are too many now, the 90 left after 20 ms are not.
    for (pause_ms, mode) in [(0, Mode::Drain), (20, Mode::ProbeBw)] {
        let mut b = b.clone();
        let now = Time((delivered + 1) * 400_000);
        let next_departure = now + Nanos::from_millis(pause_ms);
        b.on_ack(&AckSample { in_flight: in_bytes(140), next_departure, ..steady(now, delivered + 1) });
        assert_eq!(b.mode, mode);
    }
}

#[test]
fn spurious_losses_restart_the_count_of_startup_rounds() {
    let mut b = bbr();
    b.on_established(Time::ZERO, Some(RTT));
    for k in 1..=250 {
        b.on_ack(&steady(Time(k * 400_000), k));
    }
    assert_eq!((b.mode, b.full_pipe.rounds_without_growth()), (Mode::Startup, 2));
    b.on_congestion(Time(251 * 400_000), Congestion::Undo, in_bytes(100));
    assert_eq!(b.full_pipe.rounds_without_growth(), 0);
}

/// A fifth lost in every round of a hundred.
#[test]
fn a_policers_rate_is_used_without_probing_until_losses_prove_spurious() {
    let (mut b, start) = cruising();
    let mut lost = 0;
    for k in 1..=1200 {
        let lossy = k % 100 == 0;
        lost += if lossy { 25 } else { 0 };
        let newly_lost = in_bytes(if lossy { 25 } else { 0 });
        b.on_ack(&AckSample { newly_lost, lost_total: in_bytes(lost), ..steady(Time((start + k) * 400_000), start + k) });
    }
    assert!(b.policer.bw().is_some());
    assert_eq!(b.pacing_gain, UNIT);
    b.on_congestion(Time((start + 1201) * 400_000), Congestion::Undo, in_bytes(100));
    assert_eq!(b.policer.bw(), None);
}
