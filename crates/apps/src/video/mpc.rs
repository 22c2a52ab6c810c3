//! MPC without a discount: the harmonic mean of the last throughputs as it is (Yin et al., SIGCOMM 2015, section 5.2).

use super::plan::{Costs, HORIZON, Scenario, best};
use super::rates::Rates;
use super::throughput::harmonic_bps;
use super::{Observation, Policy};

/// The policy.
#[derive(Clone, Copy, Debug)]
pub struct Mpc;

impl Policy for Mpc {
    fn choose(&mut self, seen: &Observation<'_>) -> usize {
        let Some(predicted_bps) = harmonic_bps(seen.downloads) else { return 0 };
        best(seen, &[Scenario { rates: Rates::constant(predicted_bps), age_s: 0.0 }], Costs::NONE, HORIZON).0
    }
}
