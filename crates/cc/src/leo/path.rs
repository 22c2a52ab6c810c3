//! What a path that is changed every few seconds can carry and how long it is: a model of the present slot, not of the last ten seconds.
//!
//! - **Its length** is the least RTT since it last changed; until that is a second old, the one before counts too if it is less, for the queue that a change leaves behind
//!   has to drain first.
//! - **Its bandwidth** is the greatest delivery rate of a few rounds: a beam's share of a moment ago is not there any more.
//! - **Its flight** is what that bandwidth carries in the length and a stated time more. That time is the queue: it bridges what the capacity does within a RTT, and
//!   is what lets the flight grow when the capacity does.
//! - **Its losses** say that the flight is too large only where there is a queue, or where they do not end.

use crate::bbr_parts::bw::Bw;
use crate::bbr_parts::params::{GAIN_SHIFT, MIN_CWND_PACKETS, UNIT};
use crate::bbr_parts::rounds::Rounds;
use crate::filter::Windowed;
use crate::{AckSample, RecoveryState};
use bentpipe_profile::{Bytes, Nanos, Time};

/// Until a slot is so old, the length of the one before counts. Chosen here: an interruption and the queue it leaves are over.
const SETTLED: Nanos = Nanos::from_millis(1000);
/// Losses that go on for so long, and so many rounds, are no episode. Chosen here: the longest of a hundred episodes lasts 200 ms (access model), and its repair a round.
const EPISODE: Nanos = Nanos::from_millis(400);
const EPISODE_ROUNDS: u32 = 3;
/// What stays of the flight after a round of losses that count (RFC 9438 §4.6; draft-ietf-ccwg-bbr-06 §5.5.10.2, Beta), and what comes back with each round without. The latter is
/// chosen here.
const KEEP: u64 = UNIT * 7 / 10;
const REGAIN: u64 = UNIT / 16;
/// Least part of the flight. Chosen here.
const LEAST: u64 = UNIT / 8;
/// A queue that does not empty for so long is somebody else's. Chosen here: several of the slow fadings' moments.
const CROWDED_FOR: Nanos = Nanos::from_millis(1500);
/// A queue that is our own gives way when less is in flight. One that stays, for so long and so many rounds, while the flight shrinks to [`LESS`] of what it was, is the
/// path's own length: it was changed, and nobody saw. Chosen here: a fallen capacity's queue is gone in fewer rounds.
const STUCK: Nanos = Nanos::from_millis(1000);
const STUCK_ROUNDS: u32 = 6;
const LESS: u64 = UNIT * 3 / 4;
/// The bandwidth that was is forgotten by this part of itself every [`JITTER_SPAN`]: in half a minute to 0.3. Chosen here: a flow that came later shows within a few slots.
const PEAK_SHIFT: u32 = 8;
/// The queue grows by the root of what the bandwidth fell by, up to fourfold. Chosen here: as much as that keeps a share beside CUBIC, and little in a fade.
const MOST_FALL: f64 = 16.0;

/// Jitter is what RTTs of so long are above the least of them, on average: the grant schedule and others' packets come and go within it, while a queue of the flow's own
/// stays about what it is. Chosen here: twice the correlation time of the access model's wander.
const JITTER_SPAN: Nanos = Nanos::from_millis(100);
/// Weight of a span in the average. Chosen here: a slot's worth is 150 spans, and a hump of a second should not move it much.
const JITTER_SHIFT: u32 = 4;

/// The queue that is meant to be there.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// This long ...
    pub least: Nanos,
    /// ... and so many times the jitter [1/256], for a path of much jitter is longer than the least RTT says; ...
    pub jitters: u64,
    /// ... or this part of the length [1/256], if that is more.
    pub part: u64,
}

/// What RTTs vary by while the queue is what it is.
#[derive(Clone, Copy, Debug)]
struct Jitter {
    from: Time,
    least: Nanos,
    sum: u128,
    count: u64,
    mean: Option<Nanos>,
}

impl Jitter {
    const fn new() -> Self {
        Self { from: Time::ZERO, least: Nanos::MAX, sum: 0, count: 0, mean: None }
    }

    fn on_rtt(&mut self, now: Time, rtt: Nanos) {
        if now.since(self.from) >= JITTER_SPAN {
            if self.count > 1 {
                let above = u64::try_from(self.sum / u128::from(self.count)).unwrap_or(u64::MAX).saturating_sub(self.least.0);
                let mean = self.mean.map_or(above, |mean| mean.0 - (mean.0 >> JITTER_SHIFT) + (above >> JITTER_SHIFT));
                self.mean = Some(Nanos(mean));
            }
            (self.from, self.least, self.sum, self.count) = (now, Nanos::MAX, 0, 0);
        }
        self.least = self.least.min(rtt);
        self.sum += u128::from(rtt.0);
        self.count += 1;
    }

    fn get(&self) -> Nanos {
        self.mean.unwrap_or_default()
    }
}

/// What is believed of the path since it last changed.
#[derive(Clone, Debug)]
pub struct SlotPath {
    mss: u32,
    target: Target,
    jitter: Jitter,
    rounds: Rounds,
    bw: Option<Windowed<Bw>>,
    bw_rounds: u64,
    /// What it delivered before, slowly forgotten.
    peak: Bw,
    peak_at: Time,
    began: Time,
    least: Option<Nanos>,
    least_before: Option<Nanos>,
    /// Of the present round: least RTT, and what was delivered and lost before it.
    round_least: Nanos,
    round_from: (Bytes, Bytes),
    /// Least RTT of the last round.
    last_least: Nanos,
    lossy_since: Option<Time>,
    lossy_rounds: u32,
    part: u64,
    queued_since: Option<Time>,
    /// Since when, and since how many rounds, every round met more of a queue than is meant to be there; and the flight then.
    stuck: Option<(Time, u32, u64)>,
}

impl SlotPath {
    /// A path of which nothing is known.
    #[must_use]
    pub const fn new(mss: u32, target: Target, bw_rounds: u64) -> Self {
        Self {
            mss,
            target,
            jitter: Jitter::new(),
            rounds: Rounds::new(),
            bw: None,
            bw_rounds,
            peak: Bw(0),
            peak_at: Time::ZERO,
            began: Time::ZERO,
            least: None,
            least_before: None,
            round_least: Nanos::MAX,
            round_from: (Bytes::ZERO, Bytes::ZERO),
            last_least: Nanos::MAX,
            lossy_since: None,
            lossy_rounds: 0,
            part: UNIT,
            queued_since: None,
            stuck: None,
        }
    }

    /// The path was changed.
    pub fn on_edge(&mut self, now: Time) {
        self.least_before = self.length(now);
        self.least = None;
        self.began = now;
        self.queued_since = None;
        self.stuck = None;
    }

    /// Takes an ACK. `sheltered`: losses now are the change's, not the flight's; `threshold`: part lost of a round that counts [1/256].
    pub fn on_ack(&mut self, ack: &AckSample, sheltered: bool, threshold: u64) {
        if let Some(rtt) = ack.rtt.filter(|_| !ack.ack_delayed) {
            self.least = Some(self.least.map_or(rtt, |least| least.min(rtt)));
            self.round_least = self.round_least.min(rtt);
            self.jitter.on_rtt(ack.now, rtt);
        }
        let round = self.rounds.advance(ack.delivery.as_ref(), ack.delivered_total);
        if let Some(sample) = ack.delivery
            && let Some(bw) = Bw::of(sample.delivered, sample.interval, self.mss)
        {
            let at = self.rounds.count();
            match &mut self.bw {
                Some(filter) if !sample.app_limited || bw >= filter.get() => {
                    filter.update(at, bw);
                }
                Some(_) => {}
                None => self.bw = Some(Windowed::new(self.bw_rounds, at, bw)),
            }
        }
        if ack.now.since(self.peak_at) >= JITTER_SPAN {
            self.peak = Bw(self.peak.0 - (self.peak.0 >> PEAK_SHIFT)).max(self.bw().unwrap_or_default());
            self.peak_at = ack.now;
        }
        if round {
            self.on_round(ack, sheltered, threshold);
        }
    }

    fn on_round(&mut self, ack: &AckSample, sheltered: bool, threshold: u64) {
        let delivered = ack.delivered_total.saturating_sub(self.round_from.0).0;
        let lost = ack.lost_total.saturating_sub(self.round_from.1).0;
        self.round_from = (ack.delivered_total, ack.lost_total);
        self.last_least = self.round_least;
        self.round_least = Nanos::MAX;
        let lossy = u128::from(lost) << GAIN_SHIFT > u128::from(delivered + lost) * u128::from(threshold);
        if lossy {
            self.lossy_rounds += 1;
            self.lossy_since.get_or_insert(ack.now);
        } else {
            self.lossy_rounds = 0;
            self.lossy_since = None;
        }
        if lossy && !sheltered && (self.has_queue(ack.now) || self.is_lasting(ack.now)) {
            self.part = ((self.part * KEEP) >> GAIN_SHIFT).max(LEAST);
        } else if !lossy {
            self.part = (self.part + REGAIN).min(UNIT);
        }
        let cross_traffic =
            self.length(ack.now).map_or(Nanos::MAX, |length| length + self.queue(length) + self.queue(length) + self.target.least);
        if self.last_least == Nanos::MAX || self.last_least <= cross_traffic {
            self.queued_since = None;
        } else {
            self.queued_since.get_or_insert(ack.now);
        }
        self.stuck = match (self.length(ack.now), self.flight(ack.now), self.stuck) {
            (Some(length), Some(flight), stuck) if self.last_least != Nanos::MAX && self.last_least > length + self.queue(length) => {
                let (since, rounds, before) = stuck.unwrap_or((ack.now, 0, flight));
                Some((since, rounds + 1, before))
            }
            _ => None,
        };
    }

    /// Whether the path must have been changed without anybody's seeing it.
    #[must_use]
    pub fn is_another(&self, now: Time) -> bool {
        let Some(((since, rounds, before), flight)) = self.stuck.zip(self.flight(now)) else { return false };
        now.since(since) > STUCK && rounds > STUCK_ROUNDS && u128::from(flight) << GAIN_SHIFT <= u128::from(before) * u128::from(LESS)
    }

    /// Whether losses now are none of the flight's making: the last round met less of a queue than is meant to be there, and they have not gone on for long.
    #[must_use]
    pub fn excuses(&self, now: Time) -> bool {
        !self.has_queue(now) && !self.is_lasting(now)
    }

    /// Whether somebody else fills the queue.
    #[must_use]
    pub fn is_crowded(&self, now: Time) -> bool {
        self.queued_since.is_some_and(|since| now.since(since) > CROWDED_FOR)
    }

    fn has_queue(&self, now: Time) -> bool {
        let least = self.last_least.min(self.round_least);
        self.length(now).is_none_or(|length| least != Nanos::MAX && least > length + self.queue(length))
    }

    /// Whether the packet whose RTT this is stood behind twice the queue that is meant to be there: one of a burst, whose first ones met none.
    #[must_use]
    pub fn is_deep(&self, now: Time, rtt: Nanos) -> bool {
        self.length(now).is_some_and(|length| rtt > length + self.queue(length) + self.queue(length))
    }

    fn is_lasting(&self, now: Time) -> bool {
        self.lossy_rounds >= EPISODE_ROUNDS && self.lossy_since.is_some_and(|since| now.since(since) > EPISODE)
    }

    /// The path's RTT without a queue, if it is known.
    #[must_use]
    pub fn length(&self, now: Time) -> Option<Nanos> {
        match (self.least, self.least_before) {
            (Some(least), Some(before)) if now.since(self.began) < SETTLED => Some(least.min(before)),
            (least, before) => least.or(before),
        }
    }

    /// The queue that is meant to be there.
    fn queue(&self, length: Nanos) -> Nanos {
        let part = |of: Nanos, part: u64| Nanos(u64::try_from((u128::from(of.0) * u128::from(part)) >> GAIN_SHIFT).unwrap_or(u64::MAX));
        let queue = self.target.least + part(self.jitter.get(), self.target.jitters);
        // A flow that got less of late, on its own or beside another, keeps more: were the queue the same time for all, who has little would stay with it.
        let fall = (self.peak.0 as f64 / self.bw().unwrap_or_default().0.max(1) as f64).clamp(1.0, MOST_FALL);
        Nanos::from_secs_f64(queue.as_secs_f64() * libm::sqrt(fall)).unwrap_or(Nanos::MAX).max(part(length, self.target.part))
    }

    /// What it delivers.
    #[must_use]
    pub fn bw(&self) -> Option<Bw> {
        self.bw.as_ref().map(Windowed::get)
    }

    /// What may be in flight.
    #[must_use]
    pub fn flight(&self, now: Time) -> Option<u64> {
        let length = self.length(now)?;
        let bw = self.bw()?;
        let full = bw.bdp(length + self.queue(length), UNIT);
        Some(((u128::from(full) * u128::from(self.part)) >> GAIN_SHIFT).try_into().unwrap_or(u64::MAX).max(MIN_CWND_PACKETS))
    }

    /// Whether the sender repairs losses that it noticed by a time-out: then no model is to be trusted.
    #[must_use]
    pub fn is_lost(ack: &AckSample) -> bool {
        ack.recovery == RecoveryState::Loss
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::{MSS, ack_at, in_bytes};
    use super::*;
    use crate::RateSample;

    const THRESHOLD: u64 = UNIT * 2 / 100;

    fn path(least_ms: u64, jitters: u64) -> SlotPath {
        SlotPath::new(MSS, Target { least: Nanos::from_millis(least_ms), jitters: jitters * UNIT, part: 0 }, 4)
    }

    /// A packet per millisecond, RTTs in turn, so many of a hundred lost, from `from_ms` on for `ms`.
    fn feed(path: &mut SlotPath, (from_ms, ms): (u64, u64), rtts_ms: &[u64], lost_percent: u64) {
        for at in from_ms..from_ms + ms {
            let rtt = rtts_ms[usize::try_from(at).expect("small") % rtts_ms.len()];
            let delivery = RateSample {
                prior_delivered: in_bytes(at.saturating_sub(rtt)),
                delivered: in_bytes(40),
                interval: Nanos::from_millis(40),
                app_limited: false,
            };
            let ack = AckSample {
                rtt: Some(Nanos::from_millis(rtt)),
                delivery: Some(delivery),
                delivered_total: in_bytes(at),
                lost_total: in_bytes((at - from_ms) * lost_percent / 100),
                ..ack_at(Time(at * 1_000_000))
            };
            path.on_ack(&ack, false, THRESHOLD);
        }
    }

    #[test]
    fn the_flight_is_the_bandwidth_over_the_length_and_the_queue() {
        let mut p = path(25, 0);
        feed(&mut p, (1000, 500), &[40], 0);
        assert_eq!(p.flight(Time(1_500_000_000)), Some(65));
        // Every other packet 10 ms late: 5 ms of jitter.
        let mut p = path(25, 2);
        feed(&mut p, (1000, 5000), &[40, 50], 0);
        assert_eq!(p.flight(Time(6_000_000_000)), Some(75));
    }

    #[test]
    fn after_a_change_the_length_is_the_new_paths_once_the_old_queue_is_over() {
        let mut p = path(25, 0);
        feed(&mut p, (1000, 500), &[40], 0);
        p.on_edge(Time(1_500_000_000));
        feed(&mut p, (1500, 900), &[60], 0);
        assert_eq!(p.length(Time(2_400_000_000)), Some(Nanos::from_millis(40)));
        feed(&mut p, (2400, 200), &[60], 0);
        assert_eq!(p.length(Time(2_600_000_000)), Some(Nanos::from_millis(60)));
    }

    #[test]
    fn a_round_trip_that_stays_long_while_the_flight_shrinks_is_another_paths() {
        let mut p = path(25, 0);
        feed(&mut p, (1000, 500), &[40], 0);
        // 80 ms longer, and the flight of before, over the new RTT, delivers a third.
        let slower = |p: &mut SlotPath, (from_ms, ms): (u64, u64), spacing: u64| {
            for at in (from_ms..from_ms + ms).step_by(usize::try_from(spacing).expect("small")) {
                let delivery = RateSample {
                    prior_delivered: in_bytes(at.saturating_sub(120)),
                    delivered: in_bytes(120 / spacing),
                    interval: Nanos::from_millis(120),
                    app_limited: false,
                };
                let ack = AckSample {
                    rtt: Some(Nanos::from_millis(120)),
                    delivery: Some(delivery),
                    delivered_total: in_bytes(at),
                    ..ack_at(Time(at * 1_000_000))
                };
                p.on_ack(&ack, false, THRESHOLD);
            }
        };
        slower(&mut p, (1500, 700), 1);
        assert!(!p.is_another(Time(2_200_000_000)), "too soon");
        slower(&mut p, (2200, 1500), 3);
        assert!(p.is_another(Time(3_700_000_000)));
        p.on_edge(Time(3_700_000_000));
        slower(&mut p, (3700, 1200), 3);
        assert_eq!(p.length(Time(4_900_000_000)), Some(Nanos::from_millis(120)));
        assert!(!p.is_another(Time(4_900_000_000)));
    }

    #[test]
    fn losses_count_beside_a_queue_and_where_they_go_on() {
        let full = |rtt, ms| {
            let mut p = path(25, 0);
            feed(&mut p, (1000, 500), &[40], 0);
            feed(&mut p, (1500, ms), &[rtt], 10);
            (p.excuses(Time((1500 + ms) * 1_000_000)), p.part < UNIT)
        };
        assert_eq!(full(50, 200), (true, false));
        assert_eq!(full(80, 300), (false, true));
        assert_eq!(full(50, 1000), (false, true));
    }

    #[test]
    fn a_queue_that_stays_is_somebody_elses() {
        let mut p = path(25, 0);
        feed(&mut p, (1000, 500), &[40], 0);
        feed(&mut p, (1500, 1000), &[140], 0);
        assert!(!p.is_crowded(Time(2_500_000_000)));
        feed(&mut p, (2500, 2000), &[140], 0);
        assert!(p.is_crowded(Time(4_500_000_000)));
    }
}
