//! Each controller of the kernel against its model: recorded flows, and whatever a sender may report.

mod pair;

use bentpipe_cc::fuzz_steps::{Sender, extremes, magnitude, step};
use bentpipe_cc::hook_trace::{Call, Header, Replay, TraceError, Traces};
use bentpipe_cc::registry::{self, Config, find};
use bentpipe_cc::testing::{Driver, MSS, config, in_bytes};
use bentpipe_cc::{Controller, PathHint};
use bentpipe_profile::options::OptionValues;
use bentpipe_profile::tunables::{Allowed, Value};
use bentpipe_profile::{Nanos, Streams, Time};
use bentpipe_twins::{NAMES, build};
use pair::Pair;
use proptest::prelude::*;

/// Unix time when the flow starts: reassignments 12 s after a full period of 15 s come with the interruptions.
const START_UNIX_NS: i64 = 1_778_403_605_000_000_000;

fn twin(header: &Header) -> Result<Box<dyn Controller>, TraceError> {
    build(&header.controller, &header.config(), &header.options).map_err(|error| TraceError::Header(error.to_string()))
}

/// Records a flow of the model: 100 packets per RTT, a queue, losses, interruptions every 15 s that are announced, time-outs; returns the trace.
fn flow(name: &str, options: &OptionValues, (rtt_ms, queue, seconds): (u64, u64, u64)) -> Vec<u8> {
    let traces = Traces::default();
    let rtt = Nanos::from_millis(rtt_ms);
    let controller = registry::build(name, &config(), options).expect("registered");
    let mut recorded = traces.next_flow().record(&Header::new(name, options, &config()), controller);
    recorded.on_path_hint(&PathHint::WallClock(START_UNIX_NS));
    for slot in 0..=seconds / 15 {
        recorded.on_path_hint(&PathHint::Reconfiguration(Time((slot * 15_000 + 7_000) * 1_000_000)));
    }
    let mut driver = Driver::new(recorded, rtt, 100, queue);
    driver.drop.extend([200, 1000, 1001, 5000, 5003, 5010, 20_000]);
    for ms in 0..seconds * 1000 {
        driver.ack_batch = (ms % 15_000 >= 7_000 && ms % 15_000 < 7_080).then_some(Nanos::from_millis(80));
        if ms % 20_000 == 19_000 {
            driver.time_out(driver.now() + rtt + rtt);
        }
        driver.run(Time(ms * 1_000_000));
    }
    traces.take().remove(0)
}

/// Replays a flow on the twin; returns the calls that were compared.
fn compare(name: &str, options: &OptionValues, path: (u64, u64, u64)) -> u64 {
    let mut replay = Replay::default();
    let difference = replay.feed(&flow(name, options, path), &twin).expect("whole");
    assert!(difference.is_none(), "{name} {options:?}, {path:?}: {}", difference.unwrap());
    let calls = replay.finish().expect("whole");
    assert!(calls > 10_000, "{name} {options:?}, {path:?}");
    calls
}

/// Compares recorded flows of a controller, with its defaults and with each other choice of an option.
fn compare_flows(name: &str) {
    let mut calls = 0;
    for path in [(40, 30, 35), (40, 400, 35), (5, 100, 10), (600, 100, 35)] {
        calls += compare(name, &OptionValues::new(), path);
    }
    for option in find(name).expect("registered").options {
        let Allowed::Choice(choices) = option.allowed else { continue };
        for choice in choices.iter().filter(|choice| option.default != Value::Choice(choice)) {
            calls += compare(name, &OptionValues::from([(option.name.to_owned(), (*choice).into())]), (40, 400, 35));
        }
    }
    println!("{name}: {calls} calls");
}

#[test]
fn a_recorded_flow_replays_on_the_twin_without_a_difference() {
    std::thread::scope(|scope| {
        for name in NAMES {
            scope.spawn(|| compare_flows(name));
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn whatever_a_sender_reports_both_do_the_same(seed: u64, paced: bool, pick in prop_oneof![Just(0_u128), any::<u128>()], established in proptest::option::of(magnitude(40)), steps in prop::collection::vec(step(), 1..300)) {
        for name in NAMES {
            let entry = find(name).expect("registered");
            let config = Config { mss: MSS, initial_cwnd: in_bytes(10), streams: Streams::new(seed), paced };
            let mut pair = Pair::new(name, &config, &extremes(entry, pick));
            let mut sender = Sender::default();
            pair.call(&Call::Established { now: Time::ZERO, rtt: established.map(Nanos) });
            for (pause, step) in &steps {
                for call in sender.calls(*pause, step) {
                    pair.call(&call);
                }
            }
        }
    }
}
