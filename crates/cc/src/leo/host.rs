//! Clock of a host: period and phase of the reconfigurations that its sockets see together.
//!
//! A program polls the kernel's statistics of its sockets (`TCP_INFO`), and gives each poll to [`HostClock::on_sample`]. Each socket has a [`Detector`]; what
//! several sockets detect at the same time is one reconfiguration, if at least half of the sockets that could see it did. One [`Clock`] learns from these.
//!
//! A poll differs from an ACK:
//! - It has the smoothed RTT only. The mean RTT of the ACKs since the last poll is computed back from it: each moves the smoothed one by an eighth
//!   (RFC 6298, as Linux computes it).
//! - Between two polls there are several ACKs: two of them are given to the detector, so that a rise within one poll is confirmed.
//! - A socket without data in flight waits for its application: its silence begins an RTT after the last poll without data.
//! - A pause of the polls is no silence of the path: what happened in it is not known.

use super::clock::{Clock, SlotTiming};
use super::detector::Detector;
use crate::fixed;
use bentpipe_profile::{Nanos, Time};
use std::collections::BTreeMap;

/// Detections of sockets at most this far apart are one reconfiguration. Chosen here: the sockets' paths behind the satellite differ by less.
const SAME: Nanos = Nanos::from_millis(500);
/// Time after the first detection in which other sockets may detect the same. Chosen here: an RTT and two polls.
const HOLD: Nanos = Nanos::from_millis(700);
/// Time after which an expected reconfiguration was detected or missed: a silence, and `HOLD`. Chosen here.
const REVIEW_AFTER: Nanos = Nanos::from_millis(1500);
/// Largest difference between an expected and a detected reconfiguration that counts as a hit in a review. Chosen here: twice the clock's tolerance.
const HIT: Nanos = Nanos::from_millis(300);
/// A socket is watched if it had so many polls with ACKs in the last second. Chosen here: a silence of 100 ms is seen in most of them.
const DENSE: usize = 8;
const DENSE_FOR: Nanos = Nanos::from_secs(1);
/// Longest time between two polls of a socket that shows what happened between them. Chosen here: below the shortest silence that counts (`detector`).
const POLLED: Nanos = Nanos::from_millis(30);
/// Longest pause of all watched sockets that hides no reconfiguration. Chosen here: longer than a silence that counts.
const PAUSE: Nanos = Nanos::from_millis(1500);
/// After so many periods without traffic the clock begins anew. Chosen here: the network may have changed.
const IDLE_PERIODS: u64 = 3;
/// So many reconfigurations in a row that were expected, and not detected, withdraw the clock until the next hit. Chosen here: with three of four detected, it
/// happens by chance once in 64 slots.
const MAX_MISSED: u32 = 3;
/// Share of reconfigurations that are detected [2^-32]: 0.75. Of a bulk download with BBR over simulated LEO paths, 5.7 of 8 are (`validate kernel-clock`).
const DETECTION_RATE: u64 = fixed::ONE / 4 * 3;
/// Longest RTT that is computed back from a smoothed one.
const MAX_RTT_NS: f64 = 10e9;

/// What a poll of a socket tells.
#[derive(Clone, Copy, Debug)]
pub struct SocketSample {
    /// The socket's number; another connection has another.
    pub socket: u64,
    /// Time of the poll.
    pub now: Time,
    /// Time of its last ACK.
    pub last_ack: Time,
    /// ACKs so far that acknowledged data.
    pub acks: u64,
    /// Smoothed RTT.
    pub srtt: Nanos,
    /// Whether no data are in flight.
    pub is_idle: bool,
}

/// A socket between two polls.
#[derive(Clone, Debug)]
struct Socket {
    detector: Detector,
    polled: Time,
    acks: u64,
    srtt: Nanos,
    /// Times of the last polls with ACKs, the oldest at `polls % DENSE`.
    recent: [Time; DENSE],
    polls: usize,
}

impl Socket {
    /// Whether it had ACKs in many polls of the second before its last one.
    fn is_dense(&self, now: Time) -> bool {
        self.polls >= DENSE && now.since(self.recent[self.polls % DENSE]) <= DENSE_FOR
    }

    /// Returns the start of the silence if this poll shows a reconfiguration.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // 0 to MAX_RTT_NS
    fn on_sample(&mut self, sample: &SocketSample) -> Option<Time> {
        let new = sample.acks.saturating_sub(self.acks).min(64) as i32;
        self.acks = sample.acks;
        let mut at = None;
        if sample.now.since(std::mem::replace(&mut self.polled, sample.now)) > POLLED {
            self.detector.on_rtt(sample.last_ack, None);
        }
        if new > 0 {
            let (before, after) = (self.srtt.0 as f64, sample.srtt.0 as f64);
            let mean = before + (after - before) / (1.0 - libm::pow(0.875, f64::from(new)));
            self.srtt = sample.srtt;
            self.recent[self.polls % DENSE] = sample.last_ack;
            self.polls += 1;
            for _ in 0..new.min(2) {
                at = at.or(self.detector.on_rtt(sample.last_ack, Some(Nanos(mean.clamp(0.0, MAX_RTT_NS) as u64))));
            }
        }
        if sample.is_idle {
            self.detector.on_rtt(sample.now + sample.srtt, None);
        }
        at
    }
}

/// A reconfiguration that other sockets may still confirm.
#[derive(Clone, Debug)]
struct Candidate {
    opened: Time,
    /// Start of the silence, by the socket that detected it.
    by: BTreeMap<u64, Time>,
    /// Sockets that were watched when it began.
    watched: Vec<u64>,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct HostClock {
    sockets: BTreeMap<u64, Socket>,
    candidate: Option<Candidate>,
    clock: Clock,
    /// The last reconfiguration and the one before it, and how many there were since the last reset.
    last: Option<Time>,
    before: Option<Time>,
    detections: u64,
    /// Begin and end of the time in which sockets were watched without a pause.
    dense: Option<(Time, Time)>,
    reviewed: Time,
    missed: u32,
    /// Whether the last two reconfigurations were a period apart, and both not expected, since the last that was.
    is_elsewhere: bool,
    /// Reviews since the last reset that found a hit, and all.
    hits: u64,
    reviews: u64,
}

impl Default for HostClock {
    fn default() -> Self {
        Self {
            sockets: BTreeMap::new(),
            candidate: None,
            clock: Clock::new(None).with_detection_rate(DETECTION_RATE),
            last: None,
            before: None,
            detections: 0,
            dense: None,
            reviewed: Time::ZERO,
            missed: 0,
            is_elsewhere: false,
            hits: 0,
            reviews: 0,
        }
    }
}

impl HostClock {
    /// Processes a poll of one socket.
    pub fn on_sample(&mut self, sample: &SocketSample) {
        let Some(socket) = self.sockets.get_mut(&sample.socket) else {
            let first = Socket {
                detector: Detector::default(),
                polled: sample.now,
                acks: sample.acks,
                srtt: sample.srtt,
                recent: [Time::ZERO; DENSE],
                polls: 0,
            };
            self.sockets.insert(sample.socket, first);
            return;
        };
        let detected = socket.on_sample(sample);
        if socket.is_dense(sample.now) {
            let begin = self.dense.filter(|(_, end)| sample.now.since(*end) <= PAUSE).map_or(sample.now, |(begin, _)| begin);
            self.dense = Some((begin, sample.now));
        }
        // What sparse sockets seem to detect could not be reviewed.
        if let Some(at) = detected.filter(|at| socket.is_dense(*at)) {
            self.on_detection(sample.socket, at, sample.now);
        }
    }

    /// Forgets a socket that has closed.
    pub fn forget(&mut self, socket: u64) {
        self.sockets.remove(&socket);
    }

    /// Forgets all sockets and the clock, as after a sleep of the host.
    pub fn reset(&mut self) {
        *self = Self::default();
    }

    /// Advances the time to `now`, after the polls of that time.
    pub fn advance(&mut self, now: Time) {
        if self.candidate.as_ref().is_some_and(|candidate| now.since(candidate.opened) >= HOLD) {
            self.decide();
        }
        let Some((_, traffic_at)) = self.dense else { return };
        if let Some(timing) = self.clock.timing() {
            if now.since(traffic_at).0 > IDLE_PERIODS.saturating_mul(timing.period.0) {
                self.restart();
                return;
            }
            self.review(now, timing);
        }
        if now.since(traffic_at) <= PAUSE {
            self.clock.advance(Time(now.0.saturating_sub(REVIEW_AFTER.0)));
        }
    }

    /// Returns period and phase while they are sure.
    #[must_use]
    pub fn timing(&self) -> Option<SlotTiming> {
        self.clock.timing().filter(|_| self.dense.is_some() && self.missed < MAX_MISSED && !self.is_elsewhere)
    }

    /// Returns why there is no timing, in a few words.
    #[must_use]
    pub fn doubt(&self) -> &'static str {
        match self.dense {
            None => "no traffic",
            Some(_) if self.is_elsewhere => "reconfigurations came at other times",
            Some(_) if self.missed >= MAX_MISSED => "expected reconfigurations were not seen",
            Some(_) if self.detections == 0 => "no reconfigurations seen",
            Some(_) => "no regular reconfigurations",
        }
    }

    /// Reconfigurations that were detected since the last reset.
    #[must_use]
    pub const fn detections(&self) -> u64 {
        self.detections
    }

    /// Expected reconfigurations that were detected, and all that could have been, since the clock was first sure.
    #[must_use]
    pub const fn reviews(&self) -> (u64, u64) {
        (self.hits, self.reviews)
    }

    /// Sockets that are watched now.
    #[must_use]
    pub fn watched(&self, now: Time) -> usize {
        self.sockets.values().filter(|socket| socket.is_dense(now)).count()
    }

    fn restart(&mut self) {
        self.clock.reset();
        (self.last, self.before, self.dense, self.candidate) = (None, None, None, None);
        (self.missed, self.hits, self.reviews, self.detections) = (0, 0, 0, 0);
        self.is_elsewhere = false;
    }

    fn on_detection(&mut self, socket: u64, at: Time, now: Time) {
        if let Some(candidate) = &mut self.candidate {
            if candidate.by.values().next().is_none_or(|first| first.0.abs_diff(at.0) <= SAME.0) {
                candidate.by.entry(socket).or_insert(at);
                return;
            }
            self.decide();
        }
        // A silence of up to a second made the others' last polls old.
        let watched = self.sockets.iter().filter(|(_, other)| other.is_dense(at)).map(|(number, _)| *number).collect();
        self.candidate = Some(Candidate { opened: now, by: BTreeMap::from([(socket, at)]), watched });
    }

    /// Takes the candidate for a reconfiguration, or drops it.
    fn decide(&mut self) {
        let Some(candidate) = self.candidate.take() else { return };
        let others = candidate.watched.iter().filter(|number| !candidate.by.contains_key(number)).count();
        let mut times: Vec<Time> = candidate.by.into_values().collect();
        times.sort_unstable();
        let at = times[times.len() / 2];
        if times.len() >= others && self.last.is_none_or(|last| at.since(last) > SAME) {
            (self.before, self.last) = (self.last, Some(at));
            self.detections += 1;
            self.clock.on_reconfiguration(at);
        }
    }

    /// Compares the last expected reconfiguration with the detections, once, if sockets were watched before and after it.
    fn review(&mut self, now: Time, timing: SlotTiming) {
        let due = Time(now.0.saturating_sub(REVIEW_AFTER.0));
        let mut at = timing.nearest(due);
        if at > due {
            at = Time(at.0.saturating_sub(timing.period.0));
        }
        if at.since(self.reviewed).0 <= timing.period.0 / 2 {
            return;
        }
        self.reviewed = at;
        let is_watched = self.dense.is_some_and(|(begin, end)| begin.0.saturating_add(SAME.0) <= at.0 && end > at);
        let is_hit = self.last.is_some_and(|last| last.0.abs_diff(at.0) <= HIT.0);
        if is_hit {
            (self.hits, self.reviews, self.missed) = (self.hits + 1, self.reviews + 1, 0);
            self.is_elsewhere = false;
        } else if is_watched {
            (self.reviews, self.missed) = (self.reviews + 1, self.missed + 1);
            let agrees = |other: Time| self.last.is_some_and(|last| is_multiple(last.since(other), timing.period));
            self.is_elsewhere =
                self.missed > 1 && self.before.is_some_and(|before| agrees(before) && !is_multiple(at.since(before), timing.period));
        }
    }
}

/// Whether a span is a number of periods, one at least.
const fn is_multiple(span: Nanos, period: Nanos) -> bool {
    let rest = span.0 % period.0;
    span.0 > HIT.0 && (rest <= HIT.0 || period.0 - rest <= HIT.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A socket with ACKs every 2 ms on a path with a silence of 80 ms at each of `edges` [ms], which delays by as much, polled every 10 ms.
    struct Path {
        number: u64,
        acks: u64,
        srtt_ns: u64,
        last_ack: u64,
    }

    impl Path {
        const fn new(number: u64) -> Self {
            Self { number, acks: 0, srtt_ns: 40 * MS, last_ack: 0 }
        }

        fn poll(&mut self, clock: &mut HostClock, at_ms: u64, edges: &[u64]) {
            for ms in (at_ms.saturating_sub(10)..at_ms).step_by(2) {
                let since = edges.iter().rev().find(|edge| **edge <= ms).map_or(u64::MAX, |edge| ms - edge);
                if since >= 80 {
                    let wait = 160_u64.saturating_sub(since);
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
        assert_eq!(clock.doubt(), "expected reconfigurations were not seen");
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
        assert_eq!((clock.timing(), clock.doubt()), (None, "reconfigurations came at other times"));
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
        assert_eq!((clock.timing(), clock.doubt()), (None, "no traffic"));
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
        assert_eq!((clock.detections(), clock.timing(), clock.doubt()), (0, None, "no traffic"));
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
}
