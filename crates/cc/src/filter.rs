//! Windowed extrema, as every model-based controller needs them.
//!
//! Kathleen Nichols' estimator (Linux `lib/win_minmax.c`; used there for BBR's bandwidth and TCP's minimum RTT): the best value of the window and the best
//! after it, and after that, so that when the best grows too old its successor is at hand. Three samples stand for the whole window: in the worst case the
//! answer is that of a younger part of the window.

/// The greatest of the values of the last `window` units of whatever clock `at` counts (rounds, nanoseconds). The least: keep `std::cmp::Reverse` values.
#[derive(Clone, Copy, Debug)]
pub struct Windowed<T> {
    window: u64,
    kept: [Sample<T>; 3],
}

#[derive(Clone, Copy, Debug)]
struct Sample<T> {
    at: u64,
    value: T,
}

impl<T: Ord + Copy> Windowed<T> {
    /// A filter that holds one value.
    pub fn new(window: u64, at: u64, value: T) -> Self {
        Self { window, kept: [Sample { at, value }; 3] }
    }

    /// The best value.
    pub fn get(&self) -> T {
        self.kept[0].value
    }

    /// Forgets everything but this value.
    pub fn reset(&mut self, at: u64, value: T) {
        self.kept = [Sample { at, value }; 3];
    }

    /// From the next value on the window is this long.
    pub const fn set_window(&mut self, window: u64) {
        self.window = window;
    }

    /// Takes a value; `at` never decreases. Returns the best.
    pub fn update(&mut self, at: u64, value: T) -> T {
        let new = Sample { at, value };
        let age = |s: &Sample<T>| at.saturating_sub(s.at);
        if value >= self.kept[0].value || age(&self.kept[2]) > self.window {
            self.reset(at, value);
            return value;
        }
        if value >= self.kept[1].value {
            self.kept[1] = new;
            self.kept[2] = new;
        } else if value >= self.kept[2].value {
            self.kept[2] = new;
        }
        if age(&self.kept[0]) > self.window {
            // Twice at most: the third was found young enough above.
            self.promote(new);
            if age(&self.kept[0]) > self.window {
                self.promote(new);
            }
        } else if self.kept[1].at == self.kept[0].at && age(&self.kept[0]) > self.window / 4 {
            // A quarter of the window without a runner-up: take one from here on.
            self.kept[1] = new;
            self.kept[2] = new;
        } else if self.kept[2].at == self.kept[1].at && age(&self.kept[0]) > self.window / 2 {
            self.kept[2] = new;
        }
        self.get()
    }

    fn promote(&mut self, new: Sample<T>) {
        self.kept = [self.kept[1], self.kept[2], new];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cmp::Reverse;

    #[test]
    fn the_best_is_forgotten_after_the_window() {
        let mut f = Windowed::new(10, 0, 0_u64);
        f.update(1, 100);
        for at in 2..=11 {
            assert_eq!(f.update(at, 50), 100, "round {at}");
        }
        assert_eq!(f.update(12, 50), 50);
    }

    #[test]
    fn the_least_is_kept_by_reversing() {
        let mut f = Windowed::new(300, 0, Reverse(40_u64));
        f.update(1, Reverse(30));
        // A runner-up is looked for once a quarter of the window has passed.
        f.update(100, Reverse(35));
        assert_eq!(f.get(), Reverse(30));
        assert_eq!(f.update(302, Reverse(36)), Reverse(35));
    }

    proptest! {
        #[test]
        fn the_answer_is_in_the_window_and_never_above_its_maximum(steps in prop::collection::vec((0_u64..4, 0_u64..1000), 1..300), window in 1_u64..40) {
            let mut f = Windowed::new(window, 0, 0_u64);
            let mut seen = vec![(0, 0)];
            let mut at = 0;
            for (step, value) in steps {
                at += step;
                seen.push((at, value));
                let got = f.update(at, value);
                let inside: Vec<u64> = seen.iter().filter(|(t, _)| at - t <= window).map(|&(_, v)| v).collect();
                prop_assert!(inside.contains(&got));
                prop_assert!(got >= value && got <= *inside.iter().max().unwrap());
            }
        }

        #[test]
        fn it_is_exact_while_the_best_is_young(values in prop::collection::vec(0_u64..1000, 1..100)) {
            let mut f = Windowed::new(1000, 0, 0_u64);
            for (at, &value) in values.iter().enumerate() {
                let got = f.update(at as u64, value);
                prop_assert_eq!(got, *values[..=at].iter().max().unwrap());
            }
        }
    }
}
