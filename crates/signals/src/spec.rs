//! The specification of a row of features.

use crate::error::SignalError;
use crate::slots::SlotClock;

/// Most columns of a row; chosen here: far above what any model of ours uses.
pub const MOST_COLUMNS: usize = 4096;
/// Longest trailing window [steps].
pub const LONGEST_WINDOW: usize = 1 << 20;

/// What a row of features consists of.
///
/// With `relative`, a level x stands as ln(x + `floor`) less the same of the *reference*, so that a model of one site fits another; without it, as x.
/// The reference is the mean of the last `reference_s` seconds (of ln(x + `floor`), if relative), or the last sample if `reference_s` is 0.
#[derive(Clone, Debug, PartialEq)]
pub struct FeatureSpec {
    /// Step of the signal [s].
    pub step_s: f64,
    /// Number of newest samples.
    pub lags: usize,
    /// Lengths of trailing windows [s]; of each: mean, minimum, maximum and standard deviation.
    pub windows_s: Vec<f64>,
    /// Weights of the newest sample in exponentially weighted means.
    pub ewma: Vec<f64>,
    /// Clock of reconfigurations; `None`: no features of slots.
    pub slot: Option<SlotClock>,
    /// Number of earlier slots whose means are features.
    pub earlier_slots: usize,
    /// Whether the time of day (UTC) is a feature.
    pub time_of_day: bool,
    /// Number of further columns that come with each sample.
    pub covariates: usize,
    /// Added to values before logarithms.
    pub floor: f64,
    /// Whether levels are ratios to the reference.
    pub relative: bool,
    /// Length of the window of the reference [s]; 0: the last sample.
    pub reference_s: f64,
}

impl FeatureSpec {
    /// Check the specification.
    ///
    /// # Errors
    /// The first field that is out of its range.
    pub fn check(&self) -> Result<(), SignalError> {
        let check = |name, value: f64, ok: bool, expected| if ok { Ok(()) } else { Err(SignalError::OutOfRange { name, value, expected }) };
        check("step_s", self.step_s, (1e-3..=86_400.0).contains(&self.step_s), "0.001 to 86400 s")?;
        check("lags", self.lags as f64, (1..=MOST_COLUMNS).contains(&self.lags), "1 to 4096 samples")?;
        for &window_s in self.windows_s.iter().chain((self.reference_s != 0.0).then_some(&self.reference_s)) {
            let steps = window_s / self.step_s;
            check("windows_s", window_s, (1.0..=LONGEST_WINDOW as f64).contains(&steps), "one to 1048576 steps")?;
        }
        for &weight in &self.ewma {
            check("ewma", weight, weight > 0.0 && weight <= 1.0, "a weight above 0, at most 1")?;
        }
        check("floor", self.floor, self.floor.is_finite() && self.floor >= 0.0, "0 or more")?;
        if let Some(clock) = self.slot {
            check("period_s", clock.period_s, (self.step_s..=86_400.0).contains(&clock.period_s), "a step of the signal to 86400 s")?;
            check("phase_s", clock.phase_s, clock.phase_s.is_finite(), "a finite number")?;
        }
        check("earlier_slots", self.earlier_slots as f64, self.earlier_slots <= 256, "at most 256")?;
        check("covariates", self.covariates as f64, self.covariates <= MOST_COLUMNS, "at most 4096")?;
        let columns = self.columns();
        if columns > MOST_COLUMNS {
            return Err(SignalError::TooMany { columns, most: MOST_COLUMNS });
        }
        Ok(())
    }

    /// Return the number of columns of a row.
    #[must_use]
    pub fn columns(&self) -> usize {
        let slot = if self.slot.is_some() { 4 + self.earlier_slots } else { 0 };
        self.lags + 4 * self.windows_s.len() + self.ewma.len() + 1 + slot + 2 * usize::from(self.time_of_day) + self.covariates
    }

    /// Return the columns' names in the order of a row; covariates are named by their numbers.
    ///
    /// ```
    /// # use bentpipe_signals::FeatureSpec;
    /// let spec = FeatureSpec { lags: 2, windows_s: vec![5.0], ..FeatureSpec::default() };
    /// assert_eq!(spec.names(), ["lag_0", "lag_1", "mean_5s", "min_5s", "max_5s", "sd_5s", "age_s"]);
    /// ```
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = (0..self.lags).map(|lag| format!("lag_{lag}")).collect();
        for window_s in &self.windows_s {
            names.extend(["mean", "min", "max", "sd"].map(|statistic| format!("{statistic}_{window_s}s")));
        }
        names.extend(self.ewma.iter().map(|weight| format!("ewma_{weight}")));
        names.push("age_s".to_owned());
        if self.slot.is_some() {
            names.extend(["slot_since_s", "slot_to_edge_s", "slot_mean", "slot_samples"].map(str::to_owned));
            names.extend((1..=self.earlier_slots).map(|back| format!("slot_mean_{back}")));
        }
        if self.time_of_day {
            names.extend(["day_sin", "day_cos"].map(str::to_owned));
        }
        names.extend((0..self.covariates).map(|number| format!("covariate_{number}")));
        names
    }

    /// Return the number of steps of a window of `window_s`, at least 1.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // checked above
    pub fn steps(&self, window_s: f64) -> usize {
        (window_s / self.step_s + 0.5).floor().max(1.0) as usize
    }
}

impl Default for FeatureSpec {
    /// One sample a second, the last 15 of them.
    fn default() -> Self {
        Self {
            step_s: 1.0,
            lags: 15,
            windows_s: vec![],
            ewma: vec![],
            slot: None,
            earlier_slots: 0,
            time_of_day: false,
            covariates: 0,
            floor: 0.0,
            relative: false,
            reference_s: 0.0,
        }
    }
}
