//! The candidate highest in the sky.

use super::policy::{Candidate, Policy, SlotContext, largest};

/// See the module.
#[derive(Debug)]
pub struct HighestElevation;

impl Policy for HighestElevation {
    fn choose(&self, _: &SlotContext, candidates: &[Candidate]) -> usize {
        largest(candidates, |c| c.elevation_deg)
    }
}
