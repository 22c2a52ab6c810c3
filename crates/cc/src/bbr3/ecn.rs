//! ECN marks: their share of the delivered packets, averaged over rounds, with Linux's response on paths that mark early (DCTCP, L4S).

use super::params::{Params, Rules};
use crate::bbr_parts::params::{GAIN_SHIFT, UNIT};
use bentpipe_profile::{Bytes, Nanos};
use std::collections::VecDeque;

/// Most reports of marks that are kept. When there are more, each two that follow one another become one: marks then count a little longer. The kernel's
/// memory for them is fixed (`bpf/core/bbr3_ecn.h`).
const MAX_REPORTS: usize = 128;

/// ECN state of a connection.
#[derive(Clone, Debug)]
pub struct Ecn {
    /// Whether this connection responds to marks (`ecn_eligible`).
    eligible: bool,
    /// Average share of marks [1/256].
    alpha: u64,
    /// Delivered bytes and marks at the last average.
    last: (Bytes, u64),
    /// Marks before each group of new marks, and the bytes delivered when it was reported; entries older than the current flight are dropped.
    reports: VecDeque<(Bytes, u64)>,
    marks: u64,
    /// Rounds of STARTUP with too many marks.
    pub startup_rounds: u32,
    pub in_round: bool,
    pub in_cycle: bool,
}

impl Ecn {
    pub const fn new(p: &Params) -> Self {
        Self {
            eligible: false,
            alpha: p.ecn_alpha_init,
            last: (Bytes::ZERO, 0),
            reports: VecDeque::new(),
            marks: 0,
            startup_rounds: 0,
            in_round: false,
            in_cycle: false,
        }
    }

    pub const fn is_eligible(&self) -> bool {
        self.eligible
    }

    pub const fn alpha(&self) -> u64 {
        self.alpha
    }

    /// Processes the marks so far, on an ACK after which `delivered` bytes are delivered.
    pub fn on_ack(&mut self, delivered: Bytes, marks: u64) {
        if marks > self.marks {
            if self.reports.len() >= MAX_REPORTS {
                self.merge_reports();
            }
            self.reports.push_back((delivered, self.marks));
            self.marks = marks;
            self.in_round |= self.eligible;
        }
    }

    /// Merges each two reports that follow one another.
    fn merge_reports(&mut self) {
        for n in 0..MAX_REPORTS / 2 {
            self.reports[n] = (self.reports[2 * n + 1].0, self.reports[2 * n].1);
        }
        self.reports.truncate(MAX_REPORTS / 2);
    }

    /// Returns the marks reported since `prior` bytes were delivered, of `marks` so far.
    pub fn marked_since(&mut self, prior: Bytes, marks: u64) -> u64 {
        while self.reports.front().is_some_and(|&(delivered, _)| delivered <= prior) {
            self.reports.pop_front();
        }
        marks - self.reports.front().map_or(self.marks, |&(_, before)| before).min(marks)
    }

    /// Updates the average once a round. Returns the round's share of marks [1/256] if this connection responds to them.
    pub fn on_round(&mut self, p: &Params, mss: u32, min_rtt: Option<Nanos>, delivered_total: Bytes, marks: u64) -> Option<u64> {
        let short = p.ecn_max_rtt == Nanos::ZERO || min_rtt.is_some_and(|rtt| rtt <= p.ecn_max_rtt);
        self.eligible |= p.ecn && p.ecn_factor > 0 && short;
        if !self.eligible {
            return None;
        }
        let delivered = delivered_total.saturating_sub(self.last.0).0 / u64::from(mss);
        let marked = marks.saturating_sub(self.last.1);
        if delivered == 0 {
            return None;
        }
        let share = u64::try_from((u128::from(marked) << GAIN_SHIFT) / u128::from(delivered)).unwrap_or(u64::MAX).min(UNIT);
        self.alpha = (((UNIT - p.ecn_alpha_gain) * self.alpha) >> GAIN_SHIFT) + ((p.ecn_alpha_gain * share) >> GAIN_SHIFT);
        self.alpha = self.alpha.min(UNIT);
        self.last = (delivered_total, marks);
        Some(share)
    }

    /// Returns the factor on rate and inflight after marks [1/256] (`bbr_ecn_cut`).
    pub const fn reduction(&self, p: &Params) -> u64 {
        UNIT - ((self.alpha * p.ecn_factor) >> GAIN_SHIFT)
    }

    /// Returns whether the share of marked packets shows that inflight was too high.
    pub fn is_share_too_high(&self, p: &Params, marked: u64, delivered: u64) -> bool {
        if !self.eligible || p.ecn_threshold == 0 || marked == 0 || delivered == 0 {
            return false;
        }
        let limit = Params::part(delivered, p.ecn_threshold);
        // Version 3 excludes equality.
        if p.rules == Rules::Linux2 { marked >= limit } else { marked > limit }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::options_of;
    use bentpipe_profile::options::OptionValue;

    fn params(given: &[(&str, OptionValue)]) -> Params {
        Params::version_3(&options_of(&crate::bbr3::ENTRY, given))
    }

    #[test]
    fn a_path_longer_than_5_ms_is_not_eligible_unless_the_limit_is_lifted() {
        for (given, rtt_ms, eligible) in [
            (vec![("ecn_low", 1.0.into())], 5, true),
            (vec![("ecn_low", 1.0.into())], 6, false),
            (vec![("ecn_low", 1.0.into()), ("ecn_max_rtt_ms", 0.0.into())], 600, true),
            (vec![], 1, false),
        ] {
            let p = params(&given);
            let mut ecn = Ecn::new(&p);
            ecn.on_round(&p, 1000, Some(Nanos::from_millis(rtt_ms)), Bytes(100_000), 0);
            assert_eq!(ecn.is_eligible(), eligible, "{given:?} at {rtt_ms} ms");
        }
    }

    #[test]
    fn the_share_of_marks_is_averaged_by_a_sixteenth_and_reduces_by_a_third_of_it() {
        let p = params(&[("ecn_low", 1.0.into())]);
        let mut ecn = Ecn::new(&p);
        assert_eq!((ecn.alpha(), ecn.reduction(&p)), (256, 256 - 85));
        let share = ecn.on_round(&p, 1000, Some(Nanos::from_millis(1)), Bytes(100_000), 50);
        assert_eq!((share, ecn.alpha()), (Some(128), 240 + 8));
        assert!(!ecn.is_share_too_high(&p, 50, 100) && ecn.is_share_too_high(&p, 51, 100));
    }

    #[test]
    fn marks_belong_to_the_flight_in_which_they_were_reported() {
        let mut ecn = Ecn::new(&params(&[]));
        ecn.on_ack(Bytes(10), 3);
        ecn.on_ack(Bytes(20), 3);
        ecn.on_ack(Bytes(30), 5);
        assert_eq!(ecn.marked_since(Bytes(0), 5), 5);
        assert_eq!(ecn.marked_since(Bytes(10), 5), 2);
        assert_eq!(ecn.marked_since(Bytes(30), 5), 0);
    }

    #[test]
    fn many_reports_merge_and_lose_no_mark() {
        let mut ecn = Ecn::new(&params(&[]));
        let end = 3 * MAX_REPORTS as u64;
        for n in 1..=end {
            ecn.on_ack(Bytes(n), n);
        }
        assert!(ecn.reports.len() <= MAX_REPORTS);
        assert_eq!(ecn.marked_since(Bytes(0), end), end);
        // Four merges: the oldest report is of 16. Marks older than the flight count if they merged with younger ones.
        assert_eq!(ecn.marked_since(Bytes(15), end), end);
        assert_eq!(ecn.marked_since(Bytes(16), end), end - 16);
        assert_eq!(ecn.marked_since(Bytes(end), end), 0);
    }
}
