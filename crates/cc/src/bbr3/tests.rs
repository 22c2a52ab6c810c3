//! Tests of versions 2 and 3 over a whole flow: the draft's example test cases, and the differences of the kernel's modules.

mod appendix_a;

use super::super::RateSample;
use super::super::registry;
use super::super::testing::{Driver, ack_at, config, given, in_bytes, options_of};
use super::*;
use bentpipe_profile::options::OptionValue;

pub(super) const RTT: Nanos = Nanos::from_millis(40);

pub(super) const fn ms(n: u64) -> Nanos {
    Nanos::from_millis(n)
}

/// Returns a flow over a path of 100 packets per RTT (28.96 Mbit/s) with room for `queue` more.
pub(super) fn driver(name: &str, options: &[(&str, OptionValue)], queue: u64) -> Driver {
    Driver::new(registry::build(name, &config(), &given(options)).expect("in range"), RTT, 100, queue)
}

pub(super) fn bbr3(options: &[(&str, OptionValue)]) -> Bbr3 {
    Bbr3::new(&config(), &Params::version_3(&options_of(&ENTRY, options)))
}

/// Returns an ACK of a full pipe: 100 packets per RTT, one packet each, with `in_flight` after it.
pub(super) fn steady(delivered: u64, in_flight: u64) -> AckSample {
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
        tx_in_flight: in_bytes(in_flight),
        in_flight: in_bytes(in_flight),
        prior_in_flight: in_bytes(in_flight + 1),
        ..ack_at(Time(delivered * 400_000))
    }
}

#[test]
fn every_state_transition_is_in_the_diagram() {
    use State::{Cruise, Down, Drain, ProbeRtt, Refill, Startup, Up};
    let all = [Startup, Drain, Down, Cruise, Refill, Up, ProbeRtt];
    let diagram = [
        (Startup, vec![Drain, ProbeRtt]),
        (Drain, vec![Startup, Down, ProbeRtt]),
        (Down, vec![Startup, Cruise, Refill, ProbeRtt]),
        (Cruise, vec![Startup, Refill, ProbeRtt]),
        (Refill, vec![Startup, Up, ProbeRtt]),
        (Up, vec![Startup, Down, ProbeRtt]),
        (ProbeRtt, vec![Startup, Down]),
    ];
    for (from, to) in diagram {
        let legal: Vec<_> = all.into_iter().filter(|&next| from.may_become(next)).collect();
        assert_eq!(legal, to, "from {from:?}");
    }
}

#[test]
fn window_traces() {
    assert_eq!(driver("bbr3", &[], 300).trace(RTT, 30), TRACE_3);
    assert_eq!(driver("bbr2", &[], 300).trace(RTT, 30), TRACE_2);
}

#[rustfmt::skip]
const TRACE_3: [u64; 30] = [
    10, 20, 38, 61, 116, 199, 211, 211, 211, 211, 211, 211, 202, 202, 202, 202, 202, 202, 202, 202, 202, 202, 202, 202, 202, 202, 201, 201, 201, 201,
];
#[rustfmt::skip]
const TRACE_2: [u64; 30] = [
    10, 20, 40, 74, 135, 233, 299, 299, 299, 299, 299, 299, 299, 299, 299, 291, 291, 291, 202, 202, 202, 202, 202, 202, 202, 202, 202, 202, 201, 201,
];

#[test]
fn all_versions_fill_the_pipe() {
    for (name, options) in [("bbr3", vec![]), ("bbr3", vec![("rules", "linux".into())]), ("bbr2", vec![])] {
        for queue in [20, 100, 1000] {
            let mut d = driver(name, &options, queue);
            d.run(Time(3_000_000_000));
            let before = d.delivered();
            d.run(Time(23_000_000_000));
            let share = (d.delivered() - before) as f64 / (500.0 * 100.0);
            assert!((0.9..=1.0).contains(&share), "{name} {options:?}, queue of {queue}: {share}");
        }
    }
}

#[test]
fn version_2_ends_its_probe_with_a_quarter_more_in_flight_and_version_3_at_a_plateau() {
    let mut rounds = Vec::new();
    for name in ["bbr2", "bbr3"] {
        let mut d = driver(name, &[], 1000);
        d.run_until(ms(10_000), "UP", |d| d.state() == "probe_bw_up");
        let lasted = d.run_until(ms(2_000), "end of UP", |d| d.state() != "probe_bw_up");
        assert_eq!(d.state(), "probe_bw_down");
        rounds.push(lasted.0 / RTT.0);
    }
    assert!((1..=2).contains(&rounds[0]) && rounds[1] >= 3, "{rounds:?}");
}

#[test]
fn cruise_and_refill_use_their_pacing_gains() {
    for name in ["bbr2", "bbr3"] {
        let mut d = driver(name, &[("probe_cruise_gain", 0.9375.into()), ("probe_refill_gain", 1.125.into())], 1000);
        for (state, gain) in [("probe_bw_cruise", 0.9375), ("probe_bw_refill", 1.125)] {
            d.run_until(ms(10_000), state, |d| d.state() == state);
            assert_eq!(d.value("pacing_gain"), Some(gain), "{name} in {state}");
            let max_bw = d.value("max_bw_bps").expect("reported");
            let rate = d.controller.pacing_rate().expect("paces").0 as f64;
            assert!((rate / (0.99 * gain * max_bw) - 1.0).abs() < 0.01, "{name} in {state}: {rate} of {max_bw}");
        }
    }
}

#[test]
fn one_loss_in_51_packets_is_too_much_and_in_52_it_is_not() {
    let b = bbr3(&[]);
    assert!(b.is_inflight_too_high(1, 51, 0, 0) && !b.is_inflight_too_high(1, 52, 0, 0));
    let lenient = bbr3(&[("loss_thresh", 0.08.into())]);
    assert!(!lenient.is_inflight_too_high(4, 52, 0, 0) && lenient.is_inflight_too_high(5, 52, 0, 0));
}

/// The draft's example of §5.5.10.2: the losses cross the threshold within the packet.
#[test]
fn inflight_at_loss_is_where_the_losses_crossed_the_threshold() {
    let b = bbr3(&[]);
    // Budget of 99 packets: ⌈99 · 5/256⌉ = 2; one was lost before, so 1 · 256/251 = 1 packet more.
    assert_eq!(b.inflight_at_loss(100, 2), Some(100));
    assert_eq!(b.inflight_at_loss(100, 3), Some(99));
    assert_eq!(b.inflight_at_loss(0, 1), None);
}

#[test]
fn losses_outside_of_a_probe_reduce_by_at_most_three_tenths_and_not_below_the_delivered() {
    let mut b = bbr3(&[]);
    b.on_established(Time::ZERO, Some(RTT));
    let mut delivered = 0;
    while b.state != State::Cruise {
        delivered += 1;
        b.on_ack(&steady(delivered, 80));
    }
    let window = b.cwnd;
    // Two rounds of 60 packets with a loss each; the maximum of the first still contains the rate before the loss.
    for _ in 0..2 {
        b.latest.note_loss(in_bytes(delivered));
        for _ in 0..60 {
            delivered += 1;
            let slow = RateSample { prior_delivered: in_bytes(delivered - 60), delivered: in_bytes(60), interval: RTT, app_limited: false };
            b.on_ack(&AckSample { delivery: Some(slow), ..steady(delivered, 80) });
        }
    }
    let first = Params::part(window, 180).max(100);
    assert_eq!(b.short_term.in_flight, Some(Params::part(first, 180).max(60)));
    let (bw, max) = (b.short_term.bw.expect("bounded").0 as f64, b.max_bw.get().0 as f64);
    assert!((bw / max - 180.0 / 256.0).abs() < 0.001, "{bw} of {max}");
}
