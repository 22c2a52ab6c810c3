//! Load of the cell relative to a median hour: a product of factors.
//!
//! ```text
//! ln L = A cos(2π (h − h_peak) / 24)  +  σ_P Z(Profile)     capacity and loss
//! ln ℓ(slot) = δ ln L  +  σ_S Z(slot)                       delay
//! ```
//!
//! `h` is the local mean solar hour. Civil time differs from it by an hour or two, over which the cosine hardly changes.

use super::params::LoadParams;
use bentpipe_profile::Streams;

const DAY_NS: i64 = 86_400_000_000_000;

/// Return the local mean solar hour, 0 to 24, of a UTC instant [ns since 1970] at a longitude.
#[must_use]
pub fn solar_hour(unix_ns: i64, lon_deg: f64) -> f64 {
    let utc_h = unix_ns.rem_euclid(DAY_NS) as f64 / 3.6e12;
    (utc_h + lon_deg / 15.0).rem_euclid(24.0)
}

/// Return ln of the factor of the hour.
#[must_use]
pub fn daily_log(params: &LoadParams, unix_ns: i64, lon_deg: f64) -> f64 {
    let phase = std::f64::consts::TAU * (solar_hour(unix_ns, lon_deg) - params.peak_solar_hour) / 24.0;
    params.daily_log_amplitude * libm::cos(phase)
}

/// Draw ln of the factor that all slots of a Profile share.
#[must_use]
pub fn profile_log(params: &LoadParams, streams: Streams) -> f64 {
    params.profile_log_sigma * streams.stream("load/profile").normal()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_NS: i64 = 3_600_000_000_000;

    #[test]
    fn the_solar_hour_follows_longitude() {
        assert!((solar_hour(12 * HOUR_NS, 0.0) - 12.0).abs() < 1e-9);
        assert!((solar_hour(0, 145.0) - 145.0 / 15.0).abs() < 1e-9);
        assert!((solar_hour(-HOUR_NS, -15.0) - 22.0).abs() < 1e-9);
    }

    #[test]
    fn the_load_is_highest_at_the_peak_hour() {
        let params = LoadParams::default();
        // At noon UTC, a longitude for each solar hour.
        let at = |hour: f64| daily_log(&params, 12 * HOUR_NS, (hour - 12.0) * 15.0);
        assert!((at(params.peak_solar_hour) - params.daily_log_amplitude).abs() < 1e-9);
        assert!((at(params.peak_solar_hour - 12.0) + params.daily_log_amplitude).abs() < 1e-9);
    }
}
