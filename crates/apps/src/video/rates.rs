//! Rates to come on a path.

use bentpipe_profile::video::Outlook;

/// Least rate to come [bit/s], so that every download ends. Chosen here: a chunk of the lowest quality then takes more than an hour.
const LEAST_BPS: f64 = 300.0;

/// The bits that a path can carry from a point in time on. The rate is constant between knots, and after the last one as before it.
#[derive(Clone, Debug)]
pub struct Rates {
    /// Knots [s], from 0 on.
    t_s: Vec<f64>,
    /// Bits until each knot, rising.
    bits: Vec<f64>,
}

impl Rates {
    /// A constant rate.
    #[must_use]
    pub fn constant(bps: f64) -> Self {
        Self { t_s: vec![0.0, 1.0], bits: vec![0.0, bps.max(LEAST_BPS)] }
    }

    /// One level of one forecast. Mean rates that contradict each other (fewer bits until a later horizon) are rates of nothing between the two.
    #[must_use]
    pub fn of(outlook: &Outlook, forecast: usize, level: usize) -> Self {
        let (mut t_s, mut bits) = (vec![0.0], vec![0.0_f64]);
        let (horizons, levels) = (outlook.horizons_s.len(), outlook.levels.len());
        for (number, &horizon_s) in outlook.horizons_s.iter().enumerate() {
            let rate_bps = outlook.rates_bps[(forecast * horizons + number) * levels + level];
            let least = bits[number] + LEAST_BPS * (horizon_s - t_s[number]);
            t_s.push(horizon_s);
            bits.push((rate_bps * horizon_s).max(least));
        }
        Self { t_s, bits }
    }

    /// Return the time that these bytes take from `from_s` on [s].
    #[must_use]
    pub fn download_s(&self, from_s: f64, bytes: f64) -> f64 {
        let start = line(&self.t_s, &self.bits, from_s);
        (line(&self.bits, &self.t_s, start + bytes * 8.0) - from_s).max(0.0)
    }
}

/// Interpolate linearly between points with rising `x`; beyond the last along the last line.
fn line(x: &[f64], y: &[f64], at: f64) -> f64 {
    let after = x.partition_point(|each| *each <= at).clamp(1, x.len() - 1);
    let slope = (y[after] - y[after - 1]) / (x[after] - x[after - 1]);
    y[after - 1] + slope * (at - x[after - 1])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_take_the_time_of_the_bits_between() {
        let outlook = Outlook { made_s: vec![0.0], horizons_s: vec![1.0, 2.0, 4.0], levels: vec![0.5], rates_bps: vec![8e6, 4e6, 6e6] };
        // 8, 0 and 8 Mbit/s.
        let rates = Rates::of(&outlook, 0, 0);
        let near = |from_s, bytes, expected: f64| {
            let took_s = rates.download_s(from_s, bytes);
            assert!((took_s - expected).abs() < 1e-3, "{from_s}, {bytes}: {took_s}");
        };
        near(0.0, 0.5e6, 0.5);
        near(0.5, 1e6, 2.0);
        near(10.0, 3e6, 3.0);
        assert!((Rates::constant(2e6).download_s(7.0, 1e6) - 4.0).abs() < 1e-9);
    }
}
