//! Versions 2 and 3 of BBR against their models in flows that the common test does not have: both sets of rules, marks, idle periods, spurious losses.

mod pair;

use bentpipe_cc::as_calls;
use bentpipe_cc::hook_trace::Call;
use bentpipe_cc::testing::{Driver, config, given, in_bytes};
use bentpipe_cc::{AckSample, Congestion, Controller, Probe};
use bentpipe_profile::options::OptionValue;
use bentpipe_profile::{Bytes, Nanos, Rate, Time};
use pair::Pair;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Marks the packets of some ACKs.
struct Marked {
    pair: Pair,
    calls: Arc<AtomicU64>,
    marks_startup: bool,
    acks: u64,
    marks: u64,
}

impl Marked {
    fn call(&mut self, call: &Call) {
        self.pair.call(call);
        self.calls.store(self.pair.calls, Ordering::Relaxed);
    }
}

impl Controller for Marked {
    as_calls!(on_established, on_packet_lost, on_congestion, on_sent, set_cwnd);

    fn on_ack(&mut self, ack: &AckSample) {
        self.acks += 1;
        // In STARTUP, and then of 4000 ACKs 500, each one, and of the next 500 each second.
        let marks =
            self.marks_startup && self.acks < 300 || self.acks / 500 % 8 == 3 || self.acks / 500 % 8 == 4 && self.acks.is_multiple_of(2);
        self.marks += u64::from(marks);
        self.call(&Call::Ack(AckSample { ce_count: self.marks, ..*ack }));
    }

    fn cwnd(&self) -> Bytes {
        self.pair.model.cwnd()
    }

    fn ssthresh(&self) -> Bytes {
        self.pair.model.ssthresh()
    }

    fn pacing_rate(&self) -> Option<Rate> {
        self.pair.model.pacing_rate()
    }

    fn controls_recovery(&self) -> bool {
        self.pair.model.controls_recovery()
    }

    fn observe(&self, probe: &mut dyn Probe) {
        self.pair.model.observe(probe);
    }
}

const DURATION: Nanos = Nanos::from_secs(15);

/// Runs a flow; returns the calls compared and the states seen.
fn flow(name: &str, options: &[(&str, OptionValue)], rtt: Nanos, bdp: u64, queue: u64) -> (u64, BTreeSet<&'static str>) {
    let options = given(options);
    let calls = Arc::new(AtomicU64::new(0));
    let marked = Marked {
        pair: Pair::new(name, &config(), &options),
        calls: Arc::clone(&calls),
        marks_startup: options.contains_key("ecn_max_rtt_ms"),
        acks: 0,
        marks: 0,
    };
    let mut driver = Driver::new(Box::new(marked), rtt, bdp, queue);
    driver.drop.extend([5000, 5003, 5010, 20_000]);
    let mut states = BTreeSet::new();
    for step in 1..=DURATION.0 / rtt.0 {
        driver.ack_batch = (step % 100 >= 90).then_some(rtt);
        driver.app_window = match step % 80 {
            70..=75 => Some(bdp / 4),
            76..=78 => Some(0),
            _ => None,
        };
        // The driver has no timer: it would stall if the only packet in flight were dropped.
        let after_timeout = step % 250 == 249 || step % 250 < 20;
        driver.drop_one_in = match step % 60 {
            _ if after_timeout => None,
            5..=8 => Some(10),
            30..=50 => Some(300),
            _ => None,
        };
        let event = match step % 101 {
            33 | 66 => Some(Congestion::Undo),
            50 => Some(Congestion::TailLoss),
            _ => None,
        };
        if let Some(event) = event {
            driver.controller.on_congestion(driver.now(), event, in_bytes(driver.in_flight()));
        }
        if step % 250 == 249 {
            driver.time_out(driver.now() + rtt + rtt);
        }
        driver.run(Time(step * rtt.0));
        states.insert(driver.state());
    }
    (calls.load(Ordering::Relaxed), states)
}

#[test]
fn flows_with_marks_idle_periods_and_spurious_losses_are_the_same() {
    let linux = || ("rules", OptionValue::from("linux"));
    let any_rtt = || ("ecn_max_rtt_ms", OptionValue::from(0.0));
    let variants: [(&str, Vec<(&str, OptionValue)>); 7] = [
        ("bbr3", vec![]),
        ("bbr3", vec![linux()]),
        ("bbr3", vec![linux(), ("ecn_low", 1.0.into()), any_rtt()]),
        // The marks hardly reduce the flight, so that reports merge.
        ("bbr3", vec![linux(), ("ecn_low", 1.0.into()), any_rtt(), ("ecn_factor", 0.01.into()), ("ecn_thresh", 0.7.into())]),
        ("bbr3", vec![linux(), ("ecn_low", 1.0.into()), ("drain_gain", 0.6.into()), ("tso_rtt_shift", 0.0.into())]),
        ("bbr2", vec![]),
        ("bbr2", vec![("ecn_enable", 1.0.into()), any_rtt(), ("ecn_reprobe_gain", 0.5.into())]),
    ];
    for (name, mut options) in variants {
        options.extend([("probe_rtt_win_ms", 3000.0.into()), ("bw_probe_base_ms", 300.0.into()), ("bw_probe_rand_ms", 200.0.into())]);
        for (rtt_ms, bdp, queue) in [(40, 60, 30), (20, 300, 300), (4, 30, 100)] {
            let (calls, states) = flow(name, &options, Nanos::from_millis(rtt_ms), bdp, queue);
            assert!(calls > 10_000, "{name}, {options:?}, {rtt_ms} ms: {calls} calls");
            // Seven; a short DRAIN is not seen.
            assert!(states.len() >= 6, "{name}, {options:?}, {rtt_ms} ms: {states:?}");
        }
    }
}
