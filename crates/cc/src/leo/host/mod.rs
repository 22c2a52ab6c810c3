//! Clock of a host: period and phase of the reconfigurations that its sockets see together.
//!
//! A program polls the kernel's statistics of its sockets (`TCP_INFO`), and gives each poll to [`HostClock::on_sample`]. Each socket has a [`Detector`](super::detector::Detector); what
//! several sockets detect at the same time is one reconfiguration, if at least half of the sockets that could see it did. One [`Clock`] learns from these. Beside it,
//! `phase` searches slots of the published period in all of the traffic, where detections are too few; the surer of the two counts.
//!
//! A poll differs from an ACK:
//! - It has the smoothed RTT only. The mean RTT of the ACKs since the last poll is computed back from it: each moves the smoothed one by an eighth
//!   (RFC 6298, as Linux computes it).
//! - Between two polls there are several ACKs: two of them are given to the detector, so that a rise within one poll is confirmed.
//! - A socket without data in flight waits for its application: its silence begins an RTT after the last poll without data.
//! - A pause of the polls is no silence of the path: what happened in it is not known.

mod phase;
mod socket;

use super::clock::{Clock, SlotTiming};
use crate::fixed;
use bentpipe_profile::{Nanos, Time};
use phase::{BIN, CAPACITY, History};
pub use socket::SocketSample;
use socket::{DELAY, Socket};
use std::collections::BTreeMap;

/// Detections of sockets at most this far apart are one reconfiguration. Chosen here: the sockets' paths behind the satellite differ by less.
const SAME: Nanos = Nanos::from_millis(500);
/// Time after the first detection in which other sockets may detect the same. Chosen here: an RTT and two polls.
const HOLD: Nanos = Nanos::from_millis(700);
/// Time after which an expected reconfiguration was detected or missed: a silence, and `HOLD`; and its score is in the history. Chosen here.
const REVIEW_AFTER: Nanos = Nanos::from_millis(1700);
/// Largest difference between an expected and a detected reconfiguration that counts as a hit in a review. Chosen here: twice the clock's tolerance.
const HIT: Nanos = Nanos::from_millis(300);
/// Longest pause of all watched sockets that hides no reconfiguration. Chosen here: longer than a silence that counts.
const PAUSE: Nanos = Nanos::from_millis(1500);
/// After so many periods without traffic the clock begins anew. Chosen here: the network may have changed.
const IDLE_PERIODS: u64 = 3;
/// So many reconfigurations in a row that were expected, and not detected, withdraw the clock until the next hit. Chosen here: with three of four detected, it
/// happens by chance once in 64 slots.
const MAX_MISSED: u32 = 3;
/// An expected reconfiguration without a detection is a hit if the score of its time is among so many of all. Chosen here: by chance once in 20 slots.
const RARE: f64 = 0.05;
/// Time between two searches of the phase.
const SEARCH: Nanos = Nanos::from_secs(1);
/// Share of reconfigurations that are detected [2^-32]: 0.75. Of a bulk download with BBR over simulated LEO paths, 5.7 of 8 are (`validate kernel-clock`).
const DETECTION_RATE: u64 = fixed::ONE / 4 * 3;

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
    /// Scores of all watched sockets together, the best phase in them, and the time of that search.
    history: History,
    phase: Option<SlotTiming>,
    searched: Time,
    /// The next bin of the history.
    next_bin: u64,
    /// Time of a published edge.
    published: Option<Time>,
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
            history: History::default(),
            phase: None,
            searched: Time::ZERO,
            next_bin: 0,
            published: None,
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
            self.sockets.insert(sample.socket, Socket::new(sample));
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

    /// Sets the time of an edge of the published slots, by the host's time of day; `None`: it is not known.
    pub const fn set_published(&mut self, at: Option<Time>) {
        self.published = at;
    }

    /// Forgets a socket that has closed.
    pub fn forget(&mut self, socket: u64) {
        self.sockets.remove(&socket);
    }

    /// Forgets all sockets and the clock, as after a sleep of the host.
    pub fn reset(&mut self) {
        *self = Self { published: self.published, ..Self::default() };
    }

    /// Advances the time to `now`, after the polls of that time.
    pub fn advance(&mut self, now: Time) {
        if self.candidate.as_ref().is_some_and(|candidate| now.since(candidate.opened) >= HOLD) {
            self.decide();
        }
        let Some((_, traffic_at)) = self.dense else { return };
        self.extend(now);
        if now.since(self.searched) >= SEARCH && now.since(traffic_at) <= PAUSE {
            self.searched = now;
            self.phase = self.history.best(self.published).filter(SlotTiming::is_sure);
        }
        if let Some(timing) = self.surest() {
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
        self.surest().filter(|_| self.dense.is_some() && self.missed < MAX_MISSED && !self.is_elsewhere)
    }

    /// Returns why there is no timing, in a few words; `None`: no socket has had ACKs densely.
    #[must_use]
    pub fn doubt(&self) -> Option<&'static str> {
        self.dense.map(|_| {
            if self.is_elsewhere {
                "reconfigurations came at other times"
            } else if self.missed >= MAX_MISSED {
                "expected reconfigurations were not seen"
            } else if self.detections == 0 {
                "no reconfigurations seen"
            } else {
                "no regular reconfigurations"
            }
        })
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

    fn surest(&self) -> Option<SlotTiming> {
        self.clock.timing().into_iter().chain(self.phase).max_by_key(|timing| timing.log_odds)
    }

    /// Adds the scores of all bins that do not change: of several sockets, that which at least half of them have.
    fn extend(&mut self, now: Time) {
        let end = (now.0 / BIN.0).saturating_sub(DELAY);
        for bin in self.next_bin.max(end.saturating_sub(CAPACITY as u64))..end {
            let mut scores: Vec<f32> = self.sockets.values().filter_map(|socket| socket.score_near(bin)).collect();
            scores.sort_unstable_by(|a, b| b.total_cmp(a));
            self.history.push(bin, scores.get(scores.len().saturating_sub(1) / 2).copied());
        }
        self.next_bin = end;
    }

    fn restart(&mut self) {
        self.clock.reset();
        (self.history, self.phase) = (History::default(), None);
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
        let is_detected = self.last.is_some_and(|last| last.0.abs_diff(at.0) <= HIT.0);
        let is_hit = is_detected || self.history.rarity(at).is_some_and(|rarity| rarity <= RARE);
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
mod tests;
