//! A socket between two polls: what it detects, and how conspicuous its silences are.

use super::super::detector::Detector;
use super::phase::{BIN, REACH};
use bentpipe_profile::{Nanos, Time};

/// A socket is watched if it had so many polls with ACKs in the last second. Chosen here: a silence of 100 ms is seen in most of them.
const DENSE: usize = 8;
const DENSE_FOR: Nanos = Nanos::from_secs(1);
/// Longest time between two polls of a socket that shows what happened between them. Chosen here: below the shortest silence that counts (`detector`).
const POLLED: Nanos = Nanos::from_millis(30);
/// Longest RTT that is computed back from a smoothed one.
const MAX_RTT_NS: f64 = 10e9;
/// Silences with a score: shorter ones are polls, longer ones outages. Chosen here.
const SCORED: std::ops::RangeInclusive<Nanos> = Nanos::from_millis(18)..=Nanos::from_millis(1000);
/// Smallest score [ms]. Chosen here: above what frames and grants cause.
const LEAST_SCORE: f32 = 12.0;
/// Bins that a socket keeps: longer than `DELAY`, and the silences that end in it.
const KEPT: usize = 128;
/// Time after which the score of a bin does not change [bins]: a silence has ended. Chosen here.
pub(super) const DELAY: u64 = 80;

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

#[derive(Clone, Debug)]
pub(super) struct Socket {
    detector: Detector,
    polled: Time,
    acks: u64,
    srtt: Nanos,
    /// Times of the last polls with ACKs, the oldest at `polls % DENSE`.
    recent: [Time; DENSE],
    polls: usize,
    /// From when on it is silent, and the mean RTT before.
    silent: Option<(Time, f64)>,
    /// Scores of the last bins, at `bin % KEPT`; NaN: not watched.
    scores: [f32; KEPT],
    /// The last bin with a score.
    last_bin: u64,
}

impl Socket {
    pub fn new(sample: &SocketSample) -> Self {
        Self {
            detector: Detector::default(),
            polled: sample.now,
            acks: sample.acks,
            srtt: sample.srtt,
            recent: [Time::ZERO; DENSE],
            polls: 0,
            silent: None,
            scores: [f32::NAN; KEPT],
            last_bin: sample.now.0 / BIN.0,
        }
    }

    /// Whether it had ACKs in many polls of the second before its last one.
    pub fn is_dense(&self, now: Time) -> bool {
        self.polls >= DENSE && now.since(self.recent[self.polls % DENSE]) <= DENSE_FOR
    }

    /// Returns the start of the silence if this poll shows a reconfiguration.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // 0 to MAX_RTT_NS
    pub fn on_sample(&mut self, sample: &SocketSample) -> Option<Time> {
        let new = sample.acks.saturating_sub(self.acks).min(64) as i32;
        self.acks = sample.acks;
        let mut at = None;
        let is_paused = sample.now.since(std::mem::replace(&mut self.polled, sample.now)) > POLLED;
        if is_paused {
            self.detector.on_rtt(sample.last_ack, None);
            self.silent = self.silent.map(|(_, rtt)| (sample.last_ack, rtt));
        }
        if new > 0 {
            let (before, after) = (self.srtt.0 as f64, sample.srtt.0 as f64);
            let mean = (before + (after - before) / (1.0 - libm::pow(0.875, f64::from(new)))).clamp(0.0, MAX_RTT_NS);
            self.srtt = sample.srtt;
            self.recent[self.polls % DENSE] = sample.last_ack;
            self.polls += 1;
            for _ in 0..new.min(2) {
                at = at.or(self.detector.on_rtt(sample.last_ack, Some(Nanos(mean as u64))));
            }
            self.extend(sample.now, !is_paused && self.is_dense(sample.now));
            if let Some((since, rtt)) = self.silent.replace((sample.last_ack, mean)) {
                self.score(since, sample.last_ack.since(since), mean - rtt);
            }
        } else {
            self.extend(sample.now, !is_paused && self.is_dense(sample.now));
        }
        if sample.is_idle {
            self.detector.on_rtt(sample.now + sample.srtt, None);
            self.silent = self.silent.map(|(_, rtt)| (sample.now + sample.srtt, rtt));
        }
        at
    }

    /// Returns the highest score of the bins near this one; `None`: it was not watched.
    pub fn score_near(&self, bin: u64) -> Option<f32> {
        let at = |bin: u64| self.scores[place(bin)];
        if bin > self.last_bin || bin + (KEPT as u64) <= self.last_bin + REACH as u64 || at(bin).is_nan() {
            return None;
        }
        let last = (bin + REACH as u64).min(self.last_bin);
        Some((bin.saturating_sub(REACH as u64)..=last).map(at).fold(0.0, f32::max))
    }

    /// Begins the bins until now.
    fn extend(&mut self, now: Time, is_watched: bool) {
        let bin = now.0 / BIN.0;
        for each in (self.last_bin + 1).max((bin + 1).saturating_sub(KEPT as u64))..=bin {
            self.scores[place(each)] = if is_watched { 0.0 } else { f32::NAN };
        }
        self.last_bin = self.last_bin.max(bin);
    }

    /// Scores a silence by the geometric mean of its length and the rise of the RTT: packets that were held have both.
    #[allow(clippy::cast_possible_truncation)] // a number of some digits
    fn score(&mut self, since: Time, silence: Nanos, rise_ns: f64) {
        let bin = since.0 / BIN.0;
        if !SCORED.contains(&silence) || bin > self.last_bin || bin + (KEPT as u64) <= self.last_bin {
            return;
        }
        let score = (libm::sqrt(silence.0 as f64 * rise_ns.max(0.0)) / 1e6) as f32;
        let kept = &mut self.scores[place(bin)];
        if score >= LEAST_SCORE && !kept.is_nan() {
            *kept = kept.max(score);
        }
    }
}

/// Place of a bin in the scores.
#[allow(clippy::cast_possible_truncation)] // below `KEPT`
const fn place(bin: u64) -> usize {
    (bin % KEPT as u64) as usize
}
