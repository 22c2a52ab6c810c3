//! Statistics of trailing windows at a constant cost per sample.

use std::collections::VecDeque;

/// Mean, minimum, maximum and standard deviation of the last `length` samples.
///
/// Sums are taken afresh once in `length` samples, so that rounding errors do not grow with the length of the series.
#[derive(Clone, Debug)]
pub struct Window {
    length: usize,
    /// Newest last.
    values: VecDeque<f64>,
    /// Subtracted from values in sums: without it the variance of a large level would be lost to rounding.
    origin: f64,
    sum: f64,
    squares: f64,
    until_fresh: usize,
    /// Candidates for the minimum, ascending from the front, with their numbers; likewise for the maximum.
    least: VecDeque<(u64, f64)>,
    most: VecDeque<(u64, f64)>,
    number: u64,
}

impl Window {
    /// Create an empty window of `length` samples, at least 1.
    #[must_use]
    pub fn new(length: usize) -> Self {
        Self {
            length: length.max(1),
            values: VecDeque::new(),
            origin: 0.0,
            sum: 0.0,
            squares: 0.0,
            until_fresh: 0,
            least: VecDeque::new(),
            most: VecDeque::new(),
            number: 0,
        }
    }

    /// Add a sample; the oldest one leaves a full window.
    pub fn push(&mut self, value: f64) {
        if self.values.len() == self.length
            && let Some(old) = self.values.pop_front()
        {
            let old = old - self.origin;
            self.sum -= old;
            self.squares -= old * old;
        }
        self.values.push_back(value);
        if self.until_fresh == 0 {
            self.origin = value;
            (self.sum, self.squares) = (0.0, 0.0);
            for &each in &self.values {
                let each = each - self.origin;
                self.sum += each;
                self.squares += each * each;
            }
            self.until_fresh = self.length;
        } else {
            let centred = value - self.origin;
            self.sum += centred;
            self.squares += centred * centred;
        }
        self.until_fresh -= 1;
        while self.least.back().is_some_and(|&(_, each)| each >= value) {
            self.least.pop_back();
        }
        self.least.push_back((self.number, value));
        while self.most.back().is_some_and(|&(_, each)| each <= value) {
            self.most.pop_back();
        }
        self.most.push_back((self.number, value));
        self.number += 1;
        let first = self.number - self.values.len() as u64;
        for queue in [&mut self.least, &mut self.most] {
            while queue.front().is_some_and(|&(number, _)| number < first) {
                queue.pop_front();
            }
        }
    }

    /// Return the mean; 0 of an empty window.
    #[must_use]
    pub fn mean(&self) -> f64 {
        let count = self.values.len();
        if count == 0 { 0.0 } else { self.origin + self.sum / count as f64 }
    }

    /// Return the minimum; 0 of an empty window.
    #[must_use]
    pub fn least(&self) -> f64 {
        self.least.front().map_or(0.0, |&(_, value)| value)
    }

    /// Return the maximum; 0 of an empty window.
    #[must_use]
    pub fn most(&self) -> f64 {
        self.most.front().map_or(0.0, |&(_, value)| value)
    }

    /// Return the standard deviation of the samples (n in the denominator); 0 of an empty window.
    #[must_use]
    pub fn sd(&self) -> f64 {
        let count = self.values.len() as f64;
        if count == 0.0 || self.least() >= self.most() {
            return 0.0;
        }
        let mean = self.sum / count;
        libm::sqrt((self.squares / count - mean * mean).max(0.0))
    }

    /// Forget all samples.
    pub fn clear(&mut self) {
        *self = Self::new(self.length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn statistics_equal_those_of_the_samples_computed_afresh(
            values in prop::collection::vec(-1e3..1e3, 1..200), length in 1_usize..40, level in prop::sample::select(vec![0.0, 1e6])
        ) {
            let mut window = Window::new(length);
            for end in 1..=values.len() {
                window.push(values[end - 1] + level);
                let part: Vec<f64> = values[end.saturating_sub(length)..end].iter().map(|each| each + level).collect();
                let mean = part.iter().sum::<f64>() / part.len() as f64;
                let variance = part.iter().map(|each| (each - mean) * (each - mean)).sum::<f64>() / part.len() as f64;
                prop_assert!((window.mean() - mean).abs() < 1e-7, "{} {mean}", window.mean());
                prop_assert!((window.sd() - libm::sqrt(variance)).abs() < 1e-3, "{} {}", window.sd(), libm::sqrt(variance));
                prop_assert_eq!(window.least().to_bits(), part.iter().copied().fold(f64::INFINITY, f64::min).to_bits());
                prop_assert_eq!(window.most().to_bits(), part.iter().copied().fold(f64::NEG_INFINITY, f64::max).to_bits());
            }
        }
    }

    #[test]
    fn rounding_does_not_grow_with_the_length_of_the_series() {
        let mut window = Window::new(7);
        for i in 0..1_000_000_u32 {
            window.push(if i % 1000 == 0 { 1e9 } else { 0.1 });
        }
        assert!((window.mean() - 0.1).abs() < 1e-7, "{}", window.mean());
    }
}
