//! Over-use and under-use of the path, with a threshold that adapts (draft-ietf-rmcat-gcc-02 section 5.4).
//!
//! The draft compares the gradient of one group with a threshold of 6 ms and more: a rate that is 5 % too high adds 1.7 ms per frame and is never
//! found. libwebrtc compares the growth over the last 60 groups, and so does this.

/// State of the path as the delays show it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Signal {
    /// Queues neither grow nor shrink.
    #[default]
    Normal,
    /// Queues grow.
    Overuse,
    /// Queues shrink.
    Underuse,
}

/// First threshold, and its bounds [ms].
const FIRST_MS: f64 = 12.5;
const LEAST_MS: f64 = 6.0;
const MOST_MS: f64 = 600.0;
/// Rates at which the threshold rises and falls towards the estimate [1/ms].
const RISE: f64 = 0.01;
const FALL: f64 = 0.000_18;
/// An estimate this far above the threshold is an exception that does not move it [ms].
const EXCEPTION_MS: f64 = 15.0;
/// Time that over-use must last [ms].
const OVERUSE_MS: f64 = 10.0;
/// Groups over which growth counts.
const MOST_GROUPS: f64 = 60.0;

/// The detector.
#[derive(Debug)]
pub struct Detector {
    threshold_ms: f64,
    before_ms: f64,
    groups: f64,
    over_for_ms: f64,
    signal: Signal,
}

impl Default for Detector {
    fn default() -> Self {
        Self { threshold_ms: FIRST_MS, before_ms: 0.0, groups: 0.0, over_for_ms: 0.0, signal: Signal::Normal }
    }
}

impl Detector {
    /// Take in the estimate of the delay gradient after a group that arrived `interval_ms` after the one before it.
    pub fn update(&mut self, gradient_ms: f64, interval_ms: f64) {
        self.groups = (self.groups + 1.0).min(MOST_GROUPS);
        let growth_ms = gradient_ms * self.groups;
        if growth_ms > self.threshold_ms {
            self.over_for_ms += interval_ms;
            // Time counts from the group on at which the estimate exceeded the threshold.
            if self.over_for_ms >= OVERUSE_MS && gradient_ms >= self.before_ms {
                self.signal = Signal::Overuse;
                self.over_for_ms = 0.0;
            }
        } else {
            self.over_for_ms = 0.0;
            self.signal = if growth_ms < -self.threshold_ms { Signal::Underuse } else { Signal::Normal };
        }
        self.before_ms = gradient_ms;
        let distance = growth_ms.abs() - self.threshold_ms;
        if distance <= EXCEPTION_MS {
            let speed = if distance < 0.0 { FALL } else { RISE };
            self.threshold_ms = (self.threshold_ms + interval_ms * speed * distance).clamp(LEAST_MS, MOST_MS);
        }
    }

    /// Return the state of the path.
    #[must_use]
    pub const fn signal(&self) -> Signal {
        self.signal
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A detector that has seen many groups without growth: growth counts sixtyfold.
    fn settled() -> Detector {
        let mut detector = Detector::default();
        (0..60).for_each(|_| detector.update(0.0, 1.0));
        detector
    }

    #[test]
    fn growth_is_over_use_a_fall_is_under_use() {
        let mut detector = settled();
        detector.update(5.0 / 60.0, 33.0);
        assert_eq!(detector.signal(), Signal::Normal);
        detector.update(20.0 / 60.0, 33.0);
        assert_eq!(detector.signal(), Signal::Overuse);
        detector.update(-30.0 / 60.0, 33.0);
        assert_eq!(detector.signal(), Signal::Underuse);
        detector.update(0.0, 33.0);
        assert_eq!(detector.signal(), Signal::Normal);
    }

    #[test]
    fn the_threshold_rises_to_what_lasts_and_falls_slowly() {
        let mut detector = settled();
        (0..100).for_each(|_| detector.update(25.0 / 60.0, 33.0));
        let raised = detector.threshold_ms;
        assert!((24.0..=25.0).contains(&raised), "{raised}");
        (0..100).for_each(|_| detector.update(0.0, 33.0));
        assert!((10.0..20.0).contains(&detector.threshold_ms), "{}", detector.threshold_ms);
        (0..10_000).for_each(|_| detector.update(0.0, 33.0));
        assert!((detector.threshold_ms - LEAST_MS).abs() < 1e-9);
    }

    #[test]
    fn one_exception_does_not_move_the_threshold() {
        let mut detector = settled();
        let before = detector.threshold_ms;
        detector.update(200.0 / 60.0, 33.0);
        assert!((detector.threshold_ms - before).abs() < 1e-12);
    }
}
