//! Forward passes of trained models: a row of features in, quantiles out.
//!
//! Training is Python's (`bentpipe.predict.models`); a model is arrays of numbers, checked when it is made, so that no file can make a pass run without end or
//! read outside of its arrays.

mod linear;
mod lstm;
mod trees;

pub use linear::Linear;
pub use lstm::{Lstm, LstmArrays};
pub use trees::{TreeArrays, Trees};

/// Arrays that are no model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// An array has another length than the others say.
    #[error("{name}: {given} numbers; expected {expected}")]
    Length {
        /// The array.
        name: &'static str,
        /// Its length.
        given: usize,
        /// The right one.
        expected: usize,
    },
    /// A number is out of its range.
    #[error("{name}: number {index} is out of range; expected {expected}")]
    Range {
        /// The array.
        name: &'static str,
        /// Place of the number.
        index: usize,
        /// What is allowed.
        expected: &'static str,
    },
    /// A mean of no models, or of models with other numbers of quantiles or features.
    #[error("members differ in features or quantiles, or there are none; expected one or more that agree")]
    Members,
}

/// A model.
#[derive(Clone, Debug, PartialEq)]
pub enum Model {
    /// A linear one for each phase of the slot.
    Linear(Linear),
    /// A long short-term memory.
    Lstm(Lstm),
    /// Boosted trees for each quantile.
    Trees(Trees),
    /// The weighted mean of the quantiles of several; made by [`Model::mean`].
    Mean(Vec<(f64, Model)>),
}

impl Model {
    /// Make the mean of several models with these weights.
    ///
    /// # Errors
    /// There are none, they differ in their numbers of features or quantiles, or the weights are not one for each, from 0 to 1 with the sum 1.
    pub fn mean(members: Vec<Self>, weights: &[f64]) -> Result<Self, ModelError> {
        let first = members.first().ok_or(ModelError::Members)?;
        let shape = (first.columns(), first.quantiles());
        if members.iter().any(|member| (member.columns(), member.quantiles()) != shape) {
            return Err(ModelError::Members);
        }
        check_length("weights", weights.len(), members.len())?;
        check_each("weights", weights, |weight: f64| (0.0..=1.0).contains(&weight), "0 to 1")?;
        if (weights.iter().sum::<f64>() - 1.0).abs() > 1e-9 {
            return Err(ModelError::Range { name: "weights", index: 0, expected: "weights with the sum 1" });
        }
        Ok(Self::Mean(weights.iter().copied().zip(members).collect()))
    }

    /// Return the number of features of a row.
    #[must_use]
    pub fn columns(&self) -> usize {
        match self {
            Self::Linear(model) => model.columns(),
            Self::Lstm(model) => model.columns(),
            Self::Trees(model) => model.columns(),
            Self::Mean(members) => members.first().map_or(0, |(_, member)| member.columns()),
        }
    }

    /// Return the number of quantiles.
    #[must_use]
    pub fn quantiles(&self) -> usize {
        match self {
            Self::Linear(model) => model.quantiles(),
            Self::Lstm(model) => model.quantiles(),
            Self::Trees(model) => model.quantiles(),
            Self::Mean(members) => members.first().map_or(0, |(_, member)| member.quantiles()),
        }
    }

    /// Compute the quantiles of a row, ascending.
    ///
    /// # Panics
    /// If the row has not [`Model::columns`] features.
    #[must_use]
    pub fn predict(&self, row: &[f64]) -> Vec<f64> {
        assert_eq!(row.len(), self.columns());
        match self {
            Self::Linear(model) => model.predict(row),
            Self::Lstm(model) => model.predict(row),
            Self::Trees(model) => model.predict(row),
            Self::Mean(members) => {
                let mut sums = vec![0.0; self.quantiles()];
                for (weight, member) in members.iter().filter(|(weight, _)| *weight > 0.0) {
                    for (sum, quantile) in sums.iter_mut().zip(member.predict(row)) {
                        *sum += weight * quantile;
                    }
                }
                sums
            }
        }
    }
}

fn check_length(name: &'static str, given: usize, expected: usize) -> Result<(), ModelError> {
    if given == expected { Ok(()) } else { Err(ModelError::Length { name, given, expected }) }
}

fn check_each<T: Copy>(name: &'static str, values: &[T], ok: impl Fn(T) -> bool, expected: &'static str) -> Result<(), ModelError> {
    match values.iter().position(|&value| !ok(value)) {
        Some(index) => Err(ModelError::Range { name, index, expected }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn constant(value: f64) -> Model {
        Model::Linear(Linear::new(1, 1, None, vec![0.0, value], vec![0.0]).unwrap())
    }

    #[test]
    fn members_count_by_their_weights() {
        let mean = Model::mean(vec![constant(1.0), constant(5.0)], &[0.25, 0.75]).unwrap();
        assert_eq!(mean.predict(&[0.0]), [4.0]);
    }

    #[test]
    fn weights_that_are_none_are_refused() {
        for weights in [&[1.0][..], &[0.5, 0.4], &[1.5, -0.5], &[f64::NAN, 1.0]] {
            assert!(Model::mean(vec![constant(1.0), constant(5.0)], weights).is_err(), "{weights:?}");
        }
        assert_eq!(Model::mean(vec![], &[]), Err(ModelError::Members));
    }
}
