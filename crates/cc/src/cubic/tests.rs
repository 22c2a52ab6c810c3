//! Tests of CUBIC's window over a whole flow.

use super::super::testing::{Driver, ack_at, config, controller, given, in_bytes, options_of, state_of};
use super::*;
use crate::registry;

const RTT: Nanos = Nanos::from_millis(40);

fn cubic(off: &[&str]) -> Cubic {
    let given: Vec<_> = off.iter().map(|&name| (name, if name == "hystart" { "off".into() } else { 0.0.into() })).collect();
    Cubic::new(&config(), options_of(&ENTRY, &given))
}

/// Window [packets] every 40 ms over a path of 100 packets per RTT and a queue of as many; transmission 1000 is lost. `HyStart` ends slow start.
#[test]
fn window_trace() {
    let mut driver = Driver::new(controller("cubic"), RTT, 100, 100);
    driver.drop.insert(1000);
    assert_eq!(driver.trace(RTT, 40), TRACE);
    assert_eq!(state_of(&*driver.controller), "congestion_avoidance");
}

#[rustfmt::skip]
const TRACE: [u64; 40] = [
    10, 20, 40, 80, 133, 138, 143, 148, 153, 158, 163, 168, 173, 123, 123, 124, 125, 126, 127, 129,
    130, 131, 132, 133, 135, 136, 137, 138, 139, 140, 141, 141, 143, 143, 144, 145, 146, 147, 148, 148,
];

#[test]
fn the_window_falls_to_717_of_1024_and_fast_convergence_releases_bandwidth() {
    let mut c = cubic(&[]);
    c.set_cwnd(in_bytes(1000));
    c.on_congestion(Time::ZERO, Congestion::Loss, in_bytes(1000));
    assert_eq!((c.ssthresh(), c.w_max), (in_bytes(700), 1000));
    c.set_cwnd(in_bytes(800));
    c.on_congestion(Time::ZERO, Congestion::Loss, in_bytes(800));
    assert_eq!((c.ssthresh(), c.w_max), (in_bytes(560), 800 * 1741 / 2048));
    let mut c = cubic(&["fast_convergence"]);
    for packets in [1000, 800] {
        c.set_cwnd(in_bytes(packets));
        c.on_congestion(Time::ZERO, Congestion::Loss, in_bytes(packets));
    }
    assert_eq!(c.w_max, 800);
}

/// Feeds an ACK for two packets per two packets of a window, spread over 40 ms, and returns the window.
fn grow(c: &mut Cubic, from: Time, span: Nanos) -> u64 {
    let mut now = from;
    while now.since(from) < span {
        let mut ack = ack_at(now);
        ack.acked = in_bytes(2);
        ack.rtt = Some(RTT);
        c.on_acked(&ack);
        c.on_ack(&ack);
        now = now + Nanos(2 * RTT.0 / c.window.cwnd_packets());
    }
    c.window.cwnd_packets()
}

#[test]
fn the_plateau_is_reached_after_k_and_exceeded_slowly() {
    let mut c = cubic(&["tcp_friendliness"]);
    c.set_cwnd(in_bytes(1000));
    c.on_congestion(Time::ZERO, Congestion::Loss, in_bytes(1000));
    c.set_cwnd(c.ssthresh());
    // K = cbrt(300 / 0.4) = 9.09 s; one RTT of lead.
    let at_half = grow(&mut c, Time(0), Nanos::from_millis(4540));
    assert!((955..=965).contains(&at_half), "{at_half}"); // 1000 − 0.4 · 4.51³ = 963, one RTT later
    let at_k = grow(&mut c, Time(4_540_000_000), Nanos::from_millis(4540));
    assert!((995..=1000).contains(&at_k), "{at_k}");
    let later = grow(&mut c, Time(9_080_000_000), Nanos::from_secs(5));
    assert!((1045..=1055).contains(&later), "{later}"); // 1000 + 0.4 · 5³ = 1050
}

#[test]
fn growth_is_at_most_a_packet_per_two_acknowledged() {
    let mut c = cubic(&[]);
    c.set_ssthresh(in_bytes(10));
    c.w_max = 1_000_000;
    c.set_cwnd(in_bytes(100));
    for k in 0..50 {
        let mut ack = ack_at(Time(k * RTT.0 / 50));
        ack.acked = in_bytes(2);
        c.on_ack(&ack);
    }
    // 150, less the growth missing in the first 4 ms of the epoch, in which the curve has not risen yet.
    assert!((140..=150).contains(&c.window.cwnd_packets()), "{}", c.window.cwnd_packets());
}

#[test]
fn on_a_short_path_it_is_not_slower_than_reno() {
    // Reno's estimate grows 3·(1 − β)/(1 + β) = 0.53 packets an RTT: 2.6 s or 65 RTTs for 34.
    let friendly = {
        let mut c = cubic(&[]);
        c.set_cwnd(in_bytes(20));
        c.on_congestion(Time::ZERO, Congestion::Loss, in_bytes(20));
        c.set_cwnd(c.ssthresh());
        grow(&mut c, Time(0), Nanos::from_millis(2600))
    };
    let unfriendly = {
        let mut c = cubic(&["tcp_friendliness"]);
        c.set_cwnd(in_bytes(20));
        c.on_congestion(Time::ZERO, Congestion::Loss, in_bytes(20));
        c.set_cwnd(c.ssthresh());
        grow(&mut c, Time(0), Nanos::from_millis(2600))
    };
    assert!((46..=50).contains(&friendly), "{friendly}");
    assert!((19..=21).contains(&unfriendly), "{unfriendly}");
}

#[test]
fn while_the_window_is_constant_the_growth_is_computed_every_32_ms() {
    let mut c = cubic(&["tcp_friendliness"]);
    c.set_cwnd(in_bytes(1000));
    c.on_congestion(Time::ZERO, Congestion::Loss, in_bytes(1000));
    c.set_cwnd(c.ssthresh());
    let mut counts = Vec::new();
    for ms in [0, 4, 28, 32] {
        c.on_ack(&ack_at(Time(ms * 1_000_000)));
        counts.push(c.acks_per_packet);
    }
    assert!(counts[0] == counts[1] && counts[1] == counts[2] && counts[2] > counts[3], "{counts:?}");
}

#[test]
fn a_time_out_resets_the_plateau() {
    let mut c = cubic(&[]);
    c.set_cwnd(in_bytes(1000));
    c.on_congestion(Time::ZERO, Congestion::Timeout, Bytes::ZERO);
    assert_eq!((c.ssthresh(), c.w_max, c.min_rtt), (in_bytes(700), 0, None));
}

#[test]
fn the_curve_is_frozen_while_the_flow_is_idle() {
    let mut c = cubic(&[]);
    c.set_cwnd(in_bytes(1000));
    c.on_congestion(Time::ZERO, Congestion::Loss, in_bytes(1000));
    c.set_cwnd(c.ssthresh());
    grow(&mut c, Time(0), Nanos::from_secs(1));
    let start = c.epoch.expect("an epoch").start;
    c.on_congestion(Time(31_000_000_000), Congestion::Restart(Nanos::from_secs(30)), Bytes::ZERO);
    assert_eq!(c.epoch.expect("an epoch").start, start + 30 * HZ);
}

#[test]
fn rtts_of_the_first_second_of_an_epoch_are_ignored() {
    let mut c = cubic(&[]);
    c.set_ssthresh(in_bytes(5));
    let mut ack = ack_at(Time(5_000_000_000));
    ack.rtt = Some(RTT);
    c.on_acked(&ack);
    c.on_ack(&ack);
    ack.rtt = Some(Nanos::from_millis(10));
    ack.now = Time(5_990_000_000);
    c.on_acked(&ack);
    assert_eq!(c.min_rtt, Some(RTT));
    ack.now = Time(6_010_000_000);
    c.on_acked(&ack);
    assert_eq!(c.min_rtt, Some(Nanos::from_millis(10)));
}

/// An empty path of 100 packets per RTT with a queue of 300: RTTs grow, so `HyStart++` slows down and ends slow start before a loss.
#[test]
fn hystart_pp_ends_slow_start_after_conservative_growth() {
    let given = given(&[("hystart", "pp".into())]);
    let mut driver = Driver::new(registry::build("cubic", &config(), &given).expect("in range"), RTT, 100, 300);
    let mut states = vec!["slow_start"];
    for k in 1..=30 {
        driver.run(Time(RTT.0 * k));
        let state = state_of(&*driver.controller);
        if states.last() != Some(&state) {
            states.push(state);
        }
    }
    assert_eq!(states, ["slow_start", "conservative_slow_start", "congestion_avoidance"]);
    assert!((100..400).contains(&driver.cwnd()), "{}", driver.cwnd());
}

#[test]
fn hystart_pp_applies_to_the_first_slow_start_only() {
    let options = options_of(&ENTRY, &[("hystart", "pp".into())]);
    for event in [Congestion::Loss, Congestion::Timeout] {
        let mut cubic = Cubic::new(&config(), options);
        assert!(matches!(cubic.exit, SlowStartExit::PlusPlus(_)));
        cubic.on_congestion(Time::ZERO, event, in_bytes(10));
        assert!(matches!(cubic.exit, SlowStartExit::Never), "{event:?}");
    }
}
