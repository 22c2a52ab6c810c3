//! Tests of a host's clock with made sockets.

use super::*;
use proptest::prelude::*;

const MS: u64 = 1_000_000;

/// A socket with ACKs every 2 ms on a path with a silence of 80 ms (`silence`) at each of `edges` [ms], which delays by as much, polled every 10 ms.
struct Path {
    number: u64,
    acks: u64,
    srtt_ns: u64,
    last_ack: u64,
    silence: u64,
}

impl Path {
    const fn new(number: u64) -> Self {
        Self { number, acks: 0, srtt_ns: 40 * MS, last_ack: 0, silence: 80 }
    }

    fn poll(&mut self, clock: &mut HostClock, at_ms: u64, edges: &[u64]) {
        for ms in (at_ms.saturating_sub(10)..at_ms).step_by(2) {
            let since = edges.iter().rev().find(|edge| **edge <= ms).map_or(u64::MAX, |edge| ms - edge);
            if since >= self.silence {
                let wait = (2 * self.silence).saturating_sub(since);
                self.srtt_ns = (self.srtt_ns * 7 + (40 + wait) * MS) / 8;
                self.acks += 1;
                self.last_ack = ms * MS;
            }
        }
        clock.on_sample(&SocketSample {
            socket: self.number,
            now: Time(at_ms * MS),
            last_ack: Time(self.last_ack),
            acks: self.acks,
            srtt: Nanos(self.srtt_ns),
            is_idle: false,
        });
    }
}

fn run(clock: &mut HostClock, paths: &mut [(Path, Vec<u64>)], span_s: std::ops::Range<u64>) {
    for at_ms in (span_s.start * 1000..span_s.end * 1000).step_by(10) {
        for (path, edges) in paths.iter_mut() {
            path.poll(clock, at_ms, edges);
        }
        clock.advance(Time(at_ms * MS));
    }
}

fn edges(from_s: u64, until_s: u64) -> Vec<u64> {
    (from_s..until_s).step_by(15).map(|s| s * 1000).collect()
}

fn error_ms(clock: &HostClock, at_s: u64) -> Option<u64> {
    clock.timing().map(|timing| timing.nearest(Time(at_s * 1000 * MS)).0.abs_diff(at_s * 1000 * MS) / MS)
}

#[test]
fn three_reconfigurations_set_the_clock_and_three_missed_ones_withdraw_it() {
    let mut clock = HostClock::default();
    let mut paths = [(Path::new(1), edges(7, 60))];
    run(&mut clock, &mut paths, 0..36);
    assert_eq!(clock.timing(), None);
    run(&mut clock, &mut paths, 36..60);
    assert!(error_ms(&clock, 67).expect("sure") < 30, "{:?}", clock.timing());
    run(&mut clock, &mut paths, 60..84);
    assert!(clock.timing().is_some(), "two missed");
    run(&mut clock, &mut paths, 84..99);
    assert_eq!(clock.timing(), None);
    assert_eq!(clock.doubt(), Some("expected reconfigurations were not seen"));
    assert_eq!(clock.detections(), 4);
}

#[test]
fn a_clock_that_jumped_is_withdrawn_after_two_reconfigurations_and_learned_anew() {
    let mut clock = HostClock::default();
    let jumped: Vec<u64> = edges(7, 60).into_iter().chain(edges(63, 200)).collect();
    let mut paths = [(Path::new(1), jumped)];
    run(&mut clock, &mut paths, 0..77);
    assert!(error_ms(&clock, 82).is_some());
    run(&mut clock, &mut paths, 77..84);
    assert_eq!((clock.timing(), clock.doubt()), (None, Some("reconfigurations came at other times")));
    run(&mut clock, &mut paths, 84..200);
    assert!(error_ms(&clock, 198).expect("sure") < 30, "{:?}", clock.timing());
}

#[test]
fn sockets_that_see_the_same_are_one_detection_and_most_decide() {
    let mut clock = HostClock::default();
    let mut paths = [(Path::new(1), edges(7, 60)), (Path::new(2), edges(7, 60)), (Path::new(3), vec![])];
    run(&mut clock, &mut paths, 0..60);
    assert_eq!(clock.detections(), 4);
    assert!(clock.timing().is_some());
    let mut other = HostClock::default();
    let mut paths = [(Path::new(1), edges(7, 60)), (Path::new(2), vec![]), (Path::new(3), vec![])];
    run(&mut other, &mut paths, 0..60);
    assert_eq!((other.detections(), other.timing()), (0, None));
}

#[test]
fn a_long_pause_begins_anew_and_a_short_one_does_not() {
    let mut clock = HostClock::default();
    let mut paths = [(Path::new(1), edges(7, 600))];
    run(&mut clock, &mut paths, 0..60);
    clock.advance(Time(80_000 * MS));
    assert!(clock.timing().is_some());
    clock.advance(Time(106_000 * MS));
    assert_eq!((clock.timing(), clock.doubt()), (None, None));
}

/// An ACK every 2 ms without a silence; the queue grows by 120 ms within 200 ms every 6 s, and the polls pause for 110 ms once a second.
#[test]
fn a_pause_of_the_polls_causes_no_detection() {
    let mut clock = HostClock::default();
    let (mut acks, mut srtt_ns) = (0_u64, 40 * MS);
    for ms in (0..60_000_u64).step_by(2) {
        let since = ms % 6000;
        let queue_tenths = if since < 200 { 6 * since } else { 1200_u64.saturating_sub(since) };
        srtt_ns = (srtt_ns * 7 + 40 * MS + queue_tenths * MS / 10) / 8;
        acks += 1;
        if ms % 10 == 0 && !(20..130).contains(&(ms % 1000)) {
            let now = Time(ms * MS);
            clock.on_sample(&SocketSample { socket: 1, now, last_ack: now, acks, srtt: Nanos(srtt_ns), is_idle: false });
            clock.advance(now);
        }
    }
    assert_eq!(clock.detections(), 0);
}

/// Two ACKs every 300 ms; once in 15 s their RTT is 160 ms higher.
#[test]
fn a_socket_with_few_acks_detects_nothing() {
    let mut clock = HostClock::default();
    let (mut acks, mut srtt_ns, mut last_ack) = (0, 40 * MS, 0);
    for ms in (0..120_000_u64).step_by(10) {
        if ms % 300 == 0 {
            let rtt_ns = if ms % 15_000 == 0 { 200 * MS } else { 40 * MS };
            for _ in 0..2 {
                srtt_ns = (srtt_ns * 7 + rtt_ns) / 8;
            }
            (acks, last_ack) = (acks + 2, ms * MS);
        }
        let (now, last_ack) = (Time(ms * MS), Time(last_ack));
        clock.on_sample(&SocketSample { socket: 1, now, last_ack, acks, srtt: Nanos(srtt_ns), is_idle: false });
        clock.advance(now);
    }
    assert_eq!((clock.detections(), clock.timing(), clock.doubt()), (0, None, None));
}

#[test]
fn an_idle_application_causes_no_detection() {
    let mut clock = HostClock::default();
    let mut path = Path::new(1);
    for at_ms in (0..60_000_u64).step_by(10) {
        let is_idle = at_ms % 1000 >= 300;
        if !is_idle {
            path.poll(&mut clock, at_ms, &[]);
        }
        let (now, last_ack, srtt) = (Time(at_ms * MS), Time(path.last_ack), Nanos(path.srtt_ns));
        clock.on_sample(&SocketSample { socket: 1, now, last_ack, acks: path.acks, srtt, is_idle });
        clock.advance(now);
    }
    assert_eq!(clock.detections(), 0);
}

proptest! {
    #[test]
    fn any_polls_are_taken(polls in prop::collection::vec((0_u64..3, any::<[u64; 4]>(), any::<bool>()), 0..200), published in any::<Option<u64>>()) {
        let mut clock = HostClock::default();
        clock.set_published(published.map(Time));
        for (socket, [now, last_ack, acks, srtt], is_idle) in polls {
            clock.on_sample(&SocketSample { socket, now: Time(now), last_ack: Time(last_ack), acks, srtt: Nanos(srtt), is_idle });
            clock.advance(Time(now));
        }
    }
}

/// Silences of 20 to 30 ms at the edges, shorter than a detection: ranks show them.
#[test]
fn silences_below_the_detector_set_the_clock() {
    let mut clock = HostClock::default();
    let path = Path { silence: 26, ..Path::new(1) };
    run(&mut clock, &mut [(path, edges(7, 60))], 0..60);
    assert_eq!(clock.detections(), 0);
    assert!(error_ms(&clock, 67).expect("sure") < 60, "{:?}", clock.timing());
}
