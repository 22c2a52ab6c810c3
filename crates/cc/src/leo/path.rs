//! Model of a path that is reconfigured every few seconds: of the current slot, not of the last ten seconds.
//!
//! - **Base RTT**: the minimum RTT since the last reconfiguration. In the first second, the previous base RTT counts too if it is lower, for the queue that the
//!   reconfiguration leaves behind has to drain first.
//! - **Bandwidth**: the greatest delivery rate of a few rounds, for the capacity of a moment ago may be gone.
//! - **Inflight limit**: the bandwidth times the base RTT plus a target queue delay. The queue bridges changes of the capacity within an RTT, and lets the inflight
//!   limit grow when the capacity does.
//! - **Growth**: a round in which the queue ran empty shows that too little was in flight. The next one may have a quarter more.
//! - **Losses** are a sign of congestion only where there is a queue, or where they do not end.

use crate::bbr_parts::bw::Bw;
use crate::bbr_parts::measured::MeasuredBw;
use crate::bbr_parts::params::{GAIN_SHIFT, MIN_CWND_PACKETS, UNIT};
use crate::bbr_parts::rounds::Rounds;
use crate::{AckSample, RecoveryState};
use bentpipe_profile::{Bytes, Nanos, Time};

/// Until a slot is this old, the previous base RTT counts too. Chosen here: by then an interruption and the queue it leaves are over.
const SETTLING_TIME: Nanos = Nanos::from_millis(1000);
/// Losses that last this long, and this many rounds, are no loss episode. Chosen here: the longest of a hundred episodes lasts 200 ms (access model), and its repair a round.
const MAX_EPISODE: Nanos = Nanos::from_millis(400);
const MAX_EPISODE_ROUNDS: u32 = 3;
/// Factor on the inflight limit after a round with congestion losses (RFC 9438 §4.6; draft-ietf-ccwg-bbr-06 §5.5.10.2, Beta), and what each round without losses
/// adds to it. The latter is chosen here.
const BETA: u64 = UNIT * 7 / 10;
const SCALE_STEP: u64 = UNIT / 16;
/// Smallest factor on the inflight limit. Chosen here.
const MIN_SCALE: u64 = UNIT / 8;
/// A queue below this part of the target (right shift) ran empty: it was within the RTT's noise at its shortest. Chosen here, on the design paths: a quarter adds as much
/// queue as goodput, a tenth is the same.
const EMPTY_SHIFT: u32 = 3;
/// Factor on the inflight limit after a round in which the queue ran empty. Chosen here: that of `PROBE_UP`, so that a capacity that doubled is found in four rounds, not in
/// twenty.
const GROWTH: u64 = UNIT * 5 / 4;
/// A queue that does not empty for this long belongs to cross traffic. Chosen here: several correlation times of the slow fades.
const CROSS_TRAFFIC_AFTER: Nanos = Nanos::from_millis(1500);
/// The flow's own queue drains when less is in flight. If the RTT stays high for this long and this many rounds while the inflight limit falls to [`STALE_SCALE`] of its
/// value, the base RTT itself has grown: an undetected reconfiguration. Chosen here: the queue of a fallen capacity drains in fewer rounds.
const STALE_AFTER: Nanos = Nanos::from_millis(1000);
const STALE_ROUNDS: u32 = 6;
const STALE_SCALE: u64 = UNIT * 3 / 4;
/// The peak bandwidth decays by this part of itself every [`JITTER_SPAN`]: in half a minute to 0.3. Chosen here: a flow that starts later shows within a few slots.
const PEAK_SHIFT: u32 = 8;
/// The target queue grows with the square root of the fall of the bandwidth, up to fourfold. Chosen here: enough to keep a share beside CUBIC, and little in a fade.
const MAX_FALL: u64 = 16;
/// That root is counted in 2^-20: within 10^-6 of the exact one.
const ROOT_SHIFT: u32 = 20;

/// Jitter is the mean of the RTTs in a span of this length minus their minimum. Effects of the grant schedule and of cross traffic vary within it, while the
/// flow's own queue stays about the same. Chosen here: twice the correlation time of the access model's wander.
const JITTER_SPAN: Nanos = Nanos::from_millis(100);
/// Weight of a span in the average (right shift). Chosen here: a slot holds 150 spans, and a peak of a second should not move the average much.
const JITTER_SHIFT: u32 = 4;

/// Target queue delay.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// At least this, ...
    pub min: Nanos,
    /// ... plus this multiple of the jitter [1/256], for a path with much jitter is longer than its minimum RTT shows; ...
    pub jitter_gain: u64,
    /// ... or this fraction of the base RTT [1/256], if that is more.
    pub rtt_fraction: u64,
}

/// Variation of the RTT while the queue is about the same.
#[derive(Clone, Copy, Debug)]
struct Jitter {
    start: Time,
    min: Nanos,
    sum: u64,
    count: u64,
    mean: Option<Nanos>,
}

impl Jitter {
    const fn new() -> Self {
        Self { start: Time::ZERO, min: Nanos::MAX, sum: 0, count: 0, mean: None }
    }

    fn on_rtt(&mut self, now: Time, rtt: Nanos) {
        if now.since(self.start) >= JITTER_SPAN {
            if self.count > 1 {
                let above = (self.sum / self.count).saturating_sub(self.min.0);
                let mean = self.mean.map_or(above, |mean| mean.0 - (mean.0 >> JITTER_SHIFT) + (above >> JITTER_SHIFT));
                self.mean = Some(Nanos(mean));
            }
            (self.start, self.min, self.sum, self.count) = (now, Nanos::MAX, 0, 0);
        }
        self.min = self.min.min(rtt);
        self.sum = self.sum.saturating_add(rtt.0);
        self.count += 1;
    }

    fn get(&self) -> Nanos {
        self.mean.unwrap_or_default()
    }
}

/// Model of the path since the last reconfiguration.
#[derive(Clone, Debug)]
pub struct SlotPath {
    mss: u32,
    target: Target,
    jitter: Jitter,
    rounds: Rounds,
    bw: MeasuredBw,
    /// Bandwidth that is known from elsewhere.
    expected_bw: Option<Bw>,
    /// Recent peak of the bandwidth, which decays.
    peak: Bw,
    peak_at: Time,
    slot_start: Time,
    /// RTTs of packets that were sent before do not count.
    ignored_before: Time,
    min_rtt: Option<Nanos>,
    /// Base RTT of the previous slot.
    previous_base_rtt: Option<Nanos>,
    /// Minimum RTT of the current round, and the bytes delivered and lost before it.
    round_min_rtt: Nanos,
    round_start_totals: (Bytes, Bytes),
    /// Minimum RTT of the last round.
    last_round_min_rtt: Nanos,
    lossy_since: Option<Time>,
    lossy_rounds: u32,
    /// Factor on the inflight limit [1/256].
    scale: u64,
    /// Factor on the inflight limit, for the queue ran empty [1/256].
    growth: u64,
    queued_since: Option<Time>,
    /// Time since which, and number of rounds in which, the queue is above the target; and the inflight limit at their start.
    standing_queue: Option<(Time, u32, u64)>,
}

impl SlotPath {
    /// Creates the model of an unknown path.
    #[must_use]
    pub const fn new(mss: u32, target: Target, bw_rounds: u64) -> Self {
        Self {
            mss,
            target,
            jitter: Jitter::new(),
            rounds: Rounds::new(),
            bw: MeasuredBw::new(bw_rounds),
            expected_bw: None,
            peak: Bw(0),
            peak_at: Time::ZERO,
            slot_start: Time::ZERO,
            ignored_before: Time::ZERO,
            min_rtt: None,
            previous_base_rtt: None,
            round_min_rtt: Nanos::MAX,
            round_start_totals: (Bytes::ZERO, Bytes::ZERO),
            last_round_min_rtt: Nanos::MAX,
            lossy_since: None,
            lossy_rounds: 0,
            scale: UNIT,
            growth: UNIT,
            queued_since: None,
            standing_queue: None,
        }
    }

    /// Starts a new slot after a reconfiguration.
    pub fn on_reconfiguration(&mut self, now: Time) {
        self.previous_base_rtt = self.base_rtt(now);
        self.min_rtt = None;
        self.slot_start = now;
        self.queued_since = None;
        self.standing_queue = None;
    }

    /// Ignores the RTTs of packets sent before this time: an outage held them.
    pub const fn ignore_rtts_before(&mut self, at: Time) {
        self.ignored_before = at;
    }

    /// Processes an ACK. `is_near`: losses now are due to a reconfiguration; `threshold`: share of a round's packets that must be lost to count [1/256].
    pub fn on_ack(&mut self, ack: &AckSample, is_near: bool, threshold: u64) {
        if let Some(rtt) = ack.rtt.filter(|rtt| !ack.ack_delayed && *rtt <= ack.now.since(self.ignored_before)) {
            self.min_rtt = Some(self.min_rtt.map_or(rtt, |min| min.min(rtt)));
            self.round_min_rtt = self.round_min_rtt.min(rtt);
            self.jitter.on_rtt(ack.now, rtt);
        }
        let round = self.rounds.advance(ack.delivery.as_ref(), ack.delivered_total);
        self.bw.update(ack.delivery, self.rounds.count(), self.mss);
        if ack.now.since(self.peak_at) >= JITTER_SPAN {
            self.peak = Bw(self.peak.0 - (self.peak.0 >> PEAK_SHIFT)).max(self.bw().unwrap_or_default());
            self.peak_at = ack.now;
        }
        if round {
            self.on_round(ack, is_near, threshold);
        }
    }

    fn on_round(&mut self, ack: &AckSample, is_near: bool, threshold: u64) {
        let delivered = ack.delivered_total.saturating_sub(self.round_start_totals.0).0;
        let lost = ack.lost_total.saturating_sub(self.round_start_totals.1).0;
        self.round_start_totals = (ack.delivered_total, ack.lost_total);
        self.last_round_min_rtt = self.round_min_rtt;
        self.round_min_rtt = Nanos::MAX;
        let lossy = u128::from(lost) << GAIN_SHIFT > u128::from(delivered + lost) * u128::from(threshold);
        if lossy {
            self.lossy_rounds += 1;
            self.lossy_since.get_or_insert(ack.now);
        } else {
            self.lossy_rounds = 0;
            self.lossy_since = None;
        }
        if lossy && !is_near && (self.has_queue(ack.now) || self.has_lasting_losses(ack.now)) {
            self.scale = ((self.scale * BETA) >> GAIN_SHIFT).max(MIN_SCALE);
        } else if !lossy {
            self.scale = (self.scale + SCALE_STEP).min(UNIT);
        }
        let empties =
            self.base_rtt(ack.now).is_some_and(|base| self.last_round_min_rtt <= base + Nanos(self.target_queue(base).0 >> EMPTY_SHIFT));
        self.growth = if empties { GROWTH } else { UNIT };
        let cross_traffic_rtt =
            self.base_rtt(ack.now).map_or(Nanos::MAX, |base| base + self.target_queue(base) + self.target_queue(base) + self.target.min);
        if self.last_round_min_rtt == Nanos::MAX || self.last_round_min_rtt <= cross_traffic_rtt {
            self.queued_since = None;
        } else {
            self.queued_since.get_or_insert(ack.now);
        }
        self.standing_queue = match (self.base_rtt(ack.now), self.inflight_limit(ack.now), self.standing_queue) {
            (Some(base), Some(limit), standing)
                if self.last_round_min_rtt != Nanos::MAX && self.last_round_min_rtt > base + self.target_queue(base) =>
            {
                let (since, rounds, before) = standing.unwrap_or((ack.now, 0, limit));
                Some((since, rounds + 1, before))
            }
            _ => None,
        };
    }

    /// Returns whether a reconfiguration must have happened that was not detected.
    #[must_use]
    pub fn is_stale(&self, now: Time) -> bool {
        let Some(((since, rounds, before), limit)) = self.standing_queue.zip(self.inflight_limit(now)) else { return false };
        now.since(since) > STALE_AFTER
            && rounds > STALE_ROUNDS
            && u128::from(limit) << GAIN_SHIFT <= u128::from(before) * u128::from(STALE_SCALE)
    }

    /// Returns whether losses now are not congestion: the queue of the last round was below the target, and the losses have not lasted long.
    #[must_use]
    pub fn ignores_losses(&self, now: Time) -> bool {
        !self.has_queue(now) && !self.has_lasting_losses(now)
    }

    /// Returns whether cross traffic fills the queue.
    #[must_use]
    pub fn has_cross_traffic(&self, now: Time) -> bool {
        self.queued_since.is_some_and(|since| now.since(since) > CROSS_TRAFFIC_AFTER)
    }

    fn has_queue(&self, now: Time) -> bool {
        let rtt = self.last_round_min_rtt.min(self.round_min_rtt);
        self.base_rtt(now).is_none_or(|base| rtt != Nanos::MAX && rtt > base + self.target_queue(base))
    }

    /// Returns whether a packet with this RTT met more than twice the target queue: the end of a burst whose first packets met none.
    #[must_use]
    pub fn has_deep_queue(&self, now: Time, rtt: Nanos) -> bool {
        self.base_rtt(now).is_some_and(|base| rtt > base + self.target_queue(base) + self.target_queue(base))
    }

    fn has_lasting_losses(&self, now: Time) -> bool {
        self.lossy_rounds >= MAX_EPISODE_ROUNDS && self.lossy_since.is_some_and(|since| now.since(since) > MAX_EPISODE)
    }

    /// Returns the base RTT, if it is known.
    #[must_use]
    pub fn base_rtt(&self, now: Time) -> Option<Nanos> {
        match (self.min_rtt, self.previous_base_rtt) {
            (Some(min), Some(previous)) if now.since(self.slot_start) < SETTLING_TIME => Some(min.min(previous)),
            (min, previous) => min.or(previous),
        }
    }

    /// Returns the RTT with the target queue, if it is known.
    #[must_use]
    pub fn queued_rtt(&self, now: Time) -> Option<Nanos> {
        self.base_rtt(now).map(|base| base + self.target_queue(base))
    }

    /// Returns the target queue delay.
    fn target_queue(&self, base_rtt: Nanos) -> Nanos {
        let scaled =
            |of: Nanos, factor: u64, shift: u32| Nanos(u64::try_from((u128::from(of.0) * u128::from(factor)) >> shift).unwrap_or(u64::MAX));
        let queue = self.target.min + scaled(self.jitter.get(), self.target.jitter_gain, GAIN_SHIFT);
        scaled(queue, self.fall_root(), ROOT_SHIFT).max(scaled(base_rtt, self.target.rtt_fraction, GAIN_SHIFT))
    }

    /// Returns the square root of the fall of the bandwidth from its peak, 1 to 4 [2^-20]. A flow whose bandwidth fell, on its own or beside another flow, keeps a longer
    /// queue. With equal queue delays a flow with a small share would keep it small.
    fn fall_root(&self) -> u64 {
        let (peak, bw) = (self.peak.0, self.bw().unwrap_or_default().0.max(1));
        let fall = (u128::from(peak.max(bw)) << (2 * ROOT_SHIFT)) / u128::from(bw);
        u64::try_from(fall).unwrap_or(u64::MAX).min(MAX_FALL << (2 * ROOT_SHIFT)).isqrt()
    }

    /// Replaces the measured bandwidth by one that is known from elsewhere; `None`: the measured one applies.
    pub const fn expect_bandwidth(&mut self, bw: Option<Bw>) {
        self.expected_bw = bw;
    }

    /// Returns the bandwidth.
    #[must_use]
    pub fn bw(&self) -> Option<Bw> {
        self.expected_bw.or_else(|| self.bw.get())
    }

    /// Returns the packets that may be in flight.
    #[must_use]
    pub fn inflight_limit(&self, now: Time) -> Option<u64> {
        let base = self.base_rtt(now)?;
        let bw = self.bw()?;
        let full = bw.bdp(base + self.target_queue(base), self.growth);
        Some(((u128::from(full) * u128::from(self.scale)) >> GAIN_SHIFT).try_into().unwrap_or(u64::MAX).max(MIN_CWND_PACKETS))
    }

    /// Returns whether the sender repairs losses after a time-out: then no model applies.
    #[must_use]
    pub fn is_in_rto_recovery(ack: &AckSample) -> bool {
        ack.recovery == RecoveryState::Loss
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::{MSS, ack_at, in_bytes};
    use super::*;
    use crate::RateSample;

    const THRESHOLD: u64 = UNIT * 2 / 100;

    fn path(min_ms: u64, jitters: u64) -> SlotPath {
        SlotPath::new(MSS, Target { min: Nanos::from_millis(min_ms), jitter_gain: jitters * UNIT, rtt_fraction: 0 }, 4)
    }

    /// Feeds an ACK per millisecond from `from_ms` on for `ms`, with the RTTs in turn and so many of a hundred packets lost.
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
    fn the_inflight_limit_is_the_bandwidth_times_base_rtt_and_target_queue() {
        let mut p = path(25, 0);
        feed(&mut p, (1000, 500), &[40], 0);
        feed(&mut p, (1500, 300), &[50], 0);
        assert_eq!(p.inflight_limit(Time(1_800_000_000)), Some(65));
        // Every other packet is 10 ms late: 5 ms of jitter. The queue runs empty, which adds a quarter.
        let mut p = path(25, 2);
        feed(&mut p, (1000, 5000), &[40, 50], 0);
        assert_eq!(p.inflight_limit(Time(6_000_000_000)), Some((40 + 25 + 2 * 5) * 5 / 4 + 1));
    }

    #[test]
    fn after_a_round_in_which_the_queue_ran_empty_a_quarter_more_may_be_in_flight() {
        let mut p = path(25, 0);
        let limit = |p: &mut SlotPath, from_ms: u64, rtt_ms| {
            feed(p, (from_ms, 200), &[rtt_ms], 0);
            p.inflight_limit(Time((from_ms + 200) * 1_000_000))
        };
        // An eighth of 25 ms is 3.1 ms.
        assert_eq!([(1000, 40), (1200, 44), (1400, 43)].map(|(from, rtt)| limit(&mut p, from, rtt)), [Some(82), Some(65), Some(82)]);
    }

    #[test]
    fn after_a_reconfiguration_the_base_rtt_is_the_new_paths_once_the_old_queue_is_drained() {
        let mut p = path(25, 0);
        feed(&mut p, (1000, 500), &[40], 0);
        p.on_reconfiguration(Time(1_500_000_000));
        feed(&mut p, (1500, 900), &[60], 0);
        assert_eq!(p.base_rtt(Time(2_400_000_000)), Some(Nanos::from_millis(40)));
        feed(&mut p, (2400, 200), &[60], 0);
        assert_eq!(p.base_rtt(Time(2_600_000_000)), Some(Nanos::from_millis(60)));
    }

    #[test]
    fn an_rtt_that_stays_high_while_the_inflight_limit_falls_is_an_undetected_reconfiguration() {
        let mut p = path(25, 0);
        feed(&mut p, (1000, 500), &[40], 0);
        // The RTT is 80 ms higher; with the same packets in flight, the path delivers a third.
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
        assert!(!p.is_stale(Time(2_200_000_000)), "too soon");
        slower(&mut p, (2200, 1500), 3);
        assert!(p.is_stale(Time(3_700_000_000)));
        p.on_reconfiguration(Time(3_700_000_000));
        slower(&mut p, (3700, 1200), 3);
        assert_eq!(p.base_rtt(Time(4_900_000_000)), Some(Nanos::from_millis(120)));
        assert!(!p.is_stale(Time(4_900_000_000)));
    }

    #[test]
    fn losses_count_beside_a_queue_and_when_they_last() {
        let state = |rtt, ms| {
            let mut p = path(25, 0);
            feed(&mut p, (1000, 500), &[40], 0);
            feed(&mut p, (1500, ms), &[rtt], 10);
            (p.ignores_losses(Time((1500 + ms) * 1_000_000)), p.scale < UNIT)
        };
        assert_eq!(state(50, 200), (true, false));
        assert_eq!(state(80, 300), (false, true));
        assert_eq!(state(50, 1000), (false, true));
    }

    #[test]
    fn a_queue_that_stays_belongs_to_cross_traffic() {
        let mut p = path(25, 0);
        feed(&mut p, (1000, 500), &[40], 0);
        feed(&mut p, (1500, 1000), &[140], 0);
        assert!(!p.has_cross_traffic(Time(2_500_000_000)));
        feed(&mut p, (2500, 2000), &[140], 0);
        assert!(p.has_cross_traffic(Time(4_500_000_000)));
    }
}
