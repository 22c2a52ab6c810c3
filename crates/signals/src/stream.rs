//! Rows of features, one sample at a time or over arrays.

use crate::error::SignalError;
use crate::slots::Slots;
use crate::spec::FeatureSpec;
use crate::windows::Window;
use std::collections::VecDeque;

/// Time without a sample after which the history starts afresh [s]; chosen here: two slots of 15 s.
const LONGEST_GAP_S: f64 = 30.0;
/// Largest time of a sample [s].
const LATEST_S: f64 = 1e12;
/// Seconds of a day.
const DAY_S: f64 = 86_400.0;

/// Computes the row of features at each sample of a signal.
///
/// Steps without a sample hold the last value; `age_s` says for how long. After 30 s without one the history starts afresh.
///
/// ```
/// # use bentpipe_signals::{FeatureSpec, FeatureStream};
/// let mut stream = FeatureStream::new(FeatureSpec { lags: 2, ..FeatureSpec::default() })?;
/// stream.push(0.0, 30.0, &[])?;
/// assert!(!stream.is_ready());
/// assert_eq!(stream.push(1.0, 40.0, &[])?, [40.0, 30.0, 0.0]);
/// assert!(stream.is_ready());
/// # Ok::<(), bentpipe_signals::SignalError>(())
/// ```
#[derive(Clone, Debug)]
pub struct FeatureStream {
    spec: FeatureSpec,
    /// Newest first.
    lags: VecDeque<f64>,
    windows: Vec<Window>,
    means: Vec<f64>,
    slots: Option<Slots>,
    reference: Option<Window>,
    /// Time of the newest row, and of the newest sample [s].
    last: Option<(f64, f64)>,
    steps: usize,
    row: Vec<f64>,
    /// Level of the reference.
    level: f64,
}

impl FeatureStream {
    /// Create a stream without history.
    ///
    /// # Errors
    /// [`FeatureSpec::check`].
    pub fn new(spec: FeatureSpec) -> Result<Self, SignalError> {
        spec.check()?;
        Ok(Self {
            lags: VecDeque::with_capacity(spec.lags),
            windows: spec.windows_s.iter().map(|&window_s| Window::new(spec.steps(window_s))).collect(),
            means: Vec::with_capacity(spec.ewma.len()),
            slots: spec.slot.map(|clock| Slots::new(clock, spec.earlier_slots)),
            reference: (spec.reference_s > 0.0).then(|| Window::new(spec.steps(spec.reference_s))),
            last: None,
            steps: 0,
            row: Vec::with_capacity(spec.columns()),
            level: f64::NAN,
            spec,
        })
    }

    /// Return the specification.
    #[must_use]
    pub const fn spec(&self) -> &FeatureSpec {
        &self.spec
    }

    /// Add the sample of a step and return its row; `value` NaN: the step has none. Covariates may be NaN.
    ///
    /// # Errors
    /// A time that is not ascending by a step, a value that is infinite (or negative, if relative), a wrong number of covariates.
    pub fn push(&mut self, t_s: f64, value: f64, covariates: &[f64]) -> Result<&[f64], SignalError> {
        self.check(t_s, value, covariates)?;
        let step_s = self.spec.step_s;
        if let Some((row_s, sample_s)) = self.last {
            if t_s - sample_s > LONGEST_GAP_S.max(2.0 * step_s) {
                self.clear();
            } else {
                // Steps that were left out.
                let mut missing_s = row_s + step_s;
                while missing_s < t_s - step_s / 2.0 {
                    self.hold(missing_s);
                    missing_s += step_s;
                }
            }
        }
        if value.is_nan() {
            self.hold(t_s);
        } else {
            let level = if self.spec.relative { libm::log(value + self.spec.floor) } else { value };
            self.advance(t_s, t_s, level);
        }
        self.row.extend_from_slice(covariates);
        Ok(&self.row)
    }

    /// Return whether the newest row has as many samples behind it as it has lags.
    #[must_use]
    pub const fn is_ready(&self) -> bool {
        self.steps >= self.spec.lags
    }

    /// Return the reference of the newest row in the signal's unit; NaN before the first sample.
    #[must_use]
    pub fn reference(&self) -> f64 {
        if self.spec.relative { libm::exp(self.level) - self.spec.floor } else { self.level }
    }

    /// Return the value, in the signal's unit, of a prediction at the newest row: the inverse of what makes a value a feature.
    #[must_use]
    pub fn value_of(&self, prediction: f64) -> f64 {
        if self.spec.relative { libm::exp(prediction + self.level) - self.spec.floor } else { prediction }
    }

    /// Return what is subtracted from levels.
    const fn origin(&self) -> f64 {
        if self.spec.relative { self.level } else { 0.0 }
    }

    fn check(&self, t_s: f64, value: f64, covariates: &[f64]) -> Result<(), SignalError> {
        if !t_s.is_finite() || t_s.abs() > LATEST_S {
            return Err(SignalError::Time { t_s });
        }
        if let Some((last_s, _)) = self.last
            && t_s - last_s < self.spec.step_s / 2.0
        {
            return Err(SignalError::NotAscending { t_s, last_s, step_s: self.spec.step_s });
        }
        let is_relative = self.spec.relative;
        let has_logarithm = !is_relative || value.is_nan() || (value >= 0.0 && value + self.spec.floor > 0.0);
        if value.is_infinite() || !has_logarithm {
            return Err(SignalError::Value { value, is_relative });
        }
        if covariates.len() != self.spec.covariates {
            return Err(SignalError::Covariates { given: covariates.len(), expected: self.spec.covariates });
        }
        Ok(())
    }

    /// Make the row of a step without a sample: the last value holds.
    fn hold(&mut self, t_s: f64) {
        if let (Some(&level), Some((_, sample_s))) = (self.lags.front(), self.last) {
            self.advance(t_s, sample_s, level);
        } else {
            self.row.clear();
            self.row.resize(self.spec.columns() - self.spec.covariates, f64::NAN);
        }
    }

    fn advance(&mut self, t_s: f64, sample_s: f64, level: f64) {
        self.last = Some((t_s, sample_s));
        self.steps = self.steps.saturating_add(1);
        if self.lags.len() == self.spec.lags {
            self.lags.pop_back();
        }
        self.lags.push_front(level);
        if let Some(reference) = &mut self.reference {
            reference.push(level);
        }
        self.level = self.reference.as_ref().map_or(level, Window::mean);
        let origin = self.origin();
        self.row.clear();
        self.row.extend(self.lags.iter().map(|lag| lag - origin));
        let oldest = self.lags.back().map_or(0.0, |lag| lag - origin);
        self.row.resize(self.spec.lags, oldest);
        for window in &mut self.windows {
            window.push(level);
            self.row.extend([window.mean() - origin, window.least() - origin, window.most() - origin, window.sd()]);
        }
        if self.means.is_empty() {
            self.means.resize(self.spec.ewma.len(), level);
        }
        for (mean, &weight) in self.means.iter_mut().zip(&self.spec.ewma) {
            *mean += weight * (level - *mean);
            self.row.push(*mean - origin);
        }
        self.row.push(t_s - sample_s);
        if let Some(slots) = &mut self.slots {
            slots.push(t_s, level, origin, &mut self.row);
        }
        if self.spec.time_of_day {
            let angle = std::f64::consts::TAU * (t_s - (t_s / DAY_S).floor() * DAY_S) / DAY_S;
            self.row.extend([libm::sin(angle), libm::cos(angle)]);
        }
    }

    fn clear(&mut self) {
        self.lags.clear();
        self.windows.iter_mut().for_each(Window::clear);
        self.means.clear();
        if let Some(slots) = &mut self.slots {
            slots.clear();
        }
        if let Some(reference) = &mut self.reference {
            reference.clear();
        }
        (self.last, self.steps, self.level) = (None, 0, f64::NAN);
    }
}

/// Rows of features of a whole signal.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FeatureTable {
    /// Rows, one after the other.
    pub rows: Vec<f64>,
    /// Whether a row has enough history.
    pub is_ready: Vec<bool>,
    /// References of the rows, in the signal's unit.
    pub reference: Vec<f64>,
}

/// Compute the rows of a signal: what a [`FeatureStream`] returns for its samples in turn. `covariates`: rows, one after the other.
///
/// # Errors
/// Those of [`FeatureStream::new`] and [`FeatureStream::push`]; a wrong number of covariates.
///
/// # Panics
/// If `t_s` and `values` differ in length.
pub fn table(spec: &FeatureSpec, t_s: &[f64], values: &[f64], covariates: &[f64]) -> Result<FeatureTable, SignalError> {
    assert_eq!(t_s.len(), values.len());
    let mut stream = FeatureStream::new(spec.clone())?;
    if covariates.len() != values.len() * spec.covariates {
        let given = covariates.len() / values.len().max(1);
        return Err(SignalError::Covariates { given, expected: spec.covariates });
    }
    let mut table = FeatureTable {
        rows: Vec::with_capacity(values.len() * spec.columns()),
        is_ready: Vec::with_capacity(values.len()),
        reference: Vec::with_capacity(values.len()),
    };
    for (number, (&t_s, &value)) in t_s.iter().zip(values).enumerate() {
        let own = &covariates[number * spec.covariates..(number + 1) * spec.covariates];
        table.rows.extend_from_slice(stream.push(t_s, value, own)?);
        table.is_ready.push(stream.is_ready());
        table.reference.push(stream.reference());
    }
    Ok(table)
}

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;
