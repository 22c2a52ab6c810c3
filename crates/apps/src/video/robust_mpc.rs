//! `RobustMPC`: the harmonic mean of the last throughputs, lowered by the largest error of late (Yin et al., SIGCOMM 2015, section 5.3;
//! parameters of Pensieve's `mpc.py`).

use super::plan::{Costs, HORIZON, Scenario, best};
use super::rates::Rates;
use super::throughput::Errors;
use super::{Observation, Policy};

/// The policy.
#[derive(Clone, Debug, Default)]
pub struct RobustMpc {
    errors: Errors,
}

impl Policy for RobustMpc {
    fn choose(&mut self, seen: &Observation<'_>) -> usize {
        let Some((predicted_bps, error)) = self.errors.next(seen.downloads) else { return 0 };
        let scenario = Scenario { rates: Rates::constant(predicted_bps / (1.0 + error)), age_s: 0.0 };
        best(seen, &[scenario], Costs::NONE, HORIZON).0
    }
}
