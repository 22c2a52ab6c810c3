//! Variation of the waiting time within a slot, relative to its mean. The uplink is shared, and its load varies over seconds.
//!
//! ```text
//! u(t) = exp(σ x(t) − σ²/2) (1 + S exp(−(t − t₀) / τ₀)),   x a first-order autoregression of unit variance and correlation time τ
//! ```
//!
//! t₀ is the end of a reconfiguration's interruption. S is the excess after it, drawn once per slot: pings of `Victoria` then wait longer for a second or
//! two. The factor multiplies the mean wait for a used grant and the wander. Both are zero for some packets at any factor, so a larger factor gives a
//! longer tail and the same minimum.

use super::params::WaitFactorParams;
use bentpipe_profile::rng::Stream;

/// Time between values [ns]. Chosen here: well below the correlation time.
const STEP_NS: u64 = 50_000_000;

/// The factor of the waiting time over a slot.
#[derive(Clone, Debug, PartialEq)]
pub struct WaitFactor {
    from_ns: u64,
    /// Values every [`STEP_NS`], constant in between.
    factors: Vec<f64>,
}

impl WaitFactor {
    /// Draw the factor over a slot from `from_ns` to `until_ns`. `open_ns`: end of the interruption by the slot's reconfiguration; `None`: there is none.
    #[must_use]
    pub fn draw(stream: &mut Stream, params: &WaitFactorParams, (from_ns, until_ns): (u64, u64), open_ns: Option<u64>) -> Self {
        let rho = libm::exp(-(STEP_NS as f64 / 1e9) / params.time_s);
        let (sigma, innovation) = (params.log_sigma, (1.0 - rho * rho).sqrt());
        let excess = stream.exponential(params.edge_excess);
        let excess_at =
            |at: u64| open_ns.map_or(0.0, |open| excess * libm::exp(-(at.saturating_sub(open) as f64) / 1e9 / params.edge_time_s));
        let mut x = stream.normal();
        let factors = (0..until_ns.saturating_sub(from_ns).div_ceil(STEP_NS))
            .map(|step| {
                let factor = libm::exp(sigma * x - sigma * sigma / 2.0) * (1.0 + excess_at(from_ns + step * STEP_NS));
                x = rho * x + innovation * stream.normal();
                factor
            })
            .collect();
        Self { from_ns, factors }
    }

    /// Create a factor that is always 1.
    #[cfg(test)]
    pub(super) const fn constant_one() -> Self {
        Self { from_ns: 0, factors: Vec::new() }
    }

    /// Return the factor at a time. Beyond the slot: the end values; without values: 1.
    #[must_use]
    pub fn at(&self, t_ns: u64) -> f64 {
        let step = usize::try_from(t_ns.saturating_sub(self.from_ns) / STEP_NS).unwrap_or(usize::MAX);
        self.factors.get(step).or(self.factors.last()).copied().unwrap_or(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bentpipe_profile::Streams;

    #[test]
    fn the_factor_has_mean_one_and_its_correlation_time() {
        let params = WaitFactorParams { log_sigma: 0.5, time_s: 1.5, ..WaitFactorParams::default() };
        let span = 10_000_000_000_000;
        let drawn = WaitFactor::draw(&mut Streams::new(4).stream("u"), &params, (7, span), None);
        assert_eq!(drawn.factors.len(), 200_000);
        let mean = drawn.factors.iter().sum::<f64>() / 200_000.0;
        assert!((mean - 1.0).abs() < 0.03, "{mean}");
        let logs: Vec<f64> = drawn.factors.iter().map(|f| libm::log(*f) + 0.125).collect();
        let covariance = |lag: usize| logs.iter().zip(&logs[lag..]).map(|(a, b)| a * b).sum::<f64>() / (logs.len() - lag) as f64;
        assert!((covariance(0) / 0.25 - 1.0).abs() < 0.05);
        assert!((covariance(30) / covariance(0) - libm::exp(-1.0)).abs() < 0.05);
        assert_eq!((drawn.at(0), drawn.at(7 + STEP_NS)), (drawn.factors[0], drawn.factors[1]));
        assert_eq!(drawn.at(u64::MAX).to_bits(), drawn.factors[199_999].to_bits());
    }

    #[test]
    fn the_excess_after_a_reconfiguration_decays() {
        let params = WaitFactorParams { log_sigma: 0.0, time_s: 1.5, edge_excess: 2.0, edge_time_s: 0.5 };
        let (s, open) = (1_000_000_000, 100_000_000);
        let mean = |at: u64| {
            let drawn = |k: u64| WaitFactor::draw(&mut Streams::new(k).stream("u"), &params, (0, 15 * s), Some(open)).at(at);
            (0..4000).map(drawn).sum::<f64>() / 4000.0
        };
        assert!((mean(open) - 3.0).abs() < 0.15 && (mean(open + s / 2) - 1.0 - 2.0 * libm::exp(-1.0)).abs() < 0.1);
        assert!((mean(10 * s) - 1.0).abs() < 1e-6);
    }
}
