//! STARTUP and DRAIN: the pipe is full once the bandwidth has not grown by a quarter for three rounds (`bbr_check_full_bw_reached`).

use super::bandwidth::Bw;
use super::params::{FULL_BW_GROWTH, FULL_BW_ROUNDS, GAIN_SHIFT};

/// Whether the pipe is full.
#[derive(Clone, Debug, Default)]
pub struct FullPipe {
    bw: Bw,
    rounds_without_growth: u32,
    reached: bool,
}

impl FullPipe {
    /// A round begins; its last sample was not limited by the application.
    pub fn on_round(&mut self, max_bw: Bw) {
        if self.reached {
            return;
        }
        if u128::from(max_bw.0) >= (u128::from(self.bw.0) * u128::from(FULL_BW_GROWTH)) >> GAIN_SHIFT {
            self.bw = max_bw;
            self.rounds_without_growth = 0;
            return;
        }
        self.rounds_without_growth += 1;
        self.reached = self.rounds_without_growth >= FULL_BW_ROUNDS;
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
        let mut pipe = FullPipe::default();
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
        let mut pipe = FullPipe::default();
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
        let mut pipe = FullPipe::default();
        for bw in [400, 450, 450, 500, 550, 550] {
            pipe.on_round(Bw(bw));
        }
        assert!(!pipe.reached());
        pipe.on_round(Bw(550));
        assert!(pipe.reached());
    }
}
