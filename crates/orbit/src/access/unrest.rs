//! Unrest: how much more there is to wait at a moment than over the slot. The uplink is shared, and its users come and go over seconds.
//!
//! ```text
//! u(t) = exp(σ x(t) − σ²/2) (1 + S exp(−(t − t₀) / τ₀)),   x a first-order autoregression of unit variance and correlation time τ
//! ```
//!
//! t₀ is when the path opens after a reconfiguration and S what that left, drawn once a slot: pings of `Victoria` wait longer for a second or two then.
//! The factor multiplies the mean wait for a used grant and the wander. Both are zero for some packets however large it is: an unquiet second has a longer
//! tail, and the floor that it had before.

use super::params::UnrestParams;
use bentpipe_profile::rng::Stream;

/// Distance between its points [ns]. Chosen here: well below its correlation time.
const STEP_NS: u64 = 50_000_000;

/// The factor over a slot.
#[derive(Clone, Debug, PartialEq)]
pub struct Unrest {
    from_ns: u64,
    /// Values every [`STEP_NS`], held.
    factors: Vec<f64>,
}

impl Unrest {
    /// Drawn over a slot from `from_ns` to `until_ns`; `open_ns` is when the path opens after the slot's reconfiguration, if it has one.
    #[must_use]
    pub fn draw(stream: &mut Stream, params: &UnrestParams, (from_ns, until_ns): (u64, u64), open_ns: Option<u64>) -> Self {
        let rho = libm::exp(-(STEP_NS as f64 / 1e9) / params.time_s);
        let (sigma, innovation) = (params.log_sigma, (1.0 - rho * rho).sqrt());
        let excess = stream.exponential(params.edge_excess);
        let left = |at: u64| open_ns.map_or(0.0, |open| excess * libm::exp(-(at.saturating_sub(open) as f64) / 1e9 / params.edge_time_s));
        let mut x = stream.normal();
        let factors = (0..until_ns.saturating_sub(from_ns).div_ceil(STEP_NS))
            .map(|step| {
                let factor = libm::exp(sigma * x - sigma * sigma / 2.0) * (1.0 + left(from_ns + step * STEP_NS));
                x = rho * x + innovation * stream.normal();
                factor
            })
            .collect();
        Self { from_ns, factors }
    }

    /// Always 1.
    #[cfg(test)]
    pub(super) const fn none() -> Self {
        Self { from_ns: 0, factors: Vec::new() }
    }

    /// The factor at a time; the end values beyond the slot, 1 without any.
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
    fn its_mean_is_one_and_it_lasts_as_long_as_asked() {
        let params = UnrestParams { log_sigma: 0.5, time_s: 1.5, ..UnrestParams::default() };
        let span = 10_000_000_000_000;
        let drawn = Unrest::draw(&mut Streams::new(4).stream("u"), &params, (7, span), None);
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
    fn a_reconfiguration_leaves_an_excess_that_goes() {
        let params = UnrestParams { log_sigma: 0.0, time_s: 1.5, edge_excess: 2.0, edge_time_s: 0.5 };
        let (s, open) = (1_000_000_000, 100_000_000);
        let mean = |at: u64| {
            let drawn = |k: u64| Unrest::draw(&mut Streams::new(k).stream("u"), &params, (0, 15 * s), Some(open)).at(at);
            (0..4000).map(drawn).sum::<f64>() / 4000.0
        };
        assert!((mean(open) - 3.0).abs() < 0.15 && (mean(open + s / 2) - 1.0 - 2.0 * libm::exp(-1.0)).abs() < 0.1);
        assert!((mean(10 * s) - 1.0).abs() < 1e-6);
    }
}
