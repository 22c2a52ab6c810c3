//! `PROBE_BW`: eight phases of a minimum RTT each. One probes for more bandwidth, one drains the queue of the probe, six cruise
//! (`bbr_is_next_cycle_phase`, `bbr_reset_probe_bw_mode`).

use super::params::{CYCLE_RANDOM_PHASES, PACING_GAINS, UNIT};
use bentpipe_profile::rng::Stream;
use bentpipe_profile::{Nanos, Time};

/// Gain cycle.
#[derive(Clone, Debug)]
pub struct Cycle {
    phase: usize,
    since: Time,
    random: Stream,
}

/// Input for the decision whether a phase is over. Inflight is in packets, at the next departure.
#[derive(Clone, Copy, Debug)]
pub struct PhaseSample {
    /// Current pacing gain.
    pub gain: u64,
    pub min_rtt: Option<Nanos>,
    pub lossy: bool,
    /// Inflight before this ACK.
    pub inflight: u64,
    /// Target inflight at this gain.
    pub inflight_at_gain: u64,
    /// Target inflight at gain 1.
    pub inflight_at_unit: u64,
}

impl Cycle {
    pub const fn new(random: Stream) -> Self {
        Self { phase: 0, since: Time::ZERO, random }
    }

    /// Begins with a random phase, but not the draining one, so that flows that start together do not probe together.
    pub fn restart(&mut self, now: Time) {
        let skipped = self.random.below(CYCLE_RANDOM_PHASES);
        self.phase = PACING_GAINS.len() - 1 - usize::try_from(skipped).unwrap_or(0);
        self.advance(now);
    }

    pub const fn advance(&mut self, now: Time) {
        self.phase = (self.phase + 1) % PACING_GAINS.len();
        self.since = now;
    }

    /// Returns whether the phase is over.
    pub fn is_over(&self, now: Time, s: &PhaseSample) -> bool {
        let lasted = s.min_rtt.is_some_and(|rtt| now.since(self.since) > rtt);
        match s.gain.cmp(&UNIT) {
            std::cmp::Ordering::Equal => lasted,
            // Long enough to reach the target inflight, unless losses show that it does not fit.
            std::cmp::Ordering::Greater => lasted && (s.lossy || s.inflight >= s.inflight_at_gain),
            // Over early once the queue is drained.
            std::cmp::Ordering::Less => lasted || s.inflight <= s.inflight_at_unit,
        }
    }

    pub const fn gain(&self) -> u64 {
        PACING_GAINS[self.phase]
    }

    /// Returns whether it is the phase that probes for more bandwidth.
    pub const fn is_probing_up(&self) -> bool {
        self.phase == 0
    }

    pub const fn phase(&self) -> usize {
        self.phase
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bentpipe_profile::Streams;

    fn cycle() -> Cycle {
        Cycle::new(Streams::new(3).stream("cycle"))
    }

    #[test]
    fn it_begins_in_any_phase_but_the_draining_one() {
        let mut c = cycle();
        let mut counts = [0_u32; 8];
        for _ in 0..7000 {
            c.restart(Time::ZERO);
            counts[c.phase()] += 1;
        }
        assert_eq!(counts[1], 0);
        // 1000 ± 4 σ each, σ = sqrt(7000 · 1/7 · 6/7) = 29.
        assert!(counts.iter().enumerate().all(|(phase, &n)| phase == 1 || n.abs_diff(1000) < 117), "{counts:?}");
    }

    #[test]
    fn each_kind_of_phase_ends_by_its_own_rule() {
        let c = cycle();
        let rtt = Nanos::from_millis(40);
        let (early, late) = (Time(40_000_000), Time(40_000_001));
        let base =
            PhaseSample { gain: UNIT, min_rtt: Some(rtt), lossy: false, inflight: 110, inflight_at_gain: 125, inflight_at_unit: 100 };
        assert!(!c.is_over(early, &base) && c.is_over(late, &base));
        let up = PhaseSample { gain: PACING_GAINS[0], ..base };
        assert!(!c.is_over(late, &up));
        assert!(c.is_over(late, &PhaseSample { lossy: true, ..up }));
        assert!(c.is_over(late, &PhaseSample { inflight: 125, ..up }) && !c.is_over(early, &PhaseSample { inflight: 125, ..up }));
        let down = PhaseSample { gain: PACING_GAINS[1], inflight_at_gain: 75, ..base };
        assert!(!c.is_over(early, &down) && c.is_over(late, &down));
        assert!(c.is_over(early, &PhaseSample { inflight: 100, ..down }));
    }
}
