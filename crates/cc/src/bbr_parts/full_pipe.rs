//! Detection of a full pipe: the bandwidth has not grown by a quarter for three rounds (`bbr_check_full_bw_reached`).

use super::bw::Bw;
use super::params::GAIN_SHIFT;

/// Estimator of whether the pipe is full.
#[derive(Clone, Debug)]
pub struct FullPipe {
    /// Growth below which a round counts [1/256], and the number of such rounds that show a full pipe.
    growth: u64,
    rounds: u32,
    bw: Bw,
    rounds_without_growth: u32,
    /// The pipe is full, as of the last restart (`full_bw_now`).
    now: bool,
    /// The pipe was full at any time (`full_bw_reached`).
    reached: bool,
}

impl FullPipe {
    pub const fn new(growth: u64, rounds: u32) -> Self {
        Self { growth, rounds, bw: Bw(0), rounds_without_growth: 0, now: false, reached: false }
    }

    /// Processes a bandwidth within a round, which can only show growth; returns whether it does.
    pub fn check_growth(&mut self, bw: Bw) -> bool {
        let has_grown = u128::from(bw.0) >= (u128::from(self.bw.0) * u128::from(self.growth)) >> GAIN_SHIFT;
        if has_grown && !self.now {
            self.bw = bw;
            self.rounds_without_growth = 0;
        }
        has_grown
    }

    /// Processes the bandwidth at the start of a round, if it is not application-limited.
    pub fn on_round(&mut self, bw: Bw) {
        if self.now || self.check_growth(bw) {
            return;
        }
        self.rounds_without_growth += 1;
        self.now = self.rounds_without_growth >= self.rounds;
        self.reached |= self.now;
    }

    /// Restarts the detection from this bandwidth. Keeps `reached`.
    pub const fn restart(&mut self, bw: Bw) {
        self.bw = bw;
        self.rounds_without_growth = 0;
        self.now = false;
    }

    /// Marks the pipe as full, because of losses.
    pub const fn set_full(&mut self) {
        self.now = true;
        self.reached = true;
    }

    /// Marks the pipe as never full: those losses were spurious.
    pub const fn set_never_full(&mut self) {
        self.reached = false;
    }

    /// Returns whether the pipe is full, as of the last restart.
    pub const fn now(&self) -> bool {
        self.now
    }

    /// Restarts the growth after a time-out: the next bandwidth counts as growth. Keeps `reached`.
    pub fn on_timeout(&mut self) {
        self.bw = Bw::default();
    }

    /// Restarts the detection after spurious losses (`bbr_undo_cwnd`).
    pub fn on_undo(&mut self) {
        self.bw = Bw::default();
        self.rounds_without_growth = 0;
    }

    pub const fn reached(&self) -> bool {
        self.reached
    }

    pub const fn rounds_without_growth(&self) -> u32 {
        self.rounds_without_growth
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_rounds_of_less_than_a_quarter_of_growth_fill_the_pipe() {
        let mut pipe = FullPipe::new(320, 3);
        for bw in [100, 200, 400, 500] {
            pipe.on_round(Bw(bw));
        }
        for (bw, reached) in [(624, false), (624, false), (624, true)] {
            pipe.on_round(Bw(bw));
            assert_eq!(pipe.reached(), reached);
        }
    }

    #[test]
    fn after_an_undo_the_same_bandwidth_counts_as_growth() {
        let mut pipe = FullPipe::new(320, 3);
        for bw in [100, 100, 100] {
            pipe.on_round(Bw(bw));
        }
        pipe.on_undo();
        let rounds = (1..10).find(|_| {
            pipe.on_round(Bw(100));
            pipe.reached()
        });
        assert_eq!(rounds, Some(4));
    }

    #[test]
    fn growth_restarts_the_count_of_rounds() {
        let mut pipe = FullPipe::new(320, 3);
        for bw in [400, 450, 450, 500, 550, 550] {
            pipe.on_round(Bw(bw));
        }
        assert!(!pipe.reached());
        pipe.on_round(Bw(550));
        assert!(pipe.reached());
    }
}
