//! Policy: choose the candidate highest in the sky.

use super::policy::{Candidate, Policy, SlotContext, largest};

/// Chooses the candidate highest in the sky.
#[derive(Debug)]
pub struct HighestElevation;

impl Policy for HighestElevation {
    fn choose(&self, _: &SlotContext, candidates: &[Candidate]) -> usize {
        largest(candidates, |c| c.elevation_deg)
    }
}
