//! Two ends of a call over a path that delays, drops and limits.

use super::*;
use crate::actions::Action;
use crate::message::Datagram;
use bentpipe_profile::{Nanos, Streams};
use std::collections::BTreeMap;

/// A path both ways: a delay, a rate with a queue of any length, and the packets that it drops.
struct Path<'a> {
    delay: Nanos,
    bps: u64,
    drops: &'a dyn Fn(Time, usize, u64) -> bool,
}

/// What became of the frames in one direction.
#[derive(Debug, Default)]
struct Outcome {
    made: usize,
    shown: Vec<(Time, Time, Time)>,
    bytes: u64,
}

impl Outcome {
    fn delays_ms(&self) -> Vec<f64> {
        self.shown.iter().map(|(captured, _, shown)| shown.since(*captured).as_millis_f64()).collect()
    }

    fn mean_delay_ms(&self) -> f64 {
        self.delays_ms().iter().sum::<f64>() / self.shown.len() as f64
    }
}

fn call(path: &Path<'_>, seconds: u64, spec: &CallSpec) -> [Outcome; 2] {
    let mut ends = [false, true].map(|reverse| Call::new(spec, reverse, Streams::new(5).stream(if reverse { "b" } else { "a" })));
    // Events by time and order: the end, and a datagram or a timer.
    let mut events: BTreeMap<(Time, u64), (usize, Event)> = BTreeMap::new();
    let mut order = 0;
    let mut free = [Time::ZERO; 2];
    let mut sent = [0_u64; 2];
    let mut items: BTreeMap<u64, Item> = BTreeMap::new();
    for end in 0..2 {
        events.insert((Time::ZERO, end), (usize::try_from(end).unwrap(), Event::Started));
    }
    order += 2;
    let mut actions = Actions::default();
    while let Some(((now, _), (end, event))) = events.pop_first() {
        if now >= Time::ZERO + Nanos::from_secs(seconds) {
            break;
        }
        ends[end].on_event(now, &event, &mut actions);
        for action in actions.drain() {
            order += 1;
            match action {
                Action::SetTimer { at, timer } => {
                    assert!(at >= now, "a timer in the past");
                    events.insert((at, order), (end, Event::Timer(timer)));
                }
                Action::Send(datagram) => {
                    sent[end] += 1;
                    let on_wire = u64::from(datagram.bytes + 28);
                    free[end] = free[end].max(now) + Nanos(on_wire * 8 * 1_000_000_000 / path.bps);
                    if !(path.drops)(now, end, sent[end]) {
                        events.insert((free[end] + path.delay, order), (1 - end, Event::Datagram(datagram)));
                    }
                }
                Action::Record(item) => {
                    let row = items.entry(item.id).or_default();
                    row.start = item.start.or(row.start);
                    row.first_byte = item.first_byte.or(row.first_byte);
                    row.completed = item.completed.or(row.completed);
                    row.bytes = item.bytes.or(row.bytes);
                }
                other => panic!("a call does not {other:?}"),
            }
        }
    }
    let mut outcomes = [Outcome::default(), Outcome::default()];
    for (id, item) in items {
        let outcome = &mut outcomes[usize::from(id >= REVERSE)];
        outcome.made += 1;
        outcome.bytes += item.bytes.map_or(0, |bytes| bytes.0);
        if let (Some(captured), Some(first), Some(shown)) = (item.start, item.first_byte, item.completed) {
            outcome.shown.push((captured, first, shown));
        }
    }
    outcomes
}

use crate::actions::Item;

const CLEAN: &dyn Fn(Time, usize, u64) -> bool = &|_, _, _| false;

#[test]
fn a_clean_path_shows_every_frame_evenly_and_reaches_the_highest_rate() {
    let path = Path { delay: Nanos::from_millis(20), bps: 50_000_000, drops: CLEAN };
    for outcome in call(&path, 60, &CallSpec::default()) {
        assert!(outcome.made >= 1798 && outcome.made - outcome.shown.len() <= 3, "{} of {}", outcome.shown.len(), outcome.made);
        let mean = outcome.mean_delay_ms();
        assert!((40.0..70.0).contains(&mean), "{mean}"); // 20 ms of path, 23 ms of display and system, pacing
        assert!(outcome.shown.windows(2).all(|pair| pair[0].2 <= pair[1].2 && pair[0].0 < pair[1].0));
        let mbps = outcome.bytes as f64 * 8.0 / 60.0 / 1e6;
        assert!((2.3..2.6).contains(&mbps), "{mbps}"); // probes reach the top within a second
    }
}

#[test]
fn a_narrow_path_is_filled_without_a_standing_queue() {
    let path = Path { delay: Nanos::from_millis(20), bps: 1_000_000, drops: CLEAN };
    let [forward, _] = call(&path, 120, &CallSpec { both_ways: false, ..CallSpec::default() });
    let mbps = forward.bytes as f64 * 8.0 / 120.0 / 1e6;
    assert!((0.5..1.0).contains(&mbps), "{mbps}");
    let mean = forward.mean_delay_ms();
    assert!(mean < 250.0, "{mean}");
    assert!(forward.made - forward.shown.len() < 20);
}

#[test]
fn lost_packets_are_asked_for_and_cost_delay_but_no_frame() {
    let every_50th: &dyn Fn(Time, usize, u64) -> bool = &|_, _, count| count % 50 == 0;
    let path = |drops| Path { delay: Nanos::from_millis(20), bps: 50_000_000, drops };
    let shown_ms = |drops, holds_rtt, has_fec| {
        let [outcome, _] = call(&path(drops), 60, &CallSpec { holds_rtt, has_fec, ..CallSpec::default() });
        assert!(outcome.made - outcome.shown.len() <= 6, "{} of {}", outcome.shown.len(), outcome.made);
        let mut delays = outcome.delays_ms();
        delays.sort_by(f64::total_cmp);
        (outcome.mean_delay_ms(), delays[delays.len() * 97 / 100])
    };
    let (clean, clean_late) = shown_ms(CLEAN, false, false);
    let (lossy, lossy_late) = shown_ms(every_50th, false, false);
    assert!(lossy > clean + 10.0 && lossy < clean + 30.0, "{lossy} against {clean}");
    assert!(lossy_late > clean_late + 50.0, "{lossy_late} against {clean_late}");
    // Late frames raise the delay up to the RTT of 40 ms, and 10 ms more with the queues of the pacer.
    let (held, _) = shown_ms(every_50th, true, false);
    assert!(held > lossy + 10.0 && held < clean + 60.0, "{held} against {lossy}");
    // Repair packets make most retransmissions needless.
    let (repaired, repaired_late) = shown_ms(every_50th, false, true);
    assert!(repaired < clean + 6.0 && repaired_late < clean_late + 30.0, "{repaired}, {repaired_late} against {clean}");
}

#[test]
fn repair_packets_follow_losses_alone() {
    let every_50th: &dyn Fn(Time, usize, u64) -> bool = &|_, _, count| count % 50 == 0;
    let most_packets = |drops: &dyn Fn(Time, usize, u64) -> bool, has_fec| {
        let sent = std::cell::Cell::new(0);
        let counted = |now: Time, end: usize, count: u64| {
            if end == 0 {
                sent.set(count);
            }
            drops(now, end, count)
        };
        let path = Path { delay: Nanos::from_millis(20), bps: 50_000_000, drops: &counted };
        call(&path, 30, &CallSpec { has_fec, ..CallSpec::default() });
        sent.get()
    };
    assert_eq!(most_packets(CLEAN, true), most_packets(CLEAN, false));
    let (with, without) = (most_packets(every_50th, true), most_packets(every_50th, false));
    assert!(with as f64 > 1.15 * without as f64, "{with} against {without}");
}

#[test]
fn after_an_outage_video_goes_on_with_a_key_frame() {
    let outage: &dyn Fn(Time, usize, u64) -> bool = &|now, _, _| (10_000_000_000..14_000_000_000).contains(&now.0);
    let path = Path { delay: Nanos::from_millis(20), bps: 50_000_000, drops: outage };
    for outcome in call(&path, 40, &CallSpec::default()) {
        let last = outcome.shown.last().expect("frames are shown").2;
        assert!(last.0 > 39_500_000_000, "{last:?}");
        let resumed = outcome.shown.iter().find(|(_, _, shown)| shown.0 > 14_000_000_000).expect("it goes on").2;
        assert!(resumed.0 < 15_500_000_000, "{resumed:?}");
    }
}

#[test]
fn datagrams_of_others_are_ignored() {
    let mut end = Call::new(&CallSpec::default(), true, Streams::new(1).stream("x"));
    let mut actions = Actions::default();
    end.on_event(Time(5), &Event::Datagram(Datagram { content: Box::new([9, 9, 9]), bytes: 3 }), &mut actions);
    assert!(actions.is_empty());
}
