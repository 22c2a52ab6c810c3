//! MPC that knows the rates to come: what a perfect forecast is worth. The rates are those of the path; what TCP makes of them it does not know.

use super::mpc_forecast::MpcForecast;
use super::plan::HORIZON;
use super::{Observation, Policy};
use bentpipe_profile::video::Outlook;

/// The policy.
pub struct MpcOracle(MpcForecast);

impl MpcOracle {
    /// Plan with these rates.
    #[must_use]
    pub fn new(outlook: &Outlook) -> Self {
        Self(MpcForecast::new(outlook.clone()).over(HORIZON))
    }
}

impl Policy for MpcOracle {
    fn choose(&mut self, seen: &Observation<'_>) -> usize {
        self.0.choose(seen)
    }
}
