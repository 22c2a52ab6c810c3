//! A long short-term memory over the lags, and a linear part over all features.

use super::{ModelError, check_each, check_length};

/// Largest standardised feature: `HELD` of `bentpipe.predict.models.lstm`.
const HELD: f64 = 5.0;
/// Most units of the state; chosen here: training makes 16.
const MOST_UNITS: usize = 256;

/// Arrays of [`Lstm`], in row order; columns of `gates` are those of the input, forget and output gates and of the candidate.
#[derive(Clone, Debug, PartialEq)]
pub struct LstmArrays {
    /// Number of the first columns that are lags, newest first.
    pub lags: usize,
    /// Units of the state.
    pub units: usize,
    /// Mean of each feature.
    pub mean: Vec<f64>,
    /// Factor of each feature after its mean is subtracted.
    pub scale: Vec<f64>,
    /// Centre and spread of the target.
    pub target: Vec<f64>,
    /// Weights of lag, state and a constant: (2 + units) × (4 · units).
    pub gates: Vec<f64>,
    /// Weights of state, features and a constant: (units + columns + 1) × quantiles.
    pub head: Vec<f64>,
}

/// A memory that reads the lags, oldest first; its last state and the features give the quantiles.
///
/// With gates i, f, o and candidate g of (lag, h, 1):  c ← f·c + i·g,  h ← o·tanh(c)  (Gers et al. 2000, without peepholes).
#[derive(Clone, Debug, PartialEq)]
pub struct Lstm {
    arrays: LstmArrays,
    quantiles: usize,
}

impl Lstm {
    /// Make a model.
    ///
    /// # Errors
    /// Lengths that do not agree, numbers that are not finite, lags or units out of range.
    pub fn new(quantiles: usize, arrays: LstmArrays) -> Result<Self, ModelError> {
        let columns = arrays.mean.len();
        let in_range = |name, ok, expected| if ok { Ok(()) } else { Err(ModelError::Range { name, index: 0, expected }) };
        in_range("quantiles", quantiles > 0, "one or more")?;
        in_range("lags", arrays.lags > 0 && arrays.lags <= columns, "1 to the number of features")?;
        in_range("units", arrays.units > 0 && arrays.units <= MOST_UNITS, "1 to 256")?;
        check_length("scale", arrays.scale.len(), columns)?;
        check_length("target", arrays.target.len(), 2)?;
        check_length("gates", arrays.gates.len(), (2 + arrays.units) * 4 * arrays.units)?;
        check_length("head", arrays.head.len(), (arrays.units + columns + 1).saturating_mul(quantiles))?;
        for (name, values) in
            [("mean", &arrays.mean), ("scale", &arrays.scale), ("target", &arrays.target), ("gates", &arrays.gates), ("head", &arrays.head)]
        {
            check_each(name, values, f64::is_finite, "finite numbers")?;
        }
        Ok(Self { arrays, quantiles })
    }

    pub(super) fn columns(&self) -> usize {
        self.arrays.mean.len()
    }

    pub(super) const fn quantiles(&self) -> usize {
        self.quantiles
    }

    pub(super) fn predict(&self, row: &[f64]) -> Vec<f64> {
        let LstmArrays { lags, units, mean, scale, target, gates, head } = &self.arrays;
        let standard: Vec<f64> =
            row.iter().zip(mean).zip(scale).map(|((each, mean), scale)| ((each - mean) * scale).clamp(-HELD, HELD)).collect();
        let width = 4 * units;
        let (mut state, mut memory) = (vec![0.0; *units], vec![0.0; *units]);
        let mut raw = vec![0.0; width];
        for &lag in standard[..*lags].iter().rev() {
            raw.copy_from_slice(&gates[(1 + units) * width..]);
            for (input, weights) in std::iter::once(&lag).chain(&state).zip(gates.chunks_exact(width)) {
                for (sum, weight) in raw.iter_mut().zip(weights) {
                    *sum += input * weight;
                }
            }
            for unit in 0..*units {
                let [taken, kept, shown] = [0, 1, 2].map(|gate| sigmoid(raw[gate * units + unit]));
                memory[unit] = kept * memory[unit] + taken * libm::tanh(raw[3 * units + unit]);
                state[unit] = shown * libm::tanh(memory[unit]);
            }
        }
        let mut quantiles = head[head.len() - self.quantiles..].to_vec();
        for (input, weights) in state.iter().chain(&standard).zip(head.chunks_exact(self.quantiles)) {
            for (sum, weight) in quantiles.iter_mut().zip(weights) {
                *sum += input * weight;
            }
        }
        for quantile in &mut quantiles {
            *quantile = *quantile * target[1] + target[0];
        }
        quantiles.sort_by(f64::total_cmp);
        quantiles
    }
}

fn sigmoid(value: f64) -> f64 {
    1.0 / (1.0 + libm::exp(-value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrays() -> LstmArrays {
        LstmArrays {
            lags: 1,
            units: 1,
            mean: vec![1.0, 0.0],
            scale: vec![2.0, 1.0],
            target: vec![10.0, 2.0],
            gates: vec![0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
            head: vec![1.0, 0.0, 0.5, 0.25],
        }
    }

    #[test]
    fn a_step_is_the_published_one() {
        // Gates are 1/2; the candidate is tanh of the standardised lag, (1.5 - 1) · 2 = 1.
        let memory = 0.5 * libm::tanh(1.0);
        let expected = (0.5 * libm::tanh(memory) + 0.5 * 4.0 + 0.25) * 2.0 + 10.0;
        let model = Lstm::new(1, arrays()).unwrap();
        assert!((model.predict(&[1.5, 4.0])[0] - expected).abs() < 1e-14);
        assert_eq!((model.columns(), model.quantiles()), (2, 1));
    }

    #[test]
    fn arrays_that_do_not_agree_are_refused() {
        for change in [
            |each: &mut LstmArrays| each.lags = 3,
            |each: &mut LstmArrays| each.lags = 0,
            |each: &mut LstmArrays| each.units = 1 << 40,
            |each: &mut LstmArrays| each.gates[0] = f64::NAN,
            |each: &mut LstmArrays| each.head.truncate(3),
            |each: &mut LstmArrays| each.target.truncate(1),
            |each: &mut LstmArrays| each.scale.push(1.0),
        ] {
            let mut changed = arrays();
            change(&mut changed);
            assert!(Lstm::new(1, changed).is_err());
        }
        assert!(Lstm::new(0, arrays()).is_err());
    }
}
