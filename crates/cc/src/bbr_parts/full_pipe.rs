//! The pipe is full once the bandwidth has not grown by a quarter for three rounds (`bbr_check_full_bw_reached`).

use super::bw::Bw;
use super::params::GAIN_SHIFT;

/// Whether the pipe is full.
#[derive(Clone, Debug)]
pub struct FullPipe {
    /// Growth that says it is not [1/256], and the rounds without it that say it is.
    growth: u64,
    rounds: u32,
    bw: Bw,
    rounds_without_growth: u32,
    /// Found full since it was last looked at anew.
    now: bool,
    /// Found full ever.
    reached: bool,
}

impl FullPipe {
    pub const fn new(growth: u64, rounds: u32) -> Self {
        Self { growth, rounds, bw: Bw(0), rounds_without_growth: 0, now: false, reached: false }
    }

    /// Takes a bandwidth within a round, which can only show growth; true if it does.
    pub fn grows(&mut self, bw: Bw) -> bool {
        let grows = u128::from(bw.0) >= (u128::from(self.bw.0) * u128::from(self.growth)) >> GAIN_SHIFT;
        if grows && !self.now {
            self.bw = bw;
            self.rounds_without_growth = 0;
        }
        grows
    }

    /// A round begins with this bandwidth, which the application did not limit.
    pub fn on_round(&mut self, bw: Bw) {
        if self.now || self.grows(bw) {
            return;
        }
        self.rounds_without_growth += 1;
        self.now = self.rounds_without_growth >= self.rounds;
        self.reached |= self.now;
    }

    /// Looks anew, from this bandwidth on. That the pipe was full once stays.
    pub const fn restart(&mut self, bw: Bw) {
        self.bw = bw;
        self.rounds_without_growth = 0;
        self.now = false;
    }

    /// Losses say that it is full.
    pub const fn set_full(&mut self) {
        self.now = true;
        self.reached = true;
    }

    /// They did not: it was never full.
    pub const fn set_never_full(&mut self) {
        self.reached = false;
    }

    /// Whether it was found full since it was last looked at anew.
    pub const fn now(&self) -> bool {
        self.now
    }

    /// A time-out: the next bandwidth is growth again. That the pipe was full once stays.
    pub fn on_timeout(&mut self) {
        self.bw = Bw::default();
    }

    /// Losses were spurious: count anew (`bbr_undo_cwnd`).
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
    fn three_rounds_below_a_quarter_more_fill_the_pipe() {
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
    fn after_an_undo_the_same_bandwidth_is_growth_once_more() {
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
    fn growth_in_between_counts_anew() {
        let mut pipe = FullPipe::new(320, 3);
        for bw in [400, 450, 450, 500, 550, 550] {
            pipe.on_round(Bw(bw));
        }
        assert!(!pipe.reached());
        pipe.on_round(Bw(550));
        assert!(pipe.reached());
    }
}
