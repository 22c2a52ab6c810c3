//! Linear models.

use super::{ModelError, check_each, check_length};

/// A weighted sum of features for each phase of the slot, with the quantiles of its errors around it.
#[derive(Clone, Debug, PartialEq)]
pub struct Linear {
    columns: usize,
    quantiles: usize,
    phase_column: Option<usize>,
    weights: Vec<f64>,
    errors: Vec<f64>,
}

impl Linear {
    /// Make a model from arrays in row order: `weights` phases × (columns + 1), the last of each the intercept; `errors` phases × quantiles.
    /// The phase is the whole part of the feature `phase_column`, at most the last; `None`: there is one phase.
    ///
    /// # Errors
    /// Lengths that do not agree, a column that is none, numbers that are not finite.
    pub fn new(
        columns: usize,
        quantiles: usize,
        phase_column: Option<usize>,
        weights: Vec<f64>,
        errors: Vec<f64>,
    ) -> Result<Self, ModelError> {
        let phases = errors.len() / quantiles.max(1);
        let in_range = |name, ok, expected| if ok { Ok(()) } else { Err(ModelError::Range { name, index: 0, expected }) };
        in_range("quantiles", quantiles > 0, "one or more")?;
        in_range("errors", phases > 0, "a phase or more")?;
        in_range("phase_column", phase_column.is_none_or(|column| column < columns), "a column")?;
        check_length("errors", errors.len(), phases * quantiles)?;
        check_length("weights", weights.len(), phases.saturating_mul(columns.saturating_add(1)))?;
        check_each("weights", &weights, f64::is_finite, "finite numbers")?;
        check_each("errors", &errors, f64::is_finite, "finite numbers")?;
        Ok(Self { columns, quantiles, phase_column, weights, errors })
    }

    pub(super) const fn columns(&self) -> usize {
        self.columns
    }

    pub(super) const fn quantiles(&self) -> usize {
        self.quantiles
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // clamped: NaN is 0
    pub(super) fn predict(&self, row: &[f64]) -> Vec<f64> {
        let last = self.errors.len() / self.quantiles - 1;
        let phase = self.phase_column.map_or(0, |column| row[column].floor().max(0.0) as usize).min(last);
        let weights = &self.weights[phase * (self.columns + 1)..(phase + 1) * (self.columns + 1)];
        // A feature without weight may be NaN.
        let point =
            weights[..self.columns].iter().zip(row).filter(|(weight, _)| **weight != 0.0).map(|(weight, each)| weight * each).sum::<f64>();
        let point = point + weights[self.columns];
        self.errors[phase * self.quantiles..(phase + 1) * self.quantiles].iter().map(|error| point + error).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_phase_has_its_weights_and_errors() {
        let model = Linear::new(2, 1, Some(1), vec![1.0, 0.0, 0.5, 2.0, 0.0, 0.0], vec![0.25, -1.0]).unwrap();
        assert_eq!(model.predict(&[10.0, 0.9]), [10.75]);
        assert_eq!(model.predict(&[10.0, 1.0]), [19.0]);
        assert_eq!(model.predict(&[10.0, 99.0]), [19.0]);
        assert_eq!(model.predict(&[10.0, f64::NAN]), [10.75]);
    }

    #[test]
    fn arrays_that_do_not_agree_are_refused() {
        assert!(Linear::new(2, 1, None, vec![1.0; 3], vec![0.0]).is_ok());
        assert!(Linear::new(2, 1, None, vec![1.0; 2], vec![0.0]).is_err());
        assert!(Linear::new(2, 0, None, vec![], vec![]).is_err());
        assert!(Linear::new(2, 1, Some(2), vec![1.0; 3], vec![0.0]).is_err());
        assert!(Linear::new(2, 1, None, vec![f64::NAN; 3], vec![0.0]).is_err());
        assert!(Linear::new(usize::MAX - 1, 1, None, vec![1.0; 3], vec![0.0]).is_err());
    }
}
