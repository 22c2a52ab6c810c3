//! The Kalman filter of the queueing delay's gradient (draft-ietf-rmcat-gcc-02 section 5.3).

use std::collections::VecDeque;

/// Variance of the gradient's own change from one group to the next [ms²].
const PROCESS_VARIANCE: f64 = 1e-3;
/// Variance of the estimate before the first group [ms²].
const FIRST_VARIANCE: f64 = 0.1;
/// Coefficient of the noise's exponential filter, between 0.001 and 0.1.
const NOISE_COEFFICIENT: f64 = 0.01;
/// Groups over which the highest rate of groups is taken.
const RATE_GROUPS: usize = 10;

/// An estimate of how much the queueing delay grows from one group to the next.
#[derive(Debug)]
pub struct Filter {
    gradient_ms: f64,
    variance: f64,
    noise_variance: f64,
    intervals_ms: VecDeque<f64>,
}

impl Default for Filter {
    fn default() -> Self {
        Self { gradient_ms: 0.0, variance: FIRST_VARIANCE, noise_variance: 1.0, intervals_ms: VecDeque::new() }
    }
}

impl Filter {
    /// Take in the delay variation of a group and the interval since the group before it.
    pub fn update(&mut self, delay_ms: f64, interval_ms: f64) {
        self.intervals_ms.push_back(interval_ms.max(1.0));
        if self.intervals_ms.len() > RATE_GROUPS {
            self.intervals_ms.pop_front();
        }
        let shortest_ms = self.intervals_ms.iter().copied().fold(f64::INFINITY, f64::min);
        // (1 − χ)^(30 / (1000 f)), with f the highest rate of groups in 1/ms.
        let keep = libm::pow(1.0 - NOISE_COEFFICIENT, 30.0 * shortest_ms / 1000.0);
        let residual = delay_ms - self.gradient_ms;
        let bound = 3.0 * self.noise_variance.sqrt();
        let bounded = residual.clamp(-bound, bound);
        self.noise_variance = (keep * self.noise_variance + (1.0 - keep) * bounded * bounded).max(1.0);
        let predicted = self.variance + PROCESS_VARIANCE;
        let gain = predicted / (self.noise_variance + predicted);
        self.gradient_ms += gain * bounded;
        self.variance = (1.0 - gain) * predicted;
    }

    /// Return the estimate [ms per group].
    #[must_use]
    pub const fn gradient_ms(&self) -> f64 {
        self.gradient_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_that_grows_is_found_and_noise_is_not() {
        let mut grows = Filter::default();
        (0..400).for_each(|_| grows.update(3.0, 33.0));
        assert!((grows.gradient_ms() - 3.0).abs() < 0.2, "{}", grows.gradient_ms());
        let mut noise = Filter::default();
        (0..400).for_each(|i| noise.update(if i % 2 == 0 { 8.0 } else { -8.0 }, 33.0));
        assert!(noise.gradient_ms().abs() < 0.5, "{}", noise.gradient_ms());
    }
}
