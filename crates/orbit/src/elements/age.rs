//! Age of elements at the requested time, and the position error that it causes.

use super::Elements;
use bentpipe_profile::Utc;

/// Days between elements and the requested time above which [`age_warning`] warns. Chosen here, because by then the along-track error of a low
/// satellite that manoeuvres exceeds 50 km (see [`expected_error_km`]), about a degree and a half at the terminal.
pub const WARN_AFTER_DAYS: f64 = 3.0;

/// Largest position error that is stated as a number [km]. Chosen here: beyond the radius of a low orbit, a satellite may be anywhere on it.
const MAX_STATED_KM: f64 = 10_000.0;

/// A warning that elements are too old (or too new) for the requested time.
#[derive(Clone, Debug, PartialEq)]
pub struct AgeWarning {
    /// Largest distance in time between any satellite's epoch and the requested time [days].
    pub worst_age_days: f64,
    /// Median of the same [days].
    pub median_age_days: f64,
    /// Expected position error at the median age [km].
    pub expected_error_km: f64,
}

impl std::fmt::Display for AgeWarning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let error = if self.expected_error_km <= MAX_STATED_KM {
            format!("about {:.0} km", self.expected_error_km)
        } else {
            "more than 10,000 km".to_owned()
        };
        write!(
            f,
            "the elements are {:.1} days (median; worst {:.1}) from the requested time: expect positions to be off by {error}; use elements less than a day away to find the serving satellite",
            self.median_age_days, self.worst_age_days
        )
    }
}

/// Return the requested time minus the epoch [days]; negative before the epoch.
#[must_use]
pub fn age_days(elements: &Elements, at: Utc) -> f64 {
    (at.0 as f64 - elements.epoch.0 as f64) / 86_400e9
}

/// Return the expected position error of a Starlink element set `age_days` from its epoch [km].
///
/// A power law through two medians: 15.5 km after one day and 166 km after seven, Celestrak's Starlink elements of 9 May 2026 compared with
/// those of the following days. Satellites without manoeuvres and drag have smaller errors. At age zero it gives 1 km, the accuracy of SGP4
/// itself (Vallado et al., AIAA 2006-6753, §I).
#[must_use]
pub fn expected_error_km(age_days: f64) -> f64 {
    const AFTER_ONE_DAY_KM: f64 = 15.5;
    const AFTER_SEVEN_DAYS_KM: f64 = 166.0;
    let exponent = (AFTER_SEVEN_DAYS_KM / AFTER_ONE_DAY_KM).ln() / 7.0_f64.ln();
    (AFTER_ONE_DAY_KM * age_days.abs().powf(exponent)).max(1.0)
}

/// Return a warning if the median distance between epochs and `at` exceeds [`WARN_AFTER_DAYS`]; `None`: the elements are recent enough.
#[must_use]
pub fn age_warning(elements: &[Elements], at: Utc) -> Option<AgeWarning> {
    let mut ages: Vec<f64> = elements.iter().map(|e| age_days(e, at).abs()).collect();
    ages.sort_by(f64::total_cmp);
    let worst = *ages.last()?;
    let median = ages[ages.len() / 2];
    (median > WARN_AFTER_DAYS).then(|| AgeWarning {
        worst_age_days: worst,
        median_age_days: median,
        expected_error_km: expected_error_km(median),
    })
}
