//! MPC over a forecast: one scenario for each quantile level, all with equal weights, and one plan for all of them.
//!
//! The levels .3 to .9 did best on drives; lower ones make the player as careful as `RobustMPC` (docs/guides/video.md).

use super::plan::{Costs, HORIZON, Scenario, best};
use super::rates::Rates;
use super::{Observation, Policy};
use bentpipe_profile::video::Outlook;

/// Bytes of a packet on the path for each byte of content: 1500 to 1448, TCP over IPv4 with timestamps.
const EXPANSION: f64 = 1500.0 / 1448.0;

/// The policy.
pub struct MpcForecast {
    outlook: Outlook,
    /// Rates of the forecast in use, with its number.
    current: Option<(usize, Vec<Rates>)>,
    horizon: usize,
}

impl MpcForecast {
    /// Plan with these forecasts.
    #[must_use]
    pub const fn new(outlook: Outlook) -> Self {
        Self { outlook, current: None, horizon: HORIZON }
    }

    /// Plan over another number of chunks.
    #[must_use]
    pub const fn over(mut self, chunks: usize) -> Self {
        self.horizon = chunks;
        self
    }
}

/// What a request costs as the player saw it: the packets' headers and the shortest time to a first byte.
fn costs(seen: &Observation<'_>) -> Costs {
    let wait_s = seen.downloads.iter().map(|each| each.first_byte_s).fold(f64::INFINITY, f64::min);
    Costs { expansion: EXPANSION, wait_s: if wait_s.is_finite() { wait_s } else { 0.0 } }
}

impl Policy for MpcForecast {
    fn choose(&mut self, seen: &Observation<'_>) -> usize {
        let number = self.outlook.made_s.partition_point(|made_s| *made_s <= seen.now_s).saturating_sub(1);
        if self.current.as_ref().is_none_or(|(current, _)| *current != number) {
            let rates = (0..self.outlook.levels.len()).map(|level| Rates::of(&self.outlook, number, level)).collect();
            self.current = Some((number, rates));
        }
        let Some((_, rates)) = &self.current else { return 0 };
        let age_s = (seen.now_s - self.outlook.made_s[number]).max(0.0);
        let scenarios: Vec<_> = rates.iter().map(|rates| Scenario { rates: rates.clone(), age_s }).collect();
        best(seen, &scenarios, costs(seen), self.horizon).0
    }
}
