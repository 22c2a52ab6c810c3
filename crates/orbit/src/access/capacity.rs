//! Capacity of a slot: the terminal's share of the channel, in steps of 100 ms.
//!
//! ```text
//! C(t) = C₀ · η(elevation) · Λ^(−κ) · exp(s + x(t) + e(t)),   clipped to the range of published tests
//! ```
//!
//! Λ is the load without the slot's own factor. η is Shannon's spectral efficiency of the terminal's leg relative to the zenith (free-space loss
//! over the slant range); `s` is drawn once a slot, `x` is a first-order autoregression, `e` is white. Not fitted yet: the constants come from
//! published tests (see [`super::params`]).

use super::params::{CapacityParams, CapacitySide};
use bentpipe_profile::rng::Stream;

/// Length of a step [ns].
pub const STEP_NS: u64 = 100_000_000;

const EARTH_KM: f64 = 6371.0; // mean radius, IUGG

/// Return the altitude of a satellite at this range and elevation, over a spherical Earth [km].
#[must_use]
pub fn altitude_km(range_km: f64, elevation_deg: f64) -> f64 {
    let sin = libm::sin(elevation_deg.to_radians());
    (EARTH_KM * EARTH_KM + range_km * range_km + 2.0 * EARTH_KM * range_km * sin).sqrt() - EARTH_KM
}

/// Return the spectral efficiency relative to the zenith: `log2(1 + S (1/r)²) / log2(1 + S)`, `r` the slant range over the altitude.
#[must_use]
pub fn efficiency(elevation_deg: f64, altitude_km: f64, zenith_snr_db: f64) -> f64 {
    let snr = libm::exp10(zenith_snr_db / 10.0);
    let sin = libm::sin(elevation_deg.to_radians());
    let depth_km = EARTH_KM * sin;
    let range_km = (depth_km * depth_km + 2.0 * EARTH_KM * altitude_km + altitude_km * altitude_km).sqrt() - depth_km;
    let ratio = altitude_km / range_km;
    libm::log2(1.0 + snr * ratio * ratio) / libm::log2(1.0 + snr)
}

/// Draw the capacity of one direction over a slot from `from_ns` to `until_ns`: steps `(ns, bit/s)`. `efficiency_at` returns [`efficiency`] at a time.
#[must_use]
pub fn steps(
    stream: &mut Stream,
    params: &CapacityParams,
    side: &CapacitySide,
    load: f64,
    span_ns: (u64, u64),
    efficiency_at: impl Fn(u64) -> f64,
) -> Vec<(u64, u64)> {
    let rho = libm::exp(-(STEP_NS as f64 / 1e9) / params.slow_time_s);
    let slot_log = params.slot_log_sigma * stream.normal();
    let mut x = stream.normal();
    let level_mbps = side.median_mbps * libm::pow(load, -params.load_power);
    let (from_ns, until_ns) = span_ns;
    let mut out = Vec::new();
    let mut at = from_ns;
    while at < until_ns {
        let log = slot_log + params.slow_log_sigma * x + params.fast_log_sigma * stream.normal();
        let mbps = (level_mbps * efficiency_at(at) * libm::exp(log)).clamp(side.least_mbps, side.most_mbps);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // clamped
        out.push((at, (mbps * 1e6) as u64));
        x = rho * x + (1.0 - rho * rho).sqrt() * stream.normal();
        at += STEP_NS;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use bentpipe_profile::Streams;

    #[test]
    fn efficiency_is_highest_at_the_zenith() {
        let eta = |deg| efficiency(deg, 550.0, 10.0);
        assert!((eta(90.0) - 1.0).abs() < 1e-12);
        // At 25° the slant range is 1123 km, 6.2 dB below the zenith's: log2(1 + 2.40) / log2(11).
        assert!((eta(25.0) - 0.51).abs() < 0.01, "{}", eta(25.0));
    }

    #[test]
    fn capacity_falls_with_load() {
        let params = CapacityParams::default();
        let mean = |load| {
            let capacity = steps(&mut Streams::new(1).stream("c"), &params, &params.down, load, (0, 15_000_000_000), |_| 1.0);
            assert_eq!(capacity.len(), 150);
            capacity.iter().map(|s| s.1 as f64).sum::<f64>() / 150.0
        };
        assert!(mean(2.0) < 0.7 * mean(1.0));
    }
}
