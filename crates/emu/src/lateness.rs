//! Lateness: quantiles, and a count above the bound that decides whether a Run is valid.

use bentpipe_link::stats::DelayHistogram;
use bentpipe_profile::Nanos;

/// Lateness above which an event counts as late. The same as `bentpipe.execution.emulation.lateness.BOUND_MS`.
pub const BOUND: Nanos = Nanos(1_000_000);

/// See the module.
#[derive(Default)]
pub struct Lateness {
    histogram: DelayHistogram,
    late: u64,
}

impl Lateness {
    /// Records one event.
    pub fn record(&mut self, late: Nanos) {
        self.histogram.record(late);
        self.late += u64::from(late > BOUND);
    }

    /// Number of events.
    #[must_use]
    pub fn n(&self) -> u64 {
        self.histogram.n()
    }

    /// Number of events later than [`BOUND`].
    #[must_use]
    pub fn late(&self) -> u64 {
        self.late
    }

    /// The quantile `num`/`den` [ms]; `None`: no events.
    #[must_use]
    pub fn quantile_ms(&self, num: u64, den: u64) -> Option<f64> {
        (self.n() > 0).then(|| self.histogram.quantile_ms(num, den))
    }

    /// The largest [ms]; `None`: no events.
    #[must_use]
    pub fn max_ms(&self) -> Option<f64> {
        (self.n() > 0).then(|| self.histogram.max_ms())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_above_the_bound_are_counted_exactly() {
        let mut lateness = Lateness::default();
        assert_eq!((lateness.n(), lateness.late(), lateness.quantile_ms(1, 2), lateness.max_ms()), (0, 0, None, None));
        for late in [0, BOUND.0 - 1, BOUND.0, BOUND.0 + 1, 20 * BOUND.0] {
            lateness.record(Nanos(late));
        }
        assert_eq!((lateness.n(), lateness.late(), lateness.max_ms()), (5, 2, Some(20.0)));
    }
}
