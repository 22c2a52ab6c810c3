//! The near-earth branch of SGP4 for one satellite at many times, as loops that the compiler vectorises.
//!
//! The `sgp4` crate computes the constants and is the reference. This module evaluates its published equations (Hoots & Roehrich, Spacetrack
//! Report #3, §6, as corrected by Vallado et al., AIAA 2006-6753; symbols p₂₂ … p₄₆ as in the crate's documentation) for positions only. One
//! call to the crate takes about 250 ns, four fifths of it in the host's sine and cosine; here a position takes about 40 ns. A test checks that
//! every position agrees with the crate's within 1e-7 km. Deep-space satellites (period over 225 min) go through the crate.

#![allow(clippy::needless_range_loop, reason = "one index runs through ten arrays; zipped iterators would hide the equations")]
#![allow(clippy::inline_always, reason = "see simd.rs")]

use super::trig::{MAX_ARGUMENT_RAD, sin_cos, wrap_two_pi};
use crate::simd::widest;
use serde::Deserialize;

/// Number of times in a block: ten arrays of this many doubles fit in the first-level cache.
pub const BLOCK: usize = 64;

/// The crate's constants, read from their public serialised form, since the fields are private.
#[derive(Deserialize)]
struct Serialised {
    geopotential: Geopotential,
    right_ascension_dot: f64,
    argument_of_perigee_dot: f64,
    mean_anomaly_dot: f64,
    c1: f64,
    c4: f64,
    k0: f64,
    k1: f64,
    method: Method,
    orbit_0: Orbit,
}

#[derive(Deserialize)]
struct Geopotential {
    ae: f64,
    j2: f64,
}

#[derive(Deserialize)]
struct Orbit {
    inclination: f64,
    right_ascension: f64,
    eccentricity: f64,
    argument_of_perigee: f64,
    mean_anomaly: f64,
    mean_motion: f64,
}

#[derive(Deserialize)]
enum Method {
    NearEarth { a0: f64, k2: f64, k3: f64, k4: f64, k5: f64, k6: f64, high_altitude: HighAltitude },
    DeepSpace {},
}

/// Terms that exist if the perigee is above 220 km.
#[derive(Deserialize)]
enum HighAltitude {
    No {},
    Yes { c5: f64, d2: f64, d3: f64, d4: f64, eta: f64, k7: f64, k8: f64, k9: f64, k10: f64, elliptic: Elliptic },
}

/// Terms that exist if, in addition, the eccentricity is above 1e-4.
#[derive(Deserialize)]
enum Elliptic {
    No {},
    Yes { k11: f64, k12: f64, k13: f64 },
}

/// The constants of one satellite, flat. A group of terms that does not exist is zero, which removes it from the equations.
#[derive(Clone, Debug, Default)]
pub struct NearEarth {
    ae_km: f64,
    half_j2: f64,
    raan_0: f64,
    raan_dot: f64,
    arg_perigee_0: f64,
    arg_perigee_dot: f64,
    mean_anomaly_0: f64,
    mean_anomaly_dot: f64,
    mean_motion_0: f64,
    eccentricity_0: f64,
    inclination: f64,
    sin_inclination: f64,
    cos_inclination: f64,
    c1: f64,
    c4: f64,
    k0: f64,
    k1: f64,
    a0: f64,
    k2: f64,
    k3: f64,
    k4: f64,
    k5: f64,
    k6: f64,
    c5: f64,
    d2: f64,
    d3: f64,
    d4: f64,
    eta: f64,
    k7: f64,
    k8: f64,
    k9: f64,
    k10: f64,
    k11: f64,
    k12: f64,
    k13: f64,
    /// Largest time for which arguments stay in the interval of [`sin_cos`] [min].
    max_minutes: f64,
    /// Largest accepted distance from the Earth's centre [Earth radii].
    farthest_er: f64,
}

/// Positions of a block, TEME [km]; NaN: SGP4 has no solution or the satellite has decayed.
#[derive(Clone, Debug)]
pub struct BlockKm {
    /// Towards the mean equinox.
    pub x: [f64; BLOCK],
    /// In the equator, a quarter turn east.
    pub y: [f64; BLOCK],
    /// Along the axis.
    pub z: [f64; BLOCK],
}

impl Default for BlockKm {
    fn default() -> Self {
        Self { x: [0.0; BLOCK], y: [0.0; BLOCK], z: [0.0; BLOCK] }
    }
}

/// Intermediate values between the two halves of the computation, one per time.
struct Scratch {
    right_ascension: [f64; BLOCK],
    a: [f64; BLOCK],
    axn: [f64; BLOCK],
    ayn: [f64; BLOCK],
    p38: [f64; BLOCK],
    /// Zero, or NaN if SGP4 has no solution.
    invalid: [f64; BLOCK],
    ew: [f64; BLOCK],
    sin_ew: [f64; BLOCK],
    cos_ew: [f64; BLOCK],
}

/// [`NearEarth::positions`] as a closure for [`widest`].
struct Positions<'a> {
    satellite: &'a NearEarth,
    minutes: &'a [f64; BLOCK],
    out: &'a mut BlockKm,
}

impl pulp::NullaryFnOnce for Positions<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let mut scratch = Scratch::zeroed();
        self.satellite.secular(self.minutes, &mut scratch);
        solve_kepler(&mut scratch);
        self.satellite.short_period(&scratch, self.out);
    }
}

impl NearEarth {
    /// Create the flat constants; `None`: a deep-space satellite.
    pub fn new(constants: &sgp4::Constants, farthest_km: f64) -> Option<Self> {
        let value = serde_json::to_value(constants).ok()?;
        let s: Serialised = serde_json::from_value(value).ok()?;
        let Method::NearEarth { a0, k2, k3, k4, k5, k6, high_altitude } = s.method else {
            return None;
        };
        let orbit = s.orbit_0;
        let fastest = s.mean_anomaly_dot.abs() + s.argument_of_perigee_dot.abs() + s.right_ascension_dot.abs();
        let mut flat = Self {
            ae_km: s.geopotential.ae,
            half_j2: 0.5 * s.geopotential.j2,
            raan_0: orbit.right_ascension,
            raan_dot: s.right_ascension_dot,
            arg_perigee_0: orbit.argument_of_perigee,
            arg_perigee_dot: s.argument_of_perigee_dot,
            mean_anomaly_0: orbit.mean_anomaly,
            mean_anomaly_dot: s.mean_anomaly_dot,
            mean_motion_0: orbit.mean_motion,
            eccentricity_0: orbit.eccentricity,
            inclination: orbit.inclination,
            sin_inclination: orbit.inclination.sin(),
            cos_inclination: orbit.inclination.cos(),
            c1: s.c1,
            c4: s.c4,
            k0: s.k0,
            k1: s.k1,
            a0,
            k2,
            k3,
            k4,
            k5,
            k6,
            max_minutes: 0.5 * MAX_ARGUMENT_RAD / fastest,
            farthest_er: farthest_km / s.geopotential.ae,
            ..Self::default()
        };
        if let HighAltitude::Yes { c5, d2, d3, d4, eta, k7, k8, k9, k10, elliptic } = high_altitude {
            flat = Self { c5, d2, d3, d4, eta, k7, k8, k9, k10, ..flat };
            if let Elliptic::Yes { k11, k12, k13 } = elliptic {
                flat = Self { k11, k12, k13, ..flat };
            }
        }
        Some(flat)
    }

    /// Return whether `minutes` from the epoch is within the valid interval of this module.
    pub fn covers(&self, minutes: f64) -> bool {
        minutes.abs() <= self.max_minutes
    }

    /// Compute the positions at `minutes` from the epoch.
    pub fn positions(&self, minutes: &[f64; BLOCK], out: &mut BlockKm) {
        widest(Positions { satellite: self, minutes, out });
    }

    /// Compute the secular and long-period terms: p₂₂ to p₃₈.
    #[inline(always)]
    fn secular(&self, minutes: &[f64; BLOCK], out: &mut Scratch) {
        for i in 0..BLOCK {
            let t = minutes[i];
            let t2 = t * t;
            let p22 = self.raan_0 + self.raan_dot * t + self.k0 * t2;
            let p23 = self.arg_perigee_0 + self.arg_perigee_dot * t;
            let p24 = self.mean_anomaly_0 + self.mean_anomaly_dot * t;
            let (_, cos_p24) = sin_cos(p24);
            let bracket = 1.0 + self.eta * cos_p24;
            let p25 = self.k13 * (bracket * bracket * bracket - self.k11) + self.k12 * t;
            let p26 = p24 + p25;
            let arg_perigee = p23 - p25;
            let mean_anomaly = p26 + self.mean_motion_0 * (self.k1 * t2 + self.k8 * t2 * t + t2 * t2 * (self.k9 + t * self.k10));
            let decay = 1.0 - self.c1 * t - self.d2 * t2 - self.d3 * t2 * t - self.d4 * t2 * t2;
            let a = self.a0 * decay * decay;
            let (sin_p26, _) = sin_cos(p26);
            let p27 = self.eccentricity_0 - (self.c4 * t + self.c5 * (sin_p26 - self.k7));
            let eccentricity = if p27 > 1.0e-6 { p27 } else { 1.0e-6 };
            let (sin_w, cos_w) = sin_cos(arg_perigee);
            let p37 = 1.0 / (a * (1.0 - eccentricity * eccentricity));
            let axn = eccentricity * cos_w;
            let ayn = eccentricity * sin_w + p37 * self.k2;
            out.right_ascension[i] = p22;
            out.a[i] = a;
            out.axn[i] = axn;
            out.ayn[i] = ayn;
            out.p38[i] = wrap_two_pi(mean_anomaly + arg_perigee + p37 * self.k5 * axn);
            out.invalid[i] = nan_unless(p27 >= -0.001) + nan_unless(p27 < 1.0);
        }
    }

    /// Compute the short-period terms and the position: p₃₉ to u₂.
    #[inline(always)]
    fn short_period(&self, s: &Scratch, out: &mut BlockKm) {
        for i in 0..BLOCK {
            let (a, axn, ayn) = (s.a[i], s.axn[i], s.ayn[i]);
            let (sin_ew, cos_ew) = (s.sin_ew[i], s.cos_ew[i]);
            let p39 = axn * axn + ayn * ayn;
            let pl = a * (1.0 - p39);
            let p40 = axn * sin_ew - ayn * cos_ew;
            let r = a * (1.0 - (axn * cos_ew + ayn * sin_ew));
            let beta = (1.0 - p39).sqrt();
            let p41 = p40 / (1.0 + beta);
            // p₄₂ and p₄₃ are the sine and cosine of u up to rounding: normalised, they replace an arctangent and its sine and cosine.
            let sine = sin_ew - ayn - axn * p41;
            let cosine = cos_ew - axn + ayn * p41;
            let norm = 1.0 / (sine * sine + cosine * cosine).sqrt();
            let (sin_u, cos_u) = (sine * norm, cosine * norm);
            let a_over_r = a / r;
            let (p42, p43) = (a_over_r * sine, a_over_r * cosine);
            let p44 = 2.0 * p43 * p42;
            let p45 = 1.0 - 2.0 * p42 * p42;
            let half_j2_over_pl = self.half_j2 / pl;
            let p46 = half_j2_over_pl / pl;
            let rk = r * (1.0 - 1.5 * p46 * beta * self.k6) + 0.5 * half_j2_over_pl * self.k3 * p45;
            // uₖ = u − ¹/₄ p₄₆ p₃₄ p₄₄
            let (sin_du, cos_du) = sin_cos(0.25 * p46 * self.k4 * p44);
            let sin_uk = sin_u * cos_du - cos_u * sin_du;
            let cos_uk = cos_u * cos_du + sin_u * sin_du;
            let inclination = self.inclination + 1.5 * p46 * self.cos_inclination * self.sin_inclination * p45;
            let right_ascension = s.right_ascension[i] + 1.5 * p46 * self.cos_inclination * p44;
            let (sin_i, cos_i) = sin_cos(inclination);
            let (sin_o, cos_o) = sin_cos(right_ascension);
            // Below the Earth's radius the satellite has decayed, far out the equations diverge; a NaN anywhere above fails the comparisons too.
            let in_bounds = nan_unless(rk >= 1.0) + nan_unless(rk <= self.farthest_er);
            let km = rk * self.ae_km + s.invalid[i] + in_bounds + nan_unless(pl >= 0.0);
            out.x[i] = km * (cos_o * cos_uk - sin_o * cos_i * sin_uk);
            out.y[i] = km * (cos_o * cos_i * sin_uk + sin_o * cos_uk);
            out.z[i] = km * (sin_i * sin_uk);
        }
    }
}

/// Return zero if `holds`, else NaN, to be added to a result. Uses bits, since a branch would prevent vectorisation.
#[inline(always)]
fn nan_unless(holds: bool) -> f64 {
    f64::from_bits(f64::NAN.to_bits() & u64::from(holds).wrapping_sub(1))
}

/// Solve Kepler's equation for E + ω by Newton's method, all times of the block until each is within 1e-12 rad (SGP4's own bound), at most ten steps.
#[inline(always)]
fn solve_kepler(s: &mut Scratch) {
    s.ew = s.p38;
    for _ in 0..10 {
        let mut delta = [0.0; BLOCK];
        let mut pending = 0_u64;
        for i in 0..BLOCK {
            let (sin_ew, cos_ew) = sin_cos(s.ew[i]);
            let step = (s.p38[i] - s.ayn[i] * cos_ew + s.axn[i] * sin_ew - s.ew[i]) / (1.0 - cos_ew * s.axn[i] - sin_ew * s.ayn[i]);
            let step = if step > 0.95 { 0.95 } else { step };
            delta[i] = if step < -0.95 { -0.95 } else { step };
            pending |= u64::from(step.abs() >= 1.0e-12);
            s.sin_ew[i] = sin_ew;
            s.cos_ew[i] = cos_ew;
        }
        if pending == 0 {
            return;
        }
        for i in 0..BLOCK {
            s.ew[i] += delta[i];
        }
    }
    for i in 0..BLOCK {
        (s.sin_ew[i], s.cos_ew[i]) = sin_cos(s.ew[i]);
    }
}

impl Scratch {
    #[inline(always)]
    fn zeroed() -> Self {
        let zero = [0.0; BLOCK];
        Self { right_ascension: zero, a: zero, axn: zero, ayn: zero, p38: zero, invalid: zero, ew: zero, sin_ew: zero, cos_ew: zero }
    }
}
