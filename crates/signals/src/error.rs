//! Errors of specifications and samples.

/// A specification or a sample that cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SignalError {
    /// A number of the specification is out of its range.
    #[error("{name}: {value}; expected {expected}")]
    OutOfRange {
        /// Name of the field.
        name: &'static str,
        /// Its value.
        value: f64,
        /// What is allowed.
        expected: &'static str,
    },
    /// The specification has more columns than [`crate::spec::MOST_COLUMNS`].
    #[error("{columns} features; expected at most {most}")]
    TooMany {
        /// Number of columns.
        columns: usize,
        /// Largest number.
        most: usize,
    },
    /// Samples are not in the order of their times.
    #[error("a sample of {t_s} s follows one of {last_s} s; expected ascending times, at least a step of {step_s} s apart")]
    NotAscending {
        /// Time of the sample [s].
        t_s: f64,
        /// Time of the sample before it [s].
        last_s: f64,
        /// Step of the signal [s].
        step_s: f64,
    },
    /// A time is not a number that can be used.
    #[error("a sample's time is {t_s} s; expected a finite number within ±1e12 s")]
    Time {
        /// The time [s].
        t_s: f64,
    },
    /// A sample has a wrong number of covariates.
    #[error("a sample has {given} covariates; expected {expected}")]
    Covariates {
        /// Number of the sample's.
        given: usize,
        /// Number in the specification.
        expected: usize,
    },
    /// A value is infinite or, where ratios are taken, not above minus the floor.
    #[error("a sample's value is {value}; expected a finite number{}", if *.is_relative { " of 0 or more" } else { "" })]
    Value {
        /// The value.
        value: f64,
        /// Whether features are ratios.
        is_relative: bool,
    },
}
