//! What bounds the flight: windows, buffers, the application.

use super::*;
use crate::sender::Sender;
use bentpipe_cc::registry;
use bentpipe_profile::Streams;
use std::collections::BTreeMap;

fn controlled(name: &str, config: SenderConfig, receiver: ReceiverConfig) -> Pipe {
    let controller = registry::build(name, &config.controller_config(Streams::new(1)), &BTreeMap::new()).expect("known");
    let mut pipe = Pipe::with(config, receiver, Fixed::new(10));
    pipe.sender = Sender::new(config, controller);
    pipe
}

fn reno() -> Pipe {
    controlled("reno", SenderConfig::default(), ReceiverConfig::default())
}

#[test]
fn slow_start_doubles_the_window_every_round_trip() {
    let mut pipe = reno().bulk();
    pipe.run_for(ms(60));
    let mut windows = Vec::new();
    for _ in 0..5 {
        windows.push(pipe.sender.stats().cwnd.0 / MSS);
        pipe.run_for(ms(50));
    }
    // A last odd segment is acknowledged 40 ms late.
    for (got, wanted) in windows.iter().zip([10, 20, 40, 80, 160_u64]) {
        assert!(got.abs_diff(wanted) <= wanted / 32, "{windows:?}");
    }
}

#[test]
fn an_application_limited_window_stays_below_twice_what_is_used() {
    let mut pipe = reno();
    pipe.sender.open(Time::ZERO);
    for _ in 0..200 {
        pipe.sender.app_write(pipe.now, Bytes(8 * MSS));
        pipe.drain();
        pipe.run_for(ms(50));
    }
    let cwnd = pipe.sender.stats().cwnd.0 / MSS;
    assert!((10..=17).contains(&cwnd), "eight packets an RTT: {cwnd}");
    assert!(pipe.sender.stats().sender_limited > Nanos::from_secs(8));
}

/// Where grants let acknowledgements go together, some wait for the one behind them, and nothing is lost by it.
#[test]
fn acknowledgements_that_wait_for_the_next_acknowledge_as_much() {
    let grant = |ack: &crate::wire::Ack, _| Fate::Late(Nanos(ms(4).0 - ack.tsval.0 % ms(4).0));
    let of = |host_times| {
        let config = SenderConfig { host_times, ..SenderConfig::default() };
        let mut pipe = controlled("cubic", config, ReceiverConfig::default()).acks(grant).bulk();
        pipe.run_for(ms(1_500));
        let arrived = pipe.acks.iter().filter(|(sent, _)| sent.0 + ms(29).0 <= pipe.now.0).map(|(_, ack)| ack.ack).max();
        assert!(pipe.sender.stats().acked.0 >= arrived.expect("some"), "the last of an instant waits for none");
        assert!(pipe.sent.iter().all(|(_, segment)| !segment.retransmission), "none was taken for lost");
        (pipe.deferred, pipe.acks.len())
    };
    assert_eq!(of(None).0, 0, "an application that takes no time");
    for seed in 0..5 {
        let (deferred, acks) = of(Some(Streams::new(seed)));
        assert!(deferred > 0 && deferred < acks as u64, "{deferred} of {acks}");
    }
}

/// A window after two seconds of bulk, then silence, then bulk again.
fn window_after_silence(name: &str, silence: Nanos) -> (u64, u64) {
    let config = SenderConfig { wmem_max: Bytes(400_000), ..SenderConfig::default() };
    let mut pipe = controlled(name, config, ReceiverConfig::default());
    pipe.sender.open(Time::ZERO);
    pipe.sender.app_write(Time::ZERO, Bytes(2000 * MSS));
    while pipe.sender.stats().acked < Bytes(2000 * MSS) {
        pipe.run_for(ms(5));
    }
    let before = pipe.sender.stats().cwnd.0 / MSS;
    pipe.run_for(silence);
    pipe.sender.app_write(pipe.now, Bytes(100 * MSS));
    (before, pipe.sender.stats().cwnd.0 / MSS)
}

#[test]
fn slow_start_after_idle_restarts_window_based_controllers_only() {
    let (before, after) = window_after_silence("reno", Nanos::from_secs(20));
    assert!(before > 100 && after == 10, "{before} {after}");
    let (before, after) = window_after_silence("reno", ms(100));
    assert!(after == before, "shorter than an RTO: {before} {after}");
    let (before, after) = window_after_silence("bbr", Nanos::from_secs(20));
    assert!(after == before, "{before} {after}");
}

#[test]
fn a_send_buffer_of_4_mb_gives_86_mbps_at_350_ms() {
    let mut pipe = controlled("reno", SenderConfig::default(), ReceiverConfig::default());
    pipe.one_way = ms(175);
    let mut pipe = pipe.bulk();
    pipe.run_for(Nanos::from_secs(20));
    let before = pipe.receiver.delivered().0;
    pipe.run_for(Nanos::from_secs(30));
    let mbps = (pipe.receiver.delivered().0 - before) as f64 * 8.0 / 30.0 / 1e6;
    // Linux 6.18 behind the emulator, 1 Gbit/s: 86.3 Mbit/s. Four megabytes of memory, a header's worth of it per burst, between two thirds and all of it full.
    assert!((mbps / 86.3 - 1.0).abs() < 0.05, "{mbps}");
    let stats = pipe.sender.stats();
    assert!(stats.sender_limited > Nanos::from_secs(20), "{stats:?}");
}

#[test]
fn each_piece_that_the_application_writes_leaves_before_the_next() {
    let mut pipe = controlled("reno", SenderConfig::default(), ReceiverConfig::default());
    pipe.one_way = ms(330);
    let mut pipe = pipe.bulk();
    pipe.run_for(Nanos::from_secs(20));
    let bursts = pipe.sender.queued().bursts;
    let pieces = pipe.sender.stats().in_flight.0 / (1 << 17);
    // 128 kB are 90 segments and a half: 90 and 91 by turns, the last burst of each a small one; and once an RTT that half alone.
    let most = u64::from(pipe.sender.burst);
    let wanted = pieces * (90_u64.div_ceil(most) + 91_u64.div_ceil(most)) / 2;
    assert!(bursts.abs_diff(wanted) <= 2, "{bursts} bursts of up to {most} in {pieces} pieces, wanted {wanted}");
}

#[test]
fn the_receive_window_bounds_the_flight_and_the_time_is_counted() {
    let receiver = ReceiverConfig { rmem_max: Bytes(524_288), ..ReceiverConfig::default() };
    let mut pipe = controlled("reno", SenderConfig::default(), receiver).bulk();
    pipe.run_for(Nanos::from_secs(10));
    let stats = pipe.sender.stats();
    assert!(stats.in_flight <= Bytes(524_288 * 160 / 256 + MSS), "{stats:?}");
    assert!(stats.receiver_limited > Nanos::from_secs(5), "{stats:?}");
}

#[test]
fn the_window_that_is_offered_keeps_ahead_of_slow_start() {
    let config = SenderConfig { wmem_max: Bytes(64_000_000), ..SenderConfig::default() };
    let mut pipe = controlled("reno", config, ReceiverConfig::default()).bulk();
    pipe.run_for(ms(570));
    let stats = pipe.sender.stats();
    assert!(stats.cwnd.0 / MSS >= 10_000, "ten doublings of ten packets: {stats:?}");
    assert_eq!(stats.receiver_limited, Nanos::ZERO);
}

#[test]
fn window_time_is_counted_for_a_bulk_flow() {
    let mut pipe = Pipe::new(Fixed::new(20)).bulk();
    pipe.run_for(Nanos::from_secs(10));
    let stats = pipe.sender.stats();
    assert!(stats.cwnd_limited > ms(9500), "{stats:?}");
}

#[test]
fn app_limited_flows_mark_their_rate_samples() {
    let mut pipe = controlled("bbr", SenderConfig::default(), ReceiverConfig::default());
    pipe.sender.open(Time::ZERO);
    pipe.run_for(ms(60));
    for _ in 0..100 {
        pipe.sender.app_write(pipe.now, Bytes(2 * MSS));
        assert!(pipe.sender.rate.is_app_limited());
        pipe.drain();
        pipe.run_for(ms(50));
    }
    let mut bulk = Pipe::new(Fixed::new(20)).bulk();
    bulk.run_for(Nanos::from_secs(2));
    assert!(!bulk.sender.rate.is_app_limited());
}
