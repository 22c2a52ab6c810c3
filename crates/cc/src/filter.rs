//! Windowed maximum or minimum, for model-based controllers.
//!
//! Kathleen Nichols' estimator (Linux `lib/win_minmax.c`; used there for BBR's bandwidth and TCP's minimum RTT). It stores the best value of the window, the
//! best value after that, and the best value after both. When the best value expires, the next one takes its place. Three samples stand for the whole window:
//! in the worst case the result is that of a younger part of the window.

/// Maximum of the values in the last `window` units of the clock that `at` counts (rounds, nanoseconds). For a minimum, store `std::cmp::Reverse` values.
#[derive(Clone, Copy, Debug)]
pub struct Windowed<T> {
    window: u64,
    samples: [Sample<T>; 3],
}

#[derive(Clone, Copy, Debug)]
struct Sample<T> {
    at: u64,
    value: T,
}

impl<T: Ord + Copy> Windowed<T> {
    /// Creates a filter that holds one value.
    pub fn new(window: u64, at: u64, value: T) -> Self {
        Self { window, samples: [Sample { at, value }; 3] }
    }

    /// Returns the best value in the window.
    pub fn get(&self) -> T {
        self.samples[0].value
    }

    /// Replaces all values by this one.
    pub fn reset(&mut self, at: u64, value: T) {
        self.samples = [Sample { at, value }; 3];
    }

    /// Sets the window; it applies from the next value on.
    pub const fn set_window(&mut self, window: u64) {
        self.window = window;
    }

    /// Adds a value and returns the best one; `at` never decreases.
    pub fn update(&mut self, at: u64, value: T) -> T {
        let new = Sample { at, value };
        let age = |s: &Sample<T>| at.saturating_sub(s.at);
        if value >= self.samples[0].value || age(&self.samples[2]) > self.window {
            self.reset(at, value);
            return value;
        }
        if value >= self.samples[1].value {
            self.samples[1] = new;
            self.samples[2] = new;
        } else if value >= self.samples[2].value {
            self.samples[2] = new;
        }
        if age(&self.samples[0]) > self.window {
            // Twice at most: the third sample is young enough, as checked above.
            self.promote(new);
            if age(&self.samples[0]) > self.window {
                self.promote(new);
            }
        } else if self.samples[1].at == self.samples[0].at && age(&self.samples[0]) > self.window / 4 {
            // A quarter of the window has passed without a second best value: use this one.
            self.samples[1] = new;
            self.samples[2] = new;
        } else if self.samples[2].at == self.samples[1].at && age(&self.samples[0]) > self.window / 2 {
            self.samples[2] = new;
        }
        self.get()
    }

    fn promote(&mut self, new: Sample<T>) {
        self.samples = [self.samples[1], self.samples[2], new];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cmp::Reverse;

    #[test]
    fn the_maximum_expires_after_the_window() {
        let mut f = Windowed::new(10, 0, 0_u64);
        f.update(1, 100);
        for at in 2..=11 {
            assert_eq!(f.update(at, 50), 100, "round {at}");
        }
        assert_eq!(f.update(12, 50), 50);
    }

    #[test]
    fn reversed_values_give_the_minimum() {
        let mut f = Windowed::new(300, 0, Reverse(40_u64));
        f.update(1, Reverse(30));
        // A second best value is stored once a quarter of the window has passed.
        f.update(100, Reverse(35));
        assert_eq!(f.get(), Reverse(30));
        assert_eq!(f.update(302, Reverse(36)), Reverse(35));
    }

    proptest! {
        #[test]
        fn the_result_is_in_the_window_and_at_most_its_maximum(steps in prop::collection::vec((0_u64..4, 0_u64..1000), 1..300), window in 1_u64..40) {
            let mut f = Windowed::new(window, 0, 0_u64);
            let mut history = vec![(0, 0)];
            let mut at = 0;
            for (step, value) in steps {
                at += step;
                history.push((at, value));
                let result = f.update(at, value);
                let inside: Vec<u64> = history.iter().filter(|(t, _)| at - t <= window).map(|&(_, v)| v).collect();
                prop_assert!(inside.contains(&result));
                prop_assert!(result >= value && result <= *inside.iter().max().unwrap());
            }
        }

        #[test]
        fn the_result_is_exact_before_anything_expires(values in prop::collection::vec(0_u64..1000, 1..100)) {
            let mut f = Windowed::new(1000, 0, 0_u64);
            for (at, &value) in values.iter().enumerate() {
                let result = f.update(at as u64, value);
                prop_assert_eq!(result, *values[..=at].iter().max().unwrap());
            }
        }
    }
}
