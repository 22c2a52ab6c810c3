//! Features of a clock of reconfigurations: where in its slot a sample is, and the levels of slots.

use std::collections::VecDeque;

/// A clock of reconfigurations: an edge at each time t with (t − `phase_s`) a multiple of `period_s`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SlotClock {
    /// Time between edges [s]; 15 in Starlink.
    pub period_s: f64,
    /// Time of an edge, in the time of the samples [s].
    pub phase_s: f64,
}

impl SlotClock {
    /// Return the number of the slot that holds `t_s`, and the time since its first edge [s], at least 0 and below the period.
    ///
    /// ```
    /// # use bentpipe_signals::SlotClock;
    /// let clock = SlotClock { period_s: 15.0, phase_s: 12.0 };
    /// assert_eq!(clock.at(26.0), (0.0, 14.0));
    /// assert_eq!(clock.at(27.0), (1.0, 0.0));
    /// ```
    #[must_use]
    pub fn at(&self, t_s: f64) -> (f64, f64) {
        let number = ((t_s - self.phase_s) / self.period_s).floor();
        let since_s = (t_s - self.phase_s) - number * self.period_s;
        if since_s >= self.period_s { (number + 1.0, 0.0) } else { (number, since_s.max(0.0)) }
    }
}

/// Levels of the current slot and of earlier ones.
#[derive(Clone, Debug)]
pub(crate) struct Slots {
    clock: SlotClock,
    slot: Option<f64>,
    sum: f64,
    samples: usize,
    /// Means of earlier slots, newest first.
    earlier: VecDeque<f64>,
    keep: usize,
}

impl Slots {
    pub(crate) fn new(clock: SlotClock, keep: usize) -> Self {
        Self { clock, slot: None, sum: 0.0, samples: 0, earlier: VecDeque::new(), keep }
    }

    /// Add a level at `t_s` and the row's columns: time since the edge and to the next one, mean so far, its samples, means of earlier slots.
    ///
    /// A slot before the first one has the level of the oldest known.
    pub(crate) fn push(&mut self, t_s: f64, level: f64, origin: f64, row: &mut Vec<f64>) {
        let (slot, since_s) = self.clock.at(t_s);
        if self.slot != Some(slot) {
            if self.slot.is_some() {
                self.earlier.push_front(self.sum / self.samples as f64);
                self.earlier.truncate(self.keep);
            }
            (self.slot, self.sum, self.samples) = (Some(slot), 0.0, 0);
        }
        self.sum += level;
        self.samples += 1;
        let mean = self.sum / self.samples as f64;
        row.extend([since_s, self.clock.period_s - since_s, mean - origin, self.samples as f64]);
        let oldest = self.earlier.back().copied().unwrap_or(mean);
        row.extend((0..self.keep).map(|back| self.earlier.get(back).copied().unwrap_or(oldest) - origin));
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::new(self.clock, self.keep);
    }
}
