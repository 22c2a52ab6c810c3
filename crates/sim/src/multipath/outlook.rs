//! What a scheduler knows of a path to come.

use super::spec::PathOutlook;
use bentpipe_profile::{Nanos, Time};

/// Forecasts of a path, asked for in order of time.
#[derive(Clone, Debug, Default)]
pub struct Outlook {
    rtts: Vec<(Time, Nanos)>,
    interruptions: Vec<(Time, Time)>,
}

impl Outlook {
    /// Create it from forecasts of the RTT, each from when it is made on, and from interruptions; both in order of time.
    #[must_use]
    pub const fn new(rtts: Vec<(Time, Nanos)>, interruptions: Vec<(Time, Time)>) -> Self {
        Self { rtts, interruptions }
    }

    /// Return the RTT that the newest forecast has; `None`: there is none yet.
    #[must_use]
    pub fn rtt(&self, now: Time) -> Option<Nanos> {
        let made = self.rtts.partition_point(|(at, _)| *at <= now);
        made.checked_sub(1).map(|newest| self.rtts[newest].1)
    }

    /// Return the end of the first interruption that begins before `until` and ends after `now`.
    #[must_use]
    pub fn interruption_end(&self, now: Time, until: Time) -> Option<Time> {
        let next = self.interruptions.partition_point(|(_, end)| *end <= now);
        self.interruptions.get(next).filter(|(from, _)| *from < until).map(|(_, end)| *end)
    }
}

impl From<PathOutlook> for Outlook {
    fn from(spec: PathOutlook) -> Self {
        Self::new(spec.rtts_ns, spec.interruptions_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_forecast_holds_and_interruptions_end() {
        let outlook = Outlook::new(vec![(Time(10), Nanos(1)), (Time(20), Nanos(2))], vec![(Time(5), Time(8)), (Time(30), Time(40))]);
        assert_eq!(
            [9, 10, 19, 20, 99].map(|at| outlook.rtt(Time(at))),
            [None, Some(Nanos(1)), Some(Nanos(1)), Some(Nanos(2)), Some(Nanos(2))]
        );
        let ends =
            [(0, 5), (0, 6), (8, 30), (8, 31), (39, 39), (40, 99)].map(|(now, until)| outlook.interruption_end(Time(now), Time(until)));
        assert_eq!(ends, [None, Some(Time(8)), None, Some(Time(40)), Some(Time(40)), None]);
    }
}
