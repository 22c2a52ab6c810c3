//! Policy: the shortest path from the terminal to the point of presence.

use super::policy::{Candidate, Policy, SlotContext, largest};

/// Chooses the candidate whose path has the least propagation delay.
#[derive(Debug)]
pub struct LeastDelay;

impl Policy for LeastDelay {
    fn choose(&self, _: &SlotContext, candidates: &[Candidate]) -> usize {
        largest(candidates, |c| -c.path_ms)
    }
}
