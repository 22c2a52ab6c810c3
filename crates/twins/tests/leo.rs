//! LEO-aware controllers against their models over many reconfigurations: clocks of several periods, none, announced ones, and those that are not detected.

mod pair;

use bentpipe_cc::hook_trace::Call;
use bentpipe_cc::testing::{ack_at, config, given, in_bytes, state_of};
use bentpipe_cc::{AckSample, Congestion, LostPacket, PathHint, Probe, RateSample};
use bentpipe_profile::options::OptionValue;
use bentpipe_profile::rng::Stream;
use bentpipe_profile::{Nanos, Streams, Time};
use pair::Pair;
use std::collections::VecDeque;

const MS: u64 = 1_000_000;
const SECONDS: u64 = 400;
const ACK_INTERVAL_MS: u64 = 8;
const PACKETS_PER_ACK: u64 = 10;

/// A pair, and how often it had a clock, the model of a slot, and resumed after an outage.
struct Watched {
    pair: Pair,
    slot_calls: u64,
    clock_calls: u64,
    resumed_calls: u64,
}

struct HasClock(bool);

impl Probe for HasClock {
    fn value(&mut self, name: &'static str, _value: f64) {
        self.0 |= name == "clock_confidence";
    }

    fn state(&mut self, _name: &'static str) {}
}

impl Watched {
    fn note(&mut self) {
        let model = self.pair.model.as_ref();
        let mut clock = HasClock(false);
        model.observe(&mut clock);
        self.clock_calls += u64::from(clock.0);
        self.slot_calls += u64::from(state_of(model) == "slot");
        self.resumed_calls += u64::from(state_of(model) == "resume");
    }
}

/// A sender on a path that is interrupted at some times, whose RTT and capacity change with each interruption.
struct Path {
    random: Stream,
    delivered: u64,
    lost: u64,
    /// Packets delivered at earlier ACKs.
    history: VecDeque<(Time, u64)>,
    base_ms: u64,
    per_ack: u64,
    queue_ms: u64,
}

impl Path {
    fn new(seed: u64) -> Self {
        Self {
            random: Streams::new(seed).stream("path"),
            delivered: 0,
            lost: 0,
            history: VecDeque::from([(Time::ZERO, 0)]),
            base_ms: 40,
            per_ack: PACKETS_PER_ACK,
            queue_ms: 0,
        }
    }

    fn reconfigure(&mut self) {
        self.base_ms = 25 + self.random.below(40);
        self.per_ack = 3 + self.random.below(2 * PACKETS_PER_ACK);
        self.queue_ms = 0;
    }

    fn ack(&mut self, now: Time, extra: Nanos) -> AckSample {
        // A random walk of the queue, and jitter.
        self.queue_ms = (self.queue_ms + self.random.below(5)).saturating_sub(2).min(60);
        let rtt = Nanos((self.base_ms + self.queue_ms) * MS + self.random.below(4 * MS)) + extra;
        self.delivered += self.per_ack;
        let sent_at = Time(now.0.saturating_sub(rtt.0));
        while self.history.len() > 1 && self.history[1].0 <= sent_at {
            self.history.pop_front();
        }
        let prior = self.history[0].1;
        self.history.push_back((now, self.delivered));
        AckSample {
            acked: in_bytes(self.per_ack),
            cumulative: in_bytes(self.per_ack),
            rtt: Some(rtt).filter(|_| self.random.below(20) > 0),
            srtt: rtt,
            min_rtt: Nanos(self.base_ms * MS),
            delivery: Some(RateSample {
                prior_delivered: in_bytes(prior),
                delivered: in_bytes(self.delivered - prior),
                interval: rtt,
                app_limited: self.random.below(50) == 0,
            }),
            delivered_total: in_bytes(self.delivered),
            lost_total: in_bytes(self.lost),
            tx_in_flight: in_bytes(self.delivered - prior),
            prior_in_flight: in_bytes(self.delivered - prior),
            in_flight: in_bytes(self.delivered - prior),
            ack_delayed: self.random.below(30) == 0,
            next_departure: now,
            ..ack_at(now)
        }
    }

    fn loss(&mut self, now: Time) -> LostPacket {
        self.lost += 1;
        LostPacket {
            now,
            seq: in_bytes(self.delivered).0,
            bytes: in_bytes(1),
            sent_at: now,
            tx_in_flight: in_bytes(5 * self.per_ack),
            delivered_at_send: in_bytes(self.history[0].1),
            lost_at_send: in_bytes(self.lost - 1),
            lost_total: in_bytes(self.lost),
            delivered_total: in_bytes(self.delivered),
            app_limited: false,
        }
    }
}

/// Runs a pair over interruptions at these times [ms].
fn run(pair: Pair, interruptions: &[u64]) -> Watched {
    let mut watched = Watched { pair, slot_calls: 0, clock_calls: 0, resumed_calls: 0 };
    let mut path = Path::new(interruptions.len() as u64);
    let mut next = interruptions.iter().copied().peekable();
    watched.pair.call(&Call::Established { now: Time::ZERO, rtt: Some(Nanos::from_millis(40)) });
    let (mut ms, mut settled_ms) = (1, 0);
    let mut outage_ms = 100_000;
    while ms < SECONDS * 1000 {
        if ms >= outage_ms {
            ms = outage(&mut watched.pair, ms, 1 + outage_ms / 100_000 % 4);
            outage_ms += 100_000;
        }
        let mut silence_ms = 0;
        while next.next_if(|at| *at <= ms).is_some() {
            silence_ms = 40 + path.random.below(120);
        }
        if silence_ms > 0 {
            ms += silence_ms;
            settled_ms = ms + 60;
            path.reconfigure();
        }
        let now = Time(ms * MS + path.random.below(MS));
        // One packet in 2000, and one in 20 after an interruption or in a long episode.
        let is_lossy = ms < settled_ms + 100 || ms % 50_000 > 49_000;
        if path.random.below(if is_lossy { 20 } else { 2000 }) == 0 {
            let lost = path.loss(now);
            watched.pair.call(&Call::PacketLost(lost));
            if path.random.below(3) == 0 {
                let event = [Congestion::Loss, Congestion::Loss, Congestion::Undo, Congestion::Timeout]
                    [usize::try_from(path.random.below(4)).expect("small")];
                watched.pair.call(&Call::Congestion { now, event, in_flight: lost.tx_in_flight });
            }
        }
        let extra = if ms < settled_ms { Nanos((settled_ms - ms + 80) * MS) } else { Nanos::ZERO };
        let ack = path.ack(now, extra);
        watched.pair.call(&Call::Acked(ack));
        watched.pair.call(&Call::Ack(ack));
        watched.note();
        ms += ACK_INTERVAL_MS;
    }
    watched
}

/// Lets no ACK arrive, and a time-out each second; returns when ACKs arrive again [ms].
fn outage(pair: &mut Pair, from_ms: u64, time_outs: u64) -> u64 {
    for n in 0..time_outs {
        let event = if n == 0 { Congestion::Timeout } else { Congestion::TimeoutAgain };
        pair.call(&Call::Congestion { now: Time((from_ms + 400 + 1000 * n) * MS), event, in_flight: in_bytes(n) });
    }
    from_ms + 1000 * time_outs
}

fn every(first_ms: u64, period_ms: u64) -> Vec<u64> {
    (first_ms..SECONDS * 1000).step_by(usize::try_from(period_ms).expect("small")).collect()
}

/// Returns times of which some are missing, and some false.
fn imperfect(times: &[u64]) -> Vec<u64> {
    let mut random = Streams::new(3).stream("times");
    let mut result: Vec<u64> = times.iter().copied().filter(|_| random.below(5) > 0).collect();
    result.extend((0..6).map(|_| random.below(SECONDS * 1000)));
    result.sort_unstable();
    result
}

fn at_random(count: u64) -> Vec<u64> {
    let mut random = Streams::new(4).stream("times");
    let mut result: Vec<u64> = (0..count).map(|_| random.below(SECONDS * 1000)).collect();
    result.sort_unstable();
    result
}

#[test]
fn flows_over_many_reconfigurations_are_the_same() {
    let number = |name: &'static str, value: f64| (name, OptionValue::from(value));
    let source = |value: &str| ("hints", OptionValue::from(value));
    let clustered: Vec<u64> = (0..4).flat_map(|k| (0..8).map(move |n| 2000 + 110_000 * k + 1300 * n)).collect();
    let until_200_s: Vec<u64> = every(7000, 15_000).into_iter().filter(|ms| *ms < 200_000).collect();
    // Interruptions, options, and whether a clock must be in use at times.
    let cases = [
        (every(7000, 15_000), vec![], true),
        (imperfect(&every(7000, 15_000)), vec![], true),
        (every(3000, 11_300), vec![number("hint_offset_ms", -700.0)], true),
        (until_200_s, vec![number("hint_offset_ms", 90.0)], true),
        (at_random(60), vec![], false),
        (clustered, vec![], false),
        (every(7000, 15_000), vec![number("hint_period_s", 15.0)], true),
        (every(500, 1700), vec![number("hint_period_s", 1.7)], true),
        (every(7000, 13_000), vec![number("hint_period_s", 600.0)], false),
        (every(7000, 15_000), vec![source("none")], true),
        (imperfect(&every(7000, 15_000)), vec![source("schedule")], true),
    ];
    for (times, options, has_clock) in cases {
        for name in ["bbr3-leo", "cubic-leo"] {
            let mut pair = Pair::new(name, &config(), &given(&options));
            // Announcements before the flow begins, some late: used with hints=schedule.
            for (n, at) in every(7000, 15_000).into_iter().enumerate() {
                let late = if n % 7 > 4 { 2000 } else { 0 };
                pair.call(&Call::PathHint(PathHint::Reconfiguration(Time((at + late) * MS))));
            }
            let Watched { pair, clock_calls, slot_calls, resumed_calls } = run(pair, &times);
            assert!(pair.calls > 80_000, "{}: {} calls", pair.name, pair.calls);
            assert!(!has_clock || clock_calls > 3000, "{}: {clock_calls} ACKs with a clock", pair.name);
            assert!(name != "bbr3-leo" || slot_calls > 3000, "{}: {slot_calls} ACKs in a slot", pair.name);
            assert!(name != "bbr3-leo" || !has_clock || resumed_calls > 10, "{}: {resumed_calls} ACKs after an outage", pair.name);
            println!("{}: {} calls, {clock_calls} with a clock, {slot_calls} in a slot, {resumed_calls} resumed", pair.name, pair.calls);
        }
    }
}
