//! Bandwidth that a flow measures: the greatest delivery rate of the last rounds.

use super::bw::Bw;
use crate::RateSample;
use crate::filter::Windowed;

/// Filter of the delivery rates; empty until the first one.
#[derive(Clone, Copy, Debug)]
pub struct MeasuredBw {
    window_rounds: u64,
    filter: Option<Windowed<Bw>>,
}

impl MeasuredBw {
    /// Creates an empty filter over so many rounds.
    pub const fn new(window_rounds: u64) -> Self {
        Self { window_rounds, filter: None }
    }

    /// Adds the sample of an ACK in a round; an application-limited one counts only if it is not below the maximum.
    pub fn update(&mut self, sample: Option<RateSample>, round: u64, mss: u32) {
        let Some((sample, bw)) = sample.and_then(|sample| Some((sample, Bw::of(sample.delivered, sample.interval, mss)?))) else { return };
        match &mut self.filter {
            Some(filter) if !sample.app_limited || bw >= filter.get() => {
                filter.update(round, bw);
            }
            Some(_) => {}
            None => self.filter = Some(Windowed::new(self.window_rounds, round, bw)),
        }
    }

    /// Returns the greatest one.
    pub fn get(&self) -> Option<Bw> {
        self.filter.as_ref().map(Windowed::get)
    }
}
