//! The 22 example test cases of draft-ietf-ccwg-bbr-06, appendix A, each under its number and title; of A.18, A.19 and A.21 only the controller's part.
//! Their part in the sender's loss detection, timers and undo is tested in `bentpipe-transport` (`sender/tests/bbr3_appendix_a.rs`). The path has 100 packets per 40 ms (28.96 Mbit/s) by default.

use super::super::super::testing::{Driver, Policer, in_bytes};
use super::super::*;
use super::{RTT, bbr3, driver, ms, steady};
use bentpipe_profile::options::OptionValue;

/// Bandwidth of the path [bit/s].
const PATH_BPS: f64 = 100.0 * 1448.0 * 8.0 / 0.04;
/// Prevents `PROBE_RTT`.
const NO_PROBE_RTT: (&str, OptionValue) = ("probe_rtt_win_ms", OptionValue::Number(60_000.0));

fn run_to_state(d: &mut Driver, state: &str) -> Nanos {
    d.run_until(ms(30_000), state, |d| d.state() == state)
}

fn max_bw(d: &Driver) -> f64 {
    d.value("max_bw_bps").expect("always reported")
}

fn bdp(d: &Driver) -> f64 {
    d.value("bw_bps").expect("reported") * d.value("min_rtt_ms").expect("measured") / 1e3 / (1448.0 * 8.0)
}

#[test]
fn a_1_exiting_startup_on_bandwidth_plateau() {
    let mut d = driver("bbr3", &[], 1000);
    d.run_until(ms(5000), "end of STARTUP", |d| d.state() != "startup");
    assert_eq!((d.state(), d.value("full_bw_count")), ("drain", Some(3.0)));
    assert!((max_bw(&d) / PATH_BPS - 1.0).abs() < 0.02, "{}", max_bw(&d));
}

#[test]
fn a_2_exiting_startup_on_loss_when_application_limited() {
    // More than the path holds, so that there is a queue to drain.
    let mut d = driver("bbr3", &[NO_PROBE_RTT], 1000);
    d.app_window = Some(150);
    d.run(Time(2_000_000_000));
    assert_eq!((d.state(), d.in_flight()), ("startup", 150));
    d.drop_one_in = Some(6);
    let lasted = d.run_until(ms(1000), "end of STARTUP", |d| d.state() != "startup");
    assert!(lasted >= RTT, "{lasted:?}");
    assert_eq!(d.state(), "drain");
    assert!(d.value("inflight_longterm_packets").is_some());
}

#[test]
fn a_3_exiting_drain_based_on_inflight() {
    let mut d = driver("bbr3", &[], 1000);
    run_to_state(&mut d, "drain");
    assert_eq!(d.value("pacing_gain"), Some(0.5));
    assert!(d.in_flight() as f64 > bdp(&d));
    d.run_until(ms(1000), "end of DRAIN", |d| d.state() != "drain");
    // DOWN may end within the same millisecond: its condition is the same.
    assert!(matches!(d.state(), "probe_bw_down" | "probe_bw_cruise"), "{}", d.state());
    assert!(d.in_flight() as f64 <= bdp(&d) + 7.0, "{} of {}", d.in_flight(), bdp(&d)); // packets sent in a millisecond besides
}

/// A path that slows by a tenth still drains within three rounds, so the test keeps inflight high by hand.
#[test]
fn a_4_exiting_drain_based_on_time() {
    let mut b = bbr3(&[]);
    b.on_established(Time::ZERO, Some(RTT));
    let mut delivered = 0;
    let mut ack = |b: &mut Bbr3| {
        delivered += 1;
        b.on_ack(&steady(delivered, 250));
    };
    while b.state != State::Drain {
        ack(&mut b);
    }
    let start = b.rounds.count();
    while b.state == State::Drain {
        ack(&mut b);
    }
    assert_eq!((b.state, b.rounds.count() - start), (State::Down, 4)); // more than 3 rounds after
}

#[test]
fn a_5_exiting_probe_up_on_bandwidth_plateau() {
    let mut d = driver("bbr3", &[], 1000);
    run_to_state(&mut d, "probe_bw_up");
    let rounds = d.value("rounds").expect("reported");
    d.run_until(ms(2000), "end of UP", |d| d.state() != "probe_bw_up");
    assert_eq!((d.state(), d.value("full_bw_count")), ("probe_bw_down", Some(3.0)));
    assert!(d.value("rounds").expect("reported") - rounds >= 3.0);
    assert_eq!(d.value("inflight_longterm_packets"), None);
}

/// Application-limited samples leave the bound on inflight as it is (§5.5.10.2): "updated appropriately".
#[test]
fn a_6_exiting_probe_up_on_loss_when_application_limited() {
    let mut d = driver("bbr3", &[NO_PROBE_RTT], 1000);
    run_to_state(&mut d, "probe_bw_up");
    // More than the path holds, so that DOWN does not end at once.
    d.app_window = Some(120);
    d.run(d.now() + ms(500));
    assert_eq!((d.state(), d.in_flight()), ("probe_bw_up", 120));
    d.drop_one_in = Some(10);
    d.run_until(ms(200), "end of UP", |d| d.state() != "probe_bw_up");
    assert_eq!(d.state(), "probe_bw_down");
    assert_eq!(d.value("inflight_longterm_packets"), None);
}

#[test]
fn a_7_never_exiting_probe_up_or_startup_when_application_limited_with_no_loss() {
    let mut d = driver("bbr3", &[NO_PROBE_RTT], 1000);
    d.app_window = Some(30);
    d.run(Time(20_000_000_000));
    assert_eq!(d.state(), "startup");
    d.app_window = None;
    run_to_state(&mut d, "probe_bw_up");
    d.app_window = Some(30);
    d.run(d.now() + ms(20_000));
    assert_eq!(d.state(), "probe_bw_up");
}

#[test]
fn a_8_exiting_probe_down_on_inflight() {
    let mut d = driver("bbr3", &[NO_PROBE_RTT], 1000);
    run_to_state(&mut d, "probe_bw_up");
    run_to_state(&mut d, "probe_bw_down");
    assert_eq!(d.value("pacing_gain"), Some(230.0 / 256.0)); // 0.9
    assert!(d.in_flight() as f64 > bdp(&d));
    d.run_until(ms(5000), "end of DOWN", |d| d.state() != "probe_bw_down");
    assert_eq!(d.state(), "probe_bw_cruise");
    assert!(d.in_flight() as f64 <= bdp(&d) + 7.0, "{} of {}", d.in_flight(), bdp(&d));
}

/// Pacing is 1 % below 0.9 of the bandwidth, so the path has to slow by more than a tenth for inflight to stay.
#[test]
fn a_9_exiting_probe_down_after_max_time() {
    let mut d = driver("bbr3", &[NO_PROBE_RTT], 1000);
    run_to_state(&mut d, "probe_bw_up");
    run_to_state(&mut d, "probe_bw_down");
    d.packet_time = Nanos(d.packet_time.0 * 100 / 88);
    let lasted = d.run_until(ms(5000), "end of DOWN", |d| d.state() != "probe_bw_down");
    assert_eq!(d.state(), "probe_bw_refill");
    assert!((ms(2000)..ms(3002)).contains(&lasted), "{lasted:?}");
}

#[test]
fn a_10_entering_and_exiting_probe_rtt() {
    let mut d = driver("bbr3", &[], 1000);
    run_to_state(&mut d, "probe_rtt");
    // The minimum RTT was measured in STARTUP.
    assert!((Time(5_000_000_000)..Time(5_300_000_000)).contains(&d.now()), "{:?}", d.now());
    assert_eq!(d.value("cwnd_gain"), Some(0.5));
    assert!((48..=52).contains(&d.cwnd()), "{}", d.cwnd());
    let lasted = d.run_until(ms(1000), "end of PROBE_RTT", |d| d.state() != "probe_rtt");
    assert!(lasted >= ms(200) && lasted < ms(200) + Nanos(RTT.0 * 4), "{lasted:?}");
    assert_eq!(d.state(), "probe_bw_cruise");
    let delivered = d.delivered();
    d.run(d.now() + ms(400));
    assert!(d.delivered() - delivered > 900, "{}", d.delivered() - delivered);
}

#[test]
fn a_11_skipping_probe_rtt_due_to_application_limited_sending() {
    let mut d = driver("bbr3", &[], 1000);
    run_to_state(&mut d, "probe_bw_cruise");
    d.app_window = Some(0);
    d.run(d.now() + ms(6000));
    assert_eq!(d.in_flight(), 0);
    d.app_window = None;
    for _ in 0..4000 {
        d.run(d.now() + ms(1));
        assert_ne!(d.state(), "probe_rtt", "{:?}", d.now());
    }
}

/// ACKs arrive in batches every 10 ms, a quarter of an RTT: a sample may count a fifth batch over the time of four.
#[test]
fn a_12_achieving_expected_startup_bandwidth_on_a_link_with_aggregation() {
    let mut d = driver("bbr3", &[], 1000);
    d.ack_batch = Some(ms(10));
    d.run_until(ms(5000), "end of STARTUP", |d| d.state() != "startup");
    assert!((0.98..=1.25).contains(&(max_bw(&d) / PATH_BPS)), "{}", max_bw(&d));
    assert!(d.value("extra_acked_packets").expect("reported") >= 20.0);
    assert!(d.cwnd() as f64 > 2.0 * bdp(&d), "{} of {}", d.cwnd(), bdp(&d));
}

#[test]
fn a_13_achieving_expected_cruise_bandwidth_on_a_link_with_aggregation() {
    let mut d = driver("bbr3", &[NO_PROBE_RTT], 1000);
    run_to_state(&mut d, "probe_bw_cruise");
    let before = d.value("extra_acked_packets").expect("reported");
    d.ack_batch = Some(ms(40));
    d.run(d.now() + ms(400));
    let after = d.value("extra_acked_packets").expect("reported");
    assert!(after >= before + 50.0, "{before} then {after}");
    assert!(d.cwnd() as f64 >= 2.0 * bdp(&d) + 0.9 * after.min(100.0), "{} of {}", d.cwnd(), bdp(&d));
    let delivered = d.delivered();
    d.run(d.now() + ms(4000));
    assert!(d.delivered() - delivered > 9500, "{}", d.delivered() - delivered);
    // ACKs arrive one by one again, in a CRUISE that goes on: the greatest bunch stays for ten rounds, the default of the filter.
    let mut d = driver("bbr3", &[NO_PROBE_RTT, ("bw_probe_base_ms", 60_000.0.into())], 1000);
    run_to_state(&mut d, "probe_bw_cruise");
    d.ack_batch = Some(ms(40));
    d.run(d.now() + ms(2000));
    let bunch = d.value("extra_acked_packets").expect("reported");
    d.ack_batch = None;
    let (mut max_extra, mut rounds) = (bunch, Vec::new());
    for _ in 0..800 {
        d.run(d.now() + ms(1));
        let (extra, round) = (d.value("extra_acked_packets").expect("reported"), d.value("rounds").expect("reported"));
        if extra > max_extra {
            (max_extra, rounds) = (extra, Vec::new());
        }
        if extra >= max_extra && rounds.last() != Some(&round) {
            rounds.push(round);
        }
    }
    // The round of the greatest bunch, and ten more.
    assert!(rounds.len() == 11 && max_extra < bunch + 5.0, "{bunch} then {max_extra}: {rounds:?}");
}

/// A packet takes 40 ms over a path of 1 ms. The budget is three bursts of two packets, so the minimum of four shows only in `PROBE_RTT`.
#[test]
fn a_14_correctly_managing_sub_packet_bdps() {
    let mut d = Driver::new(driver("bbr3", &[], 1).controller, ms(1), 1, 1000);
    d.packet_time = ms(40);
    run_to_state(&mut d, "probe_bw_cruise");
    assert!((4..=8).contains(&d.cwnd()), "{}", d.cwnd());
    let rate = d.value("bw_bps").expect("reported");
    assert!((rate / (1448.0 * 8.0 / 0.04) - 1.0).abs() < 0.05, "{rate}");
    let delivered = d.delivered();
    d.run(d.now() + ms(4000));
    assert!(d.delivered() - delivered >= 95, "{}", d.delivered() - delivered);
    run_to_state(&mut d, "probe_rtt");
    assert_eq!(d.cwnd(), 4);
}

#[test]
fn a_15_increasing_bandwidth_10x_and_ensuring_full_bandwidth_is_reached() {
    let mut d = driver("bbr3", &[NO_PROBE_RTT], 30);
    d.run_until(ms(30_000), "a long-term bound", |d| d.value("inflight_longterm_packets").is_some());
    run_to_state(&mut d, "probe_bw_cruise");
    d.packet_time = Nanos(d.packet_time.0 / 10);
    d.queue_limit = 300;
    run_to_state(&mut d, "probe_bw_up");
    // The slope doubles every round.
    let mut slopes = Vec::new();
    d.run_until(ms(3000), "most of the bandwidth", |d| {
        let slope = d.value("bw_probe_up_rounds").expect("reported");
        if slopes.last() != Some(&slope) {
            slopes.push(slope);
        }
        max_bw(d) > 9.0 * PATH_BPS
    });
    assert!(slopes.windows(2).filter(|w| (w[1] - w[0] - 1.0).abs() < 0.5).count() >= 5, "{slopes:?}");
}

#[test]
fn a_16_decreasing_bandwidth_10x_and_ensuring_max_bandwidth_adapts_down() {
    let mut d = driver("bbr3", &[NO_PROBE_RTT], 100);
    run_to_state(&mut d, "probe_bw_cruise");
    d.packet_time = Nanos(d.packet_time.0 * 10);
    d.queue_limit = 50;
    d.run_until(ms(1000), "a short-term bound of half", |d| d.value("bw_shortterm_bps").is_some_and(|bw| bw < PATH_BPS / 2.0));
    assert!((max_bw(&d) / PATH_BPS - 1.0).abs() < 0.02, "{}", max_bw(&d));
    let (mut cycles, mut before) = (0, d.state());
    d.run_until(ms(30_000), "the new bandwidth", |d| {
        cycles += u32::from(d.state() == "probe_bw_down" && before != d.state());
        before = d.state();
        max_bw(d) < 0.11 * PATH_BPS
    });
    assert_eq!(cycles, 2);
    assert!(max_bw(&d) > 0.09 * PATH_BPS, "{}", max_bw(&d));
}

/// A link ten times as fast, and a token every 100th of an RTT, of which at most 50 are stored.
#[test]
fn a_17_handling_token_bucket_policers() {
    let mut d = driver("bbr3", &[], 1000);
    d.packet_time = Nanos(RTT.0 / 1000);
    d.policer = Some(Policer { token_time: Nanos(RTT.0 / 100), burst: 50, tokens: 50, since: Time::ZERO });
    d.run_until(ms(30_000), "bounds", |d| d.value("inflight_shortterm_packets").is_some() && d.value("bw_shortterm_bps").is_some());
    d.run(Time(30_000_000_000));
    let (sent, delivered) = (d.transmissions(), d.delivered());
    d.run(Time(90_000_000_000));
    let (sent, delivered) = ((d.transmissions() - sent) as f64, (d.delivered() - delivered) as f64);
    let loss = 1.0 - delivered / sent;
    assert!(delivered > 0.95 * 1500.0 * 100.0 && loss < 0.01, "{delivered} of {sent}");
}

/// Returns a flow in UP with a long-term bound, and the packets delivered.
fn probing() -> (Bbr3, u64) {
    let mut b = bbr3(&[NO_PROBE_RTT]);
    b.on_established(Time::ZERO, Some(RTT));
    let mut delivered = 0;
    while b.state != State::Up {
        delivered += 1;
        b.on_ack(&AckSample { window_full: false, ..steady(delivered, 80) });
    }
    b.inflight_longterm = Some(500);
    (b, delivered)
}

/// Marks three of a hundred packets lost.
fn lose(b: &mut Bbr3, delivered: u64) {
    for lost in 1..=3 {
        b.on_packet_lost(&LostPacket {
            now: Time(delivered * 400_000),
            seq: in_bytes(delivered + 2 * lost).0,
            bytes: in_bytes(1),
            sent_at: Time::ZERO,
            tx_in_flight: in_bytes(100),
            delivered_at_send: in_bytes(delivered - 90),
            lost_at_send: Bytes::ZERO,
            lost_total: in_bytes(lost),
            delivered_total: in_bytes(delivered),
            app_limited: false,
        });
    }
}

/// Checks the state saved at a loss, which only the controller knows: losses, the sender's event, a round of recovery, and the undo.
fn check_undo(event: Congestion) {
    let (mut b, mut delivered) = probing();
    let before = (b.cwnd, b.short_term.in_flight, b.short_term.bw, b.inflight_longterm);
    lose(&mut b, delivered);
    b.on_congestion(Time(delivered * 400_000), event, in_bytes(50));
    assert_eq!((b.state, b.undo.saved_state(), b.undo.saved_inflight_longterm()), (State::Down, Some(State::Up), Some(500)));
    assert!(b.inflight_longterm.expect("bounded") < 500);
    let recovery = if event == Congestion::Timeout { RecoveryState::Loss } else { RecoveryState::Recovery };
    // Half of the rate is delivered for a round, which sets the short-term bounds.
    for _ in 0..101 {
        delivered += 1;
        b.on_ack(&AckSample { recovery, newly_lost: in_bytes(u64::from(delivered % 50 == 0)), ..steady(delivered, 300) });
    }
    b.on_congestion(Time(delivered * 400_000), Congestion::Undo, in_bytes(50));
    assert_eq!((b.short_term.in_flight, b.short_term.bw, b.inflight_longterm), (before.1, before.2, before.3));
    assert!(b.cwnd >= before.0);
    // Back to probing: UP begins with a round of REFILL.
    assert_eq!(b.state, State::Refill);
    while b.state == State::Refill {
        delivered += 1;
        b.on_ack(&AckSample { window_full: false, ..steady(delivered, 80) });
    }
    assert_eq!(b.state, State::Up);
}

#[test]
fn a_18_handling_spurious_fast_recovery() {
    check_undo(Congestion::Loss);
}

#[test]
fn a_19_handling_spurious_rto_recovery() {
    check_undo(Congestion::Timeout);
}

#[test]
fn a_20_entering_and_exiting_probe_rtt_during_startup() {
    let mut d = driver("bbr3", &[("probe_rtt_win_ms", 500.0.into())], 1000);
    d.app_window = Some(60);
    run_to_state(&mut d, "probe_rtt");
    d.run_until(ms(1000), "end of PROBE_RTT", |d| d.state() != "probe_rtt");
    assert_eq!(d.state(), "startup");
    d.app_window = None;
    run_to_state(&mut d, "probe_bw_cruise");
    assert!((max_bw(&d) / PATH_BPS - 1.0).abs() < 0.02, "{}", max_bw(&d));
}

#[test]
fn a_21_handling_loss_during_probe_up_after_inflight_longterm_is_set() {
    let (mut b, delivered) = probing();
    let target = b.target_inflight();
    lose(&mut b, delivered);
    assert_eq!(b.state, State::Down);
    // The inflight at which the losses crossed 2 %, or 0.7 of the target, whichever is more.
    let crossed = b.inflight_at_loss(100, 2).expect("sane");
    assert_eq!(b.inflight_longterm, Some(crossed.max(Params::part(target, 180))));
    assert!(b.cycle.too_high);
}

#[test]
fn a_22_handling_application_limited_sending_during_probe_refill() {
    let mut d = driver("bbr3", &[NO_PROBE_RTT], 1000);
    run_to_state(&mut d, "probe_bw_refill");
    let before = max_bw(&d);
    d.app_window = Some(10);
    run_to_state(&mut d, "probe_bw_up");
    assert!((max_bw(&d) - before).abs() < 1.0);
    d.app_window = None;
    d.run_until(ms(3000), "end of UP", |d| d.state() != "probe_bw_up");
    assert_eq!(d.state(), "probe_bw_down");
    assert!((max_bw(&d) / PATH_BPS - 1.0).abs() < 0.02, "{}", max_bw(&d));
}
