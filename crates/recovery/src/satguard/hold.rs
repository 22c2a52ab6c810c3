//! The longest hold of a packet at an egress: adaptive, within bounds that the operator knows.

use super::timer::BeamTimer;
use bentpipe_profile::{Nanos, Time};

/// The longest RTT of a hop with recovery, over time.
#[derive(Clone, Debug)]
pub enum HopRtt {
    /// The same at all times.
    Constant(Nanos),
    /// For each route of the path, from when it is in use and the timers of its hops.
    Routes(Vec<(Time, Vec<BeamTimer>)>),
}

impl HopRtt {
    /// Return the RTT at `now`, at least 1 ms: a route without such a hop holds hardly anything.
    pub fn at(&mut self, now: Time) -> Nanos {
        let rtt = match self {
            Self::Constant(rtt) => *rtt,
            Self::Routes(routes) => {
                let current = routes.partition_point(|(from, _)| *from <= now).saturating_sub(1);
                let timers = routes.get_mut(current).into_iter().flat_map(|(_, timers)| timers);
                timers.map(|timer| timer.threshold(now)).max().unwrap_or_default().max(Nanos::from_millis(1))
            }
        };
        Nanos(rtt.0.min(Nanos::from_secs(1).0))
    }
}

/// The longest hold: three hop RTTs, or, if it adapts, mean recovery plus four mean deviations, in one to three hop RTTs. It does not count the gap of a handover, during which nothing is recovered.
#[derive(Clone, Debug)]
pub struct HoldLimit {
    hop_rtt: HopRtt,
    adapts: bool,
    /// Mean and mean deviation of the time to recovery, with the gains of RFC 6298; `None` before the first.
    recovery: Option<(Nanos, Nanos)>,
    /// Gaps of handovers that are ahead, first to last.
    gaps: Vec<(Time, Time)>,
    /// The first gap that may not be over.
    next_gap: usize,
    /// Added to each hold: how late real nodes may be. A recovery that takes exactly as long as the limit is common, as packets leave at grants.
    slack: Nanos,
}

impl HoldLimit {
    /// Create a limit. `hop_rtt`: the longest RTT of a hop with recovery. `adapts`: whether it follows the recoveries. `gaps`: begin and end of the gaps of handovers, in order of time.
    #[must_use]
    pub const fn new(hop_rtt: HopRtt, adapts: bool, gaps: Vec<(Time, Time)>) -> Self {
        Self { hop_rtt, adapts, recovery: None, gaps, next_gap: 0, slack: Nanos::ZERO }
    }

    /// Add `slack` to each hold.
    #[must_use]
    pub fn with_slack(self, slack: Nanos) -> Self {
        Self { slack, ..self }
    }

    /// Record how long a gap in a flow took to be filled.
    pub fn recovered(&mut self, now: Time, took: Nanos) {
        let took = took.min(Nanos(3 * self.hop_rtt.at(now).0));
        self.recovery = Some(match self.recovery {
            None => (took, Nanos(took.0 / 2)),
            Some((mean, deviation)) => {
                let error = Nanos(took.0.abs_diff(mean.0));
                (Nanos((7 * mean.0 + took.0) / 8), Nanos((3 * deviation.0 + error.0) / 4))
            }
        });
    }

    /// Return the longest hold at `now`, outside gaps.
    pub fn longest(&mut self, now: Time) -> Nanos {
        let hop_rtt = self.hop_rtt.at(now);
        let longest = Nanos(3 * hop_rtt.0);
        self.recovery.filter(|_| self.adapts).map_or(longest, |(mean, deviation)| Nanos(mean.0 + 4 * deviation.0).clamp(hop_rtt, longest))
    }

    /// Return when the hold of a packet that arrives at `now` is over.
    pub fn deadline(&mut self, now: Time) -> Time {
        while self.gaps.get(self.next_gap).is_some_and(|(_, end)| *end <= now) {
            self.next_gap += 1;
        }
        let mut deadline = now + self.longest(now) + self.slack;
        for &(begin, end) in &self.gaps[self.next_gap..] {
            if begin > deadline {
                break;
            }
            deadline = deadline + end.since(begin.max(now));
        }
        deadline
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_follows_the_recovery_within_its_bounds() {
        let mut limit = HoldLimit::new(HopRtt::Constant(Nanos(100)), true, vec![]);
        assert_eq!(limit.longest(Time(0)), Nanos(300));
        (0..50).for_each(|_| limit.recovered(Time(0), Nanos(150)));
        assert!((150..160).contains(&limit.longest(Time(0)).0), "{:?}", limit.longest(Time(0)));
        (0..50).for_each(|_| limit.recovered(Time(0), Nanos(10)));
        assert_eq!(limit.longest(Time(0)), Nanos(100));
        (0..50).for_each(|_| limit.recovered(Time(0), Nanos(10_000)));
        assert_eq!(limit.longest(Time(0)), Nanos(300));
    }

    #[test]
    fn a_hold_does_not_count_gaps() {
        let gaps = vec![(Time(1000), Time(1500)), (Time(5000), Time(5100))];
        let mut limit = HoldLimit::new(HopRtt::Constant(Nanos(100)), true, gaps);
        let holds: Vec<_> = [600, 800, 1200, 1500, 5050].map(|now| limit.deadline(Time(now)).0 - now).to_vec();
        assert_eq!(holds, [300, 800, 600, 300, 350]);
        let late = HoldLimit::new(HopRtt::Constant(Nanos(100)), true, vec![]).with_slack(Nanos(7)).deadline(Time(0));
        assert_eq!(late, Time(307));
    }
}
