//! Policy: choose the candidate that stays above the mask longest.

use super::policy::{Candidate, Policy, SlotContext, largest};

/// Chooses the candidate that stays above the mask longest.
#[derive(Debug)]
pub struct LongestVisibility;

impl Policy for LongestVisibility {
    fn choose(&self, _: &SlotContext, candidates: &[Candidate]) -> usize {
        largest(candidates, |c| c.remaining_s)
    }

    fn needs_remaining(&self) -> bool {
        true
    }
}
