//! Policy: choose the candidate at the shortest distance.

use super::policy::{Candidate, Policy, SlotContext, largest};

/// Chooses the candidate at the shortest distance.
#[derive(Debug)]
pub struct Nearest;

impl Policy for Nearest {
    fn choose(&self, _: &SlotContext, candidates: &[Candidate]) -> usize {
        largest(candidates, |c| -c.range_km)
    }
}
